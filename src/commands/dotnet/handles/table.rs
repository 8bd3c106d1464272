use std::io::{self, Write};

use crate::commands::dotnet::handles::report::HandlesReport;
use crate::render::document::{Document, LISTED, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::Name;
use crate::units::exact;

impl Listing for HandlesReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.handles]
    }
}

impl Render for HandlesReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.handles.is_empty() {
            doc.line("no handles");
            return doc;
        }
        let mut table = TableBlock::default()
            .text("Handle")
            .text("Kind")
            .text("Object")
            .flexible("Type")
            .least(34)
            .text("Secondary")
            .optional()
            .brief(LISTED, "handle");
        for h in &self.handles {
            table.rows.push(vec![
                h.address.to_string(),
                h.kind.to_string(),
                h.object.to_string(),
                h.name.as_ref().map_or_else(|| "-".into(), Name::shown),
                h.secondary.map_or_else(String::new, |s| s.to_string()),
            ]);
        }
        doc.table(table);
        let kinds: Vec<String> = self.kinds.iter().map(|k| format!("{} {}", exact(k.count), k.kind)).collect();
        doc.line(format!("{} handles: {}", exact(self.handles.len() as u64), kinds.join(", ")));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.handles, out)
    }
}
