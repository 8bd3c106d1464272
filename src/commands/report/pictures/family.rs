//! Kinds by what people ask about: eight colours can be told apart, fifty kinds can't.

use crate::map::Kind;

/// A family of kinds, in the order of a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::commands::report) enum Family {
    /// Heaps of managed runtimes.
    Heap,
    /// Blocks of malloc and other allocators.
    Native,
    /// Stacks of threads.
    Stack,
    /// Program files and other files.
    File,
    /// A runtime's own structures and code.
    Runtime,
    /// Memory that processes share.
    Shared,
    /// Anonymous memory that nobody claims.
    Anon,
    /// Set aside, with nothing in it.
    Reserved,
}

impl Family {
    pub(in crate::commands::report) const ALL: [Family; 8] = [
        Family::Heap,
        Family::Native,
        Family::Stack,
        Family::File,
        Family::Runtime,
        Family::Shared,
        Family::Anon,
        Family::Reserved,
    ];

    /// Of which family a kind is.
    pub(in crate::commands::report) fn of(kind: Kind) -> Family {
        match kind {
            Kind::NoAccess | Kind::GCHeapReserve | Kind::StackGuard => Family::Reserved,
            Kind::GCHeap | Kind::GCHeapToBeFreed | Kind::PyMalloc | Kind::RuntimeHeap => Family::Heap,
            Kind::Malloc | Kind::Allocator | Kind::LibraryBuffer => Family::Native,
            Kind::Stack | Kind::PyFrames => Family::Stack,
            Kind::Image | Kind::Vdso | Kind::MappedFile | Kind::CdsArchive => Family::File,
            Kind::SharedMemory | Kind::DoubleMapped => Family::Shared,
            Kind::AnonRO | Kind::AnonRW | Kind::AnonRX | Kind::AnonRWX => Family::Anon,
            _ => Family::Runtime,
        }
    }

    /// The class that gives its colour.
    pub(in crate::commands::report) fn class(self) -> &'static str {
        match self {
            Family::Heap => "f-heap",
            Family::Native => "f-native",
            Family::Stack => "f-stack",
            Family::File => "f-file",
            Family::Runtime => "f-runtime",
            Family::Shared => "f-shared",
            Family::Anon => "f-anon",
            Family::Reserved => "f-reserved",
        }
    }

    /// What a legend says.
    pub(in crate::commands::report) fn title(self) -> &'static str {
        match self {
            Family::Heap => "managed heap",
            Family::Native => "native heap",
            Family::Stack => "stacks",
            Family::File => "program files and other files",
            Family::Runtime => "runtime structures",
            Family::Shared => "shared memory",
            Family::Anon => "anonymous, no known owner",
            Family::Reserved => "reserved",
        }
    }
}
