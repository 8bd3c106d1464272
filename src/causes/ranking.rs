//! The order of findings, for every runtime, and the one rule of severity.

use std::cmp::Reverse;

use crate::report::{Finding, Severity};

/// A family of findings. Its position in [`RANKING`] is its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// A runtime that could not be read, so the other findings lack its facts.
    Unread,
    /// The process ended itself, or its memory is damaged.
    Crash,
    /// Parties that wait for each other.
    Deadlock,
    /// A pool whose workers all wait for its own queue.
    StarvedPool,
    /// A blocked party that others wait for.
    BlockedHolder,
    /// A resource at its limit.
    Exhausted,
    /// Requests that are not answered.
    Requests,
    /// A failed allocation.
    OutOfMemory,
    /// Memory that nothing refers to and nothing frees.
    Lost,
    /// Managed memory with its holder.
    Retained,
    /// Native memory with its managed owner, or its holder.
    Native,
    /// Threads that run.
    Running,
    /// Committed but free memory, and fragmentation.
    Sizing,
    /// Everything else.
    Note,
    /// What was judged, and what was not.
    Verdict,
}

/// The families in their order: name and reason.
pub const RANKING: &[(Family, &str, &str)] = &[
    (Family::Unread, "unread runtime", "The other findings lack its heap, its methods and its waits."),
    (Family::Crash, "crash, damaged memory", "The process has ended; whatever else is wrong comes after it."),
    (Family::Deadlock, "deadlock", "It never ends by itself."),
    (Family::StarvedPool, "starved pool", "It never ends by itself either, but a new worker would end it."),
    (Family::BlockedHolder, "blocked holder", "Others wait for one party; what that one waits for is the cause."),
    (Family::Exhausted, "exhausted resource", "A limit is reached: the next request for it fails or waits."),
    (Family::Requests, "requests in flight", "Users wait; a blocked holder explains them if there is one."),
    (Family::OutOfMemory, "out of memory", "An allocation failed; its finding contains the largest holder."),
    (Family::Lost, "lost memory", "It is a defect whatever its size: nothing can free it."),
    (
        Family::Retained,
        "retained memory",
        "Large, but a cache looks like a leak: it comes after what is wrong by itself.",
    ),
    (Family::Native, "native memory", "The same outside of the managed heap, with its owner."),
    (
        Family::Running,
        "running threads",
        "One core does not show whether they loop or work, so they come after what is held.",
    ),
    (Family::Sizing, "sizing", "Memory that is free: no fault, but the answer to why the process is so large."),
    (Family::Note, "notes", "Sums and counts, for the reader who looks for something else."),
    (Family::Verdict, "verdict", "What was judged, and what was not: only then is nothing wrong."),
];

/// Family of each finding, by its id, and the highest severity that it can have. Other ids are notes.
const FAMILIES: &[(&str, Family, Severity)] = &[
    ("runtime-unread", Family::Unread, Severity::Info),
    ("crash", Family::Crash, Severity::Critical),
    ("stack-overflow", Family::Crash, Severity::Critical),
    ("deadlock", Family::Deadlock, Severity::Critical),
    ("async-circle", Family::Deadlock, Severity::Critical),
    ("starved-pool", Family::StarvedPool, Severity::Warning),
    ("lock-owner-ended", Family::BlockedHolder, Severity::Warning),
    ("blocked-holder", Family::BlockedHolder, Severity::Warning),
    ("lock-waiters", Family::BlockedHolder, Severity::Warning),
    ("finalizer-queue", Family::BlockedHolder, Severity::Warning),
    ("event-loop", Family::BlockedHolder, Severity::Info),
    ("alike-tasks", Family::BlockedHolder, Severity::Warning),
    ("memory-limit", Family::Exhausted, Severity::Warning),
    ("code-cache", Family::Exhausted, Severity::Warning),
    ("metaspace", Family::Exhausted, Severity::Warning),
    ("event-buffers", Family::Exhausted, Severity::Warning),
    ("requests", Family::Requests, Severity::Warning),
    ("out-of-memory", Family::OutOfMemory, Severity::Critical),
    ("collector-off", Family::Lost, Severity::Warning),
    ("cached-stacks", Family::Lost, Severity::Warning),
    ("leaked", Family::Lost, Severity::Warning),
    ("native-lost", Family::Lost, Severity::Warning),
    ("collectible-assemblies", Family::Lost, Severity::Warning),
    ("retained", Family::Retained, Severity::Warning),
    ("thread-locals", Family::Retained, Severity::Warning),
    ("class-loaders", Family::Retained, Severity::Warning),
    ("unreachable", Family::Retained, Severity::Info),
    ("caches", Family::Retained, Severity::Info),
    ("containers", Family::Retained, Severity::Info),
    ("exceptions", Family::Retained, Severity::Info),
    ("timers", Family::Retained, Severity::Warning),
    ("listeners", Family::Retained, Severity::Warning),
    ("async-chains", Family::Retained, Severity::Warning),
    ("native-owner", Family::Native, Severity::Info),
    ("malloc-equal-blocks", Family::Native, Severity::Info),
    ("malloc-large-block", Family::Native, Severity::Info),
    ("anonymous-blocks", Family::Native, Severity::Info),
    ("native-buffers", Family::Native, Severity::Info),
    ("native-holder", Family::Native, Severity::Info),
    ("heap-sizing", Family::Sizing, Severity::Info),
    ("heap-fragmentation", Family::Sizing, Severity::Info),
    ("small-blocks", Family::Sizing, Severity::Info),
    ("empty-collections", Family::Sizing, Severity::Info),
    ("malloc-mostly-free", Family::Sizing, Severity::Info),
    ("running", Family::Running, Severity::Info),
    // The core is incomplete, so other findings may be incomplete too.
    ("truncated", Family::Note, Severity::Warning),
    ("no-problem", Family::Verdict, Severity::Info),
    ("not-judged", Family::Verdict, Severity::Info),
];

/// Findings on mechanisms. They explain memory better than its holder does.
pub(crate) const MECHANISMS: [&str; 3] = ["timers", "listeners", "async-chains"];

/// Minimum size of one holder without a bound for a warning: as a share of the live bytes in percent, and in bytes.
pub(crate) const HOLDER_SHARE: u64 = 30;
pub(crate) const HOLDER_BYTES: u64 = 16 << 20;

/// Returns the severity of one holder without a bound. `live`: live bytes of the managed heap.
pub(crate) fn of_holder(bytes: u64, live: u64) -> Severity {
    let large = bytes >= HOLDER_BYTES && bytes.saturating_mul(100) >= live.saturating_mul(HOLDER_SHARE);
    if large { Severity::Warning } else { Severity::Info }
}

/// Returns the family of a finding, by its id.
pub(crate) fn family(id: &str) -> Family {
    FAMILIES.iter().find(|(of, ..)| *of == id).map_or(Family::Note, |row| row.1)
}

/// Returns the highest severity of a finding, by its id. A note only reports a size, which is no fault.
fn cap(id: &str) -> Severity {
    FAMILIES.iter().find(|(of, ..)| *of == id).map_or(Severity::Info, |row| row.2)
}

/// Applies the rule of severity to all findings.
pub(crate) fn judge(findings: &mut [Finding]) {
    for finding in findings {
        finding.severity = finding.severity.min(cap(finding.id));
    }
}

/// Share of all bytes below which a finding on memory is a note. A finding without a share is a note too.
const SMALL: f64 = 0.05;

fn is_small(f: &Finding) -> bool {
    f.severity == Severity::Info && f.share.is_none_or(|share| share < SMALL)
}

/// Blocks described by their size alone.
const NAMELESS: [&str; 3] = ["malloc-equal-blocks", "malloc-large-block", "anonymous-blocks"];

/// Returns the bytes up to which findings on nameless blocks rank after findings on native memory with an owner. This
/// is twice the largest of the latter: such blocks are mostly the same memory.
fn shadowed(findings: &[Finding]) -> u64 {
    let named = findings.iter().filter(|f| family(f.id) == Family::Native && !NAMELESS.contains(&f.id));
    named.filter(|f| f.id != "native-buffers").filter_map(|f| f.bytes).max().unwrap_or(0).saturating_mul(2)
}

/// Returns the bytes up to which holders rank after mechanisms. This is twice what the largest mechanism retains: such
/// a holder has mostly the same memory.
fn explained(findings: &[Finding]) -> u64 {
    let of = findings.iter().filter(|f| MECHANISMS.contains(&f.id)).filter_map(|f| f.bytes).max();
    of.unwrap_or(0).saturating_mul(2)
}

/// Sorts by severity, then family, then bytes. `weight`: the bytes of a finding. `last`: findings on which a user has
/// little influence, last among notes. Equal findings keep their order.
pub(crate) fn sort(findings: &mut [Finding], weight: impl Fn(&Finding) -> u64, last: impl Fn(&Finding) -> bool) {
    let shadowed = shadowed(findings);
    let explained = explained(findings);
    findings.sort_by_key(|f| {
        // A resource that is not exhausted is only a note.
        let family = match family(f.id) {
            Family::Exhausted if f.severity == Severity::Info => Family::Note,
            // Calls that never end are a fault, however little memory they retain.
            Family::Retained if f.id == "async-chains" => Family::Retained,
            Family::Lost | Family::Retained | Family::Native | Family::Sizing if is_small(f) => Family::Note,
            family => family,
        };
        let late = family == Family::Note && last(f)
            || family == Family::Native && NAMELESS.contains(&f.id) && f.bytes.unwrap_or(0) <= shadowed;
        let explained = f.id == "retained" && f.bytes.unwrap_or(0) <= explained;
        (Reverse(f.severity), family, late, explained, Reverse(weight(f)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &'static str, severity: Severity, bytes: u64) -> Finding {
        Finding::new(id, severity, "", "").about(bytes)
    }

    #[test]
    fn ranks_are_the_order_of_the_table() {
        assert!(RANKING.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let known = |family: Family| RANKING.iter().any(|row| row.0 == family);
        assert!(FAMILIES.iter().all(|row| known(row.1)));
    }

    #[test]
    fn what_stopped_the_process_comes_before_memory_and_size_is_no_fault() {
        let mut all = vec![
            of("malloc", Severity::Warning, 1 << 30),
            of("no-problem", Severity::Info, 0),
            of("retained", Severity::Warning, 1 << 29),
            of("blocked-holder", Severity::Warning, 0),
            Finding { share: Some(0.5), ..of("heap-sizing", Severity::Info, 1) },
            of("cached-stacks", Severity::Info, 2),
            of("deadlock", Severity::Critical, 0),
            of("images", Severity::Info, 1 << 31),
        ];
        judge(&mut all);
        sort(&mut all, |f| f.bytes.unwrap_or(0), |f| f.id == "images");
        let ids: Vec<&str> = all.iter().map(|f| f.id).collect();
        assert_eq!(
            ids,
            [
                "deadlock",
                "blocked-holder",
                "retained",
                "heap-sizing",
                "malloc",
                "cached-stacks",
                "images",
                "no-problem"
            ]
        );
        assert_eq!(all[4].severity, Severity::Info);
    }

    #[test]
    fn native_memory_with_an_owner_comes_before_the_same_blocks_without() {
        let with = |id, bytes| Finding { share: Some(0.5), ..of(id, Severity::Info, bytes) };
        let ids = |mut all: Vec<Finding>| {
            sort(&mut all, |f| f.bytes.unwrap_or(0), |_| false);
            all.iter().map(|f| f.id).collect::<Vec<_>>()
        };
        let all = vec![with("malloc-equal-blocks", 80), with("native-owner", 50)];
        assert_eq!(ids(all), ["native-owner", "malloc-equal-blocks"]);
        // Most of these blocks are other memory than the owner's.
        let all = vec![with("native-owner", 50), with("malloc-equal-blocks", 101)];
        assert_eq!(ids(all), ["malloc-equal-blocks", "native-owner"]);
    }

    #[test]
    fn a_holder_is_a_warning_from_a_third_and_sixteen_mebibytes() {
        assert_eq!(of_holder(16 << 20, 50 << 20), Severity::Warning);
        assert_eq!(of_holder((16 << 20) - 1, 16 << 20), Severity::Info);
        assert_eq!(of_holder(290 << 20, 1000 << 20), Severity::Info);
        assert_eq!(of_holder(u64::MAX, u64::MAX), Severity::Warning);
    }
}
