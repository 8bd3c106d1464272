use schemars::JsonSchema;
use serde::Serialize;

/// A method that was inlined into its caller.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct InlinedRow {
    /// Name of the method.
    pub method: String,
    /// Offset in its bytecode.
    pub il_offset: Option<i64>,
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
}

impl InlinedRow {
    /// The method and its line as a prefix of its caller: `Lab.inner(int):32 <- `.
    pub fn before_caller(&self) -> String {
        format!("{}{} <- ", self.method, self.line.map(|line| format!(":{line}")).unwrap_or_default())
    }
}
