//! Waits and activities of threads without a managed runtime, from the locks and system calls that the C library shows.

use crate::causes::parties::{HELD, JOINED};
use crate::native::locks::{NativeWait, Owner};
use crate::report::{FrameRow, ThreadRow};
use crate::runtimes::api::{Activity, PartyId, WaitFact, WaitOwner};
use crate::words::{OwnerState, WaitKind};

/// System calls in which a thread waits for something outside of the process.
const CALLS: &[(&[&str], Activity)] = &[
    (&["recvfrom", "recvmsg", "recvmmsg"], Activity::SocketRead),
    (&["sendto", "sendmsg", "sendmmsg"], Activity::SocketWrite),
    (&["connect"], Activity::Connect),
    (&["accept", "accept4"], Activity::Accept),
    (
        &[
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
            "rt_sigtimedwait",
            "pause",
        ],
        Activity::Select,
    ),
    (&["read", "readv", "pread64", "write", "writev", "pwrite64", "fsync", "fdatasync", "flock"], Activity::File),
    (&["wait4", "waitid"], Activity::Process),
    (&["nanosleep", "clock_nanosleep"], Activity::Sleep),
];

/// Returns the activity of a thread that no runtime describes. `None` if its system call does not show it.
pub(super) fn activity(thread: &ThreadRow) -> Option<Activity> {
    let managed = thread.managed_id.is_some() || thread.frames.iter().any(|frame| frame.runtime.is_some());
    if managed || thread.crashed {
        return None;
    }
    let Some(call) = &thread.syscall else {
        // A debugger's core may not record the system call. In one, the innermost function would be the library's.
        let runs = thread.waits_for.is_none() && thread.frames.first().is_some_and(|frame: &FrameRow| frame.own);
        return runs.then_some(Activity::Runs);
    };
    CALLS.iter().find(|(names, _)| call.name.is_some_and(|name| names.contains(&name))).map(|(_, activity)| *activity)
}

/// Name of a condition variable. It has no owner, so any busy thread may be the one to signal it.
pub(super) const CONDITION: &str = "condition variable";

/// Returns the kind of a native object in words.
pub(crate) fn kind(wait: &NativeWait) -> String {
    match (wait.kind, wait.object) {
        (WaitKind::Condition, _) => CONDITION.to_owned(),
        (_, Some(object)) => object.to_owned(),
        (kind, None) => kind.to_string(),
    }
}

/// Converts a thread's wait for the wait graph: its owners, and whether one of them has ended.
pub(super) fn fact(wait: &NativeWait) -> WaitFact {
    let is_there = |owner: &&Owner| matches!(owner.state, OwnerState::Alive | OwnerState::Unknown);
    let with = |owner: &Owner| WaitOwner { party: PartyId::Thread(owner.tid), confidence: owner.confidence };
    let gone = |state| wait.owners.iter().any(|owner| owner.state == state);
    WaitFact {
        object: wait.address,
        r#type: Some(kind(wait)),
        what: wait
            .owners
            .first()
            .filter(|_| wait.kind == WaitKind::Join)
            .map(|owner| format!("the end of thread {}", owner.tid)),
        owners: wait.owners.iter().filter(is_there).map(with).collect(),
        relation: match wait.kind {
            kind if kind.is_lock() => HELD,
            WaitKind::Join => JOINED,
            _ => "",
        },
        owner_ended: gone(OwnerState::Ended) || gone(OwnerState::Inherited),
        owner_inherited: gone(OwnerState::Inherited),
        evidence: wait.how,
        ..WaitFact::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::SyscallRow;

    #[test]
    fn system_calls_say_what_a_native_thread_does() {
        let of = |name| {
            let syscall = Some(SyscallRow { name: Some(name), ..SyscallRow::default() });
            activity(&ThreadRow { syscall, ..ThreadRow::default() })
        };
        assert_eq!(of("recvfrom"), Some(Activity::SocketRead));
        assert_eq!((of("epoll_wait"), of("futex")), (Some(Activity::Select), None));
        let frames = vec![FrameRow { own: true, ..FrameRow::default() }];
        let runs = ThreadRow { frames, ..ThreadRow::default() };
        assert_eq!(activity(&runs), Some(Activity::Runs));
        assert_eq!(activity(&ThreadRow { crashed: true, ..runs }), None);
    }
}
