//! Lists of objects as documents.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::report::{ExceptionsReport, FinalizersReport, LockThreadRow, Name, ObjectsReport, SyncBlocksReport};
use crate::units::exact;

impl Render for ObjectsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.objects.is_empty() {
            doc.line("no objects of such a type");
            return doc;
        }
        let mut table = TableBlock::default().text("Object").number("Size").text("Generation").flexible("Type");
        for o in &self.objects {
            table.rows.push(vec![o.address.to_string(), exact(o.size), o.generation.to_owned(), o.name.shown()]);
        }
        doc.table(table);
        doc.line(format!("{} objects, {} bytes", exact(self.objects.len() as u64), exact(self.size)));
        if self.more > 0 {
            doc.line(format!("and {} more", exact(self.more)));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.objects, out)
    }
}

impl Render for FinalizersReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if !self.types.is_empty() {
            let mut table = TableBlock::default().number("Count").text("State").flexible("Type");
            for t in &self.types {
                table.rows.push(vec![exact(t.count), t.state.to_string(), t.name.shown()]);
            }
            doc.table(table);
        }
        doc.line(format!(
            "{} objects registered, {} ready for finalization",
            exact(self.registered),
            exact(self.ready)
        ));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.objects, out)
    }
}

fn thread(t: &LockThreadRow) -> String {
    match (t.tid, t.managed_id, t.address) {
        (Some(tid), Some(id), _) => format!("{tid} ({id})"),
        (Some(tid), None, _) => tid.to_string(),
        (None, Some(id), _) => format!("managed {id}"),
        (None, None, Some(at)) => at.to_string(),
        (None, None, None) => "?".into(),
    }
}

/// Threads in Wait that are named; the others are counted, and JSON has them.
const WAITERS: usize = 3;

impl Render for SyncBlocksReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.blocks.is_empty() {
            doc.line("no sync blocks");
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Index")
            .text("Object")
            .text("Owner")
            .number("Held")
            .number("Waiting")
            .text("In Wait")
            .optional()
            .flexible("Type");
        for b in &self.blocks {
            let first: Vec<String> = b.pulse.iter().take(WAITERS).map(thread).collect();
            let more = b.pulse.len().saturating_sub(WAITERS);
            let pulse = match (b.pulse.len(), more) {
                (0, _) => String::new(),
                (n, 0) => format!("{n}: {}", first.join(", ")),
                (n, more) => format!("{n}: {} and {more} more", first.join(", ")),
            };
            table.rows.push(vec![
                b.index.to_string(),
                b.object.to_string(),
                b.owner.as_ref().map_or_else(String::new, thread),
                if b.held { b.recursion.to_string() } else { String::new() },
                if b.waiting > 0 { b.waiting.to_string() } else { String::new() },
                pulse,
                b.name.as_ref().map_or_else(|| "-".into(), Name::shown),
            ]);
        }
        doc.table(table);
        let held = self.blocks.iter().filter(|b| b.held).count();
        doc.line(format!("{} sync blocks, {held} locks held", self.blocks.len()));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            index: u32,
            address: Option<Addr>,
            object: Addr,
            r#type: Option<&'a str>,
            held: bool,
            owner: Option<u32>,
            recursion: u32,
            waiting: u32,
            pulse: usize,
        }
        let rows = self.blocks.iter().map(|b| Row {
            index: b.index,
            address: b.address,
            object: b.object,
            r#type: b.name.as_deref(),
            held: b.held,
            owner: b.owner.as_ref().and_then(|o| o.tid),
            recursion: b.recursion,
            waiting: b.waiting,
            pulse: b.pulse.len(),
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

impl Render for ExceptionsReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.exceptions.is_empty() {
            doc.line("no exceptions");
            return doc;
        }
        let mut table = TableBlock::default()
            .text("Object")
            .text("HResult")
            .text("Thrown")
            .optional()
            .flexible("Type")
            .flexible("Message")
            .cut(Cut::End);
        for e in &self.exceptions {
            table.rows.push(vec![
                e.object.to_string(),
                e.hresult.clone().unwrap_or_else(|| "-".into()),
                e.thrown.map_or("-", |t| if t { "yes" } else { "no" }).to_owned(),
                e.name.shown(),
                e.message.clone().unwrap_or_default(),
            ]);
        }
        doc.table(table);
        doc.line(format!("{} exceptions", exact(self.exceptions.len() as u64)));
        if self.more > 0 {
            doc.line(format!("and {} more", exact(self.more)));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.exceptions, out)
    }
}
