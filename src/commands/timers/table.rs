use std::io::{self, Write};

use crate::commands::dotnet::{add_unread, none_found};
use crate::commands::timers::report::{TimerGroupRow, TimersReport};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact};

impl Listing for TimersReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.groups, &mut self.timers]
    }
}

impl Render for TimersReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.timers.is_empty() {
            doc.line(none_found("active timers", &self.unread));
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Timers")
            .number("Due ms")
            .number("Period ms")
            .text("Example")
            .optional()
            .type_name("Calls")
            .least(24)
            .type_name("For")
            .least(24)
            .brief(LISTED_ROWS, "group");
        let ms = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), exact);
        for group in &self.groups {
            table.rows.push(vec![
                exact(group.count),
                ms(group.due_ms),
                ms(group.period_ms),
                group.example.to_string(),
                group.callback.clone().unwrap_or_else(|| "(name not known)".to_owned()),
                reason(group),
            ]);
        }
        doc.table(table);
        doc.line(count(self.timers.len() as u64, "active timer"));
        add_unread(&mut doc, "active timers", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.timers, out)
    }
}

/// Returns what waits for the timers, or what their method gets.
fn reason(group: &TimerGroupRow) -> String {
    let of_kind = |kind: &String| group.state_type.as_ref().map_or(kind.clone(), |state| format!("{kind} ({state})"));
    match (&group.awaited_by, &group.held_by, &group.state_type) {
        (Some(method), ..) => of_kind(method),
        (None, Some(variable), _) => of_kind(variable),
        (None, None, Some(state)) => state.clone(),
        (None, None, None) => "-".to_owned(),
    }
}
