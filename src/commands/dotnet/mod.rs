//! Commands that only .NET has. No other command knows the structures of a runtime: they use [`crate::runtimes::api`].
//! `tests/all/source_rules.rs` checks this.

pub mod async_chains;
pub mod exceptions;
pub mod finalizers;
pub(in crate::commands) mod findings;
pub mod handles;
pub mod heap;
pub mod syncblocks;

use crate::runtimes::Offer;
use crate::runtimes::api::{ClrGc, ManagedRuntime};
use crate::runtimes::coreclr::CoreClr;
use crate::session::Session;

/// The CoreCLR runtimes of the process.
fn coreclr<'s, 'p>(session: &'s Session<'p>) -> impl Iterator<Item = &'s CoreClr<'p>> {
    session.found(Offer::CoreClr).filter_map(|(_, found)| found.coreclr())
}

/// The runtimes that use the GC of .NET.
fn clr_gcs<'s>(session: &'s Session<'_>) -> impl Iterator<Item = (&'s dyn ManagedRuntime, &'s dyn ClrGc)> {
    session.found(Offer::ClrGc).filter_map(|(_, found)| {
        let runtime: &dyn ManagedRuntime = found.runtime();
        Some((runtime, runtime.clr_gc()?))
    })
}

/// Finds the roots on stacks, so that a smaller core includes what that reads, such as the GC info of methods.
pub(in crate::commands) fn read_stack_roots(session: &Session<'_>) {
    for (id, runtime) in session.found(Offer::CoreClr).filter_map(|(id, found)| Some((id, found.coreclr()?))) {
        let walker = session.walker(session.known_stacks());
        drop(runtime.stack_refs(id, &mut |tid| session.walk_tid(&walker, tid)));
    }
}
