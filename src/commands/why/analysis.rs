use regex::Regex;

use crate::addr::Addr;
use crate::commands::gcroot::{GcRootTypesReport, gcroot_types};
use crate::commands::whatis::{WhatisRow, whatis};
use crate::commands::why::report::{WhyReport, WhyTypesReport};
use crate::commands::why::{of_block, of_object};
use crate::map::Confidence;
use crate::map::kind_facts::Contents;
use crate::progress::Progress;
use crate::report::{Kept, Name};
use crate::session::Session;
use crate::units::{count, exact, human};

/// Maximum number of types named in a sentence.
const NAMED_TYPES: usize = 3;

/// Explains what retains the memory at `addr`, and what that memory retains.
pub fn why(session: &Session<'_>, addr: Addr, progress: &Progress) -> WhyReport {
    // Paths and retained sizes use the same graph.
    let _graphs = session.retain_graphs();
    let whatis = whatis(session, &[addr], 0, progress).first;
    let mut report = WhyReport { address: addr, whatis, ..WhyReport::default() };
    explain(session, &mut report);
    report
}

/// Name of the type that free space in a managed heap has.
const FREE: &str = "Free";

fn explain(session: &Session<'_>, report: &mut WhyReport) {
    let row = report.whatis.clone();
    let Some(region) = &row.region else {
        report.kept = Kept::Absent;
        report.text = format!("Nothing is mapped at {}.", row.address);
        report.evidence = "the mappings that the core lists".to_owned();
        return;
    };
    if let Some(object) = &row.object {
        if *object.name == *FREE {
            let what = format!("free space of {} between objects", human(object.size));
            return free(report, &what, "the objects of the heap, one after the other");
        }
        return of_object::explain(session, report, object.address);
    }
    if row.owner.is_some() {
        return of_object::explain_owner(session, report);
    }
    if let Some(block) = &row.block {
        if !block.used {
            let what = format!("a free malloc block of {}", human(block.size));
            return free(report, &what, "malloc's chunk headers and free lists");
        }
        return of_block::explain(session, report);
    }
    if let Some(block) = &row.small_block {
        let what = format!("a block of {} of {}", human(block.size), block.allocator);
        if !block.used {
            return free(report, &what, "the allocator's free lists");
        }
        return unknown(report, &format!("{what} without an object that coremap knows"));
    }
    if matches!(region.kind.facts().contents, Contents::Objects | Contents::Unwalked | Contents::Blocks) {
        return unknown(report, &format!("{} without an object or block that coremap could read", region.kind));
    }
    // Unclaimed memory may be a heap that was not read.
    if region.kind.facts().contents == Contents::Unclaimed {
        return unknown(report, &format!("{}, which no structure that was read claims", region.kind));
    }
    mapped(report, &row);
}

fn free(report: &mut WhyReport, what: &str, evidence: &str) {
    report.kept = Kept::Free;
    report.confidence = Some(Confidence::Derived);
    report.text = format!("{} is in {what}: nothing uses it, and the allocator may reuse it.", report.address);
    report.evidence = evidence.to_owned();
}

fn unknown(report: &mut WhyReport, what: &str) {
    report.kept = Kept::Unknown;
    report.text = format!("{} is in {what}. What keeps it is unknown.", report.address);
    report.evidence = report.whatis.evidence.clone().unwrap_or_default();
}

/// Explains memory whose lifetime does not depend on references.
fn mapped(report: &mut WhyReport, row: &WhatisRow) {
    let Some(region) = &row.region else { return };
    report.kept = Kept::Mapped;
    report.confidence = Some(region.confidence);
    let mut what = vec![region.kind.to_string()];
    what.extend(row.code.clone().or_else(|| row.place.clone()));
    if let Some(handle) = &row.handle {
        let of = handle.name.as_ref().map_or_else(|| "an object".to_owned(), Name::shown);
        what.push(format!("a {} to {of} at {}", handle.kind, handle.object));
    }
    if let Some(frame) = &row.frame {
        what.push(format!("frame {} of thread {}", frame.index, frame.thread));
    }
    what.dedup();
    report.text = format!("{} is {}. No reference decides how long it stays.", row.address, what.join(", "));
    report.evidence = row.evidence.clone().unwrap_or_default();
}

/// Whether all memory was read that may refer to managed objects.
pub(super) fn is_all_read(session: &Session<'_>, not_read: &[String]) -> bool {
    not_read.is_empty() && !session.process.diag.is_partial()
}

/// Explains what retains objects of types whose name matches. `top`: maximum number of groups of paths.
pub fn why_types(session: &Session<'_>, name: &Regex, top: usize) -> WhyTypesReport {
    let roots = gcroot_types(session, name, top);
    let is_all_read = is_all_read(session, &roots.not_read);
    let has_heap = session.runtimes().iter().any(|runtime| runtime.heap().is_some());
    let (kept, confidence) = judge_types(&roots, is_all_read);
    let mut report = WhyTypesReport { kept, confidence, roots, ..WhyTypesReport::default() };
    report.text = types_text(&report, has_heap, is_all_read);
    let (roots, live) = (&report.roots, report.roots.live.objects);
    report.evidence = match live {
        0 => format!("a walk from {}", count(roots.roots, "root")),
        _ => format!("shortest paths from {} to {}", count(roots.roots, "root"), count(live, "object")),
    };
    report
}

fn judge_types(roots: &GcRootTypesReport, is_all_read: bool) -> (Kept, Option<Confidence>) {
    match (roots.live.objects, roots.unreachable.objects) {
        (0, 0) if is_all_read => (Kept::Absent, None),
        (0, 0) => (Kept::Unknown, None),
        (0, _) if is_all_read => (Kept::Unreached, Some(Confidence::Derived)),
        (0, _) => (Kept::Unknown, None),
        _ if roots.groups.iter().all(|group| group.example.precise == Some(false)) => {
            (Kept::Perhaps, Some(Confidence::Heuristic))
        }
        _ => (Kept::Reached, Some(Confidence::Derived)),
    }
}

/// The sentence on the objects of a path: `count` of the `live` ones, and the bytes that they retain.
fn group_text(count: u64, live: u64, retained: u64, keeper: &str) -> String {
    let (who, retain, are) = match (count, live) {
        (1, 1) => ("It".to_owned(), "retains", "is"),
        (1, _) => ("One of them".to_owned(), "retains", "is"),
        (n, all) if n == all => ("They".to_owned(), "retain", "are"),
        (n, _) => (format!("{} of them", exact(n)), "retain", "are"),
    };
    match retained {
        0 => format!("{who} {are} kept by {keeper}."),
        bytes => format!("{who} {retain} {} and {are} kept by {keeper}.", human(bytes)),
    }
}

fn types_text(report: &WhyTypesReport, has_heap: bool, is_all_read: bool) -> String {
    let roots = &report.roots;
    let (live, dead) = (roots.live, roots.unreachable);
    if !has_heap {
        return "There is no managed heap that coremap can read. For classes of malloc blocks: coremap retained --type."
            .to_owned();
    }
    if live.objects == 0 && dead.objects == 0 {
        let more = if is_all_read { "" } else { ", but not all of the heap could be read" };
        return format!("No object was found whose type matches{more}.");
    }
    let mut types: Vec<String> = roots.types.iter().take(NAMED_TYPES).map(Name::shown).collect();
    if roots.types.len() > NAMED_TYPES {
        types.push(format!("and {}", count((roots.types.len() - NAMED_TYPES) as u64, "more type")));
    }
    let mut text = Vec::new();
    if live.objects > 0 {
        text.push(format!("{}, {}: {}.", count(live.objects, "live object"), human(live.size), types.join(", ")));
    }
    if let Some(group) = roots.groups.first() {
        let path: Vec<_> = group.chain.iter().map(|step| (&step.name, step.field.as_ref())).collect();
        let keeper = of_object::path_text(&of_object::root_text(&group.example), &path);
        text.push(group_text(group.count, live.objects, group.retained, &keeper));
    }
    let other = (roots.groups.len() as u64).saturating_sub(1).saturating_add(roots.more);
    if other > 0 {
        text.push(format!("{} for the rest.", count(other, "more path")));
    }
    if dead.objects > 0 {
        let them = format!("{}, {}", count(dead.objects, "object"), human(dead.size));
        text.push(match is_all_read {
            true => format!("No root reaches {them}: a collection would free them."),
            false => format!("No root that was read reaches {them}; not everything was read, so they may be alive."),
        });
    }
    text.join(" ")
}
