//! From object to object, and past what is none.

use std::slice::Iter;
use std::sync::atomic::Ordering;

use crate::addr::{Addr, AddrRange};
use crate::dotnet::heap::{ALIGN, Heap, MIN_OBJECT, Object, Part, TypeIndex, stride};
use crate::dotnet::threads::AllocContext;
use crate::limits;
use crate::memory::window::Window;

/// Entries of the cache of MethodTables: a power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// Objects in a row that make a place believed to be a first object again.
const CHAIN: usize = 4;

/// What the walk needs of a MethodTable.
#[derive(Clone, Copy)]
struct Entry {
    method_table: u64,
    base_size: u32,
    component_size: u32,
    /// [`NONE`] where it is no MethodTable.
    kind: u32,
}

const NONE: u32 = u32::MAX;

/// A stretch of the heap without an object that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Where.
    pub range: AddrRange,
    /// Why, in words.
    pub reason: String,
}

/// What could not be walked.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// The first of them, by address.
    pub places: Vec<Loss>,
    /// Number of all.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl Losses {
    /// Bytes that can't be walked, and why.
    pub(super) fn add(&mut self, from: u64, to: u64, reason: impl FnOnce() -> String) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(to.saturating_sub(from));
        if self.places.len() < limits::MAX_LOSSES {
            self.places.push(Loss { range: AddrRange::new(Addr::new(from), Addr::new(to)), reason: reason() });
        }
    }

    /// Put `other` to these.
    pub(in crate::dotnet) fn merge(&mut self, other: Losses) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.places.extend(other.places);
        self.places.sort_by_key(|l| l.range);
        self.places.truncate(limits::MAX_LOSSES);
    }
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
    NoMethodTable(u64),
    TooLong(u64),
    CountMissing,
}

impl Damage {
    fn text(self) -> String {
        match self {
            Damage::NoMethodTable(0) => "no object: zero where its MethodTable should be".into(),
            Damage::NoMethodTable(word) => format!("no object: 0x{word:x} is no MethodTable"),
            Damage::TooLong(size) => format!("an object of {size} bytes, past the end of its segment"),
            Damage::CountMissing => "an array whose length is not in the core".into(),
        }
    }
}

/// Walks parts of a heap.
pub struct Walker<'h, 'p> {
    heap: &'h Heap<'p>,
    cache: Box<[Entry; CACHE]>,
    /// Bytes that allocators still own, of all parts walked so far.
    pub unused: u64,
}

impl<'h, 'p> Walker<'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>) -> Walker<'h, 'p> {
        let empty = Entry { method_table: 0, base_size: 0, component_size: 0, kind: NONE };
        Walker { heap, cache: Box::new([empty; CACHE]), unused: 0 }
    }

    /// Visit the objects of `part` by address; what is lost is added to `losses`.
    pub fn walk(&mut self, part: &Part, losses: &mut Losses, mut visit: impl FnMut(&Object)) {
        let end = part.range.end.get();
        let windows = Window::all(self.heap.types.process.target(), part.range);
        let mut contexts = self.heap.contexts_in(part.range).iter();
        let mut context = contexts.next();
        let mut at = part.range.start.get();
        for window in &windows {
            if at < window.start {
                // Whatever is there has no start that is known.
                losses.add(at, window.start, || "not in the core".into());
                at = self.first_object(window, window.start, end, losses);
            }
            while at < window.end && at < end {
                context = from(context, &mut contexts, at);
                if let Some(c) = context.filter(|c| c.pointer.get() == at) {
                    context = contexts.next();
                    // One that is used up leaves the room of the smallest
                    // object, unless it was given back since. One that reaches
                    // out of its segment is none.
                    let given_back = c.pointer == c.limit && window.word(at).is_some_and(|word| word != 0);
                    if !given_back && past(c) <= end {
                        self.unused = self.unused.saturating_add(past(c).saturating_sub(at));
                        at = past(c);
                        continue;
                    }
                }
                let stop = window.end.min(end).min(context.map_or(u64::MAX, |c| c.pointer.get()));
                match self.objects(window, at, stop, end, &mut visit) {
                    Stop::At(next) => at = next,
                    Stop::Bad(place, damage) => {
                        context = from(context, &mut contexts, place.saturating_add(1));
                        let stop = window.end.min(end).min(context.map_or(u64::MAX, |c| c.pointer.get()));
                        at = self.find(window, place.saturating_add(ALIGN), stop, end);
                        losses.add(place, at, || damage.text());
                    }
                }
            }
        }
        if at < end {
            losses.add(at, end, || "not in the core".into());
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
        visit: &mut impl FnMut(&Object),
    ) -> Stop {
        while at < stop {
            let Some(word) = window.word(at) else { break };
            let entry = self.entry(word & self.heap.mask);
            if entry.kind == NONE {
                return Stop::Bad(at, Damage::NoMethodTable(word));
            }
            let Some(size) = self.size(window, at, &entry) else { return Stop::Bad(at, Damage::CountMissing) };
            let next = at.saturating_add(stride(size));
            if next > end {
                return Stop::Bad(at, Damage::TooLong(size));
            }
            visit(&Object { addr: Addr::new(at), kind: TypeIndex(entry.kind), size });
            at = next;
        }
        Stop::At(at)
    }

    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, entry: &Entry) -> Option<u64> {
        if entry.component_size == 0 {
            return Some(u64::from(entry.base_size));
        }
        let count = match window.word(at.wrapping_add(self.heap.count_at)) {
            Some(word) => word as u32,
            None => self.heap.types.memory.u32(Addr::new(at).saturating_add(self.heap.count_at)).ok()?,
        };
        // 32 bits, plus the product of 32 and 16 bits. An empty string is
        // smaller than the smallest object.
        Some((u64::from(entry.base_size) + u64::from(count) * u64::from(entry.component_size)).max(MIN_OBJECT))
    }

    #[inline(always)]
    fn entry(&mut self, method_table: u64) -> Entry {
        let slot = (method_table.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS)) as usize & (CACHE - 1);
        let entry = self.cache[slot];
        if entry.method_table == method_table { entry } else { self.miss(slot, method_table) }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, slot: usize, method_table: u64) -> Entry {
        let found = self.heap.tables.lookup(method_table);
        let entry = match found {
            Some((kind, info)) => Entry {
                method_table,
                base_size: info.base_size,
                component_size: u32::from(info.component_size),
                kind: kind.0,
            },
            None => Entry { method_table, base_size: 0, component_size: 0, kind: NONE },
        };
        self.cache[slot] = entry;
        entry
    }

    /// The first object at or after `at`, where nothing told where one begins.
    fn first_object(&mut self, window: &Window<'_>, at: u64, end: u64, losses: &mut Losses) -> u64 {
        let context = self.heap.contexts_in(AddrRange::new(Addr::new(at), Addr::new(end))).first();
        let stop = window.end.min(end).min(context.map_or(u64::MAX, |c| c.pointer.get()));
        let found = self.find(window, at, stop, end);
        if found > at {
            losses.add(at, found, || "the middle of an object that begins outside the core".into());
        }
        found
    }

    /// The first place from `at` on where objects follow one another; `stop`
    /// where there is none before it.
    fn find(&mut self, window: &Window<'_>, from: u64, stop: u64, end: u64) -> u64 {
        let searched = &self.heap.searched;
        if searched.load(Ordering::Relaxed) > limits::MAX_HEAP_SEARCH {
            return stop.max(from);
        }
        let mut at = from;
        while at < stop && !self.chains(window, at, stop, end) {
            at = at.saturating_add(ALIGN);
        }
        searched.fetch_add(at.saturating_sub(from), Ordering::Relaxed);
        at
    }

    /// Whether objects follow one another from `at` on.
    fn chains(&mut self, window: &Window<'_>, mut at: u64, stop: u64, end: u64) -> bool {
        for _ in 0..CHAIN {
            let Some(word) = window.word(at) else { return true };
            let entry = self.entry(word & self.heap.mask);
            if entry.kind == NONE {
                return false;
            }
            let Some(size) = self.size(window, at, &entry) else { return false };
            let next = at.saturating_add(stride(size));
            if next == stop || next == end {
                return true;
            }
            // Past the window it can't be followed; past a context's start it
            // can't reach.
            if next > end || (next > stop && stop < window.end) {
                return false;
            }
            at = next;
        }
        true
    }
}

/// The first context that begins at or after `at`.
fn from<'c>(
    mut context: Option<&'c AllocContext>,
    rest: &mut Iter<'c, AllocContext>,
    at: u64,
) -> Option<&'c AllocContext> {
    while context.is_some_and(|c| c.pointer.get() < at) {
        context = rest.next();
    }
    context
}

/// Where objects go on after what an allocator owns: it keeps the room of the
/// smallest object past its limit, to fill the rest with.
fn past(context: &AllocContext) -> u64 {
    context.limit.saturating_add(MIN_OBJECT).align_up(ALIGN).get()
}
