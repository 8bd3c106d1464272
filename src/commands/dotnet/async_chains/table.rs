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

/// Indentation of what follows the methods of a chain.
const INDENT: usize = 6;

/// Maximum length of the methods of a chain on one line.
const MAX_LINE: usize = 100;

fn show(doc: &mut Document<'_>, chain: &AsyncChainRow) {
    doc.line("");
    // The awaited object comes before the first method, then whatever is between the two.
    let methods = chain.frames.iter().position(|f| f.kind == AsyncPart::Method).unwrap_or(0);
    let (before, steps) = chain.frames.split_at(methods);
    methods_of(doc, chain, steps);
    doc.titled(format!("{:INDENT$}{}", "", wait(chain, before)), INDENT + 2);
    doc.titled(format!("{:INDENT$}{}", "", end(chain)), INDENT + 2);
}

/// Shows the methods, innermost first: on one line if they fit and have no variables to show.
fn methods_of(doc: &mut Document<'_>, chain: &AsyncChainRow, steps: &[AsyncFrameRow]) {
    let count = exact(chain.count);
    let mut file: Option<&str> = None;
    let mut all = Vec::new();
    for step in steps {
        let own = step.file.as_deref();
        all.push((line(step, own == file), locals(step)));
        file = own.or(file);
    }
    let joined = all.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(" ← ");
    if all.iter().all(|(_, locals)| locals.is_none()) && joined.chars().count() <= MAX_LINE {
        doc.titled(format!("{count} × {joined}"), INDENT);
        return;
    }
    let more = all.len().saturating_sub(MAX_SHOWN);
    let tail = all.len().saturating_sub(MAX_SHOWN / 2);
    for (i, (text, locals)) in all.iter().enumerate() {
        if more > 0 && i == MAX_SHOWN / 2 {
            doc.line(format!("{:INDENT$}  … {} more …", "", exact(more as u64)));
        }
        if more > 0 && (MAX_SHOWN / 2..tail).contains(&i) {
            continue;
        }
        match i {
            0 => doc.titled(format!("{count} × {text}"), INDENT),
            _ => doc.titled(format!("{:INDENT$}  ← {text}", ""), INDENT + 4),
        }
        if let Some(locals) = locals {
            let whose = if chain.count > 1 { "in the first: " } else { "" };
            doc.titled(format!("{:INDENT$}      {whose}{locals}", ""), INDENT + 8);
        }
    }
}

/// What the chains wait for. `before`: the awaited object, and what is between it and the first method.
fn wait(chain: &AsyncChainRow, before: &[AsyncFrameRow]) -> String {
    // "nothing: " gives a reason, not something to wait for.
    if let Some(why) = chain.awaiting.strip_prefix("nothing: ") {
        return why.to_owned();
    }
    let objects = match (chain.roots, chain.awaited.or(chain.frames.first().map(|f| f.object))) {
        (0 | 1, first) => first.map(|object| format!(" at {object}")).unwrap_or_default(),
        (roots, _) => format!(" ({} different objects)", exact(roots)),
    };
    let article = if chain.awaiting.starts_with(SOURCE) { "a " } else { "" };
    let between: Vec<String> = before.iter().skip(1).map(|step| line(step, true)).collect();
    let through = if between.is_empty() { String::new() } else { format!(", through {}", between.join(", ")) };
    format!("waits for {article}{}{objects}{through}", chain.awaiting)
}

/// The source of a task that code completes.
const SOURCE: &str = "TaskCompletionSource";

/// What follows the last method, with the last object of some of the chains.
fn end(chain: &AsyncChainRow) -> String {
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
    format!("{who}: {}{more}", objects.join(" "))
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

/// Describes one element of a chain: the method without its parameters, and its place. `same`: whether the line is of
/// the file that was named before.
fn line(frame: &AsyncFrameRow, same: bool) -> String {
    let state = match frame.state {
        Some(-1) => " (running)".to_owned(),
        Some(n) => format!(" (await {n})"),
        None => String::new(),
    };
    match (frame.kind, &frame.method) {
        (AsyncPart::Method, Some(method)) => {
            let place = match (&frame.file, frame.line) {
                (Some(_), Some(line)) if same => format!(":{line}"),
                (Some(file), Some(line)) => format!(" ({}:{line})", file_name(&file.shown())),
                _ => state,
            };
            format!("{}{place}", without_parameters(method))
        }
        (AsyncPart::Method, None) => format!("{}{state}", frame.r#type.shown()),
        (_, Some(method)) => format!("{} of {method}", frame.r#type.shown()),
        _ => frame.r#type.shown(),
    }
}

/// The name of a file without its folders, those of another system too.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A method's name without its list of parameters. A method without a name is a token in parentheses, which stays.
fn without_parameters(method: &str) -> &str {
    let name = method.strip_suffix(')').and_then(|rest| Some(rest.split_once('(')?.0));
    name.filter(|name| !name.is_empty() && !name.ends_with('.')).unwrap_or(method)
}
