//! Synchronisation objects of musl by their fields.
//!
//! Sources: src/internal/pthread_impl.h, src/thread/pthread_mutex_timedlock.c, pthread_rwlock_timedrdlock.c and
//! sem_timedwait.c of musl 1.1.20 to 1.2.5.

use crate::addr::Addr;
use crate::map::Confidence;
use crate::native::locks::futex::{FutexCall, TID_MASK};
use crate::native::locks::{NativeWait, Scene};
use crate::words::WaitKind;

/// `pthread_mutex_t`, from its futex `_m_lock`: `_m_type` is before it, `_m_waiters` after it.
mod mutex {
    pub(super) const TYPE: i64 = -4;
    pub(super) const WAITERS: i64 = 4;
    /// Value of a lock without an owner's ID, in a mutex of type 0: EBUSY.
    pub(super) const BUSY: u32 = 16;
    /// Bits of `_m_type` in use: type, robust, priority, shared.
    pub(super) const TYPE_BITS: u32 = 0x8f;
}

/// Set in a futex word while threads wait.
pub(super) const HAS_WAITERS: u32 = 0x8000_0000;

/// Offset of `detach_state` in `struct pthread`, where pthread_join waits, from the thread pointer on x86_64.
const DETACH_STATE: u64 = 56;

/// Value of a read-write lock that a writer owns.
const WRITER: u32 = 0x7fff_ffff;

/// Identifies the object by its fields.
pub(super) fn wait(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    join(scene, call).or_else(|| {
        let is_mutex = scene.word(call.at, mutex::TYPE)? & !mutex::TYPE_BITS == 0
            && scene.word(call.at, mutex::WAITERS)? == scene.waiting_at(Some(call.at));
        let tid = call.value & TID_MASK;
        let names_thread = tid == mutex::BUSY || scene.threads.contains_key(&tid);
        let waits = call.value & HAS_WAITERS != 0 && call.value & !(HAS_WAITERS | TID_MASK) == 0;
        let wait = known_mutex(scene, call, "the fields of a pthread_mutex_t around the futex");
        let wait = wait.filter(|_| is_mutex && names_thread && waits)?;
        Some(NativeWait { confidence: Confidence::Derived, ..wait })
    })
}

/// pthread_join waits in the control block of the thread.
pub(super) fn join(scene: &Scene<'_>, call: &FutexCall) -> Option<NativeWait> {
    let tid = scene.thread_at(call.at.checked_sub(DETACH_STATE)?)?;
    Some(NativeWait {
        owners: scene.owner(tid, "detach_state in the control block of the joined thread").into_iter().collect(),
        records_owner: true,
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::Join, call.at, Some("pthread_t"), "the futex is in a thread's control block")
    })
}

/// A mutex whose kind is known. Mutexes of the default type don't record their owner.
pub(super) fn known_mutex(scene: &Scene<'_>, call: &FutexCall, how: &'static str) -> Option<NativeWait> {
    let base: Addr = call.at.checked_offset(mutex::TYPE)?;
    let word = scene.word(call.at, 0)?;
    let records_owner = scene.word(base, 0)? & 3 != 0;
    let owner = scene.owner(word & TID_MASK, "_m_lock of the mutex").filter(|_| records_owner);
    Some(NativeWait {
        owners: owner.into_iter().collect(),
        records_owner,
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::Mutex, base, Some("pthread_mutex_t"), how)
    })
}

/// A read-write lock whose kind is known. It counts readers, and does not record a writer.
pub(super) fn known_rwlock(scene: &Scene<'_>, call: &FutexCall, how: &'static str) -> Option<NativeWait> {
    let readers = scene.word(call.at, 0).map(|word| word & WRITER).filter(|readers| *readers != WRITER);
    Some(NativeWait {
        readers,
        confidence: Confidence::Exact,
        ..NativeWait::new(WaitKind::ReaderWriter, call.at, Some("pthread_rwlock_t"), how)
    })
}
