//! Findings on malloc: leak patterns and free memory.

use crate::commands::malloc::report::{ArenaRow, MallocReport, MallocTotal};
use crate::map::Confidence;
use crate::native::malloc::{Malloc, Split};
use crate::process::Process;
use crate::report::{ClusterRow, Finding, Severity};
use crate::units::{count, exact, round};

/// Bytes from which on a pattern is told.
const LARGE: u64 = 64 << 20;

/// Share of all that malloc holds, in percent, from which on free memory is told.
const MOSTLY: u64 = 40;

/// Chunks with mappings of their own that make a pattern.
const MANY_MAPPED: u64 = 16;

/// Equal blocks that make a pattern, and their share of all used bytes in percent.
const MANY_EQUAL: u64 = 64;
const SHARE: u64 = 10;

/// Bytes from which on equal blocks are told.
const EQUAL: u64 = 16 << 20;

/// Arenas that are many: glibc makes one for each thread that finds the others taken, up to eight for each processor
/// (arena.c, NARENAS_FROM_NCORES).
const MANY_ARENAS: usize = 8;

/// Bytes free in many arenas, not counting the one that has most, from which on that is told; and of all that arenas
/// have, in percent, from which on it is a warning. Where one has it all, fewer arenas would not help.
const FREE_IN_ARENAS: u64 = 8 << 20;
const MUCH_FREE: u64 = 30;

/// The variable that limits arenas.
const ARENA_MAX: &str = "MALLOC_ARENA_MAX";

/// Free memory spread over many arenas.
pub(super) fn arenas(process: &Process, report: &MallocReport) -> Option<Finding> {
    let free = |a: &ArenaRow| a.free_bytes.saturating_add(a.top);
    let bytes = report.arenas.iter().map(free).fold(0, u64::saturating_add);
    let most = report.arenas.iter().map(free).max().unwrap_or(0);
    let spread = bytes.saturating_sub(most);
    if report.arenas.len() < MANY_ARENAS || spread < FREE_IN_ARENAS {
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
    let much = spread >= LARGE && spread.saturating_mul(100) >= committed.saturating_mul(MUCH_FREE);
    let severity = if much { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("malloc-arenas", severity, text, "free chunks and top chunks of each arena");
    Some(finding.about(bytes).known(Confidence::Derived).more("malloc").within("malloc"))
}

/// `1 arena has`, `3 arenas have`.
fn count_have(arenas: u64) -> String {
    format!("{} {}", count(arenas, "arena"), if arenas == 1 { "has" } else { "have" })
}

/// Findings that need no walk of the heaps.
pub(in crate::commands) fn quick(malloc: &Malloc, split: &Split) -> Vec<Finding> {
    let mut out = Vec::new();
    let all = split.used.saturating_add(split.free).saturating_add(split.overhead);
    if split.free >= LARGE && split.free.saturating_mul(100) >= all.saturating_mul(MOSTLY) {
        let musl = !malloc.musl.is_empty();
        let (whose, help, evidence) = if musl {
            let help =
                "A group's memory returns to the system only when none of its blocks is in use; `coremap malloc` shows \
                        which sizes are free."
                    .to_owned();
            (count(malloc.musl.groups.len() as u64, "group"), help, "free slots in the meta structures of their groups")
        } else {
            let few = malloc.arenas.len() < MANY_ARENAS;
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
                round(split.free),
                round(all),
            ),
            evidence: evidence.into(),
            bytes: Some(split.free),
            confidence: Some(Confidence::Derived),
            command: Some("malloc".into()),
            within: Some("malloc"),
            ..Finding::default()
        });
    }
    let (number, mapped) = malloc.own_mappings();
    if number >= MANY_MAPPED && mapped >= LARGE {
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

/// Whether equal blocks are many, and a large part of all used bytes.
pub(in crate::commands) fn is_pattern(c: &ClusterRow, total: &MallocTotal) -> bool {
    let share = c.bytes.saturating_mul(100) >= total.used_bytes.saturating_mul(SHARE);
    c.count >= MANY_EQUAL && c.bytes >= EQUAL && share
}

/// Equal blocks that have a large part of all used bytes.
pub(super) fn equal_blocks(clusters: &[ClusterRow], total: &MallocTotal) -> Vec<Finding> {
    let used = total.used_bytes;
    clusters
        .iter()
        .filter(|c| is_pattern(c, total))
        .map(|c| {
            let content = match (&c.symbol, c.fill) {
                (Some(symbol), _) => format!(", each beginning with {symbol}"),
                (_, Some(fill)) => format!(", each filled with byte {fill:#04x}"),
                _ => String::new(),
            };
            let mapped = if c.mmapped { " with separate mappings" } else { "" };
            Finding {
                id: "malloc-equal-blocks",
                severity: Severity::Warning,
                text: format!(
                    "{} equal malloc blocks of {} bytes ({} in all){mapped}{content}: {} % of used malloc memory. \
                     `coremap refs {}` shows what points at one of them.",
                    exact(c.count),
                    exact(c.size),
                    round(c.bytes),
                    c.bytes.saturating_mul(100).checked_div(used).unwrap_or(0),
                    c.example
                ),
                evidence: format!("used chunks of one size; first at {}", c.example),
                bytes: Some(c.bytes),
                confidence: Some(Confidence::Derived),
                command: Some(format!("refs {}", c.example)),
                within: Some("malloc"),
                ..Finding::default()
            }
        })
        .collect()
}
