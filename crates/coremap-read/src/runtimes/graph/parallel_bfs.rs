//! Parallel breadth-first search with the result of a sequential one.
//!
//! One thread takes the queue in order and decides which objects are new. So the first visit to an object, and the
//! parent it is visited from, do not depend on the number of threads. The slow part is reading the references of queued
//! objects, because they are anywhere in memory. All threads do that ahead of the queue, in batches of a few hundred
//! objects. Queues can be short and levels many (parallel lists). So idle threads spin for a while before they sleep,
//! and take work without a system call.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// Maximum number of objects in a batch.
const BATCH: usize = 256;

/// Minimum number of objects that are worth offering to another thread.
const MIN_OFFERED: usize = 64;

/// Number of batches in the ring: they are read ahead of the one being processed.
const RING: usize = 32;

/// Failed attempts to find work after which a helper yields its processor, and after which it sleeps.
const YIELD_AFTER: u32 = 1 << 8;
const SLEEP_AFTER: u32 = 1 << 12;

pub(super) trait Traversal {
    /// A queued object.
    type Queued: Send;
    /// References of a batch of queued objects.
    type Refs: Default + Send;

    /// Appends the next queued objects to `out`, until it has `limit`.
    fn take_queued(&mut self, limit: usize, out: &mut Vec<Self::Queued>);

    /// Processes the references of a batch. Returns whether to continue.
    fn process(&mut self, all: &[Self::Queued], looked: &Self::Refs) -> bool;
}

/// States of a batch: unused, ready to be read, being read, read, too small to be read by another thread.
const FREE: u8 = 0;
const READY: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;
const SMALL: u8 = 4;

/// A batch of queued objects, with their references once read.
struct Batch<S: Traversal> {
    state: AtomicU8,
    inner: Mutex<(Vec<S::Queued>, S::Refs)>,
}

impl<S: Traversal> Batch<S> {
    fn new() -> Batch<S> {
        Batch { state: AtomicU8::new(FREE), inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<S::Queued>, S::Refs)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the batch for the calling thread. Returns false if it is not ready to be read.
    fn claim(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READY
            && self.state.compare_exchange(READY, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn read(&self, look: &mut impl FnMut(&[S::Queued], &mut S::Refs)) {
        let mut inner = self.lock();
        let (all, looked) = &mut *inner;
        look(all, looked);
        drop(inner);
        self.state.store(DONE, Ordering::Release);
    }
}

struct Ring<S: Traversal> {
    batches: Vec<Batch<S>>,
    /// Lower bound for the number of the first batch to be read. Only a hint.
    first: AtomicUsize,
    done: AtomicBool,
    asleep: AtomicUsize,
}

/// Runs the search until the queue is empty or `take` returns false. `looker` is called once per thread and creates the
/// function that reads references.
pub(super) fn run<S: Traversal, L: FnMut(&[S::Queued], &mut S::Refs)>(search: &mut S, looker: impl Fn() -> L + Sync) {
    let shared: Ring<S> = Ring {
        batches: (0..RING).map(|_| Batch::new()).collect(),
        first: AtomicUsize::new(0),
        done: AtomicBool::new(false),
        asleep: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let mut helpers: Vec<Thread> = Vec::new();
        let mut look = looker();
        // Helper threads are started when there is work for them.
        let mut helped = false;
        let (mut head, mut tail) = (0_usize, 0_usize);
        let batch = |number: usize| shared.batches.get(number % RING);
        loop {
            while tail - head < RING
                && let Some(free) = batch(tail)
            {
                let mut inner = free.lock();
                inner.0.clear();
                search.take_queued(BATCH, &mut inner.0);
                let count = inner.0.len();
                drop(inner);
                if count == 0 {
                    break;
                }
                let alone = count < MIN_OFFERED;
                free.state.store(if alone { SMALL } else { READY }, Ordering::Release);
                tail += 1;
                if alone {
                    // Too few objects to offer. More may be queued by the time this batch is due.
                    break;
                }
            }
            if head == tail {
                break;
            }
            if !helped && tail - head > 1 {
                helped = true;
                for _ in 1..rayon::current_num_threads() {
                    let (shared, looker) = (&shared, &looker);
                    let help = move || help(shared, looker());
                    // If no thread can be started, this one does all the work.
                    if let Ok(started) = thread::Builder::new().name("scan".into()).spawn_scoped(scope, help) {
                        helpers.push(started.thread().clone());
                    }
                }
            }
            if shared.asleep.load(Ordering::Relaxed) > 0 && tail - head > 1 {
                helpers.iter().for_each(Thread::unpark);
            }
            shared.first.store(head, Ordering::Relaxed);
            let Some(own) = batch(head) else { break };
            match own.state.load(Ordering::Acquire) {
                DONE => {}
                SMALL => own.read(&mut look),
                _ if own.claim() => own.read(&mut look),
                _ => {
                    // A helper is reading it. Read another batch meanwhile.
                    match (head + 1..tail).filter_map(batch).find(|batch| batch.claim()) {
                        Some(other) => other.read(&mut look),
                        None => std::hint::spin_loop(),
                    }
                    continue;
                }
            }
            let inner = own.lock();
            let goes_on = search.process(&inner.0, &inner.1);
            drop(inner);
            own.state.store(FREE, Ordering::Release);
            head += 1;
            if !goes_on {
                break;
            }
        }
        shared.done.store(true, Ordering::Release);
        helpers.iter().for_each(Thread::unpark);
    });
}

fn help<S: Traversal>(shared: &Ring<S>, mut look: impl FnMut(&[S::Queued], &mut S::Refs)) {
    let mut idle = 0_u32;
    while !shared.done.load(Ordering::Acquire) {
        let first = shared.first.load(Ordering::Relaxed);
        let mut parts = (first..first + RING).filter_map(|number| shared.batches.get(number % RING));
        if let Some(batch) = parts.find(|batch| batch.claim()) {
            batch.read(&mut look);
            idle = 0;
            continue;
        }
        idle += 1;
        if idle < YIELD_AFTER {
            std::hint::spin_loop();
        } else if idle < SLEEP_AFTER {
            thread::yield_now();
        } else {
            shared.asleep.fetch_add(1, Ordering::Relaxed);
            // A wake-up that came before `asleep` was incremented is lost. The search thread sends another soon.
            thread::park_timeout(std::time::Duration::from_millis(1));
            shared.asleep.fetch_sub(1, Ordering::Relaxed);
            idle = YIELD_AFTER;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph of numbers below [`COUNT`], each with three successors.
    struct Numbers {
        met: Vec<bool>,
        queue: Vec<(usize, usize)>,
        head: usize,
    }

    const COUNT: usize = 50_000;

    fn from(number: usize) -> [usize; 3] {
        [(number * 7 + 1) % COUNT, (number * 31 + 5) % COUNT, number / 2]
    }

    impl Traversal for Numbers {
        type Queued = usize;
        type Refs = Vec<[usize; 3]>;

        fn take_queued(&mut self, limit: usize, out: &mut Vec<usize>) {
            let queued = self.queue.iter().skip(self.head).take(limit);
            out.extend(queued.map(|queued| queued.0));
            self.head += out.len();
        }

        fn process(&mut self, all: &[usize], looked: &Vec<[usize; 3]>) -> bool {
            assert_eq!(all.len(), looked.len());
            for (&number, to) in all.iter().zip(looked) {
                for &to in to {
                    if !std::mem::replace(&mut self.met[to], true) {
                        self.queue.push((to, number));
                    }
                }
            }
            true
        }
    }

    fn searched(threads: usize) -> Vec<(usize, usize)> {
        let mut numbers = Numbers { met: vec![false; COUNT], queue: vec![(0, 0)], head: 0 };
        numbers.met[0] = true;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let Ok(pool) = pool else { panic!("no threads") };
        pool.install(|| {
            run(&mut numbers, || {
                |all: &[usize], out: &mut Vec<[usize; 3]>| {
                    out.clear();
                    out.extend(all.iter().map(|&number| from(number)));
                }
            });
        });
        numbers.queue
    }

    #[test]
    fn the_order_is_that_of_one_thread() {
        let one = searched(1);
        assert_eq!(one.len(), COUNT);
        for threads in [2, 3, 8] {
            assert!(searched(threads) == one, "{threads} threads");
        }
    }
}
