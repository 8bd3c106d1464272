//! Claims of stacks for the map.

use crate::addr::AddrRange;
use crate::map::{Claim, Claims, Confidence, Kind, Owner};
use crate::native::foreign::FIBER_STACK;
use crate::native::stacks::{StackState, Stacks, ThreadStack};
use crate::process::Process;
use crate::targets::threads::tid_text;

/// Claims stacks and their guards: the guessed ones if `guessed` is set, otherwise those found through structures.
pub fn claim(process: &Process, stacks: &Stacks, guessed: bool, claims: &mut Claims) {
    for s in stacks.list.iter().filter(|s| (s.confidence == Confidence::Heuristic) == guessed) {
        let who = who(process, s);
        let mut add = |range: AddrRange, kind, confidence, detail: String| {
            claims.add(Claim {
                range,
                kind,
                confidence,
                owner: s.tid.map_or(Owner::None, Owner::Thread),
                detail: detail.into(),
                evidence: s.source.as_str().into(),
            });
        };
        if let Some(guard) = s.guard {
            add(guard, Kind::StackGuard, s.confidence, format!("guard of {who}"));
        }
        let zone = s.zone;
        add(
            zone,
            Kind::StackGuard,
            Confidence::Derived.min(s.confidence),
            format!("guard zone within the stack of {who}"),
        );
        // glibc's TLS and control block are at the upper end of the stack. musl's are above the stack, in the same
        // mapping.
        let start = if zone.is_empty() { s.stack.start } else { zone.end };
        add(AddrRange::new(start, s.mapped.end.max(s.stack.end)), Kind::Stack, s.confidence, who);
    }
}

/// Describes the stack's thread and its use.
fn who(process: &Process, s: &ThreadStack) -> String {
    let thread = |tid: u32| match process.thread_name(tid) {
        Some(name) => format!("thread {} {name}", tid_text(tid)),
        None => format!("thread {}", tid_text(tid)),
    };
    match (s.state, s.tid) {
        (StackState::Main, _) => "main thread".to_owned(),
        (StackState::Cached, _) => "ended thread, cached by glibc".to_owned(),
        (StackState::Fiber, _) => FIBER_STACK.to_owned(),
        (StackState::Inherited, _) => "stack of the parent process, copied by fork".to_owned(),
        (StackState::Unknown, _) => "thread missing from the notes, or ended, cached by glibc".to_owned(),
        (_, None) => String::new(),
        (StackState::Thread, Some(tid)) => thread(tid),
        (StackState::Signal, Some(tid)) => format!("signal stack of {}", thread(tid)),
        (StackState::Switched, Some(tid)) => format!("stack that {} switched to", thread(tid)),
    }
}
