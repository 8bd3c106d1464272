//! Limits for program files in memory, their symbols, and their metadata.

/// Maximum number of modules whose headers are read.
pub const MAX_MODULES: usize = 1 << 16;

/// Maximum number of program headers, and of section headers, of one module. Images have under 100; only object files
/// built with -ffunction-sections have more.
pub const MAX_IMAGE_HEADERS: usize = 4096;

/// Maximum number of PT_LOADs placed per image. Real ones have 2 to 6.
pub const MAX_IMAGE_SEGMENTS: usize = 64;

/// Maximum number of PT_LOADs and sections in all images.
pub const MAX_IMAGE_PARTS: usize = 1 << 18;

/// Maximum address space of one image in bytes. The largest known have a few hundred MiB.
pub const MAX_IMAGE_SPAN: u64 = 8 << 30;

/// Maximum bytes of one image's writable data searched for a structure.
pub const MAX_IMAGE_DATA: u64 = 16 << 20;

/// Maximum number of files in a single-file program. A large one has about a hundred.
pub const MAX_BUNDLED_FILES: usize = 1 << 14;

/// Maximum total length of the bundled files' paths, in bytes.
pub const MAX_BUNDLED_TEXT: usize = 4 << 20;

/// Maximum number of bundled files before an offset that are checked for reaching over it.
pub const MAX_FILES_NEAR: usize = 256;

/// Maximum number of locations in an image's data tried as the list of bundled files. There is one list.
pub const MAX_BUNDLE_TRIES: usize = 16;

/// Maximum number of images searched for the file list of a single-file program's host: the program, and its host
/// policy.
pub const MAX_HOSTS: usize = 8;

/// Maximum number of attributes read of one type.
pub const MAX_ATTRIBUTES: usize = 1 << 10;

/// Maximum length of a build-id in bytes. SHA-1 has 20; linkers allow any length.
pub const MAX_BUILD_ID: usize = 64;

/// Maximum number of symbolic links followed on the way to one file: the kernel's limit.
pub const MAX_LINKS: usize = 40;

/// Maximum number of files below one `--symbols` directory.
pub const MAX_SYMBOL_FILES: usize = 1 << 16;

/// Maximum number of trailing directories of a path tried as the root of a `--symbols` copy.
pub const MAX_PATH_ENDS: usize = 16;

/// Maximum number of streams in a metadata root. Real ones have 5, or 6 with a PDB's.
pub const MAX_METADATA_STREAMS: usize = 32;

/// Maximum bytes of one module's metadata. The largest known have under 20 MiB.
pub const MAX_METADATA: u64 = 64 << 20;

/// Maximum depth of nested types in a signature. Compilers give up long before, and deeper recursion would cost stack.
pub const MAX_SIGNATURE_DEPTH: u32 = 64;

/// Maximum number of types in a signature. A method has at most 65,534 locals.
pub const MAX_SIGNATURE_NODES: u32 = 1 << 16;

/// Maximum size of a portable PDB in bytes, compressed or not. The largest known have under 20 MiB.
pub const MAX_PDB: u64 = 256 << 20;

/// Maximum number of entries in a PE file's debug directory. Real ones have up to 5.
pub const MAX_DEBUG_ENTRIES: usize = 64;

/// Maximum size of the debug information of one file that is searched for static members. That of a NativeAOT program
/// of 100 MB has 60 MB.
pub const MAX_DEBUG_INFO: usize = 512 << 20;

/// Maximum size of the line programs of one file that are searched for source lines. Those of a large server have 30
/// MB.
pub const MAX_DEBUG_LINES: usize = 128 << 20;

/// Maximum number of symbols read from the tables of one module. A browser with all its symbols has a million and a
/// half.
pub const MAX_MODULE_SYMBOLS: usize = 4 << 20;

/// Maximum number of symbol, hash and relocation table entries read for all modules, at up to 64 bytes each. A core may
/// map one table as many modules.
pub const MAX_SYMBOLS: usize = 8 << 20;

/// Maximum bytes of a symbol's name that are read and demangled. Templates reach some thousands.
pub const MAX_SYMBOL_NAME: usize = 16 << 10;

/// Maximum length of a demangled name in bytes. A mangled name may refer back to its own parts, and so double with each
/// of its bytes.
pub const MAX_DEMANGLED: usize = 64 << 10;

/// Maximum size of a decompressed .gnu_debugdata in bytes (glibc's takes 300 KiB), and maximum memory for its
/// decompression.
pub const MAX_DEBUGDATA: usize = 64 << 20;

/// Maximum bytes of .gnu_debugdata decompressed for all modules.
pub const MAX_ALL_DEBUGDATA: usize = 512 << 20;

/// Maximum extent of a symbol without a size in bytes, if no section table limits it. Hand-written code is short.
pub const MAX_UNSIZED_SYMBOL: u64 = 4096;

/// Maximum bytes of an image's notes read for its build-id, which is among the first notes.
pub const MAX_IMAGE_NOTES: u64 = 64 << 10;

/// Maximum number of symbols followed in one hash chain. Real chains have a handful.
pub const MAX_SYMBOL_CHAIN: u32 = 4096;

/// Maximum recursion depth of the C++ demangler's parser, and of its printer.
///
/// The parser tries some constructs twice at each level, so its time may double with the depth. At its default of 96, a
/// name of 70 bytes takes seconds; at this depth, milliseconds. Of 99,790 C++ names in Debian 12's libraries, 82 more
/// are refused than at 96.
pub const MAX_DEMANGLE_DEPTH: (u32, u32) = (48, 128);

/// Maximum number of operators in a name whose operands the parser may read up to four times. Letters in identifiers
/// count as well. Of 243,927 real names, one has the first two operators more often.
pub const MAX_DEMANGLE_RETRIED: usize = 8;

/// Maximum bytes of a vdso. The largest seen has 2 pages of 4 KiB; pages may have 64 KiB.
pub const MAX_VDSO: u64 = 128 << 10;

/// Maximum number of kernel mappings directly below the vdso: `[vvar]` and `[vvar_vclock]`.
pub const MAX_VVAR_MAPPINGS: usize = 2;

/// Maximum bytes of the kernel's mappings below the vdso. The largest vvar seen has 6 pages; newer kernels add one for
/// the vgetrandom state.
pub const MAX_VVAR: u64 = 16 * 4096;
