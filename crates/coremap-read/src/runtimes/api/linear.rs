//! Walks a heap of contiguous objects, and resynchronizes after damage.
//!
//! An object's start follows from the previous object, whose type gives its size. At an address without a valid object
//! the walk searches for the next `CHAIN` contiguous valid objects. It reports the bytes in between as lost.

use std::slice::Iter;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::window::Window;
use crate::runtimes::api::{HeapRange, Object, TypeIndex, UnwalkedRanges, Walker};
use crate::targets::Target;
use crate::targets::deadline::QUERY_INTERVAL;

/// Number of entries in the type cache. A power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// Number of contiguous valid objects that prove an object's start after damage.
const CHAIN: usize = 4;

/// What a runtime supplies for the walk of its heap.
///
/// A `key` is the number in an object that identifies its type. In memory that is no object, the key can be any number.
pub(crate) trait LinearHeap: Sync {
    /// What determines an object's size. Looked up once per type.
    type SizeRule: Copy + Send;
    /// Memory between objects that an allocator reserved and has not used.
    type Gap;

    /// The runtime's word for a heap range, and the message for an object without a size.
    const RANGE_NAME: &'static str;
    const NO_SIZE: &'static str;

    /// The process that is read.
    fn target(&self) -> &dyn Target;

    /// Alignment of objects in bytes.
    fn alignment(&self) -> u64;

    /// Bytes searched for object starts after damage, by all walks of the heap together.
    fn searched(&self) -> &AtomicU64;

    /// The key of the object at `at`. `None` if it is not in the window.
    fn key(&self, window: &Window<'_>, at: u64) -> Option<u64>;

    /// The type with this key. `None` if no type has it.
    fn lookup(&self, key: u64) -> Option<(TypeIndex, Self::SizeRule)>;

    /// Size in bytes of the object at `at`, as the runtime's own tools count it. `None` if the memory that determines
    /// it is not in the core.
    fn size(&self, window: &Window<'_>, at: u64, form: Self::SizeRule) -> Option<u64>;

    /// Distance in bytes from an object of this size to the next.
    fn stride(&self, size: u64) -> u64;

    /// Type of the object at `at`, if its key does not determine it.
    fn type_at(&self, _window: &Window<'_>, _at: u64, kind: TypeIndex, _form: Self::SizeRule) -> TypeIndex {
        kind
    }

    /// Gaps that begin in `range`, sorted by address.
    fn gaps(&self, range: AddrRange) -> &[Self::Gap];

    /// Start address of a gap.
    fn gap_start(gap: &Self::Gap) -> u64;

    /// Address of the first object after a gap. `None` if the allocator gave the gap back, so that it contains objects.
    fn gap_end(&self, window: &Window<'_>, gap: &Self::Gap) -> Option<u64>;

    /// True if the part contains exactly one object.
    fn is_single(&self, _part: &HeapRange) -> bool {
        false
    }

    /// Whether the bytes at `at` are consistent with an object of this type. Called where no earlier object determines
    /// the start.
    fn may_begin(&self, _window: &Window<'_>, _at: u64, _key: u64, _size: u64) -> bool {
        true
    }

    /// Why there is no object at `at`, in words.
    fn no_object(&self, window: &Window<'_>, at: u64, key: u64) -> String;
}

/// Slot of `key` in a cache of 2^`bits` entries (Knuth's multiplicative hash).
#[inline(always)]
pub(crate) fn slot(key: u64, bits: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

#[derive(Clone, Copy)]
struct Entry<F> {
    key: u64,
    /// `None` if no type has this key.
    found: Option<(TypeIndex, F)>,
}

/// Where and why a run of objects ended.
enum Stop {
    /// At the requested address, or past it.
    At(u64),
    /// At an address where there is no valid object.
    Bad(u64, Damage),
    /// The time limit has passed.
    Late,
}

#[derive(Clone, Copy)]
enum Damage {
    NoType(u64),
    TooLong(u64),
    NoSize,
}

/// The [`Walker`] of a contiguous heap.
pub(crate) struct LinearWalker<'h, H: LinearHeap> {
    heap: &'h H,
    cache: Box<[Entry<H::SizeRule>; CACHE]>,
    /// Bytes in gaps, in all parts walked so far.
    unused: u64,
}

impl<'h, H: LinearHeap> LinearWalker<'h, H> {
    pub(crate) fn new(heap: &'h H) -> LinearWalker<'h, H> {
        LinearWalker { heap, cache: Box::new([Entry { key: 0, found: None }; CACHE]), unused: 0 }
    }
}

impl<H: LinearHeap> Walker for LinearWalker<'_, H> {
    fn unused(&self) -> u64 {
        self.unused
    }

    fn walk(&mut self, heap_range: &HeapRange, unwalked: &mut UnwalkedRanges, visit: &mut dyn FnMut(&Object)) {
        if self.heap.target().reads().deadline().has_passed() {
            return;
        }
        let end = heap_range.range.end.get();
        let single = self.heap.is_single(heap_range);
        let windows = Window::all(self.heap.target(), heap_range.range);
        let mut gaps = self.heap.gaps(heap_range.range).iter();
        let mut gap = gaps.next();
        let mut at = heap_range.range.start.get();
        for window in &windows {
            if at < window.start {
                // Objects may start in the missing memory, but their starts are unknown.
                unwalked.add(at, window.start, || "not in the core".into());
                at = if single { end } else { self.first_object(window, window.start, end, unwalked) };
            }
            while at < window.end && at < end {
                gap = gap_from::<H>(gap, &mut gaps, at);
                if let Some(g) = gap.filter(|g| H::gap_start(g) == at) {
                    gap = gaps.next();
                    // A gap that extends past its part is invalid.
                    if let Some(past) = self.heap.gap_end(window, g).filter(|&past| past <= end) {
                        self.unused = self.unused.saturating_add(past.saturating_sub(at));
                        at = past;
                        continue;
                    }
                }
                let stop = if single { at.saturating_add(1) } else { end_of_run::<H>(window, end, gap) };
                match self.objects(window, at, stop, end, visit) {
                    // Nothing follows a single object in its part.
                    Stop::At(_) if single => at = end,
                    Stop::At(next) => at = next,
                    // Whoever set the limit drops the result.
                    Stop::Late => return,
                    Stop::Bad(place, damage) => {
                        gap = gap_from::<H>(gap, &mut gaps, place.saturating_add(1));
                        let next = place.saturating_add(self.heap.alignment());
                        at = if single {
                            end
                        } else {
                            self.find_start(window, next, end_of_run::<H>(window, end, gap), end)
                        };
                        unwalked.add(place, at, || self.reason(window, place, damage));
                    }
                }
            }
        }
        if at < end {
            unwalked.add(at, end, || "not in the core".into());
        }
    }
}

impl<H: LinearHeap> LinearWalker<'_, H> {
    fn reason(&self, window: &Window<'_>, at: u64, damage: Damage) -> String {
        match damage {
            Damage::NoType(key) => self.heap.no_object(window, at, key),
            Damage::TooLong(size) => {
                format!("an object of {size} bytes that extends past the end of its {}", H::RANGE_NAME)
            }
            Damage::NoSize => H::NO_SIZE.into(),
        }
    }

    /// Visits the objects from `at` up to `stop`. No object may extend past `end`.
    #[inline(always)]
    fn objects(
        &mut self,
        window: &Window<'_>,
        mut at: u64,
        stop: u64,
        end: u64,
        visit: &mut dyn FnMut(&Object),
    ) -> Stop {
        let mut until_query = QUERY_INTERVAL;
        while at < stop {
            until_query -= 1;
            if until_query == 0 {
                if self.heap.target().reads().deadline().has_passed() {
                    return Stop::Late;
                }
                until_query = QUERY_INTERVAL;
            }
            let Some(key) = self.heap.key(window, at) else { return Stop::Bad(at, Damage::NoSize) };
            let Some((kind, form)) = self.entry(key) else { return Stop::Bad(at, Damage::NoType(key)) };
            let Some(size) = self.heap.size(window, at, form) else { return Stop::Bad(at, Damage::NoSize) };
            let next = at.saturating_add(self.heap.stride(size));
            if next > end || next <= at {
                return Stop::Bad(at, Damage::TooLong(size));
            }
            let kind = self.heap.type_at(window, at, kind, form);
            visit(&Object { addr: Addr::new(at), kind, size });
            at = next;
        }
        Stop::At(at)
    }

    #[inline(always)]
    fn entry(&mut self, key: u64) -> Option<(TypeIndex, H::SizeRule)> {
        let slot = slot(key, CACHE_BITS) & (CACHE - 1);
        let entry = self.cache[slot];
        if entry.key == key { entry.found } else { self.miss(slot, key) }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, slot: usize, key: u64) -> Option<(TypeIndex, H::SizeRule)> {
        let known = self.heap.lookup(key);
        self.cache[slot] = Entry { key, found: known };
        known
    }

    /// The first object at or after `at`, if no earlier object determines its start. Records the skipped bytes as lost.
    fn first_object(&mut self, window: &Window<'_>, at: u64, end: u64, unwalked: &mut UnwalkedRanges) -> u64 {
        let gap = self.heap.gaps(AddrRange::new(Addr::new(at), Addr::new(end))).first();
        let found = self.find_start(window, at, end_of_run::<H>(window, end, gap), end);
        if found > at {
            unwalked.add(at, found, || "the rest of an object that begins outside the core".into());
        }
        found
    }

    /// The first address at or after `from` where contiguous objects start. `stop` if there is none before it.
    fn find_start(&mut self, window: &Window<'_>, from: u64, stop: u64, end: u64) -> u64 {
        let searched = self.heap.searched();
        if searched.load(Ordering::Relaxed) > limits::MAX_HEAP_SEARCH {
            return stop.max(from);
        }
        let mut at = from;
        while at < stop && !self.begins_chain(window, at, stop, end) {
            at = at.saturating_add(self.heap.alignment());
        }
        self.heap.searched().fetch_add(at.saturating_sub(from), Ordering::Relaxed);
        at
    }

    /// Whether `CHAIN` contiguous objects start at `at`. Fewer suffice if they reach `stop`, `end` or the window's end.
    fn begins_chain(&mut self, window: &Window<'_>, mut at: u64, stop: u64, end: u64) -> bool {
        for i in 0..CHAIN {
            let Some(key) = self.heap.key(window, at) else { return true };
            let Some((_, form)) = self.entry(key) else { return false };
            let Some(size) = self.heap.size(window, at, form) else { return false };
            if i == 0 && !self.heap.may_begin(window, at, key, size) {
                return false;
            }
            let next = at.saturating_add(self.heap.stride(size));
            if next == stop || next == end {
                return true;
            }
            // A chain can't be followed past the window, and no object extends past the start of a gap.
            if next > end || next <= at || (next > stop && stop < window.end) {
                return false;
            }
            at = next;
        }
        true
    }
}

/// End of a run of objects: the end of the window or part, or the start of the next gap.
fn end_of_run<H: LinearHeap>(window: &Window<'_>, end: u64, gap: Option<&H::Gap>) -> u64 {
    window.end.min(end).min(gap.map_or(u64::MAX, H::gap_start))
}

fn gap_from<'g, H: LinearHeap>(
    mut gap: Option<&'g H::Gap>,
    rest: &mut Iter<'g, H::Gap>,
    at: u64,
) -> Option<&'g H::Gap> {
    while gap.is_some_and(|g| H::gap_start(g) < at) {
        gap = rest.next();
    }
    gap
}
