//! The tables of `object`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::render::document::{Cut, Document, TableBlock};
use crate::render::{Render, csv_rows};
use crate::report::{
    CallRow, CollectionDetail, DimensionRow, ElementRow, ExceptionDetail, FieldRow, ObjectReport, ThreadValueRow,
};
use crate::units::{count, exact};

/// Columns reserved for a value if the type name needs more: enough for a GUID, or an address with its target.
const VALUE: usize = 36;

/// Type whose values are shown in quotes.
const STRING: &str = "System.String";

impl Render for ObjectReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let Some(name) = &self.name else {
            doc.line(format!("no object at {}", self.object));
            return doc;
        };
        doc.line(format!("{} {name}", self.object));
        let mut facts = vec![format!("{} bytes", exact(self.size.unwrap_or(0)))];
        facts.extend(self.generation.map(str::to_owned));
        // Runtimes other than .NET report no module of an object, and their types are not MethodTables.
        let word = if self.module.is_some() { "MethodTable" } else { "type" };
        facts.extend(self.method_table.map(|m| format!("{word} {m}")));
        facts.extend(self.module.clone());
        facts.extend(self.length.map(|n| format!("{} elements", exact(n))));
        facts.extend(dimensions(&self.dimensions));
        doc.line(facts.join(", "));
        if let Some(value) = &self.value {
            doc.line(format!("value: {value}"));
        }
        if let Some(status) = self.task_status {
            doc.line(format!("status: {status}"));
        }
        if let Some(delegate) = &self.delegate {
            for c in &delegate.calls {
                doc.line(call(c));
            }
            more(&mut doc, delegate.more);
        }
        if let Some(exception) = &self.exception {
            exception_lines(&mut doc, exception);
        }
        for (title, fields) in [("Field", &self.fields), ("Static", &self.statics)] {
            if fields.is_empty() {
                continue;
            }
            let mut table = TableBlock::default().text(title).flexible("Value").least(VALUE).cut(Cut::End);
            table = table.type_name("Type").least(20).number("Offset").optional();
            field_rows(&mut table, fields, "");
            doc.line("");
            doc.table(table);
        }
        if !self.elements.is_empty() {
            let mut table = TableBlock::default().number("Index").flexible("Value").cut(Cut::End);
            for e in &self.elements {
                table.rows.push(vec![index(e), element(e)]);
            }
            doc.line("");
            doc.table(table);
            more(&mut doc, self.length.unwrap_or(0).saturating_sub(self.elements.len() as u64));
        }
        if let Some(collection) = &self.collection {
            entries(&mut doc, collection);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            name: String,
            offset: Option<u64>,
            r#type: Option<&'a str>,
            storage: &'a str,
            thread: Option<u32>,
            value: Option<&'a str>,
            object: Option<Addr>,
            object_type: Option<&'a str>,
        }
        fn fields<'a>(rows: &mut Vec<Row<'a>>, list: &'a [FieldRow], within: &str) {
            for f in list {
                let name = format!("{within}{}", f.name);
                let row = |thread, value, object, object_type| Row {
                    name: name.clone(),
                    offset: Some(f.offset),
                    r#type: f.kind.as_deref(),
                    storage: f.storage.name(),
                    thread,
                    value,
                    object,
                    object_type,
                };
                if f.value.is_none() && !f.fields.is_empty() {
                    fields(rows, &f.fields, &format!("{name}."));
                } else if f.threads.is_empty() {
                    rows.push(row(None, f.value.as_deref(), f.object, f.object_type.as_deref()));
                }
                let threads = f.threads.iter();
                rows.extend(threads.map(|t| row(t.tid, t.value.as_deref(), t.object, t.object_type.as_deref())));
            }
        }
        fn held<'a>(rows: &mut Vec<Row<'a>>, e: &'a ElementRow, name: String, storage: &'static str) {
            if e.value.is_none() && !e.fields.is_empty() {
                let from = rows.len();
                fields(rows, &e.fields, &format!("{name}."));
                rows.iter_mut().skip(from).for_each(|r| r.storage = storage);
                return;
            }
            let (value, object, object_type) = (e.value.as_deref(), e.object, e.object_type.as_deref());
            rows.push(Row { name, storage, value, object, object_type, ..Row::default() });
        }
        let mut rows = Vec::new();
        if let Some(value) = &self.value {
            rows.push(Row { name: "(value)".into(), storage: "value", value: Some(value), ..Row::default() });
        }
        fields(&mut rows, &self.fields, "");
        fields(&mut rows, &self.statics, "");
        for e in &self.elements {
            held(&mut rows, e, format!("[{}]", index(e)), "element");
        }
        for e in self.collection.iter().flat_map(|c| &c.entries) {
            let name = e.key.as_ref().map_or_else(|| "[]".into(), |key| format!("[{}]", element(key)));
            held(&mut rows, &e.value, name, "entry");
        }
        csv_rows(&rows, out)
    }
}

/// Index of an element in its array.
fn index(e: &ElementRow) -> String {
    match e.indices.as_slice() {
        [] => e.index.to_string(),
        indices => indices.iter().map(i64::to_string).collect::<Vec<_>>().join(","),
    }
}

fn more(doc: &mut Document<'_>, count: u64) {
    if count > 0 {
        doc.line(format!("and {} more", exact(count)));
    }
}

/// Formats the lengths of dimensions, `3 × 4`. A dimension that does not begin at 0 shows both bounds.
fn dimensions(dimensions: &[DimensionRow]) -> Option<String> {
    let bounded = |d: &DimensionRow| {
        let last = i64::from(d.lower_bound) + i64::from(d.length) - 1;
        if d.lower_bound == 0 { exact(u64::from(d.length)) } else { format!("{} to {last}", d.lower_bound) }
    };
    let all: Vec<String> = dimensions.iter().map(bounded).collect();
    let plain = dimensions.len() == 1 && dimensions.iter().all(|d| d.lower_bound == 0);
    (!all.is_empty() && !plain).then(|| format!("indices {}", all.join(" × ")))
}

fn call(c: &CallRow) -> String {
    let method = c.method.as_deref().unwrap_or("?");
    let code = c.code.filter(|_| c.method.is_none()).map_or_else(String::new, |code| format!(" at {code}"));
    match c.target {
        Some(target) => format!("calls {method}{code} on {target} {}", c.target_type.as_deref().unwrap_or("?")),
        None => format!("calls {method}{code}"),
    }
}

fn exception_lines(doc: &mut Document<'_>, exception: &ExceptionDetail) {
    if let Some(message) = &exception.message {
        doc.line(format!("message: {message}"));
    }
    if let Some(hresult) = &exception.hresult {
        doc.line(format!("HResult: {hresult}"));
    }
    if let Some(inner) = exception.inner {
        doc.line(format!("inner exception: {inner} {}", exception.inner_type.as_deref().unwrap_or("?")));
    }
    for frame in &exception.frames {
        doc.line(format!("    at {}", frame.method.clone().unwrap_or_else(|| frame.ip.to_string())));
    }
    more(doc, exception.more);
}

fn entries(doc: &mut Document<'_>, collection: &CollectionDetail) {
    doc.line("");
    doc.line(format!("contains {}", count(collection.count, "entry")));
    if collection.entries.is_empty() {
        return;
    }
    let keyed = collection.entries.iter().any(|e| e.key.is_some());
    let mut table = TableBlock::default();
    if keyed {
        table = table.flexible("Key").cut(Cut::End);
    }
    table = table.flexible("Value").cut(Cut::End);
    for e in &collection.entries {
        table.rows.push(e.key.iter().chain([&e.value]).map(element).collect());
    }
    doc.table(table);
    more(doc, collection.count.saturating_sub(collection.entries.len() as u64));
}

fn field_rows(table: &mut TableBlock, fields: &[FieldRow], within: &str) {
    for f in fields {
        let name = format!("{within}{}", f.name);
        // A structure shown as one value has no rows for its fields.
        let apart = f.value.is_none() && !f.fields.is_empty();
        let shown = match f.threads.as_slice() {
            _ if apart => String::new(),
            [] => value(f.object, f.object_type.as_deref(), f.value.as_deref()),
            threads => format!("in {} threads", threads.len()),
        };
        let offset = if within.is_empty() { format!("{:#x}", f.offset) } else { format!("+{:#x}", f.offset) };
        table.rows.push(vec![name.clone(), shown, f.kind.clone().unwrap_or_else(|| "-".into()), offset]);
        if apart {
            field_rows(table, &f.fields, &format!("{name}."));
        }
        for t in &f.threads {
            table.rows.push(vec![format!("  of {}", thread(t)), thread_value(t), String::new(), String::new()]);
        }
    }
}

fn thread(t: &ThreadValueRow) -> String {
    let id = |id: Option<u32>| id.map_or_else(|| "?".into(), |id| id.to_string());
    format!("{} ({})", id(t.tid), id(t.managed_id))
}

fn thread_value(t: &ThreadValueRow) -> String {
    if t.value.is_none() && !t.fields.is_empty() {
        return struct_text(&t.fields);
    }
    value(t.object, t.object_type.as_deref(), t.value.as_deref())
}

fn value(object: Option<Addr>, kind: Option<&str>, text: Option<&str>) -> String {
    match (object, text) {
        (Some(object), Some(text)) if kind.is_none_or(|k| k == STRING) => format!("{object} \"{text}\""),
        (Some(object), Some(text)) => format!("{object} {} {text}", kind.unwrap_or("?")),
        (Some(object), None) => format!("{object} {}", kind.unwrap_or("?")),
        (None, Some(text)) => text.to_owned(),
        (None, None) => "-".into(),
    }
}

fn element(e: &ElementRow) -> String {
    if e.fields.is_empty() || e.value.is_some() {
        return value(e.object, e.object_type.as_deref(), e.value.as_deref());
    }
    struct_text(&e.fields)
}

fn struct_text(fields: &[FieldRow]) -> String {
    let of = |f: &FieldRow| {
        let value = if f.fields.is_empty() || f.value.is_some() {
            value(f.object, f.object_type.as_deref(), f.value.as_deref())
        } else {
            struct_text(&f.fields)
        };
        format!("{}: {value}", f.name)
    };
    format!("{{ {} }}", fields.iter().map(of).collect::<Vec<_>>().join(", "))
}
