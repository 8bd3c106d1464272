use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::zero::ZeroMap;
use crate::commands::summary::report::{BaseRow, KindRow, MallocSplit, SummaryReport, TotalRow};
use crate::commands::summary::resident;
use crate::commands::triage;
use crate::diag::WarningCode;
use crate::map::{AddressMap, Kind, audit};
use crate::memory::scan::ZeroStat;
use crate::native::malloc;
use crate::progress::Progress;
use crate::session::Session;
use crate::sums::{SaturatingAdd, SaturatingSum};

/// Sums the map by kind. With `zero_fill`, also counts zero pages.
pub fn summary(session: &Session<'_>, zero_fill: bool, progress: &Progress) -> SummaryReport {
    let map = session.map();
    let zeros = zero_fill.then(|| ZeroMap::scan(session, None, progress));
    let by_region = zeros.as_ref().map(|z| z.by_region(map.regions.len()));
    let mut kinds = sum_kinds(map, by_region.as_deref());
    let add = |f: fn(&KindRow) -> u64| kinds.iter().map(f).fold(0, u64::saturating_add);
    let add_some = |f: fn(&KindRow) -> Option<u64>| zero_fill.then(|| kinds.iter().filter_map(f).saturating_sum());
    let mut total = TotalRow {
        count: add(|k| k.count),
        size: add(|k| k.size),
        in_core: add(|k| k.in_core),
        zero: add_some(|k| k.zero),
        written: add_some(|k| k.written),
        ..TotalRow::default()
    };
    let rss = resident::add_figures(session, &mut kinds, &mut total, zeros.as_ref());
    // The server GC reserves hundreds of GiB. Sorted by size only, used memory would come after reserved address space.
    kinds.sort_by_key(|r| (r.kind.is_reserved(), Reverse((r.resident.rss, r.in_core, r.size)), r.kind.name()));
    let source = session.process.producer().lists();
    let base = BaseRow { source, size: map.base.size(), in_core: session.process.space().dumped_total() };
    for broken in audit::invariants(map, session.process.facts()).into_iter().filter(|i| !i.ok) {
        session.process.diag.partial(WarningCode::Invariant, format!("{}: {}", broken.name, broken.detail));
    }
    let has_malloc = kinds.iter().any(|k| k.kind == Kind::Malloc);
    let split = has_malloc.then(|| malloc::split(session.process, session.map(), session.malloc()));
    let findings = triage::quick(session, zeros.as_ref(), by_region.as_deref(), split.as_ref());
    let malloc = split.map(|s| MallocSplit { used: s.used, free: s.free, overhead: s.overhead, unknown: s.unknown });
    SummaryReport { kinds, total, base, rss, malloc, findings, conditions: Vec::new() }
}

fn sum_kinds(map: &AddressMap, zeros: Option<&[ZeroStat]>) -> Vec<KindRow> {
    let mut rows: BTreeMap<Kind, KindRow> = BTreeMap::new();
    for (i, r) in map.regions.iter().enumerate() {
        let row = rows.entry(r.kind).or_insert_with(|| KindRow {
            kind: r.kind,
            zero: zeros.map(|_| 0),
            written: zeros.map(|_| 0),
            ..KindRow::default()
        });
        row.count += 1;
        row.size = row.size.saturating_add(r.range.len());
        row.in_core.add_saturating(r.in_core);
        row.largest = row.largest.max(r.range.len());
        if let Some(zeros) = zeros {
            let stat = zeros[i];
            row.zero = row.zero.map(|z| z + stat.zero);
            row.written = row.written.map(|w| w + stat.written);
        }
    }
    rows.into_values().collect()
}
