//! Flags of the VM (`-XX:`) with their values in the core: `JVMFlag::flags`, an array of names and addresses.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::vm::view::{VmStruct, number};
use crate::runtimes::hotspot::vm::{Tables, VmError};

/// Addresses of the flags' values, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    values: HashMap<String, Addr>,
}

impl Flags {
    pub(super) fn read(memory: &dyn Memory, tables: &Tables) -> Result<Flags, VmError> {
        let at = |name: &'static str| {
            let found = tables.static_field("JVMFlag", name)?;
            memory.u64(Addr::new(found.location)).map_err(VmError::fault("JVMFlag", name))
        };
        let (first, count) = (Addr::new(at("flags")?), at("numFlags")?.min(limits::MAX_VM_FLAGS));
        let size = tables.size_of("JVMFlag")?;
        let mut values = HashMap::new();
        for i in 0..count {
            let flag = VmStruct::new(memory, tables, "JVMFlag", first.wrapping_add(i.wrapping_mul(size)));
            let name = flag.ptr("_name")?;
            // The last entry has no name.
            if name.is_null() {
                continue;
            }
            if let Ok(name) = memory.public_text(name, limits::MAX_VM_NAME) {
                values.insert(name, flag.ptr("_addr")?);
            }
        }
        Ok(Flags { values })
    }

    pub(super) fn value(&self, memory: &dyn Memory, name: &str, width: u8) -> Option<u64> {
        number(memory, *self.values.get(name)?, width).ok()
    }
}
