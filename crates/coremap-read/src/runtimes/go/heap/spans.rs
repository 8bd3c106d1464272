//! Spans: runs of pages of the heap, each with objects of one size, or with stacks.
//!
//! Source: runtime/mheap.go, `mspan`.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::shape::Shape;

/// Bytes of a page of the heap.
pub(in crate::runtimes::go) const PAGE: u64 = 8 << 10;

/// `mSpanInUse` and `mSpanManual`.
const IN_USE: u8 = 1;
const MANUAL: u8 = 2;

/// Use of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) enum SpanUse {
    /// Objects of the heap.
    Objects,
    /// Stacks of goroutines.
    Stacks,
    /// Work buffers of the collector.
    WorkBuffers,
}

/// A span that is in use.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtimes::go) struct Span {
    pub(in crate::runtimes::go) range: AddrRange,
    /// Address of the `mspan`.
    pub(in crate::runtimes::go) at: Addr,
    pub(in crate::runtimes::go) usage: SpanUse,
    /// Size of its objects in bytes.
    pub(in crate::runtimes::go) elem: u64,
    /// Number of objects that fit.
    pub(in crate::runtimes::go) count: u64,
    /// Number of objects at its start that are allocated, whatever the bits say.
    pub(in crate::runtimes::go) free_index: u64,
    pub(in crate::runtimes::go) alloc_bits: Addr,
    pub(in crate::runtimes::go) mark_bits: Addr,
    pub(in crate::runtimes::go) sweepgen: u32,
    /// Size class, 0 for one large object, times 2, and 1 if its objects have no pointers.
    pub(in crate::runtimes::go) class: u8,
    pub(in crate::runtimes::go) specials: Addr,
    /// Type of a large object. Null before 1.22.
    pub(in crate::runtimes::go) large_type: Addr,
}

impl Span {
    /// Reads the span at `at`. `Ok(None)` if it is not in use. `Err` if its fields contradict each other.
    pub(super) fn read(memory: &dyn Memory, shape: &Shape, at: Addr) -> Result<Option<Span>, Unsound> {
        let s = &shape.span;
        let r = Record::read(memory, at, s.size).ok_or(Unsound)?;
        let usage = match (r.u8(s.state), r.u64(s.elemsize)) {
            (0, _) => return Ok(None),
            (IN_USE, 1..) => SpanUse::Objects,
            (MANUAL, 0) => SpanUse::WorkBuffers,
            (MANUAL, _) => SpanUse::Stacks,
            _ => return Err(Unsound),
        };
        let start = r.ptr(s.start);
        let bytes = r.u64(s.npages).checked_mul(PAGE).filter(|bytes| *bytes > 0).ok_or(Unsound)?;
        let end = start.checked_add(bytes).filter(|_| start.is_aligned(PAGE) && !start.is_null()).ok_or(Unsound)?;
        let number = |at| if shape.span_count_bytes == 2 { u64::from(r.u16(at)) } else { r.u64(at) };
        let (elem, count) = (r.u64(s.elemsize), number(s.nelems));
        if usage == SpanUse::Objects && elem.checked_mul(count).is_none_or(|all| all > bytes) {
            return Err(Unsound);
        }
        Ok(Some(Span {
            range: AddrRange::new(start, end),
            at,
            usage,
            elem,
            count,
            free_index: number(s.freeindex),
            alloc_bits: r.ptr(s.alloc_bits),
            mark_bits: r.ptr(s.mark_bits),
            sweepgen: r.u32(s.sweepgen),
            class: r.u8(s.class),
            specials: r.ptr(s.specials),
            large_type: s.large_type.map_or(Addr::NULL, |at| r.ptr(at)),
        }))
    }

    /// Whether its objects have no pointers.
    pub(in crate::runtimes::go) fn is_noscan(&self) -> bool {
        self.class & 1 != 0
    }

    /// Whether it has one object larger than every size class.
    pub(in crate::runtimes::go) fn is_large(&self) -> bool {
        self.class >> 1 == 0
    }
}

/// A span whose fields contradict each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsound;

/// All spans in use, by address.
#[derive(Clone, Debug, Default)]
pub(in crate::runtimes::go) struct Spans {
    pub(in crate::runtimes::go) all: Vec<Span>,
    /// Number of spans whose description could not be read or contradicts itself.
    pub(in crate::runtimes::go) unsound: u64,
}

impl Spans {
    /// Reads all spans in `allspans`. The slice at `list` is a pointer to an array of pointers, and its length.
    pub(in crate::runtimes::go) fn read(memory: &dyn Memory, shape: &Shape, list: Addr) -> Option<Spans> {
        let head = Record::read(memory, list, 16)?;
        let count = head.u64(8);
        let words =
            (count <= limits::MAX_GO_SPANS).then(|| Record::read(memory, head.ptr(0), count.checked_mul(8)?))??;
        let mut out = Spans::default();
        for word in words.bytes().as_chunks::<8>().0 {
            match Span::read(memory, shape, Addr::new(u64::from_le_bytes(*word))) {
                Ok(span) => out.all.extend(span),
                Err(Unsound) => out.unsound += 1,
            }
        }
        out.all.sort_unstable_by_key(|span| span.range);
        Some(out)
    }

    /// Bytes of the spans with this use.
    pub(in crate::runtimes::go) fn bytes_of(&self, usage: SpanUse) -> u64 {
        let all = self.all.iter().filter(|span| span.usage == usage);
        all.fold(0, |sum, span| sum.saturating_add(span.range.len()))
    }

    /// The span that contains an address.
    pub(in crate::runtimes::go) fn at(&self, addr: Addr) -> Option<&Span> {
        let after = self.all.partition_point(|span| span.range.start <= addr);
        self.all.get(after.checked_sub(1)?).filter(|span| span.range.contains(addr))
    }
}
