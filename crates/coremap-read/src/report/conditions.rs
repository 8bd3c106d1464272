use schemars::JsonSchema;
use serde::Serialize;

/// Result of a `--fail-if` condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConditionRow {
    /// The condition as given.
    pub condition: String,
    /// True if the condition is met; the exit status is then 1.
    pub holds: bool,
    /// The measured value: bytes, or a number in count columns.
    pub value: i64,
    /// Denominator of a percentage. `null` if the condition compares with a figure.
    pub whole: Option<u64>,
    /// The result as a sentence.
    pub text: String,
}
