//! States of resident memory beside its size: freed and not yet reclaimed, locked, in huge pages.

use crate::commands::triage::analysis::tally::{PageStates, Share, Tally};
use crate::commands::triage::analysis::{biggest, share};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::sums::SaturatingSum;
use crate::units::round;

/// Bytes in a state for a finding. A smaller amount needs this minimum share of all bytes, in percent.
const MUCH: u64 = 16 << 20;
const SHARE: u64 = 10;
/// Minimum number of bytes for a finding in any case.
const LEAST: u64 = 1 << 20;

/// Maximum number of subjects named.
const SUBJECTS: usize = 3;

/// A state, and the finding on it.
struct State {
    id: &'static str,
    bytes: fn(&PageStates) -> u64,
    /// Words after the amount: the state, and its consequence.
    is: &'static str,
    means: &'static str,
    evidence: &'static str,
}

const STATES: [State; 3] = [
    State {
        id: "freed-lazily",
        bytes: |states| states.lazy_free,
        is: "of the resident memory was freed with MADV_FREE",
        means: "The system takes it back when it needs memory; until then RSS counts it.",
        evidence: "LazyFree in smaps",
    },
    State {
        id: "locked-memory",
        bytes: |states| states.locked,
        is: "of the resident memory is locked (mlock, mlockall)",
        means: "Locked mappings are resident in full, also where nothing was written, and are never swapped.",
        evidence: "flag lo in smaps",
    },
    State {
        id: "huge-pages",
        bytes: |states| states.huge,
        is: "of the memory is in huge pages",
        means: "A huge page is resident in full if one byte of it is used. RSS does not count pages of hugetlbfs.",
        evidence: "AnonHugePages, ShmemPmdMapped, FilePmdMapped and Hugetlb in smaps",
    },
];

/// Adds a finding for each state with much memory. It is within the finding that has most of this memory.
pub(super) fn add(tally: &Tally, findings: &mut Vec<Finding>) {
    let total = tally.total();
    for state in &STATES {
        let of = |share: &Share| (state.bytes)(&share.states);
        let bytes = tally.shares.values().map(of).saturating_sum();
        if bytes < LEAST || bytes < MUCH && bytes.saturating_mul(100) < total.saturating_mul(SHARE) {
            continue;
        }
        let is_there = |id: &&'static str| findings.iter().any(|f| f.id == *id && f.within.is_none());
        let with = tally.shares.iter().filter(|(_, share)| of(share) > 0);
        let mut ids: Vec<(u64, &'static str)> = with
            .filter_map(|(subject, share)| Some((of(share), subject.findings().iter().copied().find(is_there)?)))
            .collect();
        ids.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let Some((_, within)) = ids.first() else { continue };
        let sizes = tally.shares.iter().map(|(subject, share)| (subject.words(), of(share)));
        let sizes = sizes.filter(|(_, bytes)| *bytes > 0).collect();
        let text = format!("{} {}: {}. {}", round(bytes), state.is, biggest(sizes, SUBJECTS), state.means);
        let finding = Finding::new(state.id, Severity::Info, text, state.evidence).about(bytes);
        // The memory may be in several findings, so its share is of all memory.
        let finding = Finding { share: Some(share(bytes, total)), ..finding };
        findings.push(finding.known(Confidence::Exact).within(within));
    }
}
