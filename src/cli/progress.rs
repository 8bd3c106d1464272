//! A bar on stderr for work that takes longer than half a second.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coremap::progress::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

static BAR: OnceLock<ProgressBar> = OnceLock::new();
static SHOWN: AtomicBool = AtomicBool::new(false);

/// A counter that draws itself once the work has taken a while.
pub(crate) fn progress() -> Progress {
    if !std::io::stderr().is_terminal() {
        return Progress::silent();
    }
    let begun = Instant::now();
    Progress::drawn(Box::new(move |done, total| {
        if begun.elapsed() < PATIENCE {
            return;
        }
        let bar = BAR.get_or_init(|| {
            let bar = ProgressBar::new(total);
            let form = if total > 0 {
                "{wide_bar} {binary_bytes} of {binary_total_bytes} {binary_bytes_per_sec} {eta}"
            } else {
                "{spinner} {binary_bytes} {binary_bytes_per_sec}"
            };
            if let Ok(style) = ProgressStyle::with_template(form) {
                bar.set_style(style);
            }
            SHOWN.store(true, Ordering::Relaxed);
            bar
        });
        if total > 0 {
            bar.set_length(total);
        }
        bar.set_position(done);
    }))
}

/// Take the bar off the terminal.
pub(crate) fn clear() {
    if SHOWN.load(Ordering::Relaxed)
        && let Some(bar) = BAR.get()
    {
        bar.finish_and_clear();
    }
}
