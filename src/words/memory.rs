//! Blocks of memory, what fills them, and what was looked for in it.

use super::words;

words! {
    /// What nearly all written pages of memory hold.
    #[derive(Default)]
    pub enum BlockContent {
        /// Bits or flags: nearly all bytes are 0x00 or 0xff.
        Bitmap = "bitmap",
        /// Nothing that is known by its look, or several things.
        Data = "data",
        /// One byte, not zero.
        Fill = "fill",
        /// Numbers with a fraction.
        Float = "floating point",
        /// The core has none of it.
        #[default]
        NotInCore = "not in the core",
        /// What stands for values, in a core that was scrubbed.
        Overwritten = "overwritten",
        /// Many addresses of mapped memory.
        Pointers = "pointers",
        /// All byte values equally often: compressed, encrypted or random.
        Random = "random",
        /// Nearly all zeros, and here and there a word.
        Sparse = "sparse",
        /// Structures: some addresses, small numbers and zeros.
        Structures = "structures",
        /// Text, in whatever encoding.
        Text = "text",
        /// One word of 8 bytes over and over.
        Word = "word",
        /// Zero all over.
        Zero = "zero",
    }
}

words! {
    /// How blocks of anonymous memory are told apart.
    #[derive(Default)]
    pub enum BlockBorders {
        /// Each is a region of its own.
        #[default]
        Regions = "regions",
        /// Cut where pointers lead.
        Pointers = "pointers",
        /// Cut where what fills them changes.
        Content = "content",
    }
}

words! {
    /// What words are looked for that point at it.
    #[derive(Default)]
    pub enum TargetKind {
        /// A managed object.
        Object = "object",
        /// A block of malloc in use.
        Block = "block",
        /// A free block of malloc.
        FreeBlock = "free block",
        /// A region of the map.
        Region = "region",
        /// So many bytes as were asked for.
        Range = "range",
        /// The address alone.
        #[default]
        Address = "address",
    }
}

words! {
    /// In which form a hit was found.
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
    /// Where memory came from that an object of a managed runtime owns.
    #[derive(Default)]
    pub enum BufferMemory {
        /// The runtime asked malloc or the system for it.
        #[default]
        Allocated = "allocated",
        /// A file is mapped there.
        Mapped = "mapped file",
    }
}
