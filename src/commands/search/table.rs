use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::commands::search::report::{HitRow, SearchReport};
use crate::map::Kind;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::Name;
use crate::units::{count, exact, human};

impl Listing for SearchReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.hits]
    }
}

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
        let parts: Vec<Option<[String; 3]>> = self.hits.iter().map(marked).collect();
        let width = |parts: &Option<[String; 3]>| parts.as_ref().map(|p| p[0].width());
        let widest = parts.iter().filter_map(width).max().unwrap_or(0);
        for (h, parts) in self.hits.iter().zip(&parts) {
            let mut row = vec![
                h.address.to_string(),
                h.encoding.to_string(),
                h.kind.map_or("?", Kind::name).to_owned(),
                place(h),
            ];
            if with_context {
                // If the region begins just before the match, there is less context.
                let fill = " ".repeat(width(parts).map_or(0, |n| widest - n));
                row.push(parts.as_ref().map_or_else(String::new, |p| fill + &p.concat()));
            }
            table.rows.push(row);
        }
        let mut doc = Document::default();
        if !self.hits.is_empty() {
            doc.table(table);
        }
        let shown = self.hits.len() as u64;
        doc.line(format!(
            "{}{} in {} scanned",
            count(self.total, "hit"),
            if shown < self.total { format!(" ({} shown)", exact(shown)) } else { String::new() },
            human(self.scanned)
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.hits, out)
    }
}

/// Location of a match: its object, or else its position in the region.
fn place(h: &HitRow) -> String {
    let Some((object, name)) = h.object.zip(h.name.as_ref()) else { return h.detail.clone() };
    let field = h.field.as_ref().map(Name::shown).unwrap_or_default();
    let dot = if field.is_empty() || field.starts_with('[') { "" } else { "." };
    format!("{object} {}{dot}{field}", name.shown())
}

/// Text before a match, the match between marks, and the text after it.
fn marked(h: &HitRow) -> Option<[String; 3]> {
    let mut chars = h.context.as_ref()?.chars();
    let mut take = |n: u64| chars.by_ref().take(n as usize).collect::<String>();
    let (before, matched) = (take(h.match_start?), take(h.match_length?));
    Some([before, format!("»{matched}«"), chars.collect()])
}
