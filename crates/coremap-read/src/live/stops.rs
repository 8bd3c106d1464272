//! Processes that this program has stopped.
//!
//! A stopped process must wait for nothing but coremap itself. So before code writes to a terminal or pipe, or suspends
//! the program, it resumes these processes or waits until they run again.

use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

struct Stops {
    /// Number of the next entry.
    next: u64,
    /// One entry for each stopped process: its number, and a sender that makes its tracer resume it.
    stopped: Vec<(u64, Sender<()>)>,
}

static STOPS: Mutex<Stops> = Mutex::new(Stops { next: 0, stopped: Vec::new() });

/// Notified when a process was resumed.
static RESUMED: Condvar = Condvar::new();

fn stops() -> MutexGuard<'static, Stops> {
    STOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stops_when_none() -> MutexGuard<'static, Stops> {
    let some = |stops: &mut Stops| !stops.stopped.is_empty();
    RESUMED.wait_while(stops(), some).unwrap_or_else(PoisonError::into_inner)
}

/// Entry of a stopped process in the list. It is made before the first thread is stopped, and dropped after all are
/// resumed.
pub(super) struct Entry(u64);

impl Entry {
    pub(super) fn new(release: Sender<()>) -> Entry {
        let mut stops = stops();
        let number = stops.next;
        stops.next += 1;
        stops.stopped.push((number, release));
        Entry(number)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        stops().stopped.retain(|&(number, _)| number != self.0);
        RESUMED.notify_all();
    }
}

/// Makes the tracers resume all stopped processes. Does not wait for that.
pub fn release_all() {
    for (_, release) in &stops().stopped {
        // A tracer that has just ended needs no message.
        let _ = release.send(());
    }
}

/// Whether a process is stopped now.
pub fn is_any() -> bool {
    !stops().stopped.is_empty()
}

/// Waits until no process is stopped.
pub fn wait() {
    drop(stops_when_none());
}

/// Waits until no process is stopped, and then runs `work`. No process can be stopped before `work` returns.
pub fn when_none<R>(work: impl FnOnce() -> R) -> R {
    let _stops = stops_when_none();
    work()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_waits_for_a_stopped_process_and_keeps_others_from_being_stopped() {
        let (release, released) = mpsc::channel();
        let entry = Entry::new(release);
        assert!(is_any());
        let (done, is_done) = mpsc::channel();
        let suspended = std::thread::spawn(move || when_none(|| done.send(is_any_locked()).is_ok()));
        assert_eq!(is_done.recv_timeout(Duration::from_millis(100)), Err(mpsc::RecvTimeoutError::Timeout));
        // Requests may be repeated without harm.
        release_all();
        release_all();
        assert_eq!(released.recv_timeout(Duration::from_secs(60)), Ok(()));
        drop(entry);
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(true));
        assert!(suspended.join().is_ok_and(|sent| sent));
        wait();
    }

    /// Whether a process is stopped. The list is locked meanwhile, so that no process can be added.
    fn is_any_locked() -> bool {
        STOPS.try_lock().is_err()
    }
}
