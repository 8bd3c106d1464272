//! Blocks of memory, their contents, and searches.

use super::words;

words! {
    /// Content of nearly all written pages of some memory.
    #[derive(Default)]
    pub enum BlockContent {
        /// Bits or flags: nearly all bytes are 0x00 or 0xff.
        Bitmap = "bitmap",
        /// Unknown or mixed content.
        Data = "data",
        /// One byte other than zero.
        Fill = "fill",
        /// Floating-point numbers.
        Float = "floating point",
        /// The core has none of it.
        #[default]
        NotInCore = "not in the core",
        /// Replacement values in a scrubbed core.
        Overwritten = "overwritten",
        /// Many addresses of mapped memory.
        Pointers = "pointers",
        /// All byte values equally often: compressed, encrypted or random.
        Random = "random",
        /// Nearly all zeros with a few words.
        Sparse = "sparse",
        /// Structures: some addresses, small numbers and zeros.
        Structures = "structures",
        /// Text in any encoding.
        Text = "text",
        /// One repeated word of 8 bytes.
        Word = "word",
        /// All zero.
        Zero = "zero",
    }
}

words! {
    /// How blocks of anonymous memory are delimited.
    #[derive(Default)]
    pub enum BlockBorders {
        /// Each is a separate region.
        #[default]
        Regions = "regions",
        /// Cut at the targets of pointers.
        Pointers = "pointers",
        /// Cut where the content changes.
        Content = "content",
    }
}

words! {
    /// What the searched pointers point at.
    #[derive(Default)]
    pub enum TargetKind {
        /// A managed object.
        Object = "object",
        /// A used malloc block.
        Block = "block",
        /// A free malloc block.
        FreeBlock = "free block",
        /// A region of the map.
        Region = "region",
        /// A range of requested length.
        Range = "range",
        /// The address only.
        #[default]
        Address = "address",
    }
}

words! {
    /// Form in which a match was found.
    #[derive(Default)]
    pub enum HitEncoding {
        /// Text as UTF-8.
        #[default]
        Utf8 = "utf8",
        /// Text as UTF-16LE, at any address, even or odd.
        Utf16 = "utf16",
        /// The bytes themselves.
        Hex = "hex",
        /// An address, in a word at a multiple of eight.
        Pointer = "pointer",
    }
}

words! {
    /// Source of native memory that a managed object owns.
    #[derive(Default)]
    pub enum BufferMemory {
        /// Allocated from malloc or the system by the runtime.
        #[default]
        Allocated = "allocated",
        /// A mapped file.
        Mapped = "mapped file",
    }
}

words! {
    /// Whether something keeps memory in use.
    #[derive(Default)]
    pub enum Kept {
        /// A root leads to it.
        Reached = "reached",
        /// Only words lead to it that may be numbers or left over.
        Perhaps = "perhaps",
        /// No root leads to it, and everything that may hold references was read.
        Unreached = "unreached",
        /// No root that was read leads to it, and not everything was read.
        #[default]
        Unknown = "unknown",
        /// Free: a free block, or the space between objects.
        Free = "free",
        /// It is mapped, and no reference decides how long: a stack, code, a file, a runtime's own memory.
        Mapped = "mapped",
        /// Nothing is mapped there.
        Absent = "absent",
    }
}
