//! What is being done while memory is read: so that a read that fails can say
//! what the answer lacks for it.

/// A part of the work, with what is missing where it could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// The command's own question, where nothing closer is said.
    Question,
    /// Program files in memory: headers, names, build-ids.
    Modules,
    /// argv and the environment.
    Strings,
    /// Memory that is mapped twice.
    Aliases,
    /// Thread stacks and control blocks.
    Stacks,
    /// Heaps and arenas of malloc.
    Malloc,
    /// Chunks of malloc with a mapping of their own.
    MappedChunks,
    /// Blocks of malloc, one by one or by its lists.
    Blocks,
    /// Allocators and runtimes that are recognised and not walked.
    Foreign,
    /// Which runtimes there are.
    Runtime,
    /// Segments and regions of the GC.
    GcHeap,
    /// The table of GC handles.
    Handles,
    /// Heaps of loader allocators.
    LoaderHeaps,
    /// Heaps of jitted code.
    CodeHeaps,
    /// Ranges of code, and code by address.
    Code,
    /// Objects of the GC heap.
    Objects,
    /// Names of types and methods.
    Types,
    /// The runtime's threads.
    ManagedThreads,
    /// Locks and who waits for them.
    Locks,
    /// Frames of stacks.
    Frames,
    /// Patterns in anonymous memory.
    Anonymous,
    /// Words that lead somewhere.
    Pointers,
    /// References between objects.
    References,
    /// Tasks and async methods.
    Tasks,
    /// Pages that are all zero.
    ZeroPages,
    /// Search for a pattern.
    Search,
    /// Proof of files below `--symbols`.
    Proof,
    /// Memory for a core that is written.
    Dump,
}

impl Phase {
    /// All of them, in the order of their numbers.
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

    /// In a word or two.
    pub(crate) fn name(self) -> &'static str {
        self.words().0
    }

    /// What the answer may lack where this could not read.
    pub(crate) fn loses(self) -> &'static str {
        self.words().1
    }

    /// What is being done, for those who wait.
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
            Phase::Question => ("answer", "the answer may be incomplete"),
            Phase::Modules => (
                "modules",
                "a module may lack its name, sections or build ID, and stacks end at its \
                                           code",
            ),
            Phase::Strings => ("command line", "arguments and environment are missing"),
            Phase::Aliases => ("memory mapped twice", "memory mapped twice may be counted twice"),
            Phase::Stacks => ("thread stacks", "stacks may be missing, or have their mappings' bounds"),
            Phase::Malloc => {
                ("malloc", "heaps may be missing or have wrong bounds, and then count as anonymous memory")
            }
            Phase::MappedChunks => {
                ("malloc's mappings", "large blocks with their own mapping may count as anonymous memory")
            }
            Phase::Blocks => ("malloc's blocks", "blocks may be missing, or their state (used or free) unknown"),
            Phase::Foreign => ("other allocators and runtimes", "their memory may count as anonymous memory"),
            Phase::Runtime => {
                ("runtimes", "a runtime may be missed or unreadable, and its memory then counts as anonymous memory")
            }
            Phase::GcHeap => (
                "segments may be missing, and then count as GC reserve or as anonymous memory",
                "segments may be missing; they count as the GC's reserve or as anonymous memory then",
            ),
            Phase::Handles => ("handle table", "handles or handle table segments may be missing"),
            Phase::LoaderHeaps => (
                "loader heaps",
                "blocks may be missing, and then count as part of a neighbouring heap or as anonymous memory",
            ),
            Phase::CodeHeaps => ("code heaps", "blocks may be missing, and then count as anonymous memory"),
            Phase::Code => ("managed code", "methods may be missing, and stacks end at them"),
            Phase::Objects => ("objects", "objects may be missing from counts and lists"),
            Phase::Types => ("types", "types and methods may lack their names"),
            Phase::ManagedThreads => ("managed threads", "threads may lack their managed ID, name, state and Frames"),
            Phase::Locks => ("locks", "waits of threads and owners of locks may be missing"),
            Phase::Frames => ("stack frames", "stacks may end early or skip frames, and frames may lack their names"),
            Phase::Anonymous => ("anonymous memory", "its contents and the pointers to it may be missing"),
            Phase::Pointers => (
                "pointers",
                "pointers in the unread memory are missing, so what they point to may look unowned or \
                              leaked",
            ),
            Phase::References => (
                "references",
                "references in the unread memory are missing, so objects may look \
                                                 unreachable",
            ),
            Phase::Tasks => ("tasks", "tasks, or what waits for them, may be missing"),
            Phase::ZeroPages => ("zero pages", "unread pages count as neither zero nor written"),
            Phase::Search => ("search", "hits may be missing"),
            Phase::Proof => ("--symbols", "a matching file may be left unused"),
            Phase::Dump => ("core", "unread memory is zero in the core"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_its_number_and_has_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for (i, phase) in Phase::ALL.iter().enumerate() {
            assert_eq!(*phase as usize, i, "{phase:?}");
            assert!(names.insert(phase.name()), "{phase:?}");
        }
    }
}
