use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::dotnet::async_chains::report::{AsyncChainRow, AsyncFrameRow, AsyncLocalValue, AsyncReport};
use crate::commands::dotnet::{add_unread, empty_line};
use crate::render::{Document, List, Listing, Render, csv_rows};
use crate::report::{AsyncEnd, AsyncPart};
use crate::units::{count, exact};

/// Maximum number of objects listed per chain.
const MAX_LISTED: usize = 3;

/// Maximum number of elements shown per chain. Of a longer chain, both ends are shown.
const MAX_SHOWN: usize = 64;

impl Listing for AsyncReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.chains]
    }
}

impl Render for AsyncReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if self.chains.is_empty() {
            doc.line(match (self.nameless, self.unread.as_slice()) {
                (true, _) => "async methods cannot be found: types have no names in this core".to_owned(),
                (false, []) => "no pending async methods found".to_owned(),
                (false, unread) => empty_line("async methods", unread, ""),
            });
            return doc;
        }
        doc.line(format!(
            "{} pending, in {} ({} different){}",
            count(self.methods, "async method"),
            count(self.total, "chain"),
            exact(self.chains.len() as u64),
            match self.ready {
                0 => String::new(),
                1 => "; 1 of them can resume, because what it awaits is done".to_owned(),
                n => format!("; {} of them can resume, because what they await is done", exact(n)),
            }
        ));
        for chain in &self.chains {
            show(&mut doc, chain);
        }
        add_unread(&mut doc, "async methods", &self.unread);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Row<'a> {
            chain: usize,
            count: u64,
            object: Addr,
            kind: AsyncPart,
            method: Option<&'a str>,
            r#type: &'a str,
            state: Option<i32>,
            awaiting: Option<&'a str>,
        }
        let rows = self.chains.iter().enumerate().flat_map(|(i, c)| {
            c.frames.iter().map(move |f| Row {
                chain: i,
                count: c.count,
                object: f.object,
                kind: f.kind,
                method: f.method.as_deref(),
                r#type: &f.r#type,
                state: f.state,
                awaiting: f.awaiting.as_deref(),
            })
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

fn show(doc: &mut Document<'_>, chain: &AsyncChainRow) {
    doc.line("");
    // "nothing: " gives a reason, not something to wait for.
    let head = match chain.awaiting.strip_prefix("nothing: ") {
        Some(why) => format!("{} × {why}", exact(chain.count)),
        None => {
            let wait = if chain.count == 1 { "waits" } else { "wait" };
            let objects = match (chain.roots, chain.awaited.or(chain.frames.first().map(|f| f.object))) {
                (0 | 1, first) => first.map(|object| format!(" at {object}")).unwrap_or_default(),
                (roots, _) => format!(" ({} different objects)", exact(roots)),
            };
            format!("{} × {wait} for {}{objects}", exact(chain.count), chain.awaiting)
        }
    };
    doc.line(head);
    let more = chain.frames.len().saturating_sub(MAX_SHOWN);
    let tail = chain.frames.len().saturating_sub(MAX_SHOWN / 2);
    for (i, frame) in chain.frames.iter().enumerate() {
        if more > 0 && i == MAX_SHOWN / 2 {
            doc.line(format!("    … {} more …", exact(more as u64)));
        }
        if more == 0 || i < MAX_SHOWN / 2 || i >= tail {
            doc.titled(format!("    {}", line(frame)), 6);
            if let Some(locals) = locals(frame) {
                let whose = if chain.count > 1 { "of the first: " } else { "" };
                doc.titled(format!("        {whose}{locals}"), 10);
            }
        }
    }
    let mut different: Vec<Addr> = Vec::new();
    for object in &chain.objects {
        if !different.contains(object) {
            different.push(*object);
        }
    }
    let mut objects: Vec<String> = different.iter().take(MAX_LISTED).map(Addr::to_string).collect();
    for (object, name) in objects.iter_mut().zip(&chain.names).filter(|(_, name)| !name.is_empty()) {
        *object = format!("{object} \"{name}\"");
    }
    let unlisted = chain.count.saturating_sub(chain.objects.len() as u64);
    let more = unlisted.saturating_add(different.len().saturating_sub(objects.len()) as u64);
    let more = if more > 0 { format!(" and {} more", exact(more)) } else { String::new() };
    let who = match (chain.end, &chain.end_name) {
        (AsyncEnd::Thread, _) => "blocks a thread until it completes".to_owned(),
        (AsyncEnd::Callback, Some(method)) => format!("then calls {method}"),
        (AsyncEnd::Callback, None) => "then calls a delegate".to_owned(),
        (AsyncEnd::Circle, _) => "awaited by a method of the chain itself: it never completes".to_owned(),
        (AsyncEnd::Other, Some(kind)) => format!("then continues with a {kind}"),
        _ => "nothing awaits it".to_owned(),
    };
    doc.line(format!("  ~ {who}: {}{more}", objects.join(" ")));
}

/// Maximum number of variables shown per method.
const MAX_LOCALS: usize = 8;

/// The named variables of a method with their values. `None` if there are none.
fn locals(frame: &AsyncFrameRow) -> Option<String> {
    let value = |value| match value {
        AsyncLocalValue::Int(number) => number.to_string(),
        AsyncLocalValue::Unsigned(number) => number.to_string(),
        AsyncLocalValue::Float(number) => number.to_string(),
        AsyncLocalValue::Object(object) => object.to_string(),
    };
    let named = frame.locals.iter().filter_map(|local| Some((local.name.as_deref()?, local.value?)));
    let mut shown: Vec<String> = named.map(|(name, of)| format!("{name} = {}", value(of))).collect();
    let more = shown.len().saturating_sub(MAX_LOCALS);
    shown.truncate(MAX_LOCALS);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Describes one element of a chain.
fn line(frame: &AsyncFrameRow) -> String {
    let state = match frame.state {
        Some(-1) => " (running)".to_owned(),
        Some(n) => format!(" (await {n})"),
        None => String::new(),
    };
    match (frame.kind, &frame.method) {
        (AsyncPart::Method, Some(method)) => {
            let place = match (&frame.file, frame.line) {
                (Some(file), Some(line)) => format!(" [{} @ {line}]", file.shown()),
                _ => String::new(),
            };
            format!("{method}{state}{place}")
        }
        (AsyncPart::Method, None) => format!("{}{state}", frame.r#type.shown()),
        (_, Some(method)) => format!("{} of {method}", frame.r#type.shown()),
        _ => frame.r#type.shown(),
    }
}
