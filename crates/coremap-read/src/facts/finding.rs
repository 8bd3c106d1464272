//! Findings.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::map::Confidence;
use crate::words::words;

words! {
    /// Severity of a finding.
    #[derive(Default)]
    pub enum Severity {
        /// Information.
        #[default]
        Info = "info",
        /// Likely part of the problem.
        Warning = "warning",
        /// The process cannot continue, or the core is incomplete.
        Critical = "critical",
    }
}

/// A finding: a sentence with its evidence.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Finding {
    /// Stable id.
    pub id: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Bytes that the finding is about. `null` if it has no size or the size is unknown.
    pub bytes: Option<u64>,
    /// Share of all written bytes, from 0 to 1. In a `summary` that reads no pages but has resident figures: share of all
    /// resident bytes. `null` if neither total is available.
    pub share: Option<f64>,
    /// Confidence in the finding. `null` if it only counts.
    pub confidence: Option<Confidence>,
    /// The finding as a sentence.
    pub text: String,
    /// The evidence for it.
    pub evidence: String,
    /// The command that shows more, ready to paste.
    pub command: Option<String>,
    /// Id of the finding that also counts these bytes. `null` if no other finding counts them.
    pub within: Option<&'static str>,
    /// Stable identity without addresses: id, then type, method or holder. Equal in two cores of one program.
    pub fingerprint: Option<String>,
    /// An object whose holder belongs into the sentence.
    #[serde(skip)]
    pub held: Option<HeldObject>,
    /// Name of that holder.
    #[serde(skip)]
    pub holder: Option<String>,
}

/// An object that a finding is about, and the sentence that names its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldObject {
    /// The object.
    pub object: Addr,
    /// The sentence after the name of the holder: ` has what settles them.`
    pub sentence: &'static str,
}

impl Finding {
    /// Returns a finding without a size.
    pub fn new(id: &'static str, severity: Severity, text: impl Into<String>, evidence: impl Into<String>) -> Finding {
        Finding { id, severity, text: text.into(), evidence: evidence.into(), ..Finding::default() }
    }

    /// Sets the size in bytes.
    #[must_use]
    pub fn about(self, bytes: u64) -> Finding {
        Finding { bytes: Some(bytes), ..self }
    }

    /// Sets the confidence.
    #[must_use]
    pub fn known(self, confidence: Confidence) -> Finding {
        Finding { confidence: Some(confidence), ..self }
    }

    /// Marks the finding as part of the finding with this id.
    #[must_use]
    pub fn within(self, id: &'static str) -> Finding {
        Finding { within: Some(id), ..self }
    }

    /// Sets the stable identity: what distinguishes this finding from others of its id.
    #[must_use]
    pub fn fingerprinted(self, what: impl AsRef<str>) -> Finding {
        Finding { fingerprint: Some(format!("{}: {}", self.id, what.as_ref())), ..self }
    }

    /// Has the name of an object's holder added, before `sentence`.
    #[must_use]
    pub fn held(self, object: Addr, sentence: &'static str) -> Finding {
        Finding { held: Some(HeldObject { object, sentence }), ..self }
    }

    /// Sets the command that shows more, without the path of the core.
    #[must_use]
    pub fn more(self, command: impl Into<String>) -> Finding {
        Finding { command: Some(command.into()), ..self }
    }
}
