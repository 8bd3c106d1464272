//! Limits for core files: headers and notes, the map of claims, warnings, and the budget of an answer.

/// Maximum number of program headers read. PN_XNUM allows 2^32 mappings, but Linux limits a process to vm.max_map_count
/// (65,530 by default, 1,048,576 on tuned hosts). Each takes about 500 bytes of pieces, regions and rows.
pub const MAX_SEGMENTS: usize = (1 << 20) + (1 << 16);

/// Maximum number of NT_FILE entries. There is one per file mapping, and vm.max_map_count is at most about a million
/// even where it was raised.
pub const MAX_FILE_MAPPINGS: usize = 1 << 20;

/// Maximum number of threads. The kernel's own limit (PID_MAX_LIMIT) is 4,194,304.
pub const MAX_THREADS: usize = 4 << 20;

/// Maximum length of a path or name from the core, in bytes (PATH_MAX is 4,096).
pub const MAX_NAME: usize = 4096;

/// Maximum bytes of argv, envp and auxv strings read from the main stack. The kernel allows a quarter of the stack
/// limit; execve takes 2 MiB by default.
pub const MAX_ARG_BYTES: usize = 2 << 20;

/// Maximum number of argv pointers, and of envp pointers, followed.
pub const MAX_ARGS: usize = 1 << 16;

/// Maximum length of a variable's name in bytes. A longer one is not a name, and is hidden like a value.
pub const MAX_VARIABLE: usize = 256;

/// Maximum number of claims. There are a few per mapping, and at most a million mappings.
pub const MAX_CLAIMS: usize = 4 << 20;

/// Maximum number of nodes followed in one linked list of the process, such as stack lists and arenas.
pub const MAX_LIST: usize = 1 << 20;

/// Maximum number of extents (data and holes) read from a sparse file. The rest of a more fragmented file is read as if
/// it were dense.
pub const MAX_EXTENTS: usize = 1 << 20;

/// Maximum bytes of a file requested by read-ahead at once. A page of each of 100,000 mappings is 400 MB. More would
/// evict what was requested first.
pub const MAX_READ_AHEAD: u64 = 1 << 30;

/// Maximum size of a decompressed core in bytes. Holes cost nothing on disk, and a process's dumped memory can't exceed
/// its machine's.
pub const MAX_INFLATED: u64 = 1 << 44;

/// Maximum bytes of one window or dictionary during decompression, unless `--memory` gives a limit: `xz -9` takes 65
/// MiB, `zstd --long=27` 128 MiB.
pub const MAX_UNPACK_MEMORY: u64 = 512 << 20;

/// Minimum length of a run of zeros in a decompressed core that becomes a hole, in bytes. Each hole costs a mapping.
pub const MIN_HOLE: u64 = 256 << 10;

/// Maximum number of holes in a decompressed core; vm.max_map_count is 65,530 by default.
pub const MAX_HOLES: usize = 4096;

/// Maximum number of warnings per code stored with their text. The rest are only counted.
pub const MAX_WARNINGS_PER_CODE: usize = 8;

/// Maximum number of conflicts of claims that `check` lists. More add no information.
pub const MAX_CONFLICTS: usize = 100;

/// Maximum number of streams searched in the directory of a minidump. Real ones have under 40.
pub const MAX_MINIDUMP_STREAMS: usize = 1 << 10;

/// Maximum number of pairs of mappings of one name examined for showing the same pages. .NET maps its code in some
/// thousand pieces.
pub const MAX_VIEW_STEPS: usize = 1 << 26;

/// Maximum number of pages compared to find mappings of the same pages: 256 MiB.
pub const MAX_VIEW_PAGES: u64 = 1 << 16;

/// Maximum number of claims at one address that are compared with each other. Real maps have a few; a crafted core
/// could have a million.
pub const MAX_OPEN_CLAIMS: usize = 256;

/// Maximum bytes read of a saved smaps file. One with a million mappings has about 700 MB.
pub const MAX_SMAPS: u64 = 1 << 30;

/// Maximum length of a line of a saved smaps file, in bytes. A path has up to 4,096 bytes, each of which may be escaped
/// as four.
pub const MAX_SMAPS_LINE: u64 = 64 << 10;

/// Maximum number of note segments read. Every known producer writes one.
pub const MAX_NOTE_SEGMENTS: usize = 64;

/// Maximum bytes of notes that `shrink` writes. They are in memory at once. 10,000 threads with all registers have
/// about 40 MB.
pub const MAX_SHRUNK_NOTES: usize = 128 << 20;

/// Maximum number of page runs read from a core's own note: 64 MiB. A process of 100 GB whose pages are in runs of 32
/// KiB has this many.
pub const MAX_PAGE_RUNS: u64 = 4 << 20;

/// Units of work that an answer may take for any core. A read of memory is one unit, which takes some tens of
/// nanoseconds. All commands on cores of real processes take less than a tenth of this.
pub const BASE_WORK: u64 = 48 << 20;

/// Number of bytes of the core file that add one unit to the budget.
pub const BYTES_WORTH_WORK: u64 = 4;

/// Number of bytes of a read or scan that count as one more unit.
pub const BYTES_PER_WORK: u64 = 256;

/// Bytes of memory that an answer may take for any core, unless `--memory` gives a limit.
pub const MIN_MEMORY: u64 = 256 << 20;

/// Minimum memory in bytes that tables leave for everything else, if they could be in files: names, the answer, memory
/// of worker threads.
pub const MEMORY_BESIDE_TABLES: u64 = 64 << 20;

/// Memory in bytes that an answer may take for each byte of the core file. What is stored of a heap, or of malloc
/// blocks, is smaller than these are in the core.
pub const MEMORY_PER_BYTE: u64 = 2;

/// Maximum bytes read of a file below /proc. smaps has about 700 bytes for each of up to a million mappings.
pub const MAX_PROC_FILE: u64 = 1 << 30;

/// Maximum bytes of a running process's memory that scans hold at once, unless `--memory` gives a limit.
pub const MIRROR: u64 = 24 << 20;
