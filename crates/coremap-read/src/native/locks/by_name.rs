//! Objects by the functions that wait for them. The innermost function that is known decides.

use crate::map::Confidence;
use crate::native::locks::futex::FutexCall;
use crate::native::locks::{NativeWait, Scene, glibc, musl, rust};
use crate::native::stack_records::Libc;
use crate::words::WaitKind;

/// Maximum number of frames between the futex call and the function that shows its purpose.
const MAX_FRAMES: usize = 10;

/// What a function waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Join,
    ReaderWriter,
    Condition,
    Mutex,
    Semaphore,
    Barrier,
    Once,
    Future,
    /// std::sync::Mutex: one word; 2 with waiters.
    RustMutex,
    /// std::sync::RwLock: the state, and a word that writers wait at.
    RustRead,
    RustWrite,
    RustCondition,
    RustReentrant,
    Park,
    Channel,
    /// The crate parking_lot.
    ParkedMutex,
    ParkedReaderWriter,
    ParkedCondition,
}

/// Parts of names, most special first.
const FUNCTIONS: &[(&str, Purpose)] = &[
    ("parking_lot::raw_mutex::", Purpose::ParkedMutex),
    ("parking_lot::raw_rwlock::", Purpose::ParkedReaderWriter),
    ("parking_lot::condvar::", Purpose::ParkedCondition),
    ("ReentrantLock", Purpose::RustReentrant),
    ("futex::Mutex::", Purpose::RustMutex),
    ("futex::RwLock::read", Purpose::RustRead),
    ("futex::RwLock::write", Purpose::RustWrite),
    ("futex::Condvar::", Purpose::RustCondition),
    ("sync::once::", Purpose::Once),
    ("futex::Once::", Purpose::Once),
    ("mpmc::", Purpose::Channel),
    ("mpsc::", Purpose::Channel),
    ("thread::park", Purpose::Park),
    ("thread::functions::park", Purpose::Park),
    ("Parker::park", Purpose::Park),
    ("pthread_join", Purpose::Join),
    ("pthread_clockjoin", Purpose::Join),
    ("pthread_timedjoin", Purpose::Join),
    ("pthread_tryjoin", Purpose::Join),
    ("pthread_rwlock_", Purpose::ReaderWriter),
    ("pthread_cond_", Purpose::Condition),
    ("pthread_mutex_", Purpose::Mutex),
    ("lll_mutex_lock", Purpose::Mutex),
    ("pthread_barrier_wait", Purpose::Barrier),
    ("pthread_once", Purpose::Once),
    ("__cxa_guard_acquire", Purpose::Once),
    ("sem_wait", Purpose::Semaphore),
    ("sem_timedwait", Purpose::Semaphore),
    ("sem_clockwait", Purpose::Semaphore),
    ("new_sem_wait", Purpose::Semaphore),
    ("__atomic_futex_unsigned", Purpose::Future),
];

/// Returns what the innermost functions of a stack wait for.
fn purpose(names: &[String]) -> Option<Purpose> {
    // Rust's names may have brackets around types: `<std::sys::sync::mutex::futex::Mutex>::lock_contended`.
    let of = |name: &String| {
        let name = name.replace(['<', '>'], "");
        FUNCTIONS.iter().find(|(part, _)| name.contains(part)).map(|(_, purpose)| *purpose)
    };
    let mut found = names.iter().take(MAX_FRAMES).filter_map(of);
    let first = found.next()?;
    // A channel's receiver parks its thread.
    if first == Purpose::Park && found.any(|purpose| purpose == Purpose::Channel) {
        return Some(Purpose::Channel);
    }
    Some(first)
}

/// Identifies the object by the functions on the stack, and its owner by its fields.
pub(super) fn wait(scene: &Scene<'_>, call: &FutexCall, names: &[String]) -> Option<NativeWait> {
    const HOW: &str = "the futex call of a function of the library";
    // The upper bit is set only in musl's locks while threads wait, and in glibc's robust and PI mutexes together with
    // an ID.
    let is_musl = match scene.libc {
        Some(libc) => libc == Libc::Musl,
        None => call.value & musl::HAS_WAITERS != 0,
    };
    let plain = |kind, object| Some(NativeWait::new(kind, call.at, object, HOW));
    let wait = match purpose(names)? {
        Purpose::Join if is_musl => musl::join(scene, call),
        Purpose::Join => glibc::join(scene, call),
        Purpose::ReaderWriter if is_musl => musl::known_rwlock(scene, call, HOW),
        Purpose::ReaderWriter => glibc::known_rwlock(scene, call, HOW),
        // musl's waiters wait in a node on their own stack.
        Purpose::Condition if is_musl => plain(WaitKind::Condition, Some("node of a pthread_cond_t's waiter")),
        Purpose::Condition => glibc::known_condition(scene, call, HOW),
        Purpose::Mutex if is_musl => musl::known_mutex(scene, call, HOW),
        Purpose::Mutex => Some(glibc::known_mutex(scene, call, HOW)),
        Purpose::Semaphore => plain(WaitKind::Semaphore, Some("sem_t")),
        Purpose::Barrier if is_musl => plain(WaitKind::Barrier, Some("pthread_barrier_t")),
        Purpose::Barrier => glibc::known_barrier(call, HOW),
        Purpose::Once => plain(WaitKind::Once, None),
        Purpose::Future => plain(WaitKind::Future, Some("state of a std::future")),
        Purpose::RustMutex => plain(WaitKind::Mutex, Some("std::sync::Mutex")),
        Purpose::RustReentrant => plain(WaitKind::Mutex, Some("std::sync::ReentrantLock")),
        Purpose::RustRead => rust_rwlock(scene, call, 0, HOW),
        Purpose::RustWrite => rust_rwlock(scene, call, -4, HOW),
        Purpose::RustCondition => plain(WaitKind::Condition, Some("std::sync::Condvar")),
        Purpose::Park => plain(WaitKind::Park, Some("std::thread::park")),
        Purpose::Channel => plain(WaitKind::Channel, None),
        Purpose::ParkedMutex => return rust::parked(scene, call, WaitKind::Mutex, HOW),
        Purpose::ParkedReaderWriter => return rust::parked(scene, call, WaitKind::ReaderWriter, HOW),
        Purpose::ParkedCondition => plain(WaitKind::Condition, Some("parking_lot::Condvar")),
    };
    Some(NativeWait { confidence: Confidence::Exact, ..wait? })
}

/// Bits of the state of std::sync::RwLock that count readers, and their value if a writer owns it.
const READERS: u32 = 0x3fff_ffff;

fn rust_rwlock(scene: &Scene<'_>, call: &FutexCall, offset: i64, how: &'static str) -> Option<NativeWait> {
    let base = call.at.checked_offset(offset)?;
    let readers = scene.word(base, 0).map(|state| state & READERS).filter(|readers| *readers != READERS);
    Some(NativeWait { readers, ..NativeWait::new(WaitKind::ReaderWriter, base, Some("std::sync::RwLock"), how) })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Stacks of glibc 2.36, of programs of rustc 1.95 and 1.66, and of parking_lot 0.12, innermost first.
    #[test]
    fn functions_that_wait() {
        let cases: [(&[&str], Option<Purpose>); 9] = [
            (&["__futex_abstimed_wait_common", "pthread_cond_wait", "take(queue*)"], Some(Purpose::Condition)),
            (&["__lll_lock_wait", "pthread_mutex_lock", "transfer(Account&, Account&)"], Some(Purpose::Mutex)),
            (&["syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended"], Some(Purpose::RustMutex)),
            (&["syscall", "std::sys::sync::rwlock::futex::RwLock::write_contended"], Some(Purpose::RustWrite)),
            (
                &["syscall", "std::thread::functions::park", "std::sync::mpmc::list::Channel::recv"],
                Some(Purpose::Channel),
            ),
            (&["syscall", "std::thread::functions::park", "main"], Some(Purpose::Park)),
            (&["syscall", "parking_lot::raw_mutex::RawMutex::lock_slow"], Some(Purpose::ParkedMutex)),
            (&["syscall", "my::own::wait"], None),
            (&[], None),
        ];
        for (names, wanted) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(purpose(&names), wanted, "{names:?}");
        }
    }
}
