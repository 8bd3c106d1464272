//! Where a collector keeps objects: regions, spaces and pages, each from its first object to where allocation
//! stands. A file for each collector.

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
    /// What a part of the heap is for, in the words of the VM's logs.
    pub enum Generation {
        /// New objects.
        Eden = "eden",
        /// Objects that outlived a few collections.
        Survivor = "survivor",
        /// Old objects.
        Old = "old",
        /// Objects larger than half a region, each in regions of its own.
        Humongous = "humongous",
        /// Objects of the CDS archive, mapped and never moved.
        Archive = "archive",
        /// Objects of any age (Shenandoah of one generation, Epsilon).
        Regular = "regular",
        /// Pages of small objects.
        Small = "small",
        /// Pages of medium objects.
        Medium = "medium",
        /// Pages of one large object each.
        Large = "large",
        /// No objects.
        Free = "free",
        /// A region whose type the VM's tables do not name.
        Other = "other",
    }
}

impl Generation {
    /// The same in the words that all runtimes share.
    pub(super) const fn managed(self) -> api::Generation {
        api::Generation { number: self as u8, name: self.name(), frozen: matches!(self, Generation::Archive) }
    }

    /// All of them in the words that all runtimes share.
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

/// A part of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What it is for.
    pub generation: Generation,
    /// From its first object to where allocation stands.
    pub used: AddrRange,
    /// Where it ends.
    pub end: Addr,
    /// Whether there is one object in it, and nothing behind that.
    pub one_object: bool,
    /// Whether the object of the space before it goes on here.
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
    /// By address.
    pub all: Vec<Space>,
    /// The address space that is set aside for the heap; empty where that is not one range (ZGC).
    pub reserved: AddrRange,
    /// Where that is known from, for evidence.
    pub source: &'static str,
    /// What was left out, in words.
    pub notes: Vec<String>,
}

/// Which collector a VM has, by its flags: exactly one of them is set.
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
    /// The heap of a VM.
    ///
    /// # Errors
    /// Where its tables do not tell where it is.
    pub fn read(classes: &Classes<'_>) -> Result<Spaces, VmError> {
        let vm = &classes.vm;
        let heap = vm.static_ptr("Universe", "_collectedHeap")?;
        let unknown = VmError::Nonsense { what: "an unsupported collector's heap", at: heap };
        let collector = collector(vm).ok_or(unknown.clone())?;
        let mut notes = Vec::new();
        let (mut all, source) = match collector {
            Collector::G1 => (g1::read(vm, heap, &mut notes)?, "G1CollectedHeap::_hrm"),
            Collector::Serial => (generations::serial(vm, heap)?, "SerialHeap, GenCollectedHeap"),
            Collector::Parallel => (generations::parallel(vm)?, "ParallelScavengeHeap"),
            Collector::Epsilon => (generations::epsilon(vm, heap)?, "EpsilonHeap::_space"),
            Collector::Shenandoah => (shenandoah::read(vm, heap, &mut notes)?, "ShenandoahHeap::_regions"),
            Collector::Z => (z::read(classes, heap, &mut notes)?, "ZHeap::_page_table"),
            // Its old generation has free lists between objects, which no table tells.
            Collector::Cms => return Err(unknown),
        };
        all.retain(|space| space.end > space.used.start);
        all.sort_by_key(|space| (space.used.start, space.end));
        let reserved = reserved(vm, heap).unwrap_or_default();
        Ok(Spaces { collector, all, reserved, source, notes })
    }
}

/// What is set aside for the heap: `CollectedHeap::_reserved`.
fn reserved(vm: &Vm<'_>, heap: Addr) -> Result<AddrRange, VmError> {
    let region = vm.at("MemRegion", vm.at("CollectedHeap", heap).addr_of("_reserved")?);
    let bytes = region.number("_word_size")?.saturating_mul(crate::runtimes::hotspot::classes::WORD);
    Ok(AddrRange::sized(region.ptr("_start")?, bytes))
}
