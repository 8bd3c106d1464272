//! A bit stream, lowest bit of each byte first.

use std::cell::Cell;

use super::GcInfoError;

/// A read position in a bit stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'b> {
    bytes: &'b [u8],
    at: u64,
    /// End of the last bit that was read from the stream, by any copy of this reader.
    read_to: &'b Cell<u64>,
}

impl<'b> Bits<'b> {
    /// A reader at the start of `bytes`. It updates `read_to`, and so do its copies.
    pub(super) fn new(bytes: &'b [u8], read_to: &'b Cell<u64>) -> Bits<'b> {
        Bits { bytes, at: 0, read_to }
    }

    /// Bits read so far.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Remaining bits.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() as u64 * 8).saturating_sub(self.at)
    }

    /// A reader of the same stream at bit `at`.
    pub(super) fn seek(self, at: u64) -> Bits<'b> {
        Bits { at, ..self }
    }

    pub(super) fn skip(&mut self, count: u64) {
        self.at = self.at.saturating_add(count);
    }

    /// Reads up to 32 bits.
    pub(super) fn read(&mut self, count: u32) -> Result<u32, GcInfoError> {
        let (first, shift) = ((self.at / 8) as usize, self.at % 8);
        let end = self.at.checked_add(u64::from(count)).ok_or(GcInfoError::End)?;
        if count > 32 || end > self.bytes.len() as u64 * 8 {
            return Err(GcInfoError::End);
        }
        let mut window = [0; 8];
        let bytes = self.bytes.get(first..).unwrap_or_default();
        window.iter_mut().zip(bytes).for_each(|(w, b)| *w = *b);
        self.at = end;
        self.read_to.set(self.read_to.get().max(end));
        Ok((u64::from_le_bytes(window) >> shift & ((1 << count) - 1)) as u32)
    }

    pub(super) fn flag(&mut self) -> Result<bool, GcInfoError> {
        Ok(self.read(1)? != 0)
    }

    /// Reads a number in chunks of `base` bits, lowest first. One more bit per chunk says whether another follows.
    /// Returns the number and its width in bits.
    fn chunks(&mut self, base: u32) -> Result<(u64, u32), GcInfoError> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let chunk = u64::from(self.read(base + 1)?);
            value |= (chunk & ((1 << base) - 1)) << shift;
            shift += base;
            if chunk >> base == 0 {
                return Ok((value, shift));
            }
            // All of these numbers have at most 32 bits.
            if shift > 32 {
                return Err(GcInfoError::Bad("a number has more than 32 bits"));
            }
        }
    }

    pub(super) fn unsigned(&mut self, base: u32) -> Result<u32, GcInfoError> {
        u32::try_from(self.chunks(base)?.0).map_err(|_| GcInfoError::Bad("a number has more than 32 bits"))
    }

    /// Reads a signed number. Its highest encoded bit is the sign.
    pub(super) fn signed(&mut self, base: u32) -> Result<i32, GcInfoError> {
        let (value, bits) = self.chunks(base)?;
        let value = (value << (64 - bits)).cast_signed() >> (64 - bits);
        i32::try_from(value).map_err(|_| GcInfoError::Bad("a number has more than 32 bits"))
    }
}
