//! Graphs of a process's heaps, stored while one command asks several questions.
//!
//! A graph takes up to about twenty bytes per object. So none is stored unless a [`CacheGuard`] exists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::runtimes::api::{Roots, RuntimeId};
use crate::runtimes::graph::retained::CachedGraph;

/// Results for one heap, with the roots they were computed from.
pub(crate) type CachedEntry = (Arc<Roots>, CachedGraph);

#[derive(Default)]
#[doc(hidden)]
pub struct GraphCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    guards: usize,
    found: BTreeMap<RuntimeId, CachedEntry>,
}

impl GraphCache {
    /// Stores graphs for as long as the returned value exists.
    pub(crate) fn guard(&self) -> CacheGuard<'_> {
        self.lock().guards += 1;
        CacheGuard { graphs: self }
    }

    pub(crate) fn get(&self, runtime: RuntimeId) -> Option<CachedEntry> {
        self.lock().found.get(&runtime).cloned()
    }

    /// Stores a graph, if a [`CacheGuard`] exists. Otherwise `found` is not called.
    pub(crate) fn put(&self, runtime: RuntimeId, found: impl FnOnce() -> CachedEntry) {
        let mut inner = self.lock();
        if inner.guards > 0 {
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
#[doc(hidden)]
pub struct CacheGuard<'s> {
    graphs: &'s GraphCache,
}

impl Drop for CacheGuard<'_> {
    fn drop(&mut self) {
        let mut inner = self.graphs.lock();
        inner.guards = inner.guards.saturating_sub(1);
        if inner.guards == 0 {
            inner.found.clear();
        }
    }
}
