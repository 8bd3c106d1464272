//! Slots, one by one, with what their headers say.
//!
//! A block's header is the 4 bytes before it (enframe, set_size): its distance from the first slot in units, the slot's number in 5 bits,
//! and in 3 bits how many bytes at the slot's end were not asked for; 5 says that their number stands in
//! the slot's last word, 6 that a group lies there, and 7, in the header of a slot whose block begins later, how many units later.

use super::group::Group;
use super::shape::{HEADER, UNIT};
use crate::addr::{Addr, AddrRange};
use crate::memory::window::Window;

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// The program holds it.
    Used,
    /// mallocng may give it away.
    Free,
}

/// A slot that holds no group.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// With the header of the next.
    pub range: AddrRange,
    /// What the program has of it: from what malloc returned on, as much as was asked for. All but the header where that is free or
    /// its header is not known.
    pub block: AddrRange,
    /// Whether it is in use.
    pub state: SlotState,
    /// Bytes that were asked for, by the header; `None` of free ones, and where the header makes no sense or is not in the core.
    pub asked: Option<u64>,
    /// Whether the header is in the core and makes no sense.
    pub damaged: bool,
    /// Whether it has a mapping of its own.
    pub mapped: bool,
    /// Number of its group, by address.
    pub group: usize,
}

impl Slot {
    /// What in and before a used slot is malloc's own: headers, and how many bytes of it were not asked for.
    pub fn own(&self) -> impl Iterator<Item = AddrRange> {
        let known = self.asked.is_some();
        let later = self.block.start > self.range.start;
        let header = AddrRange::new(self.range.start.saturating_sub(HEADER), self.range.start);
        // A distance that 16 bits are too few for stands before it.
        let inner = later.then(|| AddrRange::new(self.block.start.saturating_sub(2 * HEADER), self.block.start));
        let end = self.range.end.saturating_sub(HEADER);
        let rest = end.checked_since(self.block.end).is_some_and(|rest| rest >= u64::from(REST_IN_LAST_WORD));
        let last = rest.then(|| AddrRange::new(end.saturating_sub(HEADER), end));
        [Some(header), inner, last].into_iter().flatten().filter(move |_| known)
    }
}

/// Reads words of one group's memory.
struct Words<'w, 'c>(&'w [Window<'c>]);

impl Words<'_, '_> {
    fn at(&self, addr: Addr) -> Option<u64> {
        let i = self.0.partition_point(|w| w.end <= addr.get());
        let window = self.0.get(i).filter(|w| w.start <= addr.get())?;
        window.word(addr.get())
    }
}

/// What stands before a block.
#[derive(Clone, Copy)]
struct Header {
    /// Its number, and the 3 bits beside it.
    slot: u32,
    rest: u32,
    /// Units from the first slot; of a slot whose block begins later, from the slot.
    units: u64,
    /// Units in more than 16 bits.
    long: bool,
}

const REST_IN_LAST_WORD: u32 = 5;
const BEGINS_LATER: u32 = 7;

impl Header {
    /// From the word that ends where the block begins.
    fn of(word: u64) -> Header {
        let byte = (word >> 40) as u32 & 0xff;
        let (slot, rest, long) = (byte & 31, byte >> 5, word >> 32 & 0xff != 0);
        let short = word >> 48;
        // With a flag in the byte before, the distance has the 32 bits before that, and the others are 0.
        let units = if long && short == 0 { word & 0xffff_ffff } else { short };
        Header { slot, rest, units, long }
    }
}

/// What the headers of one used slot say.
enum Said {
    /// Where its block begins, and how many bytes were asked for.
    Block(Addr, u64),
    /// A part that is needed is not in the core.
    Missing,
    /// No header of mallocng.
    Nonsense,
}

impl Group {
    /// Visit the slots of a group that hold no group, by address; `windows` are what the core has of its memory.
    pub(super) fn each(&self, number: usize, windows: &[Window<'_>], mut visit: impl FnMut(Slot)) {
        let words = Words(windows);
        for i in 0..self.slots {
            if self.nested >> i & 1 != 0 {
                continue;
            }
            let range = AddrRange::sized(self.storage.saturating_add(u64::from(i) * self.stride), self.stride);
            let end = range.end.saturating_sub(HEADER);
            let whole = AddrRange::new(range.start, end);
            let used = self.used >> i & 1 != 0;
            let state = if used { SlotState::Used } else { SlotState::Free };
            let said = if used { self.said(&words, i, range) } else { Said::Missing };
            let (block, asked, damaged) = match said {
                Said::Block(at, asked) => (AddrRange::sized(at, asked), Some(asked), false),
                Said::Missing => (whole, None, false),
                Said::Nonsense => (whole, None, true),
            };
            visit(Slot { range, block, state, asked, damaged, mapped: self.is_single(), group: number });
        }
    }

    fn said(&self, words: &Words<'_, '_>, slot: u32, range: AddrRange) -> Said {
        let header = |at: Addr| Some(Header::of(words.at(at.checked_sub(8)?)?));
        let Some(mut first) = header(range.start) else { return Said::Missing };
        let mut block = range.start;
        if first.rest == BEGINS_LATER {
            // Of a distance that the 16 bits are too few for (aligned_alloc) the upper ones are lost: the block's own
            // header tells which it is.
            let step = UNIT << 16;
            let mut at = range.start.saturating_add(UNIT * (first.units & 0xffff));
            let found = loop {
                if at >= range.end {
                    return Said::Nonsense;
                }
                match header(at) {
                    Some(header) if self.is_at(header, slot, at) => break header,
                    _ => at = at.saturating_add(step),
                }
            };
            (block, first) = (at, found);
        }
        if !self.is_at(first, slot, block) {
            return Said::Nonsense;
        }
        let end = range.end.saturating_sub(HEADER);
        let room = end.since(block);
        let rest = match first.rest {
            0..REST_IN_LAST_WORD => u64::from(first.rest),
            REST_IN_LAST_WORD => match range.end.checked_sub(8).and_then(|at| words.at(at)) {
                Some(word) => word & 0xffff_ffff,
                None => return Said::Missing,
            },
            _ => return Said::Nonsense,
        };
        match room.checked_sub(rest) {
            Some(asked) => Said::Block(block, asked),
            None => Said::Nonsense,
        }
    }

    /// Whether a header is that of a block at `at`.
    fn is_at(&self, header: Header, slot: u32, at: Addr) -> bool {
        let distance = header.units.checked_mul(UNIT);
        let own = header.slot == slot && header.rest != BEGINS_LATER;
        own && distance == at.checked_since(self.storage) && header.long == (header.units > 0xffff)
    }
}
