//! Limits for NativeAOT.

/// Maximum number of entries in DotNetRuntimeDebugHeader. 8.0 and 9.0 have 92.
pub const MAX_HEADER_ENTRIES: u64 = 1024;

/// Maximum length of a name in DotNetRuntimeDebugHeader, in bytes. The longest has 26.
pub const MAX_HEADER_NAME: usize = 64;

/// Maximum number of threads in the runtime's list.
pub const MAX_AOT_THREADS: usize = 1 << 17;

/// Maximum number of nodes in a thread's lists of references: exceptions, statics, the runtime's own frames.
pub const MAX_AOT_THREAD_NODES: usize = 1 << 20;

/// Maximum number of references in one of the runtime's own frames.
pub const MAX_AOT_FRAME_REFS: u64 = 1 << 16;

/// Maximum number of sections in the module's ReadyToRun header. 9.0 has 34.
pub const MAX_AOT_SECTIONS: u64 = 512;

/// Maximum length of one section in bytes. The metadata of a program of 100 MB has about 10 MB.
pub const MAX_AOT_SECTION: u64 = 256 << 20;

/// Maximum number of references that are read of one object of the library.
pub const MAX_AOT_OBJECT_REFS: usize = 1 << 16;

/// Bytes of the runtime's text about a crash (MAX_CRASHINFOBUFFER_SIZE).
pub const MAX_CRASH_INFO: u64 = 8192;

/// Maximum number of assemblies whose names are recognised in symbols.
pub const MAX_AOT_ASSEMBLIES: usize = 4096;

/// Maximum number of methods with names. A program of 100 MB has about 200,000.
pub const MAX_AOT_METHODS: usize = 1 << 21;

/// Maximum number of types in the type map.
pub const MAX_AOT_TYPES: usize = 1 << 20;

/// Maximum number of word pairs in the module's data tried as the heap's bounds. 9.0 has four.
pub const MAX_BOOKKEEPING_TRIES: usize = 1 << 12;

/// Maximum length of a name in the metadata, in bytes. Compilers allow 1,023.
pub const MAX_METADATA_NAME: usize = 1024;

/// Maximum number of types that one type's name is made of.
pub const MAX_NAME_PARTS: u32 = 64;
