//! What a reader should notice.

use schemars::JsonSchema;
use serde::Serialize;

use crate::map::Confidence;
use crate::words::words;

words! {
    /// How much a finding matters.
    #[derive(Default)]
    pub enum Severity {
        /// Worth knowing.
        #[default]
        Info = "info",
        /// Likely part of the problem.
        Warning = "warning",
        /// The process can't go on, or the core tells less than it should.
        Critical = "critical",
    }
}

/// Something a reader should notice.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Finding {
    /// Stable name.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// Bytes of memory that it is about; `null` where it is about none, or their number is not known.
    pub bytes: Option<u64>,
    /// What of all that was written it has, from 0 to 1; of all that was resident in a `summary` that looks at no pages and
    /// knows what was; `null` where neither is known.
    pub share: Option<f64>,
    /// How sure it is; `null` where it only counts.
    pub confidence: Option<Confidence>,
    /// In words.
    pub text: String,
    /// What it rests on.
    pub evidence: String,
    /// The command that shows more, ready to be typed.
    pub command: Option<String>,
    /// The id of the finding whose bytes these are a part of; `null` where no other counts them.
    pub within: Option<&'static str>,
}

impl Finding {
    /// A finding that is about no bytes so far.
    pub fn new(id: &'static str, severity: Severity, text: impl Into<String>, evidence: impl Into<String>) -> Finding {
        Finding { id, severity, text: text.into(), evidence: evidence.into(), ..Finding::default() }
    }

    /// The same about so many bytes.
    #[must_use]
    pub fn about(self, bytes: u64) -> Finding {
        Finding { bytes: Some(bytes), ..self }
    }

    /// The same with what sort of knowledge it is.
    #[must_use]
    pub fn known(self, confidence: Confidence) -> Finding {
        Finding { confidence: Some(confidence), ..self }
    }

    /// The same as a part of another.
    #[must_use]
    pub fn within(self, id: &'static str) -> Finding {
        Finding { within: Some(id), ..self }
    }

    /// The same with the command that shows more, without its core.
    #[must_use]
    pub fn more(self, command: impl Into<String>) -> Finding {
        Finding { command: Some(command.into()), ..self }
    }
}
