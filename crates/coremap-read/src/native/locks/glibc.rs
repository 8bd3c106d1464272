//! Synchronisation objects of glibc by their fields.
//!
//! Sources: sysdeps/nptl/bits/thread-shared-types.h, struct_mutex.h, struct_rwlock.h and internaltypes.h of glibc 2.25
//! to 2.42. The layouts are part of its ABI on x86_64 and aarch64.

use crate::addr::Addr;
use crate::map::Confidence;
use crate::native::locks::futex::{FutexCall, TID_MASK};
use crate::native::locks::{NativeWait, Scene};
use crate::words::{OwnerState, WaitKind};

/// `pthread_mutex_t`. `__lock` is its first field.
mod mutex {
    pub(super) const OWNER: i64 = 8;
    pub(super) const USERS: i64 = 12;
    pub(super) const KIND: i64 = 16;
    /// Bits of `__kind`: type, robust, priority, shared, elision.
    pub(super) const KIND_BITS: u32 = 0x3ff;
    /// Value of `__lock` with waiters.
    pub(super) const CONTENDED: u32 = 2;
}

/// `pthread_rwlock_t`: `__readers`, `__writers`, `__wrphase_futex`, `__writers_futex`, two of padding, `__cur_writer`.
mod rwlock {
    pub(super) const READERS: i64 = 0;
    pub(super) const WRITERS: i64 = 4;
    pub(super) const PHASE: i64 = 8;
    pub(super) const WRITERS_FUTEX: i64 = 12;
    pub(super) const WRITER: i64 = 24;
    pub(super) const SHARED: i64 = 28;
    /// `__readers` counts in its bits from 3 on (PTHREAD_RWLOCK_READER_SHIFT).
    pub(super) const READER_SHIFT: u32 = 3;
}

/// `sem_t`: the value, the number of waiters, and whether it is shared (0 or 128).
mod semaphore {
    pub(super) const WAITERS: i64 = 4;
    pub(super) const SHARED: i64 = 8;
}

/// `pthread_cond_t`, seen from `__g_signals`, in which threads wait: `__wrefs` is directly before both slots.
mod condition {
    pub(super) const SIGNALS: i64 = 40;
    /// From 2.41 on, without `__g_refs`.
    pub(super) const SIGNALS_2_41: i64 = 32;
    pub(super) const SLOT: i64 = 4;
    /// `__wrefs` counts in its bits from 3 on.
    pub(super) const WAITERS_SHIFT: u32 = 3;
}

/// `pthread_barrier_t`: `in`, `current_round`, `count`. Threads wait at `current_round`.
mod barrier {
    pub(super) const IN: i64 = -4;
    pub(super) const COUNT: i64 = 4;
}

/// Maximum distance of `tid` from a control block's thread pointer in bytes: `struct pthread` has some 2,300.
const MAX_CONTROL_BLOCK: u64 = 4096;

const OWNER: &str = "__owner of the mutex";

/// Identifies the object by its fields.
pub(super) fn wait(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    join(scene, call)
        .or_else(|| mutex(scene, call))
        .or_else(|| stream(scene, call))
        .or_else(|| semaphore(scene, call))
        .or_else(|| condition(scene, call))
        .or_else(|| rwlock(scene, call))
        .or_else(|| barrier(scene, call))
}

/// pthread_join waits at `tid` in the control block of the thread, which the kernel clears when the thread ends.
pub(super) fn join(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let number = scene.word(call.at, 0).filter(|number| *number == call.value)?;
    let owner = scene.owner(number, "tid in the control block of the joined thread")?;
    let pointer = scene.threads.get(&owner.tid).copied().flatten()?;
    let distance = if call.at > pointer { call.at.since(pointer) } else { pointer.since(call.at) };
    (distance < MAX_CONTROL_BLOCK).then(|| NativeWait {
        owners: vec![owner],
        records_owner: true,
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::Join, call.at, Some("pthread_t"), "the futex is tid in a thread's control block")
    })
}

/// A mutex, of which the futex word is the first field.
fn mutex(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let word = scene.word(call.at, 0)?;
    let (owner, kind) = (scene.word(call.at, mutex::OWNER)?, scene.word(call.at, mutex::KIND)?);
    let users = scene.word(call.at, mutex::USERS)?;
    let threads = scene.threads.len().try_into().unwrap_or(u32::MAX);
    let by_kernel = call.kernel_lock || call.value & !TID_MASK != 0 && call.value & TID_MASK == owner;
    let contended = word == mutex::CONTENDED && call.value == mutex::CONTENDED;
    // Each owner and each waiter for a condition counts as a user.
    let plausible = kind & !mutex::KIND_BITS == 0 && users <= threads.saturating_add(1);
    let (owner, is_mutex) = match by_kernel {
        true => (word & TID_MASK, true),
        false => (owner, contended && plausible),
    };
    let owner = scene.owner(owner, OWNER).filter(|_| is_mutex)?;
    // Locks of other libraries also contain 2 while threads wait (in Rust, with a bit set), and any number may follow
    // them. An owner that is not a thread is accepted only if pthread_mutex_lock itself made the call, with one user.
    if owner.state != OwnerState::Alive && (call.has_bits || users != 1) {
        return None;
    }
    let how = "the fields of a pthread_mutex_t around the futex";
    Some(NativeWait {
        // A number that is no thread's ID may be chance.
        confidence: if owner.state == OwnerState::Alive { Confidence::Exact } else { Confidence::Derived },
        owners: vec![owner],
        records_owner: true,
        ..NativeWait::new(WaitKind::Mutex, call.at, Some("pthread_mutex_t"), how)
    })
}

/// A mutex whose kind is known: by the functions on the stack.
pub(super) fn known_mutex(scene: &Scene<'_>, call: &FutexCall, how: &'static str) -> NativeWait {
    let owner = if call.kernel_lock { scene.word(call.at, 0).map(|w| w & TID_MASK) } else { None };
    let owner = owner.or_else(|| scene.word(call.at, mutex::OWNER));
    NativeWait {
        owners: owner.and_then(|tid| scene.owner(tid, OWNER)).into_iter().collect(),
        records_owner: true,
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::Mutex, call.at, Some("pthread_mutex_t"), how)
    }
}

/// The lock of a FILE (`_IO_lock_t`): lock, count, and the owner's control block.
pub(super) fn stream(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let contended = scene.word(call.at, 0)? == mutex::CONTENDED && call.value == mutex::CONTENDED;
    let pointer = scene.memory.peek_u64(call.at.checked_add(8)?).ok().filter(|_| contended)?;
    let tid = scene.thread_at(Addr::new(pointer))?;
    Some(NativeWait {
        owners: scene.owner(tid, "owner of the stream's lock").into_iter().collect(),
        records_owner: true,
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::Mutex, call.at, Some("lock of a FILE"), "the fields of an _IO_lock_t")
    })
}

fn semaphore(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let (value, waiters) = (scene.word(call.at, 0)?, scene.word(call.at, semaphore::WAITERS)?);
    let shared = scene.word(call.at, semaphore::SHARED)?;
    let fits = value == 0
        && call.value == 0
        && call.has_bits
        && waiters == scene.waiting_at(Some(call.at))
        && shared == if call.is_private { 0 } else { 128 };
    fits.then(|| NativeWait::new(WaitKind::Semaphore, call.at, Some("sem_t"), "the fields of a sem_t around the futex"))
}

fn condition(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let slot = call.at.checked_offset(if call.at.is_aligned(8) { 0 } else { -condition::SLOT })?;
    let waiters = scene.word(slot, -4)? >> condition::WAITERS_SHIFT;
    let waiting = scene.waiting_at(Some(slot)).saturating_add(scene.waiting_at(slot.checked_offset(condition::SLOT)));
    let wait = known_condition(scene, call, "the fields of a pthread_cond_t around the futex")?;
    (call.has_bits && waiters == waiting).then_some(NativeWait { confidence: Confidence::Derived, ..wait })
}

/// A condition variable whose kind is known.
pub(super) fn known_condition(scene: &Scene<'_>, call: &FutexCall, how: &'static str) -> Option<NativeWait> {
    let slot = call.at.checked_offset(if call.at.is_aligned(8) { 0 } else { -condition::SLOT })?;
    // Sequence numbers of the waiters and of the first group: the second is never ahead. In the form up to 2.40, two
    // counters of references are in the place of the newer form's second number.
    let number = |offset| scene.memory.peek_u64(slot.checked_offset(offset)?).ok().map(|n| n >> 1);
    let old = number(-condition::SIGNALS).zip(number(-condition::SIGNALS_2_41));
    let new = number(-condition::SIGNALS_2_41).zip(number(8 - condition::SIGNALS_2_41));
    let fits = |pair: Option<(u64, u64)>| pair.is_some_and(|(all, first)| first <= all && all < 1 << 48);
    let offset = if fits(old) || !fits(new) { condition::SIGNALS } else { condition::SIGNALS_2_41 };
    let base = slot.checked_offset(-offset)?;
    let wait = NativeWait::new(WaitKind::Condition, base, Some("pthread_cond_t"), how);
    Some(NativeWait { confidence: Confidence::Exact, ..wait })
}

fn rwlock(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let wait = known_rwlock(scene, call, "the fields of a pthread_rwlock_t around the futex")?;
    let at = |offset| scene.word(wait.address, offset);
    let threads: u32 = scene.threads.len().try_into().unwrap_or(u32::MAX);
    let phases = |value: Option<u32>| value.is_some_and(|value| value <= 3);
    let fits = at(rwlock::READERS)? >> rwlock::READER_SHIFT <= threads
        && at(rwlock::WRITERS)? & 0x7fff_ffff <= threads
        && phases(at(rwlock::PHASE))
        && phases(at(rwlock::WRITERS_FUTEX))
        && at(rwlock::SHARED)? == u32::from(!call.is_private)
        && (at(rwlock::WRITER)? == 0 || wait.owners.iter().any(|owner| owner.state == OwnerState::Alive))
        && (wait.readers.is_some_and(|readers| readers > 0) || !wait.owners.is_empty());
    (fits && call.has_bits).then_some(NativeWait { confidence: Confidence::Derived, ..wait })
}

/// A read-write lock whose kind is known.
pub(super) fn known_rwlock(scene: &Scene<'_>, call: &FutexCall, how: &'static str) -> Option<NativeWait> {
    // The lock is aligned to 8. Writers queue at `__writers_futex`; readers and the first writer wait for the phase to
    // change, and readers behind a preferred writer wait at `__readers` itself, which is 8 or more then.
    let offset = match call.at.is_aligned(8) {
        false => rwlock::WRITERS_FUTEX,
        true if scene.word(call.at, 0)? >= 1 << rwlock::READER_SHIFT => rwlock::READERS,
        true => rwlock::PHASE,
    };
    let base = call.at.checked_offset(-offset)?;
    let writer = scene.word(base, rwlock::WRITER).and_then(|tid| scene.owner(tid, "__cur_writer of the lock"));
    // Bit 0 of `__readers`: a writer owns the lock. Then readers in the count only wait.
    let readers = scene.word(base, rwlock::READERS).map(|word| word >> rwlock::READER_SHIFT);
    Some(NativeWait {
        readers: readers.filter(|_| writer.is_none()),
        records_owner: writer.is_some(),
        owners: writer.into_iter().collect(),
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::ReaderWriter, base, Some("pthread_rwlock_t"), how)
    })
}

fn barrier(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let round = scene.word(call.at, 0).filter(|round| *round == call.value)?;
    let arrived = scene.word(call.at, barrier::IN)?.checked_sub(round)?;
    let count = scene.word(call.at, barrier::COUNT)?;
    let fits = !call.has_bits && arrived == scene.waiting_at(Some(call.at)) && arrived < count && count < 1 << 20;
    let wait = known_barrier(call, "the fields of a pthread_barrier_t around the futex")?;
    fits.then_some(NativeWait { confidence: Confidence::Derived, ..wait })
}

/// A barrier whose kind is known.
pub(super) fn known_barrier(call: &FutexCall, how: &'static str) -> Option<NativeWait> {
    let base = call.at.checked_offset(barrier::IN)?;
    let wait = NativeWait::new(WaitKind::Barrier, base, Some("pthread_barrier_t"), how);
    Some(NativeWait { confidence: Confidence::Exact, ..wait })
}
