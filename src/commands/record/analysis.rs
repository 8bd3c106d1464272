use std::collections::BTreeMap;
use std::time::Instant;

use crate::commands::summary::KindRow;
use crate::commands::{HeapStatOptions, MallocOptions, heapstat, malloc, summary};
use crate::progress::Progress;
use crate::report::Name;
use crate::series::{BlockSize, Blocks, Cost, KernelFigures, KindFigures, Moment, Objects, Rest, Subject, Sum};
use crate::session::Session;
use crate::words::Part;

/// Samples the process: kinds, findings, and the optional `parts`. The caller sets the sample's number, time and total
/// cost.
pub fn moment(session: &Session<'_>, parts: &[Part], progress: &Progress) -> Moment {
    let mut cost = Cost::default();
    let timed = |took: &mut f64, begun: Instant| *took = begun.elapsed().as_secs_f64() * 1e3;
    // Made beforehand, because all parts need the map and none should be charged for it.
    session.map();
    // Before the summary, which resumes a stopped process: lists and heaps would change during the walk.
    let begun = Instant::now();
    let malloc = if parts.contains(&Part::Malloc) { blocks(session, progress) } else { None };
    if parts.contains(&Part::Malloc) {
        timed(&mut cost.malloc_ms, begun);
    }
    let begun = Instant::now();
    let types = if parts.contains(&Part::Types) { objects(session, progress) } else { None };
    if parts.contains(&Part::Types) {
        timed(&mut cost.types_ms, begun);
    }
    let summary = summary(session, parts.contains(&Part::Written), progress);
    let kind = |k: &KindRow| KindFigures {
        count: k.count,
        size: k.size,
        readable: k.in_core,
        written: k.written,
        rss: k.resident.rss,
        swap: k.resident.swap,
    };
    Moment {
        threads: session.process.threads().len() as u64,
        kernel: kernel(session),
        kinds: summary.kinds.iter().map(|k| (Name::from(k.kind.name()), kind(k))).collect(),
        findings: findings(&summary.findings),
        types,
        malloc,
        cost,
        ..Moment::default()
    }
}

/// Identifies the process that is sampled.
pub fn subject(session: &Session<'_>) -> Subject {
    let process = session.process;
    let facts = process.facts();
    let runtimes = session.runtimes();
    Subject {
        path: facts.path.clone(),
        pid: process.pid(),
        name: facts.process.as_ref().map(|p| p.name.clone()).unwrap_or_default(),
        start_ticks: None,
        arch: process.arch(),
        producer: process.producer(),
        runtimes: runtimes.iter().map(|runtime| runtime.row()).map(|row| (row.name, row.version)).collect(),
        collected: runtimes.iter().any(|runtime| !runtime.frees_at_once()),
    }
}

/// Bytes by finding id. Several findings with one id, such as of several runtimes, are added.
fn findings(all: &[crate::report::Finding]) -> BTreeMap<Name, Option<u64>> {
    let mut out: BTreeMap<Name, Option<u64>> = BTreeMap::new();
    for finding in all {
        let bytes = out.entry(Name::from(finding.id)).or_default();
        *bytes = finding.bytes.map(|more| bytes.unwrap_or(0).saturating_add(more)).or(*bytes);
    }
    out
}

fn kernel(session: &Session<'_>) -> KernelFigures {
    let Some(residence) = &session.process.facts().residence else { return KernelFigures::default() };
    let (status, group) = (residence.status, residence.cgroup.unwrap_or_default());
    KernelFigures {
        rss: status.vm_rss,
        swap: status.vm_swap,
        page_tables: status.page_tables,
        charged: group.current,
        limit: group.max,
    }
}

fn objects(session: &Session<'_>, progress: &Progress) -> Option<Objects> {
    let report = heapstat(session, &HeapStatOptions::default(), progress);
    if report.types.is_empty() {
        return None;
    }
    let mut types: BTreeMap<Name, Sum> = BTreeMap::new();
    for row in report.types {
        // Types of several loaders or runtimes may have the same name.
        let sum = types.entry(Name::from(&*row.name)).or_default();
        *sum = sum.plus(Sum { count: row.count, bytes: row.size });
    }
    let total = Sum { count: report.total.objects, bytes: report.total.size };
    Some(Objects { total, types, rest: Rest::default() })
}

/// Sums of malloc blocks. `None` also if the allocator is unknown.
fn blocks(session: &Session<'_>, progress: &Progress) -> Option<Blocks> {
    if !session.malloc().is_like(session.malloc()) {
        return None;
    }
    let report = malloc(session, &MallocOptions::default(), progress);
    let allocator = report.allocators.iter().find(|a| a.walked)?.name;
    let mut sizes: BTreeMap<BlockSize, Sum> = BTreeMap::new();
    for cluster in &report.clusters {
        let sum = sizes.entry(BlockSize { size: cluster.size, mmapped: cluster.mmapped }).or_default();
        *sum = sum.plus(Sum { count: cluster.count, bytes: cluster.bytes });
    }
    Some(Blocks {
        allocator: Name::from(allocator.name()),
        used: Sum { count: report.total.used, bytes: report.total.used_bytes },
        free: Sum { count: report.total.free, bytes: report.total.free_bytes },
        classes: report.sizes.iter().map(|s| (s.size_class, Sum { count: s.used, bytes: s.used_bytes })).collect(),
        sizes,
        rest: Rest::default(),
    })
}
