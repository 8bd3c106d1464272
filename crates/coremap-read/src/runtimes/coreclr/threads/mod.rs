//! Managed threads: the runtime's thread list, explicit Frames on stacks, references on stacks, sync blocks, locks and
//! thread roles.

mod frame_registers;
mod frames;
mod list;
mod objects;
mod references;
mod requests;
mod roles;
mod stack_refs;
pub mod sync_blocks;
mod table;
mod task_waits;
mod wait_facts;
mod waits;

pub(crate) use frames::FrameClasses;
pub(super) use list::ThreadList;
pub use list::{ManagedThread, threads};
pub(super) use references::stack_refs;
pub(super) use requests::Serving;
pub(super) use roles::{role, state};
pub use stack_refs::StackRefs;
pub(crate) use stack_refs::{ConservativeRange, StackRef};
pub(crate) use table::ThreadEntry;
pub(super) use table::ThreadTable;
pub(super) use task_waits::{Places, short};
pub(super) use waits::{Locks, row_of};
