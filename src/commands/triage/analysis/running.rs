//! What threads do: deadlocks, and many of one pool or in one place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::analysis::crash;
use crate::analysis::zero::ZeroMap;
use crate::commands::stacks::measure;
use crate::commands::threads::{self, Doing, ThreadOptions};
use crate::commands::triage::analysis::Found;
use crate::commands::triage::analysis::budget::Budget;
use crate::map::Confidence;
use crate::report::{Finding, FrameRow, FrameRowKind, Severity, ThreadRow};
use crate::session::Session;
use crate::units::{count, exact, round};

/// Bytes a stack stands for in the guess of time, and bytes a second: some thousands of threads a second.
const STACK: u64 = 1;
const FOLLOWED: u64 = 2000;

/// From how many threads of one pool on that is told, and from how many on it is a warning.
const MANY: u64 = 16;
const TOO_MANY: u64 = 256;

/// Pools that are told, and places of each.
const POOLS: usize = 3;
const PLACES: usize = 2;

/// Roles that say what one thread is for, and not that it is one of many.
const ROLES_OF_ONE: [&str; 2] = ["main", "user"];

/// Modules in which every thread begins, by how their names start; and methods, with a name and without.
const BEGINNINGS: [&str; 4] = ["libc.", "libc-", "libpthread", "ld-"];
const BEGINS: [&str; 2] = ["System.Threading.", "System.Private.CoreLib.dll!"];

/// Percent of a pool's threads that its first place must have for places to be told one by one.
const GATHERED: u64 = 10;

/// What threads do.
pub(super) fn threads(session: &Session<'_>, zeros: &ZeroMap, budget: &mut Budget, found: &mut Found) {
    found.findings.extend(crashed(session));
    let count = session.process.threads().len() as u64;
    if !budget.allows("stacks of threads", count.saturating_mul(STACK), FOLLOWED) {
        return;
    }
    let report = threads::threads(session, ThreadOptions { group: true, ..ThreadOptions::default() });
    found.findings.extend(report.findings);
    if count < MANY {
        return;
    }
    let mut starts: HashMap<u32, String> = HashMap::new();
    for group in report.groups.iter().flatten() {
        let Some(start) = start(&group.frames) else { continue };
        starts.extend(group.tids.iter().map(|&tid| (tid, start.clone())));
    }
    let rows = measure(session, Some(zeros));
    let written = rows.iter().filter_map(|row| Some((row.tid?, row.written?))).collect();
    found.findings.extend(pools(&report.threads, &starts, &threads::doing(session), &written));
}

/// What threads have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    /// What they are for.
    Role(&'static str),
    /// Their name, without the number at its end.
    Name(String),
    /// The function that they began in.
    Start(String),
    /// What they are in.
    Place(String),
}

/// What a thread has in common with others, in one respect.
type Way<'a> = &'a dyn Fn(&ThreadRow) -> Option<Pool>;

/// Threads that have one thing in common.
#[derive(Default)]
struct Members {
    /// How many there are in each place.
    places: BTreeMap<Option<String>, u64>,
    count: u64,
    written: u64,
    /// The first one's name.
    example: Option<String>,
}

/// Threads that are many and of one pool, or in one place. By the system's number: where they began, what they do,
/// what they wrote to their stacks.
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
    let told = |(place, n): &(&Option<String>, u64)| {
        let place = place.as_deref().unwrap_or("code without symbols");
        if *n == members.count { format!("all in {place}") } else { format!("{} in {place}", exact(*n)) }
    };
    let gathered = places.first().is_some_and(|(_, most)| most.saturating_mul(100) >= n.saturating_mul(GATHERED));
    let mut parts: Vec<String> = places.iter().take(PLACES).map(told).collect();
    let rest = places.get(PLACES..).unwrap_or_default();
    if !gathered {
        parts = vec![format!("in {}", count(places.len() as u64, "different function"))];
    } else if !rest.is_empty() {
        let others: u64 = rest.iter().map(|(_, n)| n).sum();
        parts.push(format!("{} in {}", exact(others), count(rest.len() as u64, "other function")));
    }
    let text = format!("{who}: {}. Written stack memory: {}.", parts.join(", "), round(members.written));
    let severity = if n >= TOO_MANY { Severity::Warning } else { Severity::Info };
    let finding = Finding::new(id, severity, text, evidence).about(members.written).known(Confidence::Derived);
    finding.more("threads --group").within("stacks")
}

/// A name without the number that it ends in, nor what sets that off: `worker` of `worker-12` and of `worker #3`.
/// None where nothing is left.
fn stem(name: &str) -> Option<String> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = stem.trim_end_matches(|c: char| !c.is_alphanumeric());
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// The function that a thread began in: the outermost that has a name and is not where all threads begin.
fn start(frames: &[FrameRow]) -> Option<String> {
    let managed = frames.iter().rev().filter(|f| f.kind == FrameRowKind::Managed && f.method.is_some());
    let own = managed
        .clone()
        .find(|f| f.method.as_deref().is_some_and(|name: &str| !BEGINS.iter().any(|b| name.starts_with(b))));
    let common = |f: &&FrameRow| f.module.as_deref().is_none_or(|m: &str| BEGINNINGS.iter().any(|b| m.starts_with(b)));
    let native = || frames.iter().rev().filter(|f| f.kind == FrameRowKind::Native).find(|f| !common(f));
    own.or_else(|| if managed.clone().next().is_some() { None } else { native() }).map(FrameRow::shown)
}

fn crashed(session: &Session<'_>) -> Option<Finding> {
    let crash = crash::crash(session.process);
    let signal = crash.signal?;
    let thread = crash.tid.map_or_else(String::new, |tid| format!(" in thread {tid}"));
    let text = format!("The process was terminated by {}{thread}.", crash::name(signal.number));
    let more = crash.tid.map_or_else(|| "info".to_owned(), |tid| format!("threads --tid {tid}"));
    Some(Finding::new("crash", Severity::Warning, text, "signal in the core's notes").more(more))
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
                // Those of the collector are too few, and do the same as the twenty without a name, and the main thread.
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
