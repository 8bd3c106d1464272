//! Integers and floats (Objects/longobject.c, Include/cpython/longintrepr.h).

use super::Objects;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;

/// Bits of a digit (PYLONG_BITS_IN_DIGIT): 30 on all 64-bit platforms.
const DIGIT_BITS: u32 = 30;

/// Bytes of a digit.
const DIGIT: u64 = 4;

/// Bits of `lv_tag` below the number of digits, and what the lowest two of them say (3.12 on).
const TAG_SHIFT: u32 = 3;
const SIGN_MASK: u64 = 3;
const SIGN_NEGATIVE: u64 = 2;

/// An integer as far as it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerForm {
    /// Digits of 30 bits.
    pub digits: u64,
    /// Whether it is below 0.
    pub negative: bool,
}

impl Objects<'_> {
    /// How many digits an integer has, and its sign.
    pub fn integer_form(&self, object: Addr) -> Option<IntegerForm> {
        self.integer_in(|offset| self.word_at(object, offset))
    }

    /// The same of the object whose words `word` tells by their offset.
    #[inline(always)]
    pub(crate) fn integer_in(&self, word: impl Fn(u64) -> Option<u64>) -> Option<IntegerForm> {
        if let Some(tag) = self.shape.long_tag {
            let tag = word(tag)?;
            return Some(IntegerForm { digits: tag >> TAG_SHIFT, negative: tag & SIGN_MASK == SIGN_NEGATIVE });
        }
        let size = word(self.shape.ob_size)? as i64;
        Some(IntegerForm { digits: size.unsigned_abs(), negative: size < 0 })
    }

    /// The value of an integer of up to 120 bits; the caller knows that it is one.
    pub fn integer(&self, object: Addr) -> Option<i128> {
        let form = self.integer_form(object).filter(|form| form.digits <= 4)?;
        let mut value: i128 = 0;
        for i in (0..form.digits).rev() {
            let digit = self.memory.peek_u32(object.checked_add(self.shape.long_digits + DIGIT * i)?).ok()?;
            value = value << DIGIT_BITS | i128::from(digit);
        }
        Some(if form.negative { -value } else { value })
    }

    /// An integer in words: its value, or how many bits it has.
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

    /// The value of a float; the caller knows that it is one.
    pub fn float(&self, object: Addr) -> Option<f64> {
        self.word_at(object, self.shape.float).map(f64::from_bits)
    }
}
