//! The interface of .NET's garbage collector, which CoreCLR and NativeAOT share.

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::Heap;
use crate::words::{Generation, HandleKind};

impl Generation {
    /// All generations, as the `Generation` that all runtimes share.
    pub(crate) const MANAGED: [super::Generation; Generation::ALL.len()] = {
        let mut out = [Generation::Gen0.managed(); Generation::ALL.len()];
        let mut i = 0;
        while i < out.len() {
            out[i] = Generation::ALL[i].managed();
            i += 1;
        }
        out
    };

    /// Converts it to the `Generation` that all runtimes share.
    pub(crate) const fn managed(self) -> super::Generation {
        super::Generation { number: self as u8, name: self.name(), frozen: matches!(self, Generation::Frozen) }
    }
}

/// A segment or region of the GC heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of the GC heap. 0 for workstation GC.
    pub heap: u32,
    /// Generation of the segment. If three generations share it, see [`Segment::runs`].
    pub generation: Generation,
    /// Address of its `heap_segment` struct.
    pub address: Addr,
    /// Address of the first object (`mem`).
    pub start: Addr,
    /// End of the objects: `allocated`, or `alloc_allocated` in the segment where allocation continues.
    pub end: Addr,
    /// Committed memory.
    pub committed: AddrRange,
    /// End of the reserved memory.
    pub reserved_end: Addr,
    /// Starts of generations 1 and 0 in the ephemeral segment. `None` if unknown or not ephemeral.
    pub younger: Option<(Addr, Addr)>,
}

impl Segment {
    /// Ranges of objects, each of one generation. There are three if three generations share the segment and their
    /// bounds are known, else one. Empty ranges are left out.
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

/// A GC handle that references an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Address of the handle.
    pub address: Addr,
    /// Kind of the handle.
    pub kind: HandleKind,
    /// The referenced object.
    pub object: Addr,
    /// The second object that a dependent handle keeps alive.
    pub secondary: Option<Addr>,
}

/// The finalization queue of one GC heap.
#[derive(Clone, Debug, Default)]
pub struct FinalizeQueue {
    /// Number of the GC heap.
    pub heap: u32,
    /// Objects registered for finalization: generation, address of the array slot, object.
    pub registered: Vec<(Generation, Addr, Addr)>,
    /// Objects whose finalizer is due: address of the array slot, object.
    pub ready: Vec<(Addr, Addr)>,
}

/// Memory and state of the collector.
#[derive(Clone, Copy, Debug)]
pub struct ClrHeaps<'h> {
    /// Segments and regions.
    pub segments: &'h [Segment],
    /// Committed bytes of regions and segments without objects, which the collector keeps or is about to return.
    pub free: u64,
    /// Whether this is the server GC.
    pub server: bool,
    /// Whether the heap consists of regions instead of segments.
    pub regions: bool,
    /// Whether a collection was in progress.
    pub in_gc: bool,
}

/// The garbage collector of .NET.
pub trait ClrGc: Sync {
    /// Memory and state of the collector.
    fn heaps(&self) -> ClrHeaps<'_>;

    /// The heap of objects, even if no segment contains any.
    fn objects(&self) -> Option<&dyn Heap>;

    /// GC handles, sorted by address.
    fn handles(&self) -> &[Handle];

    /// Finalization queues, one per GC heap.
    fn finalizers(&self) -> Vec<FinalizeQueue>;
}
