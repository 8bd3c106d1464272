//! Sums that cannot overflow.
//!
//! Figures come from cores, notes and texts that may contain any number, so any sum of them may exceed its type. Such a
//! sum stays at the type's limit. `tests/all/source_rules.rs` rejects `Iterator::sum`.

/// A number type with saturating addition.
pub trait Saturating: Copy {
    /// Zero.
    const ZERO: Self;

    /// The sum, or the limit of the type.
    fn plus(self, other: Self) -> Self;
}

macro_rules! saturating {
    ($($number:ty),*) => {
        $(impl Saturating for $number {
            const ZERO: $number = 0;

            #[inline(always)]
            fn plus(self, other: $number) -> $number {
                self.saturating_add(other)
            }
        })*
    };
}

saturating!(u32, u64, usize, i64, i128);

/// The sum of unknown figures is unknown.
impl<T: Saturating> Saturating for Option<T> {
    const ZERO: Option<T> = Some(T::ZERO);

    #[inline(always)]
    fn plus(self, other: Option<T>) -> Option<T> {
        Some(self?.plus(other?))
    }
}

/// Numbers that other numbers are added to.
pub trait SaturatingAdd {
    /// Adds `more`, up to the limit of the type.
    fn add_saturating(&mut self, more: Self);
}

impl<T: Saturating> SaturatingAdd for T {
    #[inline(always)]
    fn add_saturating(&mut self, more: T) {
        *self = self.plus(more);
    }
}

/// Iterators over numbers that can be added.
pub trait SaturatingSum: Iterator<Item: Saturating> + Sized {
    /// The sum of all items, or the limit of the type.
    #[inline]
    fn saturating_sum(self) -> Self::Item {
        self.fold(Self::Item::ZERO, Saturating::plus)
    }
}

impl<I: Iterator<Item: Saturating>> SaturatingSum for I {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_end_at_the_limit() {
        assert_eq!([1_u64, 2, 3].into_iter().saturating_sum(), 6);
        assert_eq!([u64::MAX, 2, u64::MAX].into_iter().saturating_sum(), u64::MAX);
        assert_eq!([i64::MIN, -1].into_iter().saturating_sum(), i64::MIN);
        assert_eq!([Some(1_u64), None].into_iter().saturating_sum(), None);
        assert_eq!([Some(1_u64), Some(2)].into_iter().saturating_sum(), Some(3));
        assert_eq!(std::iter::empty::<u32>().saturating_sum(), 0);
    }
}
