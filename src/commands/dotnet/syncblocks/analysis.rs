use crate::analysis::heap_notes::warn_in_gc;
use crate::commands::dotnet::syncblocks::report::{LockThreadRow, SyncBlockRow, SyncBlocksReport};
use crate::commands::dotnet::{coreclr_by_id, unread};
use crate::phase::Phase;
use crate::runtimes::api::ObjectNames;
use crate::runtimes::coreclr::sync_blocks::{self, LockThread};
use crate::session::Session;

/// Lists the sync blocks, with owners and waiters of their locks.
pub fn syncblocks(session: &Session<'_>) -> SyncBlocksReport {
    let mut report = SyncBlocksReport::default();
    let thread = |t: &LockThread| LockThreadRow { address: t.address, tid: t.os_id, managed_id: t.managed_id };
    let mut read = Vec::new();
    for (id, runtime) in coreclr_by_id(session) {
        let (blocks, notes) = sync_blocks::read(session.process, runtime.runtime());
        runtime.warn("sync blocks", &notes);
        if notes.is_empty() || !blocks.is_empty() {
            read.push(id);
        }
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, runtime.object_heap_or_empty());
        let mut names = ObjectNames::new(runtime.object_heap_or_empty());
        report.blocks.extend(blocks.iter().map(|b| SyncBlockRow {
            index: b.index,
            address: b.address,
            object: b.object,
            name: names.object(b.object).map(|(name, _)| name),
            held: b.held,
            owner: b.owner.as_ref().map(thread),
            recursion: b.recursion,
            waiting: b.waiting,
            pulse: b.pulse.iter().map(thread).collect(),
        }));
    }
    report.unread = unread(session, &read);
    report
}
