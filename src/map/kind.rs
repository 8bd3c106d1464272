//! What a region is. Names are those of SOS `!maddress` where it has one.

/// Kind of a region. docs/regions.md tells of each: meaning, evidence, limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "docs/regions.md describes each under its name")]
pub enum Kind {
    // What the mapping alone says; least specific first.
    NoAccess,
    AnonRO,
    AnonRW,
    AnonRX,
    AnonRWX,
    MappedFile,
    SharedMemory,
    DoubleMapped,
    // What a program's structures say.
    Image,
    Vdso,
    Malloc,
    Allocator,
    RuntimeHeap,
    LibraryBuffer,
    SanitizerShadow,
    Tls,
    Stack,
    StackGuard,
    // .NET, in the words of SOS.
    GCHeapReserve,
    GCHeap,
    GCHeapToBeFreed,
    GCBookkeeping,
    HandleTable,
    HighFrequencyHeap,
    LowFrequencyHeap,
    StaticsHeap,
    StubHeap,
    ExecutableHeap,
    FixupPrecodeHeap,
    NewStubPrecodeHeap,
    IndirectionCellHeap,
    CacheEntryHeap,
    LookupHeap,
    ResolveHeap,
    DispatchHeap,
    VtableHeap,
    ThunkHeap,
    LoaderCodeHeap,
    HostCodeHeap,
}

impl Kind {
    /// All kinds.
    pub const ALL: &'static [Kind] = &[
        Kind::NoAccess,
        Kind::AnonRO,
        Kind::AnonRW,
        Kind::AnonRX,
        Kind::AnonRWX,
        Kind::MappedFile,
        Kind::SharedMemory,
        Kind::DoubleMapped,
        Kind::Image,
        Kind::Vdso,
        Kind::Malloc,
        Kind::Allocator,
        Kind::RuntimeHeap,
        Kind::LibraryBuffer,
        Kind::SanitizerShadow,
        Kind::Tls,
        Kind::Stack,
        Kind::StackGuard,
        Kind::GCHeapReserve,
        Kind::GCHeap,
        Kind::GCHeapToBeFreed,
        Kind::GCBookkeeping,
        Kind::HandleTable,
        Kind::HighFrequencyHeap,
        Kind::LowFrequencyHeap,
        Kind::StaticsHeap,
        Kind::StubHeap,
        Kind::ExecutableHeap,
        Kind::FixupPrecodeHeap,
        Kind::NewStubPrecodeHeap,
        Kind::IndirectionCellHeap,
        Kind::CacheEntryHeap,
        Kind::LookupHeap,
        Kind::ResolveHeap,
        Kind::DispatchHeap,
        Kind::VtableHeap,
        Kind::ThunkHeap,
        Kind::LoaderCodeHeap,
        Kind::HostCodeHeap,
    ];

    /// The name printed and used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::NoAccess => "NoAccess",
            Kind::AnonRO => "AnonRO",
            Kind::AnonRW => "AnonRW",
            Kind::AnonRX => "AnonRX",
            Kind::AnonRWX => "AnonRWX",
            Kind::MappedFile => "MappedFile",
            Kind::SharedMemory => "SharedMemory",
            Kind::DoubleMapped => "DoubleMapped",
            Kind::Image => "Image",
            Kind::Vdso => "Vdso",
            Kind::Malloc => "Malloc",
            Kind::Allocator => "Allocator",
            Kind::RuntimeHeap => "RuntimeHeap",
            Kind::LibraryBuffer => "LibraryBuffer",
            Kind::SanitizerShadow => "SanitizerShadow",
            Kind::Tls => "Tls",
            Kind::Stack => "Stack",
            Kind::StackGuard => "StackGuard",
            Kind::GCHeapReserve => "GCHeapReserve",
            Kind::GCHeap => "GCHeap",
            Kind::GCHeapToBeFreed => "GCHeapToBeFreed",
            Kind::GCBookkeeping => "GCBookkeeping",
            Kind::HandleTable => "HandleTable",
            Kind::HighFrequencyHeap => "HighFrequencyHeap",
            Kind::LowFrequencyHeap => "LowFrequencyHeap",
            Kind::StaticsHeap => "StaticsHeap",
            Kind::StubHeap => "StubHeap",
            Kind::ExecutableHeap => "ExecutableHeap",
            Kind::FixupPrecodeHeap => "FixupPrecodeHeap",
            Kind::NewStubPrecodeHeap => "NewStubPrecodeHeap",
            Kind::IndirectionCellHeap => "IndirectionCellHeap",
            Kind::CacheEntryHeap => "CacheEntryHeap",
            Kind::LookupHeap => "LookupHeap",
            Kind::ResolveHeap => "ResolveHeap",
            Kind::DispatchHeap => "DispatchHeap",
            Kind::VtableHeap => "VtableHeap",
            Kind::ThunkHeap => "ThunkHeap",
            Kind::LoaderCodeHeap => "LoaderCodeHeap",
            Kind::HostCodeHeap => "HostCodeHeap",
        }
    }

    /// The kind of that name, in any case of letters.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.name().eq_ignore_ascii_case(name))
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
            // The runtime's own structures, all of one rank: they do not
            // overlap, and where they do `check` says so.
            _ => 11,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl schemars::JsonSchema for Kind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
        schemars::json_schema!({ "description": "Kind of a region.", "type": "string", "enum": names })
    }
}
