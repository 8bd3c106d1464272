//! The file, its headers and notes, the map of claims, and what is said of them.

/// Program headers read. Linux allows 2^32 mappings by PN_XNUM; processes are
/// held to vm.max_map_count (65,530 as shipped, 1,048,576 on tuned hosts). Each is
/// kept in some 500 bytes of pieces, regions and rows.
pub const MAX_SEGMENTS: usize = (1 << 20) + (1 << 16);

/// Entries of NT_FILE in all; one per file mapping, and vm.max_map_count is at
/// most about a million even where it was raised.
pub const MAX_FILE_MAPPINGS: usize = 1 << 20;

/// Threads; the kernel's own ceiling (PID_MAX_LIMIT) is 4,194,304.
pub const MAX_THREADS: usize = 4 << 20;

/// Bytes of one path or name taken from the core (PATH_MAX is 4,096).
pub const MAX_NAME: usize = 4096;

/// Bytes of argv, envp and auxv strings read from the main stack. The kernel
/// allows a quarter of the stack limit; 2 MiB is what execve takes by default.
pub const MAX_ARG_BYTES: usize = 2 << 20;

/// Number of argv and of envp pointers followed.
pub const MAX_ARGS: usize = 1 << 16;

/// Bytes of the name of a variable; what is longer is no name, and shown as little as a value.
pub const MAX_VARIABLE: usize = 256;

/// Claims in all: some for each mapping, of which there are at most a million.
pub const MAX_CLAIMS: usize = 4 << 20;

/// Nodes followed in one linked list of the process (stack lists, arenas).
pub const MAX_LIST: usize = 1 << 20;

/// Extents (data and hole) read from a sparse file; a more shattered file is
/// read as if dense from there on.
pub const MAX_EXTENTS: usize = 1 << 20;

/// Bytes of the file that are asked for at once before they are read: a page of each
/// of 100,000 mappings is 400 MB. More would push out what was asked for first.
pub const MAX_READ_AHEAD: u64 = 1 << 30;

/// Bytes an inflated core may take. Holes cost nothing on disk, and a
/// process's dumped memory cannot exceed its machine's.
pub const MAX_INFLATED: u64 = 1 << 44;

/// Bytes that one window or dictionary may take while a core is decompressed, where `--memory`
/// gives none: `xz -9` takes 65 MiB, `zstd --long=27` 128 MiB.
pub const MAX_UNPACK_MEMORY: u64 = 512 << 20;

/// Zeros in a decompressed core from which on they are kept apart as a hole: a mapping of its
/// own is worth that.
pub const LEAST_HOLE: u64 = 256 << 10;

/// Holes kept apart; vm.max_map_count is 65,530 as shipped.
pub const MAX_HOLES: usize = 4096;

/// Warnings kept with their text; more of one code are only counted.
pub const MAX_WARNINGS_PER_CODE: usize = 8;

/// Conflicts of claims that `check` lists; more say the same.
pub const MAX_CONFLICTS: usize = 100;

/// Claims over one address that are compared with each other: a few in any real
/// map, and a bound for a core that was made to have a million.
pub const MAX_OPEN_CLAIMS: usize = 256;

/// Bytes read of a smaps that is given beside a core: of a million mappings it has some 700 MB.
pub const MAX_SMAPS: u64 = 1 << 30;

/// Bytes of one line of it: a path of 4,096 bytes, each of which may be written as four.
pub const MAX_SMAPS_LINE: u64 = 64 << 10;

/// Note segments read; every producer writes one.
pub const MAX_NOTE_SEGMENTS: usize = 64;

/// Bytes of notes that `shrink` writes, held in memory at once: of 10,000 threads
/// with all their registers they are some 40 MB.
pub const MAX_SHRUNK_NOTES: usize = 128 << 20;

/// Runs of pages that a core's own note tells: 64 MiB of them. A process of 100 GB whose pages lie in 32 KiB each
/// has as many.
pub const MAX_PAGE_RUNS: u64 = 4 << 20;

/// Units of work that an answer may take of any core: a read of memory is one, some tens of
/// nanoseconds. All commands on cores of real processes take less than a tenth.
pub const LEAST_WORK: u64 = 48 << 20;

/// Bytes of the core file that are worth one more unit.
pub const BYTES_WORTH_WORK: u64 = 4;

/// Bytes of one read or scan that count as one more unit.
pub const BYTES_PER_WORK: u64 = 256;

/// Bytes of memory that an answer may take of any core, where `--memory` says nothing.
pub const LEAST_MEMORY: u64 = 256 << 20;

/// Bytes of these that tables which could be in files leave for all else, at least: names, the answer, what threads work with.
pub const MEMORY_BESIDE_TABLES: u64 = 64 << 20;

/// Further bytes for each byte of the core file: what is kept of a heap, or of blocks of
/// malloc, is a part of what they take in the core.
pub const MEMORY_PER_BYTE: u64 = 2;

/// Bytes of a file below /proc that are read at most: of smaps, some 700 for each of a million mappings.
pub const MAX_PROC_FILE: u64 = 1 << 30;

/// Bytes of a process that runs which scans of it hold at once, where `--memory` says nothing.
pub const MIRROR: u64 = 24 << 20;
