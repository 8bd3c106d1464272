//! Live slots by code position.
//!
//! Each safe point of a call has its set of live slots. For code that can be interrupted anywhere, offsets are grouped
//! into chunks of 64. A chunk has the slots that are ever live in it, which of them are live at its end, and the
//! offsets at which each changes.

use super::bits::Bits;
use super::encoding::CHUNK_BITS;
use super::slots::SlotLocation;
use super::{GcInfo, GcInfoError, Slot};
use crate::sums::SaturatingSum;

/// How execution stopped at a frame's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) enum StopKind {
    /// In a call. The offset is the return address.
    Call,
    /// Interrupted at the offset, where it will continue.
    Interrupted,
    /// Interrupted by an exception. It does not continue there.
    Aborted,
}

/// Slots with references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct LiveSlots {
    /// Live tracked slots.
    pub(in crate::runtimes::coreclr) tracked: Vec<Slot>,
    /// Untracked stack slots. They contain references or null as long as the frame exists.
    pub(in crate::runtimes::coreclr) untracked: Vec<Slot>,
    /// Whether a collection may happen at this position. If not, nothing is known about tracked slots.
    pub(in crate::runtimes::coreclr) safe: bool,
}

impl GcInfo<'_> {
    /// Returns the slots with references at `offset`, in bytes from the start of the method.
    ///
    /// # Errors
    /// If the live states are invalid.
    pub(in crate::runtimes::coreclr) fn live(&self, offset: u32, stop: StopKind) -> Result<LiveSlots, GcInfoError> {
        let version = self.encoding.version;
        let call = stop == StopKind::Call;
        let position = if call && version.within_call { offset.saturating_sub(1) } else { offset };
        // In normalized units, an offset within a call is its last instruction.
        let position = position >> self.encoding.own.code_shift;
        let point = match stop {
            StopKind::Call => self.safe_points.binary_search(&position).ok(),
            StopKind::Interrupted if version.interruptible_after_call => {
                let before_return =
                    offset.saturating_sub(u32::from(version.within_call)) >> self.encoding.own.code_shift;
                self.safe_points.binary_search(&before_return).ok()
            }
            _ => None,
        };
        let tracked = if self.slots.tracked == 0 {
            Some(Vec::new())
        } else if let Some(linear) = self.linear(position).filter(|_| point.is_none()) {
            Some(self.in_range(linear)?)
        } else {
            point.map(|point| self.at_point(point)).transpose()?
        };
        let saved = |slot: &Slot| match slot.place {
            SlotLocation::Register(number) => self.encoding.own.callee_saved >> number & 1 != 0,
            SlotLocation::Stack(..) => true,
        };
        let safe = tracked.is_some();
        let named = tracked.unwrap_or_default().into_iter().filter_map(|i| self.slots.all.get(i).copied());
        Ok(LiveSlots {
            // In a call, registers that the callee may overwrite belong to the callee.
            tracked: named.filter(|slot| stop == StopKind::Interrupted || saved(slot)).collect(),
            untracked: self.slots.all.get(self.slots.tracked..).unwrap_or_default().to_vec(),
            safe,
        })
    }

    /// Position of `offset` in the concatenated ranges.
    fn linear(&self, offset: u32) -> Option<u32> {
        let mut before = 0;
        for &(start, end) in &self.ranges {
            if (start..end).contains(&offset) {
                return Some(before + (offset - start));
            }
            before += end - start;
        }
        None
    }

    /// Reads the width of the pointers to shared live sets, which follows the table of slots. 0 if the safe points
    /// share none.
    fn pointers(&self) -> Result<(u32, Bits<'_>), GcInfoError> {
        let mut bits = self.rest;
        if self.safe_points.is_empty() || !bits.flag()? {
            return Ok((0, bits));
        }
        let width = bits.unsigned(self.encoding.own.pointer_size)?.saturating_add(1);
        if width > u32::BITS { Err(GcInfoError::Bad("pointers have more than 32 bits")) } else { Ok((width, bits)) }
    }

    fn at_point(&self, point: usize) -> Result<Vec<usize>, GcInfoError> {
        let (width, bits) = self.pointers()?;
        let (count, point) = (self.safe_points.len() as u64, point as u64);
        if width == 0 {
            return self.set(&mut bits.seek(bits.position() + point * self.slots.tracked as u64));
        }
        let table = bits.position();
        let pointer = bits.seek(table + point * u64::from(width)).read(width)?;
        let sets = (table + count * u64::from(width)).next_multiple_of(8);
        let mut bits = bits.seek(sets + u64::from(pointer));
        if bits.flag()? { self.runs(&mut bits) } else { self.set(&mut bits) }
    }

    /// Reads a set with one bit per tracked slot.
    fn set(&self, bits: &mut Bits<'_>) -> Result<Vec<usize>, GcInfoError> {
        let mut out = Vec::new();
        for slot in 0..self.slots.tracked {
            if bits.flag()? {
                out.push(slot);
            }
        }
        Ok(out)
    }

    /// Reads a set as alternating run lengths of slots outside and inside the set.
    fn runs(&self, bits: &mut Bits<'_>) -> Result<Vec<usize>, GcInfoError> {
        let own = &self.encoding.own;
        let mut inside = bits.flag()?;
        let width = |inside| if inside { own.run } else { own.skip };
        // The first bit selects the coding of the first run. That run is never in the set, and may be empty.
        let mut at = bits.unsigned(width(inside))? as usize;
        let mut out = Vec::new();
        let mut listed = true;
        while at < self.slots.tracked {
            inside = !inside;
            let end = at.saturating_add(bits.unsigned(width(inside))? as usize + 1);
            if end > self.slots.tracked {
                return Err(GcInfoError::Bad("more live slots than slots"));
            }
            if listed {
                out.extend(at..end);
            }
            (at, listed) = (end, !listed);
        }
        if at > self.slots.tracked { Err(GcInfoError::Bad("more live slots than slots")) } else { Ok(out) }
    }

    /// Live slots at a position within the ranges.
    fn in_range(&self, linear: u32) -> Result<Vec<usize>, GcInfoError> {
        let own = &self.encoding.own;
        let (width, bits) = self.pointers()?;
        // The safe points' sets come first. The runtime does not support shared sets together with ranges.
        if width != 0 {
            return Err(GcInfoError::Bad("shared live-slot sets together with ranges"));
        }
        let mut bits = bits.seek(bits.position() + self.safe_points.len() as u64 * self.slots.tracked as u64);
        let length: u32 = self.ranges.iter().map(|r| r.1 - r.0).saturating_sum();
        let chunks = length.div_ceil(1 << CHUNK_BITS);
        let width = bits.unsigned(own.pointer_size)?;
        if width == 0 {
            return Ok(Vec::new());
        }
        if width > u32::BITS {
            return Err(GcInfoError::Bad("pointers have more than 32 bits"));
        }
        let table = bits.position();
        let last = linear >> CHUNK_BITS;
        // A chunk without a pointer has the final state of the last chunk that has one.
        for chunk in (0..=last).rev() {
            let pointer = bits.seek(table + u64::from(chunk) * u64::from(width)).read(width)?;
            if pointer != 0 {
                let first = (table + u64::from(chunks) * u64::from(width)).next_multiple_of(8);
                let within = (chunk == last).then_some(linear & ((1 << CHUNK_BITS) - 1));
                return self.in_chunk(bits.seek(first + u64::from(pointer) - 1), within);
            }
        }
        Ok(Vec::new())
    }

    /// Live slots at an offset within a chunk, or at its end.
    fn in_chunk(&self, mut bits: Bits<'_>, within: Option<u32>) -> Result<Vec<usize>, GcInfoError> {
        let could = if bits.flag()? { self.runs(&mut bits)? } else { self.set(&mut bits)? };
        let mut finals = bits;
        bits.skip(could.len() as u64);
        let mut out = Vec::new();
        for slot in could {
            let mut live = finals.flag()?;
            while within.is_some() && bits.flag()? {
                let change = bits.read(CHUNK_BITS)?;
                live ^= within.is_some_and(|within| change > within);
            }
            if live {
                out.push(slot);
            }
        }
        Ok(out)
    }
}
