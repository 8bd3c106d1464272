//! Runtime memory outside of its heap: buffers that objects own, and labels of malloc blocks.

use crate::addr::{Addr, AddrRange};
use crate::words::BufferMemory;

/// Memory outside of the heap that an object owns. It is freed with the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedBuffer {
    /// Where it is.
    pub range: AddrRange,
    /// The object.
    pub object: Addr,
    /// The field of the object that references it.
    pub field: &'static str,
    /// Where it came from.
    pub how: BufferMemory,
}

/// Contents of a malloc block owned by a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLabel {
    /// Purpose of the block, as the runtime's number ([`BlockLabels::name`]).
    pub label: u8,
    /// Requested size in bytes, without the runtime's own header and footer.
    pub size: u64,
}

/// Labels that a runtime writes at the start of its malloc blocks.
pub trait BlockLabels: Sync {
    /// Name of the writer of the labels.
    fn whose(&self) -> String;

    /// Length in bytes of the label at the start of a block.
    fn header(&self) -> u64;

    /// Label of a used block. `None` if it has none. `usable`: the range that malloc returned, as far as the
    /// program may use it.
    fn label(&self, usable: AddrRange) -> Option<BlockLabel>;

    /// The bytes of a labelled block that prove its label.
    fn marks(&self, usable: AddrRange) -> Vec<AddrRange>;

    /// Meaning of a label, or its number if unknown.
    fn name(&self, label: u8) -> String;
}

/// The buffer that contains `addr`. `buffers` is sorted by address.
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
