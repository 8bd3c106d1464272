//! glibc's malloc, thread stacks and the unwinding of native frames.

/// Bytes of one part of malloc's heap whose blocks are looked up by address, at
/// a byte of ours for each 64: what lies behind is in no answer.
pub const MAX_HEAP_PART: u64 = 64 << 30;

/// Malloc heaps (64 MiB of address space each) looked at.
pub const MAX_MALLOC_HEAPS: usize = 1 << 18;

/// Free chunks of malloc that are listed, at 8 bytes each; more are told apart
/// from used ones by the walk, but not by where they are kept.
pub const MAX_FREE_CHUNKS: usize = 64 << 20;

/// Blocks in one list of a thread's cache: its count has 16 bits.
pub const MAX_TCACHE_LIST: usize = 1 << 16;

/// Blocks looked at in the caches of all threads, and in what looks like one.
pub const MAX_TCACHE_STEPS: usize = 16 << 20;

/// Blocks of a cache's size that are looked at as caches where no thread points to
/// them: one for each thread that is gone.
pub const MAX_TCACHES: usize = 1 << 18;

/// Chunks of malloc with a mapping of their own: vm.max_map_count is at most about
/// a million.
pub const MAX_MAPPED_CHUNKS: usize = 1 << 20;

/// Areas of metas of musl's malloc: a page each, with 101 groups of up to 32 blocks.
pub const MAX_MALLOCNG_AREAS: usize = 1 << 17;

/// Groups of musl's malloc, some 80 bytes of ours each.
pub const MAX_MALLOCNG_GROUPS: usize = 4 << 20;

/// Pages that are probed for such chunks where fewer are found than malloc counts:
/// 512 MiB of memory that nobody claims. Each is a page read from the file.
pub const MAX_MAPPED_PROBES: usize = 128 << 10;

/// Bytes of malloc's heaps searched for the next chunk where one is damaged.
pub const MAX_MALLOC_SEARCH: u64 = 4 << 30;

/// Words of a thread control block that are looked at for the stack's bounds:
/// glibc's struct pthread is 2,304 bytes on x86_64 and 1,856 on aarch64.
pub const MAX_TCB_BYTES: usize = 4096;

/// Frames of one thread's stack. A stack of 8 MiB that overflowed has some
/// 170,000 of the smallest.
pub const MAX_STACK_FRAMES: usize = 1 << 18;

/// Signal frames on one stack, each of a handler that another signal interrupted.
pub const MAX_NESTED_SIGNALS: usize = 64;

/// Addresses whose rules of unwinding are kept: a process has some hundreds of places where its threads wait or call.
pub const MAX_UNWIND_ROWS: usize = 4096;

/// Frames of all threads together, some 200 bytes each.
pub const MAX_ALL_FRAMES: usize = 1 << 20;

/// Words of a stack that are looked through for one return address.
pub const MAX_SCAN_WORDS: usize = 512;

/// Return addresses of one stack that are found by looking through words.
pub const MAX_SCANS: usize = 16;

/// Bytes of one module's unwind data; that of the largest browsers is 30 MiB.
pub const MAX_EH_FRAME: u64 = 128 << 20;

/// Operations of one expression of unwind data.
pub const MAX_EXPRESSION_STEPS: u32 = 1000;

/// Bytes of TLS and control block above a thread's own stack: static TLS is some KiB.
pub const MAX_ABOVE_STACK: u64 = 16 << 20;

/// Threads that are asked where a control block keeps its fields: all agree.
pub const MAX_VOTERS: usize = 256;

/// Mappings whose upper ends are looked at for control blocks of threads that ended, where none lives: stacks
/// are alike, and lie side by side.
pub const MAX_ENDED_LOOKS: usize = 128;

/// Control blocks of ended threads that are asked where they keep their stack; lists lead from these to the others.
pub const MAX_ENDED_VOTERS: usize = 16;

/// Bytes of one module's writable data looked through for malloc's main arena.
pub const MAX_ALLOCATOR_DATA: u64 = 64 << 20;

/// Threads whose control blocks are asked where their link is: all agree.
pub const MAX_LINK_VOTERS: usize = 16;

/// Bytes of `malloc_state` before its bins: 112 at most so far.
pub const MAX_BEFORE_BINS: u64 = 256;

/// How far above the program the kernel may put the break: arch_randomize_brk takes up
/// to 32 MiB (1 GiB on aarch64).
pub const MAX_BRK_OFFSET: u64 = 1 << 30;

/// Mappings of single chunks that anybody allows at a time (the default is 65,536).
pub const MAX_MMAPS: u32 = 1 << 30;

/// Bytes of a stack that are looked through for the frame of the signal handler that
/// runs on it: alternate stacks are 8 KiB to some 100 KiB.
pub const MAX_SIGNAL_SEARCH: u64 = 1 << 20;

/// Bytes of a signal frame of arm64 below its frame record: 4,688, and with the widest vectors and matrices some 70 KiB.
pub const MAX_SIGNAL_FRAME: u64 = 128 << 10;

/// Stacks that one thread may be on at once: signal handlers that others interrupt.
pub const MAX_NESTED_STACKS: usize = 8;

/// Words of TLS next to a thread pointer that are tried as Go's pointer to its
/// goroutine: the linker gives it the last slot, C libraries of a program have their
/// own beside it.
pub const MAX_GO_TLS_WORDS: u64 = 64;

/// Words of Go's `m` that are looked through for goroutines: the struct has some 250.
pub const MAX_GO_M_WORDS: u64 = 512;

/// Largest stack of Go believed (runtime/debug.SetMaxStack: 1 GB by default).
pub const MAX_GO_STACK: u64 = 4 << 30;

/// Largest mapping that is taken for one stack only because a stack pointer leads into
/// it: 8 MiB is usual. Larger ones are heaps that stacks were cut from.
pub const MAX_GUESSED_STACK: u64 = 64 << 20;
