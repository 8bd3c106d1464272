//! The tables of `gcroot`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::gcroot::report::GcRootReport;
use crate::render::document::Document;
use crate::render::lines::{not_read_line, stack_lines};
use crate::render::{Render, csv_rows};
use crate::report::RootPathRow;
use crate::units::{count, exact};

/// Number of objects shown at each end of a long path.
const ENDS: usize = 16;

impl Render for GcRootReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let Some(name) = &self.name else {
            doc.line(format!("no object at {}", self.object));
            return doc;
        };
        doc.line(format!("{} {name}, {} bytes", self.object, exact(self.size.unwrap_or(0))));
        for path in &self.paths {
            doc.line("");
            path_lines(&mut doc, path);
        }
        doc.line("");
        let more = if self.more { "; there may be more (--all)" } else { "" };
        match self.paths.len() {
            0 if self.not_read.is_empty() => {
                doc.line(format!("not reachable from any of {} roots", exact(self.roots)));
            }
            0 => doc.line(format!("not reached from the {} roots that were read", exact(self.roots))),
            1 => doc.line(format!("1 unique root of {}{more}", exact(self.roots))),
            n => doc.line(format!("{n} unique roots of {}{more}", exact(self.roots))),
        }
        not_read_line(&mut doc, &self.not_read);
        stack_lines(&mut doc, &self.stacks);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Step<'a> {
            path: usize,
            root_kind: &'a str,
            root_address: Addr,
            thread: Option<u32>,
            object: Addr,
            r#type: Option<&'a str>,
            field: Option<&'a str>,
        }
        let steps = self.paths.iter().enumerate().flat_map(|(path, p)| {
            p.chain.iter().map(move |c| Step {
                path,
                root_kind: &p.root_kind,
                root_address: p.root_address,
                thread: p.thread,
                object: c.object,
                r#type: c.name.as_deref(),
                field: c.field.as_deref(),
            })
        });
        csv_rows(&steps.collect::<Vec<_>>(), out)
    }
}

pub(in crate::commands) fn path_lines(doc: &mut Document<'_>, path: &RootPathRow) {
    let thread = path.thread.map(|t| format!(" of thread {t}")).unwrap_or_default();
    match (&path.frame, &path.slot) {
        (Some(frame), Some(slot)) => {
            let method = frame.method.as_deref().unwrap_or("?");
            doc.line(format!("{}{thread}, {} {} {method}", path.root_kind, frame.sp, frame.ip));
            let what = match (path.interior, path.pinned) {
                (true, true) => " (interior, pinned)",
                (true, false) => " (interior)",
                (false, true) => " (pinned)",
                (false, false) => "",
            };
            let at = if path.register.is_some() { String::new() } else { format!(": {}", path.root_address) };
            doc.line(format!("  {slot}{at}{what}"));
        }
        _ => {
            let register = path.register.map(|r| format!(" register {r}")).unwrap_or_default();
            let slot = path.slot.as_ref().map(|s| format!(", {s}")).unwrap_or_default();
            let name = path.root_name.as_ref().map(|name| format!(": {name}")).unwrap_or_default();
            doc.line(format!("{}{register}{thread} at {}{slot}{name}", path.root_kind, path.root_address));
        }
    }
    let len = path.chain.len();
    for (i, step) in path.chain.iter().enumerate() {
        if len > 2 * ENDS && i == ENDS {
            doc.line(format!("    … {}", count((len - 2 * ENDS) as u64, "more object")));
        }
        if len > 2 * ENDS && (ENDS..len - ENDS).contains(&i) {
            continue;
        }
        let field =
            step.field.as_ref().map(|f| if f.starts_with(['[', '(']) { format!(" {f}") } else { format!(" .{f}") });
        let name = step.name.as_deref().unwrap_or("?");
        doc.line(format!("    -> {} {name}{}", step.object, field.unwrap_or_default()));
    }
}
