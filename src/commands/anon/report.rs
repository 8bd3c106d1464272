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
    /// What they hold.
    pub content: BlockContent,
    /// The byte that fills the blocks, as `0x14`.
    pub fill: Option<String>,
    /// Of the pages looked at, the share of bytes that are text, in percent.
    pub text_percent: Option<u64>,
    /// Of the pages looked at, the share of words that lead into mapped memory, in percent.
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
