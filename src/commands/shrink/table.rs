//! The table of `shrink`.

use std::io::{self, Write};
use std::slice;

use serde::Serialize;

use crate::commands::shrink::report::{RuleRow, ShrinkReport};
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::scrub::{Became, By, Encoding, Kept, Rule};
use crate::units::{count, exact, human};

impl Render for ShrinkReport {
    fn wants_headline(&self) -> bool {
        false
    }

    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        doc.line(format!(
            "{}: {} ({} bytes); {} of {} of memory kept in {} segments",
            self.file,
            human(self.size),
            exact(self.size),
            human(self.kept),
            human(self.in_core),
            exact(self.segments as u64)
        ));
        let Some(rules) = &self.rules else {
            doc.line(format!(
                "Memory is unchanged and contains {} in UTF-8 and {} in UTF-16: a smaller core is not safer to share. \
                 `coremap scan-secrets {}` finds data that you would not want to leak.",
                count(self.text_utf8, "readable text"),
                exact(self.text_utf16),
                self.file
            ));
            return doc;
        };
        for row in rules {
            doc.line(format!("{:>12}  {:<19} {}", human(row.bytes), row.rule, outcome(row)));
        }
        if let Some(left) = &self.left_texts {
            for row in left {
                let kind = row.kind.map_or("", |kind| kind.name());
                let wide = if row.encoding == Encoding::Utf16 { "utf-16 " } else { "" };
                doc.line(format!("{:>8}  {}  {kind:<18}  {wide}{}", exact(row.count), row.address, row.text));
            }
            doc.line(format!(
                "{} left, each with the address of its first occurrence.",
                count(left.len() as u64, "text")
            ));
        }
        if self.left_texts.is_none() {
            let left = self.text_left.iter().flatten();
            let (runs, bytes) = left.fold((0, 0), |(runs, bytes), row| (runs + row.runs, bytes + row.bytes));
            doc.line(format!(
                "{} left ({} in all), which should all be names; --list-text shows them.",
                count(runs, "readable text"),
                human(bytes)
            ));
        }
        let names = if rules.iter().any(|row| row.became == Became::Renamed) { "" } else { " names" };
        doc.line(format!("Sizes, counts, types,{names} and references are unchanged; see docs/sharing.md."));
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { file, size, kept, in_core, segments, .. } = self;
        let row = Row { file, size: *size, kept: *kept, in_core: *in_core, segments: *segments };
        csv_rows(slice::from_ref(&row), out)
    }
}

/// Describes what a rule did with its bytes.
fn outcome(row: &RuleRow) -> &'static str {
    let Some(by) = By::all().find(|by| by.name() == row.rule) else { return "" };
    match by {
        By::Kept(Kept::Zero) => "zero before and after",
        By::Kept(Kept::Pointers) => "kept: words that point into mapped memory",
        By::Kept(Kept::ProgramFiles) => "kept: contents of program files that commands read",
        By::Kept(Kept::RuntimeStructures) => "kept: runtime structures that commands read",
        By::Kept(Kept::MallocStructures) => "kept: headers and lists of malloc blocks",
        By::Kept(Kept::ObjectHeads) => "kept: types, lengths and references of managed objects",
        By::Kept(Kept::ThreadRecords) => "kept: thread control blocks and signal frames",
        By::Kept(Kept::Found) => "kept: structures and names found elsewhere",
        By::Kept(Kept::Notes | Kept::Headers) => "kept",
        By::Rule(Rule::Texts) => "overwritten: characters of strings; equal strings stay equal",
        By::Rule(Rule::Dead) => "overwritten: unused stack memory",
        By::Rule(Rule::Stacks) => "overwritten: used stack memory",
        By::Rule(Rule::Data) => "overwritten: memory with no known structure",
        By::Rule(Rule::Blocks) => "overwritten: contents of malloc blocks",
        By::Rule(Rule::Objects) => "overwritten: fields and elements of managed objects",
        By::Rule(Rule::Structures) => "overwritten: the rest of the runtime's memory",
        By::Rule(Rule::Images) => "overwritten: the rest of program files",
        By::Rule(Rule::Values) => "overwritten: values of objects",
        By::Rule(Rule::Alike) => "overwritten: references that would reveal a value",
        By::Rule(Rule::UnnamedTexts) => "overwritten: texts within structures",
        By::Rule(Rule::Readable) => "overwritten: addresses that are also readable text",
        By::Rule(Rule::Numbers) => "overwritten: numbers that point into a heap but to no object",
        By::Rule(Rule::Guards) => "overwritten: stack guards and pointer guards",
        By::Rule(Rule::Registers | Rule::FloatRegisters | Rule::Arguments | Rule::SignalInfo | Rule::UnknownNotes) => {
            "overwritten"
        }
        By::Names => "the program's names, replaced by names of the same form",
    }
}

#[derive(Default, Serialize)]
struct Row<'a> {
    file: &'a str,
    size: u64,
    kept: u64,
    in_core: u64,
    segments: usize,
}
