//! Integers and floats (Objects/longobject.c, Include/cpython/longintrepr.h).

use super::Objects;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// Bits per digit (PYLONG_BITS_IN_DIGIT): 30 on all 64-bit platforms.
const DIGIT_BITS: u32 = 30;

/// Size of a digit in bytes.
const DIGIT: u64 = 4;

/// In `lv_tag`: the shift of the number of digits, and the sign in the lowest two bits. Since 3.12.
const TAG_SHIFT: u32 = 3;
const SIGN_MASK: u64 = 3;
const SIGN_NEGATIVE: u64 = 2;

/// Size and sign of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerForm {
    /// Number of 30-bit digits.
    pub digits: u64,
    /// Whether the integer is negative.
    pub negative: bool,
}

impl Objects<'_> {
    /// Number of digits and sign of an integer.
    pub fn integer_form(&self, object: Addr) -> Option<IntegerForm> {
        self.integer_in(|offset| self.word_at(object, offset))
    }

    /// Like [`Objects::integer_form`], reading words through `word` by their offset.
    #[inline(always)]
    pub(crate) fn integer_in(&self, word: impl Fn(u64) -> Option<u64>) -> Option<IntegerForm> {
        if let Some(tag) = self.shape.long_tag {
            let tag = word(tag)?;
            return Some(IntegerForm { digits: tag >> TAG_SHIFT, negative: tag & SIGN_MASK == SIGN_NEGATIVE });
        }
        let size = word(self.shape.ob_size)? as i64;
        Some(IntegerForm { digits: size.unsigned_abs(), negative: size < 0 })
    }

    /// Value of the integer at `object`, which must be one. `None` if it has more than 120 bits.
    pub fn integer(&self, object: Addr) -> Option<i128> {
        let form = self.integer_form(object).filter(|form| form.digits <= 4)?;
        let mut value: i128 = 0;
        for i in (0..form.digits).rev() {
            let digit = self.memory.peek_u32(object.checked_add(self.shape.long_digits + DIGIT * i)?).ok()?;
            value = value << DIGIT_BITS | i128::from(digit);
        }
        Some(if form.negative { -value } else { value })
    }

    /// Text of an integer: its value, or its approximate number of bits.
    pub fn integer_text(&self, object: Addr) -> Option<String> {
        match self.integer(object) {
            Some(value) => Some(value.to_string()),
            None => {
                let digits = self.integer_form(object)?.digits;
                let bits = digits.min(limits::MAX_PY_DIGITS) * u64::from(DIGIT_BITS);
                (digits <= limits::MAX_PY_DIGITS).then(|| format!("an integer of about {bits} bits"))
            }
        }
    }

    /// Value of the float at `object`, which must be one.
    pub fn float(&self, object: Addr) -> Option<f64> {
        self.word_at(object, self.shape.float).map(f64::from_bits)
    }
}
