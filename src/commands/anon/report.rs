use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::{BlockBorders, BlockContent, Name, PointerSource};

/// `anon`: anonymous memory that no runtime, heap or stack claims.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AnonReport {
    /// Equal blocks together, those of most bytes first.
    pub clusters: Vec<BlockClusterRow>,
    /// Clusters that are not listed.
    pub more: u64,
    /// Regions looked at.
    pub regions: u64,
    /// Their bytes.
    pub size: u64,
    /// Of those, held by the core.
    pub in_core: u64,
    /// Bytes of memory in which pointers to them were looked for.
    pub scanned: u64,
    /// What fills their pages, page by page, without those of zeros: that of most bytes first.
    pub contents: Vec<ContentRow>,
}

/// Pages that are filled alike.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ContentRow {
    /// With what.
    pub content: BlockContent,
    /// The same in words: the byte or word that fills them, what their pointers lead into.
    pub filled_with: String,
    /// Their bytes.
    pub bytes: u64,
}

/// Blocks of one size with alike content. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BlockClusterRow {
    /// Size of each block.
    pub size: u64,
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Of those, held by the core.
    pub in_core: u64,
    /// What nearly all of their written pages hold.
    pub content: BlockContent,
    /// The byte that fills these pages, as `0x14`.
    pub fill: Option<String>,
    /// Of their written pages, the share that is text, in percent; `null` where one byte or word fills them.
    pub text_percent: Option<u64>,
    /// Of their written pages, the share that is pointers, in percent; `null` where one byte or word fills them.
    pub pointer_percent: Option<u64>,
    /// Start of the first of them.
    pub example: Addr,
    /// How the blocks are told apart.
    pub borders: BlockBorders,
    /// Who points at their starts, those first that point at most blocks.
    pub owners: Vec<OwnerRow>,
    /// Best guess of the owner, in words.
    pub owner: Option<String>,
    /// Always a guess: heuristic; `null` where there is none.
    pub confidence: Option<Confidence>,
    /// Bytes of them in pages that are not all zero.
    pub written: u64,
    /// The word of 8 bytes that fills these pages over and over, as `0x102030405060708`.
    pub word: Option<String>,
    /// What they hold in words, as `pointers (into malloc)`; `null` where the core has none of it.
    pub filled_with: Option<String>,
    /// What their pointers lead into: `malloc`, a module's name; `null` where they are none or lead into several.
    pub into: Option<String>,
    /// Of their written pages, the share that holds that, in percent; `null` where they hold several things.
    pub content_percent: Option<u64>,
}

/// Words of one sort that point at the blocks of a cluster.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OwnerRow {
    /// What the words are of, as in `refs`.
    pub from: PointerSource,
    /// Type of the objects they are in.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Field of these objects.
    pub field: Option<Name>,
    /// Module, where they are in one.
    pub module: Option<String>,
    /// Blocks that are pointed at.
    pub blocks: u64,
    /// Objects that they are in.
    pub objects: u64,
    /// The first of these words.
    pub example: Option<Addr>,
    /// The object that it is in.
    pub object: Option<Addr>,
    /// What keeps that object, the root first.
    pub root: Option<String>,
}
