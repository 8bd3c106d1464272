//! Causes: what an expert would name first, from facts that runtimes read.
//!
//! Facts come from runtimes, through the capabilities of [`runtimes::api`](crate::runtimes::api) and the graph. The
//! reasoning here serves all of them: one wait graph, one way to name a holder, one ranking. No rule names a runtime.
//!
//! | file | contents |
//! |---|---|
//! | `ranking` | families of findings in their order, with reasons; the severity rule; the final order |
//! | `wait_graph` | parties, edges, what can never go on, roots of other waits |
//! | `parties`, `wait_rows` | threads as parties: own code, activity, waits |
//! | `deadlocks`, `blocked`, `requests` | findings from the wait graph |
//! | `frames` | frames as findings name them |
//! | `unowned` | waits for what nobody is known to own |
//! | `alike` | very many light threads that wait at one position |
//! | `finalizers` | a finalizer that does not go on |
//! | `running` | threads that run, and users of collections |
//! | `holders` | who holds memory, what it consists of, and names of objects by the program's own fields |
//! | `mechanisms` | timers, listeners and suspended calls, with the holder of the same bytes |
//! | `native_holders` | malloc's memory with its holder, and what nobody holds |
//! | `native_owner`, `native_lost` | native memory that managed objects point at; blocks that nothing points at |
//! | `sizing` | managed heaps that are mostly free |
//! | `last_words`, `native_words` | how the process ended |
//! | `native_threads` | native threads that wait for themselves, and pools of them |
//! | `native` | waits and activities of threads without a managed runtime |
//! | `joins` | findings with one cause become one |
//! | `verdict` | whether nothing is wrong, or what was not judged |
//!
//! To add a rule, copy `blocked` for waits or `holders` for memory, give its finding a row in `ranking` and in
//! `report/finding_ids.rs`, and a test on hand-made facts.

mod alike;
mod blocked;
mod deadlocks;
mod finalizers;
mod frames;
pub(crate) mod holders;
mod joins;
pub(crate) mod last_words;
pub(crate) mod mechanisms;
pub(crate) mod native;
pub(crate) mod native_holders;
pub(crate) mod native_lost;
pub(crate) mod native_owner;
pub(crate) mod native_threads;
mod native_words;
mod parties;
pub(crate) mod ranking;
mod requests;
mod running;
pub(crate) mod sizing;
mod unowned;
pub(crate) mod verdict;
pub(crate) mod wait_graph;
mod wait_rows;

pub(crate) use joins::join;
pub(crate) use parties::{DueObjects, Scene};

use crate::causes::holders::Users;
use crate::report::Finding;
use crate::runtimes::api::WaitFacts;

/// Adds users to findings. A finding on a collection gets the users that are stuck. A finding on a thread-local
/// variable gets the threads that have a value. `facts`: the runtime with these collections.
pub(crate) fn add_users(
    scene: &Scene,
    findings: &mut [Finding],
    users: &[(usize, Users)],
    facts: Option<&dyn WaitFacts>,
) {
    for (index, users) in users {
        if let Some(finding) = findings.get_mut(*index) {
            running::add_threads(scene, finding, &users.locals);
            let tasks = facts.map(|facts| facts.users(&users.objects)).unwrap_or_default();
            running::add_users(scene, finding, &users.tids, tasks);
        }
    }
}

/// Findings about threads that wait, most important first.
pub(crate) fn waits(scene: &Scene) -> Vec<Finding> {
    let graph = scene.graph();
    let mut out = deadlocks::findings(scene, &graph);
    out.extend(blocked::findings(scene, &graph));
    out
}
