//! Findings about threads that wait for locks: deadlocks and contended locks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::addr::Addr;
use crate::report::{Finding, FrameRowKind, Severity, ThreadRow, WaitKind, WaitRow};
use crate::targets::threads::tid_text;
use crate::units::count;

/// Maximum number of thread ids listed in a finding.
const MAX_LISTED: usize = 8;

/// Minimum number of threads that wait for one lock, to be reported.
const MIN_WAITERS: usize = 2;

/// Deadlocks first, then locks that several threads wait for.
pub(super) fn findings(rows: &[ThreadRow]) -> Vec<Finding> {
    let by_tid: HashMap<u32, &ThreadRow> = rows.iter().map(|r| (r.tid, r)).collect();
    let mut out: Vec<Finding> = cycles(rows, &by_tid).iter().map(|cycle| deadlock(cycle)).collect();
    let mut crowds: BTreeMap<Addr, Vec<(&ThreadRow, &WaitRow)>> = BTreeMap::new();
    for row in rows {
        if let Some(wait) = lock(row) {
            crowds.entry(wait.object).or_default().push((row, wait));
        }
    }
    let mut crowds: Vec<_> = crowds.into_values().filter(|c| c.len() >= MIN_WAITERS).collect();
    crowds.sort_by_key(|c| std::cmp::Reverse(c.len()));
    out.extend(crowds.iter().filter_map(|crowd| waiters(crowd, &by_tid)));
    out
}

fn lock(row: &ThreadRow) -> Option<&WaitRow> {
    row.waits_for.as_ref().filter(|w| w.kind.is_lock())
}

/// Returns the wait of a thread that another thread must end: by releasing a lock, by initialising a class, or by
/// ending itself.
fn thread_wait(row: &ThreadRow) -> Option<&WaitRow> {
    row.waits_for.as_ref().filter(|w| w.kind.is_lock() || matches!(w.kind, WaitKind::Join | WaitKind::ClassInit))
}

/// Finds cycles of threads in which each thread waits for the next one: for a lock that the next holds, for a class
/// that it initialises, or for its end.
fn cycles<'r>(rows: &'r [ThreadRow], by_tid: &HashMap<u32, &'r ThreadRow>) -> Vec<Vec<&'r ThreadRow>> {
    let next = |row: &ThreadRow| by_tid.get(&thread_wait(row)?.owner_tid?).copied();
    let mut out = Vec::new();
    let mut done: BTreeSet<u32> = BTreeSet::new();
    for start in rows {
        let mut path: Vec<&ThreadRow> = Vec::new();
        let mut on_path: HashMap<u32, usize> = HashMap::new();
        let mut at = Some(start);
        while let Some(row) = at.filter(|row| !done.contains(&row.tid)) {
            if let Some(&from) = on_path.get(&row.tid) {
                out.push(path.get(from..).unwrap_or_default().to_vec());
                break;
            }
            on_path.insert(row.tid, path.len());
            path.push(row);
            at = next(row);
        }
        done.extend(on_path.into_keys());
    }
    out
}

fn deadlock(cycle: &[&ThreadRow]) -> Finding {
    let parts: Vec<String> = cycle
        .iter()
        .take(MAX_LISTED)
        .filter_map(|row| {
            let wait = thread_wait(row)?;
            let owner = wait.owner_tid.map_or_else(|| "?".into(), tid_text);
            Some(match wait.kind {
                WaitKind::Join => format!("{} waits for {owner} to end", title(row)),
                WaitKind::ClassInit => {
                    let class = wait.class.as_deref().unwrap_or("a class");
                    format!("{} waits for class {class}, which {owner} initialises", title(row))
                }
                _ => format!("{} waits for {}, held by {owner}", title(row), object(wait)),
            })
        })
        .collect();
    let more = cycle.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Finding {
        id: "deadlock",
        severity: Severity::Critical,
        text: format!("Deadlock of {}: {}{more}.", count(cycle.len() as u64, "thread"), parts.join("; ")),
        evidence: cycle.iter().filter_map(|row| Some(thread_wait(row)?.how)).next().unwrap_or_default().to_owned(),
        command: Some("threads".into()),
        ..Finding::default()
    }
}

fn waiters(crowd: &[(&ThreadRow, &WaitRow)], by_tid: &HashMap<u32, &ThreadRow>) -> Option<Finding> {
    let (_, wait) = crowd.first()?;
    let owner = wait.owner_tid.and_then(|tid| by_tid.get(&tid));
    let held = match (owner, wait.owner_managed_id) {
        (Some(owner), _) => format!("thread {}", title(owner)),
        (None, Some(id)) if wait.owner_virtual => format!("virtual thread #{id}"),
        (None, Some(id)) if wait.owner_ended => format!("managed thread {id}, which has ended"),
        (None, Some(id)) => format!("managed thread {id}"),
        (None, None) => "an unknown owner".to_owned(),
    };
    let does = match owner.and_then(|o| lock(o)) {
        Some(other) => format!(", which itself waits for {}", object(other)),
        None => {
            let top = owner.and_then(|o| o.frames.iter().find(|f| f.kind == FrameRowKind::Managed));
            top.map(|f| format!(", which is in {}", f.title())).unwrap_or_default()
        }
    };
    Some(Finding {
        id: "lock-waiters",
        severity: Severity::Info,
        text: format!("{} threads wait for the lock of {}, held by {held}{does}.", crowd.len(), object(wait)),
        evidence: wait.how.to_owned(),
        command: Some("threads".into()),
        ..Finding::default()
    })
}

fn title(row: &ThreadRow) -> String {
    match &row.managed_name {
        Some(name) => format!("{} \"{name}\"", tid_text(row.tid)),
        None => tid_text(row.tid),
    }
}

fn object(wait: &WaitRow) -> String {
    format!("{} ({})", wait.object, wait.r#type.as_deref().unwrap_or("type unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(tid: u32, object: u64, owner: Option<u32>) -> ThreadRow {
        let wait = WaitRow { kind: WaitKind::Lock, object: Addr::new(object), owner_tid: owner, ..WaitRow::default() };
        ThreadRow { tid, waits_for: Some(wait), ..ThreadRow::default() }
    }

    #[test]
    fn threads_that_initialise_classes_for_each_other_are_a_deadlock() {
        let row = |tid: u32, class: &str, owner: u32| {
            let mut row = waiting(tid, u64::from(owner), Some(owner));
            if let Some(wait) = &mut row.waits_for {
                wait.kind = WaitKind::ClassInit;
                wait.class = Some(class.to_owned());
            }
            row
        };
        let found = findings(&[row(3, "app.Countries", 4), row(4, "app.Currencies", 3)]);
        let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
        let wanted = "Deadlock of 2 threads: 3 waits for class app.Countries, which 4 initialises; 4 waits for class \
                      app.Currencies, which 3 initialises.";
        assert_eq!(texts, [wanted]);
    }

    #[test]
    fn a_cycle_is_found_once_whoever_leads_into_it() {
        // 1 -> 2 -> 3 -> 4 -> 2. Thread 5 waits for itself, 6 for a running
        // thread, 7 for an unknown owner.
        let rows = [
            waiting(1, 0x10, Some(2)),
            waiting(2, 0x20, Some(3)),
            waiting(3, 0x30, Some(4)),
            waiting(4, 0x10, Some(2)),
            waiting(5, 0x50, Some(5)),
            waiting(6, 0x60, Some(8)),
            waiting(7, 0x70, None),
            ThreadRow { tid: 8, ..ThreadRow::default() },
        ];
        let by_tid = rows.iter().map(|r| (r.tid, r)).collect();
        let found: Vec<Vec<u32>> = cycles(&rows, &by_tid).iter().map(|c| c.iter().map(|r| r.tid).collect()).collect();
        assert_eq!(found, [vec![2, 3, 4], vec![5]]);
        let ids: Vec<_> = findings(&rows).iter().map(|f| f.id).collect();
        // Two threads wait for the object at 0x10.
        assert_eq!(ids, ["deadlock", "deadlock", "lock-waiters"]);
    }

    #[test]
    fn who_waits_to_be_pulsed_waits_for_no_lock() {
        let mut row = waiting(1, 0x10, Some(1));
        if let Some(wait) = &mut row.waits_for {
            wait.kind = WaitKind::Pulse;
        }
        assert!(findings(&[row.clone(), row]).is_empty());
    }
}
