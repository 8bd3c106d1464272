//! Invariants of the map, checked on every run.

use crate::limits;
use crate::map::{AddressMap, Claim, Confidence, Kind, Region};
use crate::sums::SaturatingSum;
use crate::targets::Facts;
use crate::units::exact;

/// One invariant, and whether it holds.
#[derive(Clone, Debug, Default, serde::Serialize, schemars::JsonSchema)]
pub struct Invariant {
    /// Short name.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// The figures.
    pub detail: String,
}

/// Two claims on the same bytes that contradict each other.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Conflict {
    /// First byte of the overlap.
    pub start: crate::addr::Addr,
    /// Size of the overlap in bytes.
    pub size: u64,
    /// Kind of the winning claim.
    pub winner: crate::map::Kind,
    /// Kind of the losing claim.
    pub loser: crate::map::Kind,
    /// Evidence of both claims.
    pub detail: String,
}

/// Checks that the labels cover the base exactly once, in every column.
pub fn invariants(map: &AddressMap, facts: &Facts) -> Vec<Invariant> {
    let base = map.base.size();
    let sum = map.regions.iter().map(|r| r.range.len()).fold(0, u64::saturating_add);
    let in_core: u64 = map.regions.iter().map(|r| r.in_core).saturating_sum();
    // A guard may be in a writable mapping: no list of mappings shows guards made by MADV_GUARD_INSTALL.
    let is_usable =
        |r: &&Region| r.kind.is_reserved() && r.kind != Kind::StackGuard && r.perms.is_some_and(|p| p.write);
    let usable = map.regions.iter().filter(is_usable).map(|r| r.in_core).saturating_sum();
    let sorted = map.regions.windows(2).all(|w| w[0].range.end <= w[1].range.start);
    let covered = covers(map);
    vec![
        Invariant {
            name: "disjoint",
            ok: sorted,
            detail: format!("{} regions, sorted, no overlap", map.regions.len()),
        },
        Invariant {
            name: "covering",
            ok: covered,
            detail: format!(
                "covers the same bytes as the {} runs of {}",
                map.base.entries.len(),
                facts.producer.lists()
            ),
        },
        Invariant {
            name: "size",
            ok: sum == base,
            detail: format!("kinds {} bytes, base {} bytes", exact(sum), exact(base)),
        },
        Invariant {
            name: "reserved",
            ok: usable == 0,
            detail: format!("{} writable bytes are called reserved", exact(usable)),
        },
        Invariant {
            name: "in_core",
            ok: in_core == facts.space.dumped_total(),
            detail: format!("kinds {} bytes, core {} bytes", exact(in_core), exact(facts.space.dumped_total())),
        },
    ]
}

fn covers(map: &AddressMap) -> bool {
    let join = |ranges: Vec<_>| crate::addr::union(ranges);
    join(map.regions.iter().map(|r| r.range).collect()) == join(map.base.entries.iter().map(|e| e.range).collect())
}

/// Overlapping claims that are both certain and of different kinds: one of the two introspectors is wrong there. A
/// losing guess is no conflict, nor is a claim entirely within a less specific one (a heap in a mapping).
///
/// Also returns how many claims were not compared with later ones, because too many cover one address.
pub fn conflicts(map: &AddressMap) -> (Vec<Conflict>, usize) {
    let sure: Vec<_> = map.claims.iter().filter(|c| c.confidence != Confidence::Heuristic).collect();
    let mut out = Vec::new();
    let mut left_out = 0;
    // Claims are sorted by start. `open` has the earlier ones that reach past the start of this one.
    let mut open: Vec<&Claim> = Vec::new();
    for claim in sure {
        open.retain(|c| c.range.end > claim.range.start);
        for other in &open {
            let (winner, loser) = if rank(other) >= rank(claim) { (*other, claim) } else { (claim, *other) };
            let nested = loser.range.covers(&winner.range) && loser.kind.specificity() < winner.kind.specificity();
            let Some(common) = claim.range.intersect(&other.range).filter(|_| winner.kind != loser.kind && !nested)
            else {
                continue;
            };
            out.push(Conflict {
                start: common.start,
                size: common.len(),
                winner: winner.kind,
                loser: loser.kind,
                detail: format!("{} | {}", winner.evidence, loser.evidence),
            });
            if out.len() == limits::MAX_CONFLICTS {
                return (out, left_out);
            }
        }
        if open.len() < limits::MAX_OPEN_CLAIMS {
            open.push(claim);
        } else {
            left_out += 1;
        }
    }
    (out, left_out)
}

fn rank(c: &Claim) -> (Confidence, u8, std::cmp::Reverse<u64>) {
    (c.confidence, c.kind.specificity(), std::cmp::Reverse(c.range.len()))
}
