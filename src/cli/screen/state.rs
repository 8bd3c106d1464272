//! The user's position: the tab, the opened rows, the selected row, and anything shown above the list.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use coremap::commands::threads::ThreadsReport;
use coremap::program::printable;
use coremap::render::{self, DrawOptions as Form, Render};

use crate::cli::screen::clock::{Clock, Cost};
use crate::cli::screen::cursor::Cursor;
use crate::cli::screen::level::{Level, Opens, Row, Sort};
use crate::cli::screen::levels::{Measure, Tab, View, level};
use crate::cli::screen::look::{Look, Part};
use crate::cli::screen::page::Page;
use crate::cli::screen::words;

/// What the loop has to do for a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Do {
    Leave,
    /// Return the terminal to the shell for a while.
    Suspend,
    /// Make this part next.
    Hurry(Part),
    Look,
    /// Run this command and show its output.
    Ask(Vec<String>),
    GiveUp,
}

/// An opened list.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// Key of the row that was opened. Empty for the first list of a tab.
    pub(super) key: String,
    /// Name of that row.
    pub(super) title: String,
    pub(super) cursor: Cursor,
    /// Text that rows must contain to be visible.
    pub(super) filter: String,
    /// The order that the user chose.
    pub(super) sort: Option<Sort>,
}

/// What is shown above the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Over {
    #[default]
    Nothing,
    Help,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) color: bool,
    pub(super) unicode: bool,
    pub(super) bars: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Making {
    pub(super) part: Part,
    pub(super) since: Instant,
    /// Description, and the finished share.
    pub(super) doing: (&'static str, Option<f64>),
}

/// State that only a running process has.
pub(super) struct Live {
    pub(super) clock: Clock,
    /// Whether samples are repeated automatically.
    pub(super) again: bool,
    /// The first sample of each part, and the one before the current sample.
    pub(super) first: Look,
    pub(super) last: Look,
    /// Why the last sample failed.
    pub(super) failed: Option<String>,
}

/// Everything that is drawn.
pub(super) struct State {
    /// Name of the command: explore or top.
    pub(super) command: &'static str,
    /// The core as the user named it.
    pub(super) core: String,
    pub(super) look: Look,
    pub(super) tab: Tab,
    /// The opened lists of each tab. The last is visible.
    places: [Vec<Place>; Tab::ALL.len()],
    /// Index of each tab's grouping.
    groupings: [usize; Tab::ALL.len()],
    /// Measure of memory, if the user chose one.
    pub(super) measure: Option<Measure>,
    /// The visible list. `None` if its report is not available yet.
    pub(super) level: Option<Level>,
    /// Indices of its visible rows, in order.
    pub(super) seen: Vec<usize>,
    pub(super) page: Option<Page>,
    pub(super) over: Over,
    /// Whether keys are typed as text, for the filter or for a search on a page.
    pub(super) typing: bool,
    /// The address that is being typed.
    pub(super) going: Option<String>,
    /// A message at the bottom, until the next key.
    pub(super) said: Option<String>,
    pub(super) making: Option<Making>,
    pub(super) live: Option<Live>,
    pub(super) theme: Theme,
    /// Width of the screen, and rows of a list or page that fit, at the last drawing.
    pub(super) columns: u16,
    pub(super) room: usize,
}

impl State {
    /// The initial state: the first tab, with no report available.
    pub(super) fn new(command: &'static str, core: String, theme: Theme) -> State {
        State {
            command,
            core,
            look: Look::default(),
            tab: Tab::Findings,
            places: std::array::from_fn(|_| vec![Place::default()]),
            groupings: [0; Tab::ALL.len()],
            measure: None,
            level: None,
            seen: Vec::new(),
            page: None,
            over: Over::Nothing,
            typing: false,
            going: None,
            said: None,
            making: None,
            live: None,
            theme,
            columns: 80,
            room: 10,
        }
    }

    fn number(&self) -> usize {
        Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or(0)
    }

    /// The opened lists of the current tab.
    pub(super) fn places(&self) -> &[Place] {
        self.places.get(self.number()).map(Vec::as_slice).unwrap_or_default()
    }

    fn places_mut(&mut self) -> &mut Vec<Place> {
        let number = self.number();
        &mut self.places[number]
    }

    /// The visible list's position. There always is one.
    pub(super) fn place(&mut self) -> &mut Place {
        let places = self.places_mut();
        if places.is_empty() {
            places.push(Place::default());
        }
        let last = places.len() - 1;
        &mut places[last]
    }

    /// Index of the tab's grouping.
    pub(super) fn grouping(&self) -> usize {
        self.groupings.get(self.number()).copied().unwrap_or(0)
    }

    pub(super) fn sort(&self) -> Sort {
        let asked = self.places().last().and_then(|place| place.sort);
        asked.or(self.level.as_ref().map(|level| level.sort)).unwrap_or_default()
    }

    pub(super) fn row(&self) -> Option<&Row> {
        let at = self.places().last()?.cursor.at;
        self.level.as_ref()?.rows.get(*self.seen.get(at)?)
    }

    /// Rebuilds the list, after its report or the view has changed.
    pub(super) fn refresh(&mut self) {
        loop {
            let path: Vec<String> = self.places().iter().skip(1).map(|place| place.key.clone()).collect();
            let view = View { tab: self.tab, grouping: self.grouping(), measure: self.measure, path: &path };
            self.level = level(view, &self.look);
            // Only lists with bytes can grow; findings are sentences that change.
            let weighed = self.level.as_ref().is_some_and(|level| !level.measure.is_empty() && !level.sentences);
            if let (Some(now), Some(live), true) = (&mut self.level, &self.live, weighed) {
                let (first, last) = (level(view, &live.first), level(view, &live.last));
                now.compare(first.as_ref(), last.as_ref());
            }
            // The opened row is gone.
            if self.level.is_none() && !path.is_empty() {
                self.places_mut().pop();
                continue;
            }
            break;
        }
        self.select();
    }

    /// Takes over a new sample.
    pub(super) fn arrive(&mut self, look: Look, cost: Option<Cost>) {
        if let Some(live) = &mut self.live {
            // For a part that is shown for the first time, this sample is the first.
            let mut first = look.clone();
            first.update(std::mem::take(&mut live.first));
            live.first = first;
            live.last.update(self.look.replaced_by(&look));
            live.clock.end(cost, Instant::now());
            live.failed = None;
        }
        self.look.update(look);
        self.refresh();
    }

    /// Records why a sample failed.
    pub(super) fn fail(&mut self, why: String) {
        if let Some(live) = &mut self.live {
            live.clock.end(None, Instant::now());
            live.failed = Some(why);
        }
    }

    /// Chooses and sorts the visible rows.
    pub(super) fn select(&mut self) {
        let sort = self.sort();
        let filter = self.place().filter.clone();
        self.seen = self.level.as_ref().map(|level| level.seen(sort, &filter)).unwrap_or_default();
        let rows = self.level.as_ref().map(|level| level.rows.as_slice()).unwrap_or_default();
        let keys: Vec<String> = self.seen.iter().filter_map(|at| Some(rows.get(*at)?.key.clone())).collect();
        self.place().cursor.keep(keys.iter().map(String::as_str));
        self.hold();
    }

    /// Remembers the selected row. A selection of the first row stays at the first row, whichever that becomes.
    fn hold(&mut self) {
        let first = self.place().cursor.at == 0;
        let key = self.row().filter(|_| !first).map(|row| row.key.clone());
        self.place().cursor.key = key;
    }

    pub(super) fn step(&mut self, by: isize) {
        let rows = self.seen.len();
        self.place().cursor.step(by, rows);
        self.hold();
    }

    /// Selects row `at`, or the last one.
    pub(super) fn go(&mut self, at: usize) {
        let rows = self.seen.len();
        self.place().cursor.go(at, rows);
        self.hold();
    }

    pub(super) fn show(&mut self, tab: Tab) -> Option<Do> {
        self.tab = tab;
        self.refresh();
        self.level.is_none().then(|| Do::Hurry(self.part()))
    }

    /// The part that the tab needs. For a running process, the findings are those of the map, without reading all
    /// memory.
    pub(super) fn part(&self) -> Part {
        match self.tab.part() {
            Part::Findings if self.live.is_some() => Part::Map,
            part => part,
        }
    }

    /// Changes to the next grouping.
    pub(super) fn regroup(&mut self) {
        let ways = self.tab.groupings().len();
        if ways < 2 {
            self.said = Some(format!("{} has only one view", self.tab.name()));
            return;
        }
        let number = self.number();
        self.groupings[number] = (self.groupings[number] + 1) % ways;
        self.places[number] = vec![Place::default()];
        self.refresh();
    }

    /// Pauses or resumes sampling.
    pub(super) fn pause(&mut self) -> Option<Do> {
        match &mut self.live {
            Some(live) if live.again => live.clock.paused = !live.clock.paused,
            Some(_) => return Some(Do::Look),
            None => self.said = Some("a core does not change".to_owned()),
        }
        None
    }

    /// Changes the measure of memory.
    pub(super) fn remeasure(&mut self) {
        if self.tab != Tab::Memory {
            self.said = Some("m changes the measure in the tab Memory only".to_owned());
            return;
        }
        let Some(map) = &self.look.map else { return };
        let all = Measure::known(map);
        let at = self.measure.and_then(|now| all.iter().position(|measure| *measure == now)).unwrap_or(0);
        self.measure = all.get((at + 1) % all.len().max(1)).copied();
        self.refresh();
    }

    /// Changes to the next order.
    pub(super) fn reorder(&mut self) {
        let Some(sorts) = self.level.as_ref().map(Level::sorts) else { return };
        let now = self.sort();
        let at = sorts.iter().position(|sort| *sort == now).unwrap_or(0);
        let Some(&next) = sorts.get((at + 1) % sorts.len().max(1)) else { return };
        self.place().sort = Some(next);
        self.said = Some(format!("sorted {}", next.name()));
        self.select();
    }

    pub(super) fn enter(&mut self) -> Option<Do> {
        let row = self.row()?;
        let (key, title) = (row.key.clone(), row.name.clone());
        match (&row.opens, &row.command) {
            (Opens::Nothing, _) | (Opens::Command, None) => {
                self.said = Some("nothing to open in this row".to_owned());
                None
            }
            (Opens::Level | Opens::Questions, _) => {
                self.places_mut().push(Place { key, title, ..Place::default() });
                self.refresh();
                None
            }
            (Opens::Command, Some(words)) => Some(Do::Ask(words.clone())),
            (&Opens::Stack(tid), _) => {
                self.page = self.stack(tid);
                None
            }
        }
    }

    /// Asks what is at the typed address.
    pub(super) fn go_to_address(&mut self) -> Option<Do> {
        let address = self.going.take()?.trim().to_owned();
        (!address.is_empty()).then(|| Do::Ask(vec!["whatis".to_owned(), address]))
    }

    /// Closes the list. Returns false if it is the first one.
    pub(super) fn leave(&mut self) -> bool {
        if self.places().len() > 1 {
            self.places_mut().pop();
            self.refresh();
            return true;
        }
        if !self.place().filter.is_empty() {
            self.place().filter.clear();
            self.select();
            return true;
        }
        false
    }

    /// The command line that shows more about the row.
    pub(super) fn more(&self) -> Option<String> {
        self.row()?.command.as_ref().map(|words| words::line(words, &self.core))
    }

    /// A page with the stack of a thread, as `threads` shows it.
    fn stack(&self, tid: u32) -> Option<Page> {
        let report = &self.look.threads.as_ref()?.threads;
        let mut thread = report.threads.iter().find(|thread| thread.tid == tid)?.clone();
        let of: HashMap<u32, _> = report
            .groups
            .iter()
            .flatten()
            .flat_map(|group| group.tids.iter().map(move |&tid| (tid, &group.frames)))
            .collect();
        if let Some(frames) = of.get(&tid) {
            thread.frames.clone_from(frames);
        }
        let one = ThreadsReport {
            threads: vec![thread],
            process_cpu_ms: None,
            groups: None,
            virtual_threads: None,
            executors: Vec::new(),
            findings: Vec::new(),
            runtime_libraries: BTreeSet::new(),
        };
        let form = Form { width: Some(usize::from(self.columns)), color: self.theme.color, bars: false };
        let mut text = Vec::new();
        // Writing into memory does not fail.
        let _ = render::write(&one.document(), form, &mut text);
        let words = ["threads".to_owned(), "--tid".to_owned(), tid.to_string()];
        Some(Page::of(words::line(&words, &self.core), String::from_utf8_lossy(&text).trim_start_matches('\n')))
    }

    /// Shows a page with the warnings.
    pub(super) fn warnings(&mut self) {
        let mut text = String::new();
        let mut unique: Vec<String> = Vec::new();
        for warning in self.look.warnings.iter() {
            // Several parts may have the same warning.
            let line = printable(&format!("{}: {}", warning.code, warning.message)).into_owned();
            if !unique.contains(&line) {
                text.push_str(&format!("{line}\n\n"));
                unique.push(line);
            }
        }
        if text.is_empty() {
            text.push_str("No warnings so far.\n");
        }
        let mut page = Page::of("warnings".to_owned(), "");
        let width = usize::from(self.columns);
        let lines = text.lines().flat_map(|line| crate::cli::screen::draw::wrapped(line, width));
        page.arrive(&lines.collect::<Vec<_>>().join("\n"));
        self.page = Some(page);
    }
}
