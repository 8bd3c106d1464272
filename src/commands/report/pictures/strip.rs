//! All regions as columns of numbers, for the strip of addresses. A region takes some 20 bytes instead of 200.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::addr::Addr;
use crate::commands::report::gather::Answers;
use crate::commands::report::pictures::{Family, Look};
use crate::map::{Confidence, Kind};

/// Maximum number of characters of a region's detail.
const DETAIL: usize = 100;

/// Regions by address, with one column per property. Sizes in bytes.
#[derive(Debug, Default, Serialize)]
pub(in crate::commands::report) struct Strip {
    /// Names of kinds, indexed by `kind`.
    pub(in crate::commands::report) kinds: Vec<&'static str>,
    /// CSS class of each kind's family.
    pub(in crate::commands::report) families: Vec<&'static str>,
    /// Details, indexed by `detail`.
    pub(in crate::commands::report) details: Vec<String>,
    /// Bytes from the end of the previous region. A string from 2^53 on, where JSON numbers would not be exact.
    pub(in crate::commands::report) gap: Vec<Value>,
    pub(in crate::commands::report) size: Vec<Value>,
    /// Index into `kinds`.
    pub(in crate::commands::report) kind: Vec<usize>,
    /// Index into `details`.
    pub(in crate::commands::report) detail: Vec<usize>,
    /// Confidence: 0 exact, 1 derived, 2 heuristic.
    pub(in crate::commands::report) confidence: Vec<u8>,
    /// Bytes in the core.
    pub(in crate::commands::report) in_core: Vec<u64>,
    /// Bytes in pages that are not all zero.
    pub(in crate::commands::report) written: Vec<u64>,
    /// Number of regions merged with their neighbour of the same kind, because there are too many.
    pub(in crate::commands::report) merged: u64,
}

/// Builds the columns. With more than `most` regions, adjacent ones of one kind are merged.
pub(in crate::commands::report) fn strip(answers: &Answers, most: usize) -> Strip {
    let mut strip = Strip::default();
    let mut kinds: HashMap<Kind, usize> = HashMap::new();
    let mut details: HashMap<String, usize> = HashMap::new();
    let rows = &answers.regions.regions;
    let merge = rows.len() > most;
    let mut end = Addr::NULL;
    for (at, row) in rows.iter().enumerate() {
        let written = answers.written.get(at).copied().unwrap_or(0);
        let kind = *kinds.entry(row.kind).or_insert_with(|| {
            strip.kinds.push(row.kind.name());
            strip.families.push(Family::of(row.kind).class());
            strip.kinds.len() - 1
        });
        let gap = row.start.since(end);
        end = row.end;
        // There are far more regions than a screen has columns, so details of neighbours would not be visible.
        if merge && gap == 0 && strip.kind.last() == Some(&kind) {
            strip.merged += 1;
            if let (Some(size), Some(core), Some(wrote)) =
                (strip.size.last_mut(), strip.in_core.last_mut(), strip.written.last_mut())
            {
                *size = number(size.as_u64().unwrap_or(0).saturating_add(row.size));
                *core = core.saturating_add(row.in_core);
                *wrote = wrote.saturating_add(written);
            }
            continue;
        }
        let shown: String = row.detail.chars().take(DETAIL).collect();
        let detail = *details.entry(shown).or_insert_with_key(|text| {
            strip.details.push(text.clone());
            strip.details.len() - 1
        });
        strip.gap.push(number(gap));
        strip.size.push(number(row.size));
        strip.kind.push(kind);
        strip.detail.push(detail);
        strip.confidence.push(match row.confidence {
            Confidence::Exact => 0,
            Confidence::Derived => 1,
            Confidence::Heuristic => 2,
        });
        strip.in_core.push(row.in_core);
        strip.written.push(written);
    }
    strip
}

/// Encodes a number exactly, even for readers that parse JSON numbers as doubles.
fn number(n: u64) -> Value {
    if n < 1 << 53 { n.into() } else { n.to_string().into() }
}
