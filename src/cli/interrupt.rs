//! Signals that end the program: nothing is left behind, neither on the terminal nor
//! on the disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cli::{progress, screen};

/// A file that is to be removed where the program is ended now.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// What asks to be told of the first signal in place of being ended by it.
static WHO_ENDS_ITSELF: Mutex<Option<std::thread::Thread>> = Mutex::new(None);

/// Whether it was told.
static ENDING: AtomicBool = AtomicBool::new(false);

/// From here on the first signal that would end the program only says so ([`is_ending`]) and wakes this thread; the second ends it.
pub(crate) fn end_by_myself() {
    *WHO_ENDS_ITSELF.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
}

/// Whether a signal asked the program to end itself.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Tell who ends itself; `false`: nobody does, or it was told already.
fn told() -> bool {
    let who = WHO_ENDS_ITSELF.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(thread) = &*who else { return false };
    let first = !ENDING.swap(true, Ordering::AcqRel);
    thread.unpark();
    first
}

/// What is unfinished. As long as this is held, no signal of those ends the program.
pub(crate) fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing of ours stays: neither on the terminal, nor an unfinished file.
fn clean_up() -> MutexGuard<'static, Option<PathBuf>> {
    progress::clear();
    screen::give_back();
    // Held to the end, so that no file is made in between.
    let unfinished = unfinished();
    if let Some(path) = &*unfinished {
        let _ = std::fs::remove_file(path);
    }
    unfinished
}

/// From here on clean up first. Where there can be no thread for that, signals end the
/// program as they do by themselves.
#[cfg(unix)]
pub(crate) fn clean_up_when_ended() {
    use std::sync::Arc;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    // Beyond `ulimit -f` a write is an error then, and no end.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let ignored = ignored();
    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |s| ignored & (1 << (s - 1)) == 0);
    let (begun, waits) = std::sync::mpsc::channel();
    let begun = std::thread::Builder::new().name("signals".into()).stack_size(256 << 10).spawn(move || {
        let Ok(mut signals) = Signals::new(ending) else { return };
        let _ = begun.send(());
        for signal in signals.forever() {
            if told() {
                continue;
            }
            let _held = clean_up();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    if begun.is_ok() {
        // A terminal that is taken before that would not be given back. Where the thread gives up, this ends too.
        let _ = waits.recv();
    }
}

/// The same for Ctrl-C and a window that is closed, which are all that Windows has.
#[cfg(windows)]
pub(crate) fn clean_up_when_ended() {
    let _ = ctrlc::set_handler(|| {
        if told() {
            return;
        }
        let _held = clean_up();
        std::process::exit(INTERRUPTED);
    });
}

/// STATUS_CONTROL_C_EXIT, which a program has that Ctrl-C ends.
#[cfg(windows)]
const INTERRUPTED: i32 = 0xc000_013a_u32 as i32;

/// Signals that whoever started the program had it ignore, as `nohup` does; a bit each.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
