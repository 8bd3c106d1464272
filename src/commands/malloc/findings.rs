//! Findings about malloc: leak patterns and free memory.

use crate::analysis::blocks::FILLED;
use crate::analysis::resident::{is_known, written};
use crate::commands::malloc::report::{ArenaRow, MallocReport};
use crate::map::Confidence;
use crate::native::malloc::{Malloc, UsageSplit, free_pages};
use crate::process::Process;
use crate::report::{AllocatorName, ClusterRow, Finding, Severity};
use crate::session::Session;
use crate::units::{count, exact, round};

/// Minimum size of a pattern in bytes.
const MIN_BYTES: u64 = 64 << 20;

/// Minimum share of free memory in malloc's heaps to be reported, in percent.
const MIN_FREE_PERCENT: u64 = 40;

/// Minimum number of chunks with a separate mapping that make a pattern.
const MIN_MAPPED: u64 = 16;

/// Minimum number of equal blocks that make a pattern, and their minimum share of all used bytes in percent.
const MIN_EQUAL: u64 = 64;
const MIN_SHARE_PERCENT: u64 = 10;

/// Minimum size of equal blocks together, in bytes.
const MIN_EQUAL_BYTES: u64 = 16 << 20;

/// Minimum number of arenas to be reported. glibc makes one for each thread that finds the others in use, up to eight
/// per processor (arena.c, NARENAS_FROM_NCORES).
const MIN_ARENAS: usize = 8;

/// Minimum number of free bytes in arenas, not counting the arena with most, to be reported. Also their minimum share
/// of the arenas, in percent, for a warning. If one arena has all of it, fewer arenas would not help.
const MIN_FREE_IN_ARENAS: u64 = 8 << 20;
const MIN_ARENA_FREE_PERCENT: u64 = 30;

/// Environment variable that limits the number of arenas.
const ARENA_MAX: &str = "MALLOC_ARENA_MAX";

/// Reports free memory that is spread over many arenas.
pub(super) fn arenas(process: &Process, report: &MallocReport) -> Option<Finding> {
    let free = |a: &ArenaRow| a.free_bytes.saturating_add(a.top);
    let bytes = report.arenas.iter().map(free).fold(0, u64::saturating_add);
    let most = report.arenas.iter().map(free).max().unwrap_or(0);
    let spread = bytes.saturating_sub(most);
    if report.arenas.len() < MIN_ARENAS || spread < MIN_FREE_IN_ARENAS {
        return None;
    }
    let committed = report.arenas.iter().map(|a| a.committed).fold(0, u64::saturating_add);
    let trimmable = report.arenas.iter().map(|a| a.trimmable).fold(0, u64::saturating_add);
    let without = report.arenas.iter().filter(|a| a.attached_threads == Some(0)).count() as u64;
    let set = match process.environment(ARENA_MAX).map(|value| value.parse::<u32>()) {
        Some(Ok(max)) => format!("{ARENA_MAX}={max} is set"),
        Some(Err(_)) => format!("{ARENA_MAX} is set, but not to a number"),
        None => format!("{ARENA_MAX}=2 would limit them (it is not set, or not visible in the core)"),
    };
    let text = format!(
        "{} for {}: {} is free in them (up to {} in one), which threads of other arenas cannot use{}. malloc_trim would \
         return {} to the system. {set}.",
        count(report.arenas.len() as u64, "malloc arena"),
        count(process.threads().len() as u64, "thread"),
        round(bytes),
        round(most),
        if without > 0 { format!(". {} no thread attached", count_have(without)) } else { String::new() },
        round(trimmable)
    );
    let much = spread >= MIN_BYTES && spread.saturating_mul(100) >= committed.saturating_mul(MIN_ARENA_FREE_PERCENT);
    let severity = if much { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("malloc-arenas", severity, text, "free chunks and top chunks of each arena");
    Some(finding.about(bytes).known(Confidence::Derived).more("malloc").within("malloc"))
}

/// Returns `1 arena has` or `3 arenas have`.
fn count_have(arenas: u64) -> String {
    format!("{} {}", count(arenas, "arena"), if arenas == 1 { "has" } else { "have" })
}

/// Returns how much of malloc's free memory takes up memory. Pages are only read if it may be much.
pub(in crate::commands) fn held(session: &Session<'_>, split: &UsageSplit) -> u64 {
    let free = split.free.saturating_sub(split.released);
    if free < MIN_BYTES {
        return free;
    }
    let pages = free_pages(session.process, session.malloc()).into_iter();
    let pages: Vec<_> = pages.filter(|range| is_known(session, *range)).map(|range| (range, 0)).collect();
    let all = pages.iter().map(|(range, _)| range.len()).fold(0, u64::saturating_add);
    let written = written(session, &pages, 1).first().copied().flatten().unwrap_or(0);
    // Chunks without a whole page share their pages with others.
    free.saturating_sub(all).saturating_add(written).min(free)
}

/// Findings that need no walk of the heaps.
///
/// `free` is how much of the free memory takes up memory ([`held`]).
pub(in crate::commands) fn quick(malloc: &Malloc, split: &UsageSplit, free: u64) -> Vec<Finding> {
    let mut out = Vec::new();
    let all = split.used.saturating_add(split.overhead).saturating_add(free);
    if free >= MIN_BYTES && free.saturating_mul(100) >= all.saturating_mul(MIN_FREE_PERCENT) {
        let musl = !malloc.musl.is_empty();
        let (whose, help, evidence) = if musl {
            let help =
                "A group's memory returns to the system only when none of its blocks is in use; `coremap malloc` shows \
                        which sizes are free."
                    .to_owned();
            (count(malloc.musl.groups.len() as u64, "group"), help, "free slots in the meta structures of their groups")
        } else {
            let few = malloc.arenas.len() < MIN_ARENAS;
            let what = if few { "malloc_trim" } else { "Fewer arenas (MALLOC_ARENA_MAX) or malloc_trim" };
            let help = format!("{what} may help; `coremap malloc` shows how much trimming would return.");
            (
                count(malloc.arenas.len() as u64, "arena"),
                help,
                "free chunks in bins, fastbins and thread caches, and top chunks",
            )
        };
        out.push(Finding {
            id: "malloc-mostly-free",
            severity: Severity::Warning,
            text: format!(
                "{} of malloc's {} in {whose} is free but was not returned to the system. {help}",
                round(free),
                round(all),
            ),
            evidence: evidence.into(),
            bytes: Some(free),
            confidence: Some(Confidence::Derived),
            command: Some("malloc".into()),
            within: Some("malloc"),
            ..Finding::default()
        });
    }
    let (number, mapped) = malloc.own_mappings();
    if number >= MIN_MAPPED && mapped >= MIN_BYTES {
        out.push(Finding {
            id: "malloc-mmapped",
            severity: Severity::Warning,
            text: format!(
                "{} large malloc blocks ({}) have a separate mapping each. `coremap malloc` lists their sizes, `coremap holders` \
                 the objects that point at them, `coremap leaks` those that are unreachable.",
                exact(number),
                round(mapped)
            ),
            evidence: if malloc.musl.is_empty() {
                "chunks with the IS_MMAPPED bit at the start of anonymous mappings".into()
            } else {
                "groups of one block with a separate mapping".into()
            },
            bytes: Some(mapped),
            confidence: Some(Confidence::Derived),
            command: Some("malloc".into()),
            within: Some("malloc"),
            ..Finding::default()
        });
    }
    out
}

/// Whether there are many equal blocks, with a large share of their allocator's used bytes.
pub(in crate::commands) fn is_pattern(c: &ClusterRow, report: &MallocReport) -> bool {
    let used = report.used_bytes(c.allocator);
    let share = c.weight().saturating_mul(100) >= used.saturating_mul(MIN_SHARE_PERCENT);
    c.count >= MIN_EQUAL && c.weight() >= MIN_EQUAL_BYTES && share
}

/// Returns the finding that has the memory of an allocator. `None` is the C library's malloc.
pub(in crate::commands) fn whole(allocator: Option<AllocatorName>) -> &'static str {
    if allocator.is_some() { "allocator" } else { "malloc" }
}

/// Reports equal blocks with a large share of their allocator's used bytes. `managed`: objects of a managed heap may
/// own them. A word that points at a block is then often in another block, and `refs` goes no further.
pub(super) fn equal_blocks(report: &MallocReport, managed: bool) -> Vec<Finding> {
    report
        .clusters
        .iter()
        .filter(|c| is_pattern(c, report))
        .map(|c| {
            let used = report.used_bytes(c.allocator);
            let name = c.allocator.map_or("malloc", AllocatorName::name);
            let content = match (&c.symbol, c.fill, c.first_word) {
                (Some(symbol), ..) => format!(", each beginning with {symbol}"),
                (_, Some(fill), _) if c.size > FILLED => {
                    format!(", each beginning with {} of byte {fill:#04x}", round(FILLED))
                }
                (_, Some(fill), _) => format!(", each filled with byte {fill:#04x}"),
                (.., Some(word)) => format!(" with the same first word, {word}"),
                _ => String::new(),
            };
            // Only blocks that were compared as a whole are equal.
            let equal = if c.fill.is_some() && c.size <= FILLED { "equal " } else { "" };
            let written = match c.written {
                Some(written) if written < c.bytes => format!(", {} of it written", round(written)),
                _ => String::new(),
            };
            let mapped = if c.mmapped { " with separate mappings" } else { "" };
            let refs = format!("`coremap refs {}` shows what, if anything, points at one of them", c.example);
            let (command, help) = match managed {
                true => ("holders".to_owned(), format!("`coremap holders` shows the objects that lead to such blocks, {refs}")),
                false => (format!("refs {}", c.example), refs),
            };
            Finding {
                id: "malloc-equal-blocks",
                severity: Severity::Warning,
                text: format!(
                    "{} {equal}{name} blocks of {} bytes ({} in all{written}){mapped}{content}: {} % of used {name} memory. \
                     {help}.",
                    exact(c.count),
                    exact(c.size),
                    round(c.bytes),
                    c.bytes.saturating_mul(100).checked_div(used).unwrap_or(0),
                ),
                evidence: format!("used chunks of one size; first at {}", c.example),
                bytes: Some(c.weight()),
                confidence: Some(Confidence::Derived),
                command: Some(command),
                within: Some(whole(c.allocator)),
                ..Finding::default()
            }
        })
        .collect()
}
