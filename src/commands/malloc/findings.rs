//! Patterns of leaks in what malloc holds.

use crate::commands::malloc::report::MallocTotal;
use crate::map::Confidence;
use crate::native::malloc::{Malloc, Split};
use crate::report::{ClusterRow, Finding, Severity};
use crate::units::{count, exact, round};

/// Bytes from which on a pattern is told.
const LARGE: u64 = 64 << 20;

/// Share of all that malloc holds, in percent, from which on free memory is told.
const MOSTLY: u64 = 40;

/// Chunks with mappings of their own that make a pattern.
const MANY_MAPPED: usize = 16;

/// Equal blocks that make a pattern, and their share of all used bytes in percent.
const MANY_EQUAL: u64 = 64;
const SHARE: u64 = 10;

/// Bytes from which on equal blocks are told.
const EQUAL: u64 = 16 << 20;

/// What can be told without a walk.
pub(in crate::commands) fn quick(malloc: &Malloc, split: &Split) -> Vec<Finding> {
    let mut out = Vec::new();
    let all = split.used.saturating_add(split.free).saturating_add(split.overhead);
    if split.free >= LARGE && split.free.saturating_mul(100) >= all.saturating_mul(MOSTLY) {
        out.push(Finding {
            id: "malloc-mostly-free",
            severity: Severity::Warning,
            text: format!(
                "malloc keeps {} free of {} in {}: it was given back to malloc, not to the system. Fewer arenas \
                 (MALLOC_ARENA_MAX) or malloc_trim may help; `coremap malloc` tells how much trimming would give back.",
                round(split.free),
                round(all),
                count(malloc.arenas.len() as u64, "arena")
            ),
            evidence: "free chunks in bins, fastbins, thread caches and tops".into(),
            bytes: Some(split.free),
            confidence: Some(Confidence::Derived),
            command: Some("malloc".into()),
            within: Some("malloc"),
            ..Finding::default()
        });
    }
    let mapped: u64 = malloc.mapped.iter().map(|m| m.size).fold(0, u64::saturating_add);
    if malloc.mapped.len() >= MANY_MAPPED && mapped >= LARGE {
        out.push(Finding {
            id: "malloc-mmapped",
            severity: Severity::Warning,
            text: format!(
                "{} large blocks of malloc ({}) have mappings of their own. `coremap malloc` tells their sizes, \
                 `coremap holders` and `coremap leaks` who keeps them.",
                exact(malloc.mapped.len() as u64),
                round(mapped)
            ),
            evidence: "chunks with the IS_MMAPPED bit at the start of anonymous mappings".into(),
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
            let mapped = if c.mmapped { " with mappings of their own" } else { "" };
            Finding {
                id: "malloc-equal-blocks",
                severity: Severity::Warning,
                text: format!(
                    "{} equal blocks of {} bytes ({}){mapped}{content}: {} % of all that malloc gave out. \
                     `coremap refs {}` tells who points at one of them.",
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
