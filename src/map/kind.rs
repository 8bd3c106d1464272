//! Kinds of regions. Names match SOS `!maddress` where it has one.

use crate::words::words;

words! {
    /// Kind of a region. docs/regions.md describes each: meaning, evidence, limits.
    #[derive(Default)]
    #[non_exhaustive]
    #[allow(missing_docs, reason = "docs/regions.md describes each under its name")]
    pub enum Kind {
        // What the mapping alone says; least specific first.
        #[default]
        NoAccess = "NoAccess",
        AnonRO = "AnonRO",
        AnonRW = "AnonRW",
        AnonRX = "AnonRX",
        AnonRWX = "AnonRWX",
        MappedFile = "MappedFile",
        SharedMemory = "SharedMemory",
        DoubleMapped = "DoubleMapped",
        // What a program's structures say.
        Image = "Image",
        Vdso = "Vdso",
        Malloc = "Malloc",
        Allocator = "Allocator",
        RuntimeHeap = "RuntimeHeap",
        LibraryBuffer = "LibraryBuffer",
        SanitizerShadow = "SanitizerShadow",
        Tls = "Tls",
        Stack = "Stack",
        StackGuard = "StackGuard",
        // .NET, in the words of SOS.
        GCHeapReserve = "GCHeapReserve",
        GCHeap = "GCHeap",
        GCHeapToBeFreed = "GCHeapToBeFreed",
        GCBookkeeping = "GCBookkeeping",
        HandleTable = "HandleTable",
        HighFrequencyHeap = "HighFrequencyHeap",
        LowFrequencyHeap = "LowFrequencyHeap",
        StaticsHeap = "StaticsHeap",
        StubHeap = "StubHeap",
        ExecutableHeap = "ExecutableHeap",
        FixupPrecodeHeap = "FixupPrecodeHeap",
        NewStubPrecodeHeap = "NewStubPrecodeHeap",
        IndirectionCellHeap = "IndirectionCellHeap",
        CacheEntryHeap = "CacheEntryHeap",
        LookupHeap = "LookupHeap",
        ResolveHeap = "ResolveHeap",
        DispatchHeap = "DispatchHeap",
        VtableHeap = "VtableHeap",
        ThunkHeap = "ThunkHeap",
        LoaderCodeHeap = "LoaderCodeHeap",
        HostCodeHeap = "HostCodeHeap",
        // The Java VM, in the words of its own Native Memory Tracking where it has one.
        ClassSpace = "ClassSpace",
        Metaspace = "Metaspace",
        CdsArchive = "CdsArchive",
        CodeCache = "CodeCache",
        VmData = "VmData",
        // CPython: arenas of obmalloc, and the stacks of frames of its threads.
        PyMalloc = "PyMalloc",
        PyFrames = "PyFrames",
    }
}

impl Kind {
    /// The kind with this name, in any letter case.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is reserved address space without contents. Sums exclude it, since it would dwarf real
    /// memory.
    pub fn is_reserved(self) -> bool {
        matches!(self, Kind::NoAccess | Kind::GCHeapReserve)
    }

    /// Whether only Java VMs have it.
    pub fn is_java(self) -> bool {
        use Kind::{CdsArchive, ClassSpace, CodeCache, Metaspace, VmData};
        matches!(self, ClassSpace | Metaspace | CdsArchive | CodeCache | VmData)
    }

    /// Whether it is anonymous memory with no known owner.
    pub fn is_anonymous(self) -> bool {
        matches!(self, Kind::AnonRO | Kind::AnonRW | Kind::AnonRX | Kind::AnonRWX)
    }

    /// Whether it contains objects of a managed runtime. Objects allocated by malloc are not included.
    pub fn holds_objects(self) -> bool {
        matches!(self, Kind::GCHeap | Kind::PyMalloc)
    }

    /// Whether it may contain malloc blocks, of any malloc implementation.
    pub fn holds_blocks(self) -> bool {
        matches!(self, Kind::Malloc | Kind::Allocator)
    }

    /// Whether it belongs to an allocator, runtime or library that coremap recognizes but does not walk.
    /// Several owners share such a kind; the detail names the owner.
    pub fn is_recognised(self) -> bool {
        use Kind::{Allocator, LibraryBuffer, RuntimeHeap, SanitizerShadow, Tls};
        matches!(self, Allocator | RuntimeHeap | LibraryBuffer | SanitizerShadow | Tls)
    }

    /// Rank of the kind: among claims of equal confidence the more specific one wins. A mapping's own kind
    /// ranks below the kind of its contents.
    pub fn specificity(self) -> u8 {
        match self {
            Kind::NoAccess | Kind::AnonRO | Kind::AnonRW | Kind::AnonRX | Kind::AnonRWX => 0,
            Kind::MappedFile => 1,
            Kind::SharedMemory => 2,
            Kind::DoubleMapped => 3,
            Kind::GCHeapReserve => 4,
            Kind::Image => 5,
            Kind::Vdso => 6,
            // Below malloc's: what is recognised gives way to what is walked.
            Kind::Allocator | Kind::RuntimeHeap | Kind::LibraryBuffer | Kind::SanitizerShadow | Kind::Tls => 7,
            Kind::Malloc => 8,
            Kind::Stack => 9,
            Kind::StackGuard => 10,
            // A guess by what leads there: whoever knows more goes before it.
            Kind::VmData => 7,
            // The runtime's own structures, all of one rank: they do not
            // overlap, and where they do `check` says so.
            _ => 11,
        }
    }
}
