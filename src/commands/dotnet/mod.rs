//! The commands that only .NET has. Of all commands these alone know the structures of a runtime; the others
//! ask [`crate::managed`], and a test of the source looks that it stays so.

pub mod async_chains;
pub mod exceptions;
pub mod finalizers;
pub mod handles;
pub mod heap;
pub mod syncblocks;
