use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::native_waits::native_waits;
use crate::bytes::printable;
use crate::commands::dotnet::syncblocks::report::{LockRow, LockThreadRow, SyncBlockRow, SyncBlocksReport};
use crate::commands::dotnet::{coreclr_by_id, unread};
use crate::diag::WarningCode;
use crate::map::Confidence;
use crate::native::locks::NativeWait;
use crate::phase::Phase;
use crate::report::Name;
use crate::runtimes::api::{ListedLock, LockList, LockParty, ManagedRuntime as _, ObjectNames};
use crate::runtimes::coreclr::locks::Lock;
use crate::runtimes::coreclr::sync_blocks::LockThread;
use crate::runtimes::coreclr::{CoreClr, threads};
use crate::session::Session;
use crate::words::{LockKind, OwnerState, WaitKind};

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
            object: Some(l.object),
            address: Some(l.object),
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
    for (id, runtime) in session.runtimes_by_id() {
        let Some(locks) = runtime.lock_list().and_then(LockList::listed_locks) else { continue };
        let Some(heap) = runtime.heap() else { continue };
        read.push(id);
        let _phase = session.process.enter(Phase::References);
        warn_in_gc(session.process, runtime, heap);
        let mut names = ObjectNames::new(heap);
        report.locks.extend(locks.iter().map(|lock| listed(&mut names, lock)));
    }
    report.locks.extend(native(session));
    report.unread = unread(session, &read);
    report
}

/// A lock that a runtime lists.
fn listed(names: &mut ObjectNames<'_>, lock: &ListedLock) -> LockRow {
    let thread = |party: &LockParty| LockThreadRow {
        address: party.address,
        tid: party.tid,
        managed_id: party.managed_id,
        name: party.name.as_deref().map(|name| printable(name).into_owned()),
    };
    LockRow {
        kind: lock.kind,
        object: Some(lock.object),
        address: Some(lock.object),
        name: names.object(lock.object).map(|(name, _)| name),
        owner: lock.owner.as_ref().map(thread),
        owner_ended: false,
        times: lock.times,
        waiters: lock.waiters.iter().map(thread).collect(),
        unknown_waiters: 0,
        readers: Vec::new(),
        async_waiters: lock.async_waiters,
        confidence: lock.confidence,
    }
}

/// Names that managed code gave to the threads, by the address of the Thread.
fn thread_names(session: &Session<'_>, runtime: &CoreClr<'_>) -> HashMap<Addr, String> {
    let (list, _) = threads(session.process, runtime.runtime()).unwrap_or_default();
    let types = runtime.types();
    let named = list.iter().filter_map(|t| Some((t.address, printable(&types.thread_name(t)?).into_owned())));
    named.filter(|(_, name)| !name.is_empty()).collect()
}

/// Native locks that threads wait for, those with most waiters first.
fn native(session: &Session<'_>) -> Vec<LockRow> {
    let waits = native_waits(session);
    let has_runtime = !session.runtimes().is_empty();
    let mut locks: BTreeMap<(LockKind, Addr), Vec<&NativeWait>> = BTreeMap::new();
    for wait in waits.values() {
        let kind = match wait.kind {
            WaitKind::Mutex => LockKind::Mutex,
            WaitKind::ReaderWriter => LockKind::ReaderWriter,
            // Threads of a runtime wait for its work in the runtime's own condition variables.
            WaitKind::Condition if !has_runtime => LockKind::Condition,
            WaitKind::Semaphore if !has_runtime => LockKind::Semaphore,
            _ => continue,
        };
        locks.entry((kind, wait.address)).or_default().push(wait);
    }
    let thread = |tid: u32| LockThreadRow { tid: Some(tid), ..LockThreadRow::default() };
    let row = |((kind, address), waiters): (&(LockKind, Addr), &Vec<&NativeWait>)| {
        let first = waiters.first()?;
        let exact = first.owners.iter().find(|owner| owner.confidence == Confidence::Exact);
        let likely = first.owners.first().filter(|_| *kind == LockKind::Mutex);
        let owner = exact.or(likely);
        let readers = first.owners.iter().filter(|_| exact.is_none() && *kind == LockKind::ReaderWriter);
        Some(LockRow {
            kind: *kind,
            object: None,
            address: Some(*address),
            name: first.object.map(Name::from),
            owner: owner.map(|owner| thread(owner.tid)),
            owner_ended: exact.is_some_and(|owner| owner.state == OwnerState::Ended),
            times: u32::from(owner.is_some()),
            waiters: waiters.iter().map(|wait| thread(wait.tid)).collect(),
            unknown_waiters: 0,
            readers: readers.map(|owner| thread(owner.tid)).collect(),
            async_waiters: 0,
            confidence: owner.map_or(first.confidence, |owner| owner.confidence.min(first.confidence)),
        })
    };
    let mut out: Vec<LockRow> = locks.iter().filter_map(row).collect();
    out.sort_by_key(|lock| std::cmp::Reverse(lock.waiters.len()));
    out
}
