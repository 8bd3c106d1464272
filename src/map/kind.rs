//! What a region is. Names are those of SOS `!maddress` where it has one.

use crate::words::words;

words! {
    /// Kind of a region. docs/regions.md tells of each: meaning, evidence, limits.
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
    /// The kind of that name, in any case of letters.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is address space that was set aside and holds nothing: in sums it would hide what is there.
    pub fn is_reserved(self) -> bool {
        matches!(self, Kind::NoAccess | Kind::GCHeapReserve)
    }

    /// Whether only a Java VM has it.
    pub fn is_java(self) -> bool {
        use Kind::{CdsArchive, ClassSpace, CodeCache, Metaspace, VmData};
        matches!(self, ClassSpace | Metaspace | CdsArchive | CodeCache | VmData)
    }

    /// Whether it is anonymous memory that nobody claims.
    pub fn is_anonymous(self) -> bool {
        matches!(self, Kind::AnonRO | Kind::AnonRW | Kind::AnonRX | Kind::AnonRWX)
    }

    /// Whether a managed runtime has its objects there; what it has from malloc is not counted.
    pub fn holds_objects(self) -> bool {
        matches!(self, Kind::GCHeap | Kind::PyMalloc)
    }

    /// Whether blocks of malloc may be there, whoever's malloc that is.
    pub fn holds_blocks(self) -> bool {
        matches!(self, Kind::Malloc | Kind::Allocator)
    }

    /// Whether it is of an allocator, runtime or library that is recognised and not walked: regions of different
    /// owners have it, and their details tell whose they are.
    pub fn is_recognised(self) -> bool {
        use Kind::{Allocator, LibraryBuffer, RuntimeHeap, SanitizerShadow, Tls};
        matches!(self, Allocator | RuntimeHeap | LibraryBuffer | SanitizerShadow | Tls)
    }

    /// How much a label of this kind says: among claims of equal confidence the
    /// more specific wins. What a mapping is says less than what lies in it.
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
