//! Claims of Java threads' stacks: the bounds and guard zones in the VM's structures (stackOverflow.hpp).
//!
//! The C library knows most of these stacks too, but not the VM's yellow, red and reserved pages at the low end. Shadow
//! pages above them are ordinary stack.

use crate::addr::AddrRange;
use crate::bytes::printable;
use crate::map::{Claim, Claims, Confidence, Kind, Owner};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::threads::ThreadObject;

/// Flags with the sizes of the zones, in units of 4 KiB whatever the page size is.
const ZONES: [&str; 3] = ["StackYellowPages", "StackRedPages", "StackReservedPages"];
const UNIT: u64 = 4096;

pub(in crate::runtimes::hotspot) fn claim(hotspot: &HotSpot<'_>, claims: &mut Claims) {
    let vm = hotspot.vm();
    let zone = ZONES.iter().map(|flag| vm.flag(flag).unwrap_or(0)).fold(0, u64::saturating_add).saturating_mul(UNIT);
    let space = vm.process.space();
    for thread in hotspot.java_threads() {
        let (Some(tid), Some(stack)) = (thread.tid, thread.stack) else { continue };
        // The stack of the process's first thread grows, and part of it may not be mapped yet.
        let Some(top) = space.mapping_at(stack.end.saturating_sub(1)).filter(|top| top.perms.write) else { continue };
        let used = AddrRange::new(top.range.start.max(stack.start), stack.end);
        let name = ThreadObject::of(hotspot.classes(), thread.address).and_then(|object| object.name);
        let name = name.map_or_else(String::new, |name| format!(" \"{}\"", printable(&name)));
        let mut add = |range, kind, confidence, detail: String, evidence: &str| {
            let (owner, detail, evidence) = (Owner::Thread(tid), detail.into(), evidence.into());
            claims.add(Claim { range, kind, confidence, owner, detail, evidence });
        };
        add(used, Kind::Stack, Confidence::Exact, format!("thread {tid}{name}"), "Thread::_stack_base, _stack_size");
        let below = space.mapping_at(used.start.saturating_sub(1)).filter(|below| !below.perms.write);
        let guard = below.map(|below| AddrRange::new(below.range.start.max(stack.start), used.start));
        // Unwritable memory of another size is not these zones.
        if let Some(guard) = guard.filter(|guard| used.start > stack.start && guard.len() == zone) {
            let detail = format!("guard zones of thread {tid}{name}");
            let evidence = "Thread::_stack_base, _stack_size; StackYellowPages, StackRedPages, StackReservedPages";
            add(guard, Kind::StackGuard, Confidence::Exact, detail, evidence);
        }
    }
}
