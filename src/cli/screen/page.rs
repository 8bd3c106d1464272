//! A text on the screen: the output of a command, the stack of a thread, or the warnings.

use std::time::Instant;

use coremap::program::printable;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// A text, which may not be available yet.
#[derive(Debug)]
pub(super) struct Page {
    /// Title: the command line that prints the same.
    pub(super) title: String,
    pub(super) lines: Vec<Line<'static>>,
    /// First visible line, and first visible column.
    pub(super) top: usize,
    pub(super) left: usize,
    /// Since when the text is awaited. `None` once it is available.
    pub(super) since: Option<Instant>,
    /// The text that was searched for.
    pub(super) find: String,
}

impl Page {
    /// A page whose text is not available yet.
    pub(super) fn awaited(title: String) -> Page {
        let since = Some(Instant::now());
        Page { title, lines: Vec::new(), top: 0, left: 0, since, find: String::new() }
    }

    /// A page with this text.
    pub(super) fn of(title: String, text: &str) -> Page {
        let mut page = Page::awaited(title);
        page.arrive(text);
        page
    }

    /// Sets the text.
    pub(super) fn arrive(&mut self, text: &str) {
        self.lines = text.lines().map(line).collect();
        self.since = None;
    }

    /// Scrolls by `by` lines.
    pub(super) fn step(&mut self, by: isize, room: usize) {
        self.top = self.top.saturating_add_signed(by).min(self.lines.len().saturating_sub(room));
    }

    /// Scrolls by `by` columns.
    pub(super) fn aside(&mut self, by: isize) {
        let widest = self.lines.iter().map(Line::width).max().unwrap_or(0);
        self.left = self.left.saturating_add_signed(by).min(widest.saturating_sub(1));
    }

    /// Scrolls to the next line, from line `from` on, that contains the searched text. Returns false if there is none.
    pub(super) fn next(&mut self, from: usize, room: usize) -> bool {
        let find = self.find.to_lowercase();
        let holds = |line: &Line<'_>| line.to_string().to_lowercase().contains(&find);
        let found = self.lines.iter().enumerate().skip(from).find(|(_, line)| holds(line)).map(|(at, _)| at);
        if let Some(at) = found.filter(|_| !find.is_empty()) {
            self.top = at.min(self.lines.len().saturating_sub(room));
        }
        found.is_some()
    }
}

/// Escape sequences that coremap's tables use, and their styles.
const STYLES: [(&str, Style); 4] = [
    ("\x1b[0m", Style::new()),
    ("\x1b[1m", Style::new().add_modifier(Modifier::BOLD)),
    ("\x1b[1;31m", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)),
    ("\x1b[35m", Style::new().fg(Color::Magenta)),
];

/// Converts a line of output. Any other escape sequence is shown as text and has no effect.
fn line(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    let mut rest = text;
    while !rest.is_empty() {
        let next = STYLES.iter().filter_map(|(mark, style)| Some((rest.find(mark)?, *mark, *style)));
        let next = next.min_by_key(|(at, ..)| *at);
        let (plain, mark, following) =
            next.map_or((rest, "", style), |(at, mark, style)| (rest.get(..at).unwrap_or_default(), mark, style));
        if !plain.is_empty() {
            spans.push(Span::styled(printable(plain).into_owned(), style));
        }
        rest = rest.get(plain.len() + mark.len()..).unwrap_or_default();
        style = following;
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_colours_are_kept_and_no_other_escape_is_obeyed() {
        let line = line("\x1b[1mKind\x1b[0m \x1b[1;31m!!\x1b[0m a\x1b[2Jb\x1b]0;title\x07");
        assert_eq!(line.to_string(), "Kind !! a\\x1b[2Jb\\x1b]0;title\\x07");
        assert_eq!(line.spans[0].style.add_modifier, Modifier::BOLD);
        assert_eq!(line.spans[2].style.fg, Some(Color::Red));
        assert_eq!(line.spans[3].style, Style::new());
    }

    #[test]
    fn a_page_stays_within_its_text() {
        let text: String = (0..10).map(|n| format!("line {n}\n")).collect();
        let mut page = Page::of("title".into(), &text);
        page.step(100, 4);
        assert_eq!(page.top, 6);
        page.step(-100, 4);
        assert_eq!(page.top, 0);
        page.aside(100);
        assert_eq!(page.left, 5);
        page.find = "LINE 3".into();
        assert!(page.next(0, 4));
        assert_eq!(page.top, 3);
        assert!(!page.next(4, 4));
    }
}
