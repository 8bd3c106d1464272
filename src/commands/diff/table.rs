//! The tables of `diff`.

use std::io::{self, Write};

use crate::commands::diff::report::{DiffReport, DiffRow, SizeDelta, TypeDelta};
use crate::render::document::{Document, TableBlock, exact_or_dash, size};
use crate::render::{List, Listing, Render, csv_rows};
use crate::units::{count, exact, human};

impl Listing for DiffReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let mut lists: Vec<&mut dyn List> = vec![&mut self.kinds];
        lists.extend(self.types.as_mut().map(|types| types as &mut dyn List));
        lists.extend(self.malloc.as_mut().map(|sizes| sizes as &mut dyn List));
        lists
    }
}

impl Render for DiffReport {
    fn wants_headline(&self) -> bool {
        false
    }

    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        for (name, side) in [("old", &self.old), ("new", &self.new)] {
            let cut = if side.truncated { "  TRUNCATED: some of its memory is missing" } else { "" };
            doc.line(format!("{name}  {}  {}{cut}", side.path, count(side.threads as u64, "thread")));
        }
        let mut table = TableBlock::default()
            .text("Kind")
            .number("Count old")
            .optional()
            .number("Count new")
            .optional()
            .number("Size old")
            .number("Size new")
            .number("Change")
            .number("Change (bytes)")
            .optional_rank(2)
            .number("In core change")
            .optional_rank(3);
        let resident = self.total.delta_rss.is_some();
        if resident {
            table = table.number("RSS change");
        }
        let cells = |r: &DiffRow, name: &str| {
            let mut row = vec![
                name.to_owned(),
                exact(r.old_count),
                exact(r.new_count),
                human(r.old),
                human(r.new),
                signed(r.delta, human),
                signed(r.delta, exact),
                signed(r.delta_in_core, human),
            ];
            row.extend(resident.then(|| r.delta_rss.map_or_else(|| "-".to_owned(), |delta| signed(delta, human))));
            row
        };
        table.rows.extend(self.kinds.iter().map(|r| cells(r, r.kind.name())));
        table.footer = Some(cells(&self.total, "[TOTAL]"));
        doc.table(table);
        if let Some(types) = &self.types {
            doc.line("");
            doc.table(type_deltas(types));
            if types.len() > MAX_TYPES {
                doc.line(format!(
                    "and {} more types with smaller changes (all: --json)",
                    exact((types.len() - MAX_TYPES) as u64)
                ));
            }
        }
        if let Some(sizes) = self.malloc.as_ref().filter(|s| !s.is_empty()) {
            doc.line("");
            doc.table(size_deltas(sizes));
            if sizes.len() > MAX_SIZES {
                let more = exact((sizes.len() - MAX_SIZES) as u64);
                doc.line(format!("and {more} more block sizes with smaller changes (all: --json)"));
            }
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.kinds, out)
    }
}

/// Maximum number of types shown, by change.
const MAX_TYPES: usize = 40;

fn type_deltas(types: &[TypeDelta]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .number("Objects old")
        .optional()
        .number("Objects new")
        .number("Size old")
        .optional_rank(2)
        .number("Size new")
        .number("Change (bytes)")
        .type_name("Type")
        .least(30);
    table.rows.extend(types.iter().take(MAX_TYPES).map(|t| {
        vec![
            exact_or_dash(t.old_count),
            exact_or_dash(t.new_count),
            size(t.old),
            size(t.new),
            change(t.delta),
            t.name.clone(),
        ]
    }));
    table
}

/// Maximum number of block sizes shown, by change.
const MAX_SIZES: usize = 20;

fn size_deltas(sizes: &[SizeDelta]) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .number("Blocks old")
        .optional()
        .number("Blocks new")
        .number("Change")
        .number("Size old")
        .optional_rank(2)
        .number("Size new")
        .number("Change (bytes)")
        .number("malloc chunk")
        .text("Where");
    table.rows.extend(sizes.iter().take(MAX_SIZES).map(|s| {
        vec![
            exact_or_dash(s.old_count),
            exact_or_dash(s.new_count),
            change(s.delta_count),
            size(s.old),
            size(s.new),
            change(s.delta),
            exact(s.size),
            if s.mmapped { "mmapped" } else { "in arenas" }.to_owned(),
        ]
    }));
    table
}

fn change(v: Option<i64>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| signed(v, exact))
}

fn signed(v: i64, f: fn(u64) -> String) -> String {
    match v {
        0 => "0".to_owned(),
        v if v > 0 => format!("+{}", f(v.unsigned_abs())),
        v => format!("-{}", f(v.unsigned_abs())),
    }
}
