use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::{AsyncEnd, AsyncPart, AsyncState, Name};

/// `async`: pending async methods, and what waits for them.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncReport {
    /// Chains of async methods; equal chains are merged, largest groups first.
    pub chains: Vec<AsyncChainRow>,
    /// Number of all chains, including equal ones.
    pub total: u64,
    /// Number of started async methods that have not completed.
    pub methods: u64,
    /// Number of methods that can resume because what they await is done.
    pub ready: u64,
    /// Whether types of a runtime have no names here, so that its tasks cannot be found.
    pub nameless: bool,
    /// Runtimes whose async methods are not read. Their methods are missing from the list.
    pub unread: Vec<String>,
}

/// A chain of tasks and async methods.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncChainRow {
    /// Number of equal chains.
    pub count: u64,
    /// The last object of each chain, at most 64.
    pub objects: Vec<Addr>,
    /// Names that the program gave to these objects; empty for one without a name.
    ///
    /// As many as `objects`, or none.
    pub names: Vec<String>,
    /// Number of different objects that the chains wait for.
    pub roots: u64,
    /// Whether its innermost method waits, is ready to run, or runs.
    pub state: AsyncState,
    /// Thread of a chain that runs. `null` if it is not known.
    pub tid: Option<u32>,
    /// The object that the first chain waits for; for an entry of a queue what has the queue, such as the SemaphoreSlim.
    pub awaited: Option<Addr>,
    /// What the first element waits for, in words.
    pub awaiting: String,
    /// Elements of one chain: what is awaited first, then what waits for it.
    pub frames: Vec<AsyncFrameRow>,
    /// What waits for the last element.
    pub end: AsyncEnd,
    /// The waiting object, if there is one.
    pub end_object: Option<Addr>,
    /// Method of a callback, or type of another object.
    pub end_name: Option<String>,
}

/// An element of a chain.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncFrameRow {
    /// Address: the box or continuation of an async method, a task, or another awaited object.
    pub object: Addr,
    /// Kind of element.
    pub kind: AsyncPart,
    /// Type of the object; for an async method, type of its state machine.
    pub r#type: Name,
    /// The async method, or the method of a task's delegate.
    pub method: Option<String>,
    /// File name of its module.
    pub module: Option<String>,
    /// Source file of the async method, if its runtime has it.
    pub file: Option<Name>,
    /// Line of the await.
    pub line: Option<u32>,
    /// MethodDef token, if an attribute names the state machine.
    pub token: Option<String>,
    /// State: number of the await; -1 if it is running or has not started.
    pub state: Option<i32>,
    /// What it awaits, in words, if that is not an element of the chain.
    pub awaiting: Option<String>,
    /// Variables that a suspended method of runtime async (.NET 11 on) keeps in its continuation; of the first chain.
    pub locals: Vec<AsyncLocalRow>,
}

/// A variable that a suspended method keeps.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AsyncLocalRow {
    /// Name. `null` if it is not known: a local needs the module's PDB.
    pub name: Option<String>,
    /// Type. `null` if the method's signature or IL is not in the core.
    pub r#type: Option<Name>,
    /// From the start of the continuation, in bytes.
    pub offset: u32,
    /// A number, or the address of an object. `null` for a null reference, for a struct, and if it can't be read.
    pub value: Option<AsyncLocalValue>,
}

/// The value of a variable.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AsyncLocalValue {
    /// A signed number.
    Int(i64),
    /// An unsigned number, a Boolean as 0 or 1, a Char as its UTF-16 unit.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// The address of an object.
    Object(Addr),
}
