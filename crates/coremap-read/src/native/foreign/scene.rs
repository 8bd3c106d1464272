//! The input of recognisers: unclaimed memory, and the images with their data.

use byteorder::{ByteOrder, LittleEndian};

use super::findings::Findings;
use crate::addr::{Addr, AddrRange, union};
use crate::image::elf::ElfImage;
use crate::image::{ModuleKind, symbols};
use crate::limits;
use crate::map::kind_facts::{Contents, Grouping};
use crate::map::{Base, Claim, Claims, Confidence, Kind, Owner};
use crate::memory::Memory;
use crate::memory::window::data_parts;
use crate::process::Process;
use crate::range_map::RangeMap;
use crate::targets::{Arch, Target};

/// Bytes of data per read.
const BLOCK: u64 = 1 << 20;

/// A program or library.
pub(super) struct Image<'a> {
    /// File name in lower case.
    pub(super) name: String,
    pub(super) owner: Owner,
    /// The parts of its writable segments that are in the core.
    pub(super) writable: Vec<AddrRange>,
    /// The image's ELF headers. `None` in tests.
    pub(super) elf: Option<&'a ElfImage>,
    pub(super) is_program: bool,
}

impl Image<'_> {
    pub(super) fn data_len(&self) -> u64 {
        self.writable.iter().map(AddrRange::len).fold(0, u64::saturating_add)
    }

    /// Whether it exports one of these symbols, as far as its symbol tables are in the core.
    pub(super) fn exports(&self, memory: &dyn Memory, names: &[&str]) -> bool {
        self.elf.is_some_and(|elf| names.iter().any(|name| symbols::find(memory, elf, name).is_some()))
    }
}

/// A word of an image's data that points into unclaimed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) at: Addr,
    pub(super) to: Addr,
}

/// The words of an image's data that matter to a search for tables of pointers. Made in one pass over the data.
#[derive(Default)]
pub(super) struct DataWords {
    /// Pointers into unclaimed memory, by address.
    pub(super) pointers: Vec<Pointer>,
    /// Blocks with nonzero words: the address of each, and how many nonzero words precede the block.
    blocks: Vec<(Addr, u64)>,
    /// Number of nonzero words.
    nonzero: u64,
}

impl DataWords {
    /// Bytes of a block.
    const BLOCK: u64 = 4096;

    fn add(&mut self, at: Addr) {
        let block = at.align_down(DataWords::BLOCK);
        if self.blocks.last().is_none_or(|(last, _)| *last != block) {
            self.blocks.push((block, self.nonzero));
        }
        self.nonzero = self.nonzero.saturating_add(1);
    }

    /// Lower bound of the number of nonzero words in `range`: those in its whole blocks.
    pub(super) fn min_nonzero(&self, range: AddrRange) -> u64 {
        let before = |at: Addr| {
            let block = self.blocks.partition_point(|(block, _)| *block < at);
            self.blocks.get(block).map_or(self.nonzero, |(_, before)| *before)
        };
        before(range.end.align_down(DataWords::BLOCK)).saturating_sub(before(range.start.align_up(DataWords::BLOCK)))
    }

    /// The pointers at addresses in `range`.
    pub(super) fn pointers_in(&self, range: AddrRange) -> &[Pointer] {
        let from = self.pointers.partition_point(|pointer| pointer.at < range.start);
        let to = self.pointers.partition_point(|pointer| pointer.at < range.end);
        self.pointers.get(from..to).unwrap_or_default()
    }
}

/// The memory and images that recognisers can see.
pub(super) struct Scene<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) arch: Arch,
    pub(super) images: Vec<Image<'a>>,
    /// Thread pointer of the main thread.
    pub(super) thread_pointer: Option<Addr>,
    pub(super) thread_pointers: Vec<Addr>,
    /// Anonymous mappings that are writable and executable.
    pub(super) executable: Vec<AddrRange>,
    /// `None` in tests.
    target: Option<&'a dyn Target>,
    /// Anonymous mappings without access.
    inaccessible: RangeMap<AddrRange>,
    /// See [`unclaimed`].
    unclaimed: RangeMap<AddrRange>,
}

/// Whether a claim hides its memory from the recognisers.
///
/// A runtime's guess does not: an allocator that is preloaded into it may be proven there. A guessed stack does, since
/// a program may allocate stacks from any allocator.
fn hides(claim: &Claim) -> bool {
    let facts = claim.kind.facts();
    let is_stack = facts.contents == Contents::Frames || facts.group == Grouping::Guard;
    let is_proven = claim.confidence > Confidence::Heuristic;
    (is_proven || is_stack) && claim.kind.specificity() > Kind::AnonRW.specificity()
}

/// Returns the writable anonymous memory that nobody claimed, with adjacent ranges joined.
pub(super) fn unclaimed(base: &Base, claims: &Claims) -> RangeMap<AddrRange> {
    let anonymous = base.entries.iter().filter(|e| e.file.is_none() && e.perms.is_some_and(|p| p.write));
    let taken = claims.iter().filter(|c| hides(c)).map(|c| c.range);
    without(&union(anonymous.map(|e| e.range).collect()), &union(taken.collect()))
}

impl<'a> Scene<'a> {
    /// Makes the scene of a process. `open` is the unclaimed memory.
    pub(super) fn over(process: &'a Process, base: &Base, unclaimed: RangeMap<AddrRange>) -> Scene<'a> {
        let memory: &dyn Memory = &process.memory;
        let is_code = |e: &&crate::map::BaseEntry| e.file.is_none() && e.perms.is_some_and(|p| p.write && p.exec);
        let executable = base.entries.iter().filter(is_code).map(|e| e.range).collect();
        let program = process.auxv(crate::targets::at::PHDR).map(Addr::new);
        let images = process.modules.iter().enumerate().filter_map(|(i, module)| {
            let ModuleKind::Elf(elf) = &module.kind else { return None };
            Some(Image {
                name: module.name().to_ascii_lowercase(),
                owner: Owner::Module(i as u32),
                writable: elf.writable_parts(memory),
                elf: Some(elf),
                is_program: program.is_some_and(|p| elf.range.contains(p)),
            })
        });
        let images = images.collect();
        let main = process.threads().iter().find(|t| Some(t.tid) == process.main_tid());
        let thread_pointer = main.and_then(|t| t.thread_pointer);
        let thread_pointers = process.threads().iter().filter_map(|t| t.thread_pointer).collect();
        let is_barred =
            |e: &&crate::map::BaseEntry| e.file.is_none() && e.perms.is_some_and(|p| !p.read && !p.write && !p.exec);
        let barred = base.entries.iter().filter(is_barred).map(|e| e.range).collect();
        let inaccessible = RangeMap::from_sorted(barred).unwrap_or_default();
        let (arch, target) = (process.arch(), Some(process.target()));
        Scene { memory, arch, images, thread_pointer, thread_pointers, executable, target, inaccessible, unclaimed }
    }

    #[cfg(test)]
    pub(super) fn new(memory: &'a dyn Memory, images: Vec<Image<'a>>, unclaimed: Vec<AddrRange>) -> Scene<'a> {
        let unclaimed = RangeMap::from_sorted(union(unclaimed)).unwrap_or_default();
        let (executable, thread_pointers) = (Vec::new(), Vec::new());
        let (inaccessible, thread_pointer) = (RangeMap::default(), None);
        let (arch, target) = (Arch::X86_64, None);
        Scene { memory, arch, images, thread_pointer, thread_pointers, executable, target, inaccessible, unclaimed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unclaimed.is_empty()
    }

    /// Returns the unclaimed memory, by address.
    pub(super) fn unclaimed(&self) -> &[AddrRange] {
        &self.unclaimed
    }

    pub(super) fn unclaimed_at(&self, addr: Addr) -> Option<AddrRange> {
        self.unclaimed.at(addr).copied()
    }

    /// Returns the anonymous mapping without access that ends at an address.
    pub(super) fn barred_below(&self, end: Addr) -> Option<AddrRange> {
        self.inaccessible.at(end.checked_sub(1)?).copied().filter(|barred| barred.end == end)
    }

    pub(super) fn unclaimed_within(&self, range: AddrRange) -> Vec<AddrRange> {
        self.unclaimed.overlapping(range).filter_map(|r| r.intersect(&range)).collect()
    }

    /// Returns the first multiple of `align` in each of the largest unclaimed ranges. They make a cheap check if no
    /// module's name is a hint.
    pub(super) fn starts(&self, align: u64) -> Vec<Addr> {
        let mut largest: Vec<AddrRange> = self.unclaimed.to_vec();
        largest.sort_by_key(|r| std::cmp::Reverse(r.len()));
        largest.truncate(limits::MAX_FOREIGN_STARTS);
        let starts = largest.into_iter().map(|r| (r, r.start.align_up(align)));
        starts.filter(|(r, at)| r.contains(*at)).map(|(_, at)| at).collect()
    }

    /// Returns an image whose name begins with one of `starts`. Earlier prefixes win.
    pub(super) fn named(&self, starts: &[&str]) -> Option<&Image<'a>> {
        starts.iter().find_map(|s| self.images.iter().find(|i| i.name.starts_with(s)))
    }

    /// Reads the words at an address. The read does not count as one of a structure ([`Scene::keep`]).
    pub(super) fn words<const N: usize>(&self, at: Addr) -> Option<[u64; N]> {
        let mut out = [0; N];
        let read = self.memory.look(at, N.checked_mul(8)?).ok()?;
        LittleEndian::read_u64_into(&read, &mut out);
        Some(out)
    }

    /// Visits the readable nonzero words of `range`, with their addresses.
    pub(super) fn each_word(&self, range: AddrRange, mut visit: impl FnMut(Addr, u64)) {
        // For a short range, finding out what is zero takes as long as reading it.
        let parts = if range.len() > BLOCK { self.data_parts(range) } else { vec![range] };
        for part in parts.into_iter().flat_map(|part| self.memory.readable_parts(part, BLOCK)) {
            let Ok(read) = self.memory.look(part.start, part.len() as usize) else { continue };
            for (i, word) in read.as_chunks::<8>().0.iter().enumerate() {
                let word = u64::from_le_bytes(*word);
                if word != 0 {
                    visit(part.start.saturating_add(8 * i as u64), word);
                }
            }
        }
    }

    /// Declares that the words at `at` are a proven structure. A scrubbed core keeps them, so that they are recognised
    /// there too. Addresses are kept anyway.
    pub(super) fn keep(&self, at: Addr, words: u64) {
        self.memory.keep(at, words.saturating_mul(8));
    }

    /// Returns the words of an image's data that point to a multiple of `align` in unclaimed memory.
    pub(super) fn pointers(&self, image: &Image<'_>, align: u64) -> Vec<Pointer> {
        self.data_words(image, align).pointers
    }

    /// Returns the words of an image's data, with the pointers to multiples of `align`.
    pub(super) fn data_words(&self, image: &Image<'_>, align: u64) -> DataWords {
        let mut out = DataWords::default();
        for part in union(image.writable.clone()) {
            self.each_word(part, |at, word| {
                out.add(at);
                let to = Addr::new(word);
                let room = out.pointers.len() < limits::MAX_FOREIGN_POINTERS;
                if to.is_aligned(align) && room && self.unclaimed_at(to).is_some() {
                    out.pointers.push(Pointer { at, to });
                }
            });
        }
        out
    }

    /// Returns the parts of `range` that may be nonzero.
    fn data_parts(&self, range: AddrRange) -> Vec<AddrRange> {
        let Some(target) = self.target else { return self.memory.readable_parts(range, u64::MAX) };
        data_parts(target, self.memory, range)
    }

    /// Visits the multiples of `align` in unclaimed memory that are in the core, until `visit` returns false. Skips
    /// those with only zeros up to the next multiple.
    pub(super) fn each_aligned(&self, align: u64, mut visit: impl FnMut(Addr) -> bool) {
        let mut left = limits::MAX_FOREIGN_PROBES;
        for open in self.unclaimed.iter() {
            let mut at = open.start.align_up(align);
            for data in self.data_parts(*open) {
                at = at.max(data.start.align_down(align));
                while at < data.end && left > 0 {
                    left -= 1;
                    if self.memory.readable(at, 1) > 0 && !visit(at) {
                        return;
                    }
                    at = at.saturating_add(align);
                }
            }
        }
    }

    /// Adds claims for the memory that a recogniser found, unless it is claimed already. Proven memory is no longer
    /// open.
    pub(super) fn settle(&mut self, found: Findings, claims: &mut Claims) {
        let list = found.into_list();
        let proven = list.iter().filter(|(_, l)| l.confidence > Confidence::Heuristic).map(|(r, _)| *r).collect();
        for (range, label) in &list {
            let (detail, evidence): (std::sync::Arc<str>, _) = (label.detail.as_str().into(), label.evidence.as_str());
            let evidence: std::sync::Arc<str> = evidence.into();
            // Nobody else claims guards, and they are not in unclaimed memory because nobody can write to them.
            let ranges = if label.kind == Kind::StackGuard { vec![*range] } else { self.unclaimed_within(*range) };
            for range in ranges {
                let (kind, confidence, owner) = (label.kind, label.confidence, label.owner);
                claims.add(Claim {
                    range,
                    kind,
                    confidence,
                    owner,
                    detail: detail.clone(),
                    evidence: evidence.clone(),
                });
            }
        }
        self.unclaimed = without(&self.unclaimed, &union(proven));
    }
}

/// Returns `ranges` without `taken`. Both are sorted and disjoint.
fn without(ranges: &[AddrRange], taken: &[AddrRange]) -> RangeMap<AddrRange> {
    let taken = RangeMap::from_sorted(taken.to_vec()).unwrap_or_default();
    let mut out = Vec::new();
    for r in ranges {
        let mut at = r.start;
        for t in taken.overlapping(*r) {
            out.push(AddrRange::new(at, t.start));
            at = at.max(t.end);
        }
        out.push(AddrRange::new(at, r.end));
    }
    out.retain(|r| !r.is_empty());
    RangeMap::from_sorted(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_of_runtimes_hide_nothing_and_guessed_stacks_do() {
        let claim = |kind, confidence| Claim {
            range: AddrRange::sized(Addr::new(0x1000), 0x1000),
            kind,
            confidence,
            owner: Owner::None,
            detail: "".into(),
            evidence: "".into(),
        };
        // A preloaded jemalloc's extent, which an object of the collector points to.
        assert!(!hides(&claim(Kind::GCBookkeeping, Confidence::Heuristic)));
        assert!(!hides(&claim(Kind::VmData, Confidence::Heuristic)));
        assert!(!hides(&claim(Kind::AnonRW, Confidence::Exact)));
        assert!(hides(&claim(Kind::GCBookkeeping, Confidence::Derived)));
        assert!(hides(&claim(Kind::Stack, Confidence::Heuristic)));
    }
}
