//! What only .NET has: handles, finalizers, sync blocks, loader heaps, async methods.

mod async_chains;
mod handles;
mod heap;
mod lists;

pub use async_chains::async_chains;
pub use handles::handles;
pub use heap::heap;
pub use lists::{exceptions, finalizers, syncblocks};
