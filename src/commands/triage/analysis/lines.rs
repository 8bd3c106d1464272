//! Findings that need only the map: one sentence for each subject.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::contents::module;
use crate::analysis::no_runtime::unread_runtimes;
use crate::commands::triage::analysis::tally::{Share, Subject, Tally, perms};
use crate::commands::triage::analysis::{biggest, counted, plain};
use crate::map::kind_facts::Contents;
use crate::map::{Confidence, Kind, Owner, Region};
use crate::native::foreign::HEAP_OF;
use crate::native::malloc::ExtentHeap;
use crate::report::{Finding, Severity, UnreadRow};
use crate::session::Session;
use crate::sums::SaturatingAdd;
use crate::units::{count, human, round};

/// Maximum number of files named.
const FILES: usize = 3;

/// Maximum number of heaps named, and maximum number of different texts of evidence.
const HEAPS: usize = 5;
const EVIDENCE: usize = 3;

/// Findings about the core itself, such as missing memory.
pub(super) fn state_of_core(session: &Session<'_>) -> Vec<Finding> {
    let truncated = session.process.facts().truncation.map(|t| {
        let text = format!("The core file is truncated: {} of memory is missing at its end.", human(t.missing));
        let evidence = format!("the headers require {} bytes, the file has {} bytes", t.expected, t.actual);
        Finding::new("truncated", Severity::Warning, text, evidence).known(Confidence::Exact).more("info")
    });
    truncated.into_iter().chain(unread_runtimes(session).iter().map(of_unread)).collect()
}

/// Returns the finding on a runtime that could not be read.
fn of_unread(unread: &UnreadRow) -> Finding {
    let help = unread.file.as_ref().map_or_else(String::new, |file| {
        format!(" `--symbols DIR` with the folder of {file} (the same build) may help.")
    });
    let text = format!(
        "The {} runtime could not be read: its heap, the methods of its threads and what they wait for are in no \
         finding.{help}",
        unread.name
    );
    Finding::new("runtime-unread", Severity::Info, text, unread.why.clone()).known(Confidence::Exact).more("info")
}

/// Returns findings on subjects that the map describes completely. Malloc, stacks, managed heaps and anonymous memory
/// have modules of their own. `deep`: whether blocks of other allocators are counted.
pub(super) fn subjects(session: &Session<'_>, tally: &Tally, deep: bool) -> Vec<Finding> {
    tally.shares.iter().filter_map(|(subject, share)| sentence(session, tally, subject, share, deep)).collect()
}

fn sentence(session: &Session<'_>, tally: &Tally, subject: &Subject, share: &Share, deep: bool) -> Option<Finding> {
    let regions = || share.regions.iter().filter_map(|&i| session.map().regions.get(i));
    let pieces = counted(share.regions.len() as u64, "region", "regions");
    let used = share.used;
    Some(match subject {
        Subject::Malloc | Subject::Stacks | Subject::ManagedHeap | Subject::Anonymous | Subject::SecondViews => {
            return None;
        }
        _ if used == 0 && *subject != Subject::Reserved => return None,
        Subject::Images => {
            let files = by_file(session, tally, share);
            let text = format!("Program files (code, constants, data): {}.", biggest(files, FILES));
            plain("images", text, "ELF and PE headers in memory", used)
                .known(Confidence::Exact)
                .more("regions --kind Image")
        }
        Subject::Files => {
            let files = by_file(session, tally, share);
            let title = match regions().all(|region| perms(session, region).is_some()) {
                true => "Writable mapped files",
                false => "Mapped files",
            };
            let text = format!("{title}: {}.", biggest(files, FILES));
            plain("mapped-files", text, "NT_FILE", used).known(Confidence::Exact).more("regions --kind MappedFile")
        }
        Subject::FilePages => {
            let files = by_file(session, tally, share);
            let text = format!("Read-only mapped files: {}.", biggest(files, FILES));
            plain("file-pages", text, "NT_FILE and the mappings' permissions", used)
                .known(Confidence::Exact)
                .more("regions --kind MappedFile")
        }
        Subject::Shared => {
            let files = by_file(session, tally, share);
            let mut text = format!("Shared memory and memfd ({pieces}): {}.", biggest(files, FILES));
            let twice = undecided(session, tally, share);
            let mut confidence = if tally.guessed_views { Confidence::Heuristic } else { Confidence::Exact };
            if twice > 0 {
                text.push_str(&format!(
                    " Up to {} of it may be mapped twice and counted twice: several mappings have the same name, and their \
                     contents don't show whether they are the same pages.",
                    round(twice)
                ));
                confidence = Confidence::Heuristic;
            }
            plain("shared-memory", text, "names of mappings", used)
                .known(confidence)
                .more("regions --kind SharedMemory")
        }
        Subject::RuntimeData => {
            let text = format!(
                "The managed runtime's internal structures and JIT code: {}.",
                biggest(by_kind(tally, regions(), share), FILES)
            );
            // Loader heaps have a list of their own. For other structures, only the map has sizes.
            let largest = regions().zip(&share.regions).max_by_key(|(_, i)| tally.used.get(**i).copied());
            let (evidence, more) = match largest.map(|(region, _)| region.kind) {
                Some(kind) if kind.facts().contents == Contents::Structures => {
                    ("the runtime's internal structures", format!("regions --kind {kind}"))
                }
                _ => ("the runtime's lists of loader heaps and code", "heap --loader".to_owned()),
            };
            plain("runtime", text, evidence, used).known(Confidence::Exact).more(more)
        }
        Subject::Recognised(kind, owner) => {
            let confidence = regions().map(|r| r.confidence).min().unwrap_or(Confidence::Heuristic);
            let heaps = if deep { session.malloc().others(session.process) } else { &[] };
            // A process may have several copies of an allocator.
            let walked: Vec<_> = heaps.iter().filter(|heap| *heap.name.name() == **owner).collect();
            let unread = !deep && session.malloc().unread.iter().any(|heap| *heap.name.name() == **owner);
            let what = if !walked.is_empty() {
                in_use(&walked)
            } else if unread {
                "`coremap malloc` shows how much of it is in use.".to_owned()
            } else {
                what(*kind).to_owned()
            };
            // Show the used part, because a runtime reserves more than it writes.
            let amount = format!("{} {}", round(used), tally.measure.word());
            let more =
                if !walked.is_empty() || unread { "malloc".to_owned() } else { format!("regions --kind {kind}") };
            let heaps = by_heap(session, tally, share);
            let heaps = if heaps.len() > 1 { format!(" ({})", biggest(heaps, HEAPS)) } else { String::new() };
            let text = format!("{}: {amount} in {pieces}{heaps}. {what}", title(*kind, owner));
            let text = text.trim_end().to_owned();
            let evidence = evidence(session, regions());
            plain(id(*kind), text, &evidence, used).known(confidence).more(more)
        }
        Subject::System => {
            let text = "Kernel pages mapped into the process (vdso, vvar).".to_owned();
            plain("system", text, "auxiliary vector", used).known(Confidence::Exact)
        }
        Subject::Reserved => {
            let text = format!(
                "Reserved: {} of address space in {pieces}, inaccessible or not committed{}.",
                round(share.size),
                match (used, tally.measure.is_resident()) {
                    (0, true) => ", not resident. It does not count as memory use".to_owned(),
                    (0, false) => ", never written. It does not count as memory use".to_owned(),
                    (_, true) => format!("; {} are {}", round(used), tally.measure.word()),
                    (_, false) => format!(
                        ". {} of it contain data, written before access was removed; only they count as memory use",
                        round(used)
                    ),
                }
            );
            let finding = Finding::new(
                "reserved",
                Severity::Info,
                text,
                "no access permission, or beyond a heap's committed memory",
            );
            // A process may have no memory of this kind.
            let largest =
                regions().max_by_key(|region| region.range.len()).map_or(Kind::NoAccess, |region| region.kind);
            finding.about(used).known(Confidence::Exact).more(format!("regions --kind {largest}"))
        }
    })
}

/// Returns the sizes of a recognised owner's heaps, such as V8's isolates. Empty if there is only one.
fn by_heap(session: &Session<'_>, tally: &Tally, share: &Share) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for &i in &share.regions {
        let Some(region) = session.map().regions.get(i) else { continue };
        if let Some((_, heap)) = region.detail.split_once(HEAP_OF) {
            sums.entry(heap).or_default().add_saturating(tally.used.get(i).copied().unwrap_or(0));
        }
    }
    sums.into_iter().map(|(name, bytes)| (format!("isolate {name}"), bytes)).collect()
}

/// Lists the different texts of evidence of regions, if they are short.
fn evidence<'r>(session: &Session<'_>, regions: impl Iterator<Item = &'r Region>) -> String {
    let claims = &session.map().claims;
    let texts = regions.filter_map(|region| claims.get(region.claim? as usize)).map(|claim| &*claim.evidence);
    let mut texts: Vec<&str> = texts.collect();
    // The evidence of the first region comes first.
    let mut seen = BTreeSet::new();
    texts.retain(|text| seen.insert(*text));
    let more = texts.len().saturating_sub(EVIDENCE);
    texts.truncate(EVIDENCE);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    texts.join("; ") + &more
}

/// Returns an upper bound on the bytes of shared memory that may be second views.
fn undecided(session: &Session<'_>, tally: &Tally, share: &Share) -> u64 {
    let views = session.undecided_views();
    let bytes = |i: &usize| {
        let range = session.map().regions.get(*i)?.range;
        let first = views.partition_point(|view| view.end <= range.start);
        let parts = views.get(first..)?.iter().map_while(|view| view.intersect(&range));
        let len = parts.map(|part| part.len()).fold(0, u64::saturating_add);
        Some(len.min(*tally.used.get(*i)?))
    };
    share.regions.iter().filter_map(bytes).fold(0, u64::saturating_add)
}

/// Remark on a size that is larger than the bytes before it, which are the written ones.
pub(super) fn unwritten(size: u64, written: u64) -> &'static str {
    if size > written { " (written or not)" } else { "" }
}

/// Describes what the heaps of one allocator contain, in the figures of `malloc`.
fn in_use(heaps: &[&ExtentHeap]) -> String {
    let (mut used, mut blocks, mut free, mut extents, mut unknown) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    for heap in heaps {
        let (given, idle, _) = heap.sums();
        used = used.saturating_add(given.bytes);
        blocks = blocks.saturating_add(given.count);
        free = free.saturating_add(idle.bytes);
        extents = extents.saturating_add(heap.free_extents());
        unknown = unknown.saturating_add(heap.unknown);
    }
    let more = [(extents, "in free extents"), (unknown, "unknown")].into_iter().filter(|(bytes, _)| *bytes > 0);
    let more: String = more.map(|(bytes, what)| format!(", {} {what}", round(bytes))).collect();
    format!("{} used in {}, {} free{more}.", round(used), count(blocks, "block"), round(free))
}

/// Finding ids of recognised owners; these never change.
fn id(kind: Kind) -> &'static str {
    if kind == Kind::Allocator {
        "allocator"
    } else if kind == Kind::RuntimeHeap {
        "runtime-heap"
    } else {
        "recognised"
    }
}

/// Returns the owner's name, and what the memory is.
fn title(kind: Kind, owner: &str) -> String {
    if kind == Kind::Tls {
        format!("Thread-local storage of the {owner}")
    } else if kind == Kind::SanitizerShadow {
        format!("A sanitizer's shadow memory ({owner})")
    } else if kind == Kind::LibraryBuffer {
        format!("Buffers of a library ({owner})")
    } else {
        owner.to_owned()
    }
}

/// Explains the limits of a finding on an owner that is only recognised.
fn what(kind: Kind) -> &'static str {
    if kind == Kind::Allocator {
        "Not the C library's allocator. Its blocks are not walked: the figure includes free blocks."
    } else if kind == Kind::RuntimeHeap {
        "This runtime's heap is recognised but not walked: the figure includes dead objects."
    } else {
        ""
    }
}

fn by_file(session: &Session<'_>, tally: &Tally, share: &Share) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for &i in &share.regions {
        let Some(region) = session.map().regions.get(i) else { continue };
        // An unpacked assembly is in memory that names no file, or another one.
        let owner = match region.owner {
            Owner::Module(index) => session.process.modules.get(index as usize).map(|module| module.name()),
            _ => None,
        };
        let name = owner.filter(|name| !name.is_empty()).unwrap_or_else(|| module(region));
        sums.entry(name).or_default().add_saturating(tally.used.get(i).copied().unwrap_or(0));
    }
    sums.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

fn by_kind<'r>(tally: &Tally, regions: impl Iterator<Item = &'r Region>, share: &Share) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<Kind, u64> = BTreeMap::new();
    for (region, i) in regions.zip(&share.regions) {
        sums.entry(region.kind).or_default().add_saturating(tally.used.get(*i).copied().unwrap_or(0));
    }
    sums.into_iter().map(|(kind, bytes)| (kind.to_string(), bytes)).collect()
}
