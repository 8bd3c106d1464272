//! The commands that only .NET has. Of all commands these alone know the structures of a runtime; the others
//! ask [`crate::runtimes::api`], and a test of the source looks that it stays so.

pub mod async_chains;
pub mod exceptions;
pub mod finalizers;
pub(in crate::commands) mod findings;
pub mod handles;
pub mod heap;
pub mod syncblocks;

use crate::runtimes::Found;
use crate::runtimes::api::{ClrGc, ManagedRuntime};
use crate::runtimes::coreclr::CoreClr;
use crate::session::Session;

/// CoreCLR, for what only it has.
fn coreclr<'s, 'p>(session: &'s Session<'p>) -> impl Iterator<Item = &'s CoreClr<'p>> {
    session.found().iter().filter_map(Found::coreclr)
}

/// Runtimes with the collector of .NET.
fn clr_gcs<'s>(session: &'s Session<'_>) -> impl Iterator<Item = (&'s dyn ManagedRuntime, &'s dyn ClrGc)> {
    session.runtimes().into_iter().filter_map(|runtime| Some((runtime as &dyn ManagedRuntime, runtime.clr_gc()?)))
}

/// Find the roots in stacks: what that reads, GC info of the frames' methods too, is what a smaller core needs for them.
pub(in crate::commands) fn read_stack_roots(session: &Session<'_>) {
    for (id, runtime) in session.found_by_id().filter_map(|(id, found)| Some((id, found.coreclr()?))) {
        let walker = session.walker(session.known_stacks());
        drop(runtime.stack_refs(id, &mut |tid| session.walk_tid(&walker, tid)));
    }
}
