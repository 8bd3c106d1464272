//! GC info: the registers and stack slots of a method's frame that contain references, at each of its calls or wherever
//! it can be interrupted.
//!
//! It consists of a header, offsets of safe points (calls), interruptible ranges, the table of slots, and the live
//! slots by position. All of it is one bit stream without lengths, so nothing can be skipped.
//!
//! Pure functions over bytes. Sources: docs/design/datacontracts/GCInfo.md; src/coreclr/vm/gcinfodecoder.cpp
//! (GcInfoDecoder), gcinfo/gcinfoencoder.cpp.

mod bits;
mod encoding;
mod header;
mod live;
mod slots;

pub(in crate::runtimes::coreclr) use encoding::Encoding;
pub(in crate::runtimes::coreclr) use header::Header;
pub(in crate::runtimes::coreclr) use live::StopKind;
pub(in crate::runtimes::coreclr) use slots::{Slot, SlotLocation, StackBase};

use std::cell::Cell;

use bits::Bits;
use slots::SlotTable;

use crate::limits;

/// Reasons why GC info can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GcInfoError {
    /// The bytes end too early.
    #[error("the GC info is cut off")]
    End,
    /// The data contradicts itself.
    #[error("the GC info is invalid: {0}")]
    Bad(&'static str),
}

/// The GC info of one method.
#[derive(Clone, Debug)]
pub(in crate::runtimes::coreclr) struct GcInfo<'b> {
    pub(in crate::runtimes::coreclr) header: Header,
    encoding: Encoding,
    /// Offsets of safe points in normalized units, ascending.
    safe_points: Vec<u32>,
    /// Interruptible ranges (start, end) in normalized units, ascending.
    ranges: Vec<(u32, u32)>,
    slots: SlotTable,
    /// The bits after the table of slots.
    rest: Bits<'b>,
}

impl<'b> GcInfo<'b> {
    /// Reads everything except the live states. `read_to` is set to the end of the last bit read, and later also covers
    /// live states that are queried. The length of GC info is not stored anywhere.
    ///
    /// # Errors
    /// [`GcInfoError`]
    pub(in crate::runtimes::coreclr) fn read(
        bytes: &'b [u8],
        encoding: Encoding,
        read_to: &'b Cell<u64>,
    ) -> Result<GcInfo<'b>, GcInfoError> {
        let mut bits = Bits::new(bytes, read_to);
        let header = Header::read(&mut bits, &encoding)?;
        let own = &encoding.own;
        let length = header.code_length >> own.code_shift;
        let width = ceil_log2(length);
        if u64::from(header.safe_points) * u64::from(width.max(1)) > bits.left()
            || header.safe_points > limits::MAX_SAFE_POINTS
        {
            return Err(GcInfoError::End);
        }
        let safe_points = (0..header.safe_points).map(|_| bits.read(width)).collect::<Result<Vec<_>, _>>()?;
        if !safe_points.is_sorted() || safe_points.last().is_some_and(|&last| last > length) {
            return Err(GcInfoError::Bad("the safe points are out of order"));
        }
        // Each range takes two numbers.
        if u64::from(header.ranges) * 2 > bits.left() {
            return Err(GcInfoError::End);
        }
        let (mut ranges, mut at) = (Vec::new(), 0_u32);
        for _ in 0..header.ranges {
            let start = at.checked_add(bits.unsigned(own.range_start)?);
            let end =
                start.and_then(|s| Some((s, s.checked_add(bits.unsigned(own.range_length).ok()?)?.checked_add(1)?)));
            let (start, end) =
                end.filter(|r| r.1 <= length).ok_or(GcInfoError::Bad("a range extends past the code"))?;
            ranges.push((start, end));
            at = end;
        }
        let slots = SlotTable::read(&mut bits, own)?;
        Ok(GcInfo { header, encoding, safe_points, ranges, slots, rest: bits })
    }

    /// Number of offsets, ranges and slots read.
    pub(in crate::runtimes::coreclr) fn weight(&self) -> u64 {
        (self.safe_points.len() + self.ranges.len() + self.slots.all.len()) as u64
    }

    /// Reads the live states at all safe points and at both ends of each range. Returns how many these are.
    ///
    /// # Errors
    /// Where one of them makes no sense.
    #[doc(hidden)]
    pub(in crate::runtimes::coreclr) fn check(&self) -> Result<u64, GcInfoError> {
        let mut states = 0;
        let shift = self.encoding.own.code_shift;
        let back = u32::from(self.encoding.version.within_call);
        let calls = self.safe_points.iter().map(|&point| ((point << shift) + back, StopKind::Call));
        let ranges = self.ranges.iter().flat_map(|r| [r.0, r.1 - 1]).map(|at| (at << shift, StopKind::Interrupted));
        for (offset, at) in calls.chain(ranges) {
            if !self.live(offset, at)?.safe {
                return Err(GcInfoError::Bad("one of its own safe points or ranges has no live state"));
            }
            states += 1;
        }
        Ok(states)
    }
}

/// Bits needed for numbers below `x`.
fn ceil_log2(x: u32) -> u32 {
    x.checked_next_power_of_two().map_or(32, u32::trailing_zeros)
}

#[cfg(test)]
mod tests;
