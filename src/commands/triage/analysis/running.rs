//! Findings on threads: deadlocks, large pools, and many threads in one place.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::analysis::block_graph::{Ring, ring};
use crate::analysis::zero::ZeroMap;
use crate::analysis::{self, crash, native_waits};
use crate::bytes::printable;
use crate::causes::Scene;
use crate::causes::last_words::{self, Ending};
use crate::causes::{native, native_threads};
use crate::commands::dotnet;
use crate::commands::dotnet::exceptions::ExceptionRow;
use crate::commands::stacks::measure;
use crate::commands::threads::{self, Doing, ThreadOptions};
use crate::commands::triage::analysis::Found;
use crate::commands::triage::analysis::budget::Budget;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::locks::NativeWait;
use crate::native::source_lines;
use crate::report::{ExceptionDetail, Finding, FrameRow, FrameRowKind, LastWordsRow, Name, Severity, ThreadRow};
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::targets::{Arch, Producer, SignalInfo, Thread};
use crate::units::{count, exact, round};

/// Cost of threads in the time estimate: units per stack, and stacks that are followed per second.
const STACK: u64 = 1;
const FOLLOWED: u64 = 2000;

/// Minimum number of threads in a pool for a finding, and for a warning.
const MANY: u64 = 16;
const TOO_MANY: u64 = 256;

/// Maximum number of pools reported, and maximum number of places for each.
const POOLS: usize = 3;
const PLACES: usize = 2;

/// Roles that belong to a single thread, not to a pool.
const ROLES_OF_ONE: [&str; 2] = ["main", "user"];

/// Modules and functions in which every thread begins. Modules are given by a prefix of their name, functions by a
/// prefix or the whole name.
const BEGINNINGS: [&str; 4] = ["libc.", "libc-", "libpthread", "ld-"];
const BEGINS: [&str; 2] = ["System.Threading.", "System.Private.CoreLib.dll!"];

/// Minimum share of a pool's threads in its most common place, in percent, for places to be listed one by one.
const GATHERED: u64 = 10;

pub(super) fn threads(session: &Session<'_>, zeros: &ZeroMap, show_data: bool, budget: &mut Budget, found: &mut Found) {
    let count = session.process.threads().len() as u64;
    if !budget.allows("stacks of threads", count.saturating_mul(STACK), FOLLOWED) {
        found.findings.extend(ended(session, &[], show_data));
        return;
    }
    let natives = native_waits::native_waits(session);
    let report = threads::with_waits(session, ThreadOptions::default(), &natives);
    found.findings.extend(ended(session, &report.threads, show_data));
    let runtimes = session.runtimes();
    let facts: Vec<_> = runtimes.iter().filter_map(|runtime| runtime.wait_facts()).collect();
    let mut scene = Scene::of_threads(&report.threads, &facts, &natives);
    scene.show_data = show_data;
    scene.labels.extend(natives.values().filter_map(|wait| Some((wait.address, variable(session, wait)?))));
    if runtimes.is_empty() {
        found.findings.extend(native_threads::handlers(&report.threads));
        found.findings.extend(native_threads::starved(&scene, &report.threads));
        scene.rings = rings(session, &scene);
    }
    found.scene = Some(scene);
    if count < MANY {
        return;
    }
    let starts = report.threads.iter().filter_map(|thread| Some((thread.tid, start(&thread.frames)?))).collect();
    let rows = measure(session, Some(zeros));
    let written = rows.iter().filter_map(|row| Some((row.tid?, row.written?))).collect();
    found.findings.extend(pools(&report.threads, &starts, &threads::doing(session), &written));
}

/// The common property of a pool's threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    /// Role.
    Role(&'static str),
    /// Name, without the number at its end.
    Name(String),
    /// Function in which they began.
    Start(String),
    /// Function in which they are.
    Place(String),
}

/// A property of a thread by which it belongs to a pool.
type Way<'a> = &'a dyn Fn(&ThreadRow) -> Option<Pool>;

#[derive(Default)]
struct Members {
    /// Number of threads in each place.
    places: BTreeMap<Option<String>, u64>,
    count: u64,
    written: u64,
    /// Name of the first thread.
    example: Option<String>,
}

/// Finds large pools, and many threads in one place. The maps by thread ID contain the start function, the activity,
/// and the bytes written to the stack.
fn pools(
    threads: &[ThreadRow],
    starts: &HashMap<u32, String>,
    doing: &HashMap<u32, Doing>,
    written: &HashMap<u32, u64>,
) -> Vec<Finding> {
    let mut left: Vec<&ThreadRow> = threads.iter().collect();
    let mut out: Vec<(u64, Finding)> = Vec::new();
    let place = |t: &ThreadRow| doing.get(&t.tid).and_then(|d| d.text.clone());
    let ways: [Way<'_>; 4] = [
        &|t| t.role.filter(|role| !ROLES_OF_ONE.contains(role)).map(Pool::Role),
        &|t| t.managed_name.as_deref().or(t.name.as_deref()).and_then(stem).map(Pool::Name),
        &|t| starts.get(&t.tid).cloned().map(Pool::Start),
        &|t| place(t).map(Pool::Place),
    ];
    for way in ways {
        let mut pools: BTreeMap<Pool, Members> = BTreeMap::new();
        for thread in &left {
            let Some(key) = way(thread) else { continue };
            let members = pools.entry(key).or_default();
            *members.places.entry(place(thread)).or_default() += 1;
            members.count += 1;
            members.written = members.written.saturating_add(written.get(&thread.tid).copied().unwrap_or(0));
            members.example = members.example.take().or_else(|| thread.managed_name.clone().or(thread.name.clone()));
        }
        pools.retain(|_, members| members.count >= MANY);
        left.retain(|thread| way(thread).is_none_or(|key| !pools.contains_key(&key)));
        out.extend(pools.iter().map(|(pool, members)| (members.count, finding(pool, members))));
    }
    out.sort_by_key(|(count, _)| Reverse(*count));
    out.truncate(POOLS);
    out.into_iter().map(|(_, finding)| finding).collect()
}

fn finding(pool: &Pool, members: &Members) -> Finding {
    let n = members.count;
    let (id, who, evidence) = match pool {
        Pool::Role(role) => ("thread-pool", format!("{} {role} threads", exact(n)), "thread roles"),
        Pool::Name(_) => {
            let example = members.example.as_deref().unwrap_or_default();
            ("thread-pool", format!("{} threads with names like \"{example}\"", exact(n)), "thread names")
        }
        Pool::Start(start) => {
            ("thread-pool", format!("{} threads started in {start}", exact(n)), "outermost stack frames")
        }
        Pool::Place(_) => {
            ("same-stack", format!("{} threads with the same innermost frames", exact(n)), "innermost frames")
        }
    };
    let mut places: Vec<(&Option<String>, u64)> = members.places.iter().map(|(place, n)| (place, *n)).collect();
    places.sort_by_key(|(_, n)| Reverse(*n));
    let describe = |(place, n): &(&Option<String>, u64)| {
        let place = place.as_deref().unwrap_or("code without symbols");
        if *n == members.count { format!("all in {place}") } else { format!("{} in {place}", exact(*n)) }
    };
    let gathered = places.first().is_some_and(|(_, most)| most.saturating_mul(100) >= n.saturating_mul(GATHERED));
    let mut parts: Vec<String> = places.iter().take(PLACES).map(describe).collect();
    let rest = places.get(PLACES..).unwrap_or_default();
    if !gathered {
        parts = vec![format!("in {}", count(places.len() as u64, "different function"))];
    } else if !rest.is_empty() {
        let others: u64 = rest.iter().map(|(_, n)| *n).saturating_sum();
        parts.push(format!("{} in {}", exact(others), count(rest.len() as u64, "other function")));
    }
    let text = format!("{who}: {}. Written stack memory: {}.", parts.join(", "), round(members.written));
    let severity = if n >= TOO_MANY { Severity::Warning } else { Severity::Info };
    let finding = Finding::new(id, severity, text, evidence).about(members.written).known(Confidence::Derived);
    finding.more("threads --group").within("stacks")
}

/// Returns a name without the number at its end and the separator before it: `worker` for `worker-12` and `worker #3`.
/// `None` if nothing remains.
fn stem(name: &str) -> Option<String> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = stem.trim_end_matches(|c: char| !c.is_alphanumeric());
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// Returns the function in which a thread began: the outermost with a name in which not all threads begin.
fn start(frames: &[FrameRow]) -> Option<String> {
    let managed = frames.iter().rev().filter(|f| f.kind == FrameRowKind::Managed && f.method.is_some());
    let own = managed
        .clone()
        .find(|f| f.method.as_deref().is_some_and(|name: &str| !BEGINS.iter().any(|b| name.starts_with(b))));
    let common = |f: &&FrameRow| f.module.as_deref().is_none_or(|m: &str| BEGINNINGS.iter().any(|b| m.starts_with(b)));
    let native = || frames.iter().rev().filter(|f| f.kind == FrameRowKind::Native).find(|f| !common(f));
    own.or_else(|| if managed.clone().next().is_some() { None } else { native() }).map(FrameRow::shown)
}

/// Offsets from the stack pointer of the signal trampoline, where the kernel's ucontext begins: the interrupted
/// instruction, and siginfo_t after it, with its fields (arch/x86/include/asm/sigframe.h: struct rt_sigframe).
const RIP: u64 = 168;
const SIGINFO: u64 = 304;
const SI_CODE: u64 = 8;
const SI_ADDR: u64 = 16;

/// Returns the signal whose handler a thread is in, and the frames below that handler. This matters because a runtime's
/// handler may end the process by another signal. The saved instruction must be that of the next frame, which proves
/// the structure.
fn first_signal(session: &Session<'_>, thread: &ThreadRow) -> Option<(SignalInfo, ThreadRow)> {
    if session.process.arch() != Arch::X86_64 {
        return None;
    }
    let memory = &session.process.memory;
    let interrupted = thread.frames.windows(2).position(|pair| {
        let [trampoline, interrupted] = pair else { return false };
        let saved = trampoline.sp.checked_add(RIP).and_then(|at| memory.peek_u64(at).ok());
        saved.is_some() && saved == interrupted.ip.map(Addr::get)
    })?;
    let info = thread.frames.get(interrupted)?.sp.checked_add(SIGINFO)?;
    let signo = memory.u32(info).ok()?.cast_signed();
    let code = memory.u32(info.checked_add(SI_CODE)?).ok()?.cast_signed();
    let addr = memory.ptr(info.checked_add(SI_ADDR)?).ok()?;
    let frames = thread.frames.get(interrupted.checked_add(1)?..)?.to_vec();
    (1..=64).contains(&signo).then(|| (SignalInfo { signo, code, addr }, ThreadRow { frames, ..thread.clone() }))
}

/// An exception by the list of exceptions. Small dumps have threads' exceptions without the heap around them.
fn listed_exception(all: &[ExceptionRow], object: Addr) -> Option<ExceptionDetail> {
    let at = |object: Addr| all.iter().find(|row| row.object == object);
    let ExceptionRow { message, hresult, inner, .. } = at(object)?.clone();
    let inner_type = inner.and_then(at).map(|row| row.name.clone());
    Some(ExceptionDetail { message, hresult, inner, inner_type, ..ExceptionDetail::default() })
}

/// Whether a thread waits for a child process. A runtime that ends starts the program that writes the core.
fn waits_for_child(thread: &ThreadRow) -> bool {
    // Heap and mini dumps have no names of native frames.
    let call = thread.syscall.as_ref().and_then(|call| call.name);
    let first = thread.frames.first().and_then(|frame| frame.method.as_deref());
    matches!(call, Some("wait4" | "waitid")) || matches!(first, Some("wait4" | "waitpid" | "__wait4" | "__waitpid"))
}

/// Names a native object by the variable that contains it: `rates_lock (pthread_rwlock_t)`.
fn variable(session: &Session<'_>, wait: &NativeWait) -> Option<String> {
    let variable = session.symbols().resolve_data(wait.address).filter(|variable| variable.sized)?;
    let offset = if variable.offset == 0 { String::new() } else { format!("+{:#x}", variable.offset) };
    Some(format!("{}{offset} ({})", printable(&variable.name), native::kind(wait)))
}

/// Maximum number of characters of a block's text that `--show-data` shows.
const TEXT: usize = 48;

/// Possible starts of a block's text: in its destroyed size field, at its start, and after the list pointers of a freed
/// block.
const BEFORE: u64 = 8;
const TEXT_AT: [u64; 4] = [0, 8, 16, 24];

/// Reads more of a block's text, if the last words have its beginning.
fn lengthen(session: &Session<'_>, words: &mut LastWordsRow) {
    for block in &mut words.blocks {
        let Some(text) = &block.text else { continue };
        let longer = TEXT_AT.iter().find_map(|offset| {
            let at = block.address.checked_sub(BEFORE)?.checked_add(*offset)?;
            let bytes = session.process.memory.look(at, TEXT).ok()?;
            let bytes = bytes.into_iter().take_while(|byte| byte.is_ascii_graphic() || *byte == b' ').collect();
            String::from_utf8(bytes).ok().filter(|found| found.starts_with(text.as_str()))
        });
        block.text = longer.or_else(|| block.text.take());
    }
}

/// Maximum number of running threads whose registers are followed to rings.
const FOLLOWED_THREADS: usize = 16;

/// Describes rings of blocks to which registers of running threads point.
fn rings(session: &Session<'_>, scene: &Scene) -> HashMap<u32, String> {
    let running = scene.running().take(FOLLOWED_THREADS).filter_map(|tid| session.thread(tid));
    let of = |thread: &Thread| Some((thread.tid, ring(session, thread)?));
    let text = |(tid, ring): (u32, Ring)| {
        let text = format!(
            "A register leads into a ring of {}, each of {} bytes and linked by its word at +{}: who follows it to an end \
             finds none",
            count(ring.blocks, "malloc block"),
            exact(ring.size),
            ring.link
        );
        (tid, text)
    };
    running.filter_map(of).map(text).collect()
}

/// Maximum number of innermost frames of the ending thread whose source lines are looked up.
const LINES: usize = 32;

/// Returns a native thread with the source lines of its functions.
fn with_lines(session: &Session<'_>, thread: &ThreadRow) -> ThreadRow {
    let mut out = thread.clone();
    let frames = || out.frames.iter().enumerate().take(LINES).filter(|(_, frame)| frame.own && frame.line.is_none());
    // A return address is after the call.
    let code = |(at, frame): (usize, &FrameRow)| Some((at, frame.ip?.saturating_sub(u64::from(at > 0))));
    let wanted: Vec<(usize, Addr)> = frames().filter_map(code).collect();
    let addresses: Vec<Addr> = wanted.iter().map(|(_, at)| *at).collect();
    for ((at, _), found) in wanted.iter().zip(source_lines(session.process, &addresses)) {
        if let Some((frame, (file, line))) = out.frames.get_mut(*at).zip(found) {
            frame.file = Some(Name::from(&*printable(&file)));
            frame.line = Some(line);
        }
    }
    out
}

/// Returns findings on how the process ended, if it ended by itself.
fn ended(session: &Session<'_>, threads: &[ThreadRow], show_data: bool) -> Vec<Finding> {
    let crash = crash::crash(session.process);
    let runtimes = session.runtimes();
    let thread = crash.tid.and_then(|tid| threads.iter().find(|thread| thread.tid == tid));
    let located = thread.filter(|_| runtimes.is_empty()).map(|thread| with_lines(session, thread));
    let thread = located.as_ref().or(thread);
    let words = || runtimes.iter().filter_map(|runtime| runtime.last_words());
    let oom = thread.and_then(|thread| words().find_map(|words| Some((thread, words.out_of_memory(thread)?))));
    let oom = oom.map(|(thread, fact)| last_words::out_of_memory(thread, &fact));
    if let Some(end) = words().find_map(|words| words.own_end()) {
        let its = end.tid.and_then(|tid| threads.iter().find(|thread| thread.tid == tid)).or(thread);
        let signal = crash.signal.as_ref().map(|signal| crash::name(signal.number));
        return oom.into_iter().chain([last_words::own_end(&end, its, signal.as_deref())]).collect();
    }
    let Some(signal) = crash.signal else { return oom.into_iter().collect() };
    let first = thread.and_then(|thread| first_signal(session, thread));
    let info = first.as_ref().map(|(info, _)| *info).or(signal.info);
    let mut said = analysis::last_words::last_words(session).map(|words| words.shown(show_data));
    if let Some(words) = said.as_mut().filter(|_| show_data) {
        lengthen(session, words);
    }
    let number = first.as_ref().map_or(signal.number, |(info, _)| info.signo);
    let ending = Ending {
        signal: (number, crash::name(number)),
        code: info.map(|info| info.code),
        address: info.map(|info| info.addr),
        dumps_itself: session.process.producer() == Producer::Createdump && thread.is_some_and(waits_for_child),
        by_kernel: session.process.producer() == Producer::Kernel,
        thread: first.as_ref().map(|(_, thread)| thread).or(thread),
        // A runtime's handler ends the process by another signal, to which these words do not belong.
        words: said.as_ref().filter(|_| first.is_none()),
    };
    let thrown = OnceCell::new();
    let listed = |at| listed_exception(thrown.get_or_init(|| dotnet::findings::thrown(session)), at);
    let exception = |at| runtimes.iter().find_map(|runtime| runtime.object(at)?.exception).or_else(|| listed(at));
    let mut crash = last_words::crash(&ending, exception);
    let faulted = crash.as_mut().zip(ending.thread).zip(ending.address);
    if let Some(((finding, thread), address)) = faulted
        && let Some(note) = words().find_map(|words| words.fault(thread, address))
    {
        finding.text.push_str(&format!(" {note}"));
    }
    oom.into_iter().chain(crash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, role: Option<&'static str>, name: Option<&str>) -> ThreadRow {
        ThreadRow { tid, role, managed_name: name.map(str::to_owned), ..ThreadRow::default() }
    }

    #[test]
    fn threads_of_one_pool_are_one_finding_with_what_they_wrote() {
        let mut threads: Vec<ThreadRow> = (0..300).map(|i| thread(i, Some("threadpool worker"), None)).collect();
        threads.extend((300..320).map(|i| thread(i, Some("user"), Some(&format!("io-{i}")))));
        threads.extend((400..440).map(|i| thread(i, None, None)));
        threads.extend((500..520).map(|i| thread(i, None, None)));
        threads.extend((600..615).map(|i| thread(i, Some("gc"), None)));
        threads.push(thread(700, Some("main"), Some("app")));
        let starts = (400..440).map(|i| (i, "app!worker".to_owned())).collect();
        let text = |i: u32| if i < 250 { "Monitor.Wait ← App.Take" } else { "read ← App.Get" };
        let doing = threads.iter().map(|t| (t.tid, Doing { text: Some(text(t.tid).into()), ..Doing::default() }));
        let written = threads.iter().map(|t| (t.tid, 4096)).collect();
        let found = pools(&threads, &starts, &doing.collect(), &written);
        let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "300 threadpool worker threads: 250 in Monitor.Wait ← App.Take, 50 in read ← App.Get. Written stack \
                 memory: 1.17 MiB.",
                "40 threads started in app!worker: all in read ← App.Get. Written stack memory: 160 KiB.",
                // The collector's threads are too few for a pool. They count together with the twenty nameless threads
                // and the main thread, because all do the same.
                "36 threads with the same innermost frames: all in read ← App.Get. Written stack memory: 144 KiB.",
            ]
        );
        let ids: Vec<_> = found.iter().map(|f| (f.id, f.severity, f.bytes)).collect();
        assert_eq!(ids[0], ("thread-pool", Severity::Warning, Some(300 * 4096)));
        assert_eq!(ids[2], ("same-stack", Severity::Info, Some(36 * 4096)));
    }

    #[test]
    fn names_of_one_pool_differ_in_the_number_at_their_end() {
        for (name, of) in [("worker-12", "worker"), ("worker #3", "worker"), ("pool-1-thread-7", "pool-1-thread")] {
            assert_eq!(stem(name).as_deref(), Some(of), "{name}");
        }
        assert_eq!((stem("12"), stem("timer").as_deref()), (None, Some("timer")));
    }
}
