use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::commands::search::report::SearchReport;
use crate::map::Kind;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::units::{exact, human};

impl Render for SearchReport {
    fn document(&self) -> Document<'_> {
        let with_context = self.hits.iter().any(|h| h.context.is_some());
        let mut table = TableBlock::default().text("Address").text("Enc");
        if with_context {
            table = table.optional();
        }
        table = table.text("Kind").flexible("Where").cut(Cut::Middle);
        if with_context {
            table = table.least(20).flexible("Context").least(30).cut(Cut::Ends);
        }
        let pattern = self.pattern.to_lowercase();
        let before = |context: &str| {
            let text = context.to_lowercase();
            text.get(..text.find(&pattern)?).map(UnicodeWidthStr::width)
        };
        let widest = self.hits.iter().filter_map(|h| before(h.context.as_deref()?)).max().unwrap_or(0);
        for h in &self.hits {
            let mut row = vec![
                h.address.to_string(),
                h.encoding.to_string(),
                h.kind.map_or("?", Kind::name).to_owned(),
                h.detail.clone(),
            ];
            if with_context {
                let context = h.context.as_deref().unwrap_or_default();
                // Where memory begins just before the hit, less stands before it.
                let fill = before(context).map_or(0, |n| widest - n);
                row.push(" ".repeat(fill) + context);
            }
            table.rows.push(row);
        }
        let mut doc = Document::default();
        if !self.hits.is_empty() {
            doc.table(table);
        }
        let shown = self.hits.len() as u64;
        doc.line(format!(
            "{} hits{} in {} scanned",
            exact(self.total),
            if shown < self.total { format!(" ({} shown)", exact(shown)) } else { String::new() },
            human(self.scanned)
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.hits, out)
    }
}
