//! All regions as columns of numbers, for the strip of addresses: a region is some twenty bytes, not two hundred.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::addr::Addr;
use crate::commands::report::gather::Answers;
use crate::commands::report::pictures::Family;
use crate::map::{Confidence, Kind};

/// Characters of a region's detail that the strip knows.
const DETAIL: usize = 100;

/// Regions by address, a column for each thing that is known of them. Sizes in bytes.
#[derive(Debug, Default, Serialize)]
pub(in crate::commands::report) struct Strip {
    /// Names of kinds, which `kind` has indices into.
    pub(in crate::commands::report) kinds: Vec<&'static str>,
    /// The class of each kind's family.
    pub(in crate::commands::report) families: Vec<&'static str>,
    /// Details, which `detail` has indices into.
    pub(in crate::commands::report) details: Vec<String>,
    /// From the end of the region before; text where JSON's numbers would not be exact (2^53).
    pub(in crate::commands::report) gap: Vec<Value>,
    /// Lengths.
    pub(in crate::commands::report) size: Vec<Value>,
    /// What each is.
    pub(in crate::commands::report) kind: Vec<usize>,
    /// Which one.
    pub(in crate::commands::report) detail: Vec<usize>,
    /// How sure: 0 exact, 1 derived, 2 heuristic.
    pub(in crate::commands::report) confidence: Vec<u8>,
    /// Held by the core.
    pub(in crate::commands::report) in_core: Vec<u64>,
    /// Held in pages that are not all zero.
    pub(in crate::commands::report) written: Vec<u64>,
    /// Regions that are drawn with their neighbour of the same kind, as there are too many.
    pub(in crate::commands::report) merged: u64,
}

/// The columns; beyond `most` regions neighbours of one kind without a gap are one.
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
        // There are far more than a screen has columns: what tells neighbours apart is of no use to the eye.
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

/// Exact for who reads JSON's numbers as doubles.
fn number(n: u64) -> Value {
    if n < 1 << 53 { n.into() } else { n.to_string().into() }
}
