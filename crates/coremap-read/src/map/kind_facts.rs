//! Facts about each kind of region: one table, with a row for every kind and no default.
//!
//! Whatever treats kinds differently reads a column of it. A new kind compiles only once it has a row.

use crate::map::Kind;

/// Facts about a kind.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct KindFacts {
    /// Rank among claims of equal confidence; see [`Kind::specificity`].
    pub(crate) specificity: u8,
    /// Family in a report's pictures.
    #[doc(hidden)]
    pub family: Family,
    /// Finding that `triage` counts it to.
    #[doc(hidden)]
    pub subject: Subject,
    /// Bytes that `shrink --scrub` preserves.
    #[doc(hidden)]
    pub scrub: Use,
    #[doc(hidden)]
    pub backing: Backing,
    #[doc(hidden)]
    pub contents: Contents,
    /// Word in the column Memory Kind of SOS `!maddress`.
    #[doc(hidden)]
    pub sos: SosWord,
    /// Name of it where the contents of other memory are described: `pointers (into malloc)`.
    pub(crate) pointers: Destination,
    /// Grouping in a report's treemap.
    #[doc(hidden)]
    pub group: Grouping,
}

/// A family of kinds, in the order of a legend. A reader distinguishes eight colours, but not fifty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(hidden)]
pub enum Family {
    /// Heaps of managed runtimes.
    Heap,
    /// Blocks of malloc and other allocators.
    Native,
    Stack,
    /// Program files and other files.
    File,
    /// A runtime's own structures and code.
    Runtime,
    /// Memory that processes share.
    Shared,
    /// Anonymous memory without a known owner.
    Anon,
    /// Reserved address space without contents.
    Reserved,
}

/// A subject of `triage`. Each region counts to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Subject {
    /// Reserved address space without contents.
    Reserved,
    /// Anonymous memory without a known owner.
    Anonymous,
    /// Mapped files that are not programs.
    Files,
    /// Shared memory and memfd.
    Shared,
    /// Program files.
    Images,
    /// Pages of the kernel and of the core's producer.
    System,
    /// Heaps of the C library's malloc.
    Malloc,
    Stacks,
    /// Heaps of managed runtimes that are walked, and the card tables and bitmaps of their collectors.
    ManagedHeap,
    /// Memory of an allocator, runtime or library that is recognised by its owner.
    Recognised,
    /// Other structures and code of a managed runtime.
    RuntimeData,
}

/// Use of memory, which decides the bytes that `shrink --scrub` preserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Use {
    /// Program files: preserved as far as they were read.
    Image,
    /// Structures of a runtime or an allocator: preserved as far as they were read.
    Structures,
    /// Blocks of malloc: preserved are their heads, malloc's lists, and a runtime's structures in them.
    Blocks,
    /// Managed objects: preserved are heads and references.
    Objects,
    /// Stacks, as far as they are in use.
    Stack,
    /// Other memory: preserved are words that lead somewhere, and a runtime's structures in it.
    Data,
    /// Memory that nobody uses: nothing is preserved.
    Dead,
}

/// Backing of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Backing {
    /// None: anonymous memory.
    Anonymous,
    /// A program file.
    Image,
    /// Another file.
    File,
    Shared,
    /// Memory that is mapped at another address too, where it counts.
    SecondView,
}

/// Contents of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Contents {
    /// None: no access, or not committed.
    Nothing,
    /// Unknown, because no structure claims it.
    Unclaimed,
    /// Bytes of a file or of shared memory.
    File,
    /// Code and data of a program file.
    Program,
    /// Blocks of malloc, of any implementation.
    Blocks,
    /// Objects of a managed runtime that is walked.
    Objects,
    /// Space for objects in which there are none.
    FreeHeap,
    /// Frames of native code.
    Frames,
    /// Heaps of the .NET loader and of jitted code, which `heap --loader` lists.
    LoaderHeap,
    /// Such heaps with generated stubs.
    Stubs,
    /// Other structures and code of a runtime.
    Structures,
    /// Memory of a recognised owner whose structures are not read.
    Unwalked,
}

/// A kind's word in SOS `!maddress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum SosWord {
    /// The kind's name.
    Own,
    /// The protection: `PAGE_READWRITE`.
    Protection,
    /// The protection of a mapping: `MAPPED_READWRITE`.
    Mapped,
}

/// A name for the target of pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Reserved,
    Anonymous,
    Files,
    Shared,
    /// The module, by its file name.
    Module,
    Vdso,
    Malloc,
    Stacks,
    GcHeap,
    /// The owner that was recognised.
    Owner,
    /// The runtime's structures.
    Runtime,
}

/// Grouping of the regions of one kind in a report's treemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Grouping {
    Detail,
    /// By access, if they have no detail.
    Access,
    File,
    /// By module, then by section.
    Section,
    /// By generation, then by heap.
    Generation,
    /// By malloc's arenas.
    Arena,
    /// By the activity of their threads.
    Activity,
    /// All guards together.
    Guard,
}

macro_rules! table {
    ($($kind:ident $specificity:literal $family:ident $subject:ident $scrub:ident $backing:ident $contents:ident
       $sos:ident $pointers:ident $group:ident;)+) => {
        impl Kind {
            #[doc(hidden)]
            pub const fn facts(self) -> KindFacts {
                match self {
                    $(Kind::$kind => KindFacts {
                        specificity: $specificity,
                        family: Family::$family,
                        subject: Subject::$subject,
                        scrub: Use::$scrub,
                        backing: Backing::$backing,
                        contents: Contents::$contents,
                        sos: SosWord::$sos,
                        pointers: Destination::$pointers,
                        group: Grouping::$group,
                    },)+
                }
            }
        }
    };
}

// Some kinds were classified differently in different commands. Their rows follow what the memory is:
// - StackGuard: nobody can access it, so it is reserved and empty, and scrub preserves nothing there.
// - CdsArchive: structures of classes, as in Metaspace. Only the backing is a file.
// - HandleTable: a structure of the runtime. It contains no objects.
// - EventPipeBuffer: events contain texts of the program, so scrub treats them as data.
// - PyFrames: memory that the interpreter allocates for frames. `stacks` does not list it as a stack. Variables in the
//   frames are values of the program, so scrub treats them as data.
//
// `specificity` (no): an Allocator ranks below Malloc, since walking says more than recognising. VmData is a guess by
// the pointer that leads there, and ranks below all other structures of a runtime. These share one rank: they do not
// overlap, and `check` reports it if they do.
table! {
    // kind                no family   subject     scrub      backing    contents   sos        pointers  group
    NoAccess            0  Reserved Reserved    Data       Anonymous  Nothing    Protection Reserved  Detail;
    AnonRO              0  Anon     Anonymous   Data       Anonymous  Unclaimed  Protection Anonymous Access;
    AnonRW              0  Anon     Anonymous   Data       Anonymous  Unclaimed  Protection Anonymous Access;
    AnonRX              0  Anon     Anonymous   Data       Anonymous  Unclaimed  Protection Anonymous Access;
    AnonRWX             0  Anon     Anonymous   Data       Anonymous  Unclaimed  Protection Anonymous Access;
    MappedFile          1  File     Files       Data       File       File       Mapped     Files     File;
    SharedMemory        2  Shared   Shared      Data       Shared     File       Mapped     Shared    Detail;
    DoubleMapped        3  Shared   Shared      Structures SecondView File       Mapped     Shared    Detail;
    Image               5  File     Images      Image      Image      Program    Own        Module    Section;
    Vdso                6  File     System      Image      Anonymous  Program    Protection Vdso      Detail;
    Malloc              8  Native   Malloc      Blocks     Anonymous  Blocks     Protection Malloc    Arena;
    Allocator           7  Native   Recognised  Structures Anonymous  Blocks     Own        Owner     Detail;
    RuntimeHeap         7  Heap     Recognised  Data       Anonymous  Unwalked   Own        Owner     Detail;
    LibraryBuffer       7  Native   Recognised  Data       Anonymous  Unwalked   Own        Owner     Detail;
    SanitizerShadow     7  Runtime  Recognised  Data       Anonymous  Unwalked   Own        Owner     Detail;
    Tls                 7  Runtime  Recognised  Stack      Anonymous  Unwalked   Own        Owner     Detail;
    Stack               9  Stack    Stacks      Stack      Anonymous  Frames     Own        Stacks    Activity;
    StackGuard          10 Reserved Reserved    Dead       Anonymous  Nothing    Protection Reserved  Guard;
    GCHeapReserve       4  Reserved Reserved    Data       Anonymous  Nothing    Own        Reserved  Detail;
    GCHeap              11 Heap     ManagedHeap Objects    Anonymous  Objects    Own        GcHeap    Generation;
    GCHeapToBeFreed     11 Heap     ManagedHeap Objects    Anonymous  FreeHeap   Own        GcHeap    Detail;
    GCBookkeeping       11 Runtime  ManagedHeap Structures Anonymous  Structures Own        Runtime   Detail;
    HandleTable         11 Runtime  RuntimeData Structures Anonymous  Structures Own        Runtime   Detail;
    HighFrequencyHeap   11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    LowFrequencyHeap    11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    StaticsHeap         11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    StubHeap            11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    ExecutableHeap      11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    FixupPrecodeHeap    11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    NewStubPrecodeHeap  11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    IndirectionCellHeap 11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    CacheEntryHeap      11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    LookupHeap          11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    ResolveHeap         11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    DispatchHeap        11 Runtime  RuntimeData Structures Anonymous  Stubs      Own        Runtime   Detail;
    VtableHeap          11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    ThunkHeap           11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    LoaderCodeHeap      11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    HostCodeHeap        11 Runtime  RuntimeData Structures Anonymous  LoaderHeap Own        Runtime   Detail;
    EventPipeBuffer     11 Runtime  RuntimeData Data       Anonymous  Structures Own        Runtime   Detail;
    ClassSpace          11 Runtime  RuntimeData Structures Anonymous  Structures Own        Runtime   Detail;
    Metaspace           11 Runtime  RuntimeData Structures Anonymous  Structures Own        Runtime   Detail;
    CdsArchive          11 Runtime  RuntimeData Structures File       Structures Own        Runtime   Detail;
    CodeCache           11 Runtime  RuntimeData Structures Anonymous  Structures Own        Runtime   Detail;
    VmData              7  Runtime  RuntimeData Structures Anonymous  Structures Own        Runtime   Detail;
    PyMalloc            11 Heap     ManagedHeap Data       Anonymous  Objects    Own        Runtime   Detail;
    GoStack             8  Stack    Stacks      Data       Anonymous  Structures Own        Stacks    Detail;
    PyFrames            11 Runtime  RuntimeData Data       Anonymous  Structures Own        Runtime   Detail;
}
