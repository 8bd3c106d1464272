//! CoreCLR, read without .NET's data-access library.
//!
//! Finds CoreCLR in the process, chooses a layout that fits it, and claims the memory that its structures describe.
//!
//! Terms are from the runtime (dotnet/runtime, docs/design/datacontracts and src/coreclr). docs/dotnet.md describes how
//! each structure is found.

mod anatomy;
mod claim;
mod code;
mod core_clr;
mod elements;
mod fields;
mod gc;
pub mod heap;
mod holders;
mod last_words;
mod loader;
pub mod locks;
mod methods;
mod naming;
mod object;
mod pending;
mod runtime;
pub mod tasks;
mod threads;
mod timers;
mod types;

pub use crate::runtimes::api::{Handle, Segment};
pub use crate::words::Generation;
pub use claim::Heaps;
pub use core_clr::CoreClr;
pub use loader::{AllocatorHeaps, Collectible, HeapBlock};
pub use methods::{AwaitVar, CodeAt, FrameSlots, FrameState, Method, Methods, VarValue};
pub use object::string_text;
pub use runtime::{Detection, Runtime, detect};
pub use threads::{ManagedThread, StackRefs, sync_blocks, threads};
pub use types::{FieldDesc, FieldStorage, Scope, Shape, Struct, TypeHandle, TypeSystem};
