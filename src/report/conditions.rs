use schemars::JsonSchema;
use serde::Serialize;

/// What a condition of `--fail-if` came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConditionRow {
    /// As given.
    pub condition: String,
    /// Whether it holds: then the exit status is 1.
    pub holds: bool,
    /// The figure it is about: bytes, or a number in the columns of counts.
    pub value: i64,
    /// What a percentage is of; `null` where the condition gives a figure.
    pub whole: Option<u64>,
    /// In words.
    pub text: String,
}
