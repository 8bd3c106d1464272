use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{AsyncEnd, AsyncPart, Name};

/// `async`: async methods that wait, and who waits for them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncReport {
    /// Chains of them; equal ones merged, those of most first.
    pub chains: Vec<AsyncChainRow>,
    /// Chains in all, with those that are equal.
    pub total: u64,
    /// Async methods that have begun and are not done.
    pub methods: u64,
    /// Of those, the ones that could go on: what they wait for is done.
    pub ready: u64,
    /// Whether a runtime has types without names here, so that its tasks could not be told.
    pub nameless: bool,
    /// Runtimes whose async methods are not read: that none is listed says nothing of them.
    pub unread: Vec<String>,
}

/// A chain of tasks and async methods.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncChainRow {
    /// How many there are.
    pub count: u64,
    /// The last object of each, as far as they are listed (64).
    pub objects: Vec<Addr>,
    /// Names that the program gave to these objects, where it did; empty for one without.
    ///
    /// As many as objects, or none.
    pub names: Vec<String>,
    /// Different objects that are waited for at their beginning.
    pub roots: u64,
    /// What is waited for first, in words.
    pub awaiting: String,
    /// The parts of one of them: what is waited for first, then what waits for it.
    pub frames: Vec<AsyncFrameRow>,
    /// What waits for the last.
    pub end: AsyncEnd,
    /// The object that does, where there is one.
    pub end_object: Option<Addr>,
    /// What it is: the method of a callback, the type of another.
    pub end_name: Option<String>,
}

/// A part of a chain.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncFrameRow {
    /// The object: the box of an async method, a task, or what else is awaited.
    pub object: Addr,
    /// What it is.
    pub kind: AsyncPart,
    /// The object's type; of an async method that of its state machine.
    pub r#type: Name,
    /// The async method, or that of a task's delegate.
    pub method: Option<String>,
    /// File name of its module.
    pub module: Option<String>,
    /// Source file of the async method, where its runtime tells.
    pub file: Option<Name>,
    /// Line of what it awaits.
    pub line: Option<u32>,
    /// MethodDef token, where an attribute names the state machine.
    pub token: Option<String>,
    /// Where it stands: number of the await, -1 where it runs or has not begun.
    pub state: Option<i32>,
    /// What it awaits, in words, where it is no part of the chain.
    pub awaiting: Option<String>,
}
