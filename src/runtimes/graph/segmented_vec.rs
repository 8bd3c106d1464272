//! A growing list of numbers that never moves its elements.

use crate::core::mapped::table::Number;
use crate::runtimes::graph::budget::{GraphError, Room, Table};

/// Number of elements in a piece.
pub(super) const PIECE: usize = 1 << 20;

/// A list of numbers in tables of a fixed size. Growth adds a table and moves nothing.
pub(super) struct Pieces<T> {
    room: Room,
    all: Vec<Table<T>>,
    len: usize,
}

impl<T: Number + Copy> Pieces<T> {
    pub(super) fn new(room: &Room) -> Pieces<T> {
        Pieces { room: room.clone(), all: Vec::new(), len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a number.
    ///
    /// # Errors
    /// [`GraphError::NoRoom`]
    #[inline(always)]
    pub(super) fn push(&mut self, number: T) -> Result<(), GraphError> {
        let at = self.len % PIECE;
        if at == 0 {
            self.all.push(self.room.table(PIECE)?);
        }
        if let Some(place) = self.all.last_mut().and_then(|piece| piece.get_mut(at)) {
            *place = number;
        }
        self.len += 1;
        Ok(())
    }

    /// Appends all `numbers`.
    ///
    /// # Errors
    /// [`GraphError::NoRoom`]
    pub(super) fn extend(&mut self, numbers: impl IntoIterator<Item = T>) -> Result<(), GraphError> {
        numbers.into_iter().try_for_each(|number| self.push(number))
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Option<T> {
        self.all.get(at / PIECE)?.get(at % PIECE).copied()
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.all.get_mut(at / PIECE)?.get_mut(at % PIECE)
    }

    pub(super) fn change(&mut self, change: impl Fn(T) -> T) {
        let all = self.all.iter_mut().flat_map(|piece| piece.iter_mut()).take(self.len);
        all.for_each(|number| *number = change(*number));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.all.iter().flat_map(|piece| piece.iter().copied()).take(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_came_is_there() -> Result<(), GraphError> {
        // The second piece exceeds the budget.
        let room = Room::of(4 * PIECE as u64 + 1);
        let mut pieces: Pieces<u32> = Pieces::new(&room);
        let count = PIECE as u32 + 5;
        pieces.push(7)?;
        pieces.extend(1..count)?;
        assert_eq!((pieces.len(), room.in_files()), (count as usize, 4 * PIECE as u64));
        assert_eq!((pieces.get(0), pieces.get(PIECE + 4)), (Some(7), Some(count - 1)));
        if let Some(last) = pieces.get_mut(PIECE + 4) {
            *last = 9;
        }
        assert!(pieces.iter().eq([7].into_iter().chain(1..count - 1).chain([9])));
        pieces.change(|number| number + 1);
        assert!(pieces.iter().eq([8].into_iter().chain(2..count).chain([10])));
        Ok(())
    }
}
