use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// `exceptions`: exception objects on the heap.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionsReport {
    /// By address.
    pub exceptions: Vec<ExceptionRow>,
    /// How many more there are.
    pub more: u64,
}

/// An exception.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionRow {
    /// The object.
    pub object: Addr,
    /// Its type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Its message, where it has one of its own.
    pub message: Option<String>,
    /// Its HRESULT.
    pub hresult: Option<String>,
    /// The exception within it.
    pub inner: Option<Addr>,
    /// Whether it has a stack trace, as those do that were thrown.
    pub thrown: Option<bool>,
    /// Generation that it is in, in the runtime's own words.
    pub generation: &'static str,
}
