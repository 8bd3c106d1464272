//! HotSpot's claims for the map. Each file has one kind of memory: the Java heap, class metadata, compiled code, the
//! collector's bookkeeping, and libjvm's other mappings.
//!
//! A claim is exact if a structure in the VM's tables has its bounds. It is derived if the bounds follow by arithmetic,
//! or by the addresses of structures. It is a guess if only libjvm's own data points to it.

mod code;
mod collector;
mod heap;
mod metadata;
mod own;

use crate::addr::{Addr, AddrRange, union};
use crate::map::{Base, BaseEntry, Claim, Claims, Confidence, Kind, Owner};
use crate::memory::Memory;
use crate::phase::Phase;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::vm::Vm;

pub(super) fn claim(hotspot: &HotSpot<'_>, claims: &mut Claims) {
    let process = hotspot.vm().process;
    let mut sink =
        ClaimSink { base: process.base(), owner: Owner::Module(hotspot.vm().module as u32), claims, taken: Vec::new() };
    heap::claim(hotspot, &mut sink);
    let phase = process.enter(Phase::LoaderHeaps);
    metadata::claim(hotspot, &mut sink);
    drop(phase);
    let phase = process.enter(Phase::CodeHeaps);
    code::claim(hotspot, &mut sink);
    drop(phase);
    let _phase = process.enter(Phase::GcHeap);
    collector::claim(hotspot, &mut sink);
    own::claim(hotspot, &mut sink);
}

/// Collects the claims of one VM.
struct ClaimSink<'a> {
    base: &'a Base,
    owner: Owner,
    claims: &'a mut Claims,
    taken: Vec<AddrRange>,
}

/// Confidence and evidence of a claim.
#[derive(Clone, Copy)]
struct ClaimBasis<'e> {
    confidence: Confidence,
    evidence: &'e str,
}

impl<'e> ClaimBasis<'e> {
    fn exact(evidence: &'e str) -> ClaimBasis<'e> {
        ClaimBasis { confidence: Confidence::Exact, evidence }
    }

    fn derived(evidence: &'e str) -> ClaimBasis<'e> {
        ClaimBasis { confidence: Confidence::Derived, evidence }
    }

    fn guess(evidence: &'e str) -> ClaimBasis<'e> {
        ClaimBasis { confidence: Confidence::Heuristic, evidence }
    }
}

/// Whether the process could use the memory. gdb writes memory without access as read-only.
fn is_committed(entry: &BaseEntry) -> bool {
    entry.file.is_some() || entry.perms.is_none_or(|p| p.write || p.exec)
}

impl ClaimSink<'_> {
    /// Adds a claim on a range, if the core maps any of it. A damaged structure may name half of the address space.
    fn add(&mut self, range: AddrRange, kind: Kind, detail: &str, basis: ClaimBasis<'_>) {
        if range.is_empty() || self.base.entries.overlapping(range).next().is_none() {
            return;
        }
        self.taken.push(range);
        self.claims.add(Claim {
            range,
            kind,
            confidence: basis.confidence,
            owner: self.owner,
            detail: detail.into(),
            evidence: basis.evidence.into(),
        });
    }

    /// Adds claims on a range, cut where access changes. Usable memory gets `kind`, the rest `reserve`.
    fn add_by_access(
        &mut self,
        range: AddrRange,
        (kind, detail): (Kind, &str),
        (reserve, reserved): (Kind, &str),
        basis: ClaimBasis<'_>,
    ) {
        let base = self.base;
        for (piece, committed) in base.split(range, is_committed) {
            match committed {
                true => self.add(piece, kind, detail, basis),
                false => self.add(piece, reserve, reserved, basis),
            }
        }
    }

    /// Returns what was claimed so far, by address, disjoint.
    fn taken(&self) -> Vec<AddrRange> {
        union(self.taken.clone())
    }
}

/// Whether `range` overlaps one of `taken`, which are disjoint and ordered by address.
fn is_taken(taken: &[AddrRange], range: AddrRange) -> bool {
    let first = taken.partition_point(|t| t.end <= range.start);
    taken.get(first).is_some_and(|t| t.start < range.end)
}

/// Returns the words of the object at `at` with their addresses, as far as the first `bytes` bytes are in the core.
fn words(vm: &Vm<'_>, at: Addr, bytes: u64) -> Vec<(Addr, u64)> {
    let have = vm.memory.readable(at, bytes).min(bytes) as usize;
    // The words are only compared with addresses, and a scrubbed core keeps addresses anyway.
    let Ok(bytes) = vm.memory.look(at, have) else { return Vec::new() };
    let word = |(i, word): (usize, &[u8; 8])| (at.saturating_add(8 * i as u64), u64::from_le_bytes(*word));
    bytes.as_chunks::<8>().0.iter().enumerate().map(word).collect()
}
