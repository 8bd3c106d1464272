//! Locks that threads wait for, and their owners.
//!
//! A sync block has the owner of its object's lock and the number of waiters, but not which threads wait. A waiting
//! thread is identified by the object on its stack, in the frames of the functions that acquire the lock. Sources:
//! src/coreclr/vm: jithelpers.cpp (JIT_MonEnter), syncblk.cpp (AwareLock::EnterEpilog); System.Private.CoreLib:
//! System.Threading.Monitor, Lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::facts::WaitRow;
use crate::limits;
use crate::map::Confidence;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{FrameKind, Method, StackFrame};
use crate::runtimes::coreclr::locks::ThreadWait;
use crate::runtimes::coreclr::threads::sync_blocks::{self, LockThread, SyncBlock};
use crate::runtimes::coreclr::{CodeAt, ManagedThread, Methods, TypeHandle, TypeSystem, threads};
use crate::words::WaitKind;

/// The Frame of helpers that protect one object, such as those that acquire locks.
const ONE_OBJECT: &str = "HelperMethodFrame_1OBJ";

/// Prefixes of methods that wait for a lock.
const MONITOR: &str = "System.Threading.Monitor.";
const LOCK: &str = "System.Threading.Lock.";
/// Prefix of the methods that Lock calls to wait.
const THREADING: &str = "System.Threading.";

/// Maximum number of managed frames from the wait up to the methods of Lock.
const WAIT_FRAMES: usize = 8;

#[derive(Debug)]
pub(in crate::runtimes::coreclr) struct Locks {
    /// Sync blocks whose lock is held and wanted, by object.
    wanted: HashMap<Addr, SyncBlock>,
    /// Objects of Monitor.Wait, by the address of the waiting Thread.
    pulse: HashMap<Addr, Addr>,
    /// Managed thread ids by system thread id.
    by_tid: HashMap<u32, u32>,
}

impl Locks {
    /// Reads the locks. Returns them with messages about what could not be read.
    pub(in crate::runtimes::coreclr) fn read(process: &Process, types: &TypeSystem<'_>) -> (Locks, Vec<String>) {
        let _phase = process.enter(Phase::Locks);
        let (threads, _) = threads(process, &types.runtime).unwrap_or_default();
        let (blocks, notes) = sync_blocks::read(process, &types.runtime);
        let pulse = blocks.iter().flat_map(|b| b.pulse.iter().filter_map(|t| Some((t.address?, b.object))));
        let pulse = pulse.collect();
        let wanted = blocks.into_iter().filter(|b| b.held && b.waiting > 0).map(|b| (b.object, b)).collect();
        let by_tid = threads.iter().filter_map(|t| Some((t.os_id.filter(|&id| id != 0)?, t.managed_id?))).collect();
        (Locks { wanted, pulse, by_tid }, notes)
    }

    /// Returns what a thread with these frames waits for.
    pub(in crate::runtimes::coreclr) fn wait(
        &self,
        methods: &Methods<'_>,
        thread: &ManagedThread,
        frames: &[StackFrame],
    ) -> Option<WaitRow> {
        let types = &methods.types;
        if let Some(&object) = self.pulse.get(&thread.address) {
            let how = "its Thread is in the object's list of threads waiting for a pulse";
            return Some(row(types, WaitKind::Pulse, object, how, Confidence::Exact));
        }
        let wait = self.by_helper(types, thread, frames);
        let wait = wait.or_else(|| self.by_monitor(methods, thread, frames));
        wait.or_else(|| self.by_lock(types, thread, frames))
    }

    /// Finds the lock by the Frame of the runtime's helper, which protects the object up to .NET 9.
    fn by_helper(&self, types: &TypeSystem<'_>, thread: &ManagedThread, frames: &[StackFrame]) -> Option<WaitRow> {
        // Frames of the runtime's own may be below it (up to 3.1); managed code is above it.
        let object = frames.iter().take_while(|f| matches!(f.kind, FrameKind::Native | FrameKind::Mark(_))).find_map(
            |f| match &f.kind {
                FrameKind::Mark(mark) if mark.class == ONE_OBJECT => {
                    mark.objects.first().and_then(|o| types.memory.ptr(o.address).ok()).filter(|o| !o.is_null())
                }
                _ => None,
            },
        );
        let block = self.wanted_by(thread, object?)?;
        let how = "lock frame on the stack, sync block with waiters";
        // Both are structures of the runtime: the Frame with the object, and the sync block with its owner.
        Some(self.owned_by(types, block, how, Confidence::Exact))
    }

    /// Finds the lock by Monitor's methods. They pass the runtime a pointer to the location that contains the object.
    fn by_monitor(&self, methods: &Methods<'_>, thread: &ManagedThread, frames: &[StackFrame]) -> Option<WaitRow> {
        let types = &methods.types;
        let (first, method) = managed(frames).next()?;
        // Without metadata the method's name is a token.
        let named = match methods.at(method.start) {
            Some(CodeAt::Method(ours)) => ours.module.missing.is_none(),
            _ => true,
        };
        if named && !method.name.starts_with(MONITOR) {
            return None;
        }
        let of_method = words(types, frames, first, first);
        let below = words(types, frames, 0, first);
        let find = |words: &[u64]| {
            let found: BTreeMap<Addr, &SyncBlock> =
                words.iter().filter_map(|&w| Some((Addr::new(w), self.wanted_by(thread, Addr::new(w))?))).collect();
            if found.len() == 1 { found.into_values().next() } else { None }
        };
        match find(&of_method) {
            Some(block) if !named => {
                let how = "it is in the innermost managed frame (which has no name here), and its sync block has \
                           waiters";
                Some(self.owned_by(types, block, how, Confidence::Heuristic))
            }
            None if !named => None,
            Some(block) => {
                let how = "it is in the frame of Monitor's method, and its sync block has waiters";
                Some(self.owned_by(types, block, how, Confidence::Derived))
            }
            None => find(&below).map(|block| {
                let how = "it is on the stack below Monitor's method, and its sync block has waiters";
                self.owned_by(types, block, how, Confidence::Heuristic)
            }),
        }
    }

    /// Finds a System.Threading.Lock in the frames of its methods. These are managed, and wait like any other code.
    fn by_lock(&self, types: &TypeSystem<'_>, thread: &ManagedThread, frames: &[StackFrame]) -> Option<WaitRow> {
        let waits = || managed(frames).take(WAIT_FRAMES).take_while(|(_, m)| m.name.starts_with(THREADING));
        let (first, _) = waits().next()?;
        let (last, _) = waits().filter(|(_, m)| m.name.starts_with(LOCK)).last()?;
        let held = |word: u64| {
            let owner = types.lock_owner(Addr::new(word)).filter(|&id| Some(id) != thread.os_id)?;
            Some((Addr::new(word), owner))
        };
        let candidates: BTreeSet<u64> = words(types, frames, first, last).into_iter().collect();
        let found: Vec<(Addr, u32)> = candidates.into_iter().filter_map(held).collect();
        let [(object, owner)] = *found.as_slice() else { return None };
        let how = "it is in the frames of Lock's methods, and it is held";
        Some(WaitRow {
            owner_tid: Some(owner),
            owner_managed_id: self.by_tid.get(&owner).copied(),
            ..row(types, WaitKind::Lock, object, how, Confidence::Derived)
        })
    }

    /// The sync block of `object`, if `thread` may wait for its lock.
    fn wanted_by(&self, thread: &ManagedThread, object: Addr) -> Option<&SyncBlock> {
        let owner = |b: &SyncBlock| b.owner.as_ref().and_then(|o| o.address);
        self.wanted.get(&object).filter(|b| owner(b) != Some(thread.address))
    }

    fn owned_by(
        &self,
        types: &TypeSystem<'_>,
        block: &SyncBlock,
        how: &'static str,
        confidence: Confidence,
    ) -> WaitRow {
        WaitRow {
            owner_tid: block.owner.as_ref().and_then(|o| o.os_id),
            owner_managed_id: block.owner.as_ref().and_then(|o| o.managed_id),
            ..row(types, WaitKind::Lock, block.object, how, confidence)
        }
    }
}

fn row(types: &TypeSystem<'_>, kind: WaitKind, object: Addr, how: &'static str, confidence: Confidence) -> WaitRow {
    let named = types.type_of(object).filter(|&mt| types.shape(TypeHandle(mt)).is_ok());
    let name = named.map(|mt| printable(&types.display_name(mt)).into_owned());
    WaitRow { kind, object, r#type: name, how, confidence, ..WaitRow::default() }
}

/// Row of what `thread` waits for.
pub(in crate::runtimes::coreclr) fn row_of(
    types: &TypeSystem<'_>,
    wait: &ThreadWait,
    thread: &ManagedThread,
) -> WaitRow {
    let lock = &wait.lock;
    // A thread that upgrades its read lock waits for the other readers.
    let others = |held: &&LockThread| held.address != Some(thread.address);
    let ended_by_owner = matches!(wait.kind, WaitKind::Lock | WaitKind::Join);
    let readers: Vec<&LockThread> = lock.readers.iter().filter(others).collect();
    let owner = lock.owner.as_ref().filter(others).or(match readers.as_slice() {
        [only] => Some(*only),
        _ => None,
    });
    let owner = owner.filter(|_| ended_by_owner);
    WaitRow {
        owner_tid: owner.and_then(|o| o.os_id),
        owner_managed_id: owner.and_then(|o| o.managed_id),
        owner_ended: lock.owner_ended && owner.is_some(),
        reader_tids: readers.iter().filter_map(|reader| reader.os_id).collect(),
        ..row(types, wait.kind, lock.object, wait.how, lock.confidence)
    }
}

/// Managed frames with their indices, innermost first.
fn managed(frames: &[StackFrame]) -> impl Iterator<Item = (usize, &Method)> {
    frames.iter().enumerate().filter_map(|(i, f)| Some((i, &**f.method()?)))
}

/// Words of the stack frames from `first` to `last`: up to the stack pointer of the next frame.
fn words(types: &TypeSystem<'_>, frames: &[StackFrame], first: usize, last: usize) -> Vec<u64> {
    let below = frames.get(first).map(|f| f.regs.sp());
    let calls = frames.get(last + 1..).unwrap_or_default().iter();
    let above = calls.filter(|f| !matches!(f.kind, FrameKind::Mark(_))).map(|f| f.regs.sp()).next();
    let Some((from, to)) = below.zip(above).filter(|(from, to)| from <= to) else { return Vec::new() };
    let len = to.since(from).min(limits::MAX_LOCK_FRAMES);
    let bytes = types.memory.look(from, types.memory.readable(from, len) as usize).unwrap_or_default();
    bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect()
}
