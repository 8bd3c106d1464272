//! Limits on a mutant: memory, counted by the allocator, and time, by a thread
//! that ends the whole run where a mutant hangs.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Much longer than any takes; a mutant that reaches it is slow.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A mutant that reaches it will not end.
const HANGS: Duration = Duration::from_secs(120);

/// Bytes that this process may hold above what it held when a mutant began: the
/// cores are small. Tests that run beside it count too.
pub const MEMORY: usize = 512 << 20;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes that are held.
pub struct Counting;

fn grown(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: all is done by the system's allocator; numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// One mutant under watch.
pub struct Watch {
    begun: Instant,
    held: usize,
    id: u64,
}

type Running = Mutex<BTreeMap<u64, (Instant, String)>>;

fn running() -> &'static Running {
    static RUNNING: OnceLock<Running> = OnceLock::new();
    RUNNING.get_or_init(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let running = running().lock().unwrap_or_else(PoisonError::into_inner);
                for (begun, name) in running.values() {
                    if begun.elapsed() > HANGS {
                        eprintln!("hangs: {name}");
                        std::process::abort();
                    }
                }
            }
        });
        Mutex::default()
    })
}

impl Watch {
    /// Watch what begins now.
    pub fn begin(name: String) -> Watch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed) as u64;
        running().lock().unwrap_or_else(PoisonError::into_inner).insert(id, (Instant::now(), name));
        let held = LIVE.load(Ordering::Relaxed);
        PEAK.store(held, Ordering::Relaxed);
        Watch { begun: Instant::now(), held, id }
    }

    /// What it took too much of, and the bytes it took at most.
    pub fn end(self) -> (Option<String>, usize) {
        running().lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        let took = PEAK.load(Ordering::Relaxed).saturating_sub(self.held);
        let why = if self.begun.elapsed() > DEADLINE {
            Some(format!("took {:?}", self.begun.elapsed()))
        } else if took > MEMORY {
            Some(format!("took {took} bytes of memory"))
        } else {
            None
        };
        (why, took)
    }
}
