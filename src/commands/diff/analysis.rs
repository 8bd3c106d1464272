use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::commands::diff::report::{CountDelta, DiffReport, DiffRow, DiffSide, SizeDelta, TypeDelta};
use crate::commands::summary::SummaryReport;
use crate::map::Kind;
use crate::process::Process;
use crate::report::KindOrTotal;
use crate::series::{BlockSize, KindFigures, Moment, Rest, Sum};

/// One side of a comparison: a core, a running process, or a sample of a recording.
#[derive(Clone, Copy)]
pub struct DiffInput<'a> {
    /// Its source.
    pub core: &'a DiffSide,
    /// Its figures.
    pub moment: &'a Moment,
}

/// Compares two moments.
pub fn diff(old: DiffInput<'_>, new: DiffInput<'_>) -> DiffReport {
    let named = |m: &Moment| -> BTreeMap<Kind, KindFigures> {
        m.kinds.iter().filter_map(|(name, figures)| Some((Kind::from_name(name)?, *figures))).collect()
    };
    let (before, after) = (named(old.moment), named(new.moment));
    let kinds: BTreeSet<Kind> = before.keys().chain(after.keys()).copied().collect();
    let figures = |of: &BTreeMap<Kind, KindFigures>, kind: &Kind| of.get(kind).copied().unwrap_or(NONE);
    let mut rows: Vec<DiffRow> = kinds
        .iter()
        .map(|kind| row(KindOrTotal::Kind(*kind), &figures(&before, kind), &figures(&after, kind)))
        .collect();
    rows.sort_by_key(|r| (Reverse(r.delta.unsigned_abs()), Reverse(r.new), r.kind.name()));
    let total = |m: &Moment| m.kinds.values().copied().reduce(KindFigures::plus).unwrap_or(NONE);
    DiffReport {
        old: old.core.clone(),
        new: new.core.clone(),
        kinds: rows,
        total: row(KindOrTotal::Total, &total(old.moment), &total(new.moment)),
        threads: CountDelta {
            old: old.moment.threads,
            new: new.moment.threads,
            delta: delta(old.moment.threads, new.moment.threads),
        },
        types: types(old.moment, new.moment),
        malloc: sizes(old.moment, new.moment),
        conditions: Vec::new(),
    }
}

/// Figures of a kind that is not present.
const NONE: KindFigures = KindFigures { count: 0, size: 0, readable: 0, written: Some(0), rss: Some(0), swap: Some(0) };

/// Returns the figures of a summary as a moment.
pub fn moment_of(summary: &SummaryReport, threads: u64) -> Moment {
    let figures = |k: &crate::commands::summary::KindRow| KindFigures {
        count: k.count,
        size: k.size,
        readable: k.in_core,
        written: k.written,
        rss: k.resident.rss,
        swap: k.resident.swap,
    };
    Moment {
        threads,
        kinds: summary.kinds.iter().map(|k| (k.kind.name().into(), figures(k))).collect(),
        ..Moment::default()
    }
}

/// Joins the sums of both sides by key. A key that one side does not list counts as 0 there, unless that side lists
/// only some of its rows.
fn side_by_side<'a, K: Ord + Clone>(
    old: (&'a BTreeMap<K, Sum>, &'a Rest),
    new: (&'a BTreeMap<K, Sum>, &'a Rest),
) -> impl Iterator<Item = (K, Option<Sum>, Option<Sum>)> {
    let keys: BTreeSet<K> = old.0.keys().chain(new.0.keys()).cloned().collect();
    let of = |(rows, rest): (&BTreeMap<K, Sum>, &Rest), key: &K| {
        rows.get(key).copied().or_else(|| (rest.rows == 0).then(Sum::default))
    };
    keys.into_iter().map(move |key| {
        let (old, new) = (of(old, &key), of(new, &key));
        (key, old, new)
    })
}

/// Compares types by name, because their addresses differ between processes.
fn types(old: &Moment, new: &Moment) -> Option<Vec<TypeDelta>> {
    let (old, new) = (old.types.as_ref()?, new.types.as_ref()?);
    let all = side_by_side((&old.types, &old.rest), (&new.types, &new.rest));
    let mut rows: Vec<TypeDelta> = all
        .map(|(name, old, new)| TypeDelta {
            name: name.to_string(),
            old_count: old.map(|s| s.count),
            new_count: new.map(|s| s.count),
            delta_count: both(old, new, |s| s.count),
            old: old.map(|s| s.bytes),
            new: new.map(|s| s.bytes),
            delta: both(old, new, |s| s.bytes),
        })
        .filter(|r| r.delta != Some(0) || r.delta_count != Some(0))
        .collect();
    rows.sort_by(|a, b| {
        weight(b.delta, b.old, b.new).cmp(&weight(a.delta, a.old, a.new)).then_with(|| a.name.cmp(&b.name))
    });
    Some(rows)
}

/// Compares used blocks by chunk size. `None` if the allocators differ, since their chunk sizes do too.
fn sizes(old: &Moment, new: &Moment) -> Option<Vec<SizeDelta>> {
    let (old, new) = (old.malloc.as_ref()?, new.malloc.as_ref()?);
    if old.allocator != new.allocator {
        return None;
    }
    let all = side_by_side((&old.sizes, &old.rest), (&new.sizes, &new.rest));
    let mut rows: Vec<SizeDelta> = all
        .map(|(BlockSize { size, mmapped }, old, new)| SizeDelta {
            size,
            mmapped,
            old_count: old.map(|s| s.count),
            new_count: new.map(|s| s.count),
            delta_count: both(old, new, |s| s.count),
            old: old.map(|s| s.bytes),
            new: new.map(|s| s.bytes),
            delta: both(old, new, |s| s.bytes),
        })
        .filter(|r| r.delta_count != Some(0))
        .collect();
    rows.sort_by_key(|r| (Reverse(weight(r.delta, r.old, r.new)), r.size));
    Some(rows)
}

/// Sort key of a row: its change. If one side does not list the row, the value of the other.
fn weight(delta: Option<i64>, old: Option<u64>, new: Option<u64>) -> u64 {
    delta.map_or_else(|| old.or(new).unwrap_or(0), i64::unsigned_abs)
}

fn both(old: Option<Sum>, new: Option<Sum>, of: fn(Sum) -> u64) -> Option<i64> {
    old.zip(new).map(|(old, new)| delta(of(old), of(new)))
}

fn row(kind: KindOrTotal, old: &KindFigures, new: &KindFigures) -> DiffRow {
    DiffRow {
        kind,
        old_count: old.count,
        new_count: new.count,
        delta_count: delta(old.count, new.count),
        old: old.size,
        new: new.size,
        delta: delta(old.size, new.size),
        old_in_core: old.readable,
        new_in_core: new.readable,
        delta_in_core: delta(old.readable, new.readable),
        old_rss: old.rss,
        new_rss: new.rss,
        delta_rss: old.rss.zip(new.rss).map(|(old, new)| delta(old, new)),
    }
}

fn delta(old: u64, new: u64) -> i64 {
    i64::try_from(i128::from(new) - i128::from(old)).unwrap_or(if new > old { i64::MAX } else { i64::MIN })
}

/// Describes a core for `diff`.
pub fn side(process: &Process) -> DiffSide {
    DiffSide {
        path: process.facts().path.clone(),
        pid: process.pid(),
        producer: process.producer(),
        threads: process.threads().len(),
        truncated: process.facts().truncation.is_some(),
    }
}
