//! Numbers all objects of a heap by address, and sums them up by type.

use crate::addr::{Addr, AddrRange};
use crate::progress::Progress;
use crate::runtimes::api::Space;
use crate::runtimes::api::{FREE, Heap, HeapRange, Object, Tally, UnwalkedRanges};
use crate::runtimes::graph::{MemoryBudget, ObjectIds, WalkResult};

/// Number of objects in a page, the unit of work of a thread: some MiB of heap.
const PAGE_OBJECTS: u32 = 1 << 15;

/// The objects of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Number and size of the objects.
    pub(crate) tally: Tally,
    /// Address and size of the object with the lowest address.
    first: (u64, u64),
}

impl Default for Kind {
    fn default() -> Kind {
        Kind { tally: Tally::default(), first: (u64::MAX, 0) }
    }
}

impl Kind {
    /// Size of the first object in bytes.
    pub(crate) fn first_size(&self) -> u64 {
        self.first.1
    }

    fn plus(self, other: Kind) -> Kind {
        Kind { tally: self.tally.plus(other.tally), first: self.first.min(other.first) }
    }
}

/// All objects by address, without the free space between them.
pub(crate) struct Objects<'h> {
    space: &'h Space<'h>,
    ids: ObjectIds,
    /// Sums by type number.
    pub(crate) kinds: Vec<Kind>,
    /// Number and size of all objects.
    pub(crate) total: Tally,
    /// Number and size of free spaces between objects, of type [`FREE`].
    pub(crate) free: Tally,
    /// Parts of the heap that could not be walked.
    pub(crate) losses: UnwalkedRanges,
}

impl<'h> Objects<'h> {
    /// Walks `heap`. `None` if it has more objects than can be numbered.
    pub(crate) fn of(heap: &'h dyn Heap, progress: &Progress) -> Option<Objects<'h>> {
        progress.start(heap.ranges().iter().map(|p| p.range.len()).fold(0, u64::saturating_add));
        let see = |kinds: &mut Vec<Kind>, _: &HeapRange, object: &Object| {
            let index = object.kind.0 as usize;
            if index >= kinds.len() {
                kinds.resize(index + 256, Kind::default());
            }
            if let Some(kind) = kinds.get_mut(index) {
                let one = Tally { count: 1, size: object.size };
                *kind = kind.plus(Kind { tally: one, first: (object.addr.get(), object.size) });
            }
        };
        let (ids, WalkResult { seen, unwalked: losses }) =
            ObjectIds::new(heap, &MemoryBudget::unbounded(), see, |part| progress.add(part.range.len())).ok()?;
        let mut kinds: Vec<Kind> = Vec::new();
        for of_share in seen {
            if kinds.len() < of_share.len() {
                kinds.resize(of_share.len(), Kind::default());
            }
            for (sum, kind) in kinds.iter_mut().zip(of_share) {
                *sum = sum.plus(kind);
            }
        }
        let free = kinds.get(FREE.0 as usize).map_or(Tally::default(), |kind| kind.tally);
        let rest = kinds.iter().skip(FREE.0 as usize + 1);
        let total = rest.fold(Tally::default(), |sum, kind| sum.plus(kind.tally));
        Some(Objects { space: heap.space(), ids, kinds, total, free, losses })
    }

    pub(crate) fn len(&self) -> u32 {
        self.ids.len()
    }

    /// Returns the number of the object that starts at `addr`.
    #[inline]
    pub(crate) fn number(&self, addr: u64) -> Option<u32> {
        self.ids.find(self.space, addr)
    }

    /// Number of pages. Pages can be processed independently, in the order of object numbers.
    pub(crate) fn pages(&self) -> usize {
        self.len().div_ceil(PAGE_OBJECTS) as usize
    }

    /// Returns the first object number of a page, and the addresses of its objects.
    pub(crate) fn page(&self, page: usize) -> (u32, impl Iterator<Item = Addr> + '_) {
        let first = (page as u64 * u64::from(PAGE_OBJECTS)).min(u64::from(self.len())) as u32;
        (first, self.ids.addresses(self.space, first..first.saturating_add(PAGE_OBJECTS).min(self.len())))
    }

    /// Iterates numbers and addresses of the objects that start in `range`.
    pub(crate) fn within(&self, range: AddrRange) -> impl Iterator<Item = (u32, Addr)> + '_ {
        let ids = self.ids.ids_in(self.space, range);
        (ids.start..).zip(self.ids.addresses(self.space, ids))
    }
}
