use std::io::{self, Write};

use crate::commands::info::report::{InfoReport, ProcessRow};
use crate::render::document::{Document, TableBlock};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{ImageFormat, LastWordsRow};
use crate::targets::threads::tid_text;
use crate::units::{count, exact, human};

/// A hidden command line: only the program's name and the number of arguments.
fn withheld(p: &ProcessRow) -> Option<String> {
    if !p.command_line_withheld {
        return None;
    }
    let arguments = match p.arguments {
        Some(0) => "no arguments".to_owned(),
        Some(1) => "1 argument".to_owned(),
        Some(n) => format!("{n} arguments"),
        None => "its arguments".to_owned(),
    };
    let shown = if p.arguments == Some(0) { "" } else { " (--show-data shows them)" };
    Some(format!("{} and {arguments}{shown}", p.program.as_deref().unwrap_or("a program")))
}

/// Names of variables, and the number of entries without a name.
fn variables(p: &ProcessRow, shown: &[String]) -> String {
    let names = shown.join(" ");
    match p.environment_withheld.saturating_sub(shown.len() as u64) {
        0 => names,
        1 => format!("{names} (and 1 entry without a name)"),
        n => format!("{names} (and {} without names)", count(n, "entry")),
    }
}

/// How the process ended, in one line.
fn last_words(words: &LastWordsRow) -> String {
    let mut parts = vec![words.kind.to_string()];
    parts.extend(words.r#type.clone());
    parts.extend(words.cause.map(|cause| cause.to_string()));
    match (&words.text, words.private) {
        (Some(text), _) => parts.push(format!("\"{text}\"")),
        (None, true) => parts.push("its text is hidden (--show-data shows it)".to_owned()),
        (None, false) => {}
    }
    parts.extend(words.position.clone());
    parts.extend(words.sender.map(|pid| format!("sent by process {pid}")));
    if let Some(operand) = &words.operand {
        let text = operand.text.as_ref().map_or_else(String::new, |text| format!(", text \"{text}\""));
        parts.push(format!("{} is {}{text}", operand.register, operand.value));
    }
    for block in &words.blocks {
        let size = block.size.map_or_else(String::new, |size| format!(" of {}", count(size, "byte")));
        let text = block.text.as_ref().map_or_else(String::new, |text| format!(" \"{text}\""));
        let over = block.overrun.map_or_else(String::new, |over| format!(", {} past its end", count(over, "byte")));
        parts.push(format!("{} block {}{size}{text}{over}", block.role, block.address));
    }
    parts.join("; ")
}

impl Listing for InfoReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.modules]
    }
}

impl Render for InfoReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let p = &self.process;
        let mut field = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                doc.titled(format!("{name:<13} {value}"), 14);
            }
        };
        field("executable", p.executable.clone());
        field("command line", p.command_line.as_ref().map(|a| a.join(" ")).or_else(|| withheld(p)));
        field("name", p.name.clone().filter(|n| !n.is_empty()));
        field("pid", p.pid.map(|v| v.to_string()));
        field("parent", p.parent.map(|v| v.to_string()));
        field("uid", p.uid.map(|v| v.to_string()));
        field(
            "signal",
            p.signal.as_ref().map(|s| {
                let at = s.address.map_or_else(String::new, |a| format!(" at {a}"));
                let code = s.code.map_or_else(String::new, |c| format!(" (si_code {c})"));
                format!("{} {}{code}{at}", s.number, s.name)
            }),
        );
        field("last words", self.last_words.as_ref().map(last_words));
        field("crash thread", p.crash_thread.map(tid_text));
        for fact in &p.os {
            field(fact.what.name(), Some(format!("{} — {}", fact.value, fact.evidence)));
        }
        field("page size", Some(format!("{} bytes", exact(p.page_size))));
        field("environment", p.environment.as_ref().map(|e| variables(p, e)));
        let c = &self.completeness;
        doc.line("");
        doc.line(format!("{} mapped, {} in the core", human(c.mapped), human(c.in_core)));
        for note in &c.notes {
            doc.line(format!("· {note}"));
        }
        doc.line("");
        let mut table = TableBlock::default()
            .text("Base")
            .number("Size")
            .number("In core")
            .optional()
            .text("Kind")
            // A build id that was cut finds no file.
            .text("Build id")
            .optional_rank(2)
            .flexible("Path")
            .least(32);
        for m in &self.modules {
            table.rows.push(vec![
                m.base.to_string(),
                human(m.size),
                human(m.in_core),
                m.kind.map_or("?", ImageFormat::name).to_owned(),
                m.build_id.clone().unwrap_or_default(),
                m.path.clone(),
            ]);
        }
        doc.table(table);
        doc
    }

    fn lists_warnings(&self) -> bool {
        true
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.modules, out)
    }
}
