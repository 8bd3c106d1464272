//! Holders of malloc blocks: rows that `holders`, `whatis`, `refs` and `leaks` share.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::report::NativeRootKind;

/// A root that leads to malloc blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NativeRootRow {
    /// Kind. `null` for other memory, such as a mapping without a known owner.
    pub kind: Option<NativeRootKind>,
    /// File name of the module, if it is a variable of one.
    pub module: Option<String>,
    /// Offset of the variable from the start of the module.
    pub offset: Option<Addr>,
    /// Name of the variable. `null` if no symbol has its address.
    pub symbol: Option<String>,
    /// Thread of the stack, of the register or of the thread-local variable.
    pub thread: Option<u32>,
    /// Function of the frame that has the variable.
    pub function: Option<String>,
    /// All of this in words.
    pub name: String,
}

/// Blocks of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NativeTypeRow {
    /// Class, or a description of the blocks.
    #[serde(rename = "type")]
    pub name: String,
    /// Number of blocks.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
}

/// malloc blocks that one root holds, or that nothing leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NativeHeldRow {
    /// Bytes of the chunks.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of elements of the structure, or of lost groups. `null` if unknown.
    pub elements: Option<u64>,
    /// The container or the links between the blocks, in words. `null` if none is proven.
    pub structure: Option<String>,
    /// Classes of the blocks; without any, the elements.
    pub element_types: Vec<NativeTypeRow>,
    /// The root that holds them. `null` if no single root does, and if they are lost.
    pub holder: Option<NativeRootRow>,
    /// A root that leads to them, among others, if no single one holds them.
    pub reached_from: Option<String>,
    /// Number of threads that have this variable.
    pub threads: u64,
    /// Whether no word in memory leads to them.
    pub lost: bool,
    /// Why lost blocks may be in use all the same. `null` if there is no sign of it.
    pub doubt: Option<String>,
    /// Blocks between the holder and the elements.
    pub path: Vec<String>,
    /// The first eight characters of texts in them.
    pub texts: Vec<String>,
    /// One of the blocks. `null` if no block is typical.
    pub example: Option<Addr>,
    /// Confidence in the holder.
    pub confidence: Confidence,
}

impl NativeHeldRow {
    /// The holder in words.
    pub fn held_by(&self) -> String {
        match (&self.holder, &self.reached_from, self.lost) {
            (Some(holder), ..) if self.threads > 1 => {
                format!("{}, and the same in {} more threads", holder.name, self.threads - 1)
            }
            (Some(holder), ..) => holder.name.clone(),
            (None, _, true) => match &self.doubt {
                Some(doubt) => format!("no pointer in memory leads to them, but {doubt}"),
                None => "nothing: no pointer in memory leads to them".to_owned(),
            },
            (None, Some(from), false) => format!("no single root; {from} leads to them, among others"),
            (None, None, false) => "no single root".to_owned(),
        }
    }
}

/// The type of a malloc block, and what holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlockOwnerRow {
    /// Class, by the block's virtual table or the type that a library recorded. `null` if not proven.
    #[serde(rename = "type")]
    pub class: Option<String>,
    /// The container that the block belongs to. `null` if none is proven.
    pub container: Option<String>,
    /// The root that holds it. `null` if no single root does, and if it is lost.
    pub holder: Option<NativeRootRow>,
    /// Blocks between the holder and this one.
    pub path: Vec<String>,
    /// Bytes of this block and of the blocks that only it leads to.
    pub retained: u64,
    /// Whether no word in memory leads to it, directly or through other blocks.
    pub lost: bool,
    /// Confidence in the holder: heuristic if only words lead there that may be numbers.
    pub confidence: Confidence,
}

impl BlockOwnerRow {
    /// The facts as one line: `HttpSession in a std::map with 60,000 elements, held by g_sessions`.
    pub fn line(&self) -> String {
        let mut parts: Vec<String> = self.class.iter().cloned().collect();
        if let Some(container) = &self.container {
            parts.push(format!("in a {container}"));
        }
        let who = match (&self.holder, self.lost) {
            (Some(holder), _) => format!("held by {}", holder.name),
            (None, true) => "no pointer in memory leads to it".to_owned(),
            (None, false) => "no single holder".to_owned(),
        };
        let what = parts.join(" ");
        if what.is_empty() { who } else { format!("{what}, {who}") }
    }
}
