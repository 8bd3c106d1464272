//! The runtime's side of the process's threads: its list of them, the explicit
//! Frames on their stacks, their managed objects, and the locks they hold.

mod frame_registers;
mod frames;
mod known;
mod list;
mod objects;
mod references;
mod roles;
mod stack_refs;
pub mod sync_blocks;
mod waits;

pub(crate) use frames::FrameClasses;
pub(super) use known::Known;
pub(crate) use known::KnownThread;
pub(super) use list::ThreadList;
pub use list::{ManagedThread, threads};
pub(super) use references::stack_refs;
pub(super) use roles::{role, state};
pub use stack_refs::StackRefs;
pub(crate) use stack_refs::{StackRef, Stretch};
pub(super) use waits::Locks;
