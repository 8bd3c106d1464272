//! Progress as numbers: the library counts, whoever runs it draws.

use std::sync::atomic::{AtomicU64, Ordering};

/// Called with (bytes done, bytes in all; 0 where unknown).
pub type Draw = Box<dyn Fn(u64, u64) + Send + Sync>;

/// A counter of bytes that long work adds to.
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    draw: Option<Draw>,
}

impl Progress {
    /// Counts and tells nobody.
    pub fn silent() -> Progress {
        Progress { done: AtomicU64::new(0), total: AtomicU64::new(0), draw: None }
    }

    /// Tells `draw` at every step.
    pub fn drawn(draw: Draw) -> Progress {
        Progress { draw: Some(draw), ..Progress::silent() }
    }

    /// Begin a piece of work of `total` bytes (0: unknown).
    pub fn start(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Bytes done of the present piece of work, and in all (0: unknown). Both 0 before the first.
    pub fn state(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// `bytes` more are done.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(draw) = &self.draw {
            draw(done, self.total.load(Ordering::Relaxed));
        }
    }
}
