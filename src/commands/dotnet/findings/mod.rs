//! Findings about .NET: thrown exceptions, due finalizers, pending async methods, timers, pinned objects, collectible
//! assemblies and diagnostics sessions.

mod collectible;
mod events;
mod pinned;

pub(in crate::commands) use events::events;

use std::collections::BTreeMap;

use crate::commands::dotnet::async_chains::async_chains;
use crate::commands::dotnet::coreclr;
use crate::commands::dotnet::exceptions::exceptions;
use crate::commands::dotnet::finalizers::finalizers;
use crate::progress::Progress;
use crate::report::{Finding, Severity, TypeRow};
use crate::session::Session;
use crate::units::exact;

/// Minimum number of each to be reported.
const EXCEPTIONS: usize = 16;
const FINALIZERS: u64 = 256;
const CHAINS: u64 = 1000;
const TIMERS: u64 = 1000;

/// Type of the object of each active timer (System.Private.CoreLib).
const TIMER: &str = "System.Threading.TimerQueueTimer";

/// Findings that need only the sums by type. `size` is that of all objects.
pub(in crate::commands) fn of_types(session: &Session<'_>, types: &[TypeRow], size: u64) -> Vec<Finding> {
    if coreclr(session).next().is_none() {
        return Vec::new();
    }
    let timers = types.iter().find(|t| &*t.name == TIMER && t.count >= TIMERS);
    let timer = timers.map(|t| {
        let text = format!("{} timers are active or were not disposed.", exact(t.count));
        let finding = Finding::new("timers", Severity::Warning, text, format!("objects of type {TIMER}"));
        finding.about(t.size).more(format!("gcroot --type {TIMER}")).within("managed-heap")
    });
    timer.into_iter().chain(pinned::large(types, size)).chain(pinned::pinned(session, types)).collect()
}

/// Findings that need lists of objects. They read the heap, so there are none without `all`.
pub(in crate::commands) fn of_session(session: &Session<'_>, all: bool, progress: &Progress) -> Vec<Finding> {
    if coreclr(session).next().is_none() || !all {
        return Vec::new();
    }
    let mut out = Vec::new();
    let finalizers = finalizers(session);
    if finalizers.ready >= FINALIZERS {
        let text = format!(
            "{} objects wait for their finalizer: the finalizer thread is behind or blocked.",
            exact(finalizers.ready)
        );
        out.push(
            Finding::new("finalizer-queue", Severity::Warning, text, "finalization queue of the garbage collector")
                .more("finalizers"),
        );
    }
    let thrown: Vec<_> = exceptions(session).exceptions.into_iter().filter(|e| e.thrown == Some(true)).collect();
    if thrown.len() >= EXCEPTIONS {
        let mut types: BTreeMap<String, u64> = BTreeMap::new();
        thrown.iter().for_each(|e| *types.entry(e.name.to_string()).or_default() += 1);
        let most = types.iter().max_by_key(|(_, count)| **count);
        let most = most.map_or_else(String::new, |(name, count)| format!(", {} of them {name}", exact(*count)));
        let text = format!("{} thrown exceptions are on the heap{most}.", exact(thrown.len() as u64));
        out.push(Finding::new("exceptions", Severity::Info, text, "objects with a stack trace").more("exceptions"));
    }
    out.extend(collectible::collectible(session));
    let chains = async_chains(session, true, progress);
    if chains.total >= CHAINS {
        let most = chains.chains.first();
        let most = most.map_or_else(String::new, |c| format!("; {} of them wait for {}", exact(c.count), c.awaiting));
        let text = format!("{} chains of async methods are pending{most}.", exact(chains.total));
        out.push(Finding::new("async-chains", Severity::Warning, text, "state machines on the heap").more("async"));
    }
    out
}
