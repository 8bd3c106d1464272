//! Heaps of managed runtimes: their objects, what retains them, and waste.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::analysis::graph_sizes::GraphSizes;
use crate::analysis::roots::{RuntimeRoots, Unreached, with_retained};
use crate::causes::holders::{self, Holders};
use crate::causes::mechanisms;
use crate::causes::native_owner::{self, Owned};
use crate::causes::sizing::sizing;
use crate::causes::{self, Scene};
use crate::commands::heapstat::{self, FreeBlockRow, HeapStatOptions, HeapStatReport};
use crate::commands::holders::HolderRow;
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::buffers;
use crate::commands::triage::analysis::outside::Outside;
use crate::commands::triage::analysis::suspects::suspects;
use crate::commands::triage::analysis::tally::{Share, Subject, Tally};
use crate::commands::triage::analysis::{Found, biggest, counted, lines, plain};
use crate::commands::{self, collections, dotnet};
use crate::map::Confidence;
use crate::progress::Progress;
use crate::report::{Finding, Severity, TypeRow};
use crate::runtimes::api::{
    self, ClrGc, FREE_NAME, Heap, ManagedRuntime, RetainedSizes, RuntimeFindings, Selection, StringStat, TypeIndex,
};
use crate::runtimes::graph::{GraphError, Retained};
use crate::session::Session;
use crate::units::{count, exact, round};

/// Bytes of a heap that each kind of pass processes per second. At most half of the rates measured on real heaps of
/// some gigabytes (docs/performance.md).
const COUNTED: u64 = 1 << 30;
const STRINGS: u64 = 400 << 20;
const GRAPH: u64 = 200 << 20;

/// Name of the analysis of equal strings.
const EQUAL_STRINGS: &str = "equal strings";

/// Minimum share of a heap in percent, and minimum bytes, of waste for a finding.
const MUCH: u64 = 20;
const LARGE: u64 = 16 << 20;

/// Maximum number of types named.
const TYPES: usize = 4;

pub(super) fn heap(session: &Session<'_>, tally: &Tally, budget: &mut Budget, progress: &Progress, found: &mut Found) {
    let runtimes = session.runtimes();
    // If all objects come from malloc, the heap has no memory of its own.
    let nothing = Share::default();
    let share = match tally.shares.get(&Subject::ManagedHeap) {
        Some(share) => share,
        None if runtimes.iter().any(|runtime| runtime.heap().is_some()) => &nothing,
        None => return,
    };
    found.findings.extend(dotnet::findings::events(session));
    let names: Vec<String> = runtimes.iter().map(|runtime| runtime.label()).collect();
    let title = format!("Managed heap of {}", names.join(" and "));
    let sentence = |text: String| {
        plain("managed-heap", text, "the runtime's lists of segments, regions or arenas", share.used)
            .known(Confidence::Exact)
    };
    let by_kind = tally.by_kind(session);
    let without_walk = runtimes.iter().filter_map(|runtime| runtime.findings()).filter(|own| !own.walks());
    found.findings.extend(without_walk.flat_map(|own| own.find(&by_kind, None)));
    let of_objects = |own: &dyn RuntimeFindings, sizes: Option<&dyn RetainedSizes>, budget: &mut Budget| {
        budget.run(session, "containers and caches", (share.in_core, STRINGS), |_| own.find(&by_kind, sizes))
    };
    let by_type = match runtimes.iter().all(|runtime| runtime.heap().is_none()) {
        true => None,
        false => budget.run(session, "objects by type", (share.in_core, COUNTED), |_| {
            heapstat::heapstat(session, &HeapStatOptions::default(), progress)
        }),
    };
    let Some(report) = by_type else {
        let has_segments = |gc: &dyn ClrGc| !gc.heaps().segments.is_empty();
        let more =
            if runtimes.iter().filter_map(|runtime| runtime.clr_gc()).any(has_segments) { "heap" } else { "info" };
        found.findings.push(sentence(format!("{title}: {} {}.", round(share.used), tally.measure.word())).more(more));
        for own in runtimes.iter().filter_map(|runtime| runtime.findings()).filter(|own| own.walks()) {
            found.findings.extend(of_objects(own, None, budget).into_iter().flatten());
        }
        return;
    };
    let strings = budget.allows(EQUAL_STRINGS, share.used, STRINGS);
    let types = report.types.iter().filter(|t| &*t.name != FREE_NAME).map(|t| (t.name.to_string(), t.size)).collect();
    let objects = report.total.objects.saturating_sub(report.free.objects);
    let size = report.total.size.saturating_sub(report.free.size);
    let mut buffers = buffers::sums(session);
    let wanted = found.scene.as_ref().map(Scene::objects).unwrap_or_default();
    let lists = budget.allows("exceptions, finalizers and async methods", share.used, COUNTED);
    let thrown = if lists { dotnet::findings::thrown(session) } else { Vec::new() };
    // If objects are malloc blocks themselves, an object may point at another object instead of native memory.
    let apart = runtimes.iter().all(|runtime| runtime.heap().is_none_or(|heap| heap.blocks().is_none()));
    let is_large = apart && tally.shares.get(&Subject::Malloc).is_some_and(|share| share.used >= LARGE);
    let owned = is_large.then(|| {
        budget.run(session, "native memory of objects", (share.in_core, GRAPH), |_| {
            commands::holders::holders(session, Some(NATIVE_TYPES), progress)
        })
    });
    let owned = owned.flatten().map(|report| report.holders).unwrap_or_default();
    let packs = if lists { dotnet::findings::collectible_objects(session) } else { Vec::new() };
    let unloading = if lists { dotnet::findings::unloading_loaders(session) } else { Vec::new() };
    let outside = Outside::find(session, tally, share.in_core, !apart, budget, progress);
    let mut owners: Vec<Addr> = owned.iter().map(|row| row.object).collect();
    owners.extend(packs.iter().map(|pack| pack.0));
    owners.extend(outside.objects());
    owners.extend(dotnet::findings::out_of_memory(&thrown));
    let of_graph = budget.run(session, "retained sizes", (share.used, GRAPH), |budget| {
        let mut graph = Liveness { loaders: dotnet::findings::loader_objects(session), ..Liveness::default() };
        let (mut findings, mut keepers, mut walked) = (Vec::new(), String::new(), Vec::new());
        let mut kept_by = HashMap::new();
        let (mut labels, mut held_by, mut not_read) = (HashMap::new(), HashMap::new(), Vec::new());
        with_retained(session, |retained, names, rooted| {
            not_read.extend(rooted.not_read.iter().cloned());
            if let Some(own) = rooted.runtime.findings().filter(|own| own.walks()) {
                let sizes = GraphSizes { retained, roots: rooted };
                findings.extend(of_objects(own, Some(&sizes), budget).into_iter().flatten());
                walked.push(rooted.id);
            }
            mechanisms::judge(&mut findings, retained.total.size);
            let mut owners = owners.clone();
            owners.extend(mechanisms::held(&findings));
            keepers.push_str(&buffers::keepers(rooted, retained, names));
            match holders::holders(session, retained, names, rooted, &wanted, &owners, &unloading) {
                Ok(Holders { findings: mut of_holders, labels: of_objects, owners, keepers, users }) => {
                    kept_by.extend(keepers);
                    if let Some(scene) = &found.scene {
                        causes::add_users(scene, &mut of_holders, &users, rooted.runtime.wait_facts());
                    }
                    mechanisms::name_holders(&mut findings, &owners);
                    findings.extend(of_holders);
                    labels.extend(of_objects);
                    held_by.extend(owners);
                }
                // The whole pass is over its time limit, and its findings are dropped.
                Err(GraphError::OutOfTime) => return,
                // Without names, the dominators remain.
                Err(_) => findings.extend(suspects(session, retained, names, rooted, budget)),
            }
            findings.extend(graph.add(rooted, retained, strings.then_some(&report), progress));
            findings.extend(collections::finding(session.process, retained, names, rooted));
        });
        (findings, keepers, graph, walked, labels, (held_by, kept_by), not_read)
    });
    let mut graph = Liveness::default();
    let mut walked = Vec::new();
    let (mut holders_of, mut keepers_of) = (HashMap::new(), HashMap::new());
    if let Some((findings, keepers, liveness, with_sizes, labels, (held_by, kept_by), not_read)) = of_graph {
        keepers_of = kept_by;
        let written = tally.shares.get(&Subject::Malloc).map_or(0, |share| share.used);
        found.findings.extend(native_owners(&owned, &held_by, written));
        found.findings.extend(outside.findings(&held_by));
        found.not_read.extend(not_read);
        (graph, walked) = (liveness, with_sizes);
        holders_of = held_by;
        if let Some(scene) = &mut found.scene {
            scene.labels.extend(labels);
        }
        found.findings.extend(findings);
        outside.add_survivors(&mut found.findings, &holders_of);
        buffers.iter_mut().for_each(|finding| finding.text.push_str(&keepers));
    }
    // Add runtimes whose graph could not be built.
    for (_, runtime) in session.runtimes_by_id().into_iter().filter(|(id, _)| !walked.contains(id)) {
        if let Some(own) = runtime.findings().filter(|own| own.walks()) {
            found.findings.extend(of_objects(own, None, budget).into_iter().flatten());
        }
    }
    let whole = runtimes.iter().filter(|runtime| runtime.heap().is_some()).count() == graph.runtimes;
    if objects == 0 {
        let text = format!("{title}: {} {}, but no object in it was found.", round(share.used), tally.measure.word());
        found.findings.push(sentence(text).more("info"));
    } else {
        let text = format!(
            "{title}: {} in {}{}{}{}. Largest types: {}.",
            round(size),
            counted(objects, "object", "objects"),
            lines::unwritten(size, share.used),
            if whole { garbage(graph.unreachable.size, size, graph.roots_missing) } else { String::new() },
            free_space(&runtimes, report.free.size),
            biggest(types, TYPES)
        );
        found.findings.push(sentence(text).more("heapstat"));
    }
    let setting = runtimes.iter().find_map(|runtime| runtime.heap_setting());
    let live = whole.then(|| size.saturating_sub(graph.unreachable.size));
    // The collector excludes memory that it only reserved from cores. Such memory was never written.
    let committed = share.size.min(share.in_core);
    found.findings.extend(sizing(committed, report.total.size, live, setting.as_deref()));
    // The runtime itself reports the free part of small blocks.
    if !runtimes.iter().any(|runtime| runtime.small_blocks().is_some_and(|blocks| blocks.sums().is_some())) {
        found.findings.extend(fragmented(session, &report));
    }
    if strings {
        // Without the graph, dead strings count as live ones.
        let sums = match whole {
            true => Some(graph.strings),
            false => {
                budget.run(session, EQUAL_STRINGS, (share.used, STRINGS), |_| all_strings(session, &report, progress))
            }
        };
        found.findings.extend(sums.and_then(|sums| equal_strings(&sums, whole, report.total.size)));
    }
    let dead = (whole && !graph.roots_missing).then_some(&graph.dead);
    found.findings.extend(dotnet::findings::of_types(session, &report.types, size, dead));
    found.findings.extend(buffers);
    if !lists {
        return;
    }
    found.findings.extend(dotnet::findings::caught(session, &thrown, &holders_of));
    let due = dotnet::findings::due(session);
    let kept = dotnet::findings::Kept {
        objects: &packs,
        held_by: &holders_of,
        unloading: &unloading,
        keepers: &keepers_of,
        findings: &found.findings,
    };
    let more = dotnet::findings::of_session(session, &graph.reached, &thrown, due.as_ref(), &kept, progress);
    found.findings.extend(more);
    if let Some(scene) = &mut found.scene {
        scene.due = due;
    }
}

/// Maximum number of types whose native memory is reported.
const NATIVE_TYPES: usize = 4;

/// Returns findings on native memory to which objects point, or that only such memory leads to. `held_by`: the holder
/// of each row's objects. `written`: written bytes of malloc's memory.
fn native_owners(rows: &[HolderRow], held_by: &HashMap<Addr, String>, written: u64) -> Vec<Finding> {
    let of_row = |row: &HolderRow| {
        let (direct, alone) = (row.malloc, row.alone.malloc);
        let behind = alone.bytes > direct.bytes;
        let sum = if behind { alone } else { direct };
        native_owner::finding(&Owned {
            r#type: row.name.as_deref()?,
            field: row.field.as_deref(),
            objects: row.objects,
            blocks: sum.count,
            bytes: sum.bytes,
            written,
            behind,
            holder: held_by.get(&row.object).map(String::as_str),
        })
    };
    rows.iter().filter(|row| !row.of_runtime).filter_map(of_row).collect()
}

/// Objects that roots reach, over all heaps whose graphs could be built.
#[derive(Default)]
struct Liveness {
    /// Whether some roots or references were not read. Then an unreachable object may be alive.
    roots_missing: bool,
    /// Number of heaps.
    runtimes: usize,
    /// Objects that no root reaches.
    unreachable: api::Tally,
    /// Unreachable objects by the address of their type.
    dead: HashMap<Addr, api::Tally>,
    /// Live strings by content.
    strings: StringStat,
    /// Objects of loader allocators.
    loaders: Vec<Addr>,
    /// Members of `loaders` that roots reach.
    reached: HashSet<Addr>,
}

impl Liveness {
    /// Adds a heap, and reports its unreachable objects. `strings`: the sums by type, if its strings are to be
    /// compared.
    fn add(
        &mut self,
        rooted: &RuntimeRoots<'_>,
        retained: &Retained<'_>,
        strings: Option<&HeapStatReport>,
        progress: &Progress,
    ) -> Option<Finding> {
        let heap = rooted.runtime.heap()?;
        self.runtimes += 1;
        self.roots_missing |= !rooted.not_read.is_empty();
        self.reached.extend(self.loaders.iter().copied().filter(|at| retained.live.is_live(*at)));
        let mut dead: Vec<(TypeIndex, api::Tally)> = retained.unreachable().into_iter().collect();
        dead.sort_by_key(|(kind, tally)| (Reverse(tally.size), *kind));
        let largest = dead.iter().take(TYPES).map(|(kind, tally)| (heap.type_name(*kind), tally.size)).collect();
        let mut sum_of_dead = api::Tally::default();
        for (kind, tally) in dead {
            sum_of_dead = sum_of_dead.plus(tally);
            self.unreachable = self.unreachable.plus(tally);
            if let Some(info) = heap.type_info(kind) {
                let sum = self.dead.entry(info.address).or_default();
                *sum = sum.plus(tally);
            }
        }
        if let Some(report) = strings {
            let is_live = |at: Addr| retained.live.is_live(at);
            add_strings(&mut self.strings, heap, report, &is_live, progress);
        }
        unreachable(sum_of_dead, retained.total.size, largest, rooted)
    }
}

/// Adds the strings of a heap to the sums, if `counts` accepts their address.
fn add_strings(
    sums: &mut StringStat,
    heap: &dyn Heap,
    report: &HeapStatReport,
    counts: &(dyn Fn(Addr) -> bool + Sync),
    progress: &Progress,
) {
    let kind = heap.string_type().and_then(|kind| heap.type_info(kind));
    let row = kind.and_then(|kind| report.types.iter().find(|row| row.method_table == kind.address));
    let of = api::strings(heap, &Selection::default(), row.map_or(0, |row| row.count), counts, progress);
    sums.total = sums.total.plus(of.total);
    sums.distinct = sums.distinct.saturating_add(of.distinct);
    sums.wasted = sums.wasted.saturating_add(of.wasted);
}

/// Returns the strings of all heaps, live or not.
fn all_strings(session: &Session<'_>, report: &HeapStatReport, progress: &Progress) -> StringStat {
    let mut sums = StringStat::default();
    for heap in session.runtimes().iter().filter_map(|runtime| runtime.heap()) {
        add_strings(&mut sums, heap, report, &|_| true, progress);
    }
    sums
}

/// Returns a sentence on how much of the objects is garbage. Empty if it is little. The sums by type include garbage.
fn garbage(dead: u64, size: u64, roots_missing: bool) -> String {
    let percent = dead.saturating_mul(100).checked_div(size).unwrap_or(0);
    if percent < MUCH {
        return String::new();
    }
    format!(
        " (no root that was read reaches {percent} % of these bytes; {} are {})",
        round(size.saturating_sub(dead)),
        if roots_missing { "reached" } else { "live" }
    )
}

/// Describes the heaps' space that no object uses.
fn free_space(runtimes: &[&dyn ManagedRuntime], between: u64) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for &(place, bytes) in runtimes.iter().filter_map(|runtime| runtime.heap()).flat_map(|heap| heap.unused_space()) {
        match sums.iter_mut().find(|(of, _)| *of == place) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => sums.push((place, bytes)),
        }
    }
    // Some runtimes do not mark the space between objects.
    if between > 0 || sums.is_empty() {
        sums.insert(0, ("free between objects", between));
    }
    let parts: Vec<String> = sums.iter().map(|(place, bytes)| format!("{} {place}", round(*bytes))).collect();
    format!(", plus {}", parts.join(", "))
}

fn is_much(bytes: u64, whole: u64) -> bool {
    bytes >= LARGE && bytes.saturating_mul(100) >= whole.saturating_mul(MUCH)
}

/// Reports free space between objects.
fn fragmented(session: &Session<'_>, report: &HeapStatReport) -> Option<Finding> {
    let free = report.types.iter().find(|t| &*t.name == FREE_NAME)?;
    if !is_much(free.size, report.total.size) {
        return None;
    }
    let parts = free.generations.iter().map(|g| (g.generation.to_string(), g.size)).collect();
    let pinned = dotnet::findings::pinned_objects(session);
    let text = format!(
        "Fragmentation: {} of the managed heap is free space between objects ({}).{}",
        round(free.size),
        biggest(parts, TYPES),
        pinned.map_or_else(String::new, |pinned| cause(free, &report.fragmentation, &pinned))
    );
    let finding = Finding::new("heap-fragmentation", Severity::Warning, text, "objects of type Free, by generation");
    Some(finding.about(free.size).known(Confidence::Exact).more("heapstat --type Free").within("managed-heap"))
}

/// Minimum share of the free space, in percent, of a cause that is named.
const EXPLAINED: u64 = 50;

/// Describes the cause of free space between objects, if it was found: it is on the large object heap, or pinned
/// objects follow it. Otherwise describes what was checked. Only large free blocks are listed with the object that
/// follows.
fn cause(free: &TypeRow, blocks: &[FreeBlockRow], pinned: &HashSet<Addr>) -> String {
    let explains = |bytes: u64| bytes.saturating_mul(100) >= free.size.saturating_mul(EXPLAINED);
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let large = sum(&mut free.generations.iter().filter(|g| g.generation == "loh").map(|g| g.size));
    if explains(large) {
        return format!(
            " {} of it is on the large object heap, which is compacted only if the program requests it.",
            round(large)
        );
    }
    let is_pinned = |block: &&FreeBlockRow| block.next.is_some_and(|next| pinned.contains(&next));
    let before = sum(&mut blocks.iter().filter(is_pinned).map(|block| block.size));
    if explains(before) {
        return format!(" Pinned objects follow {} of it, and cannot be moved.", round(before));
    }
    let handles = count(pinned.len() as u64, "object");
    format!(" Its cause is unknown: {} are on the large object heap, and handles pin {handles}.", round(large))
}

/// Reports objects that no root reaches. `largest`: bytes by name of type.
fn unreachable(dead: api::Tally, live: u64, largest: Vec<(String, u64)>, rooted: &RuntimeRoots<'_>) -> Option<Finding> {
    let all = live.saturating_add(dead.size);
    if !is_much(dead.size, all) {
        return None;
    }
    let percent = dead.size.saturating_mul(100).checked_div(all).unwrap_or(0);
    let bytes = round(dead.size);
    let objects = counted(dead.count, "object", "objects");
    let types = biggest(largest, TYPES);
    let garbage = |why: &str| {
        let live = round(live);
        format!(
            "{percent} % of the managed objects are garbage: {bytes} in {objects} ({types}) are unreachable{why}; \
             {live} are live."
        )
    };
    let not_reached = "no root reaches them";
    let (id, text, evidence) = match rooted.unreached() {
        Unreached::Collectible => {
            let text = garbage(" but not collected yet") + " This is not a leak: a collection would free them.";
            ("unreachable", text, not_reached)
        }
        Unreached::Kept(why) if rooted.runtime.frees_at_once() => {
            ("collector-off", garbage(&format!(", but {why}: nothing frees them")), not_reached)
        }
        Unreached::Kept(why) => ("unreachable", garbage(&format!(", but {why}")), not_reached),
        Unreached::Unknown => (
            "roots-not-read",
            format!(
                "{bytes} in {objects} ({types}) are not reached from the roots that were read, and may be alive. \
                 Not read: {}.",
                rooted.not_read.join(", ")
            ),
            "search from the roots that were read",
        ),
    };
    let read = if rooted.stacks.conservative.is_empty() { "" } else { "; stacks read conservatively" };
    // If reference counts free everything but cycles, cycles stay while the collector is disabled.
    let severity = if id == "collector-off" { Severity::Warning } else { Severity::Info };
    let finding = Finding::new(id, severity, text, format!("{evidence}{read}"));
    Some(finding.about(dead.size).known(Confidence::Derived).more("retained").within("managed-heap"))
}

/// Reports equal strings. `live`: whether only live ones were counted.
fn equal_strings(strings: &StringStat, live: bool, whole: u64) -> Option<Finding> {
    if !is_much(strings.wasted, whole) {
        return None;
    }
    let text = format!(
        "Equal strings: sharing equal texts among {} would save {} of {} ({} different texts).{}",
        if live {
            counted(strings.total.count, "live string", "live strings")
        } else {
            counted(strings.total.count, "string", "strings")
        },
        round(strings.wasted),
        round(strings.total.size),
        exact(strings.distinct),
        if live { "" } else { " Whether anything still references them was not checked." }
    );
    let finding = Finding::new("equal-strings", Severity::Warning, text, "comparison of all string contents");
    Some(finding.about(strings.wasted).known(Confidence::Exact).more("heapstat --strings").within("managed-heap"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GenerationRow;

    fn free(parts: &[(&'static str, u64)]) -> TypeRow {
        let generations: Box<[GenerationRow]> =
            parts.iter().map(|&(generation, size)| GenerationRow { generation, count: 1, size }).collect();
        TypeRow { size: parts.iter().map(|(_, size)| size).sum(), generations, ..TypeRow::default() }
    }

    #[test]
    fn a_cause_is_named_only_if_it_explains_the_free_space() {
        let at = |n: u64| Addr::new(0x1000 * n);
        let block = |size, next| FreeBlockRow { size, next: Some(next), ..FreeBlockRow::default() };
        let pinned: HashSet<Addr> = [at(1)].into();
        // 45 of 580 MiB are on the large object heap, and one handle pins an object.
        let mixed = free(&[("gen2", 535 << 20), ("loh", 45 << 20)]);
        let text = cause(&mixed, &[block(1 << 20, at(1)), block(500 << 20, at(2))], &pinned);
        assert_eq!(text, " Its cause is unknown: 45 MiB are on the large object heap, and handles pin 1 object.");
        let text = cause(&mixed, &[block(300 << 20, at(1)), block(500 << 20, at(2))], &pinned);
        assert!(text.starts_with(" Pinned objects follow 300 MiB of it"), "{text}");
        let text = cause(&free(&[("gen2", 10), ("loh", 1 << 30)]), &[], &pinned);
        assert!(text.contains("1 GiB of it is on the large object heap"), "{text}");
    }

    #[test]
    fn garbage_is_said_if_it_is_much() {
        assert_eq!(garbage(10, 100, false), "");
        assert_eq!(garbage(0, 0, false), "");
        assert!(garbage(24 << 20, 30 << 20, false).contains("80 % of these bytes; 6 MiB are live"));
        assert!(is_much(80 << 20, 100 << 20));
        assert!(!is_much(80 << 20, 2080 << 20));
    }
}
