//! Commands that only .NET has. No other command knows the structures of a runtime: they use [`crate::runtimes::api`].
//! `tests/all/source_rules.rs` checks this.

pub mod async_chains;
pub mod exceptions;
pub mod finalizers;
pub(in crate::commands) mod findings;
pub mod handles;
pub mod heap;
pub mod syncblocks;

use crate::render::Document;
use crate::runtimes::Offer;
use crate::runtimes::api::{ClrGc, ManagedRuntime, RuntimeId};
use crate::runtimes::coreclr::CoreClr;
use crate::session::Session;

/// The runtimes of the process that are not in `read`, by name. Their objects are missing from a command's list, so an
/// empty list does not prove that there are none.
fn unread(session: &Session<'_>, read: &[RuntimeId]) -> Vec<String> {
    let others = session.runtimes_by_id().into_iter().filter(|(id, _)| !read.contains(id));
    others.map(|(_, runtime)| runtime.label()).collect()
}

/// The line that replaces an empty list of `what`, a plural noun. `unread`: runtimes that the command does not read.
/// `elsewhere`: which command reads them.
fn empty_line(what: &str, unread: &[String], elsewhere: &str) -> String {
    match unread {
        [] => format!("no {what}"),
        unread => format!("{what} of {} are not read{elsewhere}", unread.join(" and ")),
    }
}

/// The line that replaces an empty list of `what`, which is found by following structures: if some of them are missing,
/// an empty list proves nothing.
pub(in crate::commands) fn none_found(what: &str, unread: &[String]) -> String {
    if unread.is_empty() { format!("no {what} were found") } else { empty_line(what, unread, "") }
}

/// Adds a line after a list of `what`, if runtimes are missing from it.
pub(in crate::commands) fn add_unread(doc: &mut Document<'_>, what: &str, unread: &[String]) {
    if !unread.is_empty() {
        doc.line(empty_line(what, unread, ""));
    }
}

/// The CoreCLR runtimes of the process.
fn coreclr<'s, 'p>(session: &'s Session<'p>) -> impl Iterator<Item = &'s CoreClr<'p>> {
    coreclr_by_id(session).map(|(_, runtime)| runtime)
}

/// The CoreCLR runtimes of the process, with their IDs.
fn coreclr_by_id<'s, 'p>(session: &'s Session<'p>) -> impl Iterator<Item = (RuntimeId, &'s CoreClr<'p>)> {
    session.found(Offer::CoreClr).filter_map(|(id, found)| Some((id, found.coreclr()?)))
}

/// The runtimes that use the GC of .NET.
fn clr_gcs<'s>(session: &'s Session<'_>) -> impl Iterator<Item = (RuntimeId, &'s dyn ManagedRuntime, &'s dyn ClrGc)> {
    session.found(Offer::ClrGc).filter_map(|(id, found)| {
        let runtime: &dyn ManagedRuntime = found.runtime();
        Some((id, runtime, runtime.clr_gc()?))
    })
}

/// Finds the roots on stacks, so that a smaller core includes what that reads, such as the GC info of methods.
pub(in crate::commands) fn read_stack_roots(session: &Session<'_>) {
    for (id, runtime) in coreclr_by_id(session) {
        let walker = session.walker(session.known_stacks());
        drop(runtime.stack_refs(id, &mut |tid| session.walk_tid(&walker, tid)));
    }
}
