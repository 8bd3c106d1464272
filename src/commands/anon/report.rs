use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::{BlockBorders, BlockContent, Name, PointerSource};

/// `anon`: anonymous memory with no known owner.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AnonReport {
    /// Equal blocks, by total bytes.
    pub clusters: Vec<BlockClusterRow>,
    /// Number of clusters not listed.
    pub more: u64,
    /// Number of regions.
    pub regions: u64,
    /// Total size in bytes.
    pub size: u64,
    /// Bytes in the core.
    pub in_core: u64,
    /// Bytes of memory searched for pointers to them.
    pub scanned: u64,
    /// Contents of their pages without zero pages, by bytes.
    pub contents: Vec<ContentRow>,
}

/// Pages of one content.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ContentRow {
    /// Kind of content.
    pub content: BlockContent,
    /// The content in words: the byte or word that fills the pages, or the target of their pointers.
    pub filled_with: String,
    /// Bytes of these pages.
    pub bytes: u64,
}

/// Blocks of one size and content. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct BlockClusterRow {
    /// Size of a block.
    pub size: u64,
    /// Number of blocks.
    pub count: u64,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// Bytes of them in the core.
    pub in_core: u64,
    /// Content of nearly all of their written pages.
    pub content: BlockContent,
    /// Byte that fills these pages, such as `0x14`.
    pub fill: Option<String>,
    /// Share of text in their written pages, in percent. `null` if one byte or word fills them.
    pub text_percent: Option<u64>,
    /// Share of pointers in their written pages, in percent. `null` if one byte or word fills them.
    pub pointer_percent: Option<u64>,
    /// Start of the first block.
    pub example: Addr,
    /// How the blocks were delimited.
    pub borders: BlockBorders,
    /// Pointers to their starts by source, by number of blocks.
    pub owners: Vec<OwnerRow>,
    /// Most likely owner, in words.
    pub owner: Option<String>,
    /// Confidence in the owner: always heuristic. `null` if there is none.
    pub confidence: Option<Confidence>,
    /// Bytes in pages that are not all zero.
    pub written: u64,
    /// The 8-byte word that fills these pages, such as `0x102030405060708`.
    pub word: Option<String>,
    /// Their content in words, such as `pointers (into malloc)`. `null` if the core has none of it.
    pub filled_with: Option<String>,
    /// Target of their pointers: `malloc` or the name of a module. `null` if they are not pointers or point to several
    /// targets.
    pub into: Option<String>,
    /// Share of that content in their written pages, in percent. `null` if the content is mixed.
    pub content_percent: Option<u64>,
}

/// Words of one source that point at the blocks of a cluster.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OwnerRow {
    /// Source of the words, as in `refs`.
    pub from: PointerSource,
    /// Type of the objects that contain them.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Field of these objects.
    pub field: Option<Name>,
    /// Module that contains them.
    pub module: Option<String>,
    /// Number of blocks that they point at.
    pub blocks: u64,
    /// Number of objects that contain them.
    pub objects: u64,
    /// Address of the first word.
    pub example: Option<Addr>,
    /// Object that contains it.
    pub object: Option<Addr>,
    /// Path from a root to that object.
    pub root: Option<String>,
}
