//! Limits for malloc, thread stacks, and unwinding of native frames.

/// Maximum bytes of one part of malloc's heap whose blocks can be looked up by address. Takes a byte of our memory for
/// each 64. Blocks beyond are in no answer.
pub const MAX_HEAP_PART: u64 = 64 << 30;

/// Maximum number of malloc heaps (64 MiB of address space each).
pub const MAX_MALLOC_HEAPS: usize = 1 << 18;

/// Maximum number of copies of the C library whose heaps are read. glibc has 16 namespaces for `dlmopen` (DL_NNS).
pub const MAX_LIBCS: usize = 16;

/// Maximum number of free chunks listed, at 8 bytes each. The walk still distinguishes further ones from used chunks,
/// but not by the list that contains them.
pub const MAX_FREE_CHUNKS: usize = 64 << 20;

/// Maximum number of blocks in one tcache list. Its count has 16 bits.
pub const MAX_TCACHE_LIST: usize = 1 << 16;

/// Maximum number of blocks visited in the tcaches of all threads, and in what looks like one.
pub const MAX_TCACHE_STEPS: usize = 16 << 20;

/// Maximum number of blocks of a tcache's size that are checked for a tcache without a thread. Each ended thread leaves
/// one.
pub const MAX_TCACHES: usize = 1 << 18;

/// Maximum number of chunks with a mapping of their own. vm.max_map_count is at most about a million.
pub const MAX_MAPPED_CHUNKS: usize = 1 << 20;

/// Maximum number of musl's meta areas. Each is a page with 101 groups of up to 32 blocks.
pub const MAX_MALLOCNG_AREAS: usize = 1 << 17;

/// Maximum number of musl's groups, at about 80 bytes of our memory each.
pub const MAX_MALLOCNG_GROUPS: usize = 4 << 20;

/// Maximum number of pages probed for mmapped chunks if fewer are found than malloc counts: 512 MiB of unclaimed
/// memory. Each probe reads a page of the file.
pub const MAX_MAPPED_PROBES: usize = 128 << 10;

/// Maximum number of pages probed if malloc's count is unknown: 64 MiB. A shrunk core has every page that was probed.
pub const MAX_UNCOUNTED_PROBES: usize = 16 << 10;

/// Maximum bytes of malloc's heaps searched for the next chunk after damage.
pub const MAX_MALLOC_SEARCH: u64 = 4 << 30;

/// Maximum bytes of a thread control block searched for the stack's bounds. glibc's struct pthread has 2,304 bytes on
/// x86_64 and 1,856 on aarch64.
pub const MAX_TCB_BYTES: usize = 4096;

/// Maximum number of frames of one thread's stack. An overflowed stack of 8 MiB has about 170,000 of the smallest.
pub const MAX_STACK_FRAMES: usize = 1 << 18;

/// Maximum number of signal frames on one stack. Each belongs to a handler that another signal interrupted.
pub const MAX_NESTED_SIGNALS: usize = 64;

/// Maximum number of addresses whose unwind rules are cached. The threads of a process wait or call in some hundreds of
/// locations.
pub const MAX_UNWIND_ROWS: usize = 4096;

/// Maximum number of frames over all threads (about 200 bytes each).
pub const MAX_ALL_FRAMES: usize = 1 << 20;

/// Maximum number of stack words scanned for one return address.
pub const MAX_SCAN_WORDS: usize = 512;

/// Maximum number of return addresses per stack found by scanning words.
pub const MAX_SCANS: usize = 16;

/// Maximum bytes of one module's unwind data. The largest browsers have 30 MiB.
pub const MAX_EH_FRAME: u64 = 128 << 20;

/// Maximum number of operations in one expression of unwind data.
pub const MAX_EXPRESSION_STEPS: u32 = 1000;

/// Maximum bytes of TLS and control block above a thread's own stack. Static TLS has some KiB.
pub const MAX_ABOVE_STACK: u64 = 16 << 20;

/// Maximum number of threads used to find the offsets of control block fields. The offsets are the same for all
/// threads.
pub const MAX_VOTERS: usize = 256;

/// Maximum number of mappings whose upper ends are searched for control blocks of ended threads, if none lives there.
/// Stacks are of equal size and adjacent.
pub const MAX_ENDED_MAPPINGS: usize = 128;

/// Maximum number of ended threads' control blocks used to find the stack fields. Lists lead from
/// these threads to the others.
pub const MAX_ENDED_VOTERS: usize = 16;

/// Maximum bytes of one module's writable data searched for malloc's main arena.
pub const MAX_ALLOCATOR_DATA: u64 = 64 << 20;

/// Maximum number of threads whose control blocks are used to find the offset of the list link. It is the same for all
/// threads.
pub const MAX_LINK_VOTERS: usize = 16;

/// Maximum bytes of `malloc_state` before its bins. 112 is the most so far.
pub const MAX_BEFORE_BINS: u64 = 256;

/// Maximum distance of the initial break above the program in bytes. arch_randomize_brk adds up to 32 MiB (1 GiB on
/// aarch64).
pub const MAX_BRK_OFFSET: u64 = 1 << 30;

/// Maximum plausible limit on mmapped chunks (M_MMAP_MAX). The default is 65,536.
pub const MAX_MMAPS: u32 = 1 << 30;

/// Maximum bytes of a stack searched for the frame of the signal handler that runs on it. Alternate stacks have 8 KiB
/// to some 100 KiB.
pub const MAX_SIGNAL_SEARCH: u64 = 1 << 20;

/// Maximum bytes of an arm64 signal frame below its frame record. It usually has 4,688 bytes, and
/// about 70 KiB with the widest vectors and matrices.
pub const MAX_SIGNAL_FRAME: u64 = 128 << 10;

/// Maximum number of stacks that one thread is on at once, by nested signal handlers.
pub const MAX_NESTED_STACKS: usize = 8;

/// Maximum number of TLS words next to a thread pointer tried as Go's pointer to its goroutine. The linker gives that
/// pointer the last slot. The program's C libraries have their words beside it.
pub const MAX_GO_TLS_WORDS: u64 = 64;

/// Maximum number of words of Go's `m` scanned for goroutines. The struct has about 250.
pub const MAX_GO_M_WORDS: u64 = 512;

/// Maximum size of a Go stack in bytes (runtime/debug.SetMaxStack: 1 GB by default).
pub const MAX_GO_STACK: u64 = 4 << 30;

/// Maximum size of a mapping that is taken for one stack only because a stack pointer points into it. 8 MiB is usual.
/// Larger ones are heaps from which stacks were allocated.
pub const MAX_GUESSED_STACK: u64 = 64 << 20;

/// Maximum length of a message of glibc's abort, in bytes. Most messages fit in one page.
pub const MAX_ABORT_MESSAGE: u64 = 1 << 20;

/// Maximum number of bytes of static TLS in which `__cxa_eh_globals` is searched. glibc reserves some KiB.
pub const MAX_TLS_SEARCH: u64 = 64 << 10;

/// Maximum number of bytes of a stack that are searched for messages, from its upper end.
pub const MAX_STACK_SEARCH: u64 = 64 << 20;

/// Maximum number of messages of one form on a stack.
pub const MAX_STACK_TEXTS: usize = 64;

/// Maximum number of bytes of a thread's name in a message.
pub const MAX_MESSAGE_THREAD: usize = 128;

/// Maximum number of bytes of a block that an answer shows without `--show-data`.
pub const MAX_PUBLIC_TEXT: usize = 8;

/// Maximum number of bytes past the end of a block in which its text is followed.
pub const MAX_OVERRUN: u64 = 4096;

/// Maximum number of bytes above the stack pointer in which free's argument is searched: the frames of abort, of
/// malloc_printerr and of free take some 600.
pub const MAX_FREE_FRAMES: u64 = 2048;

/// Lowest address of a malloc block (vm.mmap_min_addr).
pub const MIN_BLOCK_ADDRESS: u64 = 64 << 10;

/// Maximum number of bytes of a thread's stack that are read to find the locks its functions use.
pub const MAX_CODE_FRAME: u64 = 64 << 10;

/// Maximum number of bytes of code that are read to find holders of locks, over all threads and locks.
pub const MAX_LOCK_CODE: u64 = 256 << 20;

/// Maximum number of malloc blocks whose holders are computed. The tables have some 80 bytes per block.
pub const MAX_GRAPH_BLOCKS: usize = 1 << 26;

/// Maximum number of words in malloc blocks that lead to blocks. The tables have up to 20 bytes per word.
pub const MAX_GRAPH_WORDS: usize = 1 << 28;

/// Maximum number of words outside of malloc blocks that lead to blocks (16 bytes each).
pub const MAX_GRAPH_ROOTS: usize = 1 << 26;
