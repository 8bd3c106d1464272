//! Draws a list: its title, the column titles, and the rows.

use coremap::program::printable;
use coremap::program::units::{count, human};
use coremap::render::{Align, bar};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::screen::draw::{BOLD, FAINT, lines, text};
use crate::cli::screen::level::{Level, Mark, Row};
use crate::cli::screen::state::State;

/// Columns of a bar, and the screen width from which on a bar has twice as many.
const BAR: usize = 10;
const WIDE: usize = 120;

/// Ranks of the share and of its bar among the columns.
const SHARE: u8 = 1;
const BARRED: u8 = 4;

/// Minimum columns of a long name, and of a sentence, before other columns are dropped.
const NAME: usize = 24;
const SENTENCE: usize = 30;

/// Maximum number of rows measured for column widths. So the widths stay the same during scrolling, and a list of a
/// million rows is drawn as fast as a short one.
const MEASURED: usize = 2000;

/// Layout of a list's columns on the screen.
struct Form {
    marks: bool,
    trend: bool,
    /// Widths of the bytes, of shares and of bars. 0 if not shown.
    bytes: usize,
    share: usize,
    bar: usize,
    /// Index and width of each further column.
    cells: Vec<(usize, usize)>,
    name: usize,
}

pub(super) fn draw(state: &mut State, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let mut above = vec![title(state, width)];
    let Some(level) = &state.level else {
        above.push(Line::raw(""));
        above.push(Line::raw("  not read yet"));
        state.room = 1;
        return lines(frame, area, above);
    };
    if let Some(note) = &level.note {
        let room = if area.height > 10 { 2 } else { 1 };
        above.extend(text::wrapped(note, width).into_iter().take(room).map(|line| Line::styled(line, FAINT)));
    }
    let form = form(level, &state.seen, width, state.theme.bars);
    above.push(Line::styled(titles(level, &form), BOLD));
    let head = above.len().min(usize::from(area.height));
    let room = usize::from(area.height) - head;
    let last = state.places().last();
    let mut cursor = last.map(|place| place.cursor.clone()).unwrap_or_default();
    let here = cursor.at;
    let brief = brief(state, level, &form, room);
    let height = |at: usize| {
        let row = state.seen.get(at).and_then(|at| level.rows.get(*at));
        row.map_or(1, |row| names(level, row, &form, if at == here { usize::MAX } else { brief }).len())
    };
    cursor.scroll(room, &height);
    if state.seen.is_empty() {
        let filtered = last.is_some_and(|place| !place.filter.is_empty());
        above.push(Line::raw(""));
        above.push(Line::raw(if filtered { "  no row matches" } else { "  empty" }));
    }
    let shown = state.seen.iter().enumerate().skip(cursor.top);
    let shown = shown.filter_map(|(at, row)| Some((at == cursor.at, level.rows.get(*row)?)));
    let rows: Vec<Line<'_>> =
        shown.flat_map(|(here, row)| drawn(level, row, &form, (here, brief), state.theme.color)).take(room).collect();
    lines(frame, area, above.into_iter().chain(rows));
    state.room = room;
    state.place().cursor = cursor;
}

/// Draws the path to this list, its total, and how it is sorted and filtered.
fn title(state: &State, width: usize) -> Line<'static> {
    let names: Vec<String> = std::iter::once(state.tab.name().to_owned())
        .chain(state.places().iter().skip(1).map(|place| printable(&place.title).into_owned()))
        .collect();
    let mut notes = Vec::new();
    let grouping = state.tab.groupings().get(state.grouping()).copied().unwrap_or_default();
    if !grouping.is_empty() && names.len() == 1 {
        notes.push(grouping.to_owned());
    }
    if let Some(level) = &state.level {
        let all = level.rows.len();
        let noun = |n: usize| count(n as u64, level.noun);
        let seen = state.seen.len();
        notes.push(if seen == all { noun(all) } else { format!("{seen} of {}", noun(all)) });
        // Findings may be parts of each other, so they have no sum.
        if !level.measure.is_empty() && !level.sentences {
            let of = level.measure.to_lowercase();
            let of = if of == "bytes" { String::new() } else { format!(" {of}") };
            notes.push(format!("{}{of}", human(level.bytes())));
        }
        if state.sort() != level.sort {
            notes.push(state.sort().name().to_owned());
        }
    }
    let filter = state.places().last().map(|place| place.filter.as_str()).unwrap_or_default();
    if !filter.is_empty() {
        notes.push(format!("/{}", printable(filter)));
    }
    let notes = format!("  {}", notes.join(" · "));
    let room = width.saturating_sub(text::width(&notes)).max(width / 3);
    let path = text::cut(&names.join(" › "), room, coremap::render::Cut::Middle);
    let notes = text::fitted(&notes, width.saturating_sub(text::width(&path)));
    Line::from(vec![Span::styled(path, BOLD), Span::styled(notes, FAINT)])
}

/// Chooses the columns that fit, and their widths.
fn form(level: &Level, seen: &[usize], width: usize, bars: bool) -> Form {
    let measured = || seen.iter().take(MEASURED).filter_map(|at| level.rows.get(*at));
    let widest =
        |title: &str, of: &dyn Fn(&Row) -> usize| measured().map(of).max().unwrap_or(0).max(text::width(title));
    let weighed = !level.measure.is_empty();
    let shared = measured().any(|row| row.share.is_some());
    let mut form = Form {
        trend: level.rows.iter().any(|row| row.since_last.is_some()),
        marks: level.rows.iter().any(|row| row.mark != Mark::None),
        bytes: if weighed { widest(level.measure, &|row| size(row.bytes).len()) } else { 0 },
        share: if shared { "100.0 %".len() } else { 0 },
        bar: if shared && bars && !level.sentences { if width >= WIDE { 2 * BAR } else { BAR } } else { 0 },
        cells: Vec::new(),
        name: 0,
    };
    let cell = |at: usize| move |row: &Row| row.cells.get(at).map_or(0, |cell| text::width(cell));
    form.cells =
        level.columns.iter().enumerate().map(|(at, column)| (at, widest(column.title, &cell(at)).min(40))).collect();
    let least = if level.sentences { SENTENCE } else { NAME.min(widest(level.name, &|row| text::width(&row.name))) };
    loop {
        let taken = form.before_name();
        form.name = width.saturating_sub(taken);
        if form.name >= least {
            return form;
        }
        let rank = |at: usize| level.columns.get(at).map_or(0, |column| column.rank);
        let worst = form.cells.iter().enumerate().map(|(place, (at, _))| (rank(*at), place)).max();
        match worst {
            // The bar is dropped before any column of its rank.
            Some((rank, _)) if form.bar > 0 && BARRED >= rank => form.bar = 0,
            None if form.bar > 0 => form.bar = 0,
            Some((rank, _)) if form.share > 0 && SHARE > rank => form.share = 0,
            Some((rank, place)) if rank > 0 => drop(form.cells.remove(place)),
            _ if form.share > 0 => form.share = 0,
            _ => return form,
        }
    }
}

impl Form {
    /// Number of columns before the name.
    fn before_name(&self) -> usize {
        let gap = |columns: usize| if columns > 0 { columns + 1 } else { 0 };
        let cells: usize = self.cells.iter().map(|(_, width)| width + 2).sum();
        2 + if self.marks { 3 } else { 0 }
            + if self.trend { 2 } else { 0 }
            + gap(self.bytes)
            + gap(self.share)
            + gap(self.bar)
            + cells
    }

    /// Formats a line up to the name.
    fn line(&self, bytes: &str, share: &str, bar: &str, cell: &dyn Fn(usize, usize) -> String) -> String {
        let mut line = String::new();
        if self.bytes > 0 {
            line.push_str(&format!("{bytes:>width$} ", width = self.bytes));
        }
        if self.share > 0 {
            line.push_str(&format!("{share:>width$} ", width = self.share));
        }
        if self.bar > 0 {
            line.push_str(bar);
            line.push(' ');
        }
        for &(at, width) in &self.cells {
            line.push_str(&cell(at, width));
            line.push_str("  ");
        }
        line
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), human)
}

/// Pads a cell to its width.
fn filled(cell: &str, width: usize, align: Align) -> String {
    let cell = text::fitted(cell, width);
    let blank = " ".repeat(width.saturating_sub(text::width(&cell)));
    if align == Align::Right { blank + &cell } else { cell + &blank }
}

fn titles(level: &Level, form: &Form) -> String {
    let cell = |at: usize, width: usize| {
        level.columns.get(at).map(|column| filled(column.title, width, column.align)).unwrap_or_default()
    };
    let marks = [if form.marks { "   " } else { "" }, if form.trend { "  " } else { "" }].concat();
    let before = form.line(level.measure, "%", &" ".repeat(form.bar), &cell);
    format!("  {marks}{before}{}", level.name)
}

/// Minimum and maximum number of lines of a sentence that is not selected.
const BRIEF: usize = 2;
const MAX_BRIEF: usize = 12;

/// Number of lines of a sentence that is not selected: as many as fit if all rows are visible.
fn brief(state: &State, level: &Level, form: &Form, room: usize) -> usize {
    if !level.sentences || state.seen.len() > room {
        return BRIEF;
    }
    let rows = state.seen.iter().filter_map(|at| level.rows.get(*at));
    let heights: Vec<usize> = rows.map(|row| names(level, row, form, usize::MAX).len()).collect();
    let fits = |brief: &usize| heights.iter().map(|lines| lines.min(brief)).sum::<usize>() <= room;
    (BRIEF..=MAX_BRIEF).rev().find(fits).unwrap_or(BRIEF)
}

/// Formats the name of a row, in at most `limit` lines if it is a sentence.
fn names(level: &Level, row: &Row, form: &Form, limit: usize) -> Vec<String> {
    if !level.sentences {
        return vec![text::cut(&row.name, form.name, level.cut)];
    }
    let mut lines = text::wrapped(&row.name, form.name);
    if lines.len() > limit {
        let rest = lines.split_off(limit.saturating_sub(1)).join(" ");
        lines.push(text::fitted(&rest, form.name));
    }
    lines
}

fn drawn(level: &Level, row: &Row, form: &Form, (here, brief): (bool, usize), color: bool) -> Vec<Line<'static>> {
    let share = row.share.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0));
    let drawn = row.share.map_or_else(|| " ".repeat(form.bar), |share| bar(share, form.bar));
    let cell = |at: usize, width: usize| {
        let align = level.columns.get(at).map_or(Align::Left, |column| column.align);
        filled(row.cells.get(at).map(String::as_str).unwrap_or_default(), width, align)
    };
    let bytes = if row.bytes.is_none() && level.sentences { String::new() } else { size(row.bytes) };
    let before = form.line(&bytes, &share, &drawn, &cell);
    let (mark, style) = match row.mark {
        Mark::Critical => ("!! ", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)),
        Mark::Warning => ("!  ", Style::new().fg(Color::Magenta)),
        Mark::Info => ("·  ", Style::new()),
        Mark::None => ("   ", Style::new()),
    };
    let (trend, grows) = match row.since_last {
        Some(1..) => ("▲ ", Style::new().fg(Color::Magenta)),
        Some(..=-1) => ("▼ ", Style::new()),
        _ => ("  ", Style::new()),
    };
    let [style, grows] = [style, grows].map(|style| if color { style } else { Style::new() });
    let whole = if here { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let indent = form.before_name();
    let line = |(at, name): (usize, String)| {
        let blank = " ".repeat(form.name.saturating_sub(text::width(&name)));
        let spans = if at == 0 {
            let here = Span::raw(if here { "> " } else { "  " });
            let mark = Span::styled(if form.marks { mark } else { "" }, style);
            let trend = Span::styled(if form.trend { trend } else { "" }, grows);
            vec![here, mark, trend, Span::raw(format!("{before}{name}{blank}"))]
        } else {
            vec![Span::raw(format!("{:indent$}{name}{blank}", ""))]
        };
        Line::from(spans).style(whole)
    };
    names(level, row, form, if here { usize::MAX } else { brief }).into_iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screen::level::Column;

    fn level() -> Level {
        let row = |name: &str, bytes| Row {
            name: name.into(),
            bytes: Some(bytes),
            cells: vec!["12".into(), "345.00 MiB".into()],
            ..Row::default()
        };
        Level {
            measure: "Written",
            name: "Kind",
            columns: vec![Column::number("Regions", 5), Column::number("Mapped", 3)],
            rows: vec![row("GCHeap", 3 << 20), row("HighFrequencyHeap", 1 << 20)],
            ..Level::default()
        }
        .with_shares()
    }

    #[test]
    fn what_says_least_goes_first_and_the_bytes_stay() {
        let level = level();
        let at = |width: usize| form(&level, &[0, 1], width, true);
        let cells = |form: &Form| form.cells.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        let (wide, narrow) = (at(80), at(40));
        assert_eq!((cells(&wide), wide.bar, wide.share > 0), (vec![0, 1], BAR, true));
        assert_eq!((cells(&at(60)), at(60).bar), (vec![1], BAR));
        assert!(cells(&narrow).is_empty() && narrow.bar == 0 && narrow.bytes > 0, "{}", narrow.name);
        assert!(narrow.name >= 17);
        // At any width: no panic, and nothing but the bytes exceeds the screen.
        for width in 0..40 {
            let form = at(width);
            assert!(drawn(&level, &level.rows[1], &form, (true, BRIEF), true).len() == 1);
        }
        assert_eq!(at(200).bar, 2 * BAR);
        assert_eq!(form(&level, &[0, 1], 80, false).bar, 0);
    }

    #[test]
    fn a_row_says_what_the_report_says() {
        let level = level();
        let form = form(&level, &[0, 1], 80, true);
        let line = drawn(&level, &level.rows[0], &form, (true, BRIEF), false)[0].to_string();
        assert_eq!(line.trim_end(), "> 3.00 MiB  75.0 % ███████▌        12  345.00 MiB  GCHeap");
        assert_eq!(titles(&level, &form), "   Written       %            Regions      Mapped  Kind");
    }
}
