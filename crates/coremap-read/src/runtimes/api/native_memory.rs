//! Native memory of a runtime: buffers that objects own, and labels of its malloc blocks.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::words::BufferMemory;

/// Memory outside of the heap that an object owns. It is freed with the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedBuffer {
    /// Addresses of the buffer.
    pub range: AddrRange,
    /// The owning object.
    pub object: Addr,
    /// The object's field that references the buffer.
    pub field: &'static str,
    /// Where the memory came from.
    pub how: BufferMemory,
}

/// The label that a runtime wrote into one of its malloc blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLabel {
    /// Purpose of the block, as the runtime's number. [`BlockLabels::name`] returns its meaning.
    pub label: u8,
    /// Requested size in bytes, without the runtime's own header and footer.
    pub size: u64,
}

/// The line that allocated a block, as the runtime's own tracer recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationTrace {
    /// Address that the allocator returned.
    pub block: Addr,
    /// Requested size in bytes.
    pub size: u64,
    /// Source file of the innermost function.
    pub file: Arc<str>,
    /// Line number in `file`.
    pub line: u32,
}

/// All allocation records of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationTraces {
    /// Name of the tracer.
    pub tracer: &'static str,
    /// One record per block.
    pub list: Vec<AllocationTrace>,
    /// Addresses in the blocks of the tracer's table. Pointers in these blocks keep no recorded block alive.
    pub nodes: Vec<Addr>,
}

/// Objects of one type that are in nearly empty memory of a small-block allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// Type of the objects.
    pub r#type: String,
    /// Number of objects.
    pub count: u64,
    /// Address of one of the objects.
    pub example: Addr,
}

/// Labels that a runtime writes at the start of its malloc blocks.
pub trait BlockLabels: Sync {
    /// Name of the runtime that writes the labels.
    fn whose(&self) -> String;

    /// Length in bytes of the label at the start of a block.
    fn header(&self) -> u64;

    /// The label of a used block. `None` if it has none. `usable`: the range that malloc returned, up to the last byte
    /// that the program may use.
    fn label(&self, usable: AddrRange) -> Option<BlockLabel>;

    /// The bytes of a labelled block that prove its label.
    fn marks(&self, usable: AddrRange) -> Vec<AddrRange>;

    /// Meaning of a label. If unknown, its number.
    fn name(&self, label: u8) -> String;
}

/// Returns the innermost buffer that contains `addr`. `buffers` must be sorted by start address.
pub fn buffer_at(buffers: &[OwnedBuffer], addr: Addr) -> Option<&OwnedBuffer> {
    let behind = buffers.partition_point(|b| b.range.start <= addr);
    // Buffers can nest, so the buffer with the closest start may end before `addr`. Look a few further back.
    let near = buffers.get(behind.saturating_sub(NEAR)..behind)?;
    near.iter().rev().find(|b| b.range.contains(addr))
}

/// Number of buffers before an address that are checked.
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
