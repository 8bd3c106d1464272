//! Graphs of a process's heaps, stored while one command asks several questions.
//!
//! A graph takes up to about twenty bytes per object. So none is stored unless a [`GraphCacheGuard`] exists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::runtimes::api::{Roots, RuntimeId};
use crate::runtimes::graph::retained::Kept;

/// Results for one heap, with the roots they were computed from.
pub(crate) type Found = (Arc<Roots>, Kept);

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
    /// Stores graphs for as long as the returned value exists.
    pub(crate) fn keep(&self) -> GraphCacheGuard<'_> {
        self.lock().askers += 1;
        GraphCacheGuard { graphs: self }
    }

    pub(crate) fn get(&self, runtime: RuntimeId) -> Option<Found> {
        self.lock().found.get(&runtime).cloned()
    }

    /// Stores a graph, if a [`GraphCacheGuard`] exists. Otherwise `found` is not called.
    pub(crate) fn put(&self, runtime: RuntimeId, found: impl FnOnce() -> Found) {
        let mut inner = self.lock();
        if inner.askers > 0 {
            inner.found.insert(runtime, found());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic cannot leave the data half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps graphs stored while it exists. When the last one is dropped, the graphs are freed.
#[must_use]
pub(crate) struct GraphCacheGuard<'s> {
    graphs: &'s Graphs,
}

impl Drop for GraphCacheGuard<'_> {
    fn drop(&mut self) {
        let mut inner = self.graphs.lock();
        inner.askers = inner.askers.saturating_sub(1);
        if inner.askers == 0 {
            inner.found.clear();
        }
    }
}
