//! Names of findings: what `--fail-if finding=ID` takes. They stay as they are from one version to the next.

/// Each name of a finding, and what it says in a sentence.
pub const FINDING_IDS: &[(&str, &str)] = &[
    ("allocator", "Memory of an allocator that is recognised and not walked: jemalloc, tcmalloc, mimalloc, musl's."),
    ("anonymous", "Anonymous memory that nobody claims, told by what fills it."),
    ("anonymous-blocks", "Equal blocks of anonymous memory: a leak of mappings looks so."),
    ("async-chains", "Async methods by the thousands that are not done."),
    ("cached-stacks", "Stacks that are kept for reuse after their threads ended."),
    ("class-loaders", "Class loaders that have a class of the same name each: a leak of them looks so."),
    ("code-cache", "A part of a runtime's code cache that is nearly full."),
    ("collectible-assemblies", "Assemblies that could be unloaded and are still there."),
    ("crash", "The signal that ended the process."),
    ("deadlock", "Threads that wait for one another's locks."),
    ("equal-strings", "Strings of equal content that are there many times."),
    ("exceptions", "Exceptions that were thrown and are still on the heap."),
    ("file-pages", "Pages of mapped files that are only read: the files' own content."),
    ("finalizer-queue", "Objects whose finalizers are due and do not run."),
    ("heap-fragmentation", "Free space between objects of the managed heap."),
    ("images", "Program files in memory."),
    ("large-objects", "Objects on the large object heap."),
    ("lock-waiters", "Several threads that wait for one lock."),
    ("malloc", "What glibc's malloc holds, used and free."),
    ("malloc-arenas", "Many arenas of malloc, each with free memory of its own."),
    ("malloc-equal-blocks", "Blocks of malloc that are alike and many: a leak of malloc looks so."),
    ("malloc-large-block", "One block of malloc that has much of all memory."),
    ("malloc-mmapped", "Large blocks of malloc with mappings of their own."),
    ("malloc-mostly-free", "Memory that was given back to malloc and not to the system."),
    ("managed-heap", "Objects of a managed runtime."),
    ("mapped-files", "Mapped files that are no programs."),
    ("metaspace", "What a Java VM keeps of classes, and how near that is to its limit."),
    (
        "native-buffers",
        "Memory outside of the managed heap that its objects own: direct and mapped buffers, and who keeps them.",
    ),
    ("off-heap", "The Java heap beside all that the process has outside of it."),
    ("other-stacks", "Threads that run on stacks that are not their own."),
    ("pinned", "Objects that the collector may not move."),
    ("recognised", "Memory of a library or runtime that is known by its shape."),
    ("reserved", "Address space that is kept and never used."),
    ("retained", "An object that keeps much of all live objects."),
    ("runtime", "A managed runtime's own structures and jitted code."),
    ("runtime-heap", "Heap of a runtime that is recognised and not walked: V8, Go, Ruby, PHP and others."),
    ("same-stack", "Many threads that stand in the same place."),
    ("shared-memory", "Shared memory and memfd."),
    ("stack-overflow", "A thread that ran out of its stack."),
    ("stacks", "Stacks of threads."),
    ("system", "The kernel's own pages."),
    ("thread-pool", "Many threads of one pool: of one role, or whose names differ in a number only."),
    ("timers", "Timers by the thousands."),
    ("truncated", "The core is cut off."),
    ("unnamed", "Memory that nobody can name."),
    ("unreachable", "Objects that a collection would free."),
];

/// The name as it is written here, in whatever case of letters it is given.
pub fn finding_id(name: &str) -> Option<&'static str> {
    FINDING_IDS.iter().map(|(id, _)| *id).find(|id| id.eq_ignore_ascii_case(name))
}
