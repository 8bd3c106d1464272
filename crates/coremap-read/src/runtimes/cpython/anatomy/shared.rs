//! Data shared by the threads of a parallel walk, and data of each thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::AddrRange;
use crate::runtimes::api::anatomy::Meaning;
use crate::runtimes::api::{BlockHeap as _, TypeIndex};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::PyType;

/// A set of block numbers that many threads add to.
pub(super) struct BlockSet(Vec<AtomicU64>);

impl BlockSet {
    /// Creates an empty set for numbers below `of`.
    pub(super) fn new(of: usize) -> BlockSet {
        BlockSet((0..of.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
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
pub(super) struct TypeCache<'h> {
    heap: &'h Heap<'h>,
    known: Vec<Option<(Option<Arc<PyType>>, u64)>>,
}

impl<'h> TypeCache<'h> {
    pub(super) fn new(heap: &'h Heap<'h>) -> TypeCache<'h> {
        TypeCache { heap, known: Vec::new() }
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
const BATCH: usize = 1 << 10;

type Visit<'v> = Mutex<&'v mut (dyn FnMut(AddrRange, Meaning) + Send)>;

/// Collects ranges of one thread, and passes them on to the shared receiver.
pub(super) struct BatchedVisit<'a, 'v> {
    visit: &'a Visit<'v>,
    pending: Vec<(AddrRange, Meaning)>,
}

impl<'a, 'v> BatchedVisit<'a, 'v> {
    pub(super) fn new(visit: &'a Visit<'v>) -> BatchedVisit<'a, 'v> {
        BatchedVisit { visit, pending: Vec::new() }
    }

    /// Adds a range. It is passed on with the next batch.
    pub(super) fn add(&mut self, bytes: AddrRange, meaning: Meaning) {
        self.pending.push((bytes, meaning));
        if self.pending.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let mut visit = self.visit.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.drain(..).for_each(|(bytes, meaning)| visit(bytes, meaning));
    }
}

impl Drop for BatchedVisit<'_, '_> {
    fn drop(&mut self) {
        self.flush();
    }
}
