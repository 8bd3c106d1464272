//! The commands that only .NET has. Of all commands these alone know the structures of a runtime; the others
//! ask [`crate::managed`], and a test of the source looks that it stays so.

pub mod async_chains;
pub mod exceptions;
pub mod finalizers;
pub(in crate::commands) mod findings;
pub mod handles;
pub mod heap;
pub mod syncblocks;

use crate::session::Session;

/// Find the roots in stacks: what that reads, GC info of the frames' methods too, is what a smaller core needs for them.
pub(in crate::commands) fn read_stack_roots(session: &Session<'_>) {
    for (number, runtime) in session.coreclr().iter().enumerate() {
        let walker = session.walker(session.known_stacks());
        drop(runtime.stack_refs(number, &mut |tid| session.walk_tid(&walker, tid)));
    }
}
