//! CPython's threads: the thread states (PyThreadState) of all interpreters, and what the threads do.
//!
//! | file | contents |
//! |---|---|
//! | `list` | thread states, and the system thread of each |
//! | `names` | names and flags from the module `threading` |
//! | `gil` | the GIL |
//! | `waits` | what threads wait for, by their frames and system calls |
//! | `describe` | the columns of a thread in reports |
//! | `callee` | the function in C that a thread is in |

mod callee;
mod describe;
mod executors;
mod gil;
mod holds;
mod list;
mod names;
mod wait_facts;
mod waits;

pub(in crate::runtimes::cpython) use holds::held_by_frame;
pub(in crate::runtimes::cpython) use list::Threads;
pub(in crate::runtimes::cpython) use waits::first_argument;

use crate::addr::Addr;
use crate::runtimes::cpython::CPython;

impl CPython<'_> {
    /// Objects whose values reports show for threads. `scrub` keeps them.
    pub(in crate::runtimes::cpython) fn shown_thread_objects(&self) -> Vec<Addr> {
        let (runtime, objects) = (self.runtime(), self.runtime().objects());
        runtime.interpreters.iter().flat_map(|at| names::shown_objects(runtime, &objects, *at)).collect()
    }
}
