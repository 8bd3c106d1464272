//! Program files in memory, their symbols, and the metadata in them.

/// Modules whose headers are read.
pub const MAX_MODULES: usize = 1 << 16;

/// Program or section headers of one module (real ones have under 100;
/// -ffunction-sections objects that are not images have more).
pub const MAX_IMAGE_HEADERS: usize = 4096;

/// PT_LOADs of one image that are placed (real ones have 2 to 6).
pub const MAX_IMAGE_SEGMENTS: usize = 64;

/// PT_LOADs and sections of all images together.
pub const MAX_IMAGE_PARTS: usize = 1 << 18;

/// Address space of one image: the largest known are some hundred MiB.
pub const MAX_IMAGE_SPAN: u64 = 8 << 30;

/// Bytes of one image's writable data that are looked through for a structure.
pub const MAX_IMAGE_DATA: u64 = 16 << 20;

/// Files of one single-file program; a large one has some hundred.
pub const MAX_BUNDLED_FILES: usize = 1 << 14;

/// Bytes of the paths of these together.
pub const MAX_BUNDLED_TEXT: usize = 4 << 20;

/// Of these, the ones before a place in the file that are looked at for one that reaches over it.
pub const MAX_FILES_NEAR: usize = 256;

/// Places in an image's data that look like the list of them, and are read; there is one.
pub const MAX_BUNDLE_TRIES: usize = 16;

/// Images that are looked through for the list of a single-file program's host: the program,
/// and its host policy.
pub const MAX_HOSTS: usize = 8;

/// Attributes of one type that are looked at.
pub const MAX_ATTRIBUTES: usize = 1 << 10;

/// Bytes of one build-id (SHA-1 is 20; linkers allow any).
pub const MAX_BUILD_ID: usize = 64;

/// Links followed on the way to one file; the kernel's own limit.
pub const MAX_LINKS: usize = 40;

/// Files looked at below one `--symbols` directory.
pub const MAX_SYMBOL_FILES: usize = 1 << 16;

/// Folders at the end of a path of which a `--symbols` directory may be a copy.
pub const MAX_PATH_ENDS: usize = 16;

/// Streams of one metadata root; real ones have 5, or 6 with a PDB's.
pub const MAX_METADATA_STREAMS: usize = 32;

/// Bytes of one module's metadata: the largest known have under 20 MiB.
pub const MAX_METADATA: u64 = 64 << 20;

/// Types within types of one signature. Compilers give up long before; what is
/// deeper would cost stack.
pub const MAX_SIGNATURE_DEPTH: u32 = 64;

/// Types in one signature: a method has at most 65,534 locals.
pub const MAX_SIGNATURE_NODES: u32 = 1 << 16;

/// Bytes of one portable PDB, compressed or not: the largest known have under 20 MiB.
pub const MAX_PDB: u64 = 256 << 20;

/// Entries of one PE file's debug directory; real ones have up to 5.
pub const MAX_DEBUG_ENTRIES: usize = 64;

/// Symbols read from the tables of one module; a browser with all of its own
/// has a million and a half.
pub const MAX_MODULE_SYMBOLS: usize = 4 << 20;

/// Entries of symbol, hash and relocation tables read for all modules together,
/// as one table may be mapped as many modules; 64 bytes each where all are kept.
pub const MAX_SYMBOLS: usize = 8 << 20;

/// Bytes of one symbol's name that are read and demangled; templates reach some
/// thousands.
pub const MAX_SYMBOL_NAME: usize = 16 << 10;

/// Bytes of one demangled name: a mangled one may refer back to its own parts
/// and so double with each of its bytes.
pub const MAX_DEMANGLED: usize = 64 << 10;

/// Bytes of one decompressed .gnu_debugdata (glibc's takes 300 KiB), and of the
/// memory that decompressing it may take.
pub const MAX_DEBUGDATA: usize = 64 << 20;

/// Bytes of .gnu_debugdata decompressed for all modules together.
pub const MAX_ALL_DEBUGDATA: usize = 512 << 20;

/// How far a symbol without a size is believed to reach where no section table
/// says what ends there: hand-written code is short.
pub const MAX_UNSIZED_SYMBOL: u64 = 4096;

/// Bytes of one image's notes read for its build-id, which stands among the first.
pub const MAX_IMAGE_NOTES: u64 = 64 << 10;

/// Symbols of one hash chain looked at; real chains have a handful.
pub const MAX_SYMBOL_CHAIN: u32 = 4096;

/// Depth of the C++ parser's recursion, and of its printer's. The parser tries some
/// parts twice at each level, so the time it may take doubles with them: at its
/// default of 96 a name of 70 bytes takes seconds, at this depth milliseconds.
/// Of 99,790 C++ names of Debian 12's libraries it refuses 82 more than at 96.
pub const MAX_DEMANGLE_DEPTH: (u32, u32) = (48, 128);

/// How often operators whose operands the parser reads up to four times over may stand
/// in a name, be it as letters of an identifier: of 243,927 real names one has the first
/// two more often.
pub const MAX_DEMANGLE_RETRIED: usize = 8;

/// Mappings of the kernel right below the vdso: `[vvar]` and `[vvar_vclock]`.
pub const MAX_VVAR_MAPPINGS: usize = 2;

/// Bytes of those: the largest vvar seen is 6 pages; newer kernels add a page for the
/// vgetrandom state.
pub const MAX_VVAR: u64 = 16 * 4096;
