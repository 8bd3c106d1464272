//! Contents of a deque: a linked list of blocks, left to right (Modules/_collectionsmodule.c).

use std::cell::Cell;

use super::owned::OwnedKind;
use super::source::word;
use super::visit::{RawReference, Visit, Visitor};
use crate::addr::{Addr, WORD};
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;

/// Position in a deque.
#[derive(Clone, Copy, Debug)]
struct DequePosition {
    deque: u64,
    block: u64,
    /// Number of blocks before this one (`number`), and of objects in them (`before`).
    number: u64,
    before: u64,
    /// Index of the first used slot.
    index: u64,
}

/// The last position in a deque. Without it, continuing in a long deque would follow its list from the start again.
pub(super) struct Cursor {
    position: Cell<Option<DequePosition>>,
    walks: Walks,
}

impl Cursor {
    /// Creates a cursor. `bytes`: size of the process's memory, which bounds the number of steps.
    pub(super) fn new(bytes: u64) -> Cursor {
        // Allows visiting all possible blocks a few times.
        let max_steps = (bytes >> 3).clamp(1 << 12, limits::MAX_PY_DEQUE_BLOCKS as u64);
        Cursor { position: Cell::new(None), walks: Walks::new(Phase::References, max_steps as usize) }
    }
}

impl Visitor<'_, '_> {
    /// Visits the items from left to right, and then the blocks.
    pub(super) fn deque<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        first: u64,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let Some(shape) = self.objects.shape.deque else { return true };
        let get = |at| word(words, at).unwrap_or(0);
        let (right, count) = (get(shape.right), get(self.objects.shape.ob_size));
        let room = shape.right_link.saturating_sub(shape.data) / WORD;
        let start =
            DequePosition { deque: at, block: get(shape.left), number: 0, before: 0, index: get(shape.left_index) };
        let known = |reached: &dyn Fn(&DequePosition) -> bool| {
            self.cursor.position.get().filter(|place| place.deque == at && reached(place)).unwrap_or(start)
        };
        let next = |place: DequePosition, words: &[[u8; 8]]| DequePosition {
            block: if place.block == right { 0 } else { word(words, shape.right_link).unwrap_or(0) },
            number: place.number + 1,
            before: place.before.saturating_add(room.saturating_sub(place.index)),
            index: 0,
            ..place
        };
        let mut place = known(&|place| place.before <= first);
        let mut walk = self.cursor.walks.begin_cycle_only();
        while place.block != 0 && place.before < count && walk.step(Addr::new(place.block)).is_ok() {
            self.cursor.position.set(Some(place));
            let words = self.source.words(place.block, shape.block);
            let used = room.saturating_sub(place.index).min(count - place.before);
            for i in first.saturating_sub(place.before)..used {
                let value = word(words, shape.data.saturating_add((place.index + i) * WORD)).unwrap_or(0);
                if !visit.item(place.before + i, value) {
                    return false;
                }
            }
            place = next(place, words);
        }
        // The blocks come after all items, so that each position has one meaning.
        let first = first.saturating_sub(count);
        let mut place = known(&|place| place.number <= first);
        let mut walk = self.cursor.walks.begin_cycle_only();
        while place.block != 0 && walk.step(Addr::new(place.block)).is_ok() {
            self.cursor.position.set(Some(place));
            let words = self.source.words(place.block, shape.block);
            let offset = visit.basicsize.saturating_add(count.saturating_add(place.number).saturating_mul(WORD));
            if place.number >= first && !visit.memory(offset, OwnedKind::DequeBlock, place.block, shape.block) {
                return false;
            }
            place = next(place, words);
        }
        true
    }
}
