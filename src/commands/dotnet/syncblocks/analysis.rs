use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::bytes::printable;
use crate::commands::dotnet::syncblocks::report::{LockRow, LockThreadRow, SyncBlockRow, SyncBlocksReport};
use crate::commands::dotnet::{coreclr_by_id, unread};
use crate::diag::WarningCode;
use crate::phase::Phase;
use crate::runtimes::api::{ManagedRuntime as _, ObjectNames};
use crate::runtimes::coreclr::locks::Lock;
use crate::runtimes::coreclr::sync_blocks::LockThread;
use crate::runtimes::coreclr::{CoreClr, threads};
use crate::session::Session;
use crate::words::LockKind;

/// Lists the sync blocks, and all locks with their owners and waiters.
pub fn syncblocks(session: &Session<'_>) -> SyncBlocksReport {
    let mut report = SyncBlocksReport::default();
    let mut read = Vec::new();
    for (id, runtime) in coreclr_by_id(session) {
        let table = runtime.lock_table();
        let (blocks, notes) = (&table.blocks, &table.block_notes);
        runtime.warn("sync blocks", notes);
        // What is missing is in the warnings.
        read.push(id);
        let more = table.notes.iter().filter(|note| !notes.contains(note));
        if runtime.has_managed_locks() {
            runtime.warn("locks", more);
        } else {
            // Contended monitors are complete without the heap.
            more.for_each(|note| {
                session.process.diag.note(WarningCode::HeapWalk, format!("{}: {note}", runtime.label()))
            });
        }
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, runtime.object_heap_or_empty());
        let thread_names = thread_names(session, runtime);
        let thread = |t: &LockThread| LockThreadRow {
            address: t.address,
            tid: t.os_id,
            managed_id: t.managed_id,
            name: t.address.and_then(|at| thread_names.get(&at).cloned()),
        };
        let mut names = ObjectNames::new(runtime.object_heap_or_empty());
        let by_object: HashMap<(Addr, LockKind), &Lock> =
            table.locks.iter().map(|lock| ((lock.object, lock.kind), lock)).collect();
        let own = |object: Addr, kind: LockKind| by_object.get(&(object, kind)).copied();
        report.blocks.extend(blocks.iter().map(|b| {
            let row = SyncBlockRow {
                index: b.index,
                address: b.address,
                object: b.object,
                name: names.object(b.object).map(|(name, _)| name),
                held: b.held,
                owner: b.owner.as_ref().map(thread),
                recursion: b.recursion,
                waiting: b.waiting,
                pulse: b.pulse.iter().map(thread).collect(),
            };
            if b.lock.is_none() && b.thin == 0 {
                return row;
            }
            // From .NET 11 on the lock is an object, or the word of a header.
            let monitor = own(b.object, LockKind::Monitor);
            let in_wait = own(b.object, LockKind::MonitorWait);
            SyncBlockRow {
                held: monitor.is_some_and(|l| l.owner.is_some()),
                owner: monitor.and_then(|l| l.owner.as_ref()).map(thread),
                recursion: monitor.map_or(0, |l| l.times),
                waiting: monitor.map_or(0, |l| u32::try_from(l.waiters.len()).unwrap_or(u32::MAX)),
                pulse: in_wait.map_or_else(Vec::new, |l| l.waiters.iter().map(thread).collect()),
                ..row
            }
        }));
        report.locks.extend(table.locks.iter().map(|l| LockRow {
            kind: l.kind,
            object: l.object,
            name: names.object(l.object).map(|(name, _)| name),
            owner: l.owner.as_ref().map(thread),
            owner_ended: l.owner_ended,
            times: l.times,
            waiters: l.waiters.iter().map(thread).collect(),
            unknown_waiters: l.unknown_waiters,
            readers: l.readers.iter().map(thread).collect(),
            async_waiters: l.async_waiters,
            confidence: l.confidence,
        }));
    }
    report.unread = unread(session, &read);
    report
}

/// Names that managed code gave to the threads, by the address of the Thread.
fn thread_names(session: &Session<'_>, runtime: &CoreClr<'_>) -> HashMap<Addr, String> {
    let (list, _) = threads(session.process, runtime.runtime()).unwrap_or_default();
    let types = runtime.types();
    let named = list.iter().filter_map(|t| Some((t.address, printable(&types.thread_name(t)?).into_owned())));
    named.filter(|(_, name)| !name.is_empty()).collect()
}
