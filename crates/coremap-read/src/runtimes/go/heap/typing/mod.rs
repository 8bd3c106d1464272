//! Types of the objects of the heap.
//!
//! Most of Go's objects have no type of their own. A type is found with one of three grades:
//!
//! - exact: a word of the runtime is the type: the header of objects over 512 bytes with pointers (since 1.22), the
//!   type of a large object, of a finalizer's argument, of a channel's elements; the code of a closure;
//! - held: a field, slice, map or interface of a typed object points at it;
//! - shape: the two words of an interface in memory without a type point at it; or its size and pointers match exactly
//!   one type that the program's code allocates.
//!
//! A type of the grades held and shape is dropped if its pointers are not in the words that the collector takes for
//! pointers. Sources: runtime/mbitmap.go, mbitmap_allocheaders.go, type.go.

mod fields;
mod interfaces;
mod masks;
mod sites;
mod typer;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::addr::Addr;
use crate::runtimes::go::heap::bits::{Bits, Liveness};
use crate::runtimes::go::heap::spans::{Span, SpanUse};
use crate::runtimes::go::runtime::Runtime;
pub(in crate::runtimes::go) use fields::{Leads, PointerFields};
pub(in crate::runtimes::go) use masks::Masks;
pub(in crate::runtimes::go) use typer::census;

/// How the type of an object was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::runtimes::go) enum Grade {
    Exact,
    Held,
    Shape,
}

impl Grade {
    /// Name of the grade in output.
    pub(in crate::runtimes::go) fn word(self) -> &'static str {
        match self {
            Grade::Exact => "exact",
            Grade::Held => "held",
            Grade::Shape => "shape",
        }
    }
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::runtimes::go) enum Key {
    /// A value of a type.
    One(Addr),
    /// An array of values of a type: the backing array of a slice.
    Array(Addr),
    /// A channel, by the type of its elements.
    Chan(Addr),
    /// A closure, by the entry of its function.
    Closure(Addr),
    /// Bytes of a string.
    Text,
    /// The directory of a map, or a table of it.
    MapPart,
    /// An object without a type: size in bytes, and whether it has no pointers.
    Untyped(u64, bool),
}

/// An object of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) struct Slot {
    /// Index of the span.
    pub(in crate::runtimes::go) span: usize,
    /// Index of the object in it.
    pub(in crate::runtimes::go) index: u64,
    /// Its start.
    pub(in crate::runtimes::go) base: Addr,
}

/// The spans with objects, and which of them are live.
pub(in crate::runtimes::go) struct Slots {
    pub(in crate::runtimes::go) spans: Vec<Span>,
    live: Vec<Option<Bits>>,
    /// Number of the first slot of each span.
    firsts: Vec<usize>,
    /// Number of all slots.
    pub(in crate::runtimes::go) count: usize,
    /// Whether objects over 512 bytes begin with their type.
    headers: bool,
}

/// Size in bytes of a block that several small values without pointers may share (`maxTinySize`).
pub(in crate::runtimes::go) const TINY: u64 = 16;

/// Size in bytes of the largest object whose span has a bitmap of pointers.
pub(in crate::runtimes::go) const MAX_WITHOUT_HEADER: u64 = 512;

/// Size in bytes of the type in front of an object.
pub(in crate::runtimes::go) const HEADER: u64 = 8;

impl Slots {
    pub(in crate::runtimes::go) fn new(runtime: &Runtime<'_>) -> Slots {
        let all = runtime.proof.spans.all.iter().filter(|span| span.usage == SpanUse::Objects);
        let spans: Vec<Span> = all.copied().collect();
        let liveness = Liveness::new(runtime);
        let live = spans.iter().map(|span| liveness.of(span)).collect();
        let mut count = 0usize;
        let mut firsts = Vec::with_capacity(spans.len());
        for span in &spans {
            firsts.push(count);
            count = count.saturating_add(usize::try_from(span.count).unwrap_or(0));
        }
        Slots { spans, live, firsts, count, headers: runtime.shape().span.large_type.is_some() }
    }

    /// The slot that contains an address.
    pub(in crate::runtimes::go) fn at(&self, addr: Addr) -> Option<Slot> {
        let span = self.spans.partition_point(|span| span.range.start <= addr).checked_sub(1)?;
        let of = self.spans.get(span).filter(|of| of.range.contains(addr))?;
        let index = addr.since(of.range.start) / of.elem.max(1);
        let base = of.range.start.checked_add(index.checked_mul(of.elem)?)?;
        (index < of.count).then_some(Slot { span, index, base })
    }

    /// The slot that contains an address, if its object is live.
    pub(in crate::runtimes::go) fn live_at(&self, addr: Addr) -> Option<Slot> {
        self.at(addr).filter(|slot| self.is_live(*slot))
    }

    /// Whether the object in a slot is live.
    pub(in crate::runtimes::go) fn is_live(&self, slot: Slot) -> bool {
        self.live.get(slot.span).and_then(Option::as_ref).is_some_and(|bits| bits.has(slot.index))
    }

    /// The span of a slot.
    pub(in crate::runtimes::go) fn span(&self, slot: Slot) -> Option<&Span> {
        self.spans.get(slot.span)
    }

    /// Number of a slot.
    pub(in crate::runtimes::go) fn number(&self, slot: Slot) -> Option<usize> {
        self.firsts.get(slot.span)?.checked_add(usize::try_from(slot.index).ok()?)
    }

    /// Returns the size in bytes of the type in front of each object of a span. 0 if it has none.
    pub(in crate::runtimes::go) fn header(&self, span: &Span) -> u64 {
        let has = self.headers && span.elem > MAX_WITHOUT_HEADER && !span.is_large() && !span.is_noscan();
        if has { HEADER } else { 0 }
    }

    /// Visits the live objects of a span.
    pub(in crate::runtimes::go) fn each_live(&self, span: usize, mut visit: impl FnMut(Slot)) {
        let Some((of, Some(bits))) = self.spans.get(span).zip(self.live.get(span).map(Option::as_ref)) else { return };
        for index in (0..of.count).filter(|index| bits.has(*index)) {
            let base = of.range.start.saturating_add(index.saturating_mul(of.elem));
            visit(Slot { span, index, base });
        }
    }
}

/// Kinds of the objects of a heap.
#[derive(Default)]
pub(in crate::runtimes::go) struct Census {
    /// Kind of each slot: an index into `kinds`. 0 if it has no type.
    pub(in crate::runtimes::go) slots: Vec<u32>,
    /// The kinds. Kind 0 means that an object has no type.
    pub(in crate::runtimes::go) kinds: Vec<(Key, Arc<str>)>,
    pub(in crate::runtimes::go) by_key: HashMap<Key, u32>,
    /// Number of objects of each kind by grade.
    pub(in crate::runtimes::go) grades: Vec<[u64; 3]>,
    /// Kinds of the values in blocks that several small values share, by address. The first value of a block is in
    /// `slots`.
    pub(in crate::runtimes::go) tiny: BTreeMap<Addr, u32>,
    /// Number of types that were dropped because the collector's pointers are in other words.
    pub(in crate::runtimes::go) vetoed: u64,
}
