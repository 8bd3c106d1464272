//! From object to object of a heap whose objects lie one behind the other, and past what is none.
//!
//! Where an object begins follows from the one before it, which tells its size by its type. A place that is no object
//! loses the way; it is found again where some objects follow one another.

use std::slice::Iter;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::window::Window;
use crate::runtimes::api::{Losses, Object, Part, TypeIndex, Walker};
use crate::targets::Target;

/// Entries of the cache of types: a power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// Objects in a row that make a place believed to be a first object again.
const CHAIN: usize = 4;

/// What a walk must be told of a heap. `key` is what the runtime knows an object's type by, a number that stands in
/// the object and may be anything in what is none.
pub(crate) trait Linear: Sync {
    /// What an object's size follows from: known of its type, once for all of its objects.
    type Form: Copy + Send;
    /// Memory between objects that an allocator has taken and not used.
    type Gap;

    /// What a part is called, and why an object has no size, in words.
    const PART: &'static str;
    const NO_SIZE: &'static str;

    /// What is looked at.
    fn target(&self) -> &dyn Target;

    /// Objects begin at multiples of this.
    fn alignment(&self) -> u64;

    /// Bytes that were searched for the first object after a loss, by all walks of the heap.
    fn searched(&self) -> &AtomicU64;

    /// The key of the object at `at`; `None` where it is not in the window.
    fn key(&self, window: &Window<'_>, at: u64) -> Option<u64>;

    /// The type of that key, if it is one.
    fn lookup(&self, key: u64) -> Option<(TypeIndex, Self::Form)>;

    /// Bytes of the object at `at`, as the runtime's own tools count them; `None` where what tells them is not in the core.
    fn size(&self, window: &Window<'_>, at: u64, form: Self::Form) -> Option<u64>;

    /// From an object of that size to the next.
    fn stride(&self, size: u64) -> u64;

    /// Gaps that begin in `range`, by address.
    fn gaps(&self, range: AddrRange) -> &[Self::Gap];

    /// Where a gap begins.
    fn gap_start(gap: &Self::Gap) -> u64;

    /// Where objects go on behind a gap; `None` where it was given back, and objects lie in it.
    fn gap_end(&self, window: &Window<'_>, gap: &Self::Gap) -> Option<u64>;

    /// Whether one object is all that a part has, whatever follows it there.
    fn is_single(&self, _part: &Part) -> bool {
        false
    }

    /// Why what is at `at` is no object, in words.
    fn no_object(&self, window: &Window<'_>, at: u64, key: u64) -> String;
}

/// The slot of a key in a cache of so many bits (Knuth's multiplicative hash).
#[inline(always)]
pub(crate) fn slot(key: u64, bits: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// What the walk keeps of a key.
#[derive(Clone, Copy)]
struct Entry<F> {
    key: u64,
    /// `None` where it is no type.
    known: Option<(TypeIndex, F)>,
}

/// How a run of objects ended.
enum Stop {
    /// At its end, or past it.
    At(u64),
    /// What is there is no object.
    Bad(u64, Damage),
}

/// Why something is no object.
#[derive(Clone, Copy)]
enum Damage {
    NoType(u64),
    TooLong(u64),
    NoSize,
}

/// Walks parts of a heap.
pub(crate) struct LinearWalker<'h, H: Linear> {
    heap: &'h H,
    cache: Box<[Entry<H::Form>; CACHE]>,
    /// Bytes of gaps, of all parts walked so far.
    unused: u64,
}

impl<'h, H: Linear> LinearWalker<'h, H> {
    /// For parts of `heap`.
    pub(crate) fn new(heap: &'h H) -> LinearWalker<'h, H> {
        LinearWalker { heap, cache: Box::new([Entry { key: 0, known: None }; CACHE]), unused: 0 }
    }
}

impl<H: Linear> Walker for LinearWalker<'_, H> {
    fn unused(&self) -> u64 {
        self.unused
    }

    fn walk(&mut self, part: &Part, losses: &mut Losses, visit: &mut dyn FnMut(&Object)) {
        let end = part.range.end.get();
        let single = self.heap.is_single(part);
        let windows = Window::all(self.heap.target(), part.range);
        let mut gaps = self.heap.gaps(part.range).iter();
        let mut gap = gaps.next();
        let mut at = part.range.start.get();
        for window in &windows {
            if at < window.start {
                // Whatever is there has no start that is known.
                losses.add(at, window.start, || "not in the core".into());
                at = if single { end } else { self.first_object(window, window.start, end, losses) };
            }
            while at < window.end && at < end {
                gap = from::<H>(gap, &mut gaps, at);
                if let Some(g) = gap.filter(|g| H::gap_start(g) == at) {
                    gap = gaps.next();
                    // One that reaches out of its part is none.
                    if let Some(past) = self.heap.gap_end(window, g).filter(|&past| past <= end) {
                        self.unused = self.unused.saturating_add(past.saturating_sub(at));
                        at = past;
                        continue;
                    }
                }
                let stop = if single { at.saturating_add(1) } else { end_of_run::<H>(window, end, gap) };
                match self.objects(window, at, stop, end, visit) {
                    // What follows is nothing.
                    Stop::At(_) if single => at = end,
                    Stop::At(next) => at = next,
                    Stop::Bad(place, damage) => {
                        gap = from::<H>(gap, &mut gaps, place.saturating_add(1));
                        let next = place.saturating_add(self.heap.alignment());
                        at = if single { end } else { self.find(window, next, end_of_run::<H>(window, end, gap), end) };
                        losses.add(place, at, || self.text(window, place, damage));
                    }
                }
            }
        }
        if at < end {
            losses.add(at, end, || "not in the core".into());
        }
    }
}

impl<H: Linear> LinearWalker<'_, H> {
    fn text(&self, window: &Window<'_>, at: u64, damage: Damage) -> String {
        match damage {
            Damage::NoType(key) => self.heap.no_object(window, at, key),
            Damage::TooLong(size) => format!("an object of {size} bytes that extends past the end of its {}", H::PART),
            Damage::NoSize => H::NO_SIZE.into(),
        }
    }

    /// Objects from `at` up to `stop`; none may reach past `end`.
    #[inline(always)]
    fn objects(
        &mut self,
        window: &Window<'_>,
        mut at: u64,
        stop: u64,
        end: u64,
        visit: &mut dyn FnMut(&Object),
    ) -> Stop {
        while at < stop {
            let Some(key) = self.heap.key(window, at) else { return Stop::Bad(at, Damage::NoSize) };
            let Some((kind, form)) = self.entry(key) else { return Stop::Bad(at, Damage::NoType(key)) };
            let Some(size) = self.heap.size(window, at, form) else { return Stop::Bad(at, Damage::NoSize) };
            let next = at.saturating_add(self.heap.stride(size));
            if next > end || next <= at {
                return Stop::Bad(at, Damage::TooLong(size));
            }
            visit(&Object { addr: Addr::new(at), kind, size });
            at = next;
        }
        Stop::At(at)
    }

    #[inline(always)]
    fn entry(&mut self, key: u64) -> Option<(TypeIndex, H::Form)> {
        let slot = slot(key, CACHE_BITS) & (CACHE - 1);
        let entry = self.cache[slot];
        if entry.key == key { entry.known } else { self.miss(slot, key) }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, slot: usize, key: u64) -> Option<(TypeIndex, H::Form)> {
        let known = self.heap.lookup(key);
        self.cache[slot] = Entry { key, known };
        known
    }

    /// The first object at or after `at`, where nothing told where one begins.
    fn first_object(&mut self, window: &Window<'_>, at: u64, end: u64, losses: &mut Losses) -> u64 {
        let gap = self.heap.gaps(AddrRange::new(Addr::new(at), Addr::new(end))).first();
        let found = self.find(window, at, end_of_run::<H>(window, end, gap), end);
        if found > at {
            losses.add(at, found, || "the rest of an object that begins outside the core".into());
        }
        found
    }

    /// The first place from `at` on where objects follow one another; `stop`
    /// where there is none before it.
    fn find(&mut self, window: &Window<'_>, from: u64, stop: u64, end: u64) -> u64 {
        let searched = self.heap.searched();
        if searched.load(Ordering::Relaxed) > limits::MAX_HEAP_SEARCH {
            return stop.max(from);
        }
        let mut at = from;
        while at < stop && !self.chains(window, at, stop, end) {
            at = at.saturating_add(self.heap.alignment());
        }
        self.heap.searched().fetch_add(at.saturating_sub(from), Ordering::Relaxed);
        at
    }

    /// Whether objects follow one another from `at` on.
    fn chains(&mut self, window: &Window<'_>, mut at: u64, stop: u64, end: u64) -> bool {
        for _ in 0..CHAIN {
            let Some(key) = self.heap.key(window, at) else { return true };
            let Some((_, form)) = self.entry(key) else { return false };
            let Some(size) = self.heap.size(window, at, form) else { return false };
            let next = at.saturating_add(self.heap.stride(size));
            if next == stop || next == end {
                return true;
            }
            // Past the window it can't be followed; past a gap's start it can't reach.
            if next > end || next <= at || (next > stop && stop < window.end) {
                return false;
            }
            at = next;
        }
        true
    }
}

/// Where a run of objects ends: with the window, with the part, or where the next gap begins.
fn end_of_run<H: Linear>(window: &Window<'_>, end: u64, gap: Option<&H::Gap>) -> u64 {
    window.end.min(end).min(gap.map_or(u64::MAX, H::gap_start))
}

/// The first gap that begins at or after `at`.
fn from<'g, H: Linear>(mut gap: Option<&'g H::Gap>, rest: &mut Iter<'g, H::Gap>, at: u64) -> Option<&'g H::Gap> {
    while gap.is_some_and(|g| H::gap_start(g) < at) {
        gap = rest.next();
    }
    gap
}
