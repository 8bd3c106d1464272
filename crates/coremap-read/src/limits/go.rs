//! Limits for Go: functions, goroutines, spans, records of the heap profile.

/// Maximum offset or size in a bundled layout. Go's `heapArena` has 2 MiB of bitmap before other fields (1.19).
pub const MAX_TABLE_OFFSET: i64 = 4 << 20;

/// Maximum number of functions of a Go program. Kubernetes' largest has about 300,000.
pub const MAX_GO_FUNCTIONS: u64 = 1 << 22;

/// Maximum bytes of the tables of positions (pctab). The largest known program has about 40 MiB.
pub const MAX_GO_PCTAB: u64 = 1 << 28;

/// Maximum length of a name or path in a Go program, in bytes.
pub const MAX_GO_NAME: usize = 1 << 12;

/// Maximum number of functions inlined into each other at one address.
pub const MAX_GO_INLINED: usize = 256;

/// Maximum number of entries in the lists of tables of one function.
pub const MAX_GO_FUNCDATA: u64 = 256;

/// Maximum number of goroutines, ended ones included.
pub const MAX_GO_GOROUTINES: u64 = 1 << 24;

/// Maximum bytes of code searched for calls of the allocator. The largest known program has about 100 MiB.
pub const MAX_GO_TEXT: u64 = 1 << 28;

/// Maximum size of a type in bytes. The compiler refuses larger ones on 64 bits long before.
pub const MAX_GO_TYPE_SIZE: u64 = 1 << 40;

/// Maximum number of fields of a struct that are read.
pub const MAX_GO_FIELDS: u64 = 1 << 12;

/// Maximum number of threads (`m`).
pub const MAX_GO_THREADS: usize = 1 << 20;

/// Maximum number of frames of one goroutine. A stack of 1 GB, Go's own limit, has more only in a runaway recursion.
pub const MAX_GO_FRAMES: usize = 1 << 12;

/// Maximum number of spans of the heap. Each describes at least 8 KiB.
pub const MAX_GO_SPANS: u64 = 1 << 26;

/// Maximum number of records of the heap profile (`bucket`).
pub const MAX_GO_BUCKETS: usize = 1 << 22;

/// Maximum number of addresses in a record of a profile.
pub const MAX_GO_BUCKET_FRAMES: u64 = 1 << 10;

/// Maximum number of `sudog`s followed in all queues of channels and semaphores.
pub const MAX_GO_WAITERS: usize = 1 << 24;

/// Maximum number of specials (finalizers, samples of the profile) of all spans.
pub const MAX_GO_SPECIALS: usize = 1 << 26;

/// Maximum number of cases of one `select`.
pub const MAX_GO_CASES: usize = 1 << 16;

/// Maximum number of modules (`moduledata`) of a program: itself and its plugins.
pub const MAX_GO_MODULES: usize = 1 << 10;

/// Maximum number of code addresses whose frames are stored.
pub const MAX_GO_PLACES: usize = 1 << 20;

/// Maximum bytes of the information that a Go program carries on its build.
pub const MAX_GO_BUILD_INFO: u64 = 1 << 20;
