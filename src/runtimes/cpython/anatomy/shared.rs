//! Data shared by the threads of a parallel walk, and data of each thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::AddrRange;
use crate::runtimes::api::anatomy::Meaning;
use crate::runtimes::api::{BlockHeap as _, TypeIndex};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::PyType;

/// A set of block numbers that many threads add to.
pub(super) struct Numbers(Vec<AtomicU64>);

impl Numbers {
    /// Creates an empty set for numbers below `of`.
    pub(super) fn new(of: usize) -> Numbers {
        Numbers((0..of.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn add(&self, number: usize) {
        if let Some(bits) = self.0.get(number / 64) {
            bits.fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|bits| bits.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
    }
}

/// Types by index. Each thread queries them once.
pub(super) struct Kinds<'h> {
    heap: &'h Heap<'h>,
    known: Vec<Option<(Option<Arc<PyType>>, u64)>>,
}

impl<'h> Kinds<'h> {
    pub(super) fn new(heap: &'h Heap<'h>) -> Kinds<'h> {
        Kinds { heap, known: Vec::new() }
    }

    /// The type, if `kind` is one of objects, and the number of bytes before its objects.
    pub(super) fn of(&mut self, kind: TypeIndex) -> (Option<Arc<PyType>>, u64) {
        let i = kind.0 as usize;
        if i >= self.known.len() {
            self.known.resize(i + 1, None);
        }
        let ask = || (self.heap.type_of_kind(kind), self.heap.prefix(kind));
        self.known.get_mut(i).map_or_else(ask, |known| known.get_or_insert_with(ask).clone())
    }
}

/// Number of ranges passed on together.
const TOGETHER: usize = 1 << 10;

type Visit<'v> = Mutex<&'v mut (dyn FnMut(AddrRange, Meaning) + Send)>;

/// Collects ranges of one thread, and passes them on to the shared receiver.
pub(super) struct Shared<'a, 'v> {
    visit: &'a Visit<'v>,
    held: Vec<(AddrRange, Meaning)>,
}

impl<'a, 'v> Shared<'a, 'v> {
    pub(super) fn new(visit: &'a Visit<'v>) -> Shared<'a, 'v> {
        Shared { visit, held: Vec::new() }
    }

    /// Adds a range. It is passed on with the next batch.
    pub(super) fn add(&mut self, bytes: AddrRange, part: Meaning) {
        self.held.push((bytes, part));
        if self.held.len() >= TOGETHER {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let mut visit = self.visit.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.drain(..).for_each(|(bytes, part)| visit(bytes, part));
    }
}

impl Drop for Shared<'_, '_> {
    fn drop(&mut self) {
        self.tell();
    }
}
