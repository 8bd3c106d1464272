//! The terminal: taken for the screen, and given back as it was, also where the program is ended by a signal or panics.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};

use crate::cli::Failure;

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Held while something is written to it: nothing may come behind what gives it back.
static WRITING: Mutex<()> = Mutex::new(());

/// How long a signal waits for a picture that is being written, in tries of a millisecond. Who reads the terminal may
/// have stopped reading.
const TRIES: u32 = 100;

/// A picture is written at once, so that no half of it is seen.
const PICTURE: usize = 64 << 10;

type Drawn = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal, as long as it is ours.
pub(super) struct Screen {
    terminal: Drawn,
}

impl Screen {
    /// Take the terminal.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn take() -> io::Result<Screen> {
        Ok(Screen { terminal: taken()? })
    }

    /// Take it once more after it was given back.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        self.terminal = taken()?;
        Ok(())
    }

    /// The terminal has another size, or had one meanwhile: nothing of what was drawn need be there.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn resize(&mut self) -> io::Result<()> {
        let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if TAKEN.load(Ordering::SeqCst) {
            let size = self.terminal.size()?;
            self.terminal.resize(Rect::from((Position::ORIGIN, size)))?;
        }
        Ok(())
    }

    /// Draw a picture; nothing where the terminal was given back meanwhile.
    ///
    /// # Errors
    /// Those of the terminal.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        if TAKEN.load(Ordering::SeqCst) {
            self.terminal.draw(picture)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// The terminal with nothing on it. ratatui's own `Terminal::clear` asks the terminal where its cursor is, and one that
/// does not answer would be none that we could draw on.
fn taken() -> io::Result<Drawn> {
    let out = BufWriter::with_capacity(PICTURE, io::stdout());
    // A signal that comes in between waits, and gives back what was taken.
    let _held = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All), Hide)?;
    Terminal::new(CrosstermBackend::new(out))
}

/// Give the terminal back as it was, if it is ours. From any thread, and while it panics.
pub(crate) fn give_back() {
    // A picture that this very thread is drawing when it panics is never done: no longer than this.
    let _held = (0..TRIES).find_map(|_| match WRITING.try_lock() {
        Ok(held) => Some(held),
        Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
        Err(TryLockError::WouldBlock) => {
            thread::sleep(Duration::from_millis(1));
            None
        }
    });
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
    }
}

/// That there is a terminal to draw on. `instead`: what says the same as text.
///
/// # Errors
/// A sentence where there is none.
pub(super) fn wanted(command: &str, instead: &str) -> Result<(), Failure> {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if io::stdout().is_terminal() && !dumb {
        return Ok(());
    }
    let what = if dumb { "this terminal cannot draw (TERM=dumb)" } else { "stdout is not a terminal" };
    Err(Failure::Usage(format!("{command} is interactive, but {what}; {instead}")))
}

/// Whether the terminal shows more than ASCII, as the locale says: of these the first that is set and not empty
/// (POSIX, Base Definitions, 8.2). Windows' consoles do.
pub(super) fn shows_unicode() -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let locale = names.map(|value| value.to_string_lossy().to_lowercase()).find(|value| !value.is_empty());
    cfg!(windows) || locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}
