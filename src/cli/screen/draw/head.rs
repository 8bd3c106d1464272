//! The first lines: which core, what of it is there, and the tabs.

use coremap::bytes::printable;
use coremap::render::Cut;
use coremap::report::CoreRow;
use coremap::units::{count, human};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::screen::draw::{BOLD, FAINT, lines, text};
use crate::cli::screen::levels::Tab;
use crate::cli::screen::state::State;

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, first: Rect, second: Rect, tabs: Rect) {
    const TITLE: &str = "coremap explore  ";
    let room = usize::from(first.width).saturating_sub(TITLE.len());
    let path = text::cut(&state.core, room, Cut::Start);
    lines(frame, first, [Line::from(vec![Span::styled(TITLE, BOLD), Span::raw(path)])]);
    let told = state.look.core.as_ref().map(|core| process(core, state)).unwrap_or_default();
    lines(frame, second, [Line::styled(text::fitted(&told, usize::from(second.width)), FAINT)]);
    lines(frame, tabs, [tab_line(state, usize::from(tabs.width))]);
}

/// Which process, and how whole its core is.
fn process(core: &CoreRow, state: &State) -> String {
    let mut parts = Vec::new();
    if let Some(truncation) = core.truncation {
        parts.push(format!("TRUNCATED: {} of memory is missing", human(truncation.missing)));
    }
    for runtime in &core.runtimes {
        let gc = runtime.gc.map_or_else(String::new, |gc| format!(" ({gc} GC)"));
        parts.push(format!("{} {}{gc}", runtime.name, runtime.version.as_deref().unwrap_or("?")));
    }
    parts.extend(core.pid.map(|pid| format!("pid {pid}")));
    parts.push(count(core.threads as u64, "thread"));
    if let Some(map) = &state.look.map {
        let total = &map.summary.total;
        parts.push(format!("{} in the core of {} mapped", human(total.in_core), human(total.size)));
    }
    if !state.look.warnings.is_empty() {
        parts.push(format!("{} (w)", count(state.look.warnings.len() as u64, "warning")));
    }
    parts.push(format!("{} {}", core.producer, core.arch));
    printable(&parts.join(" · ")).into_owned()
}

fn tab_line(state: &State, width: usize) -> Line<'static> {
    let numbered = Tab::ALL.iter().map(|tab| tab.name().len() + 4).sum::<usize>() <= width;
    let mut spans = Vec::new();
    for (at, tab) in Tab::ALL.iter().enumerate() {
        let title = if numbered { format!(" {} {} ", at + 1, tab.name()) } else { format!("{} ", tab.name()) };
        let here = *tab == state.tab;
        spans
            .push(Span::styled(title, if here { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() }));
    }
    Line::from(spans)
}
