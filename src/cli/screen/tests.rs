//! Builds lists from reports of recorded cores, and draws all of them.

use std::path::Path;

use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use crate::cli::screen::level::{Level, Opens};
use crate::cli::screen::levels::{Measure, Tab, View, level};
use crate::cli::screen::look::{Look, Part};
use crate::cli::screen::state::{Do, State, Theme};
use crate::cli::screen::{draw, keys};

const CORES: [&str; 4] = ["native-malloc-gcore", "dotnet8-objects", "python314", "java17-threads"];

fn look(core: &str) -> Look {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores").join(core);
    let file = ["core.zst", "core.gz", "core.xz"].iter().map(|name| folder.join(name)).find(|path| path.exists());
    let progress = Progress::silent();
    let Ok(process) = Process::open(&file.unwrap_or_default(), &Options::default(), &progress) else {
        panic!("{core} can't be opened")
    };
    let session = Session::new(&process);
    let mut look = Look::default();
    for part in Part::ALL {
        look.make(part, &session, &progress);
    }
    look.finish(&session);
    look
}

const THEME: Theme = Theme { color: true, unicode: true, bars: true };

fn state(look: &Look) -> State {
    let mut state = State::new("explore", "some/core".to_owned(), THEME);
    state.arrive(look.clone(), None);
    state
}

fn at(look: &Look, tab: Tab, grouping: usize, measure: Option<Measure>, path: &[String]) -> Level {
    let view = View { tab, grouping, measure, path };
    level(view, look).unwrap_or_else(|| panic!("there is no {tab:?} at {path:?}"))
}

fn press(state: &mut State, code: KeyCode) -> Option<Do> {
    keys::press(state, KeyEvent::from(code))
}

fn drawn(state: &mut State, columns: u16, rows: u16) -> Vec<String> {
    // Drawing into memory cannot fail, as its error type shows.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let Ok(_) = terminal.draw(|frame| draw::screen(state, frame));
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..rows).map(line).collect()
}

#[test]
fn what_is_beneath_a_row_adds_up_to_it() {
    for core in CORES {
        let look = look(core);
        let Some(map) = &look.map else { panic!("{core} has no map") };
        assert!(Measure::known(map).contains(&Measure::Written), "{core}");
        for measure in Measure::known(map).into_iter().map(Some) {
            let kinds = at(&look, Tab::Memory, 0, measure, &[]);
            let regions = at(&look, Tab::Memory, 1, measure, &[]);
            assert_eq!(kinds.bytes(), regions.bytes(), "{core} {measure:?}");
            for kind in &kinds.rows {
                let inside = at(&look, Tab::Memory, 0, measure, std::slice::from_ref(&kind.key));
                assert_eq!(Some(inside.bytes()), kind.bytes, "{core} {measure:?} {}", kind.name);
                for owner in inside.rows.iter().filter(|row| row.opens == Opens::Level) {
                    let path = [kind.key.clone(), owner.key.clone()];
                    assert_eq!(Some(at(&look, Tab::Memory, 0, measure, &path).bytes()), owner.bytes, "{core} {path:?}");
                }
            }
        }
        let total = &map.summary.total;
        assert_eq!(at(&look, Tab::Memory, 0, Some(Measure::Mapped), &[]).bytes(), total.size, "{core}");
        assert_eq!(at(&look, Tab::Memory, 0, Some(Measure::InCore), &[]).bytes(), total.in_core, "{core}");
        // triage counted this in its own scan, pages that are mapped twice only once.
        let written = look.findings.as_ref().map(|report| report.written + report.second_views);
        assert_eq!(Some(at(&look, Tab::Memory, 0, Some(Measure::Written), &[]).bytes()), written, "{core}");
    }
}

#[test]
fn the_parts_of_malloc_are_what_is_committed() {
    for core in CORES {
        let look = look(core);
        let Some(malloc) = &look.malloc else { panic!("{core} has no malloc") };
        for grouping in [0, 1] {
            let parts = at(&look, Tab::Malloc, grouping, None, &[]);
            assert_eq!(parts.bytes(), malloc.total.committed, "{core} {grouping}");
        }
        let free = at(&look, Tab::Malloc, 0, None, &["free".to_owned()]);
        assert_eq!(free.bytes(), malloc.total.free_bytes, "{core}");
    }
}

#[test]
fn threads_are_listed_once_and_have_their_stacks() {
    for core in CORES {
        let look = look(core);
        let Some(threads) = &look.threads else { panic!("{core} has no threads") };
        let list = at(&look, Tab::Threads, 0, None, &[]);
        let tids: Vec<u32> = list
            .rows
            .iter()
            .filter_map(|row| if let Opens::Stack(tid) = row.opens { Some(tid) } else { None })
            .collect();
        let mut all: Vec<u32> = threads.threads.threads.iter().map(|thread| thread.tid).collect();
        let mut listed = tids.clone();
        listed.sort_unstable();
        all.sort_unstable();
        assert_eq!(listed, all, "{core}");
        let groups = at(&look, Tab::Threads, 1, None, &[]);
        let counted: u64 = groups.rows.iter().filter_map(|row| row.count).sum();
        assert_eq!(counted, all.len() as u64, "{core}");
        // Enter shows the frames of this thread.
        let mut state = state(&look);
        state.show(Tab::Threads);
        while state.row().is_some_and(|row| row.opens != Opens::Stack(tids[0])) {
            press(&mut state, KeyCode::Down);
        }
        press(&mut state, KeyCode::Enter);
        let Some(page) = &state.page else { panic!("{core}: no page") };
        let text: String = page.lines.iter().map(|line| format!("{line}\n")).collect();
        let frames = threads.threads.groups.iter().flatten().find(|group| group.tids.contains(&tids[0]));
        for frame in frames.iter().flat_map(|group| &group.frames).take(3) {
            let name = frame.method.as_ref().map(|name| name.to_string()).unwrap_or_default();
            let start: String = name.chars().take(20).collect();
            assert!(text.contains(&start), "{core}: {name}\n{text}");
        }
    }
}

#[test]
fn types_have_the_counts_of_the_report_and_questions_beneath() {
    let look = look("dotnet8-objects");
    let Some(types) = &look.types else { panic!("no types") };
    let list = at(&look, Tab::Types, 0, None, &[]);
    // Free space is no type, and its blocks are no objects.
    assert_eq!(list.rows.len() + 1, types.types.len());
    assert_eq!(list.bytes() + types.free.size, types.total.size);
    let objects = list.rows.iter().filter_map(|row| row.count).sum::<u64>();
    assert_eq!(objects + types.free.objects, types.total.objects);
    let Some(array) = list.rows.iter().find(|row| row.name.ends_with("[]")) else { panic!("no array") };
    let questions = at(&look, Tab::Types, 0, None, std::slice::from_ref(&array.key));
    let words: Vec<&[String]> = questions.rows.iter().filter_map(|row| row.command.as_deref()).collect();
    assert_eq!(words.len(), questions.rows.len());
    // The expression matches only this name.
    let Some([_, _, expression]) = words.first() else { panic!("{words:?}") };
    let Ok(expression) = regex::Regex::new(expression) else { panic!("{expression}") };
    let fits: Vec<&str> =
        list.rows.iter().map(|row| row.name.as_str()).filter(|name| expression.is_match(name)).collect();
    assert_eq!(fits, [array.name.as_str()]);
}

#[test]
fn every_list_is_drawn_on_every_screen() {
    for core in CORES {
        let look = look(core);
        for (number, tab) in Tab::ALL.into_iter().enumerate() {
            let mut state = state(&look);
            press(&mut state, KeyCode::Char(char::from(b'1' + number as u8)));
            assert_eq!(state.tab, tab);
            for (columns, rows) in [(80, 24), (120, 40), (200, 50), (40, 12), (20, 5), (3, 3), (1, 1)] {
                for code in [KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Home, KeyCode::Char('s')] {
                    press(&mut state, code);
                    drawn(&mut state, columns, rows);
                }
            }
            // The selected row is always on the screen.
            for _ in 0..40 {
                press(&mut state, KeyCode::Down);
                let picture = drawn(&mut state, 80, 24);
                let marked = picture.iter().filter(|line| line.starts_with("> ")).count();
                assert_eq!(marked, usize::from(!state.seen.is_empty()), "{core} {tab:?}: {picture:#?}");
            }
        }
    }
}

#[test]
fn a_list_says_how_much_it_is_and_a_row_what_it_is() {
    let look = look("native-malloc-gcore");
    let mut state = state(&look);
    press(&mut state, KeyCode::Char('2'));
    let picture = drawn(&mut state, 120, 40);
    let Some(map) = &look.map else { panic!("no map") };
    let list = at(&look, Tab::Memory, 0, Some(Measure::Written), &[]);
    let title = format!("{} kinds · {} written", map.summary.kinds.len(), coremap::program::units::human(list.bytes()));
    assert!(picture.iter().any(|line| line.contains(&title)), "{title}: {picture:#?}");
    let Some(row) = state.row() else { panic!("no row") };
    let exactly = format!("written: {} bytes", coremap::program::units::exact(row.bytes.unwrap_or(0)));
    assert!(picture.iter().any(|line| line.contains(&exactly)), "{exactly}: {picture:#?}");
    assert!(picture.iter().any(|line| line.contains("more: coremap regions --kind")), "{picture:#?}");
    // Its share is relative to the sum.
    let share = row.bytes.unwrap_or(0) as f64 * 100.0 / list.bytes() as f64;
    assert!(picture.iter().any(|l| l.starts_with('>') && l.contains(&format!("{share:.1} %"))), "{picture:#?}");
}

#[test]
fn keys_go_in_and_out_and_leave() {
    let look = look("dotnet8-objects");
    let mut state = state(&look);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Do::Leave));
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.tab, Tab::Memory);
    press(&mut state, KeyCode::Enter);
    assert_eq!(state.places().len(), 2);
    press(&mut state, KeyCode::Esc);
    assert_eq!(state.places().len(), 1);
    // The previous position is restored.
    press(&mut state, KeyCode::Down);
    let key = state.row().map(|row| row.key.clone());
    press(&mut state, KeyCode::Enter);
    press(&mut state, KeyCode::Backspace);
    assert_eq!(state.row().map(|row| row.key.clone()), key);
    // Enter on a region of the managed heap leads to its types, and on another one to what it is.
    press(&mut state, KeyCode::Char('v'));
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    let Some(Do::Ask(words)) = press(&mut state, KeyCode::Enter) else { panic!("nothing is asked") };
    assert_eq!(words[..2], ["heapstat", "--region"]);
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::End);
    let Some(Do::Ask(words)) = press(&mut state, KeyCode::Enter) else { panic!("nothing is asked") };
    assert_eq!(words[0], "whatis");
    // An address is typed on any list.
    press(&mut state, KeyCode::Char('a'));
    for c in "0x7fq".chars() {
        assert_eq!(press(&mut state, KeyCode::Char(c)), None);
    }
    press(&mut state, KeyCode::Backspace);
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Do::Ask(vec!["whatis".to_owned(), "0x7f".to_owned()])));
    assert_eq!(state.going, None);
    press(&mut state, KeyCode::Home);
    // Typed characters are text, even q.
    press(&mut state, KeyCode::Char('/'));
    for c in "qzzz".chars() {
        assert_eq!(press(&mut state, KeyCode::Char(c)), None);
    }
    assert!(state.seen.is_empty());
    press(&mut state, KeyCode::Enter);
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    press(&mut state, KeyCode::Esc);
    assert!(!state.seen.is_empty());
    // A tab requests the part that it lacks.
    let mut empty = State::new("explore", "some/core".to_owned(), THEME);
    assert_eq!(press(&mut empty, KeyCode::Char('5')), Some(Do::Hurry(Part::Malloc)));
    assert!(drawn(&mut empty, 80, 24).iter().any(|line| line.contains("not read yet")));
}
