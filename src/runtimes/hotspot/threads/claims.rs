//! Stacks of Java threads, as claims on memory: bounds and guard zones that the VM itself keeps (stackOverflow.hpp).
//!
//! A thread library knows the stack of most of them too; what it does not know is where the VM forbids to go on: yellow, red and
//! reserved pages at the low end. Shadow pages above them are stack like the rest.

use crate::addr::AddrRange;
use crate::bytes::printable;
use crate::map::{Claim, Claims, Confidence, Kind, Owner};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::threads::ThreadObject;

/// Flags that tell how large the zones are, in units of 4 KiB whatever the machine's pages are.
const ZONES: [&str; 3] = ["StackYellowPages", "StackRedPages", "StackReservedPages"];
const UNIT: u64 = 4096;

/// Claim the stacks of Java threads.
pub(in crate::runtimes::hotspot) fn claim(hotspot: &HotSpot<'_>, claims: &mut Claims) {
    let vm = hotspot.vm();
    let zone = ZONES.iter().map(|flag| vm.flag(flag).unwrap_or(0)).fold(0, u64::saturating_add).saturating_mul(UNIT);
    let space = vm.process.space();
    for thread in hotspot.java_threads() {
        let (Some(tid), Some(stack)) = (thread.tid, thread.stack) else { continue };
        // The process's first thread has a stack that grows, and a part of it that is not there yet.
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
        // What is less than the zones or more is something else that may not be written.
        if let Some(guard) = guard.filter(|guard| used.start > stack.start && guard.len() == zone) {
            let detail = format!("guard zones of thread {tid}{name}");
            let evidence = "Thread::_stack_base, _stack_size; StackYellowPages, StackRedPages, StackReservedPages";
            add(guard, Kind::StackGuard, Confidence::Exact, detail, evidence);
        }
    }
}
