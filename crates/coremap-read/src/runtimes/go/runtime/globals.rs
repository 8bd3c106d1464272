//! The runtime's own variables, each found by its shape.
//!
//! | variable | shape |
//! |---|---|
//! | `mheap_` | 136 `mcentral`s at equal distances, whose first bytes are 0, 1, … 135 |
//! | `gcController` | `heapInUse` is the sum of the spans in use, with a percentage and a limit in front |
//! | `allgs` | a slice of pointers to `g`s, the first of which has number 1 |
//! | `allm` | the longest list of `m`s, each with a `g0` that leads back to it |
//! | `mbuckets` | the longest list of records with addresses of code |
//! | `memstats` | 256 times of past collections, the newest of which is the time of the last one |
//!
//! Sources: runtime/mheap.go, mgcpacer.go, proc.go, mstats.go.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::go::heap::profile::{Bucket, MEMORY};
use crate::runtimes::go::heap::{SpanUse, Spans};
use crate::runtimes::go::record::Record;
use crate::runtimes::go::shape::Shape;

/// Number of span classes: 68 sizes, with and without pointers.
const CLASSES: usize = 136;

/// Bounds of a plausible time of day, in nanoseconds: the years 2001 and 2049.
const TIMES: std::ops::Range<u64> = 1_000_000_000_000_000_000..2_500_000_000_000_000_000;

/// Number of collections whose pauses are stored.
const PAUSES: usize = 256;

/// Minimum monotonic time of the last collection, in nanoseconds. A copy of these statistics that the program itself
/// made has a flag at this offset instead.
const MIN_NANOTIME: u64 = 1 << 20;

/// Smallest size of a goroutine's stack in bytes.
const MIN_STACK: u64 = 2048;

/// Words of the program's variables.
pub(super) struct Variables<'m> {
    pub(super) memory: &'m dyn Memory,
    pub(super) shape: &'m Shape,
    /// The program's code.
    pub(super) text: AddrRange,
    /// Each section: start address and words.
    pub(super) parts: Vec<(Addr, Vec<u64>)>,
}

/// Addresses of the runtime's variables.
#[derive(Clone, Debug)]
pub(in crate::runtimes::go) struct Globals {
    /// Address of `mheap_`.
    pub(in crate::runtimes::go) heap: Addr,
    /// Address of `gcController`.
    pub(in crate::runtimes::go) controller: Option<Addr>,
    /// Whether `gcController.heapInUse` is exactly the sum of the spans in use.
    pub(in crate::runtimes::go) in_use_equal: bool,
    /// Address of `memstats`. `None` before the first collection.
    pub(in crate::runtimes::go) stats: Option<Addr>,
    /// Address of the slice `allgs`.
    pub(in crate::runtimes::go) allgs: Option<Addr>,
    /// Pointers from the variables to memory outside of the program, at most one for each page of 4 KiB.
    pub(in crate::runtimes::go) pointers: Vec<Addr>,
    /// The first record of the heap profile. `None` if it has none.
    pub(in crate::runtimes::go) mbuckets: Option<Addr>,
    /// The first `m` of the list `allm`.
    pub(in crate::runtimes::go) allm: Option<Addr>,
}

impl Variables<'_> {
    /// Finds all variables. `None` without `mheap_`.
    pub(super) fn find(&self) -> Option<(Globals, Spans)> {
        let heap = self.heap()?;
        let spans = Spans::read(self.memory, self.shape, heap.checked_add(self.shape.heap.allspans)?)?;
        let in_use = spans.bytes_of(SpanUse::Objects);
        let (controller, difference) = self.controller(in_use).unzip();
        let globals = Globals {
            heap,
            controller,
            in_use_equal: difference == Some(0) && in_use > 0,
            stats: self.stats(),
            allgs: self.allgs(),
            allm: self.allm(),
            mbuckets: self.mbuckets(),
            pointers: self.pointers(),
        };
        Some((globals, spans))
    }

    /// Visits all words of all sections until `visit` returns something. `visit` gets the address of a word, and the
    /// words from there to the section's end.
    fn each<T>(&self, mut visit: impl FnMut(Addr, &[u64]) -> Option<T>) -> Option<T> {
        self.parts.iter().find_map(|(start, words)| {
            (0..words.len()).find_map(|i| visit(start.checked_add(8 * i as u64)?, words.get(i..)?))
        })
    }

    fn pointers(&self) -> Vec<Addr> {
        let words = self.parts.iter().flat_map(|(_, words)| words.iter().map(|word| Addr::new(*word)));
        let all: BTreeSet<Addr> = words.filter(|at| at.is_aligned(8)).map(|at| at.align_down(4096)).collect();
        all.into_iter().filter(|at| self.memory.readable(*at, 1) > 0).collect()
    }

    fn heap(&self) -> Option<Addr> {
        let shape = &self.shape.heap;
        let stride = usize::try_from(shape.spanalloc.checked_sub(shape.central)?).ok()? / CLASSES / 8;
        self.each(|at, words| {
            let class = |i: usize| words.get(i * stride).map(|word| word & 0xff);
            let all = class(0) == Some(0) && class(1) == Some(1) && (2..CLASSES).all(|i| class(i) == Some(i as u64));
            all.then(|| at.checked_sub(shape.central)).flatten()
        })
    }

    /// Finds the controller whose bytes in use are nearest to `in_use`. Returns its address and the difference.
    fn controller(&self, in_use: u64) -> Option<(Addr, u64)> {
        let shape = &self.shape.controller;
        let tolerance = (in_use / 16).max(1 << 20);
        let mut best: Option<(u64, Addr)> = None;
        self.each(|at, words| {
            let word = |offset: u64| words.get(offset as usize / 8).copied();
            let difference = word(shape.in_use)?.abs_diff(in_use);
            if difference > tolerance || best.is_some_and(|(known, _)| known <= difference) {
                return None::<()>;
            }
            let percent = *words.first()? as u32 as i32;
            let limit = word(shape.limit)?;
            let pages = word(shape.free)?.is_multiple_of(4096) && word(shape.released)?.is_multiple_of(4096);
            let sound = (-1..100_000).contains(&percent)
                && limit > 0
                && i64::try_from(limit).is_ok()
                && pages
                && word(shape.total_alloc)? > word(shape.total_free)?
                && word(shape.mapped)? >= word(shape.in_use)?;
            if sound {
                best = Some((difference, at));
            }
            None
        });
        best.map(|(difference, at)| (at, difference))
    }

    fn stats(&self) -> Option<Addr> {
        let shape = &self.shape.stats;
        // Offsets from the time of the last collection, in words.
        let from = |offset: u64| usize::try_from(offset.checked_sub(shape.last_unix)?).ok().map(|bytes| bytes / 8);
        let (ends, numgc, nanotime) = (from(shape.pause_end)?, from(shape.numgc)?, from(shape.last_nanotime)?);
        self.each(|at, words| {
            let last = *words.first()?;
            if !TIMES.contains(&last) || *words.get(nanotime)? <= MIN_NANOTIME {
                return None;
            }
            let count = *words.get(numgc)? as u32 as usize;
            let ring = words.get(ends..ends.checked_add(PAUSES)?)?;
            let newest = ring.get(count.checked_add(PAUSES - 1)? % PAUSES)?;
            let used = ring.iter().filter(|time| **time != 0).count();
            let sound = count > 0
                && *newest == last
                && used == count.min(PAUSES)
                && ring.iter().all(|time| *time == 0 || (TIMES.contains(time) && *time <= last));
            sound.then(|| at.checked_sub(shape.last_unix)).flatten()
        })
    }

    /// Finds the slice `allgs`: the longest slice of goroutines with different numbers that begins with number 1.
    fn allgs(&self) -> Option<Addr> {
        let mut best: Option<(u64, Addr)> = None;
        self.each(|at, words| {
            let [pointer, count, capacity, ..] = *words else { return None::<()> };
            let plausible = pointer > 4096
                && pointer % 8 == 0
                && (2..=capacity).contains(&count)
                && capacity <= limits::MAX_GO_GOROUTINES
                && best.is_none_or(|(known, _)| count > known);
            if plausible && self.is_list_of_gs(Addr::new(pointer), count) {
                best = Some((count, at));
            }
            None
        });
        best.map(|(_, at)| at)
    }

    /// Finds the first `m` of the longest list of threads. The `g0` of each leads back to it.
    fn allm(&self) -> Option<Addr> {
        let mut lengths: HashMap<Addr, usize> = HashMap::new();
        let walks = Walks::new(Phase::Runtime, limits::MAX_GO_THREADS);
        self.each(|_, words| {
            let m = Addr::new(*words.first()?);
            if !lengths.contains_key(&m) && self.is_m(m) {
                let mut length = 0;
                let _ = walks.begin_own_set().follow(m, |at| {
                    length += usize::from(self.is_m(at));
                    let next = self.is_m(at).then(|| at.checked_add(self.shape.m.alllink)).flatten();
                    self.memory.peek_u64(next.ok_or("is no thread")?).map(Addr::new).map_err(|_| "is not in the core")
                });
                lengths.insert(m, length);
            }
            None::<()>
        });
        lengths.into_iter().max_by_key(|(m, length)| (*length, *m)).map(|(m, _)| m)
    }

    /// Finds the first record of the heap profile: the record that starts the longest list.
    fn mbuckets(&self) -> Option<Addr> {
        let is_code = |pc: Addr| self.text.contains(pc);
        let bucket = |at: Addr| Bucket::look(self.memory, self.shape, at, is_code).filter(|b| b.kind == MEMORY);
        let mut lengths: HashMap<Addr, usize> = HashMap::new();
        let walks = Walks::new(Phase::Runtime, limits::MAX_GO_BUCKETS);
        self.each(|_, words| {
            let at = Addr::new(*words.first()?);
            if at > Addr::new(4096) && !lengths.contains_key(&at) && bucket(at).is_some() {
                let mut length = 0;
                let _ = walks.begin_own_set().follow(at, |at| {
                    length += 1;
                    bucket(at).map(|found| found.next).ok_or("is no record")
                });
                lengths.insert(at, length);
            }
            None::<()>
        });
        lengths.into_iter().max_by_key(|(at, length)| (*length, *at)).map(|(at, _)| at)
    }

    fn is_m(&self, m: Addr) -> bool {
        let word = |at: Addr, offset: u64| self.memory.peek_u64(at.checked_add(offset)?).ok().map(Addr::new);
        let is_pointer = |at: &Addr| !at.is_null() && at.is_aligned(8);
        let back = Some(m).filter(is_pointer).and_then(|m| word(m, self.shape.m.g0)).filter(is_pointer);
        back.and_then(|g0| word(g0, self.shape.g.m)) == Some(m)
    }

    fn is_list_of_gs(&self, list: Addr, count: u64) -> bool {
        let sample = [0, count - 1, count / 2];
        let g = |i: u64| self.memory.peek_u64(list.checked_add(8 * i)?).ok().map(Addr::new);
        if !sample.into_iter().all(|i| g(i).is_some_and(|g| self.is_g(g))) {
            return false;
        }
        let Some(all) = Record::look(self.memory, list, count.saturating_mul(8)) else { return false };
        let goid = self.shape.g.goid;
        let id = |word: &[u8; 8]| self.memory.peek_u64(Addr::new(u64::from_le_bytes(*word)).checked_add(goid)?).ok();
        let words = all.bytes().as_chunks::<8>().0;
        let different: HashSet<Option<u64>> = words.iter().map(id).collect();
        // Ended goroutines keep their number until they are reused; a few may have none.
        words.first().and_then(id) == Some(1) && different.len() as u64 >= count - count / 10
    }

    /// Whether a `g` is at `at`: its stack has a size that is a power of two, or it has none, and its registers refer
    /// to it.
    fn is_g(&self, at: Addr) -> bool {
        let (g, gobuf) = (&self.shape.g, &self.shape.gobuf);
        let Some(r) = Record::look(self.memory, at, g.size).filter(|_| !at.is_null() && at.is_aligned(8)) else {
            return false;
        };
        let (low, high) = (r.u64(0), r.u64(8));
        let named = r.ptr(g.sched + gobuf.g);
        if (low, high) == (0, 0) {
            return named == at || named.is_null();
        }
        let size = high.saturating_sub(low);
        named == at && size.is_power_of_two() && (MIN_STACK..=limits::MAX_GO_STACK).contains(&size)
    }
}
