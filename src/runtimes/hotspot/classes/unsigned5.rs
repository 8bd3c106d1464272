//! UNSIGNED5, the packed numbers of debug information and field streams: src/hotspot/share/utilities/unsigned5.hpp,
//! and before JDK 20 code/compressedStream.cpp.

/// Bytes below this end a number.
const LOW: u32 = 192;

/// Bits that each further byte adds.
const SHIFT: u32 = 6;

/// Bytes of a number at most.
const MOST: u32 = 5;

/// Reads packed numbers one after the other.
pub(crate) struct Unsigned5<'a> {
    bytes: &'a [u8],
    /// Where the next number begins.
    pub(crate) at: usize,
    /// What each byte is higher than its digit: 1 from JDK 20 on, so that none is 0.
    bias: u32,
}

impl<'a> Unsigned5<'a> {
    /// Numbers in `bytes` from `at` on, as a VM of this major version packs them.
    pub(crate) fn new(bytes: &'a [u8], at: usize, major: u32) -> Unsigned5<'a> {
        Unsigned5 { bytes, at, bias: u32::from(major >= 20) }
    }

    /// The next byte, as it is.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next number; `None` at the end, or where it can be none.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for i in 0..MOST {
            let byte = u32::from(self.byte()?);
            let digit = byte.checked_sub(self.bias)?;
            sum = sum.wrapping_add(digit.wrapping_shl(i * SHIFT));
            // The bias moves the border too.
            if digit < LOW - self.bias {
                break;
            }
        }
        Some(sum)
    }

    /// The next number, whose lowest bit is its sign.
    pub(crate) fn signed(&mut self) -> Option<i32> {
        let value = self.next()?;
        Some((value >> 1) as i32 ^ -((value & 1) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the comments of unsigned5.hpp: with the bias 0 is one byte of 1, 190 is 191, 191 takes two.
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
        // Five bytes end whatever they are, and a zero is no digit with the bias.
        assert_eq!(all(&[255; 5], 17).len(), 1);
        assert!(all(&[0], 21).is_empty());
        assert!(all(&[200], 17).is_empty());
        let mut numbers = Unsigned5::new(&[1, 2, 3, 4], 0, 17);
        let signed: Vec<_> = std::iter::from_fn(|| numbers.signed()).collect();
        assert_eq!(signed, [-1, 1, -2, 2]);
    }
}
