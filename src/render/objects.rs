//! One object, and lists of objects, as documents.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::render::document::{Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::report::{
    ElementRow, ExceptionsReport, FieldRow, FinalizersReport, LockThreadRow, Name, ObjectReport, ObjectsReport,
    SyncBlocksReport,
};
use crate::units::exact;

impl Render for ObjectReport {
    fn document(&self) -> Document {
        let mut doc = Document::default();
        let Some(name) = &self.name else {
            doc.line(format!("no object at {}", self.object));
            return doc;
        };
        doc.line(format!("{} {name}", self.object));
        let mut facts = vec![format!("{} bytes", exact(self.size.unwrap_or(0)))];
        facts.extend(self.generation.map(str::to_owned));
        facts.extend(self.method_table.map(|m| format!("MethodTable {m}")));
        facts.extend(self.module.clone());
        facts.extend(self.length.map(|n| format!("{} elements", exact(n))));
        doc.line(facts.join(", "));
        if let Some(value) = &self.value {
            doc.line(format!("value: {value}"));
        }
        for (title, fields) in [("Field", &self.fields), ("Static", &self.statics)] {
            if fields.is_empty() {
                continue;
            }
            let mut table = TableBlock::default().number("Offset").flexible("Type").text(title).flexible("Value");
            field_rows(&mut table, fields, "");
            doc.line("");
            doc.table(table);
        }
        if !self.elements.is_empty() {
            let mut table = TableBlock::default().number("Index").flexible("Value");
            for e in &self.elements {
                table.rows.push(vec![e.index.to_string(), element(e)]);
            }
            doc.line("");
            doc.table(table);
            let more = self.length.unwrap_or(0).saturating_sub(self.elements.len() as u64);
            if more > 0 {
                doc.line(format!("and {} more", exact(more)));
            }
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            name: &'a str,
            offset: u64,
            r#type: Option<&'a str>,
            storage: &'a str,
            value: Option<&'a str>,
            object: Option<Addr>,
            object_type: Option<&'a str>,
        }
        let rows = self.fields.iter().chain(&self.statics).map(|f| Row {
            name: &f.name,
            offset: f.offset,
            r#type: f.kind.as_deref(),
            storage: f.storage,
            value: f.value.as_deref(),
            object: f.object,
            object_type: f.object_type.as_deref(),
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

fn field_rows(table: &mut TableBlock, fields: &[FieldRow], within: &str) {
    for f in fields {
        let name = format!("{within}{}", f.name);
        let shown = if f.fields.is_empty() {
            value(f.object, f.object_type.as_deref(), f.value.as_deref())
        } else {
            String::new()
        };
        let offset = if within.is_empty() { format!("{:#x}", f.offset) } else { format!("+{:#x}", f.offset) };
        table.rows.push(vec![offset, f.kind.clone().unwrap_or_else(|| "-".into()), name.clone(), shown]);
        field_rows(table, &f.fields, &format!("{name}."));
    }
}

fn value(object: Option<Addr>, kind: Option<&str>, text: Option<&str>) -> String {
    match (object, text) {
        (Some(object), Some(text)) => format!("{object} \"{text}\""),
        (Some(object), None) => format!("{object} {}", kind.unwrap_or("?")),
        (None, Some(text)) => text.to_owned(),
        (None, None) => "-".into(),
    }
}

fn element(e: &ElementRow) -> String {
    if e.fields.is_empty() {
        return value(e.object, e.object_type.as_deref(), e.value.as_deref());
    }
    struct_text(&e.fields)
}

fn struct_text(fields: &[FieldRow]) -> String {
    let of = |f: &FieldRow| {
        let value = if f.fields.is_empty() {
            value(f.object, f.object_type.as_deref(), f.value.as_deref())
        } else {
            struct_text(&f.fields)
        };
        format!("{}: {value}", f.name)
    };
    format!("{{ {} }}", fields.iter().map(of).collect::<Vec<_>>().join(", "))
}

impl Render for ObjectsReport {
    fn document(&self) -> Document {
        let mut doc = Document::default();
        if self.objects.is_empty() {
            doc.line("no objects");
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
    fn document(&self) -> Document {
        let mut doc = Document::default();
        if !self.types.is_empty() {
            let mut table = TableBlock::default().number("Count").text("State").flexible("Type");
            for t in &self.types {
                table.rows.push(vec![exact(t.count), t.state.to_owned(), t.name.shown()]);
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

impl Render for SyncBlocksReport {
    fn document(&self) -> Document {
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
            let pulse: Vec<String> = b.pulse.iter().map(thread).collect();
            table.rows.push(vec![
                b.index.to_string(),
                b.object.to_string(),
                b.owner.as_ref().map_or_else(String::new, thread),
                if b.held { b.recursion.to_string() } else { String::new() },
                if b.waiting > 0 { b.waiting.to_string() } else { String::new() },
                pulse.join(", "),
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
    fn document(&self) -> Document {
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
            .flexible("Message");
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
