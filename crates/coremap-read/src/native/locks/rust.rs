//! Locks of the crate parking_lot.
//!
//! A thread that waits is parked at a futex in its `ThreadData` (parking_lot_core/src/parking_lot.rs), which also has
//! the address of the lock (`key`). The compiler chooses the order of the fields.

use crate::addr::Addr;
use crate::bytes;
use crate::native::locks::futex::FutexCall;
use crate::native::locks::{NativeWait, Scene};
use crate::words::WaitKind;

/// Bytes of `ThreadData` on either side of its futex. It has six words.
const AROUND: u64 = 48;

/// Bits of a lock's first byte: locked, and threads are parked (raw_mutex.rs, raw_rwlock.rs).
const MUTEX_BITS: u8 = 3;
/// `WRITER_BIT | WRITER_PARKED_BIT | PARKED_BIT` of a read-write lock's word; readers count from bit 4 on.
const RW_PARKED: u64 = 3;

/// Returns the lock that the thread's data refers to.
pub(super) fn parked(scene: &Scene<'_>, call: &FutexCall, kind: WaitKind, how: &'static str) -> Option<NativeWait> {
    let start = call.at.align_down(8).checked_sub(AROUND)?;
    let words = scene.memory.look(start, usize::try_from(2 * AROUND).ok()?).ok()?;
    let mut words = (0..words.len()).step_by(8).filter_map(|at| bytes::u64_at(&words, at)).map(Addr::new);
    let first = |at: Addr| {
        let mut byte = [0];
        scene.memory.peek(at, &mut byte).ok().map(|()| byte[0])
    };
    // Threads of a read-write lock are parked at its address, and one byte after it.
    let lock = words.find_map(|at| match kind {
        WaitKind::ReaderWriter => {
            let lock = at.align_down(8);
            let word = scene.memory.peek_u64(lock).ok().filter(|_| at.since(lock) <= 1)?;
            (word & RW_PARKED != 0 && word >> 32 == 0).then_some((lock, Some((word >> 4) as u32)))
        }
        _ => (first(at)? == MUTEX_BITS && !is_near(at, call.at)).then_some((at, None)),
    });
    let (lock, readers) = lock?;
    let object = match kind {
        WaitKind::ReaderWriter => "parking_lot::RwLock",
        _ => "parking_lot::Mutex",
    };
    Some(NativeWait { readers: readers.filter(|n| *n > 0), ..NativeWait::new(kind, lock, Some(object), how) })
}

/// Whether an address is in the thread data itself.
fn is_near(at: Addr, futex: Addr) -> bool {
    at >= futex.saturating_sub(AROUND) && at <= futex.saturating_add(AROUND)
}
