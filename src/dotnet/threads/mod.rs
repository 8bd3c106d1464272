//! The runtime's side of the process's threads: its list of them, the explicit
//! Frames on their stacks, their managed objects, and the locks they hold.

mod frames;
mod list;
mod objects;
mod stack_refs;
pub mod sync_blocks;

pub use frames::{ExplicitFrame, FrameClasses, ProtectedRef};
pub(super) use list::ThreadList;
pub use list::{AllocContext, ManagedThread, ThreadsError, threads};
pub use objects::ThrownException;
pub use stack_refs::{StackRef, StackRefs, Stretch};
