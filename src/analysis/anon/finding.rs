//! What `summary` says of anonymous memory, without reading all of the core.

use crate::addr::{AddrRange, union};
use crate::analysis::anon::content::SAMPLES;
use crate::analysis::anon::{Cluster, Depth, is_anonymous, survey};
use crate::introspect::Findings;
use crate::limits;
use crate::map::{Kind, Region};
use crate::memory::scan::PAGE;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{Finding, Severity};
use crate::units::{exact, round};

/// Bytes of anonymous memory in the core from which on it is looked at.
const LARGE: u64 = 64 << 20;

/// Equal blocks that make a pattern.
const MANY: usize = 8;

/// Bytes of one block from which on it is told alone.
const HUGE: u64 = 1 << 30;

/// Kinds of memory in which owners keep pointers, those first that are small.
const KEEPERS: [Kind; 5] = [Kind::HandleTable, Kind::Stack, Kind::Image, Kind::Malloc, Kind::GCHeap];

/// The pattern of most bytes in anonymous memory, where there is much of it.
pub(in crate::analysis) fn finding(process: &Process, found: &Findings) -> Option<Finding> {
    let anonymous = found.map.regions.iter().filter(|r| is_anonymous(r));
    if anonymous.map(|r| r.in_core).fold(0, u64::saturating_add) < LARGE {
        return None;
    }
    let (within, all) = keepers(found);
    let survey = survey(process, found, within, Depth::Sample, &Progress::silent());
    let cluster = survey.clusters.first().filter(|c| c.bytes() >= LARGE)?;
    if cluster.blocks.len() < MANY && cluster.size < HUGE {
        return None;
    }
    let where_from = match cluster.cut {
        true => "borders by the pointers to them",
        false => "each a mapping of its own",
    };
    let how_far = if all { "" } else { " (not all memory was searched for pointers; `coremap anon` does)" };
    Some(Finding {
        id: "anonymous-blocks",
        severity: Severity::Warning,
        text: format!(
            "{}{}: anonymous memory that no GC, malloc, loader heap or stack owns. `coremap anon` tells who points at them.",
            blocks(cluster, survey.samples),
            if cluster.cut { ", told apart by the pointers to them" } else { "" }
        ),
        evidence: format!(
            "first at {}; {where_from}{how_far}; content by samples, up to {} pages of each",
            cluster.blocks.first().map(|b| b.start).unwrap_or_default(),
            survey.samples
        ),
    })
}

fn blocks(cluster: &Cluster, samples: u64) -> String {
    // A page or two is no more than a hint.
    let few = samples < SAMPLES && samples < cluster.size.div_ceil(PAGE);
    let content = match (cluster.content.name(), cluster.content.fill) {
        ("fill" | "zero", Some(fill)) if few => format!(", byte {fill:#04x} in the {samples} pages of each looked at"),
        _ if few => String::new(),
        ("fill", Some(fill)) => format!(", filled with byte {fill:#04x}"),
        ("zero", _) => ", all zero".to_owned(),
        ("text", _) => ", mostly text".to_owned(),
        ("pointers", _) => ", many pointers in them".to_owned(),
        _ => String::new(),
    };
    match cluster.blocks.len() {
        1 => format!("One block of {}{content}", round(cluster.size)),
        n => format!(
            "{} equal blocks of {} ({} together){content}",
            exact(n as u64),
            round(cluster.size),
            round(cluster.bytes())
        ),
    }
}

/// Where owners keep pointers, as far as that is little; and whether it is all.
fn keepers(found: &Findings) -> (Vec<AddrRange>, bool) {
    let mut left = limits::MAX_FINDING_SCAN;
    let mut all = true;
    let mut out = Vec::new();
    for kind in KEEPERS {
        let of_kind = |r: &&Region| r.kind == kind && r.perms.is_none_or(|p| p.write);
        for region in found.map.regions.iter().filter(of_kind) {
            match left.checked_sub(region.in_core) {
                Some(rest) => left = rest,
                None => {
                    all = false;
                    continue;
                }
            }
            out.push(region.range);
        }
    }
    (union(out), all)
}
