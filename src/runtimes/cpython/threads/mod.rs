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

pub(in crate::runtimes::cpython) use list::Threads;

use crate::addr::Addr;
use crate::runtimes::cpython::CPython;

impl CPython<'_> {
    /// Objects whose values are told of threads.
    pub(in crate::runtimes::cpython) fn told_of_threads(&self) -> Vec<Addr> {
        let (runtime, objects) = (self.runtime(), self.runtime().objects());
        runtime.interpreters.iter().flat_map(|at| names::told(runtime, &objects, *at)).collect()
    }
}
