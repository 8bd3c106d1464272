use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::commands::dotnet::{add_unread, none_found};
use crate::commands::requests::report::{RequestRow, RequestsReport};
use crate::render::brief::LISTED_ROWS;
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact};

impl Listing for RequestsReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.requests]
    }
}

impl Render for RequestsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.servers.is_empty() {
            doc.line(none_found("requests in flight", &self.unread));
            return doc;
        }
        for server in &self.servers {
            let missing = server.count.saturating_sub(server.found);
            let missing = match missing {
                0 => String::new(),
                n => format!("; what serves {} of them is not known", exact(n)),
            };
            doc.line(format!("{} in flight ({}){missing}", count(server.count, "request"), server.kind));
            for route in &server.routes {
                doc.line(format!("    {} {}", exact(route.count), route.route));
            }
        }
        if self.withheld {
            doc.line("paths are hidden (--show-data shows them)");
        }
        if !self.requests.is_empty() {
            doc.line("");
            doc.table(self.groups());
        }
        add_unread(&mut doc, "requests", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.requests, out)
    }
}

impl RequestsReport {
    /// Requests in the same method that wait for the same, most first.
    fn groups(&self) -> TableBlock<'_> {
        type Key<'r> = (&'r str, Option<&'r str>, Option<&'r str>, Option<&'r str>);
        let mut groups: BTreeMap<Key<'_>, Vec<&RequestRow>> = BTreeMap::new();
        for row in &self.requests {
            let key = (row.kind.as_str(), row.method.as_deref(), row.caller.as_deref(), row.waits_for.as_deref());
            groups.entry(key).or_default().push(row);
        }
        let mut groups: Vec<(Key<'_>, Vec<&RequestRow>)> = groups.into_iter().collect();
        groups.sort_by_key(|(_, rows)| Reverse(rows.len()));
        let mut table = TableBlock::default()
            .number("Requests")
            .text("Example")
            .type_name("Method ← caller")
            .least(30)
            .flexible("Waits for")
            .least(24)
            .brief(LISTED_ROWS, "group");
        for ((_, method, caller, wait), rows) in groups {
            let example = rows.first().map_or_else(String::new, |row| match (row.task, row.tid) {
                (Some(task), _) => task.to_string(),
                (None, Some(tid)) => format!("thread {tid}"),
                (None, None) => String::new(),
            });
            let caller = caller.map_or_else(String::new, |caller| format!(" ← {caller}"));
            table.rows.push(vec![
                exact(rows.len() as u64),
                example,
                format!("{}{caller}", method.unwrap_or("(no method of the program)")),
                wait.unwrap_or("-").to_owned(),
            ]);
        }
        table
    }
}
