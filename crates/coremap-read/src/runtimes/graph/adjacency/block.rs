//! Decodes blocks and rows.

use super::{BLOCK, MANY, STRAY};

/// The block that contains an object.
#[derive(Clone, Copy)]
pub(in crate::runtimes::graph) struct Block<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) width: u32,
    /// Number of references per object, if it is the same for all. 0 if each object has a count.
    pub(super) fixed_count: u32,
    pub(super) id: u32,
}

impl<'r> Block<'r> {
    /// Reads the block's start, and the object's references at their likely position: the position if each object has
    /// one reference.
    #[inline(always)]
    pub(in crate::runtimes::graph) fn touch(self) -> u8 {
        let at = self.id as usize % BLOCK * self.width as usize;
        let about = if self.fixed_count == 0 { BLOCK + at } else { at * self.fixed_count as usize };
        let at = |place: usize| self.bytes.get(place).copied().unwrap_or(0);
        at(0) ^ at(about)
    }

    /// Visits all objects of the block that have references: index in the block, and references.
    #[inline(always)]
    pub(super) fn each_list(self, mut visit: impl FnMut(u32, RefList<'r>)) {
        let first = self.id / BLOCK as u32 * BLOCK as u32;
        if self.fixed_count != 0 {
            for i in 0..BLOCK as u32 {
                if let Some(row) = (Block { id: first + i, ..self }).refs() {
                    visit(i, row);
                }
            }
            return;
        }
        let mut rest = self.bytes.get(BLOCK..).unwrap_or_default();
        for (i, &count) in (0..).zip(self.bytes.iter().take(BLOCK)) {
            let Some((row, behind)) = RefList::at(rest, count, self.width, first) else { break };
            rest = behind;
            if row.count > 0 {
                visit(i, row);
            }
        }
    }

    /// References of the object. `None` if the block is invalid.
    #[inline(always)]
    pub(in crate::runtimes::graph) fn refs(self) -> Option<RefList<'r>> {
        let (at, first) = (self.id as usize % BLOCK, self.id / BLOCK as u32 * BLOCK as u32);
        if self.fixed_count != 0 {
            let before = at * (self.fixed_count * self.width) as usize;
            return Some(RefList {
                bytes: self.bytes.get(before..)?,
                count: self.fixed_count,
                width: self.width,
                first,
            });
        }
        let (counts, rest) = self.bytes.split_first_chunk::<BLOCK>()?;
        let count = counts[at];
        let all = u128::from_le_bytes(*counts);
        let (before, many) = sum(all & ((1_u128 << (8 * at as u32)) - 1));
        if !many {
            return Some(RefList::at(rest.get((before * self.width) as usize..)?, count, self.width, first)?.0);
        }
        let mut rest = rest;
        for &count in counts.iter().take(at) {
            rest = RefList::at(rest, count, self.width, first)?.1;
        }
        Some(RefList::at(rest, count, self.width, first)?.0)
    }
}

/// Offset that makes all differences positive. The value with all bits set is reserved for [`STRAY`].
#[inline(always)]
pub(super) fn bias(width: u32) -> u32 {
    1 << (8 * width - 1)
}

/// The sum of the bytes, and whether one of them is [`MANY`].
#[inline(always)]
fn sum(bytes: u128) -> (u32, bool) {
    let of = |half: u64| {
        const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
        let pairs = (half & PAIRS) + (half >> 8 & PAIRS);
        (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32
    };
    let many = |half: u64| {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        ((half & LOW) + 0x0101_0101_0101_0101) & half & !LOW != 0
    };
    let (low, high) = (bytes as u64, (bytes >> 64) as u64);
    (of(low) + of(high), many(low) || many(high))
}

/// References of one object.
#[derive(Clone, Copy)]
pub(in crate::runtimes::graph) struct RefList<'r> {
    /// Bytes from the first reference on.
    pub(super) bytes: &'r [u8],
    pub(super) count: u32,
    pub(super) width: u32,
    pub(super) first: u32,
}

impl<'r> RefList<'r> {
    /// Splits the row with this count byte off `bytes`. Returns the row and the bytes after it.
    #[inline(always)]
    fn at(bytes: &'r [u8], count: u8, width: u32, first: u32) -> Option<(RefList<'r>, &'r [u8])> {
        let (count, bytes) = match count {
            MANY => {
                let (count, bytes) = bytes.split_first_chunk::<4>()?;
                (u32::from_le_bytes(*count), bytes)
            }
            count => (count.into(), bytes),
        };
        let behind = bytes.get(count as usize * width as usize..)?;
        Some((RefList { bytes, count, width, first }, behind))
    }

    #[inline(always)]
    fn read(self, place: usize) -> u32 {
        let bytes = self.bytes.get(place * self.width as usize..).and_then(|bytes| bytes.first_chunk::<4>());
        let mask = u32::MAX >> (32 - 8 * self.width);
        let coded = bytes.map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes)) & mask;
        if coded == mask { STRAY } else { coded.wrapping_sub(bias(self.width)).wrapping_add(self.first) }
    }

    pub(in crate::runtimes::graph) fn len(self) -> usize {
        self.count as usize
    }

    /// Appends all references to `out`.
    #[inline(always)]
    pub(in crate::runtimes::graph) fn append_to(self, out: &mut Vec<u32>) {
        if self.count == 1 {
            out.push(self.read(0));
        } else {
            out.extend(self.iter());
        }
    }

    /// Iterates the references in the order of the object's fields.
    #[inline(always)]
    pub(in crate::runtimes::graph) fn iter(self) -> impl Iterator<Item = u32> + 'r {
        (0..self.count as usize).map(move |place| self.read(place))
    }
}
