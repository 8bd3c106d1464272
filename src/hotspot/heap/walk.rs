//! From object to object, and past what is none.

use std::slice::Iter;
use std::sync::atomic::Ordering;

use crate::addr::{Addr, AddrRange};
use crate::hotspot::heap::Heap;
use crate::hotspot::heap::types::Form;
use crate::limits;
use crate::managed::{Losses, Object, Part, TypeIndex, Walker};
use crate::memory::window::Window;

/// Entries of the cache of classes: a power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// Objects in a row that make a place believed to be a first object again.
const CHAIN: usize = 4;

/// What the walk needs of a class.
#[derive(Clone, Copy)]
struct Entry {
    klass: u64,
    form: Form,
    /// [`NONE`] where it is no class.
    kind: u32,
}

const NONE: u32 = u32::MAX;

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
    NoClass(u64),
    TooLong(u64),
    SizeMissing,
}

impl Damage {
    fn text(self) -> String {
        match self {
            Damage::NoClass(klass) => format!("no object: 0x{klass:x} is no class"),
            Damage::TooLong(size) => format!("an object of {size} bytes, past the end of its region"),
            Damage::SizeMissing => "an object whose class or size is not in the core".into(),
        }
    }
}

/// Walks parts of a heap.
pub(super) struct HeapWalker<'h, 'p> {
    heap: &'h Heap<'p>,
    cache: Box<[Entry; CACHE]>,
    /// Bytes that threads still own, of all parts walked so far.
    unused: u64,
}

impl<'h, 'p> HeapWalker<'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>) -> HeapWalker<'h, 'p> {
        let empty = Entry { klass: 0, form: Form::Fixed(0), kind: NONE };
        HeapWalker { heap, cache: Box::new([empty; CACHE]), unused: 0 }
    }
}

impl Walker for HeapWalker<'_, '_> {
    fn unused(&self) -> u64 {
        self.unused
    }

    fn walk(&mut self, part: &Part, losses: &mut Losses, visit: &mut dyn FnMut(&Object)) {
        let end = part.range.end.get();
        let single = self.heap.is_single(part);
        let windows = Window::all(self.heap.classes.vm.process.target(), part.range);
        let mut tlabs = self.heap.tlabs_in(part.range).iter();
        let mut tlab = tlabs.next();
        let mut at = part.range.start.get();
        for window in &windows {
            if at < window.start {
                losses.add(at, window.start, || "not in the core".into());
                at = if single { end } else { self.first_object(window, window.start, end, losses) };
            }
            while at < window.end && at < end {
                tlab = from(tlab, &mut tlabs, at);
                if let Some(t) = tlab.filter(|t| t.start.get() == at) {
                    tlab = tlabs.next();
                    // One that reaches out of its region is none.
                    if t.end.get() <= end {
                        self.unused = self.unused.saturating_add(t.len());
                        at = t.end.get();
                        continue;
                    }
                }
                let stop = window.end.min(end).min(tlab.map_or(u64::MAX, |t| t.start.get()));
                let stop = if single { at.saturating_add(1) } else { stop };
                match self.objects(window, at, stop, end, visit) {
                    // What follows a large object in its last region is nothing.
                    Stop::At(_) if single => at = end,
                    Stop::At(next) => at = next,
                    Stop::Bad(place, damage) => {
                        tlab = from(tlab, &mut tlabs, place.saturating_add(1));
                        let stop = window.end.min(end).min(tlab.map_or(u64::MAX, |t| t.start.get()));
                        at = if single { end } else { self.find(window, place.saturating_add(8), stop, end) };
                        losses.add(place, at, || damage.text());
                    }
                }
            }
        }
        if at < end {
            losses.add(at, end, || "not in the core".into());
        }
    }
}

impl HeapWalker<'_, '_> {
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
            let Some(klass) = self.klass(window, at) else { return Stop::Bad(at, Damage::SizeMissing) };
            let entry = self.entry(klass);
            if entry.kind == NONE {
                return Stop::Bad(at, Damage::NoClass(klass));
            }
            let Some(size) = self.size(window, at, &entry) else { return Stop::Bad(at, Damage::SizeMissing) };
            let next = at.saturating_add(self.heap.stride(size));
            if next > end || next <= at {
                return Stop::Bad(at, Damage::TooLong(size));
            }
            visit(&Object { addr: Addr::new(at), kind: TypeIndex(entry.kind), size: next - at });
            at = next;
        }
        Stop::At(at)
    }

    /// The class that an object at `at` would have.
    #[inline(always)]
    fn klass(&self, window: &Window<'_>, at: u64) -> Option<u64> {
        self.heap.classes.encoding.klass_in(|offset| window.word(at.wrapping_add(offset)))
    }

    #[inline(always)]
    fn size(&self, window: &Window<'_>, at: u64, entry: &Entry) -> Option<u64> {
        entry.form.size(&self.heap.classes.encoding, |offset| window.word(at.wrapping_add(offset)))
    }

    #[inline(always)]
    fn entry(&mut self, klass: u64) -> Entry {
        let slot = (klass.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS)) as usize & (CACHE - 1);
        let entry = self.cache[slot];
        if entry.klass == klass && klass != 0 { entry } else { self.miss(slot, klass) }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, slot: usize, klass: u64) -> Entry {
        let found = self.heap.types.lookup(klass);
        let found = found.and_then(|(kind, class)| Some((kind, Form::of(class.shape)?)));
        let entry = match found {
            Some((kind, form)) => Entry { klass, form, kind: kind.0 },
            None => Entry { klass, form: Form::Fixed(0), kind: NONE },
        };
        self.cache[slot] = entry;
        entry
    }

    /// The first object at or after `at`, where nothing told where one begins.
    fn first_object(&mut self, window: &Window<'_>, at: u64, end: u64, losses: &mut Losses) -> u64 {
        let tlab = self.heap.tlabs_in(AddrRange::new(Addr::new(at), Addr::new(end))).first();
        let stop = window.end.min(end).min(tlab.map_or(u64::MAX, |t| t.start.get()));
        let found = self.find(window, at, stop, end);
        if found > at {
            losses.add(at, found, || "the middle of an object that begins outside the core".into());
        }
        found
    }

    /// The first place from `at` on where objects follow one another; `stop` where there is none before it.
    fn find(&mut self, window: &Window<'_>, from: u64, stop: u64, end: u64) -> u64 {
        let searched = &self.heap.searched;
        if searched.load(Ordering::Relaxed) > limits::MAX_HEAP_SEARCH {
            return stop.max(from);
        }
        let mut at = from;
        while at < stop && !self.chains(window, at, stop, end) {
            at = at.saturating_add(self.heap.align);
        }
        searched.fetch_add(at.saturating_sub(from), Ordering::Relaxed);
        at
    }

    /// Whether objects follow one another from `at` on.
    fn chains(&mut self, window: &Window<'_>, mut at: u64, stop: u64, end: u64) -> bool {
        for _ in 0..CHAIN {
            let Some(klass) = self.klass(window, at) else { return true };
            let entry = self.entry(klass);
            if entry.kind == NONE {
                return false;
            }
            let Some(size) = self.size(window, at, &entry) else { return false };
            let next = at.saturating_add(self.heap.stride(size));
            if next == stop || next == end {
                return true;
            }
            if next > end || next <= at || (next > stop && stop < window.end) {
                return false;
            }
            at = next;
        }
        true
    }
}

/// The first of what threads own that begins at or after `at`.
fn from<'c>(mut tlab: Option<&'c AddrRange>, rest: &mut Iter<'c, AddrRange>, at: u64) -> Option<&'c AddrRange> {
    while tlab.is_some_and(|t| t.start.get() < at) {
        tlab = rest.next();
    }
    tlab
}
