use regex::Regex;

use crate::analysis::heap_notes::warn_losses;
use crate::analysis::roots::with_retained;
use crate::commands::heapstat::report::{DuplicateRow, FreeBlockRow, HeapStatReport, ReachRow, StringsRow};
use crate::diag::WarningCode;
use crate::limits;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{GenerationRow, LossRow, LostRow, Name, ObjectsRow, TypeRow};
use crate::runtimes::api::{
    FREE, FREE_NAME, FreeBlock, Heap, HeapStat, ManagedRuntime, Selection, StringStat, Tally, TypeIndex, TypeStat,
    stat, strings,
};
use crate::session::Session;

/// Options of `heapstat`.
#[derive(Clone, Debug, Default)]
pub struct HeapStatOptions {
    /// Count only types whose name matches.
    pub name: Option<Regex>,
    /// Count only these objects.
    pub selection: Selection,
    /// Also group strings by content.
    pub strings: bool,
    /// Count only objects that roots reach, or only those that they do not.
    pub reach: Option<Reachability>,
}

/// Whether roots reach an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// Roots reach the object.
    Live,
    /// No root reaches the object. A collection would free it.
    Dead,
}

/// Counts live or dead objects by type, from the graph of all objects.
fn reached(session: &Session<'_>, reach: Reachability, name: Option<&Regex>) -> HeapStatReport {
    let mut report = HeapStatReport { reach: Some(ReachRow::default()), ..HeapStatReport::default() };
    let mut not_read = Vec::new();
    with_retained(session, |retained, names, rooted| {
        let sums: Vec<(TypeIndex, Tally)> = match reach {
            Reachability::Live => retained.types(0).into_iter().map(|sum| (sum.kind, sum.own)).collect(),
            Reachability::Dead => retained.unreachable().into_iter().collect(),
        };
        for (kind, tally) in sums.into_iter().filter(|(_, tally)| tally.count > 0) {
            let Some(info) = names.heap.type_info(kind) else { continue };
            let title = names.of_kind(kind);
            if name.is_none_or(|name| name.is_match(&title)) {
                let method_table = info.address;
                let (count, size) = (tally.count, tally.size);
                report.types.push(TypeRow {
                    method_table,
                    name: title.to_string().into(),
                    count,
                    size,
                    ..TypeRow::default()
                });
            }
        }
        not_read.extend(rooted.not_read.iter().cloned());
    });
    report.types.sort_unstable_by(|a, b| b.size.cmp(&a.size).then(a.method_table.cmp(&b.method_table)));
    report.total = report.types.iter().fold(ObjectsRow::default(), |sum, t| sum.plus(t.count, t.size));
    report.reach = Some(ReachRow { live: reach == Reachability::Live, not_read });
    report
}

/// Counts the objects of all managed heaps by type.
pub fn heapstat(session: &Session<'_>, options: &HeapStatOptions, progress: &Progress) -> HeapStatReport {
    session.process.target().expect_scan();
    if let Some(reach) = options.reach {
        return reached(session, reach, options.name.as_ref());
    }
    let mut report = HeapStatReport { strings: options.strings.then(StringsRow::default), ..HeapStatReport::default() };
    let heaps: Vec<_> = session.runtimes().into_iter().filter_map(|runtime| Some((runtime, runtime.heap()?))).collect();
    let several = heaps.len() > 1;
    for (runtime, heap) in heaps {
        let first = report.types.len();
        one(session.process, runtime, heap, options, progress, &mut report);
        if several {
            let name = Name::from(runtime.row().name);
            report.types.iter_mut().skip(first).for_each(|row| row.runtime = Some(name.clone()));
        }
    }
    report.types.sort_unstable_by(|a, b| b.size.cmp(&a.size).then(a.method_table.cmp(&b.method_table)));
    let total = report.types.iter().fold(ObjectsRow::default(), |sum, t| sum.plus(t.count, t.size));
    report.total = total;
    report
}

fn one(
    process: &Process,
    runtime: &dyn ManagedRuntime,
    heap: &dyn Heap,
    options: &HeapStatOptions,
    progress: &Progress,
    report: &mut HeapStatReport,
) {
    let phase = process.enter(Phase::Objects);
    let mut stat = stat(heap, &options.selection, progress);
    drop(phase);
    warn_missing(process, runtime, heap, &stat);
    let phase = process.enter(Phase::Types);
    let mut room = limits::MAX_NAMES;
    let string_count = stat.types.iter().find(|t| t.info.string).map_or(0, |t| t.total.count);
    // A program can have a million types: each count is freed as its row is made.
    let types = std::mem::take(&mut stat.types);
    if options.name.is_none() {
        report.types.reserve_exact(types.len());
    }
    for t in types {
        if t.info.free {
            report.free = report.free.plus(t.total.count, t.total.size);
        }
        let name = if room > 0 { heap.type_name(t.kind) } else { format!("(type {})", t.info.address) };
        room = room.saturating_sub(name.len());
        if options.name.as_ref().is_none_or(|re| re.is_match(&name)) {
            report.types.push(type_row(name, &t, heap));
        }
    }
    if room == 0 {
        process.diag.note(WarningCode::Limit, "type names exceed their memory limit: the smallest types have no name");
    }
    report.fragmentation.extend(stat.free_blocks.iter().map(|block| free_block(heap, block)));
    heap.warn_missing();
    drop(phase);
    report.unused = report.unused.saturating_add(stat.unused);
    report.in_progress |= heap.in_gc();
    add_lost(&mut report.lost, &stat);
    if let Some(rows) = &mut report.strings {
        let _phase = process.enter(Phase::Objects);
        add_strings(rows, strings(heap, &options.selection, string_count, &|_| true, progress));
    }
}

/// Adds a warning for everything that is missing from the sums.
fn warn_missing(process: &Process, runtime: &dyn ManagedRuntime, heap: &dyn Heap, stat: &HeapStat) {
    let name = runtime.label();
    if heap.in_gc() {
        process.diag.excuse(WarningCode::OF_HEAP);
        process.diag.note(
            WarningCode::HeapInGc,
            format!("{name}: the dump was taken during a garbage collection; objects being moved are missed or counted twice"),
        );
    }
    warn_losses(process, runtime, heap, &stat.unwalked);
    if stat.more_free_blocks > 0 {
        process.diag.note(
            WarningCode::Limit,
            format!(
                "the first {} large free blocks are listed; {} more are not",
                limits::MAX_FREE_BLOCKS,
                stat.more_free_blocks
            ),
        );
    }
}

fn type_row(name: String, stat: &TypeStat, heap: &dyn Heap) -> TypeRow {
    let tracked = heap.tracked().map(|counts| counts.get(&stat.kind).copied().unwrap_or(0));
    let generations: Box<[GenerationRow]> = heap
        .generations()
        .iter()
        .zip(&stat.by_generation)
        .filter(|(_, tally)| tally.count > 0)
        .map(|(g, tally)| GenerationRow { generation: g.name, count: tally.count, size: tally.size })
        .collect();
    let (count, size, name) = (stat.total.count, stat.total.size, name.into());
    let origin = heap.type_origin(stat.kind).unwrap_or_default();
    let text = |text: Option<String>| text.map(String::into_boxed_str);
    let (script, line, isolate) = (text(origin.script), origin.line, text(origin.isolate));
    TypeRow {
        script,
        line,
        isolate,
        method_table: stat.info.address,
        name,
        count,
        size,
        tracked,
        grade: heap.type_grade(stat.kind),
        generations,
        ..TypeRow::default()
    }
}

fn free_block(heap: &dyn Heap, block: &FreeBlock) -> FreeBlockRow {
    let next_type = block.next.and_then(|(_, kind)| match kind {
        FREE => Some(FREE_NAME.to_owned()),
        kind => heap.type_info(kind).map(|_| heap.type_name(kind)),
    });
    FreeBlockRow {
        address: block.addr,
        size: block.size,
        heap: block.heap,
        generation: block.generation.name,
        next: block.next.map(|(addr, _)| addr),
        next_type,
    }
}

fn add_lost(row: &mut LostRow, stat: &HeapStat) {
    row.bytes = row.bytes.saturating_add(stat.unwalked.bytes);
    row.count = row.count.saturating_add(stat.unwalked.count);
    row.places.extend(stat.unwalked.listed.iter().map(|l| LossRow { range: l.range.into(), reason: l.reason.clone() }));
}

fn add_strings(rows: &mut StringsRow, stat: StringStat) {
    rows.total = rows.total.plus(stat.total.count, stat.total.size);
    rows.distinct = rows.distinct.saturating_add(stat.distinct);
    rows.wasted = rows.wasted.saturating_add(stat.wasted);
    rows.unreadable = rows.unreadable.saturating_add(stat.unreadable);
    rows.duplicates.extend(stat.duplicates.into_iter().map(|d| DuplicateRow {
        count: d.count,
        length: d.length,
        wasted: d.wasted,
        example: d.example,
        value: d.value,
        cut: d.cut,
    }));
}
