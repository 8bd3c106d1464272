//! Limits the work and memory of one answer, whatever the core contains.
//!
//! The limits of single structures ([`limits`]) do not add up. Each allows what a real process needs, and a crafted
//! core claims all of them, or one again and again. So one budget of work and memory covers everything. It is enforced
//! where every path passes: at reads of the process's memory. Once it is spent, every further read fails. Whatever
//! follows pointers or lists ends there, and reports what it lacks.
//!
//! Work is counted, not timed: reads, and the bytes that scans visit. So an answer is the same on a slow machine.
//! Memory is queried from the system now and then, because that is what runs out. Pages of the core file don't count;
//! the system reclaims them when another program needs memory.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::limits;
use crate::machine;

/// Units counted by a thread before they are added to the shared sum.
const BATCH: u64 = 256;

/// Units between two queries of the memory used.
const QUERY_INTERVAL: u64 = 1 << 14;

thread_local! {
    /// Units of this thread that are not in a sum yet: at most [`BATCH`], whichever budget they belong to.
    static PENDING: Cell<u64> = const { Cell::new(0) };
}

/// A budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Exhausted {
    /// Units of work.
    Work,
    /// Bytes of memory.
    Memory,
}

/// Limits that the user sets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserLimits {
    /// Bytes of memory (`--memory`). `None`: a limit derived from the size of the file, and at most half of the
    /// machine's memory.
    pub(crate) memory: Option<u64>,
    /// Whether this process does nothing else, so that all its memory is used for the answer. In a larger program, its
    /// memory use says nothing about ours.
    pub(crate) alone: bool,
}

/// A budget of work and memory.
#[doc(hidden)]
pub struct Budget {
    work: AtomicU64,
    max_work: u64,
    max_memory: u64,
    /// The user's memory limit, even if it is below the minimum.
    user_memory: Option<u64>,
    out_of_work: AtomicBool,
    out_of_memory: AtomicBool,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(u64::MAX, u64::MAX)
    }
}

impl Budget {
    fn new(max_work: u64, max_memory: u64) -> Budget {
        let (out_of_work, out_of_memory) = Default::default();
        Budget { work: AtomicU64::new(0), max_work, max_memory, user_memory: None, out_of_work, out_of_memory }
    }

    /// Creates the budget for a core file of `file` bytes.
    pub(crate) fn of(file: u64, allowed: UserLimits) -> Budget {
        let work = limits::BASE_WORK.saturating_add(file / limits::BYTES_WORTH_WORK);
        // Users who allow more memory are ready to wait longer too.
        let work = work.saturating_add(allowed.memory.unwrap_or(0) / limits::BYTES_WORTH_WORK);
        let memory = match allowed.memory {
            _ if !allowed.alone => u64::MAX,
            Some(memory) => memory.max(limits::MIN_MEMORY),
            None => {
                let worth = limits::MIN_MEMORY.saturating_add(file.saturating_mul(limits::MEMORY_PER_BYTE));
                machine::usable_memory().map_or(worth, |all| worth.min(all / 2))
            }
        };
        Budget { user_memory: allowed.memory.filter(|_| allowed.alone), ..Budget::new(work, memory) }
    }

    /// Spends the work of a read of this many bytes. Returns whether any budget is left.
    #[inline]
    pub(crate) fn spend(&self, bytes: u64) -> bool {
        let units = PENDING.get() + 1 + bytes / limits::BYTES_PER_WORK;
        if units < BATCH {
            PENDING.set(units);
            return !self.is_spent();
        }
        PENDING.set(0);
        self.settle(units)
    }

    fn settle(&self, units: u64) -> bool {
        let before = self.work.fetch_add(units, Ordering::Relaxed);
        let now = before.saturating_add(units);
        if now > self.max_work {
            self.out_of_work.store(true, Ordering::Relaxed);
        }
        if before / QUERY_INTERVAL != now / QUERY_INTERVAL
            && machine::used_memory().is_some_and(|taken| taken > self.max_memory)
        {
            self.out_of_memory.store(true, Ordering::Relaxed);
        }
        !self.is_spent()
    }

    fn is_spent(&self) -> bool {
        self.out_of_work.load(Ordering::Relaxed) || self.out_of_memory.load(Ordering::Relaxed)
    }

    /// The exhausted budget. `None` if something is left of both.
    #[doc(hidden)]
    pub fn spent(&self) -> Option<Exhausted> {
        match (self.out_of_memory.load(Ordering::Relaxed), self.out_of_work.load(Ordering::Relaxed)) {
            (true, _) => Some(Exhausted::Memory),
            (_, true) => Some(Exhausted::Work),
            _ => None,
        }
    }

    /// Sets the work back to zero, for another question. A budget that is used up stays so, because what was read with
    /// it is incomplete.
    pub(crate) fn renew(&self) {
        self.work.store(0, Ordering::Relaxed);
    }

    /// Units of work spent so far.
    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    /// Limit on memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.max_memory
    }

    /// Bytes of memory left for tables that could be in files instead. A reserve stays for everything else.
    pub(crate) fn spill_headroom(&self) -> u64 {
        let most = self.user_memory.unwrap_or(self.max_memory);
        if most == u64::MAX {
            return most;
        }
        let rest = (most / 8).max(limits::MEMORY_BESIDE_TABLES);
        most.saturating_sub(rest).saturating_sub(machine::used_memory().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_spent_once_and_for_all() {
        let budget = Budget::new(10_000, u64::MAX);
        let had = (0..).take_while(|_| budget.spend(8)).count() as u64;
        assert!((10_000 - BATCH..=10_000 + BATCH).contains(&had), "{had}");
        assert_eq!(budget.spent(), Some(Exhausted::Work));
        assert!(!budget.spend(0));
        let budget = Budget::new(1 << 40, u64::MAX);
        assert!(budget.spend(limits::BYTES_PER_WORK << 39));
        assert!(!budget.spend(limits::BYTES_PER_WORK << 40), "bytes count too");
    }

    #[test]
    fn each_question_has_its_own_work() {
        let budget = Budget::new(10_000, u64::MAX);
        for _ in 0..5 {
            assert!((0..5_000).all(|_| budget.spend(8)));
            budget.renew();
        }
        while budget.spend(8) {}
        budget.renew();
        assert_eq!(budget.spent(), Some(Exhausted::Work), "what it lacks, it lacks for the next question too");
    }

    #[test]
    fn memory_is_what_was_taken() {
        // Other tests run in parallel and free memory, so no difference can be measured. The memory used is at least
        // this.
        let kept = std::hint::black_box(vec![1u8; 64 << 20]);
        let now = machine::used_memory().unwrap_or(0);
        assert!(now >= 60 << 20, "{now}");
        let budget = Budget::new(u64::MAX, 32 << 20);
        assert!(!(0..10 * QUERY_INTERVAL).all(|_| budget.spend(0)), "{} bytes taken, 32 MiB allowed", kept.len());
        assert_eq!(budget.spent(), Some(Exhausted::Memory));
    }

    #[test]
    fn a_large_core_may_take_more() {
        let of = |file| Budget::of(file, UserLimits { memory: None, alone: true });
        assert!(of(1 << 30).max_work > of(1 << 20).max_work);
        assert!(of(1 << 28).max_memory > of(1 << 20).max_memory);
        assert!(of(1 << 50).max_memory <= machine::usable_memory().unwrap_or(u64::MAX) / 2);
        let asked = Budget::of(1 << 20, UserLimits { memory: Some(1 << 40), alone: true });
        assert_eq!(asked.max_memory, 1 << 40);
        assert!(asked.max_work > of(1 << 20).max_work);
        assert_eq!(Budget::of(1 << 20, UserLimits::default()).max_memory, u64::MAX);
    }
}
