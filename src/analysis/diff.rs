use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::process::Process;
use crate::report::{
    CountDelta, DiffReport, DiffRow, DiffSide, HeapStatReport, KindRow, MallocReport, SizeDelta, SummaryReport,
    TypeDelta,
};

/// One of two cores to compare.
#[derive(Clone, Copy)]
pub struct DiffInput<'a> {
    /// Which core it is.
    pub core: &'a DiffSide,
    /// Its kinds.
    pub summary: &'a SummaryReport,
    /// The objects on its managed heaps; `None` where nobody looked.
    pub heap: Option<&'a HeapStatReport>,
    /// The blocks of malloc; `None` where nobody looked.
    pub malloc: Option<&'a MallocReport>,
}

/// Put two cores side by side.
pub fn diff(old: DiffInput<'_>, new: DiffInput<'_>) -> DiffReport {
    let mut kinds: BTreeMap<&'static str, (Option<&KindRow>, Option<&KindRow>)> = BTreeMap::new();
    for k in &old.summary.kinds {
        kinds.entry(k.kind).or_default().0 = Some(k);
    }
    for k in &new.summary.kinds {
        kinds.entry(k.kind).or_default().1 = Some(k);
    }
    let figures = |k: Option<&KindRow>| k.map_or((0, 0, 0), |k| (k.count, k.size, k.in_core));
    let mut rows: Vec<DiffRow> = kinds.into_iter().map(|(kind, (a, b))| row(kind, figures(a), figures(b))).collect();
    rows.sort_by_key(|r| (Reverse(r.delta.unsigned_abs()), Reverse(r.new), r.kind));
    let total = |s: &SummaryReport| (s.total.count, s.total.size, s.total.in_core);
    let threads = |s: &DiffSide| s.threads as u64;
    DiffReport {
        old: old.core.clone(),
        new: new.core.clone(),
        kinds: rows,
        total: row("total", total(old.summary), total(new.summary)),
        threads: CountDelta {
            old: threads(old.core),
            new: threads(new.core),
            delta: delta(threads(old.core), threads(new.core)),
        },
        types: old.heap.zip(new.heap).and_then(|(a, b)| types(a, b)),
        malloc: old.malloc.zip(new.malloc).and_then(|(a, b)| sizes(a, b)),
        conditions: Vec::new(),
    }
}

/// Types by name: their addresses say nothing in another process.
fn types(old: &HeapStatReport, new: &HeapStatReport) -> Option<Vec<TypeDelta>> {
    if old.types.is_empty() || new.types.is_empty() {
        return None;
    }
    let mut all: BTreeMap<&str, TypeDelta> = BTreeMap::new();
    for t in &old.types {
        let row = all.entry(&t.name).or_default();
        row.old_count = row.old_count.saturating_add(t.count);
        row.old = row.old.saturating_add(t.size);
    }
    for t in &new.types {
        let row = all.entry(&t.name).or_default();
        row.new_count = row.new_count.saturating_add(t.count);
        row.new = row.new.saturating_add(t.size);
    }
    let mut rows: Vec<TypeDelta> = all
        .into_iter()
        .map(|(name, row)| TypeDelta {
            name: name.to_owned(),
            delta_count: delta(row.old_count, row.new_count),
            delta: delta(row.old, row.new),
            ..row
        })
        .filter(|r| r.delta != 0 || r.delta_count != 0)
        .collect();
    rows.sort_by(|a, b| b.delta.unsigned_abs().cmp(&a.delta.unsigned_abs()).then_with(|| a.name.cmp(&b.name)));
    Some(rows)
}

/// Used blocks by the size of their chunks.
fn sizes(old: &MallocReport, new: &MallocReport) -> Option<Vec<SizeDelta>> {
    if old.arenas.is_empty() || new.arenas.is_empty() {
        return None;
    }
    let mut all: BTreeMap<(u64, bool), SizeDelta> = BTreeMap::new();
    for c in &old.clusters {
        let row = all.entry((c.size, c.mmapped)).or_default();
        row.old_count = row.old_count.saturating_add(c.count);
        row.old = row.old.saturating_add(c.bytes);
    }
    for c in &new.clusters {
        let row = all.entry((c.size, c.mmapped)).or_default();
        row.new_count = row.new_count.saturating_add(c.count);
        row.new = row.new.saturating_add(c.bytes);
    }
    let mut rows: Vec<SizeDelta> = all
        .into_iter()
        .map(|((size, mmapped), row)| SizeDelta {
            size,
            mmapped,
            delta_count: delta(row.old_count, row.new_count),
            delta: delta(row.old, row.new),
            ..row
        })
        .filter(|r| r.delta_count != 0)
        .collect();
    rows.sort_by_key(|r| (Reverse(r.delta.unsigned_abs()), r.size));
    Some(rows)
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

/// A core as `diff` names it.
pub fn side(process: &Process) -> DiffSide {
    DiffSide {
        path: process.core.path.clone(),
        pid: process.pid(),
        producer: process.core.producer.name(),
        threads: process.core.notes.threads.len(),
        truncated: process.core.truncation.is_some(),
    }
}
