use std::cmp::Reverse;
use std::collections::HashMap;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::analysis::crash::crash;
use crate::analysis::resident::{by_group, by_range};
use crate::analysis::zero::ZeroMap;
use crate::commands::stacks::distribution::most_common;
use crate::commands::stacks::report::{StackGroup, StackRow, StacksReport, StacksTotal};
use crate::commands::threads::Doing;
use crate::map::{Confidence, Kind, Region};
use crate::native::foreign::FIBER_STACK;
use crate::native::{StackState, ThreadStack};
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::session::Session;
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::targets::threads::tid_text;
use crate::units::round;

/// Measures all stacks. With `zero_fill`, also how much of them was ever written. `doing` is the activity of each
/// thread.
pub fn stacks(
    session: &Session<'_>,
    doing: &HashMap<u32, Doing>,
    zero_fill: bool,
    progress: &Progress,
) -> StacksReport {
    let zeros = zero_fill.then(|| ZeroMap::scan(session, Some(Kind::Stack), progress));
    let mut rows = measure(session, zeros.as_ref());
    let crashed = crash(session.process).tid;
    for row in &mut rows {
        row.crashed = row.tid.is_some() && row.tid == crashed;
        let Some(doing) = row.tid.or(row.used_by).and_then(|tid| doing.get(&tid)) else { continue };
        row.managed_id = doing.managed_id;
        // Shown once per thread, in the row of its own stack.
        row.does = doing.text.clone().filter(|_| row.tid.is_some());
    }
    let mut total = sum(&rows, zero_fill);
    let mut groups = groups(&rows, zero_fill);
    add_sums(session, zeros.as_ref(), &rows, &mut total, &mut groups);
    let findings = verdict(session, &rows);
    StacksReport { stacks: rows, groups, total, findings }
}

/// Maximum number of thread ids listed per group.
const MAX_LISTED: usize = 64;

/// Groups the stacks of threads by activity.
fn groups(rows: &[StackRow], zero_fill: bool) -> Vec<StackGroup> {
    let mut by_text: HashMap<Option<&str>, StackGroup> = HashMap::new();
    for row in rows.iter().filter(|r| r.tid.is_some()) {
        let group = by_text.entry(row.does.as_deref()).or_insert_with(|| StackGroup {
            does: row.does.clone(),
            touched: zero_fill.then_some(0),
            written: zero_fill.then_some(0),
            ..StackGroup::default()
        });
        let add = |sum: u64, more: Option<u64>| sum.saturating_add(more.unwrap_or(0));
        group.count += 1;
        group.reserved = add(group.reserved, row.reserved);
        group.in_use = add(group.in_use, row.in_use);
        if row.low.is_some() && !row.lost {
            group.touched.add_saturating(row.touched);
        }
        group.written = group.written.map(|sum| add(sum, row.written));
        if group.tids.len() < MAX_LISTED {
            group.tids.extend(row.tid);
        }
    }
    let mut out: Vec<StackGroup> = by_text.into_values().collect();
    // Not sorted by activity, because its text differs if names were overwritten (`shrink --scrub`).
    out.sort_by_key(|g| (Reverse(g.count), Reverse(g.reserved), Reverse(g.in_use), g.tids.iter().min().copied()));
    out
}

/// Returns a row for each stack, and for each thread without one.
pub(in crate::commands) fn measure(session: &Session<'_>, zeros: Option<&ZeroMap>) -> Vec<StackRow> {
    let fibers = fiber_stacks(session);
    let all = || session.stacks().list.iter().chain(&fibers);
    let mut rows: Vec<StackRow> = all().map(|s| row(session, s, zeros)).collect();
    if let Some(residence) = session.process.residence() {
        let ranges: Vec<AddrRange> = all().map(|s| s.stack).collect();
        let figures = by_range(session, residence, &ranges, zeros);
        rows.iter_mut().zip(figures).for_each(|(row, figures)| row.resident = figures);
    }
    for lost in &session.stacks().without {
        rows.push(StackRow {
            tid: Some(lost.tid),
            name: session.process.thread_name(lost.tid),
            state: StackState::Unknown,
            sp: Some(lost.sp),
            current: true,
            source: lost.why.clone(),
            ..StackRow::default()
        });
    }
    rows
}

/// Returns the stacks of waiting fibers, which the map has from the fibers' contexts. No thread has a register in them.
fn fiber_stacks(session: &Session<'_>) -> Vec<ThreadStack> {
    let regions = &session.map().regions;
    let fibers = regions.iter().enumerate().filter(|(_, r)| r.kind == Kind::Stack && &*r.detail == FIBER_STACK);
    let stack = |(i, region): (usize, &Region)| {
        let below = i.checked_sub(1).and_then(|i| regions.get(i)).filter(|below| below.range.end == region.range.start);
        ThreadStack {
            tid: None,
            state: StackState::Fiber,
            stack: region.range,
            zone: AddrRange::new(region.range.start, region.range.start),
            guard: below.filter(|below| below.kind == Kind::StackGuard).map(|below| below.range),
            mapped: region.range,
            sp: None,
            control: None,
            current: false,
            confidence: region.confidence,
            source: "the fiber's context (ucontext_t)".to_owned(),
        }
    };
    fibers.map(stack).collect()
}

fn row(session: &Session<'_>, s: &ThreadStack, zeros: Option<&ZeroMap>) -> StackRow {
    let own = s.state.is_own();
    let lost = own && s.tid.is_some_and(|tid| session.stacks().blank.contains(&tid));
    // The runtime's handler may run on a stack that no signal frame leads from.
    let stored = || s.tid.filter(|_| own).and_then(|tid| interrupted(session, s, tid));
    let sp = s.sp.or_else(stored);
    let scanned = zeros.filter(|_| !lost).map(|z| z.within(s.stack));
    let kind = session.map().region_at(sp.filter(|sp| s.stack.contains(*sp)).unwrap_or(s.zone.end.max(s.stack.start)));
    StackRow {
        tid: s.tid.filter(|_| own),
        used_by: s.tid.filter(|_| !own),
        name: s.tid.and_then(|t| session.process.thread_name(t)),
        managed_id: None,
        crashed: false,
        does: None,
        state: s.state,
        kind: kind.map(|r| r.kind),
        low: Some(s.stack.start),
        high: Some(s.stack.end),
        reserved: Some(s.stack.len()),
        guard: match (s.guard, s.state) {
            (Some(guard), _) => Some(guard.len().saturating_add(s.zone.len())),
            // Below the main stack the kernel keeps a gap, not a guard mapping.
            (None, StackState::Main) => Some(0),
            (None, _) if s.confidence == Confidence::Heuristic => None,
            (None, _) => Some(s.zone.len()),
        },
        sp,
        current: s.current,
        overflowed: sp.is_some_and(|sp| s.overflowed_to(sp)),
        // After an overflow, the stack pointer is in the guard.
        in_use: sp.map(|sp| s.stack.end.since(sp.max(s.stack.start))),
        touched: scanned.and_then(|z| high_water_mark(session, s, z.first_written)),
        in_core: session.process.space().dumped_in(s.stack),
        lost,
        zero: scanned.map(|z| z.zero),
        written: scanned.map(|z| z.written),
        confidence: Some(s.confidence),
        source: s.source.clone(),
        ..StackRow::default()
    }
}

/// Returns the stack pointer at which a signal interrupted managed code on a thread's own stack, in its guard after an
/// overflow.
fn interrupted(session: &Session<'_>, s: &ThreadStack, tid: u32) -> Option<Addr> {
    session.interrupted(tid).into_iter().filter(|sp| s.stack.contains(*sp) || s.overflowed_to(*sp)).min()
}

/// Returns the high-water mark of a stack: bytes from its lowest non-zero page up. `None` if a page below is not in the
/// core, since it may have been written. Mini dumps have a stack from its pointer up.
fn high_water_mark(session: &Session<'_>, s: &ThreadStack, first_written: Option<Addr>) -> Option<u64> {
    let low = s.zone.end.max(s.stack.start);
    let mark = first_written.map_or(s.stack.end, |at| at.align_down(PAGE).max(s.stack.start));
    let below = AddrRange::new(low.min(mark), mark);
    (session.process.space().dumped_in(below) == below.len()).then(|| s.stack.end.since(mark))
}

fn sum(rows: &[StackRow], zero_fill: bool) -> StacksTotal {
    // A stack in a malloc block counts as malloc memory.
    let known = || rows.iter().filter(|r| r.low.is_some() && r.kind == Some(Kind::Stack));
    let add = |f: fn(&StackRow) -> Option<u64>| known().filter_map(f).fold(0, u64::saturating_add);
    StacksTotal {
        count: known().count() as u64,
        cached: known().filter(|r| r.state == StackState::Cached).count() as u64,
        reserved: add(|r| r.reserved),
        guard: add(|r| r.guard),
        in_use: add(|r| r.in_use),
        touched: zero_fill.then(|| known().filter(|r| !r.lost).map(|r| r.touched).saturating_sum()).flatten(),
        in_core: add(|r| Some(r.in_core)),
        zero: zero_fill.then(|| add(|r| r.zero)),
        written: zero_fill.then(|| add(|r| r.written)),
        ..StacksTotal::default()
    }
}

/// Computes resident sums over all stacks and over each group. They are not added up from the rows, because more is
/// certain about several stacks in one mapping than about each.
fn add_sums(
    session: &Session<'_>,
    zeros: Option<&ZeroMap>,
    rows: &[StackRow],
    total: &mut StacksTotal,
    groups: &mut [StackGroup],
) {
    let Some(residence) = session.process.residence() else { return };
    let range = |row: &StackRow| Some(AddrRange::new(row.low?, row.high?));
    let counted = rows.iter().filter(|row| row.kind == Some(Kind::Stack));
    let all: Vec<(AddrRange, usize)> = counted.filter_map(range).map(|range| (range, 0)).collect();
    if let Some(figures) = by_group(session, residence, &all, 1, zeros).first() {
        total.resident = *figures;
    }
    let place: HashMap<Option<&str>, usize> = groups.iter().enumerate().map(|(i, g)| (g.does.as_deref(), i)).collect();
    let own = rows.iter().filter(|row| row.tid.is_some());
    let each: Vec<(AddrRange, usize)> =
        own.filter_map(|row| Some((range(row)?, *place.get(&row.does.as_deref())?))).collect();
    let figures = by_group(session, residence, &each, groups.len(), zeros);
    for (group, figures) in groups.iter_mut().zip(figures) {
        (group.rss, group.rss_estimated) = (figures.rss, figures.rss_estimated);
    }
}

/// Environment variables that set a .NET thread's stack size, newest name first.
const STACK_SIZE_KNOBS: [&str; 3] =
    ["DOTNET_DefaultStackSize", "DOTNET_Thread_DefaultStackSize", "COMPlus_DefaultStackSize"];

/// Minimum number of threads for a finding about their stacks.
const MANY_STACKS: usize = 32;

/// Maximum number of threads named in a finding.
const MAX_NAMED: usize = 8;

/// Minimum reserved bytes that make stacks a warning.
const LARGE_RESERVE: u64 = 1 << 30;

/// The thread that ended the process by an access to memory, and the address that it accessed.
fn fault(session: &Session<'_>) -> Option<(u32, Addr)> {
    let crash = crash(session.process);
    let signal = crash.signal.filter(|signal| FAULTS.contains(&signal.number))?;
    Some((crash.tid?, signal.info?.addr))
}

/// Signals of an access to memory: SIGSEGV, SIGBUS.
const FAULTS: [i32; 2] = [11, 7];

/// Bytes below the main stack in which the kernel maps nothing, and to which the stack does not grow
/// (`stack_guard_gap`).
const GUARD_GAP: u64 = 256 * PAGE;

/// The finding about a thread that overflowed its stack. `fault`: the thread and address of the access that ended the
/// process.
fn overflow(row: &StackRow, fault: Option<(u32, Addr)>) -> Option<Finding> {
    let (tid, sp, low) = (row.tid?, row.sp?, row.low?);
    let guard = if row.state == StackState::Main { GUARD_GAP } else { row.guard? };
    let is_in_guard = |at: Addr| at < low && low.since(at) <= guard;
    // A push writes below the stack pointer, which may be the last address of the stack then. An access from far above
    // is a wrong pointer instead.
    let pushed = fault.filter(|(of, at)| *of == tid && is_in_guard(*at) && *at < sp && sp.since(*at) <= guard);
    let (place, evidence) = match pushed {
        _ if is_in_guard(sp) => (
            format!("SP {sp} is in the guard below it"),
            "its stack pointer, or the one saved when a signal interrupted it",
        ),
        Some((_, at)) => (
            format!("SP is {sp}, and it accessed {at}, in the guard below it"),
            "its stack pointer, and the address of the access that ended the process",
        ),
        None => return None,
    };
    Some(Finding {
        id: "stack-overflow",
        severity: Severity::Warning,
        text: format!("Thread {} overflowed its {} stack: {place}.", tid_text(tid), round(row.reserved.unwrap_or(0))),
        evidence: evidence.into(),
        ..Finding::default()
    })
}

/// Findings about thread stacks: their sums, and the source of their size.
pub(in crate::commands) fn verdict(session: &Session<'_>, rows: &[StackRow]) -> Vec<Finding> {
    let threads: Vec<&StackRow> = rows.iter().filter(|r| r.state == StackState::Thread).collect();
    let mut out = Vec::new();
    let reserve: u64 = threads.iter().filter_map(|r| r.reserved).fold(0, u64::saturating_add);
    let most = most_common(threads.iter().filter_map(|r| r.reserved));
    if let Some((size, same)) = most.filter(|_| threads.len() >= MANY_STACKS || reserve >= LARGE_RESERVE) {
        let written: Option<u64> =
            threads.iter().filter(|r| !r.lost).map(|r| r.written).try_fold(0u64, |sum, w| Some(sum.saturating_add(w?)));
        let rss: Option<u64> =
            threads.iter().map(|r| r.resident.rss).try_fold(0u64, |sum, rss| Some(sum.saturating_add(rss?)));
        let mut text = format!("{} thread stacks reserve {}", threads.len(), round(reserve));
        text.push_str(&if same == threads.len() {
            format!(" ({} each)", round(size))
        } else {
            format!(" ({} of them {} each)", same, round(size))
        });
        match written {
            Some(written) if threads.iter().any(|r| !r.lost && r.touched.is_none()) => {
                text.push_str(&format!(
                    ". {} of it is in the core and not zero. The core has only the upper part of some stacks, so how \
                     much was ever written is unknown",
                    round(written)
                ));
            }
            Some(written) => {
                let share = written as f64 * 100.0 / reserve.max(1) as f64;
                text.push_str(&format!(". {} of it ({share:.1} %) was written", round(written)));
                text.push_str(&match rss {
                    Some(rss) => format!(", {} resident (RSS)", round(rss)),
                    None => ". A zero page may never have been resident: compare with RSS (--smaps) before blaming the stacks".to_owned(),
                });
                let mut depths: Vec<u64> = threads.iter().filter_map(|r| r.touched).collect();
                depths.sort_unstable();
                if let (Some(&median), Some(&deepest)) = (depths.get(depths.len() / 2), depths.last()) {
                    text.push_str(&format!(". High-water mark: median {}, deepest {}", round(median), round(deepest)));
                }
            }
            None => {
                if let Some(rss) = rss {
                    text.push_str(&format!(". {} of it is resident (RSS)", round(rss)));
                }
                text.push_str(". --zero-fill shows how much of it was written");
            }
        }
        text.push_str(". ");
        let (knob, evidence) = size_source(session, size);
        text.push_str(&knob);
        // A large reserve is unimportant if it is known not to be resident.
        let large = rss.unwrap_or(reserve) >= LARGE_RESERVE;
        out.push(Finding {
            id: "stacks",
            severity: if large { Severity::Warning } else { Severity::Info },
            text,
            evidence,
            // RSS if known. Otherwise the reserve if that is large, else the written bytes.
            bytes: rss.or(if large { Some(reserve) } else { written }),
            command: Some("stacks --zero-fill".into()),
            ..Finding::default()
        });
    }
    let overflows: Vec<(Option<u32>, Finding)> =
        rows.iter().filter_map(|row| Some((row.tid, overflow(row, fault(session))?))).collect();
    // The handler of an overflow runs on another stack.
    let overflowed: Vec<u32> = overflows.iter().filter_map(|(tid, _)| *tid).collect();
    out.extend(overflows.into_iter().map(|(_, finding)| finding));
    let on = |state: StackState| -> Vec<u32> {
        let of_state = rows.iter().filter(|r| r.state == state && r.current).filter_map(|r| r.used_by);
        of_state.filter(|tid| !overflowed.contains(tid)).collect()
    };
    let figures = [
        (
            on(StackState::Signal),
            "runs a signal handler on a signal stack",
            "run signal handlers on signal stacks",
            " The interrupted stack stays in use from its saved SP up.",
        ),
        (
            on(StackState::Switched),
            "runs on a stack that it switched to (of a coroutine, fiber or goroutine)",
            "run on stacks that they switched to (of coroutines, fibers or goroutines)",
            "",
        ),
    ];
    for (tids, one, many, note) in figures.into_iter().filter(|(tids, ..)| !tids.is_empty()) {
        let named: Vec<String> = tids.iter().take(MAX_NAMED).map(|&tid| tid_text(tid)).collect();
        let more = tids.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = if tids.len() == 1 { format!("1 thread {one}") } else { format!("{} threads {many}", tids.len()) };
        out.push(Finding {
            id: "other-stacks",
            severity: Severity::Info,
            text: format!("{what}: {}{more}.{note}", named.join(", ")),
            evidence: "stack pointers".into(),
            ..Finding::default()
        });
    }
    out.extend(kept(rows));
    out.extend(inherited(rows));
    out.sort_by_key(|f| Reverse(f.severity));
    out
}

/// Maximum bytes of stacks that glibc caches for reuse (`stack_cache_maxsize`, nptl/allocatestack.c).
const CACHE: u64 = 40 << 20;

/// Reports stacks that remain after their threads ended.
fn kept(rows: &[StackRow]) -> Option<Finding> {
    let cached: Vec<&StackRow> = rows.iter().filter(|r| r.state == StackState::Cached).collect();
    let reserved = cached.iter().filter_map(|r| r.reserved).fold(0, u64::saturating_add);
    let rss: Option<u64> =
        cached.iter().map(|r| r.resident.rss).try_fold(0u64, |sum, rss| Some(sum.saturating_add(rss?)));
    let size = match rss {
        Some(rss) => format!("{}, {} of it resident", round(reserved), round(rss)),
        None => round(reserved),
    };
    let (severity, text) = match cached.len() {
        0 => return None,
        1 => (Severity::Info, format!("1 stack ({size}) is cached for reuse; its thread has ended.")),
        n if reserved <= CACHE => (
            Severity::Info,
            format!("{n} stacks ({size}) are cached for reuse; their threads have ended. glibc caches up to 40 MiB."),
        ),
        n => (
            Severity::Warning,
            format!(
                "{n} stacks ({size}) remain after their threads ended. glibc caches up to 40 MiB; the rest belong to threads \
                 that were neither joined (pthread_join) nor detached."
            ),
        ),
    };
    let finding = Finding::new("cached-stacks", severity, text, "glibc's stack lists").more("stacks --zero-fill");
    let bytes = rss.unwrap_or(reserved);
    Some(if severity == Severity::Warning { finding.about(bytes) } else { finding }.within("stacks"))
}

/// Reports stacks that fork copied from the parent process.
fn inherited(rows: &[StackRow]) -> Option<Finding> {
    let stacks: Vec<&StackRow> = rows.iter().filter(|r| r.state == StackState::Inherited).collect();
    let reserved = round(stacks.iter().filter_map(|r| r.reserved).fold(0, u64::saturating_add));
    let text = match stacks.len() {
        0 => return None,
        1 => format!(
            "1 stack ({reserved}) is the parent's: fork copied it, and its thread does not run in this process."
        ),
        n => format!(
            "{n} stacks ({reserved}) are the parent's: fork copied them, and their threads do not run in this process."
        ),
    };
    let evidence = "thread control blocks: no id, and not marked as ended (glibc's __reclaim_stacks)";
    Some(Finding::new("inherited-stacks", Severity::Info, text, evidence).more("stacks --zero-fill").within("stacks"))
}

/// Describes the source of a thread's stack size: the runtime's environment variable, else `ulimit -s`.
fn size_source(session: &Session<'_>, size: u64) -> (String, String) {
    let process = session.process;
    for knob in STACK_SIZE_KNOBS {
        let Some(value) = process.environment(knob) else { continue };
        let evidence = format!("environment variable {knob} on the main stack");
        // The runtime reads the value as hexadecimal, with or without 0x. Any other value may be confidential and is
        // not shown.
        let figures = match u64::from_str_radix(value.trim_start_matches("0x"), 16) {
            Ok(bytes) => {
                let seen = bytes.checked_next_multiple_of(4096) == Some(size);
                let seen = if seen { "which matches the stacks" } else { "which does not match the stacks" };
                format!("{knob}={value} is read as hexadecimal: {}, {seen}.", round(bytes))
            }
            Err(_) => format!("{knob} is set, but its value is not a hexadecimal number."),
        };
        return (figures, evidence);
    }
    let advice = session.runtimes().iter().find_map(|runtime| runtime.stack_size_advice());
    let knob = advice.unwrap_or("The size comes from `ulimit -s` unless the program sets one.");
    (knob.to_owned(), "stack fields of the thread control blocks".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A push at the lowest address of a stack faults in the guard, without the stack pointer being there.
    #[test]
    fn an_access_below_the_stack_pointer_overflows_the_stack() {
        let (low, guard) = (Addr::new(0x10_0000), 0x1000);
        let row = |sp: u64, state: StackState| StackRow {
            tid: Some(7),
            state,
            low: Some(low),
            sp: Some(Addr::new(sp)),
            guard: Some(if state == StackState::Main { 0 } else { guard }),
            ..StackRow::default()
        };
        let found = |sp: u64, fault: Option<(u32, u64)>, state: StackState| {
            overflow(&row(sp, state), fault.map(|(tid, at)| (tid, Addr::new(at)))).is_some()
        };
        let of_thread = |sp, fault| found(sp, fault, StackState::Thread);
        assert!(of_thread(0x10_0000, Some((7, 0x0f_fff8))));
        assert!(of_thread(0x0f_fff0, None));
        assert!(!of_thread(0x10_0000, None));
        // Another thread's fault, one in the stack, one below the guard, and one far below the stack pointer.
        for (sp, fault) in [
            (0x10_0000, (8, 0x0f_fff8)),
            (0x10_0010, (7, 0x10_0008)),
            (0x10_0000, (7, 0x0f_eff8)),
            (0x10_4000, (7, 0x0f_fff8)),
        ] {
            assert!(!of_thread(sp, Some(fault)), "{sp:#x} {fault:x?}");
        }
        assert!(found(0x10_0000, Some((7, 0x0f_fff8)), StackState::Main));
    }

    #[test]
    fn groups_alike_come_in_an_order_that_no_name_makes() {
        let row = |tid: u32, does: &str| StackRow {
            tid: Some(tid),
            does: Some(does.to_owned()),
            reserved: Some(8 << 20),
            in_use: Some(4096),
            ..StackRow::default()
        };
        let tids = |names: [&str; 3]| {
            let rows: Vec<StackRow> = (7..).zip(names).map(|(tid, name)| row(tid, name)).collect();
            groups(&rows, false).into_iter().map(|group| group.tids).collect::<Vec<_>>()
        };
        assert_eq!(tids(["a", "b", "c"]), [[7], [8], [9]]);
        assert_eq!(tids(["z", "c", "x"]), [[7], [8], [9]]);
    }
}
