//! A stream of bits, the lowest of each byte first.

use std::cell::Cell;

use super::GcInfoError;

/// Where in a stream of bits to read next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'b> {
    bytes: &'b [u8],
    at: u64,
    /// Where the last bit ends that anyone read of the stream.
    read_to: &'b Cell<u64>,
}

impl<'b> Bits<'b> {
    /// `read_to` is told where the last bit ends that is read, here or in what is made of this.
    pub(super) fn new(bytes: &'b [u8], read_to: &'b Cell<u64>) -> Bits<'b> {
        Bits { bytes, at: 0, read_to }
    }

    /// Bits from the beginning.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Bits that are left.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() as u64 * 8).saturating_sub(self.at)
    }

    /// The same stream, at a place.
    pub(super) fn seek(self, at: u64) -> Bits<'b> {
        Bits { at, ..self }
    }

    pub(super) fn skip(&mut self, count: u64) {
        self.at = self.at.saturating_add(count);
    }

    /// Up to 32 bits.
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

    /// A number in chunks of `base` bits, lowest first; one bit more of each
    /// tells whether another follows. And how many bits of it were told.
    fn chunks(&mut self, base: u32) -> Result<(u64, u32), GcInfoError> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let chunk = u64::from(self.read(base + 1)?);
            value |= (chunk & ((1 << base) - 1)) << shift;
            shift += base;
            if chunk >> base == 0 {
                return Ok((value, shift));
            }
            // 32 bits is what any of these numbers has.
            if shift > 32 {
                return Err(GcInfoError::Bad("a number has more than 32 bits"));
            }
        }
    }

    pub(super) fn unsigned(&mut self, base: u32) -> Result<u32, GcInfoError> {
        u32::try_from(self.chunks(base)?.0).map_err(|_| GcInfoError::Bad("a number has more than 32 bits"))
    }

    /// The highest bit told is the sign.
    pub(super) fn signed(&mut self, base: u32) -> Result<i32, GcInfoError> {
        let (value, told) = self.chunks(base)?;
        let value = (value << (64 - told)).cast_signed() >> (64 - told);
        i32::try_from(value).map_err(|_| GcInfoError::Bad("a number has more than 32 bits"))
    }
}
