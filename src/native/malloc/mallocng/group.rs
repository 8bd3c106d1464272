//! Groups of slots, and which of them lie in slots of larger ones.

use super::Mallocng;
use super::shape::Bits;
use crate::addr::{Addr, AddrRange};

/// A group: slots of one size, behind a header that leads to its meta.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its `struct meta`.
    pub meta: Addr,
    /// Its memory: to the end of its mapping, or of its last slot.
    pub range: AddrRange,
    /// Its first slot.
    pub storage: Addr,
    /// Number of its size class; 63 of a block that is larger than any.
    pub class: u8,
    /// Bytes of a slot, with the header of the next.
    pub stride: u64,
    /// Number of slots, 1 to 32.
    pub slots: u32,
    /// Slots that are in use: a bit for each.
    pub used: u32,
    /// Of these, slots with a smaller group in them.
    pub nested: u32,
    /// Where its memory is from.
    pub from: Source,
}

/// Where a group's memory is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A mapping of its own.
    Mapping,
    /// A slot of a larger group.
    Slot,
    /// What was left at the end of a module's data (`__malloc_donate`).
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

    /// Whether it is one block with a mapping of its own.
    pub fn is_single(&self) -> bool {
        self.slots == 1 && self.from == Source::Mapping
    }

    /// Slots that hold no group: in use, and free.
    pub fn counts(&self) -> (u64, u64) {
        let used = (self.used & !self.nested).count_ones();
        (u64::from(used), u64::from(self.slots - self.used.count_ones().min(self.slots)))
    }

    /// The slot that covers all of `range`, by number.
    fn slot_over(&self, range: AddrRange) -> Option<u32> {
        let index = range.start.checked_since(self.storage)?.checked_div(self.stride)?;
        let slot = AddrRange::sized(self.storage.checked_add(index.checked_mul(self.stride)?)?, self.stride);
        (index < u64::from(self.slots) && slot.covers(&range)).then_some(index as u32)
    }
}

/// Sort the groups, tell which lie in slots of others, and leave out what lies across one: each byte is in one slot that
/// holds no group.
pub(super) fn nest(heap: &mut Mallocng) {
    let mut all = std::mem::take(&mut heap.groups);
    // Of two that begin at one place the larger is outside; a place has one meta that it leads back to.
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
                    // Its meta is alive: the dump was taken while the slot was given out or taken back.
                    outer.used |= bit;
                    group.from = Source::Slot;
                }
                None => {
                    heap.unproven += 1;
                    continue;
                }
            },
            // The group around it is not known.
            None if group.from == Source::Slot => heap.orphans += 1,
            None => {}
        }
        open.push(heap.groups.len());
        heap.groups.push(group);
    }
}
