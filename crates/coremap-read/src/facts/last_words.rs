//! How a process ended.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::words::{BlockRole, FaultCause, LastWordsKind};

/// How a process ended, in its own words where it left some.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LastWordsRow {
    /// How it ended.
    pub kind: LastWordsKind,
    /// What the process wrote to stderr as it ended, or the text of its exception. `null` if there is none, or if it is
    /// hidden without `--show-data`.
    pub text: Option<String>,
    /// Whether `text` is not proven to have been written to stderr. Then it is shown only with `--show-data`.
    pub private: bool,
    /// Type of the exception. `null` if there is none, or if its name is not in the core.
    pub r#type: Option<String>,
    /// Base classes of the exception, nearest first.
    pub bases: Vec<String>,
    /// Thread that ended the process.
    pub tid: Option<u32>,
    /// Name of that thread in the message, if the message has one.
    pub thread_name: Option<String>,
    /// Fault address; for an exception the object, for a message the text.
    pub address: Option<Addr>,
    /// Name of the signal.
    pub signal: Option<String>,
    /// For a signal that another process sent: its process id. 0 if it is outside of the PID namespace.
    pub sender: Option<u32>,
    /// What the fault's address is.
    pub cause: Option<FaultCause>,
    /// Memory operand of the instruction that faulted. If its code cannot be read, the register whose value fits the fault
    /// best; `confidence` is then derived.
    pub operand: Option<OperandRow>,
    /// Malloc blocks that are involved.
    pub blocks: Vec<InvolvedBlockRow>,
    /// Source position that the process printed: file, line, column.
    pub position: Option<String>,
    /// The evidence for it.
    pub how: String,
    /// Confidence in `kind` and `text`.
    pub confidence: Confidence,
}

impl LastWordsRow {
    /// The row without its text, if that is private and `show_data` is false.
    #[must_use]
    pub fn shown(self, show_data: bool) -> LastWordsRow {
        let text = self.text.filter(|_| show_data || !self.private);
        LastWordsRow { text, ..self }
    }
}

/// A memory operand.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct OperandRow {
    /// Base register.
    pub register: String,
    /// Its value.
    pub value: Addr,
    /// Bytes added to it.
    pub displacement: i64,
    /// The value as text, if all of its bytes are: at most eight characters.
    pub text: Option<String>,
}

/// A malloc block that is involved in the end of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InvolvedBlockRow {
    /// How it is related.
    pub role: BlockRole,
    /// Address that malloc returned.
    pub address: Addr,
    /// Usable bytes. `null` if the size is destroyed.
    pub size: Option<u64>,
    /// Whether it is in use. `null` if that is not known.
    pub used: Option<bool>,
    /// Text of its first bytes, or of its destroyed size field: at most eight characters.
    pub text: Option<String>,
    /// Bytes of text past its end that continue a text within it. Text of the next block is included if it follows
    /// directly. `null` if there is no such text.
    pub overrun: Option<u64>,
    /// Confidence in the role.
    pub confidence: Confidence,
}
