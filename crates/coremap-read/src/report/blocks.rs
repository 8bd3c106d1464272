//! malloc chunks and slots, single and summed.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{AllocatorName, ChunkPlace, ChunkState, ClusterContent};
use crate::sums::SaturatingAdd;

/// Number and total size of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChunkSum {
    /// Number of chunks.
    pub count: u64,
    /// Bytes, including headers.
    pub bytes: u64,
}

impl ChunkSum {
    /// Adds one chunk.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// What is left without `part`.
    pub fn without(self, part: ChunkSum) -> ChunkSum {
        ChunkSum { count: self.count.saturating_sub(part.count), bytes: self.bytes.saturating_sub(part.bytes) }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: ChunkSum) {
        self.count.add_saturating(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Chunks of one size class. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct SizeClassRow {
    /// Largest chunk size of the class. Chunks of half that size or less are in smaller classes.
    pub size_class: u64,
    /// Number of used chunks.
    pub used: u64,
    /// Number of free chunks, without top chunks.
    pub free: u64,
    /// Bytes of used chunks.
    pub used_bytes: u64,
    /// Bytes of free chunks.
    pub free_bytes: u64,
}

/// Used blocks of equal size and content.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ClusterRow {
    /// Size of the chunk in bytes.
    pub size: u64,
    /// Number of blocks in use.
    pub count: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
    /// The word that all of them begin with. `null` if they differ.
    pub first_word: Option<Addr>,
    /// The byte that fills the block; the first 4 KiB are checked.
    pub fill: Option<u8>,
    /// Address that malloc returned for one of them.
    pub example: Addr,
    /// Common content besides the size.
    pub kind: ClusterContent,
    /// Symbol that the first word points to, if it points into a module.
    pub symbol: Option<String>,
    /// Number of free chunks of the same size.
    pub free: u64,
    /// Whether each has a separate mapping.
    pub mmapped: bool,
    /// Category that a managed runtime recorded (Native Memory Tracking of the Java VM). `null` if none.
    pub category: Option<String>,
    /// Allocator of the blocks. `null` for the C library's malloc.
    pub allocator: Option<AllocatorName>,
    /// Bytes of the blocks in pages that the process wrote: resident and swapped pages if those are known, otherwise
    /// pages in the core that are not all zero. `null` if not measured: blocks below 4 KiB, clusters below 16 MiB, and
    /// blocks that are not in the core.
    pub written: Option<u64>,
    /// Class of the blocks, by their virtual table or the type that a library recorded. `null` if not proven.
    #[serde(rename = "type")]
    pub class: Option<String>,
    /// The container that most of the blocks belong to. `null` if none is proven.
    pub container: Option<String>,
    /// The variable that holds most of the blocks. `null` if no single one does, or if not computed.
    pub holder: Option<String>,
}

impl ClusterRow {
    /// Returns the bytes that the blocks take up in memory, as far as that was measured.
    pub fn weight(&self) -> u64 {
        self.written.map_or(self.bytes, |written| written.min(self.bytes))
    }

    /// Returns class, container and holder of the blocks in words. Empty if none is known.
    pub fn owner(&self) -> String {
        let class = self.class.clone();
        let container = self.container.as_ref().map(|container| format!("in a {container}"));
        let holder = self.holder.as_ref().map(|holder| format!("held by {holder}"));
        [class, container, holder].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Returns the first bytes of the blocks, in words.
    pub fn begins(&self) -> String {
        match (&self.symbol, self.fill, self.first_word) {
            (Some(symbol), _, _) => symbol.clone(),
            (_, Some(0), _) => "zeros".into(),
            (_, Some(byte), _) => format!("all 0x{byte:02x}"),
            (_, _, Some(word)) => self.tag(word).unwrap_or_else(|| word.to_string()),
            _ => "(differs)".into(),
        }
    }

    /// The first word as text, if all its bytes are printable. `None` if only one block begins with it: that may be
    /// data of its own, and is not the mark of a format.
    fn tag(&self, word: Addr) -> Option<String> {
        let bytes = word.get().to_le_bytes();
        let text = str::from_utf8(&bytes).ok().filter(|text| text.bytes().all(|b| (0x20..0x7f).contains(&b)))?;
        (self.count > 1).then(|| format!("\"{text}\""))
    }
}

/// One chunk.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ChunkRow {
    /// Address that malloc returned.
    pub address: Addr,
    /// Size of the chunk or slot in bytes.
    pub size: u64,
    /// Bytes that the program requested. `null` for free chunks, and where malloc does not record it (musl does).
    pub asked: Option<u64>,
    /// Whether the program uses it.
    pub state: ChunkState,
    /// Address of its arena. `null` for mmapped chunks, and where malloc has no arenas (musl).
    pub arena: Option<Addr>,
    /// The list or cache of malloc that contains it.
    pub r#where: ChunkPlace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_several_blocks_begin_with_is_shown_as_text() {
        let begins =
            |word, count| ClusterRow { first_word: Some(Addr::new(word)), count, ..ClusterRow::default() }.begins();
        assert_eq!(begins(0x6574_692f_2054_4547, 2), "\"GET /ite\"");
        // The beginning of a single block may be a secret.
        assert_eq!(begins(0x6574_692f_2054_4547, 1), "0x6574692f20544547");
        assert_eq!(begins(0x7f3a_e000_0030, 5), "0x7f3ae0000030");
        assert_eq!(begins(0x0a74_692f_2054_4547, 5), "0xa74692f20544547");
    }
}
