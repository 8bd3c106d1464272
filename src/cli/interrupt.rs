//! Handles signals that end the program, so that nothing is left behind on the terminal or on the disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coremap::program::stops;

use crate::cli::{console, progress, screen};

/// Maximum time to wait until the terminal has taken the last text.
const MAX_FLUSH: Duration = Duration::from_millis(200);

/// File to remove if the program is ended now.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Thread to wake at the first signal, which then does not end the program.
static ENDING_THREAD: Mutex<Option<std::thread::Thread>> = Mutex::new(None);

/// Whether that thread was woken by a signal.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Thread to wake at each Ctrl-C, which then does not end the program.
#[cfg(unix)]
static QUESTIONER: Mutex<Option<std::thread::Thread>> = Mutex::new(None);

/// Whether Ctrl-C was pressed since the last question.
#[cfg(unix)]
static INTERRUPTED_NOW: AtomicBool = AtomicBool::new(false);

/// From here on, Ctrl-C only sets [`take_interrupt`] and wakes this thread.
#[cfg(all(unix, feature = "prompt"))]
pub(crate) fn interrupt_questions() {
    *QUESTIONER.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
}

/// Whether Ctrl-C was pressed since the last call.
#[cfg(all(unix, feature = "prompt"))]
pub(crate) fn take_interrupt() -> bool {
    INTERRUPTED_NOW.swap(false, Ordering::AcqRel)
}

/// Wakes the thread that asks questions. Returns false if there is none.
#[cfg(unix)]
fn wake_questioner() -> bool {
    let thread = QUESTIONER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(thread) = &*thread else { return false };
    INTERRUPTED_NOW.store(true, Ordering::Release);
    thread.unpark();
    true
}

/// From here on, the first signal that would end the program only sets [`is_ending`] and wakes this thread. The second
/// one ends the program.
pub(crate) fn end_by_myself() {
    *ENDING_THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
}

/// Whether a signal requested the program to end.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Wakes the thread that ends the program itself. Returns false if there is none, or if it was woken before.
fn wake_ending_thread() -> bool {
    let thread = ENDING_THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(thread) = &*thread else { return false };
    let first = !ENDING.swap(true, Ordering::AcqRel);
    thread.unpark();
    first
}

/// Locks the unfinished file. While the lock is held, none of these signals ends the program.
pub(crate) fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores the terminal and removes the unfinished file.
fn clean_up() -> MutexGuard<'static, Option<PathBuf>> {
    // A stopped process must not wait for the terminal.
    stops::release_all();
    progress::clear();
    console::flush_within(MAX_FLUSH);
    screen::give_back();
    // The lock is held to the end, so that no file is made in between.
    let unfinished = unfinished();
    if let Some(path) = &*unfinished {
        let _ = std::fs::remove_file(path);
    }
    unfinished
}

/// From here on, signals clean up before they end the program. If no thread can be started for that, signals have their
/// default effect.
#[cfg(unix)]
pub(crate) fn clean_up_when_ended() {
    use std::sync::Arc;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    // With this handler, a write beyond `ulimit -f` fails instead of ending the program.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let ending = not_ignored([SIGINT, SIGTERM, SIGHUP]);
    let (begun, waits) = std::sync::mpsc::channel();
    let begun = std::thread::Builder::new().name("signals".into()).stack_size(256 << 10).spawn(move || {
        let Ok(mut signals) = Signals::new(ending) else { return };
        let _ = begun.send(());
        for signal in signals.forever() {
            if (signal == SIGINT && wake_questioner()) || wake_ending_thread() {
                continue;
            }
            let _held = clean_up();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    if begun.is_ok() {
        // A terminal taken before the handler is ready would not be restored. If the thread gives up, this returns too.
        let _ = waits.recv();
    }
}

/// From here on, Ctrl-Z and a terminal that suspends jobs in the background suspend the program only while no process
/// is stopped. Otherwise nobody would resume that process.
#[cfg(unix)]
pub(crate) fn suspend_between_stops() {
    use signal_hook::consts::{SIGTSTP, SIGTTIN, SIGTTOU};
    use signal_hook::iterator::Signals;

    let suspending = not_ignored([SIGTSTP, SIGTTIN, SIGTTOU]);
    // Without this thread, the signals keep their default effect.
    let _ = std::thread::Builder::new().name("suspend".into()).stack_size(256 << 10).spawn(move || {
        let Ok(mut signals) = Signals::new(suspending) else { return };
        loop {
            if signals.wait().next().is_some() {
                suspend();
                // A read or a write in the background repeats its signal until the program is suspended.
                signals.pending().for_each(drop);
            }
        }
    });
}

/// Suspends the program when no process is stopped. Returns when it is continued.
#[cfg(unix)]
pub(crate) fn suspend() {
    // SIGTSTP's default effect is that of SIGSTOP. An error leaves the program running.
    let _ = stops::when_none(|| signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP));
}

/// The same for Ctrl-C and a closed window, the only such events on Windows.
#[cfg(windows)]
pub(crate) fn clean_up_when_ended() {
    let _ = ctrlc::set_handler(|| {
        if wake_ending_thread() {
            return;
        }
        let _held = clean_up();
        std::process::exit(INTERRUPTED);
    });
}

/// STATUS_CONTROL_C_EXIT, the exit status of a program that Ctrl-C ends.
#[cfg(windows)]
const INTERRUPTED: i32 = 0xc000_013a_u32 as i32;

/// Returns `signals` without those that the program was started to ignore, as `nohup` does.
#[cfg(unix)]
fn not_ignored(signals: [i32; 3]) -> impl Iterator<Item = i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // One bit per signal.
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.into_iter().filter(move |s| ignored & (1 << (s - 1)) == 0)
}
