//! Findings on malloc and thread stacks.

use crate::analysis::block_graph::{self, HolderLimits, NativeHolders};
use crate::analysis::zero::ZeroMap;
use crate::causes::native_holders;
use crate::commands::malloc::{self, CategoriesRow, MallocOptions, MallocReport};
use crate::commands::stacks::{measure, verdict};
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::tally::{Measure, Share, Subject, Tally};
use crate::commands::triage::analysis::{Found, biggest, counted, lines, plain};
use crate::map::{Confidence, Kind};
use crate::native::StackState;
use crate::native::foreign::FIBER_STACK;
use crate::native::malloc::{self as heaps, Malloc, UsageSplit};
use crate::progress::Progress;
use crate::report::{AllocatorName, ClusterRow, Finding, Severity};
use crate::session::Session;
use crate::units::{exact, round};

/// Number of bytes of malloc's heaps that are walked per second.
const WALKED: u64 = 500 << 20;

/// Number of bytes of malloc's heaps per second for which holders are found.
const HELD: u64 = 100 << 20;

/// Share of malloc's free memory, in percent, below which the text says how much of it takes up memory.
const MOSTLY_HELD: u64 = 90;

/// Maximum number of clusters requested.
const CLUSTERS: usize = 50;

/// Minimum share of all bytes in percent, and minimum size, for a single block to be reported.
const ONE_BLOCK: u64 = 10;
const LARGE_BLOCK: u64 = 16 << 20;

/// Minimum share of the separately mapped blocks, in percent, that findings on equal blocks must cover to make the
/// finding `malloc-mmapped` redundant.
const COVERED: u64 = 80;

/// Adds findings on malloc from a walk of its heaps.
pub(super) fn malloc(
    session: &Session<'_>,
    tally: &Tally,
    show_data: bool,
    budget: &mut Budget,
    progress: &Progress,
    found: &mut Found,
) {
    let share = tally.shares.get(&Subject::Malloc);
    let others = &session.malloc().unread;
    if share.is_none() && others.is_empty() {
        return;
    }
    let in_core = |subject: &Subject| tally.shares.get(subject).map_or(0, |share| share.in_core);
    let of_others = others.iter().map(|heap| in_core(&Subject::Recognised(Kind::Allocator, heap.name.name().into())));
    let bytes = of_others.chain([in_core(&Subject::Malloc)]).fold(0, u64::saturating_add);
    if !budget.allows("blocks of malloc", bytes, WALKED) {
        if let Some(share) = share {
            let split = heaps::split(session.process, session.map(), session.malloc());
            found.findings.extend(quick_malloc(session, share.used, &split));
        }
        return;
    }
    let options = MallocOptions { chunks: false, limit: Some(CLUSTERS), ..MallocOptions::default() };
    let report = malloc::malloc(session, &options, progress);
    let split = heaps::split(session.process, session.map(), session.malloc());
    let held = malloc::held(session, &split);
    if let Some(share) = share {
        // If an arena's lists are unknown, `held` lacks its free memory.
        let held = if split.unknown == 0 { held } else { u64::MAX };
        found.findings.push(of_libc(session, share, &report, held));
    }
    let patterns = report.clusters.iter().filter(|c| c.mmapped && malloc::is_pattern(c, &report));
    let of_patterns: u64 = patterns.map(|c| c.bytes).fold(0, u64::saturating_add);
    let mut quick = malloc::quick(session.malloc(), &split, held);
    let is_covered = |bytes: u64| of_patterns.saturating_mul(100) >= bytes.saturating_mul(COVERED);
    quick.retain(|f| f.id != "malloc-mmapped" || !is_covered(f.bytes.unwrap_or(0)));
    let large = large_block(&report, tally.total());
    found.findings.extend(report.findings);
    found.findings.extend(large);
    found.findings.extend(quick);
    // In a process with a runtime, the runtime owns most of malloc's blocks, and knows its objects better.
    if session.runtimes().is_empty() {
        let facts = budget.run(session, "holders of malloc blocks", (bytes, HELD), |_| {
            block_graph::native_holders(session, HolderLimits::FINDINGS)
        });
        add_holders(facts.flatten().as_ref(), show_data, found);
    }
}

/// Adds the holders of malloc's blocks, and removes findings on the same blocks.
fn add_holders(facts: Option<&NativeHolders>, show_data: bool, found: &mut Found) {
    let Some(facts) = facts else { return };
    let mostly_free = found.findings.iter_mut().find(|finding| finding.id == "malloc-mostly-free");
    if let Some((finding, pins)) = mostly_free.zip(facts.pins.as_ref()) {
        finding.text.push_str(&native_holders::fragmented(pins, show_data));
    }
    let held = native_holders::findings(facts, show_data);
    let most = held.iter().filter_map(|finding| finding.bytes).max().unwrap_or(0);
    found
        .findings
        .retain(|finding| finding.id != "malloc-equal-blocks" || finding.bytes.is_none_or(|bytes| bytes > most));
    found.findings.extend(held);
}

/// Returns a phrase on how much of the free memory takes up memory. Empty if nearly all of it does.
fn in_memory(held: u64, free: u64) -> String {
    if held.saturating_mul(100) < free.saturating_mul(MOSTLY_HELD) {
        format!(" ({} of it in memory)", round(held))
    } else {
        String::new()
    }
}

/// Describes the memory of the C library's malloc, without other allocators. `held`: how much of the free memory takes
/// up memory.
fn of_libc(session: &Session<'_>, share: &Share, report: &MallocReport, held: u64) -> Finding {
    let total = &report.libc;
    let free = total.free_bytes.saturating_add(total.top);
    let text = format!(
        "{}: {} used in {}{}, {} free in {}{}{}.",
        whose(session.malloc()),
        round(total.used_bytes),
        counted(total.used, "block", "blocks"),
        lines::unwritten(total.used_bytes, share.used),
        round(free),
        places(session.malloc()),
        in_memory(held, free),
        match total.trimmable {
            0 => String::new(),
            bytes => format!("; malloc_trim would return {} to the system", round(bytes)),
        }
    );
    let text = match &report.categories {
        Some(all) => format!("{text} By category ({}): {}.", all.whose, by_category(all)),
        None => text,
    };
    plain("malloc", text, "walk of all chunks", share.used).known(Confidence::Derived).more("malloc")
}

/// Returns the name of the malloc implementation.
fn whose(malloc: &Malloc) -> &'static str {
    if malloc.musl.is_empty() { "glibc's malloc" } else { "musl's malloc" }
}

/// Returns the number of arenas or groups that contain its free blocks.
fn places(malloc: &Malloc) -> String {
    match malloc.musl.groups.len() {
        0 => counted(malloc.arenas.len() as u64, "arena", "arenas"),
        groups => counted(groups as u64, "group", "groups"),
    }
}

/// Describes blocks by the category that a runtime recorded.
fn by_category(all: &CategoriesRow) -> String {
    let mut sizes: Vec<(String, u64)> = all.categories.iter().map(|row| (row.name.clone(), row.asked)).collect();
    sizes.push(("no category".to_owned(), all.others.bytes));
    biggest(sizes, CATEGORIES)
}

/// Maximum number of categories named.
const CATEGORIES: usize = 6;

/// Reports a single block with a large share of all memory.
fn large_block(report: &MallocReport, whole: u64) -> Option<Finding> {
    // Memory that was never written does not count.
    let each = |c: &ClusterRow| c.weight().checked_div(c.count).unwrap_or(0);
    let large =
        |c: &&ClusterRow| each(c) >= LARGE_BLOCK && each(c).saturating_mul(100) >= whole.saturating_mul(ONE_BLOCK);
    let block = report.clusters.iter().filter(large).max_by_key(|c| each(c))?;
    let name = block.allocator.map_or("malloc", AllocatorName::name);
    let text = format!(
        "{} of {} bytes ({} in all{}).",
        counted(block.count, &format!("{name} block"), &format!("{name} blocks")),
        exact(block.size),
        round(block.bytes),
        match block.written {
            Some(written) if written < block.bytes => format!(", {} of it written", round(written)),
            _ => String::new(),
        }
    );
    let finding =
        Finding::new("malloc-large-block", Severity::Warning, text, format!("used chunk at {}", block.example));
    let finding = finding.about(block.weight()).known(Confidence::Derived);
    Some(finding.more(format!("refs {}", block.example)).within(malloc::whole(block.allocator)))
}

fn quick_malloc(session: &Session<'_>, used: u64, split: &UsageSplit) -> Vec<Finding> {
    let held = malloc::held(session, split);
    let text = format!(
        "{}: {} used, {} free{}, {} with a separate mapping.{}",
        whose(session.malloc()),
        round(split.used),
        round(split.free),
        in_memory(held, split.free),
        counted(session.malloc().own_mappings().0, "block", "blocks"),
        match split.unknown {
            0 => String::new(),
            unknown => format!(" {} more was not walked; `coremap malloc` walks it.", round(unknown)),
        }
    );
    let evidence = if session.malloc().musl.is_empty() {
        "its arenas and free lists"
    } else {
        "the meta structures of its groups"
    };
    let mut out = vec![plain("malloc", text, evidence, used).known(Confidence::Derived).more("malloc")];
    out.extend(malloc::quick(session.malloc(), split, held));
    out
}

pub(super) fn stacks(session: &Session<'_>, tally: &Tally, zeros: &ZeroMap, found: &mut Found) {
    found.findings.extend(of_stacks(session, tally, Some(zeros)));
}

fn of_stacks(session: &Session<'_>, tally: &Tally, zeros: Option<&ZeroMap>) -> Vec<Finding> {
    let Some(share) = tally.shares.get(&Subject::Stacks) else { return Vec::new() };
    let rows = measure(session, zeros);
    let mut out = verdict(session, &rows);
    match out.iter_mut().find(|f| f.id == "stacks") {
        // Both numbers are shares of the bytes that all stacks use, because reserved address space takes up no memory.
        Some(stacks) => {
            stacks.share = (tally.measure != Measure::InCore).then(|| super::share(share.used, tally.total()));
            stacks.bytes = Some(share.used);
        }
        None => {
            let known = || rows.iter().filter(|row| row.low.is_some());
            let stacks = known().filter(|row| row.state != StackState::Fiber).count() as u64;
            let rss = known().map(|row| row.resident.rss).try_fold(0u64, |sum, rss| Some(sum.saturating_add(rss?)));
            let regions = share.regions.iter().filter_map(|&i| session.map().regions.get(i));
            let fibers = regions.filter(|region| &*region.detail == FIBER_STACK).count() as u64;
            let kind_of = |kind: Kind| {
                let regions = share.regions.iter().filter_map(|&i| session.map().regions.get(i));
                regions.filter(|region| region.kind == kind).fold(0u64, |sum, r| sum.saturating_add(r.range.len()))
            };
            let light = kind_of(Kind::GoStack);
            let text = format!(
                "{}{} reserve {} of address space{}{}{}.",
                counted(stacks, "thread stack", "thread stacks"),
                match fibers {
                    0 => String::new(),
                    n => format!(" and {}", counted(n, "fiber stack", "fiber stacks")),
                },
                round(share.size.saturating_sub(light)),
                if light > 0 { format!("; stacks of goroutines take {}", round(light)) } else { String::new() },
                zeros.filter(|_| tally.measure == Measure::Written).map_or_else(String::new, |_| {
                    match known().all(|row| row.lost || row.touched.is_some()) {
                        true => format!(", {} written", round(share.used)),
                        false => format!(", {} in the core and not zero", round(share.used)),
                    }
                }),
                rss.map_or_else(String::new, |rss| format!(", {} resident (RSS)", round(rss)))
            );
            out.push(
                plain("stacks", text, "thread control blocks and stack pointers", share.used)
                    .known(Confidence::Derived)
                    .more("stacks --zero-fill"),
            );
        }
    }
    out
}

/// Returns findings on malloc and stacks for `summary`. `split`: the division of malloc's memory, if there is any.
pub(super) fn quick(
    session: &Session<'_>,
    tally: &Tally,
    zeros: Option<&ZeroMap>,
    split: Option<&UsageSplit>,
) -> Vec<Finding> {
    let malloc = tally.shares.get(&Subject::Malloc).zip(split);
    let mut out = malloc.map(|(share, split)| quick_malloc(session, share.used, split)).unwrap_or_default();
    out.extend(of_stacks(session, tally, zeros));
    out
}
