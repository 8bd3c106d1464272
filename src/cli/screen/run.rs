//! The loop: keys and news in, pictures out.

use std::io;
use std::path::Path;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use coremap::process::Process;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::style::force_color_output;

use crate::cli::args::{Colour, Common, Format};
use crate::cli::ask::open;
use crate::cli::output::look;
use crate::cli::progress::progress;
use crate::cli::screen::asked::Asked;
use crate::cli::screen::state::{Do, Making, State, Theme};
use crate::cli::screen::terminal::{self, Screen};
use crate::cli::screen::worker::{News, Worker};
use crate::cli::screen::{draw, keys, words};
use crate::cli::{Exit, Failure};

/// How often news are looked for while something is made, and while nothing is.
const BUSY: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_millis(500);

/// Look around in a core.
///
/// # Errors
/// Where there is no terminal, or no core.
pub(crate) fn explore(core: &Path, common: &Common) -> Result<Exit, Failure> {
    let instead = "`coremap triage CORE` and `coremap summary CORE` say the same as text";
    if common.form() == Format::Json {
        return Err(Failure::Usage(format!("there is no JSON of explore: it is a screen; {instead}")));
    }
    terminal::wanted("explore", instead)?;
    let process = open(core, common, &progress())?;
    let color = look(common).color;
    let theme = Theme { color, unicode: terminal::shows_unicode(), bars: common.color != Colour::Never };
    // Whether there are colours was decided: the library below would ask NO_COLOR once more.
    force_color_output(color);
    let state = State::new(core.display().to_string(), theme);
    let looked = Looking { state, common, core, asked: None }.run(process);
    // Also where it failed: what is said of that is to stand on the terminal as it was.
    terminal::give_back();
    looked.map_err(Failure::Output)?;
    Ok(Exit::Done)
}

/// One who looks.
struct Looking<'a> {
    state: State,
    common: &'a Common,
    core: &'a Path,
    /// The command that runs for the page.
    asked: Option<Asked>,
}

impl Looking<'_> {
    fn run(mut self, process: Process) -> io::Result<()> {
        let mut screen = Screen::take()?;
        let worker = Worker::of_core(process)?;
        let mut changed = true;
        loop {
            changed |= self.news(&worker) | self.answered();
            let waits = self.state.making.is_some() || self.asked.is_some();
            if changed || waits {
                if let Some(making) = &mut self.state.making {
                    making.doing = worker.doing();
                }
                screen.draw(|frame| draw::screen(&mut self.state, frame))?;
            }
            changed = event::poll(if waits { BUSY } else { IDLE })?;
            // All that was typed meanwhile, before the next picture.
            while event::poll(Duration::ZERO)? {
                let todo = match event::read()? {
                    Event::Key(key) => keys::press(&mut self.state, key),
                    _ => None,
                };
                match todo {
                    Some(Do::Leave) => return Ok(()),
                    Some(Do::Suspend) => suspend(&mut screen)?,
                    Some(Do::Hurry(part)) => worker.hurry(part),
                    Some(Do::Ask(words)) => self.ask(&words),
                    Some(Do::GiveUp) => {
                        self.asked = None;
                        self.state.said = Some("given up".to_owned());
                    }
                    None => {}
                }
            }
        }
    }

    /// What the worker tells; whether anything is to be drawn for it.
    fn news(&mut self, worker: &Worker) -> bool {
        let mut any = false;
        loop {
            match worker.news.try_recv() {
                Ok(News::Begun(part)) => {
                    self.state.making = Some(Making { part, since: Instant::now(), doing: worker.doing() });
                }
                Ok(News::Made(look)) => {
                    self.state.look.update(look);
                    self.state.refresh();
                }
                Err(TryRecvError::Empty) => return any,
                Err(TryRecvError::Disconnected) => return any | self.state.making.take().is_some(),
            }
            any = true;
        }
    }

    /// Run a command for a page of its own.
    fn ask(&mut self, words: &[String]) {
        if self.core.as_os_str() == "-" {
            let line = words::line(words, "CORE");
            self.state.said = Some(format!("the core came from standard input: save it, and ask {line}"));
            return;
        }
        match Asked::begin(words, self.core, self.common, self.state.columns, self.state.theme.color) {
            Ok(asked) => {
                let title = words::line(words, &self.state.core);
                self.state.page = Some(crate::cli::screen::page::Page::awaited(title));
                self.asked = Some(asked);
            }
            Err(e) => self.state.said = Some(format!("the command could not be run: {e}")),
        }
    }

    /// Whether the command has answered.
    fn answered(&mut self) -> bool {
        let Some((mut text, status)) = self.asked.as_mut().and_then(Asked::answer) else { return false };
        self.asked = None;
        if text.is_empty() {
            text = match status {
                Ok(status) => format!("(nothing was printed; {status})"),
                Err(e) => format!("(nothing was printed: {e})"),
            };
        }
        if let Some(page) = &mut self.state.page {
            page.arrive(&text);
        }
        true
    }
}

/// Let the shell have the terminal, as any program does for Ctrl-Z.
#[cfg(unix)]
fn suspend(screen: &mut Screen) -> io::Result<()> {
    terminal::give_back();
    // Comes back when the shell lets us go on.
    signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
    screen.take_again()
}

#[cfg(windows)]
fn suspend(_: &mut Screen) -> io::Result<()> {
    Ok(())
}
