//! Memory outside of a runtime's heap that is the runtime's all the same: buffers that objects own, and what a runtime
//! notes of blocks that it has from malloc.

use crate::addr::{Addr, AddrRange};
use crate::words::BufferMemory;

/// Memory outside of the heap that an object owns: when the object goes, it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedBuffer {
    /// Where it is.
    pub range: AddrRange,
    /// The object.
    pub object: Addr,
    /// The field of the object that leads to it.
    pub field: &'static str,
    /// Where it came from.
    pub how: BufferMemory,
}

/// What a runtime wrote into a block of malloc that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLabel {
    /// What the block is for, by the runtime's number ([`BlockLabels::name`]).
    pub label: u8,
    /// Bytes that were asked for, without what the runtime put around them.
    pub size: u64,
}

/// What a runtime notes at the start of each block of malloc that it asks for.
pub trait BlockLabels: Sync {
    /// Who writes the labels, in words.
    fn whose(&self) -> String;

    /// Bytes at the start of a labelled block that are the runtime's note.
    fn header(&self) -> u64;

    /// The label of a used block; `None` where it has none. `usable`: from what malloc returned on, as far as its
    /// program may use it.
    fn label(&self, usable: AddrRange) -> Option<BlockLabel>;

    /// The bytes of a labelled block by which its label is known: no more of the note than that.
    fn marks(&self, usable: AddrRange) -> Vec<AddrRange>;

    /// What a label means; the number where that is not known.
    fn name(&self, label: u8) -> String;
}

/// The buffer that holds `addr`, among `buffers` by address.
pub fn buffer_at(buffers: &[OwnedBuffer], addr: Addr) -> Option<&OwnedBuffer> {
    let behind = buffers.partition_point(|b| b.range.start <= addr);
    // One object may own what begins before another's and ends behind it: a few steps back are enough to see that.
    let near = buffers.get(behind.saturating_sub(NEAR)..behind)?;
    near.iter().rev().find(|b| b.range.contains(addr))
}

/// Buffers before an address that are looked at.
const NEAR: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_buffer_around_an_address_is_told() {
        let buffer = |start: u64, len: u64, object: u64| OwnedBuffer {
            range: AddrRange::sized(Addr::new(start), len),
            object: Addr::new(object),
            field: "address",
            how: BufferMemory::Allocated,
        };
        let all = [buffer(0x1000, 0x1000, 1), buffer(0x1100, 0x10, 2), buffer(0x3000, 0x10, 3)];
        let at = |addr| buffer_at(&all, Addr::new(addr)).map(|b| b.object.get());
        assert_eq!(
            [at(0xfff), at(0x1000), at(0x1104), at(0x1110), at(0x2000)],
            [None, Some(1), Some(2), Some(1), None]
        );
        assert_eq!(at(0x300f), Some(3));
    }
}
