//! A growing list of numbers that never moves its elements.

use crate::core::mapped::table::Number;
use crate::runtimes::graph::budget::{GraphError, MemoryBudget, Table};

/// Number of elements in a piece.
pub(super) const SEGMENT: usize = 1 << 20;

/// A list of numbers in tables of a fixed size. Growth adds a table and moves nothing.
pub(super) struct SegmentedVec<T> {
    budget: MemoryBudget,
    segments: Vec<Table<T>>,
    len: usize,
}

impl<T: Number + Copy> SegmentedVec<T> {
    pub(super) fn new(budget: &MemoryBudget) -> SegmentedVec<T> {
        SegmentedVec { budget: budget.clone(), segments: Vec::new(), len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a number.
    ///
    /// # Errors
    /// [`GraphError::NoSpace`]
    #[inline(always)]
    pub(super) fn push(&mut self, number: T) -> Result<(), GraphError> {
        let at = self.len % SEGMENT;
        if at == 0 {
            self.segments.push(self.budget.table(SEGMENT)?);
        }
        if let Some(place) = self.segments.last_mut().and_then(|piece| piece.get_mut(at)) {
            *place = number;
        }
        self.len += 1;
        Ok(())
    }

    /// Appends all `numbers`.
    ///
    /// # Errors
    /// [`GraphError::NoSpace`]
    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = T>) -> Result<(), GraphError> {
        numbers.into_iter().try_for_each(|number| self.push(number))
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Option<T> {
        self.segments.get(at / SEGMENT)?.get(at % SEGMENT).copied()
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.segments.get_mut(at / SEGMENT)?.get_mut(at % SEGMENT)
    }

    pub(super) fn map_in_place(&mut self, change: impl Fn(T) -> T) {
        let all = self.segments.iter_mut().flat_map(|piece| piece.iter_mut()).take(self.len);
        all.for_each(|number| *number = change(*number));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.segments.iter().flat_map(|piece| piece.iter().copied()).take(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_came_is_there() -> Result<(), GraphError> {
        // The second piece exceeds the budget.
        let budget = MemoryBudget::new(4 * SEGMENT as u64 + 1);
        let mut pieces: SegmentedVec<u32> = SegmentedVec::new(&budget);
        let count = SEGMENT as u32 + 5;
        pieces.push(7)?;
        pieces.extend(1..count)?;
        assert_eq!((pieces.len(), budget.in_files()), (count as usize, 4 * SEGMENT as u64));
        assert_eq!((pieces.get(0), pieces.get(SEGMENT + 4)), (Some(7), Some(count - 1)));
        if let Some(last) = pieces.get_mut(SEGMENT + 4) {
            *last = 9;
        }
        assert!(pieces.iter().eq([7].into_iter().chain(1..count - 1).chain([9])));
        pieces.map_in_place(|number| number + 1);
        assert!(pieces.iter().eq([8].into_iter().chain(2..count).chain([10])));
        Ok(())
    }
}
