//! Clusters of similar used blocks, and size classes by power of two.

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::analysis::blocks::tally::{BlockReader, BySize, Cluster, Content, SizeCounts};
use crate::analysis::resident::written;
use crate::bytes::printable;
use crate::memory::Memory;
use crate::native::NativeSymbols;
use crate::process::Process;
use crate::report::{AllocatorName, ClusterContent, ClusterRow, SizeClassRow};
use crate::session::Session;
use crate::sums::{SaturatingAdd, SaturatingSum};

/// Blocks of one size with the same content are a cluster if there are at least `MIN_BLOCKS` of them, and at least one
/// in `MIN_SHARE_DIVISOR` of the used blocks of that size.
const MIN_BLOCKS: u64 = 2;
const MIN_SHARE_DIVISOR: u64 = 20;

/// Minimum size of a cluster whose written bytes are measured, in bytes.
const MIN_MEASURED: u64 = 16 << 20;

/// Returns the clusters, largest first. `allocator` is `None` for the C library's malloc.
pub fn clusters(
    session: &Session<'_>,
    reader: &BlockReader<'_>,
    arenas: &BySize,
    mapped: &BySize,
    allocator: Option<AllocatorName>,
) -> Vec<ClusterRow> {
    let mut out = Vec::new();
    // Blocks whose pages are counted, each with the index of its row.
    let mut measured = Vec::new();
    for (sizes, mmapped) in [(arenas, false), (mapped, true)] {
        for (size, of) in sizes.iter().filter(|(_, of)| of.used > 0) {
            let row = |alike: &Cluster| ClusterRow { allocator, ..row(session, size, of, alike, mmapped) };
            let links = has_links(of);
            let is_kept = |a: &&Cluster| is_cluster(of, a) && !(links && a.content == Content::Word(0));
            let (kept, rest): (Vec<&Cluster>, Vec<&Cluster>) = of.clusters.iter().partition(is_kept);
            let first_row = out.len();
            out.extend(kept.iter().map(|a| row(a)));
            if let Some(first) = rest.first() {
                let count = rest.iter().map(|a| a.count).saturating_sum();
                let content = if rest.len() == 1 && count == of.used { first.content } else { Content::Mixed };
                let label = first.label.filter(|_| rest.iter().all(|a| a.label == first.label));
                out.push(row(&Cluster { content, label, count, example: first.example }));
            }
            if out.iter().skip(first_row).all(|row: &ClusterRow| row.bytes < MIN_MEASURED) {
                continue;
            }
            // The last row has the rest, if there is one.
            let last_row = out.len().saturating_sub(1);
            // If not all blocks of a row are listed, its written bytes are unknown.
            if of.more_blocks {
                continue;
            }
            for &block in &of.blocks {
                let (content, label) = reader.classify(block, reader.memory.u64(block.start).ok());
                let label = label.map(|label| label.label);
                let same = kept.iter().position(|a| (a.content, a.label) == (content, label));
                measured.push((block, same.map_or(last_row, |i| first_row + i)));
            }
        }
    }
    let wanted = |row: usize| out.get(row).is_some_and(|row| row.bytes >= MIN_MEASURED);
    measured.retain(|(_, row)| wanted(*row));
    let used = written(session, &measured, out.len());
    // Measured bytes of each row.
    let mut sizes = vec![0_u64; out.len()];
    for (block, row) in &measured {
        if let Some(size) = sizes.get_mut(*row) {
            size.add_saturating(block.len());
        }
    }
    for (row, (size, used)) in out.iter_mut().zip(sizes.into_iter().zip(used)) {
        // Headers were not measured, and count as written.
        let unwritten = used.filter(|_| size > 0).map(|used| size.saturating_sub(used));
        row.written = unwritten.map(|unwritten| row.bytes.saturating_sub(unwritten));
    }
    out.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(b.size.cmp(&a.size)).then(a.example.cmp(&b.example)));
    out
}

/// Whether most blocks without a common first word begin with a pointer to a block. Blocks that begin with null are
/// then the last nodes of lists of the same kind.
fn has_links(of: &SizeCounts) -> bool {
    let nulls: u64 = of.clusters.iter().filter(|a| a.content == Content::Word(0)).map(|a| a.count).saturating_sum();
    let others = of.used.saturating_sub(nulls);
    others > 0 && of.pointers.saturating_mul(2) > others
}

fn is_cluster(of: &SizeCounts, alike: &Cluster) -> bool {
    match alike.content {
        Content::Mixed => false,
        _ => alike.count >= MIN_BLOCKS && alike.count >= of.used / MIN_SHARE_DIVISOR,
    }
}

pub(super) fn row(session: &Session<'_>, size: u64, of: &SizeCounts, alike: &Cluster, mmapped: bool) -> ClusterRow {
    let (kind, first_word, fill) = match alike.content {
        Content::Fill(0) => (ClusterContent::Zero, Some(0), Some(0)),
        Content::Fill(byte) => (ClusterContent::Fill, Some(u64::from_ne_bytes([byte; 8])), Some(byte)),
        Content::Symbol(word) => (ClusterContent::Symbol, Some(word), None),
        Content::Word(word) => (ClusterContent::Word, Some(word), None),
        Content::Mixed => (ClusterContent::Mixed, None, None),
    };
    let symbol = match alike.content {
        Content::Symbol(word) => Some(target(session.process, session.symbols(), Addr::new(word))),
        _ => None,
    };
    ClusterRow {
        size,
        count: alike.count,
        bytes: alike.count.saturating_mul(size),
        first_word: first_word.map(Addr::new),
        fill,
        example: alike.example,
        kind,
        symbol,
        free: of.free,
        mmapped,
        category: alike.label.and_then(|label| Some(session.block_labels()?.name(label))),
        allocator: None,
        written: None,
        ..ClusterRow::default()
    }
}

/// Describes an address in a module: `vtable for Node+0x10 (libnode.so)`, or module and section.
fn target(process: &Process, symbols: &NativeSymbols<'_>, word: Addr) -> String {
    let named = symbols.resolve_data(word).or_else(|| symbols.resolve(word));
    if let Some(s) = named {
        let offset = if s.offset == 0 { String::new() } else { format!("+{:#x}", s.offset) };
        return format!("{}{offset} ({})", printable(&s.name), printable(symbols.module_name(&s)));
    }
    let Some(module) = process.modules.iter().find(|m| m.range.contains(word)) else { return word.to_string() };
    let place = match module.section_at(word) {
        Some(s) => format!("{}+{:#x}", s.name, word.since(s.range.start)),
        None => format!("+{:#x}", word.since(module.range.start)),
    };
    format!("{} {}", printable(module.name()), printable(&place))
}

/// Returns size classes by power of two, most used bytes first.
pub fn size_classes(arenas: &BySize, mapped: &BySize) -> Vec<SizeClassRow> {
    let mut rows: BTreeMap<u64, SizeClassRow> = BTreeMap::new();
    for (size, of) in arenas.iter().chain(mapped.iter()) {
        let class = size.checked_next_power_of_two().unwrap_or(u64::MAX);
        let row = rows.entry(class).or_insert(SizeClassRow { size_class: class, ..SizeClassRow::default() });
        row.used.add_saturating(of.used);
        row.free.add_saturating(of.free);
        row.used_bytes = row.used_bytes.saturating_add(of.used.saturating_mul(size));
        row.free_bytes = row.free_bytes.saturating_add(of.free.saturating_mul(size));
    }
    let mut rows: Vec<SizeClassRow> = rows.into_values().collect();
    rows.sort_by_key(|r| std::cmp::Reverse((r.used_bytes.saturating_add(r.free_bytes), r.size_class)));
    rows
}
