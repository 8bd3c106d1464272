//! The table of `holders`.

use std::io::{self, Write};

use serde::Serialize;

use crate::addr::Addr;
use crate::commands::holders::report::{HeldTotal, HoldersReport};
use crate::render::brief::RANKED_ROWS;
use crate::render::document::{Document, TableBlock, percent};
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{ChunkSum, HolderState, NativeHeldRow, NativeRootKind};
use crate::units::{count, exact, human};

impl Listing for HoldersReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        vec![&mut self.holders, &mut self.native]
    }
}

impl Render for HoldersReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        if let Some(used) = self.used {
            add_native(&mut doc, &self.native, used, self.more);
            return doc;
        }
        if self.holders.is_empty() {
            doc.line("no object points at a malloc block or an anonymous mapping");
            self.add_owned(&mut doc);
            self.add_across(&mut doc);
            return doc;
        }
        let mut table = TableBlock::default()
            .number("Objects")
            .number("Malloc")
            .number("Blocks")
            .number("Mmap")
            .number("Blocks")
            .number("Alone")
            .number("Shared")
            .optional()
            .text("State")
            .optional()
            .text("Example")
            .optional()
            .type_name("Type and field")
            .least(30)
            .brief(RANKED_ROWS, "field")
            .omitted(self.more);
        for h in &self.holders {
            table.rows.push(vec![
                exact(h.objects),
                bytes(&h.malloc),
                number(&h.malloc),
                bytes(&h.mmap),
                number(&h.mmap),
                both(&h.alone),
                h.shared.as_ref().map_or_else(|| "-".into(), both),
                h.state.map_or_else(|| "-".into(), |state| state.to_string()),
                h.object.to_string(),
                h.place(),
            ]);
        }
        doc.table(table);
        for h in self.holders.iter().filter(|h| !h.of_runtime) {
            if let Some((shared, with)) = h.shared.as_ref().zip(h.shared_with.as_ref()).filter(|(s, _)| s.bytes() > 0) {
                doc.line(format!("{} shares {} with {with}", h.place(), human(shared.bytes())));
            }
        }
        if self.holders.iter().any(|h| h.of_runtime) {
            doc.line("the last rows are the runtime's own structures: threads, assemblies");
        }
        let t = &self.total;
        doc.line(format!(
            "objects point at {} ({}) and at {} or blocks in them ({})",
            count(t.malloc.count, "malloc block"),
            human(t.malloc.bytes),
            count(t.mmap.count, "anonymous mapping"),
            human(t.mmap.bytes)
        ));
        if self.reached.bytes() > t.bytes() {
            let r = &self.reached;
            doc.line(format!(
                "through these blocks they reach {} ({}) and {} ({})",
                count(r.malloc.count, "malloc block"),
                human(r.malloc.bytes),
                count(r.mmap.count, "anonymous mapping"),
                human(r.mmap.bytes)
            ));
        }
        self.add_states(&mut doc);
        self.add_owned(&mut doc);
        self.add_across(&mut doc);
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.used.is_some() {
            return native_csv(&self.native, out);
        }
        #[derive(Default, Serialize)]
        struct Row<'a> {
            r#type: Option<&'a str>,
            field: Option<&'a str>,
            objects: u64,
            malloc_blocks: u64,
            malloc_bytes: u64,
            mmap_blocks: u64,
            mmap_bytes: u64,
            reaches_bytes: Option<u64>,
            alone_bytes: u64,
            shared_bytes: Option<u64>,
            shared_with: Option<&'a str>,
            state: Option<HolderState>,
            finalizable: Option<u64>,
            of_runtime: bool,
            object: Addr,
            block: Addr,
        }
        let rows = self.holders.iter().map(|h| Row {
            r#type: h.name.as_deref(),
            field: h.field.as_deref(),
            objects: h.objects,
            malloc_blocks: h.malloc.count,
            malloc_bytes: h.malloc.bytes,
            mmap_blocks: h.mmap.count,
            mmap_bytes: h.mmap.bytes,
            reaches_bytes: h.reaches.map(|r| r.bytes),
            alone_bytes: h.alone.bytes(),
            shared_bytes: h.shared.map(|s| s.bytes()),
            shared_with: h.shared_with.as_deref(),
            state: h.state,
            finalizable: h.finalizable,
            of_runtime: h.of_runtime,
            object: h.object,
            block: h.block,
        });
        csv_rows(&rows.collect::<Vec<_>>(), out)
    }
}

impl HoldersReport {
    /// Adds a line for memory that only objects in one state reach, for each state but `live`.
    fn add_states(&self, doc: &mut Document<'_>) {
        for sum in self.by_state.iter().filter(|sum| sum.reached.bytes() > 0) {
            let bytes = human(sum.reached.bytes());
            let freed = match sum.finalizable {
                Some(true) => ": a collection and their finalizers free it",
                Some(false) => ": a collection frees what objects with finalizers own of it",
                None => "",
            };
            match sum.state {
                Some(HolderState::Dead) => doc.line(format!("only dead objects reach {bytes}{freed}")),
                Some(HolderState::Queued) => doc.line(format!(
                    "only objects whose finalizers are due reach {bytes}: the finalizer thread has not freed it yet"
                )),
                Some(HolderState::Unreached) => {
                    doc.line(format!("{bytes} belong to objects that are not reached from the roots that were read"))
                }
                Some(HolderState::Live) | None => {}
            }
        }
    }

    /// Adds a line for each field that holds objects of another runtime.
    fn add_across(&self, doc: &mut Document<'_>) {
        for row in &self.across {
            let name = row.name.as_ref().map_or_else(|| "object".to_owned(), |name| name.shown());
            let field = row.field.as_ref().map_or_else(String::new, |field| format!(" through {}", field.shown()));
            let owner = row.owner.as_ref().map_or_else(String::new, |owner| format!(" of {owner}"));
            let held = row.held_type.as_ref().map_or_else(|| "objects".to_owned(), |name| name.shown());
            let hold = if row.objects == 1 { "holds" } else { "hold" };
            doc.line(format!(
                "{} {name}{owner} ({}) {hold} {} {held} of {}{field}: {} retained; the largest is {}",
                exact(row.objects),
                row.runtime,
                exact(row.held),
                row.held_runtime,
                human(row.retained),
                row.held_object
            ));
        }
    }

    /// Adds a line for each type that owns native memory.
    fn add_owned(&self, doc: &mut Document<'_>) {
        for row in &self.buffers {
            let (name, field) = (row.name.shown(), row.field.shown());
            let own = if row.objects == 1 { "owns" } else { "own" };
            let (bytes, memory, object) = (human(row.bytes), row.memory, row.object);
            doc.line(format!(
                "{} {name} {own} {bytes} through {field} ({memory}); the largest owner is {object}",
                exact(row.objects)
            ));
        }
    }
}

/// Adds malloc blocks by holder.
fn add_native(doc: &mut Document<'_>, rows: &[NativeHeldRow], used: u64, more: u64) {
    if rows.is_empty() {
        doc.line("no malloc blocks found");
        return;
    }
    let mut table = TableBlock::default()
        .number("Bytes")
        .number("%")
        .number("Blocks")
        .number("Elements")
        .optional()
        .flexible("Structure")
        .least(16)
        .optional()
        .flexible("Held by")
        .least(24)
        .brief(RANKED_ROWS, "holder")
        .omitted(more);
    for row in rows {
        table.rows.push(vec![
            exact(row.bytes),
            percent(row.bytes, used),
            exact(row.blocks),
            row.elements.map_or_else(|| "-".into(), exact),
            structure(row),
            row.held_by(),
        ]);
    }
    doc.table(table);
    doc.line(
        "A holder is a root without which nothing leads to the blocks. A core does not show whether they are still needed.",
    );
}

/// The types of the elements.
fn types(row: &NativeHeldRow) -> String {
    let types = row.element_types.iter().take(3).map(|of| format!("{} {}", exact(of.count), of.name));
    types.collect::<Vec<_>>().join(", ")
}

/// The structure with the types of its elements.
fn structure(row: &NativeHeldRow) -> String {
    let types = types(row);
    match &row.structure {
        Some(structure) if types.is_empty() => structure.clone(),
        Some(structure) => format!("{structure}: {types}"),
        None => types,
    }
}

fn native_csv(rows: &[NativeHeldRow], out: &mut dyn Write) -> io::Result<()> {
    #[derive(Default, Serialize)]
    struct Row {
        bytes: u64,
        blocks: u64,
        elements: Option<u64>,
        structure: Option<String>,
        types: String,
        held_by: String,
        kind: Option<NativeRootKind>,
        module: Option<String>,
        module_offset: Option<Addr>,
        symbol: Option<String>,
        thread: Option<u32>,
        lost: bool,
    }
    let rows = rows.iter().map(|row| {
        let root = row.holder.clone().unwrap_or_default();
        Row {
            bytes: row.bytes,
            blocks: row.blocks,
            elements: row.elements,
            structure: row.structure.clone(),
            types: types(row),
            held_by: row.held_by(),
            kind: root.kind,
            module: root.module,
            module_offset: root.offset,
            symbol: root.symbol,
            thread: root.thread,
            lost: row.lost,
        }
    });
    csv_rows(&rows.collect::<Vec<_>>(), out)
}

fn bytes(sum: &ChunkSum) -> String {
    if sum.count == 0 { "-".into() } else { human(sum.bytes) }
}

fn number(sum: &ChunkSum) -> String {
    if sum.count == 0 { "-".into() } else { exact(sum.count) }
}

fn both(sum: &HeldTotal) -> String {
    if sum.bytes() == 0 { "-".into() } else { human(sum.bytes()) }
}
