//! UNSIGNED5, the packed numbers of debug information and field streams: src/hotspot/share/utilities/unsigned5.hpp, and
//! before JDK 20 code/compressedStream.cpp.

/// A byte below this ends a number.
const LOW: u32 = 192;

/// Number of bits that each further byte adds.
const SHIFT: u32 = 6;

/// Maximum number of bytes per number.
const MOST: u32 = 5;

/// Reads consecutive packed numbers.
pub(crate) struct Unsigned5<'a> {
    bytes: &'a [u8],
    /// Index of the next number.
    pub(crate) at: usize,
    /// The bias of each byte: 1 from JDK 20 on, so that no byte is 0.
    bias: u32,
}

impl<'a> Unsigned5<'a> {
    /// Makes a reader of the numbers in `bytes` from index `at` on, as packed by a VM of this major version.
    pub(crate) fn new(bytes: &'a [u8], at: usize, major: u32) -> Unsigned5<'a> {
        Unsigned5 { bytes, at, bias: u32::from(major >= 20) }
    }

    /// Returns the next byte unchanged.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Returns the next number. `None` at the end, or if the bytes are invalid.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for i in 0..MOST {
            let byte = u32::from(self.byte()?);
            let digit = byte.checked_sub(self.bias)?;
            sum = sum.wrapping_add(digit.wrapping_shl(i * SHIFT));
            // The bias applies to the limit too.
            if digit < LOW - self.bias {
                break;
            }
        }
        Some(sum)
    }

    /// Returns the next signed number. The lowest bit is the sign.
    pub(crate) fn signed(&mut self) -> Option<i32> {
        let value = self.next()?;
        Some((value >> 1) as i32 ^ -((value & 1) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the comments of unsigned5.hpp: with the bias, 0 is the byte 1, 190 is 191, and 191 takes two bytes.
    #[test]
    fn as_the_jdk_packs() {
        let all = |bytes: &[u8], major| {
            let mut numbers = Unsigned5::new(bytes, 0, major);
            std::iter::from_fn(move || numbers.next()).collect::<Vec<_>>()
        };
        assert_eq!(all(&[1, 191, 192, 1], 21), [0, 190, 191]);
        assert_eq!(all(&[0, 191, 192, 0], 17), [0, 191, 192]);
        // 192 + 1 * 64
        assert_eq!(all(&[192, 1], 17), [256]);
        assert_eq!(all(&[192, 2], 21), [191 + 64]);
        // Five bytes always end a number, and a zero byte is invalid with the bias.
        assert_eq!(all(&[255; 5], 17).len(), 1);
        assert!(all(&[0], 21).is_empty());
        assert!(all(&[200], 17).is_empty());
        let mut numbers = Unsigned5::new(&[1, 2, 3, 4], 0, 17);
        let signed: Vec<_> = std::iter::from_fn(|| numbers.signed()).collect();
        assert_eq!(signed, [-1, 1, -2, 2]);
    }
}
