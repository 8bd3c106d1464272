//! All objects of a heap in a row: a number for each, by address, and back; with them what their types add up to.

use crate::addr::{Addr, AddrRange};
use crate::progress::Progress;
use crate::runtimes::api::Space;
use crate::runtimes::api::{FREE, Heap, Losses, Object, Part, Tally};
use crate::runtimes::graph::{Ids, Room, Walked};

/// Objects of a page, which is what a thread takes at once: some MiB of heap.
const PAGE_OBJECTS: u32 = 1 << 15;

/// The objects of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// How many, and their bytes.
    pub(crate) tally: Tally,
    /// Address and size of the first.
    first: (u64, u64),
}

impl Default for Kind {
    fn default() -> Kind {
        Kind { tally: Tally::default(), first: (u64::MAX, 0) }
    }
}

impl Kind {
    /// Bytes of the first object.
    pub(crate) fn first_size(&self) -> u64 {
        self.first.1
    }

    fn plus(self, other: Kind) -> Kind {
        Kind { tally: self.tally.plus(other.tally), first: self.first.min(other.first) }
    }
}

/// All objects by address, without the space between them.
pub(crate) struct Objects<'h> {
    space: &'h Space<'h>,
    ids: Ids,
    /// By number of the type.
    pub(crate) kinds: Vec<Kind>,
    /// All of them.
    pub(crate) total: Tally,
    /// Space between objects, of type [`FREE`].
    pub(crate) free: Tally,
    /// What could not be walked.
    pub(crate) losses: Losses,
}

impl<'h> Objects<'h> {
    /// Walk `heap`. `None` where it has more objects than can be numbered.
    pub(crate) fn of(heap: &'h dyn Heap, progress: &Progress) -> Option<Objects<'h>> {
        progress.start(heap.parts().iter().map(|p| p.range.len()).fold(0, u64::saturating_add));
        let see = |kinds: &mut Vec<Kind>, _: &Part, object: &Object| {
            let index = object.kind.0 as usize;
            if index >= kinds.len() {
                kinds.resize(index + 256, Kind::default());
            }
            if let Some(kind) = kinds.get_mut(index) {
                let one = Tally { count: 1, size: object.size };
                *kind = kind.plus(Kind { tally: one, first: (object.addr.get(), object.size) });
            }
        };
        let (ids, Walked { seen, losses }) =
            Ids::new(heap, &Room::unbounded(), see, |part| progress.add(part.range.len())).ok()?;
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

    /// How many have a number.
    pub(crate) fn len(&self) -> u32 {
        self.ids.len()
    }

    /// Number of the object that begins at `addr`.
    #[inline]
    pub(crate) fn number(&self, addr: u64) -> Option<u32> {
        self.ids.find(self.space, addr)
    }

    /// How many pages there are: pieces that can be taken one by one, in the order of numbers.
    pub(crate) fn pages(&self) -> usize {
        self.len().div_ceil(PAGE_OBJECTS) as usize
    }

    /// The first number in a page, and the addresses of all in it.
    pub(crate) fn page(&self, page: usize) -> (u32, impl Iterator<Item = Addr> + '_) {
        let first = (page as u64 * u64::from(PAGE_OBJECTS)).min(u64::from(self.len())) as u32;
        (first, self.ids.addresses(self.space, first..first.saturating_add(PAGE_OBJECTS).min(self.len())))
    }

    /// Numbers and addresses of those that begin in `range`.
    pub(crate) fn within(&self, range: AddrRange) -> impl Iterator<Item = (u32, Addr)> + '_ {
        let ids = self.ids.within(self.space, range);
        (ids.start..).zip(self.ids.addresses(self.space, ids))
    }
}
