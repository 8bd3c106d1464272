//! Progress as numbers. The library counts; the caller draws.

use std::sync::atomic::{AtomicU64, Ordering};

/// Called with the bytes done and the total (0 if unknown).
pub type Draw = Box<dyn Fn(u64, u64) + Send + Sync>;

/// A counter of processed bytes.
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    draw: Option<Draw>,
}

impl Progress {
    /// Creates a counter that is not drawn.
    pub fn silent() -> Progress {
        Progress { done: AtomicU64::new(0), total: AtomicU64::new(0), draw: None }
    }

    /// Creates a counter that calls `draw` at every step.
    pub fn drawn(draw: Draw) -> Progress {
        Progress { draw: Some(draw), ..Progress::silent() }
    }

    /// Starts a job of `total` bytes (0 if unknown).
    pub fn start(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Bytes done of the current job and its total (0 if unknown). Both are 0 before the first job.
    pub fn state(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Adds `bytes` to the bytes done.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(draw) = &self.draw {
            draw(done, self.total.load(Ordering::Relaxed));
        }
    }
}
