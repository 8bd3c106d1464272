//! Stubs that the VM's tables name: entry points in blobs of many stubs (`StubRoutines`).

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::hotspot::vm::Vm;

/// Type of the fields that are entry points.
const ENTRY: &str = "address";

/// A field that is no entry point: a return address in a stub whose entry is not in the tables.
const CALL_STUB_RETURN: &str = "_call_stub_return_address";

/// Fields that are tables of numbers, not code.
const DATA: [&str; 2] = ["_crc_table_adr", "_crc32c_table_addr"];

/// A stub of the VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StubRoutine {
    /// Entry point.
    pub entry: Addr,
    /// Name in the tables, without the underscore: `jint_disjoint_arraycopy`.
    pub name: String,
}

/// Returns all stubs that the tables name and this VM has generated, by address.
pub(super) fn routines(vm: &Vm<'_>) -> Vec<StubRoutine> {
    let fields = vm.tables.statics("StubRoutines");
    let code =
        fields.filter(|(name, field)| field.type_name == ENTRY && *name != CALL_STUB_RETURN && !DATA.contains(name));
    let entry = |(name, field): (&str, &crate::runtimes::hotspot::vm::Field)| {
        let entry = vm.memory.ptr(Addr::new(field.location)).ok().filter(|at| !at.is_null())?;
        Some(StubRoutine { entry, name: name.trim_start_matches('_').to_owned() })
    };
    let mut out: Vec<_> = code.filter_map(entry).collect();
    // Several names may have one entry: `arrayof_jint_arraycopy` is `jint_arraycopy` on x86_64.
    out.sort_by(|a, b| (a.entry, a.name.len(), &a.name).cmp(&(b.entry, b.name.len(), &b.name)));
    out.dedup_by_key(|routine| routine.entry);
    out
}
