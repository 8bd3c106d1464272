//! What the VM's structures say of memory, as claims on it. A file for each part: the Java heap, what the VM keeps of
//! classes, compiled code, the collector's notes and what else libjvm mapped for itself.
//!
//! Exact is what a structure of the VM's tables bounds. What follows from one by arithmetic, or by where structures
//! were found to lie, is derived; what only libjvm's own data leads to is a guess, and says so.

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

/// Claim what is the VM's own.
pub(super) fn claim(hotspot: &HotSpot<'_>, claims: &mut Claims) {
    let process = hotspot.vm().process;
    let mut sink =
        Sink { base: process.base(), owner: Owner::Module(hotspot.vm().module as u32), claims, taken: Vec::new() };
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

/// Where claims of one VM go.
struct Sink<'a> {
    base: &'a Base,
    owner: Owner,
    claims: &'a mut Claims,
    /// What was claimed so far.
    taken: Vec<AddrRange>,
}

/// How a claim is known.
#[derive(Clone, Copy)]
struct Known<'e> {
    confidence: Confidence,
    evidence: &'e str,
}

impl<'e> Known<'e> {
    fn exact(evidence: &'e str) -> Known<'e> {
        Known { confidence: Confidence::Exact, evidence }
    }

    fn derived(evidence: &'e str) -> Known<'e> {
        Known { confidence: Confidence::Derived, evidence }
    }

    fn guess(evidence: &'e str) -> Known<'e> {
        Known { confidence: Confidence::Heuristic, evidence }
    }
}

/// Whether the process could use the memory: what gdb writes of memory without access reads as if it could be read.
fn is_committed(entry: &BaseEntry) -> bool {
    entry.file.is_some() || entry.perms.is_none_or(|p| p.write || p.exec)
}

impl Sink<'_> {
    /// A claim on a range, as far as the core maps any of it: a structure that lies may name half the address space.
    fn add(&mut self, range: AddrRange, kind: Kind, detail: &str, known: Known<'_>) {
        if range.is_empty() || self.base.entries.overlapping(range).next().is_none() {
            return;
        }
        self.taken.push(range);
        self.claims.add(Claim {
            range,
            kind,
            confidence: known.confidence,
            owner: self.owner,
            detail: detail.into(),
            evidence: known.evidence.into(),
        });
    }

    /// The same cut where access ends: what the process could use is of `kind`, the rest is set aside as `reserve`.
    fn add_by_access(
        &mut self,
        range: AddrRange,
        (kind, detail): (Kind, &str),
        (reserve, reserved): (Kind, &str),
        known: Known<'_>,
    ) {
        let base = self.base;
        for (piece, committed) in pieces(base, range) {
            match committed {
                true => self.add(piece, kind, detail, known),
                false => self.add(piece, reserve, reserved, known),
            }
        }
    }

    /// What was claimed so far: by address, disjoint.
    fn taken(&self) -> Vec<AddrRange> {
        union(self.taken.clone())
    }
}

/// What the core maps of `range`, joined where access is alike.
fn pieces(base: &Base, range: AddrRange) -> Vec<(AddrRange, bool)> {
    let mut out: Vec<(AddrRange, bool)> = Vec::new();
    for entry in base.entries.overlapping(range) {
        let (Some(part), committed) = (entry.range.intersect(&range), is_committed(entry)) else { continue };
        match out.last_mut() {
            Some((last, alike)) if *alike == committed && last.end == part.start => last.end = part.end,
            _ => out.push((part, committed)),
        }
    }
    out
}

/// Whether some of `range` is in one of `taken`, which are disjoint and by address.
fn is_taken(taken: &[AddrRange], range: AddrRange) -> bool {
    let first = taken.partition_point(|t| t.end <= range.start);
    taken.get(first).is_some_and(|t| t.start < range.end)
}

/// Words of the object at `at`, with their addresses; as many as the core holds of the first `bytes`.
fn words(vm: &Vm<'_>, at: Addr, bytes: u64) -> Vec<(Addr, u64)> {
    let have = vm.memory.readable(at, bytes).min(bytes) as usize;
    // They are compared with addresses, and what leads somewhere stays in a core that is scrubbed.
    let Ok(bytes) = vm.memory.look(at, have) else { return Vec::new() };
    let word = |(i, word): (usize, &[u8; 8])| (at.saturating_add(8 * i as u64), u64::from_le_bytes(*word));
    bytes.as_chunks::<8>().0.iter().enumerate().map(word).collect()
}
