//! Slabs of GLib's slice allocator (glib/gslice.c up to 2.74): blocks of malloc that are cut into parts of one size.
//!
//! A slab has 2ⁿ bytes at a multiple of 2ⁿ. 48 bytes before its end is `SlabInfo {free parts, number of allocated
//! parts, next, previous}`. The slabs with one size of parts are a ring. `slab_stack[i]` points into the ring for parts
//! of 16 × (i + 1) bytes. The first part begins at an offset (the colour): a multiple of 16 bytes, less than the bytes
//! that the parts leave unused.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::analysis::block_graph::UNIT;
use crate::analysis::block_graph::edges::{Edges, Scan};
use crate::memory::Memory;

/// Minimum and maximum size of a slab in bytes.
const SMALLEST: u64 = 128;
const LARGEST: u64 = 8192;

/// Distance in bytes from a slab's structure to its end, and offsets of the structure's fields.
const INFO: u64 = 48;
const ALLOCATED: u64 = 8;
const NEXT: u64 = 16;
const PREVIOUS: u64 = 24;

/// GLib requests this many bytes less than a slab has. The second constant is the maximum number of bytes that malloc
/// leaves unused after it.
const PADDING: u64 = 16;
const REST: u64 = 24;

/// Alignment of parts.
const ALIGN: u64 = 16;

/// Usable size in bytes of the table of rings: one word for each part size, plus what malloc adds.
const STACK: std::ops::RangeInclusive<u32> = 504..=536;

/// Marks a part that is free.
const FREE: u32 = u32::MAX;

/// A slab.
struct Slab {
    /// Index of the slab's block.
    block: u32,
    start: u64,
    /// Size in bytes.
    len: u64,
    /// Size of a part in bytes. 0 if unknown.
    part: u64,
    /// Offset of the first part.
    first: u64,
    /// Index of each part in the graph, or [`FREE`].
    numbers: Vec<u32>,
}

impl Slab {
    fn info(&self) -> Addr {
        Addr::new(self.start.saturating_add(self.len).saturating_sub(INFO))
    }

    /// Returns the number of bytes that the parts leave unused.
    fn unused(&self) -> u64 {
        self.len.saturating_sub(INFO).checked_rem(self.part).unwrap_or(0)
    }

    /// Returns the part at an offset in the slab: its index, and the offset in it.
    fn part_at(&self, inside: u64) -> Option<(usize, u64)> {
        let from = inside.checked_sub(self.first)?;
        let index = usize::try_from(from.checked_div(self.part)?).ok()?;
        (index < self.numbers.len()).then_some((index, from.checked_rem(self.part)?))
    }

    /// Returns the used part at an offset in the slab: its index in the graph, and the offset in it.
    fn used_at(&self, inside: u64) -> Option<(u32, u64)> {
        let (index, offset) = self.part_at(inside)?;
        self.numbers.get(index).copied().filter(|number| *number != FREE).map(|number| (number, offset))
    }
}

/// All slabs of a process.
#[derive(Default)]
pub(super) struct Slabs {
    all: Vec<Slab>,
    by_block: HashMap<u32, usize>,
}

/// Tables of the graph's blocks. Parts are appended to them.
pub(super) struct Tables<'t> {
    pub(super) starts: &'t mut Vec<Addr>,
    pub(super) lens: &'t mut Vec<u32>,
    pub(super) sizes: &'t mut Vec<u32>,
}

impl Slabs {
    /// Finds the slabs, and turns their used parts into blocks of the graph. Words in slabs become words of parts, and
    /// pointers to slabs become pointers to parts. Each part also points at its slab, so whatever retains the parts
    /// also retains the rest of the slab.
    ///
    /// Linear in blocks and words.
    pub(super) fn split(memory: &dyn Memory, tables: &mut Tables<'_>, scans: &mut Vec<Scan>) -> Slabs {
        let mut out = Slabs::default();
        out.find(memory, tables);
        out.set_part_sizes(memory, tables);
        out.all.retain(|slab| slab.part > 0);
        if out.all.is_empty() {
            return Slabs::default();
        }
        out.by_block = (0..).zip(&out.all).map(|(index, slab)| (slab.block, index)).collect();
        out.set_colours(scans);
        out.number(memory, tables);
        out.divide(scans);
        out
    }

    fn find(&mut self, memory: &dyn Memory, tables: &Tables<'_>) {
        for (block, (start, usable)) in (0..).zip(tables.starts.iter().zip(tables.lens.iter())) {
            let usable = u64::from(*usable);
            let len = usable.saturating_sub(REST).next_power_of_two();
            let fits =
                (SMALLEST..=LARGEST).contains(&len) && usable.saturating_add(PADDING) >= len && start.is_aligned(len);
            if !fits {
                continue;
            }
            let slab = Slab { block, start: start.get(), len, part: 0, first: 0, numbers: Vec::new() };
            let info = slab.info();
            let at = |at: Addr, offset: u64| at.checked_add(offset).and_then(|at| memory.peek_u64(at).ok());
            let (Some(next), Some(previous)) = (at(info, NEXT), at(info, PREVIOUS)) else { continue };
            let leads_back = at(Addr::new(next), PREVIOUS) == Some(info.get()) && next > 0;
            if leads_back && at(Addr::new(previous), NEXT) == Some(info.get()) {
                self.all.push(slab);
            }
        }
    }

    /// Sets the sizes of parts, by the table of rings.
    fn set_part_sizes(&mut self, memory: &dyn Memory, tables: &Tables<'_>) {
        if self.all.is_empty() {
            return;
        }
        let by_info: HashMap<u64, usize> =
            self.all.iter().enumerate().map(|(index, slab)| (slab.info().get(), index)).collect();
        for (start, usable) in tables.starts.iter().zip(tables.lens.iter()).filter(|(_, len)| STACK.contains(len)) {
            let words =
                (0..u64::from(*usable) / 8).map(|i| start.checked_add(8 * i).and_then(|at| memory.peek_u64(at).ok()));
            let words: Vec<u64> = words.take(63).map_while(|word| word).collect();
            let rings = words.iter().filter(|word| by_info.contains_key(word)).count();
            if rings == 0 || words.iter().any(|word| *word != 0 && !by_info.contains_key(word)) {
                continue;
            }
            for (index, word) in (1_u64..).zip(words).filter(|(_, word)| *word != 0) {
                let mut at = word;
                while let Some(slab) = by_info.get(&at).and_then(|i| self.all.get_mut(*i)).filter(|slab| slab.part == 0)
                {
                    let part = index.saturating_mul(ALIGN);
                    // GLib cuts a slab into about eight parts or more.
                    if part.saturating_mul(4) > slab.len {
                        break;
                    }
                    slab.part = part;
                    let Some(next) = slab.info().checked_add(NEXT).and_then(|at| memory.peek_u64(at).ok()) else {
                        break;
                    };
                    at = next;
                }
            }
        }
    }

    /// Sets the offset of the first part: the one that agrees with most words that point into the slab.
    fn set_colours(&mut self, scans: &[Scan]) {
        let mut votes: HashMap<(usize, u64), u32> = HashMap::new();
        for (to, inside) in scans.iter().flat_map(Scan::targets) {
            let Some(&index) = self.by_block.get(&to) else { continue };
            let Some(slab) = self.all.get(index).filter(|slab| slab.unused() > ALIGN) else { continue };
            let inside = u64::from(inside);
            if let Some(colour) = inside.checked_rem(slab.part).filter(|colour| *colour < slab.unused())
                && inside.saturating_add(INFO) < slab.len
                && colour.is_multiple_of(ALIGN)
            {
                let count = votes.entry((index, colour)).or_default();
                *count = count.saturating_add(1);
            }
        }
        let mut best: HashMap<usize, (u32, u64)> = HashMap::new();
        for ((index, colour), count) in votes {
            let most = best.entry(index).or_default();
            // With equal counts, take the lower colour, so that the order does not matter.
            if count > most.0 || count == most.0 && colour < most.1 {
                *most = (count, colour);
            }
        }
        for (index, (_, colour)) in best {
            if let Some(slab) = self.all.get_mut(index) {
                slab.first = colour;
            }
        }
    }

    /// Numbers the parts in use, and adds them to the tables.
    fn number(&mut self, memory: &dyn Memory, tables: &mut Tables<'_>) {
        for slab in &mut self.all {
            let room = slab.len.saturating_sub(INFO).saturating_sub(slab.first);
            let count = usize::try_from(room.checked_div(slab.part).unwrap_or(0)).unwrap_or(0);
            slab.numbers = vec![0; count];
            let mut free: HashSet<usize> = HashSet::new();
            let word = |at: Addr| memory.peek_u64(at).ok();
            let mut at = word(slab.info()).unwrap_or(0);
            while let Some((index, 0)) = at.checked_sub(slab.start).and_then(|inside| slab.part_at(inside)) {
                if !free.insert(index) {
                    break;
                }
                at = word(Addr::new(at)).unwrap_or(0);
            }
            let allocated = slab.info().checked_add(ALLOCATED).and_then(word).map_or(0, |word| word & 0xffff_ffff);
            // The list is damaged, or was being changed.
            if allocated == 0 || allocated > count as u64 {
                free = (0..count).collect();
            }
            let part = u32::try_from(slab.part).unwrap_or(u32::MAX);
            let mut units = 0_u32;
            for (index, number) in slab.numbers.iter_mut().enumerate() {
                if free.contains(&index) {
                    *number = FREE;
                    continue;
                }
                *number = u32::try_from(tables.starts.len()).unwrap_or(FREE);
                let offset = slab.first.saturating_add(slab.part.saturating_mul(index as u64));
                tables.starts.push(Addr::new(slab.start.saturating_add(offset)));
                tables.lens.push(part);
                let of_part = part / UNIT as u32;
                tables.sizes.push(of_part);
                units = units.saturating_add(of_part);
            }
            if let Some(size) = tables.sizes.get_mut(slab.block as usize) {
                *size = size.saturating_sub(units);
            }
        }
    }

    /// Replaces slabs by their parts, in the words' own blocks and in their targets.
    fn divide(&self, scans: &mut Vec<Scan>) {
        let has_parts = |slab: &Slab| slab.numbers.iter().any(|number| *number != FREE);
        // The new target of a word. `None` if it points at a slab's own structure.
        let target = |to: u32, inside: u32| match self.by_block.get(&to).and_then(|index| self.all.get(*index)) {
            None => Some((to, inside)),
            Some(slab) => match slab.used_at(inside.into()) {
                Some((number, offset)) => Some((number, u32::try_from(offset).unwrap_or(u32::MAX))),
                None => (!has_parts(slab)).then_some((to, inside)),
            },
        };
        // Words in parts, by part.
        let mut of_parts: HashMap<u32, Vec<(u64, u32, u32)>> = HashMap::new();
        let mut block = 0_u32;
        for scan in scans.iter_mut() {
            let mut out = Scan::default();
            for words in scan.blocks() {
                let slab = self.by_block.get(&block).and_then(|index| self.all.get(*index));
                for (word, to, inside) in words {
                    let Some((to, inside)) = target(to, inside) else { continue };
                    let from = slab.map(|slab| slab.used_at(u64::from(word).saturating_mul(8)));
                    match from {
                        None => out.push(word.into(), to, Some(inside.into())),
                        Some(Some((part, offset))) => {
                            of_parts.entry(part).or_default().push((offset / 8, to, inside));
                        }
                        // The word is in a slab's own structure, or in a free part.
                        Some(None) => {}
                    }
                }
                out.end();
                block = block.saturating_add(1);
            }
            *scan = out;
        }
        let mut out = Scan::default();
        for slab in &self.all {
            for number in slab.numbers.iter().filter(|number| **number != FREE) {
                for (word, to, inside) in of_parts.remove(number).unwrap_or_default() {
                    out.push(word, to, Some(inside.into()));
                }
                out.push(Edges::LAST_WORD.into(), slab.block, Some(0));
                out.end();
            }
        }
        scans.push(out);
    }

    /// Whether a block is a slab. The size of such a block is what its parts leave.
    pub(super) fn is_slab(&self, block: u32) -> bool {
        self.by_block.contains_key(&block)
    }

    /// Returns the part that contains an address in a block. Returns the block itself if it is no slab, or no part
    /// contains the address.
    pub(super) fn part(&self, block: u32, at: Addr) -> u32 {
        if self.all.is_empty() {
            return block;
        }
        let slab = self.by_block.get(&block).and_then(|index| self.all.get(*index));
        let inside = slab.and_then(|slab| Some((slab, at.checked_since(Addr::new(slab.start))?)));
        inside.and_then(|(slab, inside)| slab.used_at(inside)).map_or(block, |(part, _)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::block_graph::edges::Lead;
    use crate::memory::{Fault, FaultKind};

    /// Words by address.
    struct Words(HashMap<u64, u64>);

    impl Memory for Words {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let word = self.0.get(&addr.get()).ok_or(Fault { addr, kind: FaultKind::Unmapped })?;
            buf.copy_from_slice(&word.to_le_bytes()[..buf.len()]);
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            if self.0.contains_key(&addr.get()) { max.min(8) } else { 0 }
        }

        fn past_gap(&self, _: Addr) -> Addr {
            Addr::MAX
        }
    }

    /// Two slabs of 1 KiB with 15 parts of 64 bytes, and the table with their ring. Part 3 of the first slab is free.
    fn memory() -> Words {
        let mut words = HashMap::new();
        let info = |slab: u64| slab + 1024 - 48;
        let (a, b) = (0x1_0000, 0x1_0400);
        for (slab, other, free, allocated) in [(a, b, a + 3 * 64, 14), (b, a, 0, 15)] {
            words.extend([
                (info(slab), free),
                (info(slab) + 8, allocated),
                (info(slab) + 16, info(other)),
                (info(slab) + 24, info(other)),
            ]);
        }
        words.insert(a + 3 * 64, 0);
        words.extend((0..63).map(|i| (0x2_0000 + 8 * i, if i == 3 { info(a) } else { 0 })));
        Words(words)
    }

    #[test]
    fn parts_of_slabs_are_blocks_and_slabs_belong_to_their_parts() {
        let (mut starts, mut lens, mut sizes) = (
            vec![Addr::new(0x1_0000), Addr::new(0x1_0400), Addr::new(0x2_0000)],
            vec![1016, 1048, 504],
            vec![128, 132, 64],
        );
        let mut scan = Scan::default();
        // Part 1 of the first slab points at part 0 of the second. The second's structure points at the first.
        scan.push(8, 1, Some(0));
        scan.end();
        scan.push(122, 0, Some(976));
        scan.end();
        // The table points at the ring. A stale word points at the free part.
        scan.push(3, 0, Some(976));
        scan.push(4, 0, Some(3 * 64));
        scan.push(5, 0, Some(2 * 64));
        scan.end();
        let mut scans = vec![scan];
        let mut tables = Tables { starts: &mut starts, lens: &mut lens, sizes: &mut sizes };
        let slabs = Slabs::split(&memory(), &mut tables, &mut scans);
        // 14 and 15 parts.
        assert_eq!((starts.len(), lens.last(), sizes.last()), (3 + 14 + 15, Some(&64), Some(&8)));
        assert_eq!((sizes[0], sizes[1]), (128 - 14 * 8, 132 - 15 * 8));
        assert_eq!(starts[3 + 14], Addr::new(0x1_0400));
        let at = |block: u32, at: u64| slabs.part(block, Addr::new(at));
        assert_eq!((at(0, 0x1_0000 + 2 * 64 + 8), at(0, 0x1_0000 + 3 * 64), at(2, 0x2_0000)), (5, 0, 2));
        let edges = Edges::join(scans, &lens).unwrap_or_default();
        let of = |block: u32| edges.of(block).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![], vec![]));
        assert_eq!(of(2), [(5, 5, Lead::Start)]);
        assert_eq!(of(4), [(0, 3 + 14, Lead::Start), (Edges::LAST_WORD, 0, Lead::Start)]);
    }

    #[test]
    fn blocks_that_are_no_ring_stay_whole() {
        let mut words = memory();
        words.0.insert(0x1_0400 + 1024 - 48 + 24, 0x9999);
        let (mut starts, mut lens, mut sizes) =
            (vec![Addr::new(0x1_0000), Addr::new(0x1_0400)], vec![1016, 1016], vec![128, 128]);
        let mut tables = Tables { starts: &mut starts, lens: &mut lens, sizes: &mut sizes };
        let slabs = Slabs::split(&words, &mut tables, &mut vec![Scan::default()]);
        assert_eq!((starts.len(), slabs.part(1, Addr::new(0x1_0440))), (2, 1));
    }
}
