//! Which slots hold references at a place of the code.
//!
//! For calls each safe point has its set of live slots. Where a method can be
//! interrupted anywhere, chunks of 64 offsets each have the slots that are ever
//! live in them, which are at the chunk's end, and where each changes.

use super::bits::Bits;
use super::encoding::CHUNK_BITS;
use super::slots::Place;
use super::{GcInfo, GcInfoError, Slot};

/// How a frame is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) enum At {
    /// In a call: the offset is where that returns to.
    Call,
    /// Interrupted at the offset, and goes on there.
    Interrupted,
    /// Interrupted by an exception: it does not go on there.
    Aborted,
}

/// What holds references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct Live {
    /// Tracked slots that are live.
    pub(in crate::runtimes::coreclr) tracked: Vec<Slot>,
    /// Stack slots that hold references, or null, as long as the frame is there.
    pub(in crate::runtimes::coreclr) untracked: Vec<Slot>,
    /// Whether a collection may meet the frame at this place. If not, nothing is
    /// known of the tracked slots.
    pub(in crate::runtimes::coreclr) safe: bool,
}

impl GcInfo<'_> {
    /// What holds references at `offset`, in bytes from the method's begin.
    ///
    /// # Errors
    /// Where the live states make no sense.
    pub(in crate::runtimes::coreclr) fn live(&self, offset: u32, at: At) -> Result<Live, GcInfoError> {
        let version = self.encoding.version;
        let call = at == At::Call;
        let asked = if call && version.within_call { offset.saturating_sub(1) } else { offset };
        // Scaled down, an offset within a call is that of its last instruction.
        let asked = asked >> self.encoding.own.code_shift;
        let point = match at {
            At::Call => self.safe_points.binary_search(&asked).ok(),
            At::Interrupted if version.stops_behind_calls => {
                let behind = offset.saturating_sub(u32::from(version.within_call)) >> self.encoding.own.code_shift;
                self.safe_points.binary_search(&behind).ok()
            }
            _ => None,
        };
        let tracked = if self.slots.tracked == 0 {
            Some(Vec::new())
        } else if let Some(linear) = self.linear(asked).filter(|_| point.is_none()) {
            Some(self.in_range(linear)?)
        } else {
            point.map(|point| self.at_point(point)).transpose()?
        };
        let saved = |slot: &Slot| match slot.place {
            Place::Register(number) => self.encoding.own.callee_saved >> number & 1 != 0,
            Place::Stack(..) => true,
        };
        let safe = tracked.is_some();
        let named = tracked.unwrap_or_default().into_iter().filter_map(|i| self.slots.all.get(i).copied());
        Ok(Live {
            // What a callee may overwrite is its own.
            tracked: named.filter(|slot| at == At::Interrupted || saved(slot)).collect(),
            untracked: self.slots.all.get(self.slots.tracked..).unwrap_or_default().to_vec(),
            safe,
        })
    }

    /// All ranges as one: the place of `offset` in it.
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

    /// Behind the table of slots: width of the pointers to sets that safe points
    /// share, where they do.
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

    /// A bit for each tracked slot.
    fn set(&self, bits: &mut Bits<'_>) -> Result<Vec<usize>, GcInfoError> {
        let mut out = Vec::new();
        for slot in 0..self.slots.tracked {
            if bits.flag()? {
                out.push(slot);
            }
        }
        Ok(out)
    }

    /// Lengths of runs of slots that are in the set, and of those that are not, in turn.
    fn runs(&self, bits: &mut Bits<'_>) -> Result<Vec<usize>, GcInfoError> {
        let own = &self.encoding.own;
        let mut inside = bits.flag()?;
        let width = |inside| if inside { own.run } else { own.skip };
        // What the first bit tells is the coding of the first run; that one is
        // never in the set, and may be empty.
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

    /// What is live at a place of the ranges.
    fn in_range(&self, linear: u32) -> Result<Vec<usize>, GcInfoError> {
        let own = &self.encoding.own;
        let (width, bits) = self.pointers()?;
        // The safe points' sets come first. The runtime does not expect that they
        // are shared where there are ranges too.
        if width != 0 {
            return Err(GcInfoError::Bad("shared live-slot sets together with ranges"));
        }
        let mut bits = bits.seek(bits.position() + self.safe_points.len() as u64 * self.slots.tracked as u64);
        let length: u32 = self.ranges.iter().map(|r| r.1 - r.0).sum();
        let chunks = length.div_ceil(1 << CHUNK_BITS);
        let width = bits.unsigned(own.pointer_size)?;
        if width == 0 {
            return Ok(Vec::new());
        }
        if width > u32::BITS {
            return Err(GcInfoError::Bad("pointers have more than 32 bits"));
        }
        let table = bits.position();
        let asked = linear >> CHUNK_BITS;
        // A chunk without a pointer is as the end of the last one that has one.
        for chunk in (0..=asked).rev() {
            let pointer = bits.seek(table + u64::from(chunk) * u64::from(width)).read(width)?;
            if pointer != 0 {
                let first = (table + u64::from(chunks) * u64::from(width)).next_multiple_of(8);
                let within = (chunk == asked).then_some(linear & ((1 << CHUNK_BITS) - 1));
                return self.in_chunk(bits.seek(first + u64::from(pointer) - 1), within);
            }
        }
        Ok(Vec::new())
    }

    /// What is live at an offset within a chunk, or at its end.
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
