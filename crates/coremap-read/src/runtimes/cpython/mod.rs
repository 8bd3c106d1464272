//! CPython, the Python interpreter of python.org: its objects, allocator, threads, frames and asyncio tasks.
//!
//! CPython has no tables that describe its structures, as HotSpot does. Before 3.13 it does not even describe its own
//! layout. The layout of each version is in `layout/tables/cpython-3.N-x64.json`. The version is never assumed: it is
//! proven by structures that point back to each other, and by `sys.hexversion`. Free-threaded builds (without the
//! global lock) and other Python interpreters are recognised but not read.
//!
//! Terms are those of CPython's sources (Include/, Objects/, Python/). docs/python.md describes what is read, from
//! where, and with what confidence.

mod anatomy;
mod buffers;
mod c_python;
mod claim;
mod findings;
mod frames;
pub mod heap;
mod holders;
mod instances;
mod last_words;
mod object;
pub mod objects;
pub mod obmalloc;
mod roots;
pub mod runtime;
mod shape;
mod structure;
mod tasks;
mod threads;
mod traces;

pub use c_python::CPython;
