//! The phases of an analysis. When a read fails, the phase says what the answer lacks.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The command itself, outside any other phase.
    Question,
    /// Program files in memory: headers, names, build-ids.
    Modules,
    /// argv and the environment.
    Strings,
    /// Memory that is mapped twice.
    Aliases,
    /// Thread stacks and control blocks.
    Stacks,
    /// malloc's heaps and arenas.
    Malloc,
    /// malloc's chunks with a mapping of their own.
    MappedChunks,
    /// malloc's blocks, from a walk or from free lists.
    Blocks,
    /// Allocators and runtimes that are recognised but not walked.
    Foreign,
    /// Detection of runtimes.
    Runtime,
    /// Segments and regions of the GC.
    GcHeap,
    /// The GC's handle table.
    Handles,
    /// Heaps of loader allocators.
    LoaderHeaps,
    /// Code heaps of the JIT.
    CodeHeaps,
    /// Code ranges, and lookup of code by address.
    Code,
    /// Objects of the GC heap.
    Objects,
    /// Names of types and methods.
    Types,
    /// The runtime's threads.
    ManagedThreads,
    /// Locks, their owners and their waiters.
    Locks,
    /// Stack frames.
    Frames,
    /// Patterns in anonymous memory.
    Anonymous,
    /// Scans for pointers.
    Pointers,
    /// References between objects.
    References,
    /// Tasks and async methods.
    Tasks,
    /// Scans for zero pages.
    ZeroPages,
    /// Search for a pattern.
    Search,
    /// Proof of files below `--symbols`.
    Proof,
    /// Memory copied into a new core.
    Dump,
}

impl Phase {
    pub(crate) const ALL: [Phase; 28] = [
        Phase::Question,
        Phase::Modules,
        Phase::Strings,
        Phase::Aliases,
        Phase::Stacks,
        Phase::Malloc,
        Phase::MappedChunks,
        Phase::Blocks,
        Phase::Foreign,
        Phase::Runtime,
        Phase::GcHeap,
        Phase::Handles,
        Phase::LoaderHeaps,
        Phase::CodeHeaps,
        Phase::Code,
        Phase::Objects,
        Phase::Types,
        Phase::ManagedThreads,
        Phase::Locks,
        Phase::Frames,
        Phase::Anonymous,
        Phase::Pointers,
        Phase::References,
        Phase::Tasks,
        Phase::ZeroPages,
        Phase::Search,
        Phase::Proof,
        Phase::Dump,
    ];

    pub(crate) fn name(self) -> &'static str {
        self.words().0
    }

    /// Data that the answer may lack if a read of this phase fails.
    pub(crate) fn loses(self) -> &'static str {
        self.words().1
    }

    /// Text of the progress line.
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Phase::Question => "reading",
            Phase::Modules => "reading modules",
            Phase::Strings => "reading the command line",
            Phase::Aliases => "finding memory mapped twice",
            Phase::Stacks => "finding stacks",
            Phase::Malloc | Phase::MappedChunks => "finding malloc's heaps",
            Phase::Blocks => "walking malloc's blocks",
            Phase::Foreign => "finding other allocators and runtimes",
            Phase::Runtime => "finding runtimes",
            Phase::GcHeap | Phase::LoaderHeaps | Phase::CodeHeaps => "reading the runtime's heaps",
            Phase::Handles => "reading handles",
            Phase::Code => "reading managed code",
            Phase::Objects => "walking objects",
            Phase::Types => "reading types",
            Phase::ManagedThreads => "reading managed threads",
            Phase::Locks => "reading locks",
            Phase::Frames => "unwinding stacks",
            Phase::Anonymous => "scanning anonymous memory",
            Phase::Pointers => "scanning for pointers",
            Phase::References => "following references",
            Phase::Tasks => "finding tasks",
            Phase::ZeroPages => "scanning for zero pages",
            Phase::Search => "searching",
            Phase::Proof => "comparing files",
            Phase::Dump => "copying memory",
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Phase::Question => ("answer", "some of it may be missing"),
            Phase::Modules => {
                ("modules", "a module may lack its name, sections or build id, and stacks may end at its code")
            }
            Phase::Strings => ("command line", "arguments and environment are unknown"),
            Phase::Aliases => ("memory mapped twice", "a second mapping of the same memory may count as more memory"),
            Phase::Stacks => ("thread stacks", "a stack may be missing, or have the bounds of its mapping"),
            Phase::Malloc => {
                ("malloc", "heaps may be missing or have unknown bounds; they count as anonymous memory then")
            }
            Phase::MappedChunks => {
                ("malloc's mappings", "large blocks with their own mapping may count as anonymous memory")
            }
            Phase::Blocks => {
                ("malloc's blocks", "blocks may be missing, and it may be unknown whether a block is used or free")
            }
            Phase::Foreign => ("other allocators and runtimes", "their memory may count as anonymous memory"),
            Phase::Runtime => {
                ("runtimes", "a runtime may be missed or unreadable, and its memory counts as anonymous memory then")
            }
            Phase::GcHeap => {
                ("GC heap", "segments may be missing; they count as reserved by the GC or as anonymous memory then")
            }
            Phase::Handles => ("handle table", "handles, or blocks of the table, may be missing"),
            Phase::LoaderHeaps => (
                "loader heaps",
                "blocks may be missing; they count as the heap next to them or as anonymous memory then",
            ),
            Phase::CodeHeaps => ("code heaps", "blocks may be missing; they count as anonymous memory then"),
            Phase::Code => ("managed code", "methods may be missing, and stacks may end at them"),
            Phase::Objects => ("objects", "objects may be missing from counts and lists"),
            Phase::Types => ("types", "types and methods may have no names"),
            Phase::ManagedThreads => ("managed threads", "threads may have no managed id, name, state or Frames"),
            Phase::Locks => ("locks", "locks, their owners and their waiters may be missing"),
            Phase::Frames => ("stack frames", "stacks may end early, skip frames, or have frames without names"),
            Phase::Anonymous => ("anonymous memory", "its contents, and pointers to it, may be missing"),
            Phase::Pointers => ("pointers", "pointers are missing, so their targets may look unowned or lost"),
            Phase::References => ("references", "references are missing, so objects may look unreachable"),
            Phase::Tasks => ("tasks", "tasks, or what awaits them, may be missing"),
            Phase::ZeroPages => ("zero pages", "pages that could not be read count as neither zero nor written"),
            Phase::Search => ("search", "hits may be missing"),
            Phase::Proof => ("--symbols", "a file of the same build may have been left unused"),
            Phase::Dump => ("core", "memory that could not be read is zero in it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_is_at_its_number_and_has_a_unique_name() {
        let mut names = std::collections::BTreeSet::new();
        for (i, phase) in Phase::ALL.iter().enumerate() {
            assert_eq!(*phase as usize, i, "{phase:?}");
            assert!(names.insert(phase.name()), "{phase:?}");
        }
    }
}
