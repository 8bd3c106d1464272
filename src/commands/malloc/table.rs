//! The tables of `malloc`.

use std::io::{self, Write};

use crate::addr::Addr;
use crate::commands::malloc::report::{
    ArenaRow, CategoriesRow, GroupClassRow, MallocReport, MallocngRow, SmallBlocksRow,
};
use crate::render::clusters::{DEFAULT_CHUNKS, DEFAULT_CLUSTERS, cluster_table};
use crate::render::document::{Document, Rows, TableBlock, percent, size};
use crate::render::lines::findings;
use crate::render::{List, Listing, Render, csv_rows};
use crate::report::{ChunkRow, SizeClassRow};
use crate::units::{count, exact, human, noun};

/// Maximum number of addresses shown at which the walk failed.
const MAX_ADDRESSES: usize = 5;

impl Listing for MallocReport {
    fn lists(&mut self) -> Vec<&mut dyn List> {
        let chunks = self.chunks.iter_mut().map(|chunks| chunks as &mut dyn List);
        std::iter::once(&mut self.clusters as &mut dyn List).chain(chunks).collect()
    }
}

impl Render for MallocReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        for a in &self.allocators {
            let walked = if a.walked { "" } else { "; its blocks are not read" };
            let module = if a.module.is_empty() { String::new() } else { format!(" in {}", a.module) };
            doc.line(format!("{}{module}: {}{walked}", a.name, a.evidence));
        }
        if self.total.committed == 0 {
            doc.line("no memory of the C library's malloc found");
            small_blocks(&mut doc, self.pymalloc.as_ref());
            return doc;
        }
        if let Some(chunks) = &self.chunks {
            let main = self.arenas.iter().find(|a| a.main).map(|a| a.address);
            let beyond = self.chunks_total.unwrap_or(0).saturating_sub(chunks.len() as u64);
            doc.table(chunk_table(chunks, main).brief(DEFAULT_CHUNKS, "chunk").omitted(beyond));
            return doc;
        }
        totals(&mut doc, self);
        if let Some(musl) = &self.mallocng {
            doc.line("");
            doc.table(class_table(musl, self));
        }
        if has_arenas(self) {
            doc.line("");
            doc.table(arena_table(self));
        }
        let more = self.arenas.len().saturating_sub(DEFAULT_CLUSTERS) as u64;
        if more > 0 {
            doc.line(format!("and {} more {}", exact(more), noun(more, "arena")));
        }
        doc.line("");
        doc.table(size_table(&self.sizes));
        small_blocks(&mut doc, self.pymalloc.as_ref());
        if let Some(categories) = &self.categories {
            doc.line("");
            doc.line(format!("By category ({}):", categories.whose));
            doc.table(category_table(categories));
        }
        doc.line("");
        doc.table(cluster_table(&self.clusters, self.clusters_total, false));
        findings(&mut doc, &self.findings);
        if self.lost.count > 0 {
            let (bytes, count) = (exact(self.lost.bytes), exact(self.lost.count));
            doc.line(format!("! {bytes} bytes could not be walked and count as unknown (ranges: {count}):"));
            for place in self.lost.places.iter().take(MAX_ADDRESSES) {
                let range = &place.range;
                doc.line(format!("! {}-{} {} bytes: {}", range.start, range.end, exact(range.size), place.reason));
            }
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.chunks {
            Some(chunks) => csv_rows(chunks, out),
            None => csv_rows(&self.clusters, out),
        }
    }
}

/// Whether to show the arenas: glibc's malloc is in use, or no other allocator is. Another allocator leaves glibc an
/// arena without memory.
fn has_arenas(report: &MallocReport) -> bool {
    report.arenas.iter().any(|a| a.committed > 0) || (report.mallocng.is_none() && report.others.is_empty())
}

fn totals(doc: &mut Document<'_>, report: &MallocReport) {
    let t = &report.total;
    let mut parts = vec![
        format!("used {} in {}", human(t.used_bytes), count(t.used, "block")),
        format!("free {} in {}", human(t.free_bytes), count(t.free, "block")),
    ];
    if let Some(asked) = t.asked {
        parts.push(format!("requested {}", human(asked)));
    }
    if has_arenas(report) {
        parts.push(format!("top chunks {}", human(t.top)));
    }
    for (what, bytes) in [
        (if report.others.is_empty() { "released, still mapped" } else { "free extents" }, t.trimmed),
        ("overhead", t.overhead),
        ("sbrk by others", t.foreign),
        ("unknown", t.unknown),
    ] {
        if bytes > 0 {
            parts.push(format!("{what} {}", human(bytes)));
        }
    }
    doc.line(format!("{} ({} bytes): {}", human(t.committed), exact(t.committed), parts.join(" · ")));
    if let Some(musl) = &report.mallocng {
        let whole = if musl.complete { ", matching malloc's slot count" } else { "" };
        let (groups, nested) = (count(musl.groups, "group"), exact(musl.nested));
        doc.line(format!(
            "{groups} ({nested} nested in slots of other groups){whole}; {}",
            count(musl.areas, "meta area")
        ));
    }
    if !report.others.is_empty() && report.libc.committed > 0 {
        let t = &report.libc;
        doc.line(format!(
            "{}: {} used in {}, {} free in {}, of {}",
            if report.mallocng.is_some() { "musl" } else { "glibc" },
            human(t.used_bytes),
            count(t.used, "block"),
            human(t.free_bytes),
            count(t.free, "block"),
            human(t.committed)
        ));
    }
    for heap in &report.others {
        doc.line(format!(
            "{}: {} in use, {} used in {}; thread caches contain {} in {}",
            heap.name,
            count(heap.extents, "extent"),
            human(heap.used.bytes),
            count(heap.used.count, "block"),
            human(heap.cached.bytes),
            count(heap.cached.count, "block")
        ));
    }
    if !has_arenas(report) && report.mmapped.count == 0 {
        return;
    }
    let m = &report.mmapped;
    let complete = match m.complete {
        Some(true) => ", matching malloc's count",
        Some(false) => "; malloc's count differs",
        None => "",
    };
    doc.line(format!("mmapped: {}, {} bytes{complete}", count(m.count, "chunk"), exact(m.bytes)));
    if !has_arenas(report) {
        return;
    }
    doc.line(format!(
        "malloc_trim(0) would return {} ({} bytes) to the system",
        human(t.trimmable),
        exact(t.trimmable)
    ));
}

/// Arenas in the order shown, most memory first.
fn shown(report: &MallocReport) -> Vec<&ArenaRow> {
    let mut arenas: Vec<&ArenaRow> = report.arenas.iter().collect();
    arenas.sort_by_key(|a| (std::cmp::Reverse(a.committed), a.address));
    arenas.truncate(DEFAULT_CLUSTERS);
    arenas
}

fn arena_table(report: &MallocReport) -> TableBlock<'_> {
    let mut table = TableBlock::default()
        .text("Arena")
        .number("Size")
        .number("Used")
        .number("Free")
        .number("Top")
        .number("Trim")
        .number("Frag %")
        .optional()
        .number("Threads")
        .optional()
        .number("Blocks")
        .optional()
        .number("Heaps")
        .optional()
        .number("Tcache")
        .optional()
        .number("Fastbins")
        .optional()
        .number("Largest free")
        .optional()
        .number("High water")
        .optional()
        .number("Unknown")
        .optional();
    // A further C library has a main arena too.
    let main = report.arenas.iter().find(|a| a.main).map(|a| a.address);
    for a in shown(report) {
        table.rows.push(vec![
            if Some(a.address) == main { "main".into() } else { a.address.to_string() },
            human(a.committed),
            human(a.used_bytes),
            human(a.free_bytes),
            human(a.top),
            human(a.trimmable),
            a.fragmentation.map_or_else(|| "-".into(), |f| format!("{:.1}", f * 100.0)),
            a.attached_threads.map_or_else(|| "-".into(), exact),
            exact(a.used),
            exact(a.heaps),
            human(a.free_by.tcache.bytes),
            human(a.free_by.fastbin.bytes),
            human(a.largest_free),
            size(a.max_system_mem),
            human(a.unknown),
        ]);
    }
    let sum = |f: fn(&ArenaRow) -> u64| report.arenas.iter().map(f).fold(0, u64::saturating_add);
    // With the chunks that have a separate mapping, the total is the sum of the lines above.
    let mapped = &report.mmapped;
    if mapped.count > 0 {
        let mut row = vec!["-".to_owned(); table.columns.len()];
        row[0] = "(mmapped)".into();
        row[1] = human(mapped.bytes);
        row[2] = human(report.libc.used_bytes.saturating_sub(sum(|a| a.used_bytes)));
        row[8] = exact(mapped.count);
        table.rows.push(row);
    }
    let (used, free) = (report.libc.used_bytes, report.libc.free_bytes);
    table.footer = Some(vec![
        "[TOTAL]".into(),
        human(report.libc.committed),
        human(used),
        human(free),
        human(sum(|a| a.top)),
        human(sum(|a| a.trimmable)),
        percent(free, used.saturating_add(free)),
        String::new(),
        exact(report.libc.used),
        exact(sum(|a| a.heaps)),
        human(sum(|a| a.free_by.tcache.bytes)),
        human(sum(|a| a.free_by.fastbin.bytes)),
        String::new(),
        String::new(),
        human(sum(|a| a.unknown)),
    ]);
    table
}

/// musl's slots by class, and blocks with a separate mapping.
fn class_table<'a>(musl: &MallocngRow, report: &MallocReport) -> TableBlock<'a> {
    let mut table = TableBlock::default()
        .text("Slot")
        .number("Used")
        .number("Bytes used")
        .number("%")
        .bar()
        .number("Requested")
        .optional()
        .number("Free")
        .number("Bytes free")
        .number("Groups")
        .optional();
    let total = report.libc.used_bytes;
    for class in &musl.classes {
        table.rows.push(vec![
            exact(class.slot),
            exact(class.used),
            exact(class.used_bytes),
            percent(class.used_bytes, total),
            exact(class.asked),
            exact(class.free),
            exact(class.free_bytes),
            exact(class.groups),
        ]);
    }
    let sum = |f: fn(&GroupClassRow) -> u64| musl.classes.iter().map(f).fold(0, u64::saturating_add);
    let mapped = &report.mmapped;
    if mapped.count > 0 {
        let (used, free) = (total.saturating_sub(sum(|c| c.used_bytes)), sum(|c| c.free_bytes));
        table.rows.push(vec![
            "(mmapped)".into(),
            exact(mapped.count.saturating_sub(mapped.free)),
            exact(used),
            percent(used, total),
            exact(report.libc.asked.unwrap_or(0).saturating_sub(sum(|c| c.asked))),
            exact(mapped.free),
            exact(report.libc.free_bytes.saturating_sub(free)),
            exact(mapped.count),
        ]);
    }
    table
}

fn size_table(sizes: &[SizeClassRow]) -> TableBlock<'static> {
    let mut table = TableBlock::default()
        .number("Chunks up to")
        .number("Used")
        .number("Bytes used")
        .number("%")
        .bar()
        .number("Free")
        .number("Bytes free");
    let total: u64 = sizes.iter().map(|s| s.used_bytes).fold(0, u64::saturating_add);
    // A histogram: the bars show the shape only in the order of the sizes.
    let mut sizes: Vec<&SizeClassRow> = sizes.iter().collect();
    sizes.sort_by_key(|row| row.size_class);
    for s in sizes {
        table.rows.push(vec![
            crate::units::round(s.size_class),
            exact(s.used),
            exact(s.used_bytes),
            percent(s.used_bytes, total),
            exact(s.free),
            exact(s.free_bytes),
        ]);
    }
    table
}

fn chunk_table(chunks: &[ChunkRow], main: Option<Addr>) -> TableBlock<'_> {
    let mut table = TableBlock::default().text("Address").number("Chunk").text("State").text("Where").text("Arena");
    let row = move |c: &ChunkRow| {
        vec![
            c.address.to_string(),
            exact(c.size),
            c.state.to_string(),
            // For most chunks it equals the state.
            if c.r#where.name() == c.state.name() { String::new() } else { c.r#where.to_string() },
            match c.arena {
                Some(arena) if Some(arena) == main => "main".to_owned(),
                Some(arena) => arena.to_string(),
                None => "-".to_owned(),
            },
        ]
    };
    table.rows = Rows::Made(chunks.len(), Box::new(move |i| chunks.get(i).map(row).unwrap_or_default()));
    table
}

/// Shows a runtime's small-block allocator, whose arenas are in addition to malloc's.
fn small_blocks(doc: &mut Document<'_>, blocks: Option<&SmallBlocksRow>) {
    let Some(blocks) = blocks else { return };
    doc.line("");
    doc.line(format!(
        "{}, in addition to malloc: {} in {}: used {} · free {} · free pools {} ({}) · headers {} · unused rest {}",
        blocks.name,
        human(blocks.committed),
        count(blocks.arenas, "arena"),
        human(blocks.bytes_used),
        human(blocks.bytes_free),
        human(blocks.bytes_free_pools),
        exact(blocks.free_pools),
        human(blocks.bytes_headers),
        human(blocks.bytes_lost)
    ));
    let mut table = TableBlock::default()
        .number("Block")
        .number("Pools")
        .number("Used")
        .number("Bytes used")
        .number("%")
        .bar()
        .number("Free")
        .number("Bytes free");
    for class in &blocks.classes {
        let (used, free) = (class.blocks_used.saturating_mul(class.size), class.blocks_free.saturating_mul(class.size));
        table.rows.push(vec![
            exact(class.size),
            exact(class.pools),
            exact(class.blocks_used),
            exact(used),
            percent(used, blocks.bytes_used),
            exact(class.blocks_free),
            exact(free),
        ]);
    }
    doc.table(table);
}

/// Used blocks by the category that a runtime recorded. The last row has the blocks without one.
fn category_table(all: &CategoriesRow) -> TableBlock<'_> {
    let mut table =
        TableBlock::default().flexible("Category").least(16).number("Blocks").number("Requested").number("Chunks");
    for row in &all.categories {
        table.rows.push(vec![row.name.clone(), exact(row.blocks.count), exact(row.asked), exact(row.blocks.bytes)]);
    }
    table.rows.push(vec!["(no category)".into(), exact(all.others.count), "-".into(), exact(all.others.bytes)]);
    table
}
