//! Pending tasks, and the async methods that wait for them.
//!
//! A waiting async method is an object: a box with a state machine that has its locals. The box is a task, or the
//! source of a ValueTask. What it waits for has the box as its continuation. So boxes form chains, from the awaited
//! operation to the outermost caller, as a stack does for calls.
//!
//! Methods of runtime async (.NET 11 on) have no box but a chain of continuations, which belongs to one task.
//!
//! Sources: System.Private.CoreLib (3.1 to 11): Task (m_stateFlags, m_continuationObject), TaskContinuation.cs,
//! AsyncTaskMethodBuilderT.cs (AsyncStateMachineBox), PoolingAsyncValueTaskMethodBuilderT.cs (StateMachineBox),
//! ManualResetValueTaskSourceCore. Names of state machine fields come from the C# and Visual Basic compilers (Roslyn,
//! GeneratedNames).

mod chains;
mod ends;
mod find;
mod links;
mod methods;
mod pool;
mod runners;
mod shapes;
mod suspended;

pub use chains::Chain;

pub(super) use ends::{FoundEnd, TaskContext};
pub use find::HttpObjects;
pub(super) use find::{AsyncObjects, TaskCollector};
pub use links::{Awaits, End, Node, Tasks};
pub use methods::AsyncMethods;
pub(super) use pool::{Pool, core_static_address};
pub(super) use shapes::machine_of;
pub(super) use suspended::innermost_of;
