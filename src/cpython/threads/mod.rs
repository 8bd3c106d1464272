//! Threads as CPython knows them: thread states (PyThreadState) of all interpreters, and what they do.
//!
//! | file | does |
//! |---|---|
//! | `list` | thread states, and which thread of the system each is |

mod list;

pub(in crate::cpython) use list::{PyThread, Threads};
