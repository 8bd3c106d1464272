//! CPython, the Python interpreter of python.org: its objects, its allocator, its threads and frames.
//!
//! CPython has no tables of itself as HotSpot has, and before 3.13 says nothing of its own layout. What is known
//! of a version stands in `layout/tables/cpython-3.N-x64.json`; which version it is is proven by what leads back
//! to itself and by `sys.hexversion`, never believed. Builds without the global lock (free-threaded), and other
//! interpreters, are recognised and not read.
//!
//! Terms are those of CPython's own sources (Include/, Objects/, Python/). docs/python.md tells what is read, from
//! where, and how sure it is.

mod anatomy;
mod buffers;
mod c_python;
mod claim;
mod findings;
mod frames;
pub mod heap;
mod object;
pub mod objects;
pub mod obmalloc;
mod roots;
pub mod runtime;
mod shape;
mod structure;
mod tasks;
mod threads;

pub use c_python::CPython;
