//! What only the garbage collector of .NET has, which CoreCLR and NativeAOT share.

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::Heap;
use crate::words::{Generation, HandleKind};

impl Generation {
    /// All of them in the words that all runtimes share.
    pub(crate) const MANAGED: [super::Generation; Generation::ALL.len()] = {
        let mut out = [Generation::Gen0.managed(); Generation::ALL.len()];
        let mut i = 0;
        while i < out.len() {
            out[i] = Generation::ALL[i].managed();
            i += 1;
        }
        out
    };

    /// The same in the words that all runtimes share.
    pub(crate) const fn managed(self) -> super::Generation {
        super::Generation { number: self as u8, name: self.name(), frozen: matches!(self, Generation::Frozen) }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Generation> {
        Generation::ALL.iter().copied().find(|g| g.name().eq_ignore_ascii_case(name))
    }
}

/// A heap segment or region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of the GC heap (0 for workstation GC).
    pub heap: u32,
    /// Generation.
    pub generation: Generation,
    /// The `heap_segment` struct.
    pub address: Addr,
    /// First object (`mem`).
    pub start: Addr,
    /// End of objects: `allocated`, or `alloc_allocated` where allocation goes on.
    pub end: Addr,
    /// Committed memory.
    pub committed: AddrRange,
    /// End of what is reserved.
    pub reserved_end: Addr,
    /// Where generations 1 and 0 begin in the ephemeral segment, where that is known.
    pub younger: Option<(Addr, Addr)>,
}

impl Segment {
    /// The runs of objects of one generation each: one, or where three
    /// generations share the segment and their bounds are known, three.
    pub fn runs(&self) -> impl Iterator<Item = (Generation, AddrRange)> + use<> {
        let (start, end, whole) = (self.start, self.end, self.generation);
        let bounds = self.younger.filter(|&(gen1, gen0)| start <= gen1 && gen1 <= gen0 && gen0 <= end);
        let runs = match bounds {
            Some((gen1, gen0)) => [
                Some((Generation::Gen2, AddrRange::new(start, gen1))),
                Some((Generation::Gen1, AddrRange::new(gen1, gen0))),
                Some((Generation::Gen0, AddrRange::new(gen0, end))),
            ],
            None => [Some((whole, AddrRange::new(start, end))), None, None],
        };
        runs.into_iter().flatten().filter(|(_, range)| !range.is_empty())
    }
}

/// A handle that leads to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Where it is.
    pub address: Addr,
    /// Its kind.
    pub kind: HandleKind,
    /// The object.
    pub object: Addr,
    /// The object that a dependent handle keeps with it.
    pub secondary: Option<Addr>,
}

/// The queue of one GC heap.
#[derive(Clone, Debug, Default)]
pub struct FinalizeQueue {
    /// Number of the GC heap.
    pub heap: u32,
    /// Registered objects: generation and where it stands in the array.
    pub registered: Vec<(Generation, Addr, Addr)>,
    /// Objects whose finalizer is due: where they stand in the array, and they.
    pub ready: Vec<(Addr, Addr)>,
}

/// The collector's memory, and its state.
#[derive(Clone, Copy, Debug)]
pub struct ClrHeaps<'h> {
    /// Segments and regions.
    pub segments: &'h [Segment],
    /// Whether it is of the server kind.
    pub server: bool,
    /// Whether it works by regions and not by segments.
    pub regions: bool,
    /// Whether it was in the middle of a collection.
    pub in_gc: bool,
}

/// The garbage collector of .NET.
pub trait ClrGc: Sync {
    /// Its memory, and its state.
    fn heaps(&self) -> ClrHeaps<'_>;

    /// Its objects, even if no segment could have any.
    fn objects(&self) -> Option<&dyn Heap>;

    /// Its handles, by address.
    fn handles(&self) -> &[Handle];

    /// Objects with finalizers.
    fn finalizers(&self) -> Vec<FinalizeQueue>;
}
