//! The slots of a group, with what their headers say.
//!
//! A block's header is the 4 bytes before it (`enframe`, `set_size`). It has three fields:
//!
//! - the block's distance from the first slot, in units;
//! - the slot's index, in 5 bits;
//! - in 3 bits, how many bytes at the slot's end were not requested.
//!
//! Three values of the last field are special. 5: the slot's last word has that number. 6: the slot contains a group.
//! 7: the block begins later than its slot. The header before the slot then has this distance in units.

use super::group::Group;
use super::shape::{HEADER, UNIT};
use crate::addr::{Addr, AddrRange};
use crate::memory::window::Window;

/// Whether a slot is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// The program owns the block.
    Used,
    /// mallocng may allocate the slot.
    Free,
}

/// A slot that contains no group.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The slot with the header of the next one.
    pub range: AddrRange,
    /// The program's bytes: as many as were requested, from the address that malloc returned. If the slot is free or
    /// its header is not known, all of the slot except the next header.
    pub block: AddrRange,
    /// Whether the slot is in use.
    pub state: SlotState,
    /// Requested bytes, from the header. `None` for a free slot, and if the header is damaged or not in the core.
    pub requested: Option<u64>,
    /// Whether the header is in the core but is invalid.
    pub damaged: bool,
    /// Whether the block has its own mapping.
    pub mapped: bool,
    /// Index of the slot's group in [`Mallocng::groups`](super::Mallocng::groups).
    pub group: usize,
}

impl Slot {
    /// Returns malloc's own bytes in and before a used slot: its headers, and the number of bytes that were not
    /// requested.
    pub fn own(&self) -> impl Iterator<Item = AddrRange> {
        let known = self.requested.is_some();
        let later = self.block.start > self.range.start;
        let header = AddrRange::new(self.range.start.saturating_sub(HEADER), self.range.start);
        // A distance that does not fit into 16 bits precedes the header.
        let inner = later.then(|| AddrRange::new(self.block.start.saturating_sub(2 * HEADER), self.block.start));
        let end = self.range.end.saturating_sub(HEADER);
        let rest = end.checked_since(self.block.end).is_some_and(|rest| rest >= u64::from(REST_IN_LAST_WORD));
        let last = rest.then(|| AddrRange::new(end.saturating_sub(HEADER), end));
        [Some(header), inner, last].into_iter().flatten().filter(move |_| known)
    }
}

struct Words<'w, 'c>(&'w [Window<'c>]);

impl Words<'_, '_> {
    fn at(&self, addr: Addr) -> Option<u64> {
        let i = self.0.partition_point(|w| w.end <= addr.get());
        let window = self.0.get(i).filter(|w| w.start <= addr.get())?;
        window.word(addr.get())
    }
}

/// The header before a block.
#[derive(Clone, Copy)]
struct Header {
    /// The slot's index, and the 3 bits beside it.
    slot: u32,
    rest: u32,
    /// Distance in units from the first slot. If the block begins later than its slot, the distance from that slot.
    units: u64,
    /// Whether the distance does not fit into 16 bits.
    long: bool,
}

const REST_IN_LAST_WORD: u32 = 5;
const BEGINS_LATER: u32 = 7;

impl Header {
    /// Decodes the word that ends at the block's start.
    fn of(word: u64) -> Header {
        let byte = (word >> 40) as u32 & 0xff;
        let (slot, rest, long) = (byte & 31, byte >> 5, word >> 32 & 0xff != 0);
        let short = word >> 48;
        // If the preceding byte has the flag, the 32 bits before it are the distance, and the 16 bits are 0.
        let units = if long && short == 0 { word & 0xffff_ffff } else { short };
        Header { slot, rest, units, long }
    }
}

/// Content of a used slot's headers.
enum HeaderContent {
    /// The block's start, and the requested bytes.
    Block(Addr, u64),
    /// A word of the headers is not in the core.
    Missing,
    /// The bytes are no header of mallocng.
    Invalid,
}

impl Group {
    /// Visits the slots that contain no group, by address. `windows` are the parts of the group's memory in the core.
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
            let headers = if used { self.read_headers(&words, i, range) } else { HeaderContent::Missing };
            let (block, requested, damaged) = match headers {
                HeaderContent::Block(at, requested) => (AddrRange::sized(at, requested), Some(requested), false),
                HeaderContent::Missing => (whole, None, false),
                HeaderContent::Invalid => (whole, None, true),
            };
            visit(Slot { range, block, state, requested, damaged, mapped: self.is_single(), group: number });
        }
    }

    fn read_headers(&self, words: &Words<'_, '_>, slot: u32, range: AddrRange) -> HeaderContent {
        let header = |at: Addr| Some(Header::of(words.at(at.checked_sub(8)?)?));
        let Some(mut first) = header(range.start) else { return HeaderContent::Missing };
        let mut block = range.start;
        if first.rest == BEGINS_LATER {
            // A distance that does not fit into the 16 bits (`aligned_alloc`) has lost its upper bits. The block's own
            // header identifies the right one.
            let step = UNIT << 16;
            let mut at = range.start.saturating_add(UNIT * (first.units & 0xffff));
            let found = loop {
                if at >= range.end {
                    return HeaderContent::Invalid;
                }
                match header(at) {
                    Some(header) if self.is_at(header, slot, at) => break header,
                    _ => at = at.saturating_add(step),
                }
            };
            (block, first) = (at, found);
        }
        if !self.is_at(first, slot, block) {
            return HeaderContent::Invalid;
        }
        let end = range.end.saturating_sub(HEADER);
        let room = end.since(block);
        let rest = match first.rest {
            0..REST_IN_LAST_WORD => u64::from(first.rest),
            REST_IN_LAST_WORD => match range.end.checked_sub(8).and_then(|at| words.at(at)) {
                Some(word) => word & 0xffff_ffff,
                None => return HeaderContent::Missing,
            },
            _ => return HeaderContent::Invalid,
        };
        match room.checked_sub(rest) {
            Some(requested) => HeaderContent::Block(block, requested),
            None => HeaderContent::Invalid,
        }
    }

    fn is_at(&self, header: Header, slot: u32, at: Addr) -> bool {
        let distance = header.units.checked_mul(UNIT);
        let own = header.slot == slot && header.rest != BEGINS_LATER;
        own && distance == at.checked_since(self.storage) && header.long == (header.units > 0xffff)
    }
}
