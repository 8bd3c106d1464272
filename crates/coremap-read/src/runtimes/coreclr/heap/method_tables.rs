//! Validates MethodTables and reads the size of their objects.
//!
//! Sources: src/coreclr/vm: methodtable.h (GetBaseSize, RawGetComponentSize), methodtable.cpp (MethodTable::Validate).

use std::sync::Arc;

use crate::addr::Addr;
use crate::layout::ViewError;
use crate::limits;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::clr_gc::{MIN_BASE_SIZE, MIN_OBJECT, MethodTableInfo, MethodTables};
use crate::runtimes::coreclr::types::{HAS_COMPONENT_SIZE, TypeSystem};

/// MTFlags and BaseSize of the MethodTable of free space, an array of bytes. They are the same in all versions.
const FREE_FLAGS: u32 = 0x8000_0001;
const FREE_BASE_SIZE: u32 = 24;

/// MethodTables of CoreCLR found so far.
pub(super) struct Tables<'p> {
    types: Arc<TypeSystem<'p>>,
    free: Option<Addr>,
    pub(super) cache: MethodTables,
}

impl<'p> Tables<'p> {
    pub(super) fn new(types: Arc<TypeSystem<'p>>) -> Tables<'p> {
        let global = types.runtime.globals.pointer(types.memory, &types.runtime.layout, "FreeObjectMethodTable");
        // Slots of globals move between servicing releases. If the slot does not lead to a valid table, free space is
        // recognised by its shape.
        let free = global.ok().filter(|&address| {
            let view = types.view("MethodTable", address);
            view.u32("MTFlags").ok().zip(view.u32("BaseSize").ok()) == Some((FREE_FLAGS, FREE_BASE_SIZE))
        });
        let info = MethodTableInfo {
            address: free.unwrap_or(Addr::NULL),
            flags: FREE_FLAGS,
            base_size: FREE_BASE_SIZE,
            component_size: 1,
            free: true,
            string: false,
        };
        let cache = MethodTables::new(info, None);
        Tables { types, free, cache }
    }

    pub(super) fn lookup(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.cache.lookup(address, |at| self.read(at).ok().flatten())
    }

    fn read(&self, address: Addr) -> Result<Option<MethodTableInfo>, ViewError> {
        if address.is_null() || !address.is_aligned(8) {
            return Ok(None);
        }
        let view = self.types.view("MethodTable", address);
        let (flags, base_size) = (view.u32("MTFlags")?, view.u32("BaseSize")?);
        let component_size = if flags & HAS_COMPONENT_SIZE == 0 { 0 } else { flags as u16 };
        let info = MethodTableInfo {
            address,
            flags,
            base_size,
            component_size,
            free: self.free == Some(address),
            string: MethodTableInfo::is_string(base_size, component_size),
        };
        let shaped_as_free = flags == FREE_FLAGS
            && base_size == FREE_BASE_SIZE
            && view.u64("EEClassOrCanonMT").is_ok_and(|class| class == 0);
        if info.free || (self.free.is_none() && shaped_as_free) {
            return Ok(Some(MethodTableInfo { free: true, ..info }));
        }
        let sized = (MIN_BASE_SIZE..=limits::MAX_BASE_SIZE).contains(&base_size);
        // Only strings and arrays may have an unaligned or smaller base size.
        let aligned = info.counted() || (base_size.is_multiple_of(8) && u64::from(base_size) >= MIN_OBJECT);
        Ok((sized && aligned && self.types.is_method_table(address)?).then_some(info))
    }
}
