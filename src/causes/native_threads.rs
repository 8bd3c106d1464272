//! Native threads that probably never make progress, although memory records no owner. Two kinds: a signal handler that
//! waits for a lock of the function it interrupted, and a pool whose workers all wait for other tasks of the pool.

use std::collections::{BTreeMap, BTreeSet};

use crate::causes::native::CONDITION;
use crate::causes::parties::{HELD, JOINED, Party, Scene, names, own_frames, threads_of, title};
use crate::map::Confidence;
use crate::report::{Finding, FrameRow, Severity, ThreadRow};
use crate::runtimes::api::PartyId;
use crate::units::count;

/// The function that returns from a signal handler to the kernel. glibc and musl put it on the stack.
const TRAMPOLINES: [&str; 2] = ["__restore_rt", "__kernel_rt_sigreturn"];

/// Functions that take a lock of the library and must not be called by a handler (signal-safety(7)), by the starts of
/// their names after underscores and `libc_`.
const UNSAFE: [&str; 19] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "cfree",
    "int_malloc",
    "int_free",
    "sysmalloc",
    "printf",
    "vfprintf",
    "fprintf",
    "puts",
    "fputs",
    "fwrite",
    "fflush",
    "IO_",
    "syslog",
    "operator new",
    "operator delete",
];

/// Maximum number of frames below a handler's trampoline that may be the interrupted function and its callers in the
/// library.
const INTERRUPTED: usize = 3;

/// Parts of the names of calls through a function object, which are tasks of a pool. For each, the objects that such
/// tasks wait for. Idle workers of Rust's executors also wait below a function object, each for its own condition
/// variable, so only channels count there.
const TASKS: [(&str, &[&str]); 5] = [
    ("std::_Function_handler<", &[FUTURE, CHANNEL, CONDITION, SEMAPHORE]),
    ("std::function<", &[FUTURE, CHANNEL, CONDITION, SEMAPHORE]),
    ("packaged_task", &[FUTURE, CHANNEL, CONDITION, SEMAPHORE]),
    ("_Task_state<", &[FUTURE, CHANNEL, CONDITION, SEMAPHORE]),
    ("FnOnce", &[CHANNEL]),
];

/// Kinds of awaited objects, named as for locks.
const FUTURE: &str = "state of a std::future";
const CHANNEL: &str = "channel";
const SEMAPHORE: &str = "sem_t";

fn name(frame: &FrameRow) -> &str {
    frame.method.as_deref().unwrap_or_default()
}

fn is_unsafe(frame: &FrameRow) -> bool {
    let name = name(frame).trim_start_matches('_');
    let name = name.strip_prefix("libc_").unwrap_or(name);
    !frame.own && UNSAFE.iter().any(|start| name.starts_with(start))
}

/// Returns findings on signal handlers that call a function family that their own thread was in when the signal
/// arrived.
pub(crate) fn handlers(threads: &[ThreadRow]) -> Vec<Finding> {
    threads.iter().filter_map(handler).collect()
}

fn handler(thread: &ThreadRow) -> Option<Finding> {
    let waits = thread.syscall.as_ref().is_some_and(|call| call.name == Some("futex"));
    let at = thread.frames.iter().position(|frame| TRAMPOLINES.contains(&name(frame))).filter(|_| waits)?;
    let (above, below) = thread.frames.split_at_checked(at)?;
    let called = above.iter().rev().find(|frame| is_unsafe(frame))?;
    let below = below.get(1..)?;
    let interrupted = below.iter().take(INTERRUPTED).rfind(|frame| is_unsafe(frame))?;
    let handler = above.iter().rev().find(|frame| frame.own)?;
    let in_function =
        below.iter().find(|frame| frame.own).map_or_else(String::new, |own| format!(", called by {}", title(own)));
    let text = format!(
        "Likely deadlock in a signal handler: thread {} waits in {}, called by the handler {}, for a lock that it holds itself: the \
         signal interrupted {}{in_function}.",
        thread.name.as_ref().map_or_else(|| thread.tid.to_string(), |name| format!("{name} ({})", thread.tid)),
        title(called),
        title(handler),
        title(interrupted),
    );
    let finding =
        Finding::new("deadlock", Severity::Warning, text, "the frames of the handler and of what it interrupted");
    Some(finding.known(Confidence::Derived).more(threads_of(thread.tid)).fingerprinted(title(handler)))
}

/// Returns findings on pools of equal threads that all wait in a task, each for an object of its own.
pub(crate) fn starved(scene: &Scene, threads: &[ThreadRow]) -> Vec<Finding> {
    let mut pools: BTreeMap<String, Vec<&ThreadRow>> = BTreeMap::new();
    for thread in threads {
        if let Some(outermost) = own_frames(&thread.frames).last().filter(|frame| frame.runtime.is_none()) {
            pools.entry(title(outermost)).or_default().push(thread);
        }
    }
    pools
        .iter()
        .filter(|(_, threads)| threads.len() > 1)
        .filter_map(|(pool, threads)| starved_pool(scene, pool, threads))
        .collect()
}

fn starved_pool(scene: &Scene, pool: &str, threads: &[&ThreadRow]) -> Option<Finding> {
    let parties: Vec<&Party> =
        threads.iter().filter_map(|thread| scene.party(scene.node(PartyId::Thread(thread.tid))?)).collect();
    let awaits = |party: &&Party| {
        let wait = party.wait.as_ref()?;
        (wait.owners.is_empty() && wait.relation != HELD && wait.relation != JOINED).then_some(wait.object)
    };
    let objects: BTreeSet<_> = parties.iter().filter_map(awaits).collect();
    let kind = parties.first()?.wait.as_ref()?.r#type.clone()?;
    let is_task = |frame: &FrameRow| {
        TASKS.iter().any(|(part, kinds)| name(frame).contains(part) && kinds.contains(&kind.as_str()))
    };
    let in_task = |thread: &&ThreadRow| {
        let outermost = thread.frames.iter().rposition(|frame| frame.own)?;
        let inner = thread.frames.get(..outermost)?;
        let task = inner.iter().rposition(is_task)?;
        // A function of the program must be called by the task.
        inner.get(..task)?.iter().any(|frame| frame.own).then_some(())
    };
    let all = objects.len() == threads.len() && threads.iter().filter_map(in_task).count() == threads.len();
    if !all {
        return None;
    }
    let place = parties.first()?.stack();
    let text = format!(
        "Likely starved pool: all {} that run {pool} ({}) wait in a task, in {place}, each for another {kind}. If what they wait \
         for is queued in the same pool, no thread is left to run it.",
        count(threads.len() as u64, "thread"),
        names(&parties),
    );
    let finding = Finding::new("starved-pool", Severity::Warning, text, "frames: a function object below each wait");
    Some(finding.known(Confidence::Derived).more("threads --group").fingerprinted(place))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::addr::Addr;
    use crate::report::SyscallRow;
    use crate::runtimes::api::WaitFact;
    use crate::words::FrameRowKind;

    fn frames(all: &[(&str, bool)]) -> Vec<FrameRow> {
        let frame = |&(method, own): &(&str, bool)| FrameRow {
            kind: FrameRowKind::Native,
            method: Some(method.into()),
            own,
            ..FrameRow::default()
        };
        all.iter().map(frame).collect()
    }

    #[test]
    fn a_handler_that_calls_what_it_interrupted_waits_for_itself() {
        let stack = [
            ("__lll_lock_wait_private", false),
            ("malloc", false),
            ("on_alarm", true),
            ("__restore_rt", false),
            ("_int_malloc", false),
            ("malloc", false),
            ("churn", true),
        ];
        let syscall = Some(SyscallRow { name: Some("futex"), ..SyscallRow::default() });
        let thread = ThreadRow { tid: 7, frames: frames(&stack), syscall, ..ThreadRow::default() };
        let found = handler(&thread).unwrap();
        assert_eq!(
            found.text,
            "Likely deadlock in a signal handler: thread 7 waits in malloc, called by the handler on_alarm, for a lock that it \
             holds itself: the signal interrupted malloc, called by churn."
        );
        // The same handler, but it interrupted code of the program.
        let harmless = [&stack[..4], &[("churn", true)]].concat();
        assert!(handler(&ThreadRow { frames: frames(&harmless), ..thread }).is_none());
    }

    #[test]
    fn a_pool_is_starved_if_all_its_threads_wait_in_tasks_for_different_objects() {
        let stack = frames(&[
            ("wait", false),
            ("render", true),
            ("std::_Function_handler<int ()>::_M_invoke", false),
            ("loop", true),
        ]);
        let threads: Vec<ThreadRow> =
            (1..4).map(|tid| ThreadRow { tid, frames: stack.clone(), ..ThreadRow::default() }).collect();
        let party = |tid: u32, object: u64| Party {
            place: Some("render".into()),
            wait: Some(WaitFact { object: Addr::new(object), r#type: Some(FUTURE.into()), ..WaitFact::default() }),
            ..Party::new(PartyId::Thread(tid), format!("w{tid}"))
        };
        let scene = |objects: [u64; 3]| {
            Scene::of((1..4).zip(objects).map(|(tid, object)| party(tid, object)).collect(), Vec::new(), Vec::new())
        };
        let found = starved(&scene([0x10, 0x20, 0x30]), &threads);
        assert!(found.len() == 1 && found[0].text.contains("all 3 threads that run loop (w1, w2, w3)"), "{found:?}");
        // Idle workers wait for one shared queue.
        assert!(starved(&scene([0x10, 0x10, 0x10]), &threads).is_empty());
        // Equal threads that run no tasks.
        let plain: Vec<ThreadRow> = (1..4)
            .map(|tid| ThreadRow { tid, frames: frames(&[("wait", false), ("loop", true)]), ..ThreadRow::default() })
            .collect();
        assert!(starved(&scene([0x10, 0x20, 0x30]), &plain).is_empty());
    }
}
