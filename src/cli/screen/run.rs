//! The loop: keys and news in, pictures out.

use std::io;
use std::path::Path;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

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
use crate::cli::{Exit, Failure};

/// How often news are looked for while something is made, and while nothing is.
const BUSY: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_millis(250);
const SECOND: Duration = Duration::from_secs(1);

/// What says the same as text.
const INSTEAD: &str = "`coremap triage CORE` and `coremap summary CORE` print the same as text";

/// Look around in a core, or once in a process that runs.
///
/// # Errors
/// Where there is no terminal, or no core.
pub(crate) fn explore(core: &Path, common: &Common) -> Result<Exit, Failure> {
    begin("explore", core, common, None)
}

/// Look at a process that runs, every so often.
///
/// # Errors
/// Where there is no terminal, or no such process.
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
    // What can't be opened is told before the terminal is taken.
    let process = open(core, common, &progress())?;
    let runs = process.facts().producer == Producer::Live;
    let color = look(common).color;
    let theme = Theme { color, unicode: terminal::shows_unicode(), bars: common.color != Colour::Never };
    // Whether there are colours was decided: the library below would ask NO_COLOR once more.
    force_color_output(color);
    let mut state = State::new(command, core.display().to_string(), theme);
    if runs {
        let clock = Clock::new(every.unwrap_or_default(), Instant::now());
        state.live =
            Some(Live { clock, again: every.is_some(), first: Look::default(), last: Look::default(), failed: None });
        state.tab = Tab::Memory;
    }
    let looking = Looking { state, common, core, asked: None, next: None };
    // From here on it runs again, and is opened for each look.
    let looked = if runs {
        drop(process);
        looking.run(|| Worker::of_process(Source::new(core.to_owned(), common)))
    } else {
        looking.run(|| Worker::of_core(process))
    };
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
    /// A command that waits until the look is over: only one may look at a process that runs.
    next: Option<Vec<String>>,
}

impl Looking<'_> {
    fn run(mut self, begin: impl FnOnce() -> io::Result<Worker>) -> io::Result<()> {
        let mut screen = Screen::take()?;
        let worker = begin()?;
        let mut drawn: Option<Instant> = None;
        loop {
            let mut changed = self.news(&worker) | self.answered();
            self.tick(&worker);
            let waits = self.state.making.is_some() || self.asked.is_some();
            // What counts seconds is drawn anew as they pass.
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
            // All that was typed meanwhile, before the next picture.
            while event::poll(Duration::ZERO)? {
                let todo = match event::read()? {
                    Event::Key(key) => keys::press(&mut self.state, key),
                    Event::Resize(..) => {
                        screen.resize()?;
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

    /// What is due now.
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

    /// Let a part be made soon.
    fn hurry(&mut self, part: Part, worker: &Worker) {
        match self.state.live {
            Some(_) => self.look(worker),
            None => worker.order(vec![part]),
        }
    }

    /// Look once more, at what is seen; the map is always part of it.
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

    /// What the worker tells; whether anything is to be drawn for it.
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
                    // Another tab was gone to meanwhile.
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

    /// Run a command for a page of its own.
    fn ask(&mut self, words: Vec<String>) {
        if self.core.as_os_str() == "-" {
            let line = words::line(&words, "CORE");
            self.state.said = Some(format!("the core came from standard input; save it and run {line}"));
            return;
        }
        self.state.page = Some(Page::awaited(words::line(&words, &self.state.core)));
        self.next = Some(words);
    }

    fn ask_next(&mut self) {
        let Some(words) = self.next.take() else { return };
        match Asked::begin(&words, self.core, self.common, self.state.columns, self.state.theme.color) {
            Ok(asked) => self.asked = Some(asked),
            Err(e) => {
                self.state.page = None;
                self.state.said = Some(format!("the command could not be run: {e}"));
            }
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
