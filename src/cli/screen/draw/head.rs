//! Draws the first lines: the core, its completeness, and the tabs.

use std::time::Instant;

use coremap::program::printable;
use coremap::program::units::{count, human};
use coremap::render::Cut;
use coremap::report::CoreRow;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::screen::draw::{BOLD, FAINT, lines, text};
use crate::cli::screen::levels::Tab;
use crate::cli::screen::state::{Live, State};

pub(super) fn draw(state: &State, frame: &mut Frame<'_>, first: Rect, second: Rect, tabs: Rect) {
    let title = format!("coremap {}  ", state.command);
    let room = usize::from(first.width).saturating_sub(title.len());
    let name = state.look.name.as_ref().map(|name| printable(name).into_owned());
    let facts = state.look.core.as_ref().map(|core| process(core, state)).unwrap_or_default();
    // For a running process the path is only its id, while the state of the sampling changes.
    let (above, below) = match &state.live {
        Some(live) => (name.into_iter().chain([facts]).collect::<Vec<_>>().join(" · "), clock(live)),
        None => {
            let name = name.map_or_else(String::new, |name| format!("  {name}"));
            let path = text::cut(&state.core, room.saturating_sub(text::width(&name)).max(room / 2), Cut::Start);
            (path + &name, facts)
        }
    };
    let above = Span::raw(text::fitted(&above, room));
    lines(frame, first, [Line::from(vec![Span::styled(title, BOLD), above])]);
    lines(frame, second, [Line::styled(text::fitted(&below, usize::from(second.width)), FAINT)]);
    lines(frame, tabs, [tab_line(state, usize::from(tabs.width))]);
}

fn clock(live: &Live) -> String {
    let facts = if live.again {
        live.clock.sentence(Instant::now())
    } else {
        format!("stopped {:.1} ms (r: sample again)", live.clock.cost.stood.as_secs_f64() * 1000.0)
    };
    match &live.failed {
        Some(failed) => format!("SAMPLE FAILED: {failed}"),
        None => facts,
    }
}

/// Describes the process and how complete its core is.
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
        let of = format!("{} mapped", human(total.size));
        let rss = map.summary.rss.as_ref().and_then(|rss| rss.vm_rss).or(total.resident.rss);
        parts.extend(rss.map(|rss| format!("RSS {}", human(rss))));
        // For a running process, the size of a core is of no interest.
        let held = state.live.is_none().then(|| format!("{} in the core of ", human(total.in_core)));
        let written = state.look.findings.as_ref().map(|report| format!("{} written of ", human(report.written)));
        let held = held.map(|held| written.unwrap_or_default() + &held);
        parts.push(held.unwrap_or_default() + &of);
    }
    if state.live.is_none() {
        parts.push(format!("{} {}", core.producer, core.arch));
    }
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
    if !state.look.warnings.is_empty() {
        let facts = format!("   {} (w)", count(state.look.warnings.len() as u64, "warning"));
        let taken: usize = spans.iter().map(Span::width).sum();
        if taken + facts.len() <= width {
            spans.push(Span::styled(facts, FAINT));
        }
    }
    Line::from(spans)
}
