use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{CodeKind, InlinedRow, TextFormat};

/// `symbolicate`: the addresses in a text, with their names.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SymbolicateReport {
    /// Detected format of the text.
    pub format: TextFormat,
    /// Number of lines.
    pub lines: u64,
    /// Number of addresses.
    pub addresses: u64,
    /// Number of addresses that got a name.
    pub named: u64,
    /// Number of distinct addresses beyond those listed.
    pub unlisted: u64,
    /// Each distinct address (and file, if the text names one).
    pub frames: Vec<TextFrameRow>,
    /// Blocks that memleak's `-a` lists as not freed, each once.
    pub blocks: Vec<TextBlockRow>,
}

/// A memory block in the text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TextBlockRow {
    /// Start address.
    pub address: Addr,
    /// Size in bytes, as in the text.
    pub size: Option<u64>,
    /// Owner of the block, if a runtime has one.
    pub owner: Option<String>,
}

/// An address in the text.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TextFrameRow {
    /// As printed in the text; with some tools an offset into a file.
    pub address: Addr,
    /// File that the text names with it.
    pub dso: Option<String>,
    /// Address in the process.
    pub resolved: Option<Addr>,
    /// Name.
    pub symbol: Option<String>,
    /// Kind of code.
    pub kind: CodeKind,
    /// Module.
    pub module: Option<String>,
    /// Number of occurrences in the text.
    pub count: u64,
    /// Line, where methods were inlined.
    pub line: Option<u32>,
    /// Methods inlined there, innermost first. `symbol` is the method that contains the code.
    pub inlined: Vec<InlinedRow>,
    /// Why it has no name, in a sentence.
    pub note: Option<&'static str>,
}
