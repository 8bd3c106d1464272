//! Tasks that are not done, and the async methods that wait for them.
//!
//! An async method that waits lives on as an object: its locals in a state
//! machine, in a box that is a task (or the source of a ValueTask). What it waits
//! for keeps that box as its continuation. So the boxes form chains, from what is
//! waited for out to who awaits it last: what a stack is to a call.
//!
//! System.Private.CoreLib (from 3.1 to 10): Task (m_stateFlags,
//! m_continuationObject), TaskContinuation.cs, AsyncTaskMethodBuilderT.cs
//! (AsyncStateMachineBox), PoolingAsyncValueTaskMethodBuilderT.cs (StateMachineBox),
//! ManualResetValueTaskSourceCore. Names of fields in state machines are those of
//! the C# and Visual Basic compilers (Roslyn, GeneratedNames).

mod chains;
mod find;
mod links;
mod methods;
mod shapes;

pub use chains::Chain;
pub use links::{Awaits, End, Node, Tasks};
pub use methods::AsyncMethods;
