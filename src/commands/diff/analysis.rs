use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::commands::diff::report::{CountDelta, DiffReport, DiffRow, DiffSide, SizeDelta, TypeDelta};
use crate::commands::heapstat::HeapStatReport;
use crate::commands::malloc::MallocReport;
use crate::commands::summary::{KindRow, SummaryReport};
use crate::map::Kind;
use crate::process::Process;
use crate::report::{ClusterRow, KindOrTotal, TypeRow};

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
    let mut kinds: BTreeMap<Kind, (Option<&KindRow>, Option<&KindRow>)> = BTreeMap::new();
    for k in &old.summary.kinds {
        kinds.entry(k.kind).or_default().0 = Some(k);
    }
    for k in &new.summary.kinds {
        kinds.entry(k.kind).or_default().1 = Some(k);
    }
    let figures = |k: Option<&KindRow>| k.map_or((0, 0, 0), |k| (k.count, k.size, k.in_core));
    let mut rows: Vec<DiffRow> =
        kinds.into_iter().map(|(kind, (a, b))| row(KindOrTotal::Kind(kind), figures(a), figures(b))).collect();
    rows.sort_by_key(|r| (Reverse(r.delta.unsigned_abs()), Reverse(r.new), r.kind.name()));
    let total = |s: &SummaryReport| (s.total.count, s.total.size, s.total.in_core);
    let threads = |s: &DiffSide| s.threads as u64;
    DiffReport {
        old: old.core.clone(),
        new: new.core.clone(),
        kinds: rows,
        total: row(KindOrTotal::Total, total(old.summary), total(new.summary)),
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

/// Count and bytes.
type Sum = (u64, u64);

/// Sums of both sides by key.
fn side_by_side<K: Ord>(
    old: impl Iterator<Item = (K, Sum)>,
    new: impl Iterator<Item = (K, Sum)>,
) -> BTreeMap<K, (Sum, Sum)> {
    let mut out: BTreeMap<K, (Sum, Sum)> = BTreeMap::new();
    let add = |to: &mut Sum, of: Sum| *to = (to.0.saturating_add(of.0), to.1.saturating_add(of.1));
    for (key, sum) in old {
        add(&mut out.entry(key).or_default().0, sum);
    }
    for (key, sum) in new {
        add(&mut out.entry(key).or_default().1, sum);
    }
    out
}

/// Types by name: their addresses say nothing in another process.
fn types<'a>(old: &'a HeapStatReport, new: &'a HeapStatReport) -> Option<Vec<TypeDelta>> {
    if old.types.is_empty() || new.types.is_empty() {
        return None;
    }
    let of = |t: &'a TypeRow| (t.name.as_str(), (t.count, t.size));
    let all = side_by_side(old.types.iter().map(of), new.types.iter().map(of)).into_iter();
    let mut rows: Vec<TypeDelta> = all
        .map(|(name, (old, new))| TypeDelta {
            name: name.to_owned(),
            old_count: old.0,
            new_count: new.0,
            delta_count: delta(old.0, new.0),
            old: old.1,
            new: new.1,
            delta: delta(old.1, new.1),
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
    let of = |c: &ClusterRow| ((c.size, c.mmapped), (c.count, c.bytes));
    let all = side_by_side(old.clusters.iter().map(of), new.clusters.iter().map(of)).into_iter();
    let mut rows: Vec<SizeDelta> = all
        .map(|((size, mmapped), (old, new))| SizeDelta {
            size,
            mmapped,
            old_count: old.0,
            new_count: new.0,
            delta_count: delta(old.0, new.0),
            old: old.1,
            new: new.1,
            delta: delta(old.1, new.1),
        })
        .filter(|r| r.delta_count != 0)
        .collect();
    rows.sort_by_key(|r| (Reverse(r.delta.unsigned_abs()), r.size));
    Some(rows)
}

fn row(kind: KindOrTotal, old: (u64, u64, u64), new: (u64, u64, u64)) -> DiffRow {
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
        path: process.facts().path.clone(),
        pid: process.pid(),
        producer: process.producer(),
        threads: process.threads().len(),
        truncated: process.facts().truncation.is_some(),
    }
}
