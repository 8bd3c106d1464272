use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::process::Process;
use crate::report::{CountDelta, DiffReport, DiffRow, DiffSide, KindRow, SummaryReport};

/// Put two summaries side by side.
pub fn diff(old: (&Process, &SummaryReport), new: (&Process, &SummaryReport)) -> DiffReport {
    let mut kinds: BTreeMap<&'static str, (Option<&KindRow>, Option<&KindRow>)> = BTreeMap::new();
    for k in &old.1.kinds {
        kinds.entry(k.kind).or_default().0 = Some(k);
    }
    for k in &new.1.kinds {
        kinds.entry(k.kind).or_default().1 = Some(k);
    }
    let figures = |k: Option<&KindRow>| k.map_or((0, 0, 0), |k| (k.count, k.size, k.in_core));
    let mut rows: Vec<DiffRow> = kinds.into_iter().map(|(kind, (a, b))| row(kind, figures(a), figures(b))).collect();
    rows.sort_by_key(|r| (Reverse(r.delta.unsigned_abs()), Reverse(r.new), r.kind));
    let total = |s: &SummaryReport| (s.total.count, s.total.size, s.total.in_core);
    let threads = |p: &Process| p.core.notes.threads.len() as u64;
    DiffReport {
        old: side(old.0),
        new: side(new.0),
        kinds: rows,
        total: row("total", total(old.1), total(new.1)),
        threads: CountDelta { old: threads(old.0), new: threads(new.0), delta: delta(threads(old.0), threads(new.0)) },
        types: None,
        malloc: None,
    }
}

fn row(kind: &'static str, old: (u64, u64, u64), new: (u64, u64, u64)) -> DiffRow {
    DiffRow {
        kind,
        old_count: old.0,
        new_count: new.0,
        delta_count: delta(old.0, new.0),
        old: old.1,
        new: new.1,
        delta: delta(old.1, new.1),
        old_in_core: old.2,
        new_in_core: new.2,
        delta_in_core: delta(old.2, new.2),
    }
}

fn delta(old: u64, new: u64) -> i64 {
    i64::try_from(i128::from(new) - i128::from(old)).unwrap_or(if new > old { i64::MAX } else { i64::MIN })
}

fn side(process: &Process) -> DiffSide {
    DiffSide {
        path: process.core.path.clone(),
        pid: process.pid(),
        producer: process.core.producer.name(),
        threads: process.core.notes.threads.len(),
        truncated: process.core.truncation.is_some(),
    }
}
