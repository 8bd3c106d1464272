//! Graphs of the heaps of a process, kept while one command asks several questions of them.
//!
//! A graph is up to some twenty bytes an object: outside of such a time none is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::runtimes::api::{Roots, RuntimeId};
use crate::runtimes::graph::retained::Kept;

/// What was found of one heap, and the roots it was found from.
pub(crate) type Found = (Arc<Roots>, Kept);

/// By runtime.
#[derive(Default)]
pub(crate) struct Graphs {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    askers: usize,
    found: BTreeMap<RuntimeId, Found>,
}

impl Graphs {
    /// Keep graphs as long as what this gives lives.
    pub(crate) fn keep(&self) -> Keeping<'_> {
        self.lock().askers += 1;
        Keeping { graphs: self }
    }

    /// What was found of the heap of that runtime, if it was kept.
    pub(crate) fn get(&self, runtime: RuntimeId) -> Option<Found> {
        self.lock().found.get(&runtime).cloned()
    }

    /// Keep this, if anybody asks for that.
    pub(crate) fn put(&self, runtime: RuntimeId, found: impl FnOnce() -> Found) {
        let mut inner = self.lock();
        if inner.askers > 0 {
            inner.found.insert(runtime, found());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is half done where a panic could have come between.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who asks for graphs to be kept; with the last of them they go.
#[must_use]
pub(crate) struct Keeping<'s> {
    graphs: &'s Graphs,
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        let mut inner = self.graphs.lock();
        inner.askers = inner.askers.saturating_sub(1);
        if inner.askers == 0 {
            inner.found.clear();
        }
    }
}
