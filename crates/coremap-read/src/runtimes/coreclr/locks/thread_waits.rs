//! What each thread waits for. The heap is walked only if the thread's own records do not show it.
//!
//! Up to .NET 8 only the list of a sync block has the threads in Monitor.Wait. On .NET 9 and 10 a thread static has the
//! monitor or Lock (`blocking`), and the native runtime waits for everything else, so only objects on the stack show
//! that. From .NET 11 on a thread's ThreadWaitInfo has all that it waits for (`waits`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::map::Confidence;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{MethodRole, StackFrame};
use crate::runtimes::coreclr::ManagedThread;
use crate::runtimes::coreclr::locks::blocking::{self, Blocking};
use crate::runtimes::coreclr::locks::objects::{Classes, LockClass, Objects};
use crate::runtimes::coreclr::locks::reader_writer::{self, Readers};
use crate::runtimes::coreclr::locks::rows::{handle_lock, waitable};
use crate::runtimes::coreclr::locks::structures::{self, Candidates};
use crate::runtimes::coreclr::locks::threads::{ThreadIndex, Threads};
use crate::runtimes::coreclr::locks::waits::{Record, record};
use crate::runtimes::coreclr::locks::{Lock, lock_object};
use crate::runtimes::coreclr::sync_blocks::{self, SyncBlock};
use crate::runtimes::coreclr::types::TypeSystem;
use crate::words::{LockKind, WaitKind};

/// Methods of the library that wait in Monitor.Wait for a structure of their own.
const STRUCTURES: [&str; 2] = ["System.Threading.ManualResetEventSlim.", "System.Threading.SemaphoreSlim."];

/// Methods in which the library waits for a pulse, by version.
const PULSE: [&str; 2] = ["System.Threading.Monitor.", "System.Threading.Condition."];

/// What a thread waits for, according to its own records.
#[derive(Clone, Debug)]
enum Known {
    /// A lock with its owner.
    Lock(Lock),
    /// A pulse of an object, or a structure of the library that locks it. From .NET 11 on with the object's Lock.
    Condition { object: Addr, lock: Option<Addr> },
    /// Waitable objects (from .NET 11 on), and whether it waits for all of them.
    Objects(Vec<Addr>, bool),
    /// Nothing but time to pass (from .NET 11 on).
    Sleep,
}

/// What a thread waits for.
#[derive(Clone, Debug)]
pub(in crate::runtimes::coreclr) struct ThreadWait {
    pub(in crate::runtimes::coreclr) kind: WaitKind,
    /// The object, with its owner if it has one. Its waiters are not listed.
    pub(in crate::runtimes::coreclr) lock: Lock,
    /// The evidence, in a sentence.
    pub(in crate::runtimes::coreclr) how: &'static str,
}

/// The answer for a thread.
pub(in crate::runtimes::coreclr) enum Answer {
    /// It waits for this.
    Wait(ThreadWait),
    /// Its records do not have it.
    Unknown,
    /// It waits, but only a walk over the heap can find for what. The value is used without a walk: the pulse of an
    /// object, or nothing.
    NeedsWalk(Option<ThreadWait>),
}

/// The waits of all threads of a runtime, by the address of the Thread.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct ThreadWaits {
    known: HashMap<Addr, Known>,
    /// Threads in Thread.Join, by the waitable object of the joined thread.
    joined: HashMap<Addr, (Addr, usize)>,
    threads: ThreadIndex,
    classes: Arc<Classes>,
    readers: Readers,
    /// Messages about what could not be read.
    pub(in crate::runtimes::coreclr) notes: Vec<String>,
}

const BY_STATIC: &str = "its ThreadBlockingInfo names it (thread static t_first)";
const BY_LIST: &str = "its Thread is in the object's list of threads waiting for a pulse";
const BY_RECORD: &str = "its ThreadWaitInfo has the object, and the object's list has the thread";
const BY_FIELD: &str = "it is on the thread's stack, and its field has the object whose pulse the thread waits for";
const BY_STACK: &str = "it is on the stack above the program's innermost method, and the thread waits";

impl ThreadWaits {
    /// Reads what the threads' own records have.
    pub(in crate::runtimes::coreclr) fn read(process: &Process, types: &TypeSystem<'_>) -> ThreadWaits {
        let _phase = process.enter(Phase::Locks);
        let index = ThreadIndex::read(process, &types.runtime);
        let threads = index.of(process, &types.runtime);
        let objects = Objects::new(types, None);
        let (blocks, notes) = sync_blocks::read(process, &types.runtime);
        let mut out = ThreadWaits { notes, classes: objects.classes().clone(), ..ThreadWaits::default() };
        let by_address: HashMap<Addr, &SyncBlock> = blocks.iter().filter_map(|b| Some((b.address?, b))).collect();
        let by_lock: HashMap<Addr, Addr> = blocks.iter().filter_map(|b| Some((b.lock?, b.object))).collect();
        for block in &blocks {
            for thread in block.pulse.iter().filter_map(|thread| thread.address) {
                out.known.insert(thread, Known::Condition { object: block.object, lock: None });
            }
        }
        if types.runtime.has_managed_locks() {
            out.records(&objects, &threads);
        }
        for (thread, blocking) in threads.list.iter().zip(blocking::read(types, threads.list)) {
            let known = match blocking {
                None => continue,
                Some(Blocking::Monitor(block)) => by_address.get(&block).map(|block| {
                    let owner = block.owner.filter(|_| block.held);
                    Known::Lock(
                        Lock::new(LockKind::Monitor, block.object).owned((owner, false), block.recursion.max(1)),
                    )
                }),
                Some(Blocking::MonitorWait(block)) => {
                    by_address.get(&block).map(|block| Known::Condition { object: block.object, lock: None })
                }
                Some(Blocking::Lock(lock)) => {
                    Some(Known::Lock(lock_object(&objects, &threads, lock, by_lock.get(&lock).copied())))
                }
                Some(Blocking::Condition(condition)) => objects.reference(condition, "_lock").map(|lock| {
                    Known::Condition { object: by_lock.get(&lock).copied().unwrap_or(lock), lock: Some(lock) }
                }),
            };
            // A thread that got its lock may not have left the list yet.
            let own = |known: &Known| match known {
                Known::Lock(lock) => lock.owner.is_some_and(|owner| owner.address == Some(thread.address)),
                Known::Condition { .. } | Known::Objects(..) | Known::Sleep => false,
            };
            if let Some(known) = known.filter(|known| !own(known)) {
                out.known.insert(thread.address, known);
            }
        }
        ThreadWaits { threads: index, ..out }
    }

    /// Reads the ThreadWaitInfo of each thread.
    fn records(&mut self, objects: &Objects<'_, '_>, threads: &Threads<'_>) {
        for (i, thread) in threads.list.iter().enumerate() {
            let Some(object) = threads.object(i) else { continue };
            let event = objects.reference(object, "_joinEvent").and_then(|event| waitable(objects, event));
            self.joined.extend(event.map(|event| (event, (object, i))));
            match record(objects, object) {
                None => {}
                Some(Record { waited, .. }) if waited.is_empty() => {
                    self.known.insert(thread.address, Known::Sleep);
                }
                Some(Record { waited, all }) => {
                    self.known.insert(thread.address, Known::Objects(waited, all));
                }
            }
        }
    }

    /// Returns what a thread waits for. If its records have only a part, objects on its stack complete it.
    pub(in crate::runtimes::coreclr) fn of(
        &self,
        process: &Process,
        types: &TypeSystem<'_>,
        thread: &ManagedThread,
        frames: &[StackFrame],
    ) -> Answer {
        let objects = Objects::sharing(types, &self.classes);
        let lock = |kind, object| Lock::new(kind, object);
        match self.known.get(&thread.address) {
            Some(Known::Lock(lock)) => {
                Answer::Wait(ThreadWait { kind: WaitKind::Lock, lock: lock.clone(), how: BY_STATIC })
            }
            Some(Known::Sleep) => match thread.exposed_object.and_then(|handle| types.memory.ptr(handle).ok()) {
                Some(own) => {
                    let how = "its ThreadWaitInfo waits for no object";
                    Answer::Wait(ThreadWait { kind: WaitKind::Sleep, lock: lock(LockKind::Event, own), how })
                }
                None => Answer::Unknown,
            },
            Some(&Known::Condition { object, lock: own }) => {
                let how = if own.is_some() { BY_STATIC } else { BY_LIST };
                let pulse = ThreadWait { kind: WaitKind::Pulse, lock: lock(LockKind::MonitorWait, object), how };
                if !structures::may_be_private(&objects, object) {
                    return Answer::Wait(pulse);
                }
                let inner: Vec<Addr> = [object].into_iter().chain(own).collect();
                match structures::by_stack(&objects, &words(types, thread, frames), &inner) {
                    Some((kind, at)) => {
                        Answer::Wait(ThreadWait { kind, lock: lock(LockKind::EventSlim, at), how: BY_FIELD })
                    }
                    None if waits_for_a_pulse(frames) => Answer::Wait(pulse),
                    None => Answer::NeedsWalk(Some(pulse)),
                }
            }
            Some(Known::Objects(waited, all)) => self.of_objects(process, types, thread, frames, (waited, *all)),
            None if types.runtime.has_managed_locks() => Answer::Unknown,
            None => self.native(process, types, thread, frames).map_or(Answer::Unknown, Answer::Wait),
        }
    }

    fn of_objects(
        &self,
        process: &Process,
        types: &TypeSystem<'_>,
        thread: &ManagedThread,
        frames: &[StackFrame],
        (waited, all): (&[Addr], bool),
    ) -> Answer {
        let objects = Objects::sharing(types, &self.classes);
        let threads = self.threads.of(process, &types.runtime);
        // Any of several objects may end the wait, so none of them is what it waits for.
        let &[object] = waited else {
            return if all { Answer::NeedsWalk(None) } else { Answer::Unknown };
        };
        if let Some(&(joined, i)) = self.joined.get(&object) {
            let owner = Some(threads.named(i));
            let lock = Lock { owner, ..Lock::new(LockKind::Join, joined) };
            return Answer::Wait(ThreadWait { kind: WaitKind::Join, lock, how: BY_RECORD });
        }
        let candidates = Candidates::of(&objects, &words(types, thread, frames));
        let is = |handle: Addr| waitable(&objects, handle) == Some(object);
        for lock in candidates.all(LockClass::ReaderWriterLockSlim) {
            if reader_writer::EVENTS.iter().filter_map(|field| objects.reference(lock, field)).any(is) {
                let lock = self.readers.lock(&objects, &threads, lock);
                return Answer::Wait(ThreadWait { kind: WaitKind::Lock, lock, how: BY_RECORD });
            }
        }
        let mutex = handle_lock(&objects, &threads, object, object).filter(|lock| lock.kind != LockKind::Event);
        let handle = candidates.all(LockClass::Handle).find(|&handle| is(handle));
        match mutex.zip(handle) {
            // The event of a lock is an AutoResetEvent too, so for events the heap decides.
            Some((lock, handle)) => {
                let kind = if lock.kind == LockKind::Mutex { WaitKind::Lock } else { WaitKind::Semaphore };
                Answer::Wait(ThreadWait { kind, lock: Lock { object: handle, ..lock }, how: BY_RECORD })
            }
            None => Answer::NeedsWalk(None),
        }
    }

    /// Returns what a thread waits for in the native runtime, by the objects in the library's frames on its stack. This
    /// is only likely, because a local that is no longer used may still be there.
    fn native(
        &self,
        process: &Process,
        types: &TypeSystem<'_>,
        thread: &ManagedThread,
        frames: &[StackFrame],
    ) -> Option<ThreadWait> {
        let waits = types.runtime.layout.constant("ThreadState", "Interruptible").ok()?;
        if u64::from(thread.state?) & waits == 0 {
            return None;
        }
        let objects = Objects::sharing(types, &self.classes);
        let threads = self.threads.of(process, &types.runtime);
        let words = library_words(types, thread, frames)?;
        let candidates = Candidates::of(&objects, &words);
        let likely = |lock: Lock| Lock { confidence: Confidence::Heuristic, ..lock };
        for lock in candidates.all(LockClass::ReaderWriterLockSlim) {
            let event = || reader_writer::EVENTS.iter().filter_map(|field| objects.reference(lock, field));
            if reader_writer::waiters(&objects, lock) > 0 && event().any(|event| words.contains(&event.get())) {
                let lock = Lock { confidence: Confidence::Derived, ..self.readers.lock(&objects, &threads, lock) };
                let how = "it and its event are on the stack above the program's innermost method, and it has waiters";
                return Some(ThreadWait { kind: WaitKind::Lock, lock, how });
            }
        }
        let handle = candidates.all(LockClass::Handle).find_map(|at| {
            let class = objects.class_of(at)?;
            let (kind, lock) = match class.name.as_str() {
                "System.Threading.Mutex" => (WaitKind::Lock, LockKind::Mutex),
                "System.Threading.Semaphore" => (WaitKind::Semaphore, LockKind::Semaphore),
                "System.Threading.AutoResetEvent"
                | "System.Threading.ManualResetEvent"
                | "System.Threading.EventWaitHandle" => (WaitKind::Event, LockKind::Event),
                _ => return None,
            };
            Some(ThreadWait { kind, lock: likely(Lock::new(lock, at)), how: BY_STACK })
        });
        if handle.is_some() {
            return handle;
        }
        let joined = words.iter().filter_map(|&word| threads.of_object(Addr::new(word)));
        let mut joined =
            joined.filter(|&i| threads.named(i).address != Some(thread.address)).map(|i| (i, threads.named(i)));
        let (i, owner) = joined.find(|(_, owner)| owner.os_id.is_some())?;
        let lock = Lock { owner: Some(owner), ..likely(Lock::new(LockKind::Join, threads.object(i)?)) };
        Some(ThreadWait { kind: WaitKind::Join, lock, how: BY_STACK })
    }
}

/// Whether the names of a thread's frames show that it waits for a pulse of the program's own object.
fn waits_for_a_pulse(frames: &[StackFrame]) -> bool {
    let methods = || frames.iter().filter_map(|frame| frame.method());
    let any = |names: &[&str]| methods().any(|method| names.iter().any(|name| method.name.starts_with(name)));
    any(&PULSE) && !any(&STRUCTURES)
}

/// Words of a thread's stack from the innermost frame on, up to a limit.
fn words(types: &TypeSystem<'_>, thread: &ManagedThread, frames: &[StackFrame]) -> Vec<u64> {
    let Some(from) = frames.first().map(|frame| frame.regs.sp()) else { return Vec::new() };
    let base = thread.stack.map(|stack| stack.end).filter(|&end| end > from);
    range(types, from, base.unwrap_or_else(|| from.saturating_add(limits::MAX_LOCK_FRAMES)))
}

/// Words of the stack above the program's innermost method, with that method's own frame. `None` without such a frame.
fn library_words(types: &TypeSystem<'_>, thread: &ManagedThread, frames: &[StackFrame]) -> Option<Vec<u64>> {
    let from = frames.first()?.regs.sp();
    let own = frames.iter().position(|f| f.method().is_some_and(|method| method.role == MethodRole::Program))?;
    let next = frames.get(own + 1..)?.iter().map(|frame| frame.regs.sp()).find(|&sp| sp > from);
    let base = thread.stack.map(|stack| stack.end);
    Some(range(types, from, next.or(base)?))
}

fn range(types: &TypeSystem<'_>, from: Addr, to: Addr) -> Vec<u64> {
    if from > to {
        return Vec::new();
    }
    let len = to.since(from).min(limits::MAX_LOCK_FRAMES);
    let bytes = types.memory.look(from, types.memory.readable(from, len) as usize).unwrap_or_default();
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
