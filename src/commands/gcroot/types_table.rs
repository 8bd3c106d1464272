//! The table of `gcroot --type`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::gcroot::report::{GcRootTypesReport, RootGroupRow, StepRow};
use crate::render::document::Document;
use crate::render::lines::{not_read_line, stack_lines};
use crate::render::{Render, csv_rows};
use crate::report::Name;
use crate::units::{count, exact};

/// Maximum number of types named.
const TYPES: usize = 5;

impl Render for GcRootTypesReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let (live, dead) = (self.live, self.unreachable);
        if live.objects == 0 && dead.objects == 0 {
            doc.line("no objects match");
            return doc;
        }
        let mut types: Vec<String> = self.types.iter().take(TYPES).map(Name::shown).collect();
        if self.types.len() > TYPES {
            types.push(format!("and {}", count((self.types.len() - TYPES) as u64, "more type")));
        }
        doc.line(format!("{}, {} bytes: {}", count(live.objects, "live object"), exact(live.size), types.join(", ")));
        if dead.objects > 0 {
            let are =
                if self.not_read.is_empty() { "unreachable" } else { "not reached from the roots that were read" };
            doc.line(format!("{} more, {} bytes, are {are}", exact(dead.objects), exact(dead.size)));
            not_read_line(&mut doc, &self.not_read);
        }
        for group in &self.groups {
            doc.line("");
            group_lines(&mut doc, group);
        }
        if self.more > 0 {
            doc.line("");
            doc.line(format!("and {}; --top N shows more", count(self.more, "more path")));
        }
        if !self.groups.is_empty() {
            doc.line("");
            stack_lines(&mut doc, &self.stacks);
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Default, Serialize)]
        struct Step<'a> {
            group: usize,
            count: u64,
            size: u64,
            retained: u64,
            root_kind: &'a str,
            root_name: Option<&'a str>,
            step: usize,
            r#type: &'a str,
            field: Option<&'a str>,
            repeats: u64,
            example: Option<Addr>,
        }
        let steps = self.groups.iter().enumerate().flat_map(|(group, g)| {
            let example = g.example.chain.last().map(|c| c.object);
            g.chain.iter().enumerate().map(move |(step, s)| Step {
                group,
                count: g.count,
                size: g.size,
                retained: g.retained,
                root_kind: &g.root_kind,
                root_name: g.root_name.as_deref(),
                step,
                r#type: &s.name,
                field: s.field.as_deref(),
                repeats: s.repeats,
                example,
            })
        });
        csv_rows(&steps.collect::<Vec<_>>(), out)
    }
}

fn group_lines(doc: &mut Document<'_>, group: &RootGroupRow) {
    let objects = count(group.count, "object");
    // They retain nothing themselves: other matching objects dominate them.
    let retain = match group.retained {
        0 => "retained by the objects above".to_owned(),
        n => format!("retaining {} bytes", exact(n)),
    };
    let thread = group.example.root_name.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    doc.line(format!("{objects}, {} bytes, {retain}: {}{thread}", exact(group.size), group.root_kind));
    for step in &group.chain {
        doc.line(format!("    -> {}", step_text(step)));
    }
    if let Some(last) = group.example.chain.last() {
        doc.line(format!("    example: {} from root {}", last.object, group.example.root_address));
    }
}

fn step_text(step: &StepRow) -> String {
    let dotted = |f: &Name| if f.starts_with(['[', '(']) { format!(" {f}") } else { format!(" .{f}") };
    let repeats = match step.repeats {
        0 => String::new(),
        n => {
            let through: Vec<String> = step.through.iter().map(|f| dotted(f).trim_start().to_owned()).collect();
            let by = if through.is_empty() { String::new() } else { format!(" through {}", through.join(", ")) };
            format!(" (chain of up to {}{by})", exact(n.saturating_add(1)))
        }
    };
    format!("{}{repeats}{}", step.name.shown(), step.field.as_ref().map(dotted).unwrap_or_default())
}
