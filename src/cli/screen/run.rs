//! The loop: handles keys and news, and draws the screen.

use std::io;
use std::path::Path;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use coremap::process::Process;
use coremap::session::Session;
use coremap::targets::Producer;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::style::force_color_output;

use crate::cli::args::{Colour, Common, Format};
use crate::cli::ask::open;
use crate::cli::output::look;
use crate::cli::progress::progress;
use crate::cli::screen::asked::Asked;
use crate::cli::screen::clock::Clock;
use crate::cli::screen::levels::Tab;
use crate::cli::screen::look::{Look, Part};
use crate::cli::screen::page::Page;
use crate::cli::screen::state::{Do, Live, Making, State, Theme};
use crate::cli::screen::terminal::{self, Screen};
use crate::cli::screen::worker::{News, Source, Worker};
use crate::cli::screen::{draw, keys, words};
use crate::cli::{Exit, Failure, interrupt};

/// Interval of checks for news while the worker is busy, and while it is idle.
const BUSY: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_millis(250);
const SECOND: Duration = Duration::from_secs(1);

/// Commands that print the same as text.
const INSTEAD: &str = "`coremap triage CORE` and `coremap summary CORE` print the same as text";

/// Shows a core, or one sample of a running process.
///
/// # Errors
/// Fails if there is no terminal, or the core cannot be opened.
pub(crate) fn explore(core: &Path, common: &Common) -> Result<Exit, Failure> {
    begin("explore", core, common, None)
}

/// Shows a running process, sampled every `every`.
///
/// # Errors
/// Fails if there is no terminal, or no such process.
pub(crate) fn top(process: &Path, common: &Common, every: Duration) -> Result<Exit, Failure> {
    begin("top", process, common, Some(every))
}

fn begin(command: &'static str, core: &Path, common: &Common, every: Option<Duration>) -> Result<Exit, Failure> {
    if common.form() == Format::Json {
        return Err(Failure::Usage(format!("{command} is interactive and has no JSON; {INSTEAD}")));
    }
    if every.is_some() && core.is_file() {
        let why = "top needs a running process (--pid N); for a core use `coremap explore CORE`";
        return Err(Failure::Usage(why.to_owned()));
    }
    terminal::wanted(command, INSTEAD)?;
    // Errors of opening are reported before the terminal is taken.
    let process = open(core, common, &progress())?;
    let runs = process.facts().producer == Producer::Live;
    let color = look(common).color;
    let theme = Theme { color, unicode: terminal::shows_unicode(), bars: common.color != Colour::Never };
    // The use of colours is already decided; the library would check NO_COLOR
    // again.
    force_color_output(color);
    let mut state = State::new(command, core.display().to_string(), theme);
    if runs {
        let clock = Clock::new(every.unwrap_or_default(), Instant::now());
        state.live =
            Some(Live { clock, again: every.is_some(), first: Look::default(), last: Look::default(), failed: None });
        state.tab = Tab::Memory;
    }
    let looking = Looking { state, common, core, session: None, asked: None, next: None };
    // The process resumes here, and is opened again for each sample.
    let looked = if runs {
        drop(process);
        looking.run(|| Worker::of_process(Source::new(core.to_owned(), common)))
    } else {
        // Threads that answer cannot be ended, so the core stays open as long as the program runs.
        let process: &'static Process = Box::leak(Box::new(process));
        let session: &'static Session<'static> = Box::leak(Box::new(Session::new(process)));
        Looking { session: Some(session), ..looking }.run(|| Worker::of_core(session))
    };
    // Also after an error, whose message belongs on the restored terminal.
    terminal::give_back();
    looked.map_err(Failure::Output)?;
    Ok(Exit::Done)
}

struct Looking<'a> {
    state: State,
    common: &'a Common,
    core: &'a Path,
    /// The open core. `None` for a running process.
    session: Option<&'static Session<'static>>,
    /// The command that runs for the page.
    asked: Option<Asked>,
    /// A command that waits until the sample is taken, because only one process
    /// may trace the target.
    next: Option<Vec<String>>,
}

impl Looking<'_> {
    fn run(mut self, begin: impl FnOnce() -> io::Result<Worker>) -> io::Result<()> {
        let mut screen = Screen::take()?;
        let worker = begin()?;
        let mut drawn: Option<Instant> = None;
        loop {
            let mut changed = self.news(&worker) | self.answered() | screen.clear_if_resized()?;
            self.tick(&worker);
            let waits = self.state.making.is_some() || self.asked.is_some();
            // Anything that counts seconds is redrawn as they pass.
            let counts = waits || self.state.live.is_some();
            changed |= drawn.is_none_or(|at| counts && at.elapsed() >= if waits { BUSY } else { SECOND });
            if changed {
                if let Some(making) = &mut self.state.making {
                    making.doing = worker.doing();
                }
                screen.draw(|frame| draw::screen(&mut self.state, frame))?;
                drawn = Some(Instant::now());
            }
            if !event::poll(if waits { BUSY } else { IDLE })? {
                continue;
            }
            // Handles all keys typed so far before the next drawing.
            while event::poll(Duration::ZERO)? {
                let todo = match event::read()? {
                    Event::Key(key) => keys::press(&mut self.state, key),
                    Event::Resize(..) => {
                        screen.set_resized();
                        None
                    }
                    _ => None,
                };
                match todo {
                    Some(Do::Leave) => return Ok(()),
                    Some(Do::Suspend) => suspend(&mut screen)?,
                    Some(Do::Hurry(part)) => self.hurry(part, &worker),
                    Some(Do::Look) => self.look(&worker),
                    Some(Do::Ask(words)) => self.ask(words),
                    Some(Do::GiveUp) => {
                        (self.asked, self.next) = (None, None);
                        self.state.said = Some("cancelled".to_owned());
                    }
                    None => {}
                }
            }
            drawn = None;
        }
    }

    /// Starts what is due now.
    fn tick(&mut self, worker: &Worker) {
        let Some(live) = &self.state.live else {
            return self.ask_next();
        };
        let (looking, due) = (live.clock.looking, live.clock.is_due(Instant::now()));
        let first = live.clock.looks == 0;
        if !looking && self.next.is_some() {
            self.ask_next();
        } else if due && (live.again || first) && self.asked.is_none() {
            self.look(worker);
        }
    }

    /// Makes a part as soon as possible.
    fn hurry(&mut self, part: Part, worker: &Worker) {
        match self.state.live {
            Some(_) => self.look(worker),
            None => worker.order(vec![part]),
        }
    }

    /// Samples the process again for the visible list. The map is always
    /// included.
    fn look(&mut self, worker: &Worker) {
        let part = self.state.part();
        let Some(live) = &mut self.state.live else { return };
        if live.clock.looking || self.asked.is_some() {
            return;
        }
        live.clock.begin();
        let mut parts = vec![Part::Map];
        parts.extend([part].into_iter().filter(|&part| part != Part::Map));
        worker.order(parts);
    }

    /// Handles the worker's news. Returns whether to redraw.
    fn news(&mut self, worker: &Worker) -> bool {
        let mut any = false;
        loop {
            match worker.news.try_recv() {
                Ok(News::Begun(part)) => {
                    self.state.making = Some(Making { part, since: Instant::now(), doing: worker.doing() });
                }
                Ok(News::Made(look, cost)) => {
                    self.state.making = None;
                    self.state.arrive(look, cost);
                    // The user has changed to another tab in the meantime.
                    if self.state.live.is_some() && self.state.level.is_none() {
                        self.look(worker);
                    }
                }
                Ok(News::Failed(why)) => {
                    self.state.making = None;
                    self.state.fail(why);
                }
                Err(TryRecvError::Empty) => return any,
                Err(TryRecvError::Disconnected) => return any | self.state.making.take().is_some(),
            }
            any = true;
        }
    }

    /// Runs a command and shows its output on a page.
    fn ask(&mut self, words: Vec<String>) {
        self.state.page = Some(Page::awaited(words::line(&words, &self.state.core)));
        self.next = Some(words);
    }

    fn ask_next(&mut self) {
        let Some(words) = self.next.take() else { return };
        let (columns, color) = (self.state.columns, self.state.theme.color);
        let asked = match (self.session, self.common.color, color) {
            (Some(session), Colour::Never, _) => {
                Asked::on_open_core(&words, session, self.core, (columns, Colour::Never))
            }
            (Some(session), _, true) => Asked::on_open_core(&words, session, self.core, (columns, Colour::Always)),
            // No colours, but unlike `never` bar charts.
            (Some(session), _, false) => Asked::on_open_core(&words, session, self.core, (columns, Colour::Auto)),
            (None, ..) => Asked::begin(&words, self.core, self.common, columns, color),
        };
        match asked {
            Ok(asked) => self.asked = Some(asked),
            Err(e) => {
                self.state.page = None;
                self.state.said = Some(format!("the command could not be run: {e}"));
            }
        }
    }

    /// Whether the command has answered.
    fn answered(&mut self) -> bool {
        let Some(text) = self.asked.as_mut().and_then(Asked::answer) else { return false };
        self.asked = None;
        if let Some(page) = &mut self.state.page {
            page.arrive(&text);
        }
        true
    }
}

/// Returns the terminal to the shell, as for Ctrl-Z.
#[cfg(unix)]
fn suspend(screen: &mut Screen) -> io::Result<()> {
    terminal::give_back();
    // This returns when the shell continues the program.
    interrupt::suspend();
    screen.take_again()
}

#[cfg(windows)]
fn suspend(_: &mut Screen) -> io::Result<()> {
    Ok(())
}
