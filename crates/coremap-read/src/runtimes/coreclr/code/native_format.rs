//! The native format's sparse array, which ReadyToRun images use for tables by method.
//!
//! A number takes one to five bytes; the low bits of the first give the length. Elements are in blocks of 16. Each
//! block is a small tree that branches on a bit of the index. Source: src/coreclr/vm/nativeformatreader.h
//! (NativeReader, NativeArray).

use crate::bytes::{get, u16_at, u32_at};

/// Number of elements in a block.
const BLOCK: u32 = 16;

/// Decodes the number at `offset`. Returns it and the offset after it.
pub(super) fn unsigned(data: &[u8], offset: usize) -> Option<(u32, usize)> {
    let byte = |i: usize| data.get(offset.checked_add(i)?).map(|b| u32::from(*b));
    let first = byte(0)?;
    let at = |len: usize| offset.checked_add(len);
    Some(match first.trailing_ones() {
        0 => (first >> 1, at(1)?),
        1 => (first >> 2 | byte(1)? << 6, at(2)?),
        2 => (first >> 3 | byte(1)? << 5 | byte(2)? << 13, at(3)?),
        3 => (first >> 4 | byte(1)? << 4 | byte(2)? << 12 | byte(3)? << 20, at(4)?),
        4 => (u32_at(data, at(1)?)?, at(5)?),
        _ => return None,
    })
}

/// A NativeArray. It is sparse: an index may have no element.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeArray<'a> {
    data: &'a [u8],
    base: usize,
    count: u32,
    /// Size of block offsets: 0 for one byte, 1 for two, otherwise four.
    width: u32,
}

impl<'a> NativeArray<'a> {
    /// Opens the array at `offset` in `data`. Its offsets are relative to the start of `data`.
    pub(super) fn new(data: &'a [u8], offset: usize) -> Option<NativeArray<'a>> {
        let (header, base) = unsigned(data, offset)?;
        Some(NativeArray { data, base, count: header >> 2, width: header & 3 })
    }

    /// Number of indices, with or without an element.
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Offset of an element's data. `None` if there is no such element.
    pub(super) fn get(&self, index: u32) -> Option<usize> {
        if index >= self.count {
            return None;
        }
        let block = (index / BLOCK) as usize;
        let start = match self.width {
            0 => u32::from(*get(self.data, self.base.checked_add(block)?, 1)?.first()?),
            1 => u32::from(u16_at(self.data, self.base.checked_add(block * 2)?)?),
            _ => u32_at(self.data, self.base.checked_add(block * 4)?)?,
        };
        let mut offset = self.base.checked_add(start as usize)?;
        let mut bit = BLOCK >> 1;
        while bit > 0 {
            let (value, next) = unsigned(self.data, offset)?;
            if index & bit != 0 && value & 2 != 0 {
                offset = offset.checked_add((value >> 2) as usize)?;
            } else if index & bit == 0 && value & 1 != 0 {
                offset = next;
            } else if value & 3 == 0 {
                // A leaf above the last level is the only element of its subtree.
                return (value >> 2 == index & (BLOCK - 1)).then_some(next);
            } else {
                return None;
            }
            bit >>= 1;
        }
        Some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_each_length() {
        assert_eq!(unsigned(&[0x02], 0), Some((1, 1)));
        assert_eq!(unsigned(&[0x01, 0x01], 0), Some((0x40, 2)));
        assert_eq!(unsigned(&[0x03, 0x00, 0x01], 0), Some((0x2000, 3)));
        assert_eq!(unsigned(&[0x07, 0x00, 0x00, 0x01], 0), Some((0x10_0000, 4)));
        assert_eq!(unsigned(&[0x0f, 1, 2, 3, 4], 0), Some((0x0403_0201, 5)));
        assert_eq!(unsigned(&[0x1f, 1, 2, 3, 4], 0), None);
        assert_eq!(unsigned(&[0x0f, 1, 2], 0), None);
    }

    #[test]
    fn an_array_of_one_leaf() {
        // 20 elements, one-byte block offsets: block 0 has index 3, block 1 nothing.
        let data = [20 << 3, 2, 3, 3 << 3, 0];
        let array = NativeArray::new(&data, 0).map(|a| (a.len(), a.get(3), a.get(4), a.get(17), a.get(20)));
        assert_eq!(array, Some((20, Some(4), None, None, None)));
    }

    #[test]
    fn a_tree_that_leads_out_of_the_data_gives_nothing() {
        let data = [16 << 3, 0xff];
        assert_eq!(NativeArray::new(&data, 0).and_then(|a| a.get(9)), None);
    }
}
