//! Groups of slots, and which groups are inside slots of larger ones.

use super::Mallocng;
use super::shape::Bits;
use crate::addr::{Addr, AddrRange};

/// A group of mallocng: slots of one size after a header that points to the group's meta.
#[derive(Clone, Debug)]
pub struct Group {
    /// Address of its `struct meta`.
    pub meta: Addr,
    /// The group's memory, up to the end of its mapping or of its last slot.
    pub range: AddrRange,
    /// Address of the first slot.
    pub storage: Addr,
    /// Size class. 63 for a block larger than every class.
    pub class: u8,
    /// Bytes per slot, with the header of the next slot.
    pub stride: u64,
    /// Number of slots, 1 to 32.
    pub slots: u32,
    /// One bit per slot, set if the slot is in use.
    pub used: u32,
    /// The bits of `used` whose slots contain a smaller group.
    pub nested: u32,
    /// Origin of the group's memory.
    pub from: Source,
}

/// Origin of a group's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A mapping of its own.
    Mapping,
    /// A slot of a larger group.
    Slot,
    /// The unused end of a module's data (`__malloc_donate`).
    Donated,
}

impl Group {
    pub(super) fn new(meta: Addr, range: AddrRange, storage: Addr, bits: Bits, free: u32) -> Group {
        let all = u32::MAX >> (32 - bits.slots.clamp(1, 32));
        let from = match (bits.mapped, bits.freeable) {
            (0, false) => Source::Donated,
            (0, true) => Source::Slot,
            _ => Source::Mapping,
        };
        let (class, stride, slots) = (bits.class, bits.stride, bits.slots);
        Group { meta, range, storage, class, stride, slots, used: all & !free, nested: 0, from }
    }

    /// Whether the group is one block with its own mapping.
    pub fn is_single(&self) -> bool {
        self.slots == 1 && self.from == Source::Mapping
    }

    /// Returns the number of slots in use that contain no group, and of free slots.
    pub fn counts(&self) -> (u64, u64) {
        let used = (self.used & !self.nested).count_ones();
        (u64::from(used), u64::from(self.slots - self.used.count_ones().min(self.slots)))
    }

    /// Returns the number of the slot that covers all of `range`.
    fn slot_over(&self, range: AddrRange) -> Option<u32> {
        let index = range.start.checked_since(self.storage)?.checked_div(self.stride)?;
        let slot = AddrRange::sized(self.storage.checked_add(index.checked_mul(self.stride)?)?, self.stride);
        (index < u64::from(self.slots) && slot.covers(&range)).then_some(index as u32)
    }
}

/// Sorts the groups and finds those inside slots of others. Groups that overlap a slot's border are removed, so each
/// byte is in at most one slot that contains no group.
pub(super) fn resolve_nesting(heap: &mut Mallocng) {
    let mut all = std::mem::take(&mut heap.groups);
    // If two groups begin at the same address, the larger is the outer one. A group points back to one meta only.
    all.sort_by_key(|g| (g.range.start, std::cmp::Reverse(g.range.end)));
    let mut open: Vec<usize> = Vec::new();
    for mut group in all {
        while let Some(&last) = open.last()
            && heap.groups.get(last).is_none_or(|g| g.range.end <= group.range.start)
        {
            open.pop();
        }
        let outer = open.last().and_then(|&i| heap.groups.get_mut(i));
        match outer {
            Some(outer) => match outer.slot_over(group.range).filter(|_| group.from != Source::Mapping) {
                Some(slot) => {
                    let bit = 1 << slot;
                    if outer.nested & bit != 0 {
                        heap.unproven += 1;
                        continue;
                    }
                    outer.nested |= bit;
                    // The inner group's meta is in use. The dump was taken while the slot was being allocated or freed.
                    outer.used |= bit;
                    group.from = Source::Slot;
                }
                None => {
                    heap.unproven += 1;
                    continue;
                }
            },
            // The outer group is not known.
            None if group.from == Source::Slot => heap.orphans += 1,
            None => {}
        }
        open.push(heap.groups.len());
        heap.groups.push(group);
    }
}
