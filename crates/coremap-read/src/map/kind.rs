//! Kinds of regions. Names match SOS `!maddress` where it has one.

use crate::map::kind_facts::Contents;
use crate::words::words;

words! {
    /// Kind of a region. docs/regions.md describes each: meaning, evidence, limits.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Kind {
        // From the mapping alone, least specific first.

        /// Address space without access: reserved, and costs no memory.
        #[default]
        NoAccess = "NoAccess",
        /// Anonymous memory without a known owner, readable only.
        AnonRO = "AnonRO",
        /// Anonymous memory without a known owner, writable.
        AnonRW = "AnonRW",
        /// Anonymous memory without a known owner, executable and not writable.
        AnonRX = "AnonRX",
        /// Anonymous memory without a known owner, writable and executable.
        AnonRWX = "AnonRWX",
        /// A mapped file that is not a program.
        MappedFile = "MappedFile",
        /// Shared memory: memfd, POSIX, System V, shared anonymous mappings, and memory shared with the kernel.
        SharedMemory = "SharedMemory",
        /// The second view of shared pages that are mapped at two addresses.
        DoubleMapped = "DoubleMapped",

        // From structures of the program and its libraries.

        /// A program, a shared library or a .NET assembly, with its `.bss`.
        Image = "Image",
        /// The kernel's pages in every process: vdso, vvar, vsyscall.
        Vdso = "Vdso",
        /// Heaps and mapped chunks of the C library's malloc.
        Malloc = "Malloc",
        /// Memory of a malloc other than the C library's.
        Allocator = "Allocator",
        /// The heap of a language runtime that is recognised and not walked.
        RuntimeHeap = "RuntimeHeap",
        /// A working buffer that a library mapped and retains.
        LibraryBuffer = "LibraryBuffer",
        /// AddressSanitizer's shadow of all other memory.
        SanitizerShadow = "SanitizerShadow",
        /// Control block and thread-local variables of the main thread.
        Tls = "Tls",
        /// The stack of a thread, or a stack that glibc caches for the next thread.
        Stack = "Stack",
        /// Pages without access below a thread's stack, or at its low end.
        StackGuard = "StackGuard",

        // From the structures of .NET. These are the names of SOS.

        /// Address space that a garbage collector reserved and did not commit.
        GCHeapReserve = "GCHeapReserve",
        /// A committed region, segment or space of a garbage-collected heap.
        GCHeap = "GCHeap",
        /// A committed region of a garbage-collected heap that is free, or about to be freed.
        GCHeapToBeFreed = "GCHeapToBeFreed",
        /// Card tables, mark bitmaps and related tables of a garbage collector.
        GCBookkeeping = "GCBookkeeping",
        /// A segment of the handle table: references into the managed heap from outside of it.
        HandleTable = "HandleTable",
        /// The loader heap of structures in constant use: method tables, method descriptors.
        HighFrequencyHeap = "HighFrequencyHeap",
        /// The loader heap of structures that are used at load time.
        LowFrequencyHeap = "LowFrequencyHeap",
        /// The loader heap of static fields (.NET 9 and later).
        StaticsHeap = "StaticsHeap",
        /// The loader heap of small generated stubs.
        StubHeap = "StubHeap",
        /// The loader heap of code that belongs to no allocator.
        ExecutableHeap = "ExecutableHeap",
        /// The loader heap of entry points of methods that are not compiled yet.
        FixupPrecodeHeap = "FixupPrecodeHeap",
        /// The loader heap of other entry points of methods.
        NewStubPrecodeHeap = "NewStubPrecodeHeap",
        /// The loader heap of indirection cells of interface calls.
        IndirectionCellHeap = "IndirectionCellHeap",
        /// The loader heap of entries of the resolve cache of interface calls.
        CacheEntryHeap = "CacheEntryHeap",
        /// The loader heap of lookup stubs of interface calls (.NET Core 3.1).
        LookupHeap = "LookupHeap",
        /// The loader heap of resolve stubs of interface calls (.NET Core 3.1).
        ResolveHeap = "ResolveHeap",
        /// The loader heap of dispatch stubs of interface calls (.NET Core 3.1).
        DispatchHeap = "DispatchHeap",
        /// The loader heap of stubs of virtual calls. No version is known to have one.
        VtableHeap = "VtableHeap",
        /// The loader heap of thunks. No version is known to have one.
        ThunkHeap = "ThunkHeap",
        /// A code heap of the JIT: compiled methods, their headers and unwind data.
        LoaderCodeHeap = "LoaderCodeHeap",
        /// A code heap of dynamic methods.
        HostCodeHeap = "HostCodeHeap",

        /// A buffer of an open diagnostics session (EventPipe), with events that nobody has read.
        EventPipeBuffer = "EventPipeBuffer",

        // From the structures of the Java VM. Where Native Memory Tracking has a name, this is it.

        /// Structures of Java classes (Klass), if class pointers are compressed.
        ClassSpace = "ClassSpace",
        /// Other data of Java classes: constant pools, methods, fields, profiles.
        Metaspace = "Metaspace",
        /// Structures of the JDK's classes, mapped from a CDS archive.
        CdsArchive = "CdsArchive",
        /// Code of the Java VM: compiled methods, interpreter, stubs, and their segment maps.
        CodeCache = "CodeCache",
        /// Other mappings of libjvm: polling pages, card caches, bitmaps.
        VmData = "VmData",

        // From the structures of CPython.

        /// An arena of obmalloc, CPython's allocator of blocks up to 512 bytes.
        PyMalloc = "PyMalloc",
        /// A chunk of the stack on which a CPython thread allocates its frames.
        PyFrames = "PyFrames",

        // From the structures of Go.

        /// Stacks of goroutines, in use or free.
        GoStack = "GoStack",
    }
}

impl Kind {
    /// Returns the kind with this name, in any letter case.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is reserved address space without contents. Sums exclude it, since it would dwarf real memory.
    pub fn is_reserved(self) -> bool {
        self.facts().contents == Contents::Nothing
    }

    /// Whether it is anonymous memory with no known owner.
    pub fn is_anonymous(self) -> bool {
        self.facts().contents == Contents::Unclaimed
    }

    /// Whether it contains objects of a managed runtime. Objects allocated by malloc are not included.
    pub fn holds_objects(self) -> bool {
        self.facts().contents == Contents::Objects
    }

    /// Whether it may contain malloc blocks, of any malloc implementation.
    pub fn holds_blocks(self) -> bool {
        self.facts().contents == Contents::Blocks
    }

    /// Rank of the kind: among claims of equal confidence the more specific one wins. A mapping's own kind ranks below
    /// the kind of its contents.
    pub fn specificity(self) -> u8 {
        self.facts().specificity
    }
}
