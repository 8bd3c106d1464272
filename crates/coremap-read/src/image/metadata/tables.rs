//! Locations of each table's rows in a module (ECMA-335 II.24.2.6, the #~ stream).

use super::MetadataError;
use super::columns::Column;
use super::table::Table;
use crate::bytes::{get, u32_at, u64_at};

/// Number of tables that the 64-bit mask of the #~ stream can name.
const NUMBERS: usize = 64;

/// Largest row number in a token (II.24.2.6).
const MAX_RID: u32 = 0x00ff_ffff;

/// Number of columns of the widest table (Assembly, AssemblyRef).
const MAX_COLUMNS: usize = 9;

/// Bits of HeapSizes (II.24.2.6): wide #Strings, #GUID and #Blob. The last one is from
/// CoreCLR's metamodel: 4 more bytes after the row counts.
const WIDE_STRINGS: u8 = 0x01;
const WIDE_GUID: u8 = 0x02;
const WIDE_BLOB: u8 = 0x04;
const EXTRA_DATA: u8 = 0x40;

/// Location of one table's rows.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    start: usize,
    count: u32,
    size: u32,
    /// Offset and width of each column.
    columns: [(u8, u8); MAX_COLUMNS],
}

/// All tables of one #~ or #- stream.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    rows: [Rows; NUMBERS],
    sorted: u64,
    /// Whether rows that the header counts are past the end.
    pub(super) cut: bool,
}

impl Tables {
    /// Tables without rows.
    pub(super) fn empty() -> Tables {
        Tables { rows: [Rows::default(); NUMBERS], sorted: 0, cut: false }
    }

    /// Reads the header of the stream at `start..end` of `data`.
    ///
    /// `minimal` makes every index 4 bytes wide (#JTD). `referenced` has the row counts
    /// of the tables that a PDB refers to but does not contain.
    pub(super) fn parse(
        data: &[u8],
        start: usize,
        end: usize,
        minimal: bool,
        referenced: &[u32; NUMBERS],
    ) -> Result<Tables, MetadataError> {
        let stream = data.get(start..end).ok_or(MetadataError::Cut("table stream"))?;
        let cut = MetadataError::Cut("table stream's header");
        let heaps = *stream.get(6).ok_or(cut.clone())?;
        let valid = u64_at(stream, 8).ok_or(cut.clone())?;
        let mut tables = Tables::empty();
        tables.sorted = u64_at(stream, 16).ok_or(cut.clone())?;
        let mut counts = *referenced;
        let mut at = 24;
        for (number, count) in counts.iter_mut().enumerate() {
            if valid & (1 << number) == 0 {
                continue;
            }
            Table::from_number(number as u8).ok_or(MetadataError::UnknownTable(number as u8))?;
            *count = u32_at(stream, at).ok_or(cut.clone())?;
            at += 4;
        }
        if heaps & EXTRA_DATA != 0 {
            at += 4;
        }
        let widths = Widths { heaps, minimal, counts: &counts };
        for (number, rows) in tables.rows.iter_mut().enumerate() {
            let Some(table) = Table::from_number(number as u8).filter(|_| valid & (1 << number) != 0) else { continue };
            let stated = counts.get(number).copied().unwrap_or(0);
            let mut size = 0;
            for (cell, column) in rows.columns.iter_mut().zip(table.columns()) {
                let width = widths.of(*column);
                *cell = (size, width);
                size += width;
            }
            // A count is accepted up to the number of rows that fit in the bytes.
            let room = stream.len().saturating_sub(at) / usize::from(size);
            rows.count = stated.min(MAX_RID).min(u32::try_from(room).unwrap_or(MAX_RID));
            rows.size = u32::from(size);
            rows.start = start + at;
            at += rows.count as usize * usize::from(size);
            if rows.count < stated {
                // The next table would start past the end of the bytes.
                tables.cut = true;
                at = stream.len();
            }
        }
        Ok(tables)
    }

    /// Number of rows of `table` that are present.
    pub(super) fn count(&self, table: Table) -> u32 {
        self.rows.get(table as usize).map_or(0, |r| r.count)
    }

    /// Whether the stream marks `table` as sorted by its key.
    pub(super) fn is_sorted(&self, table: Table) -> bool {
        self.sorted & (1 << (table as u32)) != 0
    }

    /// Returns a cell: row `rid` of `table`, 0-based column.
    pub(super) fn cell(&self, data: &[u8], table: Table, rid: u32, column: usize) -> Option<u32> {
        let rows = self.rows.get(table as usize)?;
        if rid == 0 || rid > rows.count {
            return None;
        }
        let (offset, width) = *rows.columns.get(column)?;
        let row = (rid as usize - 1).checked_mul(rows.size as usize)?;
        let at = rows.start.checked_add(row)?.checked_add(usize::from(offset))?;
        match get(data, at, usize::from(width))? {
            [a, b] => Some(u32::from(u16::from_le_bytes([*a, *b]))),
            [a, b, c, d] => Some(u32::from_le_bytes([*a, *b, *c, *d])),
            _ => None,
        }
    }
}

/// Widths of the indexes in this module (II.24.2.6).
struct Widths<'a> {
    heaps: u8,
    minimal: bool,
    counts: &'a [u32; NUMBERS],
}

impl Widths<'_> {
    fn of(&self, column: Column) -> u8 {
        let wide = match column {
            Column::U16 => return 2,
            Column::U32 => return 4,
            Column::Str => self.heaps & WIDE_STRINGS != 0,
            Column::Guid => self.heaps & WIDE_GUID != 0,
            Column::Blob => self.heaps & WIDE_BLOB != 0,
            Column::Rid(table) => self.count(table) > 0xffff,
            Column::Coded(coded) => {
                let most = coded.tables.iter().flatten().map(|t| self.count(*t)).max().unwrap_or(0);
                most > 0xffff >> coded.bits
            }
        };
        if wide || self.minimal { 4 } else { 2 }
    }

    fn count(&self, table: Table) -> u32 {
        self.counts.get(table as usize).copied().unwrap_or(0)
    }
}
