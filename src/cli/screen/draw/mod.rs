//! Draws the screen: a head, the tabs, a list or a page, facts about the selected row, and a line at the bottom.

mod foot;
mod head;
mod list;
mod text;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::screen::keys::HELP;
use crate::cli::screen::state::{Over, State};

pub(super) use text::wrapped;

/// Minimum screen height for facts about the row, and the minimum and maximum number of their lines.
const HIGH: u16 = 18;
const ABOUT: (u16, u16) = (4, 9);

/// Styles of lines that are not rows.
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

pub(super) fn screen(state: &mut State, frame: &mut Frame<'_>) {
    let area = frame.area();
    state.columns = area.width;
    let mut rest = area;
    let mut take = |lines: u16| {
        let lines = lines.min(rest.height);
        let taken = Rect { height: lines, ..rest };
        rest = Rect { y: rest.y + lines, height: rest.height - lines, ..rest };
        taken
    };
    // On a low screen, the lines below are more important than the lines above.
    let [first, second, tabs] = [take(u16::from(area.height > 5)), take(u16::from(area.height > 9)), take(1)];
    let main = rest;
    head::draw(state, frame, first, second, tabs);
    let (main, foot) = (Rect { height: main.height.saturating_sub(1), ..main }, main);
    let foot = Rect { y: foot.y + main.height, height: foot.height.min(1), ..foot };
    if state.over == Over::Help {
        help(frame, main);
    } else if state.page.is_some() {
        page(state, frame, main);
    } else {
        let about = if area.height >= HIGH { (area.height / 4).clamp(ABOUT.0, ABOUT.1) } else { 0 };
        let about = about.min(main.height);
        let (above, below) = (main.height - about, about);
        list::draw(state, frame, Rect { height: above, ..main });
        foot::about(state, frame, Rect { y: main.y + above, height: below, ..main });
    }
    foot::draw(state, frame, foot);
    if !state.theme.unicode {
        text::in_ascii(frame.buffer_mut());
    }
}

/// Draws lines from the top of an area down.
fn lines<'a>(frame: &mut Frame<'_>, area: Rect, lines: impl IntoIterator<Item = Line<'a>>) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        frame.buffer_mut().set_line(area.x, y, &line, area.width);
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = HELP.iter().map(|(keys, _)| keys.len()).max().unwrap_or(0);
    // Beside the keys, or below them if there is not enough room.
    let beside = usize::from(area.width) >= width + 30;
    let indent = if beside { width + 3 } else { 4 };
    let room = usize::from(area.width).saturating_sub(indent);
    let mut all = vec![Line::styled("Keys", BOLD)];
    for (keys, does) in HELP {
        let does = wrapped(does, room.max(10));
        let mut does = does.into_iter();
        if beside {
            let first = does.next().unwrap_or_default();
            all.push(Line::from(vec![Span::styled(format!(" {keys:<width$}  "), BOLD), Span::raw(first)]));
        } else {
            all.push(Line::styled(format!(" {keys}"), BOLD));
        }
        all.extend(does.map(|line| Line::raw(format!("{:indent$}{line}", ""))));
    }
    lines(frame, area, all);
}

fn page(state: &mut State, frame: &mut Frame<'_>, area: Rect) {
    let Some(page) = &mut state.page else { return };
    let room = usize::from(area.height.saturating_sub(1));
    state.room = room;
    page.step(0, room);
    let title = text::fitted(&page.title, usize::from(area.width));
    let mut all = vec![Line::styled(title, BOLD)];
    if let Some(since) = page.since {
        all.push(Line::raw(""));
        let waits = format!("  running for {} s; Esc cancels", since.elapsed().as_secs());
        all.push(Line::raw(waits));
    }
    let shown = page.lines.iter().skip(page.top).take(room);
    let left = page.left;
    let found = page.find.to_lowercase();
    all.extend(shown.map(|line| {
        let holds = !found.is_empty() && line.to_string().to_lowercase().contains(&found);
        let line = text::from_column(line, left);
        if holds { line.style(Style::new().add_modifier(Modifier::UNDERLINED)) } else { line }
    }));
    lines(frame, area, all);
}
