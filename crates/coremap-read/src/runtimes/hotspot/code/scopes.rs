//! Finds the methods that run at an address of a compiled method.
//!
//! The compilers leave debug information at calls and safepoints (PcDesc). It leads to scopes, each with its caller
//! (ScopeDesc).

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Unsigned5, WORD};
use crate::runtimes::hotspot::code::Blob;
use crate::runtimes::hotspot::vm::{Vm, VmError};

/// Bytes of a scope that are read: its caller, its method and its bytecode index, at most five bytes each.
const SCOPE_BYTES: u64 = 15;

/// `InvocationEntryBci`. Bytecode indexes are stored minus this, so that none is negative (vmIntrinsics,
/// compilerDefinitions.hpp).
const BCI_BIAS: i64 = -1;

/// Locations of a compiled method's debug information.
struct Tables {
    /// Its array of PcDesc.
    pcs: AddrRange,
    /// Its packed scopes.
    scopes: AddrRange,
    /// Its array of Methods and Klasses.
    metadata: Addr,
}

/// Returns the scopes at `pc`, innermost first.
pub(super) fn at(vm: &Vm<'_>, blob: &Blob, pc: Addr) -> Result<Vec<(Addr, i32)>, VmError> {
    let Some(offset) = pc.checked_since(blob.code.start).filter(|_| blob.compiled.is_some() && pc <= blob.code.end)
    else {
        return Ok(Vec::new());
    };
    let tables = tables(vm, blob)?;
    let Some(first) = scope_of(vm, &tables.pcs, offset)? else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    let mut at = first;
    while at != 0 && out.len() < limits::MAX_INLINED_SCOPES {
        let Some(scope) = scope(vm, &tables, at) else { break };
        out.push((scope.method, scope.bci));
        // A caller is written before its callees. Otherwise the data is damaged, and could form a cycle.
        if scope.caller >= at {
            break;
        }
        at = scope.caller;
    }
    Ok(out)
}

/// Locates the debug information. Up to JDK 22 it is in the blob. From 23 on, scopes and PcDescs are elsewhere
/// (immutable data). From 25 on, metadata is too, after the relocations (mutable data).
fn tables(vm: &Vm<'_>, blob: &Blob) -> Result<Tables, VmError> {
    let start = blob.range.start;
    let nmethod = vm.at("nmethod", start);
    let from = |base: Addr, field: &str| nmethod.number(field).map(|offset| base.wrapping_add(offset));
    if nmethod.has("_immutable_data") {
        let base = nmethod.ptr("_immutable_data")?;
        let scopes = from(base, "_scopes_data_offset")?;
        let end = from(base, "_immutable_data_size")?;
        let metadata = if nmethod.has("_mutable_data") {
            from(nmethod.ptr("_mutable_data")?, "_relocation_size")?
        } else {
            from(start.wrapping_add(nmethod.number("_data_offset")?), "_metadata_offset")?
        };
        let pcs = AddrRange::new(from(base, "_scopes_pcs_offset")?, scopes);
        return Ok(Tables { pcs, scopes: AddrRange::new(scopes, end), metadata });
    }
    let pcs = from(start, "_scopes_pcs_offset")?;
    Ok(Tables {
        pcs: AddrRange::new(pcs, from(start, "_dependencies_offset")?),
        scopes: AddrRange::new(nmethod.ptr("_scopes_data_begin")?, pcs),
        metadata: from(start, "_metadata_offset")?,
    })
}

/// Returns the offset of the scope at `offset` of the code: the scope of the first PcDesc at or after it. A return
/// address has a PcDesc of its own.
fn scope_of(vm: &Vm<'_>, pcs: &AddrRange, offset: u64) -> Result<Option<u32>, VmError> {
    let size = vm.size_of("PcDesc")?;
    let desc = |i: u64| vm.at("PcDesc", pcs.start.wrapping_add(i.wrapping_mul(size)));
    let count = pcs.len() / size;
    // PcDescs are ordered by address.
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        let before = u64::try_from(desc(middle).signed("_pc_offset")?).map_or(true, |at| at < offset);
        if before { low = middle + 1 } else { high = middle }
    }
    if low == count {
        return Ok(None);
    }
    let at = desc(low).signed("_scope_decode_offset")?;
    // 0 means no scope (serialized_null).
    Ok(u32::try_from(at).ok().filter(|&at| at != 0))
}

struct Scope {
    caller: u32,
    method: Addr,
    bci: i32,
}

fn scope(vm: &Vm<'_>, tables: &Tables, at: u32) -> Option<Scope> {
    let start = tables.scopes.start.checked_add(at.into()).filter(|&start| tables.scopes.contains(start))?;
    let len = vm.memory.readable(start, SCOPE_BYTES.min(tables.scopes.end.since(start)));
    let bytes = vm.memory.look(start, len as usize).ok()?;
    let mut numbers = Unsigned5::new(&bytes, 0, vm.major);
    let (caller, method, bci) = (numbers.next()?, numbers.next()?, numbers.next()?);
    // Values of variables follow, some of them constants.
    vm.memory.keep(start, numbers.at as u64);
    // 0 means no method.
    let slot = tables.metadata.checked_add(u64::from(method.checked_sub(1)?) * WORD)?;
    let bci = i32::try_from(i64::from(bci) + BCI_BIAS).ok()?;
    Some(Scope { caller, method: vm.memory.ptr(slot).ok()?, bci })
}
