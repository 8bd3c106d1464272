//! Handles keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli::screen::levels::Tab;
use crate::cli::screen::page::Page;
use crate::cli::screen::state::{Do, Over, State};

/// Keys and their effects, as listed in the help.
pub(super) const HELP: &[(&str, &str)] = &[
    ("up down j k", "move by a row; PgUp PgDn by a screen; Home End (g G) to the first or last row"),
    ("Enter right l", "open a row: its contents, or the answer of its command"),
    ("Esc Backspace left h", "go back; cancel a running command"),
    ("Tab 1 to 6", "switch tabs"),
    ("/", "filter rows by text; on a page: find text, n for the next match"),
    ("a", "type an address, to see what is there"),
    ("s", "change the sort order"),
    ("v", "change the view: by kind or region, by thread or stack, by use or arena"),
    ("r space", "running process: r takes a sample, space pauses"),
    ("m", "change the measure of memory: written, in the core, mapped"),
    ("w", "show warnings"),
    ("?", "show this help"),
    ("q Ctrl-C", "quit"),
];

/// Applies a key to the state. Returns what the loop has to do for it.
pub(super) fn press(state: &mut State, key: KeyEvent) -> Option<Do> {
    // Windows also reports released keys.
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => return Some(Do::Leave),
            KeyCode::Char('z') => return Some(Do::Suspend),
            KeyCode::Char('f') => return press(state, KeyCode::PageDown.into()),
            KeyCode::Char('b') => return press(state, KeyCode::PageUp.into()),
            KeyCode::Char('n') => return press(state, KeyCode::Down.into()),
            KeyCode::Char('p') => return press(state, KeyCode::Up.into()),
            // Some terminals send this for Backspace.
            KeyCode::Char('h') => return press(state, KeyCode::Backspace.into()),
            _ => return None,
        }
    }
    state.said = None;
    if let Some(address) = &mut state.going {
        match key.code {
            KeyCode::Char(c) => address.push(c),
            KeyCode::Backspace => drop(address.pop()),
            KeyCode::Esc => state.going = None,
            KeyCode::Enter => return state.go_to_address(),
            _ => {}
        }
        return None;
    }
    if state.typing {
        typed(state, key.code);
        return None;
    }
    if key.code == KeyCode::Char('q') {
        return Some(Do::Leave);
    }
    if state.over == Over::Help {
        state.over = Over::Nothing;
        return None;
    }
    match key.code {
        KeyCode::Char('?') | KeyCode::F(1) => state.over = Over::Help,
        KeyCode::Tab | KeyCode::BackTab => {
            let forward = key.code == KeyCode::Tab;
            let at = Tab::ALL.iter().position(|tab| *tab == state.tab).unwrap_or(0);
            let by = if forward { 1 } else { Tab::ALL.len() - 1 };
            return to_tab(state, Tab::ALL[(at + by) % Tab::ALL.len()]);
        }
        KeyCode::Char(c @ '1'..='9') => {
            let number = c as usize - '1' as usize;
            if let Some(&tab) = Tab::ALL.get(number) {
                return to_tab(state, tab);
            }
        }
        KeyCode::Char('w') => state.warnings(),
        KeyCode::Char('a') => state.going = Some(String::new()),
        code if state.page.is_some() => return on_page(state, code),
        code => return on_list(state, code),
    }
    None
}

/// Shows a tab, and closes the page in front of it.
fn to_tab(state: &mut State, tab: Tab) -> Option<Do> {
    let awaited = state.page.take().is_some_and(|page| page.since.is_some());
    let hurry = state.show(tab);
    if awaited { Some(Do::GiveUp) } else { hurry }
}

/// Leaves the list for the one that contains it.
fn back(state: &mut State) {
    if !state.leave() {
        state.said = Some("this is the first list; q quits".to_owned());
    }
}

fn on_list(state: &mut State, code: KeyCode) -> Option<Do> {
    let room = state.room.max(1) as isize;
    match code {
        KeyCode::Up | KeyCode::Char('k') => state.step(-1),
        KeyCode::Down | KeyCode::Char('j') => state.step(1),
        KeyCode::PageUp => state.step(-room),
        KeyCode::PageDown => state.step(room),
        KeyCode::Home | KeyCode::Char('g') => state.go(0),
        KeyCode::End | KeyCode::Char('G') => state.go(usize::MAX),
        KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => return state.enter(),
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Char('h') => back(state),
        KeyCode::Char('/') => state.typing = true,
        KeyCode::Char('s') => state.reorder(),
        KeyCode::Char('v') => state.regroup(),
        KeyCode::Char('m') => state.remeasure(),
        KeyCode::Char(' ') => return state.pause(),
        KeyCode::Char('r') if state.live.is_some() => return Some(Do::Look),
        KeyCode::Char('r') => state.said = Some("a core does not change".to_owned()),
        _ => {}
    }
    None
}

fn on_page(state: &mut State, code: KeyCode) -> Option<Do> {
    let room = state.room.max(1);
    let page = state.page.as_mut()?;
    match code {
        KeyCode::Up | KeyCode::Char('k') => page.step(-1, room),
        KeyCode::Down | KeyCode::Char('j') => page.step(1, room),
        KeyCode::PageUp => page.step(-(room as isize), room),
        KeyCode::PageDown | KeyCode::Char(' ') => page.step(room as isize, room),
        KeyCode::Home | KeyCode::Char('g') => page.top = 0,
        KeyCode::End | KeyCode::Char('G') => page.step(isize::MAX, room),
        KeyCode::Left | KeyCode::Char('h') => page.aside(-8),
        KeyCode::Right | KeyCode::Char('l') => page.aside(8),
        KeyCode::Char('/') => {
            page.find.clear();
            state.typing = true;
        }
        KeyCode::Char('n') => find(state, 1),
        KeyCode::Esc | KeyCode::Backspace => {
            let awaited = page.since.is_some();
            state.page = None;
            return awaited.then_some(Do::GiveUp);
        }
        _ => {}
    }
    None
}

/// Finds the text on the page, starting `below` lines below the first visible one.
fn find(state: &mut State, below: usize) {
    let room = state.room.max(1);
    let Some(page) = &mut state.page else { return };
    let from = page.top + below;
    if !page.find.is_empty() && !page.next(from, room) {
        state.said = Some(format!("'{}' not found below", page.find));
    }
}

/// Handles a key that is typed as text.
fn typed(state: &mut State, code: KeyCode) {
    if matches!(code, KeyCode::Up | KeyCode::Down) && state.page.is_none() {
        state.step(if code == KeyCode::Up { -1 } else { 1 });
        return;
    }
    let text = match &mut state.page {
        Some(Page { find, .. }) => find,
        None => &mut state.place().filter,
    };
    match code {
        KeyCode::Char(c) => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        KeyCode::Esc => {
            text.clear();
            state.typing = false;
        }
        KeyCode::Enter => {
            state.typing = false;
            find(state, 0);
        }
        _ => return,
    }
    if state.page.is_none() {
        state.select();
    }
}
