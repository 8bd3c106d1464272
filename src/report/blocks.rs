//! Chunks and slots of malloc, one by one and summed up.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{ChunkPlace, ChunkState, ClusterContent};

/// Number and bytes of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChunkSum {
    /// Chunks.
    pub count: u64,
    /// Their bytes, headers and all.
    pub bytes: u64,
}

impl ChunkSum {
    /// With one more chunk.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// With all of `other`.
    pub fn merge(&mut self, other: ChunkSum) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Chunks up to one size. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct SizeClassRow {
    /// Largest chunk of the class; chunks of half of it and less are in others.
    pub size_class: u64,
    /// Used chunks.
    pub used: u64,
    /// Free chunks, tops excepted.
    pub free: u64,
    /// Bytes of used ones.
    pub used_bytes: u64,
    /// Bytes of free ones.
    pub free_bytes: u64,
}

/// Used blocks that are alike.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ClusterRow {
    /// Size of the chunk in bytes.
    pub size: u64,
    /// Blocks in use.
    pub count: u64,
    /// Bytes of their chunks.
    pub bytes: u64,
    /// The word they all begin with; `null` where they differ.
    pub first_word: Option<Addr>,
    /// The byte that all of the block is filled with, as far as it was looked at
    /// (4 KiB).
    pub fill: Option<u8>,
    /// What malloc returned for one of them.
    pub example: Addr,
    /// What they have in common beside their size.
    pub kind: ClusterContent,
    /// Where the first word points to, if into a module.
    pub symbol: Option<String>,
    /// Free chunks of the same size.
    pub free: u64,
    /// Whether they have mappings of their own.
    pub mmapped: bool,
    /// What a managed runtime noted that they are for (the Java VM's Native Memory Tracking); `null` where it noted
    /// nothing.
    pub category: Option<String>,
}

impl ClusterRow {
    /// What its blocks begin with, in words.
    pub fn begins(&self) -> String {
        match (&self.symbol, self.fill, self.first_word) {
            (Some(symbol), _, _) => symbol.clone(),
            (_, Some(0), _) => "zeros".into(),
            (_, Some(byte), _) => format!("all 0x{byte:02x}"),
            (_, _, Some(word)) => word.to_string(),
            _ => "(differs)".into(),
        }
    }
}

/// One chunk.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ChunkRow {
    /// What malloc returned for it.
    pub address: Addr,
    /// Size of the chunk or slot in bytes.
    pub size: u64,
    /// Bytes of it that the program asked for; `null` where malloc does not keep that (musl's does), and of free ones.
    pub asked: Option<u64>,
    /// Whether it is the program's.
    pub state: ChunkState,
    /// Its arena; `null` for mmapped chunks, and where malloc has no arenas (musl's).
    pub arena: Option<Addr>,
    /// Where malloc keeps it.
    pub r#where: ChunkPlace,
}
