//! The table of malloc clusters.

use crate::render::document::TableBlock;
use crate::report::ClusterRow;
use crate::units::exact;

/// Default number of clusters and arenas shown.
#[doc(hidden)]
pub const DEFAULT_CLUSTERS: usize = 20;

/// Default number of chunks shown.
#[doc(hidden)]
pub const DEFAULT_CHUNKS: usize = 1000;

/// Width of a word of memory in columns: `0x` and 16 digits.
const WORD_WIDTH: usize = 18;

/// The table of clusters. `all` is their total number. For `leaked` chunks, the column of free chunks is left out.
#[doc(hidden)]
pub fn cluster_table(clusters: &[ClusterRow], all: u64, leaked: bool) -> TableBlock<'_> {
    let mut table =
        TableBlock::default().number("Chunk").number(if leaked { "Unreachable" } else { "Used" }).number("Bytes");
    if !leaked {
        table = table.number("Free");
    }
    table = table.text("Example").flexible("Begins with").least(WORD_WIDTH).text("Kind").optional();
    let owned = clusters.iter().any(|c| !c.owner().is_empty());
    if owned {
        table = table.flexible("Owner").least(WORD_WIDTH).optional();
    }
    table = table.brief(DEFAULT_CLUSTERS, "cluster").omitted(all.saturating_sub(clusters.len() as u64));
    table = table.bytes(|i| clusters.get(i).map_or(0, |c| c.bytes));
    for c in clusters {
        let kind = if c.mmapped { format!("{}, mmapped", c.kind) } else { c.kind.to_string() };
        let mut row = vec![exact(c.size), exact(c.count), exact(c.bytes)];
        if !leaked {
            row.push(exact(c.free));
        }
        row.extend([c.example.to_string(), c.begins(), kind]);
        if owned {
            row.push(c.owner());
        }
        table.rows.push(row);
    }
    table
}
