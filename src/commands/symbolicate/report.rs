use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{CodeKind, InlinedRow, TextFormat};

/// `symbolicate`: the addresses of a text, and what they are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SymbolicateReport {
    /// What the text was taken for.
    pub format: TextFormat,
    /// Its lines.
    pub lines: u64,
    /// Addresses in it.
    pub addresses: u64,
    /// How many of these were given a name.
    pub named: u64,
    /// Distinct addresses beyond those listed.
    pub unlisted: u64,
    /// Each distinct address (and file, where the text names one).
    pub frames: Vec<TextFrameRow>,
    /// Blocks that memleak's `-a` lists as not freed, each once.
    pub blocks: Vec<TextBlockRow>,
}

/// A block of memory of the text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TextBlockRow {
    /// Where it begins.
    pub address: Addr,
    /// Its bytes, as the text has them.
    pub size: Option<u64>,
    /// Who owns it, where a runtime tells that.
    pub owner: Option<String>,
}

/// One address of the text.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TextFrameRow {
    /// As printed in the text; an offset into a file, with some tools.
    pub address: Addr,
    /// The file that the text names with it.
    pub dso: Option<String>,
    /// The address in the process.
    pub resolved: Option<Addr>,
    /// Its name.
    pub symbol: Option<String>,
    /// What kind of code it is.
    pub kind: CodeKind,
    /// Its module.
    pub module: Option<String>,
    /// How often it is in the text.
    pub count: u64,
    /// Its line, where methods were inlined.
    pub line: Option<u32>,
    /// Methods that were inlined there, the innermost first; `symbol` is the method whose code it is.
    pub inlined: Vec<InlinedRow>,
    /// What stood in the way, in a sentence.
    pub note: Option<&'static str>,
}
