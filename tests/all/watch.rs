//! Limits on a mutant: memory, counted by the allocator, and processor time, with a
//! thread that ends the whole run where a mutant does not end.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::support::cpu;

/// Processor time, much longer than any takes; a mutant that reaches it is slow.
pub const MOST: Duration = Duration::from_secs(20);

/// A mutant that reaches it will not end.
const HANGS: Duration = Duration::from_secs(120);

/// The same on the wall, for one that waits for ever.
const BLOCKED: Duration = Duration::from_secs(30 * 60);

/// Bytes that its thread may hold above what it held when a mutant began: the cores are small.
pub const MEMORY: isize = 512 << 20;

thread_local! {
    /// What this thread has allocated and not given back. Below 0 where it gave back what others had.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts the bytes that each thread holds, so that tests which run side by side are not
/// taken for one.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grown(bytes: usize) {
    let held = HELD.get() + bytes as isize;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

fn shrunk(bytes: usize) {
    HELD.set(HELD.get() - bytes as isize);
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
        shrunk(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        shrunk(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// All work of this thread is done by itself, also what a pool would share out, so
/// that its processor time is that of its mutants. Other tests run beside it anyway.
pub fn alone() {
    thread_local! {
        static POOL: rayon::ThreadPool =
            rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
    }
    POOL.with(|pool| assert_eq!(pool.current_num_threads(), 1));
}

/// One mutant under watch.
pub struct Watch {
    begun: Duration,
    held: isize,
    id: u64,
}

/// A mutant that was begun, and by which thread.
struct Running {
    wall: Instant,
    cpu: Duration,
    tid: Pid,
    name: String,
}

fn running() -> &'static Mutex<BTreeMap<u64, Running>> {
    static RUNNING: OnceLock<Mutex<BTreeMap<u64, Running>>> = OnceLock::new();
    RUNNING.get_or_init(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let running = running().lock().unwrap_or_else(PoisonError::into_inner);
                for r in running.values() {
                    if cpu::of_thread(r.tid).saturating_sub(r.cpu) > HANGS || r.wall.elapsed() > BLOCKED {
                        eprintln!("hangs: {}", r.name);
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
        alone();
        let id = NEXT.fetch_add(1, Ordering::Relaxed) as u64;
        let begun = cpu::of_this_thread();
        let this = Running { wall: Instant::now(), cpu: begun, tid: rustix::thread::gettid(), name };
        running().lock().unwrap_or_else(PoisonError::into_inner).insert(id, this);
        let held = HELD.get();
        PEAK.set(held);
        Watch { begun, held, id }
    }

    /// The processor time since it began.
    pub fn took(&self) -> Duration {
        cpu::of_this_thread() - self.begun
    }

    /// What it took too much of, and the bytes it took at most.
    pub fn end(self) -> (Option<String>, isize) {
        running().lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        let bytes = PEAK.get() - self.held;
        let why = if self.took() > MOST {
            Some(format!("took {:?} of processor time", self.took()))
        } else if bytes > MEMORY {
            Some(format!("took {bytes} bytes of memory"))
        } else {
            None
        };
        (why, bytes)
    }
}
