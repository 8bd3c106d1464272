use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// `exceptions`: exception objects on the heap.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionsReport {
    /// Exceptions, by address.
    pub exceptions: Vec<ExceptionRow>,
    /// Number of exceptions not listed.
    pub more: u64,
    /// Runtimes of the process whose exceptions are not read. They are missing from the list.
    pub unread: Vec<String>,
}

/// An exception.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionRow {
    /// Address.
    pub object: Addr,
    /// Type.
    #[serde(rename = "type")]
    pub name: Name,
    /// Message, if it has its own.
    pub message: Option<String>,
    /// HRESULT.
    pub hresult: Option<String>,
    /// Inner exception.
    pub inner: Option<Addr>,
    /// Whether it has a stack trace, and so was thrown.
    pub thrown: Option<bool>,
    /// Generation, as the runtime names it.
    pub generation: &'static str,
}
