//! Findings about .NET: thrown exceptions, due finalizers, pending async methods, timers, pinned objects, collectible
//! assemblies and diagnostics sessions.

mod collectible;
mod events;
mod out_of_memory;
mod pinned;

pub(in crate::commands) use collectible::{Kept, collectible_objects, loader_objects, unloading_loaders};
pub(in crate::commands) use events::events;
pub(in crate::commands) use out_of_memory::{caught, out_of_memory};
pub(in crate::commands) use pinned::pinned_objects;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::Addr;
use crate::causes::DueObjects;
use crate::commands::dotnet::async_chains::{AsyncChainRow, async_chains};
use crate::commands::dotnet::coreclr;
use crate::commands::dotnet::exceptions::{ExceptionRow, exceptions};
use crate::commands::dotnet::finalizers::finalizers;
use crate::progress::Progress;
use crate::report::{FinalizerState, Finding, Severity, TypeRow};
use crate::runtimes::api::Tally;
use crate::runtimes::clr_gc::is_library;
use crate::session::Session;
use crate::shell::{quoted, whole_name};
use crate::units::exact;

/// Minimum number of each to be reported.
const EXCEPTIONS: usize = 16;
const FINALIZERS: u64 = 256;
const CHAINS: u64 = 1000;
const TIMERS: u64 = 1000;

/// Minimum number of calls of one method that wait for peers, and parts of the types that such a wait ends at.
const CALLS: u64 = 10;
const SOCKET: [&str; 2] = ["SocketAsyncEventArgs", "System.Net.Sockets."];

/// Type of the object of each active timer (System.Private.CoreLib).
const TIMER: &str = "System.Threading.TimerQueueTimer";

/// Findings that need only the sums by type. `size` is that of all objects. `dead`: how many objects of each type, by
/// MethodTable, nothing references any more; `None` if that is unknown.
pub(in crate::commands) fn of_types(
    session: &Session<'_>,
    types: &[TypeRow],
    size: u64,
    dead: Option<&HashMap<Addr, Tally>>,
) -> Vec<Finding> {
    if coreclr(session).next().is_none() {
        return Vec::new();
    }
    let timers = types.iter().find(|t| &*t.name == TIMER);
    let timer =
        timers.and_then(|t| timers_of(t, dead.map(|dead| dead.get(&t.method_table).copied().unwrap_or_default())));
    timer.into_iter().chain(pinned::large(types, size)).chain(pinned::pinned(session, types)).collect()
}

/// Reports many timers. `dead`: those that nothing references any more.
fn timers_of(row: &TypeRow, dead: Option<Tally>) -> Option<Finding> {
    let gone = dead.unwrap_or_default();
    let (objects, bytes) = (row.count.saturating_sub(gone.count), row.size.saturating_sub(gone.size));
    if objects < TIMERS {
        return None;
    }
    let checked = if dead.is_some() { "live objects" } else { "objects, also unreachable ones," };
    let text = match dead {
        Some(_) => format!("{} timers are active or were not disposed.", exact(objects)),
        None => format!("{} timers are active, were not disposed, or are not collected yet.", exact(objects)),
    };
    let finding = Finding::new("timers", Severity::Info, text, format!("{checked} of type {TIMER}"));
    let more = format!("gcroot --type {}", quoted(&whole_name(TIMER)));
    Some(finding.about(bytes).more(more).within("managed-heap"))
}

/// Exceptions on the heap that were thrown.
pub(in crate::commands) fn thrown(session: &Session<'_>) -> Vec<ExceptionRow> {
    if coreclr(session).next().is_none() {
        return Vec::new();
    }
    exceptions(session).exceptions.into_iter().filter(|e| e.thrown == Some(true)).collect()
}

/// Objects whose finalizers are due, if they are many.
pub(in crate::commands) fn due(session: &Session<'_>) -> Option<DueObjects> {
    let report = finalizers(session);
    let ready = report.types.iter().filter(|row| row.state == FinalizerState::Ready);
    let types = ready.map(|row| (row.name.shown().to_string(), row.count)).collect();
    (report.ready >= FINALIZERS).then_some(DueObjects { count: report.ready, types })
}

/// Findings that need lists of objects. They read the heap. `reached`: the [`loader_objects`] that roots are known to
/// reach. `thrown`: exceptions that were thrown. `due`: see [`due`].
pub(in crate::commands) fn of_session(
    session: &Session<'_>,
    reached: &HashSet<Addr>,
    thrown: &[ExceptionRow],
    due: Option<&DueObjects>,
    kept: &Kept<'_>,
    progress: &Progress,
) -> Vec<Finding> {
    if coreclr(session).next().is_none() {
        return Vec::new();
    }
    let mut out = Vec::new();
    if let Some(due) = due {
        let text = format!(
            "{} objects wait for their finalizer: the finalizer thread is behind or blocked.",
            exact(due.count)
        );
        out.push(
            Finding::new("finalizer-queue", Severity::Info, text, "finalization queue of the garbage collector")
                .more("finalizers"),
        );
    }
    if thrown.len() >= EXCEPTIONS {
        let mut types: BTreeMap<String, u64> = BTreeMap::new();
        thrown.iter().for_each(|e| *types.entry(e.name.to_string()).or_default() += 1);
        let most = types.iter().max_by_key(|(_, count)| **count);
        let most = most.map_or_else(String::new, |(name, count)| format!(", {} of them {name}", exact(*count)));
        let text = format!("{} thrown exceptions are on the heap{most}.", exact(thrown.len() as u64));
        out.push(Finding::new("exceptions", Severity::Info, text, "objects with a stack trace").more("exceptions"));
    }
    out.extend(collectible::collectible(session, reached, kept));
    let chains = async_chains(session, true, progress);
    if chains.total >= CHAINS {
        let most = chains.chains.first();
        let most = most.map_or_else(String::new, |c| format!("; {} of them wait for {}", exact(c.count), c.awaiting));
        let text = format!("{} chains of async methods are pending{most}.", exact(chains.total));
        out.push(Finding::new("async-chains", Severity::Info, text, "state machines on the heap").more("async"));
    } else if let Some(text) = chains.chains.iter().find_map(of_peers) {
        out.push(Finding::new("async-chains", Severity::Info, text, "state machines on the heap").more("async"));
    }
    out
}

/// A sentence on calls of one method of the program that wait for a peer. Waits for locks have findings of their own.
fn of_peers(chain: &AsyncChainRow) -> Option<String> {
    let first = chain.frames.first().filter(|_| chain.count >= CALLS)?.r#type.to_string();
    if !SOCKET.iter().any(|part| first.contains(part)) {
        return None;
    }
    let at = chain.frames.iter().position(|frame| frame.method.as_deref().is_some_and(|name| !is_library(name)))?;
    let title = |at: usize| chain.frames.get(at).and_then(|frame| frame.method.as_deref()).map(without_parameters);
    let own = title(at)?;
    let by = at.checked_sub(1).and_then(title).map_or_else(String::new, |by| format!(" in {by}"));
    Some(format!("{} calls of {own} wait for {}{by}.", exact(chain.count), chain.awaiting))
}

/// A method's name without its parameters.
fn without_parameters(name: &str) -> &str {
    name.find('(').filter(|at| *at > 0).and_then(|at| name.get(..at)).unwrap_or(name)
}
