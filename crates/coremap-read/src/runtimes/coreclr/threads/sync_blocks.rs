//! Sync blocks: owners of locks and threads that wait for them.
//!
//! An uncontended lock is stored in the object's header and needs no sync block. Source: src/coreclr/vm/syncblk.h:
//! SyncTableEntry, SyncBlockCache, SyncBlock, AwareLock::LockState (locked bit, number of waiters from bit 6 on),
//! WaitEventLink. From .NET 11 on a block has no lock of its own but a System.Threading.Lock, which `locks` reads.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::layout::{StructView, ViewError};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Walks};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::coreclr::runtime::{GlobalsError, Runtime};
use crate::runtimes::coreclr::threads::threads;

const LOCKED: u32 = 1;
const WAITER_SHIFT: u32 = 6;

/// Bit of an entry's object that marks the entry as free.
const FREE: u64 = 1;

/// Mask of the index in a sync block's own index field.
const INDEX: u32 = 0x00ff_ffff;

/// A thread in relation to a lock, as far as it could be identified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockThread {
    /// Address of its Thread.
    pub address: Option<Addr>,
    /// Thread id of the system.
    pub os_id: Option<u32>,
    /// Managed thread id.
    pub managed_id: Option<u32>,
}

/// A sync block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncBlock {
    /// Index in the sync table.
    pub index: u32,
    /// Address of the SyncBlock. `None` if the entry has none.
    pub address: Option<Addr>,
    /// The object that it belongs to.
    pub object: Addr,
    /// Whether the lock is held.
    pub held: bool,
    /// Thread that holds the lock.
    pub owner: Option<LockThread>,
    /// Recursion count of the lock.
    pub recursion: u32,
    /// Number of threads waiting for the lock.
    pub waiting: u32,
    /// Threads waiting for a pulse (Monitor.Wait).
    pub pulse: Vec<LockThread>,
    /// The System.Threading.Lock that has owner and waiters from .NET 11 on. `None` if there is none yet.
    pub lock: Option<Addr>,
    /// Word of a header's lock that moved here (.NET 11 on).
    pub thin: u32,
}

/// Reads all sync blocks in use. Returns them with messages about what could not be read.
pub fn read(process: &Process, runtime: &Runtime) -> (Vec<SyncBlock>, Vec<String>) {
    let _phase = process.enter(Phase::Locks);
    let mut out = Vec::new();
    let note = blocks(process, runtime, &mut out).err().map(|e| e.to_string());
    (out, note.into_iter().collect())
}

/// Reasons why some sync blocks are missing.
#[derive(Debug, thiserror::Error)]
enum SyncBlocksError {
    /// A global variable of the runtime can't be read.
    #[error(transparent)]
    Global(#[from] GlobalsError),
    /// A structure of the runtime can't be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The number of sync blocks exceeds the limit.
    #[error("implausible number of sync blocks: {count}")]
    TooMany { count: u32 },
    /// An entry of the table can't be read. The entries after it are missing too.
    #[error("entry {index} of {count} is not in the core")]
    Entry { index: u32, count: u32 },
    /// Some sync blocks, or some lists of their waiters, can't be read.
    #[error("{}", incomplete(*broken, lists.as_ref()))]
    Incomplete { broken: u32, lists: Option<BrokenLists> },
}

fn incomplete(broken: u32, lists: Option<&BrokenLists>) -> String {
    let blocks = (broken > 0).then(|| format!("{broken} sync blocks are invalid or not in the core"));
    let both: Vec<String> = blocks.into_iter().chain(lists.map(ToString::to_string)).collect();
    both.join("; ")
}

/// The lists of waiting threads that can't be read to their end.
#[derive(Debug, thiserror::Error)]
#[error("{count} lists of waiting threads can't be read to their end (first: the list of sync block {index} {why})")]
struct BrokenLists {
    count: u32,
    /// Index of the first sync block with such a list.
    index: u32,
    why: Broken<ViewError>,
}

fn blocks(process: &Process, runtime: &Runtime, out: &mut Vec<SyncBlock>) -> Result<(), SyncBlocksError> {
    let memory: &dyn Memory = &process.memory;
    let layout = &runtime.layout;
    let pointer = |name| runtime.globals.pointer(memory, layout, name);
    let cache = StructView::new(memory, layout, "SyncBlockCache", pointer("SyncBlockCache")?);
    let table = pointer("SyncTableEntries")?;
    let next = cache.u32("FreeSyncTableIndex")?;
    if next > limits::MAX_SYNC_BLOCKS {
        return Err(SyncBlocksError::TooMany { count: next });
    }
    let size = layout.size("SyncTableEntry").map_err(ViewError::from)?;
    let threads = threads(process, runtime).map(|(all, _)| all).unwrap_or_default();
    // If two threads have the same id, the first is used.
    let (mut by_address, mut by_id) = (HashMap::new(), HashMap::new());
    for t in threads {
        let os_id = t.os_id.filter(|&id| id != 0);
        let named = LockThread { address: Some(t.address), os_id, managed_id: t.managed_id };
        by_address.entry(t.address).or_insert(named);
        by_id.entry(t.managed_id).or_insert(named);
    }
    let at_address =
        |at: Addr| by_address.get(&at).copied().unwrap_or(LockThread { address: Some(at), ..LockThread::default() });
    let mut broken = 0_u32;
    // Shared by all lists, since each link is in only one.
    let walks = Walks::new(Phase::Locks, limits::MAX_WAITERS);
    let mut lists: Option<BrokenLists> = None;
    for index in 1..next {
        let entry = StructView::new(memory, layout, "SyncTableEntry", table.saturating_add(size * u64::from(index)));
        let (Ok(object), Ok(at)) = (entry.u64("Object"), entry.ptr("SyncBlock")) else {
            return Err(SyncBlocksError::Entry { index, count: next });
        };
        if object & FREE != 0 || object == 0 {
            continue;
        }
        let mut block = SyncBlock {
            index,
            address: (!at.is_null()).then_some(at),
            object: Addr::new(object),
            held: false,
            owner: None,
            recursion: 0,
            waiting: 0,
            pulse: Vec::new(),
            lock: None,
            thin: 0,
        };
        if !at.is_null() {
            let view = StructView::new(memory, layout, "SyncBlock", at);
            // A valid block contains its own index.
            if view.u32("SyncIndex").map(|i| i & INDEX) != Ok(index & INDEX) {
                broken += 1;
                continue;
            }
            if view.has("ThinLock") {
                let lock = view.ptr("Lock").map(|handle| (!handle.is_null()).then(|| memory.ptr(handle).ok()));
                match (lock, view.u32("ThinLock")) {
                    (Ok(None), Ok(thin)) => block.thin = thin,
                    (Ok(Some(Some(lock))), Ok(_)) => block.lock = (!lock.is_null()).then_some(lock),
                    _ => {
                        broken += 1;
                        continue;
                    }
                }
                out.push(block);
                continue;
            }
            // If the lock state is not in the core, the lock is not reported as free.
            let (Ok(state), Ok(recursion)) = (view.u32("LockState"), view.u32("Recursion")) else {
                broken += 1;
                continue;
            };
            block.held = state & LOCKED != 0;
            block.waiting = state >> WAITER_SHIFT;
            block.recursion = recursion;
            if block.held {
                block.owner = if view.has("HoldingThread") {
                    view.ptr("HoldingThread").ok().map(at_address)
                } else {
                    let id = view.u32("HoldingThreadId").ok();
                    Some(by_id.get(&id).copied().unwrap_or(LockThread { managed_id: id, ..LockThread::default() }))
                };
            }
            let (pulse, ended) = waiters(memory, runtime, &view, &walks);
            block.pulse = pulse.into_iter().map(at_address).collect();
            if let Some(why) = ended {
                lists.get_or_insert(BrokenLists { count: 0, index, why }).count += 1;
            }
        }
        out.push(block);
    }
    if broken == 0 && lists.is_none() { Ok(()) } else { Err(SyncBlocksError::Incomplete { broken, lists }) }
}

/// Threads in a block's list of WaitEventLinks, and the error that ended it early.
fn waiters(
    memory: &dyn Memory,
    runtime: &Runtime,
    block: &StructView<'_>,
    walks: &Walks,
) -> (Vec<Addr>, Option<Broken<ViewError>>) {
    let layout = &runtime.layout;
    let mut out = Vec::new();
    let (Ok(to_link), Ok(first)) = (layout.positive("WaitEventLink", "LinkSB"), block.ptr("Link")) else {
        return (out, None);
    };
    let end = walks.begin().follow(first, |link| {
        let event = StructView::new(memory, layout, "WaitEventLink", link.saturating_sub(to_link));
        out.push(event.ptr("Thread")?);
        memory.ptr(link).map_err(ViewError::fault("WaitEventLink", "LinkSB"))
    });
    (out, end.err())
}
