//! Draws the facts about the selected row, and the last line: the current work, a message, or the keys.

use std::time::Duration;

use coremap::program::printable;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::cli::screen::draw::{BOLD, FAINT, lines, text};
use crate::cli::screen::look::Part;
use crate::cli::screen::state::{Over, State};

/// Minimum duration of work that is shown.
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) fn about(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let mut all = vec![Line::styled("─".repeat(width), FAINT)];
    if let Some(row) = state.row() {
        let sentences = state.level.as_ref().is_some_and(|level| level.sentences);
        if !sentences {
            all.extend(text::wrapped(&row.name, width).into_iter().map(|line| Line::styled(line, BOLD)));
        }
        // The command is last and always visible, because the user continues with it.
        let command = state.more().map(|line| labelled("more", &line, width)).unwrap_or_default();
        let room = usize::from(area.height).saturating_sub(command.len());
        all.extend(flowed(&row.about, width));
        all.truncate(room.max(1));
        all.extend(command);
    }
    lines(frame, area, all);
}

/// Formats the facts about a row, several to a line if they are short.
fn flowed(about: &[(&'static str, String)], width: usize) -> Vec<Line<'static>> {
    const GAP: &str = "   ";
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut have = 0;
    for (what, value) in about {
        let mut one = labelled(what, value, width);
        let takes = one.first().map_or(0, Line::width);
        match lines.last_mut() {
            Some(last) if one.len() == 1 && have > 0 && have + GAP.len() + takes <= width => {
                last.push_span(Span::raw(GAP));
                one.drain(..).flat_map(|line| line.spans).for_each(|span| last.push_span(span));
                have += GAP.len() + takes;
            }
            _ => {
                have = if one.len() == 1 { takes } else { 0 };
                lines.append(&mut one);
            }
        }
    }
    lines
}

/// Formats a label and its text, such as `Evidence: …`, in lines of the screen's width.
fn labelled(what: &str, value: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = text::wrapped(&format!("{what}: {value}"), width).into_iter();
    let first = lines.next().unwrap_or_default();
    let (what, value) = first.split_at(what.len().min(first.len()) + usize::from(first.len() > what.len()));
    let first = Line::from(vec![Span::styled(what.to_owned(), FAINT), Span::raw(value.to_owned())]);
    std::iter::once(first).chain(lines.map(Line::raw)).collect()
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let text = if let Some(address) = &state.going {
        format!("address: {}_   (Enter: show, Esc: cancel)", printable(address))
    } else if state.typing {
        let (what, typed) = match &state.page {
            Some(page) => ("find", &page.find),
            None => ("filter", state.places().last().map(|place| &place.filter).unwrap_or(&state.core)),
        };
        format!("{what}: {}_   (Enter: apply, Esc: cancel)", printable(typed))
    } else if let Some(said) = &state.said {
        said.clone()
    } else if let Some(doing) = doing(state) {
        doing
    } else {
        keys(state, width).to_owned()
    };
    lines(frame, area, [Line::styled(text::fitted(&text, width), BOLD)]);
}

/// Describes the current work, once it has taken a while.
fn doing(state: &State) -> Option<String> {
    let making = state.making.filter(|making| making.since.elapsed() >= PATIENCE)?;
    let what = match making.part {
        Part::Map => "the map",
        Part::Written => "written pages",
        Part::Findings => "findings",
        Part::Types => "types",
        Part::Threads => "threads",
        Part::Malloc => "malloc",
        Part::Retained => "retained sizes",
    };
    let (words, share) = making.doing;
    let share = share.map_or_else(String::new, |share| format!(" {:.0} %", share * 100.0));
    Some(format!("reading {what}: {words}{share}, {} s", making.since.elapsed().as_secs()))
}

/// The keys that matter here, as many as fit.
fn keys(state: &State, width: usize) -> &'static str {
    let all: [&str; 3] = match (state.over, &state.page) {
        (Over::Help, _) => ["any key: back   q quit", "any key: back", "?"],
        (_, Some(page)) if page.since.is_some() => ["Esc cancel   q quit", "Esc cancel", "Esc"],
        (_, Some(_)) => [
            "Esc back   arrows PgUp PgDn move   / find   n next   ? help   q quit",
            "Esc back  / find  ? help  q quit",
            "Esc ? q",
        ],
        _ => [
            "Enter open   Esc back   Tab next   / filter   s sort   v view   ? help   q quit",
            "Enter open  Esc back  ? help  q quit",
            "Enter Esc ? q",
        ],
    };
    all.into_iter().find(|text| text.len() <= width).unwrap_or_default()
}
