//! Threads as CPython knows them: thread states (PyThreadState) of all interpreters, and what they do.
//!
//! | file | does |
//! |---|---|
//! | `list` | thread states, and which thread of the system each is |
//! | `names` | what the module threading knows of them |
//! | `gil` | the global lock |
//! | `waits` | what they do, by their frames and system calls |
//! | `describe` | all that, told |

mod describe;
mod gil;
mod list;
mod names;
mod waits;

pub(in crate::cpython) use list::Threads;
