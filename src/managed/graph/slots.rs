//! Numbers of objects by where they are.
//!
//! Of as many words in a row as the smallest object has at most one begins an object, so a
//! number for each such row (a slot) finds that of any reference in one step. Pages of
//! numbers where no object begins, in a large array say, take no memory.

use std::ops::Range;

use crate::addr::Addr;
use crate::limits;
use crate::managed::graph::Graph;
use crate::managed::graph::space::{Run, Space};
use crate::managed::{FREE, Losses};

/// Bits of a slot that say which of its words an object begins at, counted
/// from 1; 0 where none does. The others are the object's number, 0 for none.
const PLACE: u32 = 3;
const PLACE_BITS: u32 = 2;

/// A number for each object of a heap.
pub(super) struct Slots {
    slots: Vec<u32>,
}

/// What the walk that made them saw.
#[derive(Default)]
pub(super) struct Walked {
    /// Slots of objects in frozen segments.
    pub(super) frozen: Vec<u32>,
    /// What could not be walked.
    pub(super) losses: Losses,
}

impl Slots {
    /// Find all objects of a heap that are not free space; none has a number yet.
    /// `None` where there are more than can have one.
    pub(super) fn new(graph: Graph<'_>) -> Option<(Slots, Walked)> {
        let len = graph.space.slots() as usize;
        u32::try_from(len).ok().filter(|&len| len < u32::MAX)?;
        // Not touched yet, these are no memory.
        let mut slots = Slots { slots: vec![0; len] };
        let mut out = Walked::default();
        let mut objects = 0_usize;
        let mut walker = graph.heap.walker();
        for part in graph.heap.parts() {
            let frozen = part.generation.frozen;
            walker.walk(part, &mut out.losses, &mut |object| {
                if object.kind == FREE {
                    return;
                }
                let Some((slot, place)) = slot_of(graph.space, object.addr.get()) else { return };
                let Some(entry) = slots.slots.get_mut(slot as usize) else { return };
                *entry = place;
                objects += 1;
                if frozen {
                    out.frozen.push(slot);
                }
            });
            if objects > limits::MAX_LIVE_OBJECTS {
                return None;
            }
        }
        Some((slots, out))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot of the object at `value`, if one begins there, and its number.
    #[inline(always)]
    pub(super) fn find(&self, space: &Space<'_>, value: u64) -> Option<(u32, u32)> {
        let (slot, place) = slot_of(space, value)?;
        let entry = *self.slots.get(slot as usize)?;
        (entry & PLACE == place).then_some((slot, entry >> PLACE_BITS))
    }

    /// The number of a slot's object.
    #[inline(always)]
    pub(super) fn number(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |entry| entry >> PLACE_BITS)
    }

    /// Give a slot's object a number.
    #[inline(always)]
    pub(super) fn set(&mut self, slot: u32, number: u32) {
        if let Some(entry) = self.slots.get_mut(slot as usize) {
            *entry = *entry & PLACE | number << PLACE_BITS;
        }
    }

    /// Where a slot's object is.
    pub(super) fn address(&self, space: &Space<'_>, slot: u32) -> Option<Addr> {
        let index = index_of(space, slot as usize, *self.slots.get(slot as usize)?)?;
        space.run_of(index)?.address(index).map(Addr::new)
    }

    /// Visit the objects in a row of slots, by address: number and address.
    pub(super) fn each(&self, space: &Space<'_>, slots: Range<usize>, mut visit: impl FnMut(u32, Addr)) {
        let from = slots.start;
        let mut run = None;
        for (i, &entry) in self.slots.get(slots).unwrap_or_default().iter().enumerate() {
            let Some(index) = index_of(space, from + i, entry) else { continue };
            if run.and_then(|r: &Run<'_>| r.address(index)).is_none() {
                run = space.run_of(index);
            }
            if let Some(addr) = run.and_then(|r| r.address(index)) {
                visit(entry >> PLACE_BITS, Addr::new(addr));
            }
        }
    }
}

/// The number of the word that a slot's object begins with.
#[inline(always)]
fn index_of(space: &Space<'_>, slot: usize, entry: u32) -> Option<u64> {
    Some(space.index_of(slot as u64, u64::from((entry & PLACE).checked_sub(1)?)))
}

/// The slot of the word at `value`, if that is in the heap, and its place there.
#[inline(always)]
fn slot_of(space: &Space<'_>, value: u64) -> Option<(u32, u32)> {
    let run = space.run(value).filter(|_| value & 7 == 0)?;
    let (slot, place) = space.slot_of(run.index(value));
    Some((slot as u32, place as u32 + 1))
}
