//! The spaces of each collector: regions, spaces or pages, each from its first object to its allocation pointer. There
//! is a file per collector.

mod g1;
mod generations;
mod shenandoah;
mod z;

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api;
use crate::runtimes::hotspot::classes::Classes;
use crate::runtimes::hotspot::vm::{Vm, VmError};
use crate::words::words;

words! {
    /// A collector, by the name of its flag (`-XX:+UseG1GC`).
    pub enum Collector {
        /// One thread, two generations.
        Serial = "Serial",
        /// Several threads, two generations.
        Parallel = "Parallel",
        /// Regions in generations.
        G1 = "G1",
        /// Regions, concurrent.
        Shenandoah = "Shenandoah",
        /// Pages, concurrent.
        Z = "ZGC",
        /// Never collects.
        Epsilon = "Epsilon",
        /// Concurrent mark and sweep, up to JDK 13.
        Cms = "CMS",
    }
}

words! {
    /// The use of a space, in the words of the VM's logs.
    pub enum Generation {
        /// New objects.
        Eden = "eden",
        /// Objects that survived a few collections.
        Survivor = "survivor",
        /// Old objects.
        Old = "old",
        /// Objects larger than half a region, each in its own regions.
        Humongous = "humongous",
        /// Objects of the CDS archive, which are mapped and never moved.
        Archive = "archive",
        /// Objects of any age (non-generational Shenandoah, Epsilon).
        Regular = "regular",
        /// Pages of small objects.
        Small = "small",
        /// Pages of medium objects.
        Medium = "medium",
        /// Pages of one large object each.
        Large = "large",
        /// No objects.
        Free = "free",
        /// A region type that the VM's tables do not name.
        Other = "other",
    }
}

impl Generation {
    /// Converts the generation to the form shared by all runtimes.
    pub(super) const fn managed(self) -> api::Generation {
        api::Generation { number: self as u8, name: self.name(), frozen: matches!(self, Generation::Archive) }
    }

    /// All generations in the form shared by all runtimes.
    pub(super) const MANAGED: [api::Generation; Generation::ALL.len()] = {
        let mut out = [Generation::Eden.managed(); Generation::ALL.len()];
        let mut i = 0;
        while i < out.len() {
            out[i] = Generation::ALL[i].managed();
            i += 1;
        }
        out
    };
}

/// A region, space or page of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Use of the space.
    pub generation: Generation,
    /// From the first object to the allocation pointer.
    pub used: AddrRange,
    /// End of the space.
    pub end: Addr,
    /// Whether it contains exactly one object.
    pub one_object: bool,
    /// Whether the previous space's object continues here.
    pub continues: bool,
}

impl Space {
    fn new(generation: Generation, bottom: Addr, top: Addr, end: Addr) -> Space {
        let top = top.min(end).max(bottom);
        Space { generation, used: AddrRange::new(bottom, top), end, one_object: false, continues: false }
    }
}

/// All spaces of a heap.
#[derive(Clone, Debug)]
pub struct Spaces {
    /// The collector.
    pub collector: Collector,
    /// The spaces, by address.
    pub all: Vec<Space>,
    /// Addresses reserved for the heap. Empty if they are not one range (ZGC).
    pub reserved: AddrRange,
    /// The VM's structure that has the spaces, for evidence.
    pub source: &'static str,
    /// Descriptions of what was left out.
    pub notes: Vec<String>,
}

/// Returns the VM's collector, by its flags. Exactly one of them is set.
fn collector(vm: &Vm<'_>) -> Option<Collector> {
    let flags = [
        ("UseSerialGC", Collector::Serial),
        ("UseParallelGC", Collector::Parallel),
        ("UseG1GC", Collector::G1),
        ("UseShenandoahGC", Collector::Shenandoah),
        ("UseZGC", Collector::Z),
        ("UseEpsilonGC", Collector::Epsilon),
        ("UseConcMarkSweepGC", Collector::Cms),
    ];
    flags.iter().find(|(flag, _)| vm.is_set(flag)).map(|&(_, collector)| collector)
}

impl Spaces {
    /// Reads the spaces of a VM's heap.
    ///
    /// # Errors
    /// If the VM's tables do not lead to the heap, or its collector is not supported.
    pub fn read(classes: &Classes<'_>) -> Result<Spaces, VmError> {
        let vm = &classes.vm;
        let heap = vm.static_ptr("Universe", "_collectedHeap")?;
        let unknown = VmError::Invalid { what: "an unsupported collector's heap", at: heap };
        let collector = collector(vm).ok_or(unknown.clone())?;
        let mut notes = Vec::new();
        let (mut all, source) = match collector {
            Collector::G1 => (g1::read(vm, heap, &mut notes)?, "G1CollectedHeap::_hrm"),
            Collector::Serial => (generations::serial(vm, heap)?, "SerialHeap, GenCollectedHeap"),
            Collector::Parallel => (generations::parallel(vm)?, "ParallelScavengeHeap"),
            Collector::Epsilon => (generations::epsilon(vm, heap)?, "EpsilonHeap::_space"),
            Collector::Shenandoah => (shenandoah::read(vm, heap, &mut notes)?, "ShenandoahHeap::_regions"),
            Collector::Z => (z::read(classes, heap, &mut notes)?, "ZHeap::_page_table"),
            // Its old generation has free lists between objects, which are in no table.
            Collector::Cms => return Err(unknown),
        };
        all.retain(|space| space.end > space.used.start);
        all.sort_by_key(|space| (space.used.start, space.end));
        let reserved = reserved(vm, heap).unwrap_or_default();
        Ok(Spaces { collector, all, reserved, source, notes })
    }
}

/// Returns the addresses reserved for the heap (`CollectedHeap::_reserved`).
fn reserved(vm: &Vm<'_>, heap: Addr) -> Result<AddrRange, VmError> {
    let region = vm.at("MemRegion", vm.at("CollectedHeap", heap).addr_of("_reserved")?);
    let bytes = region.number("_word_size")?.saturating_mul(crate::runtimes::hotspot::classes::WORD);
    Ok(AddrRange::sized(region.ptr("_start")?, bytes))
}
