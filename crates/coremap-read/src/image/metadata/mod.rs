//! .NET metadata (ECMA-335 II.22 to II.24): the tables, heaps and signatures of one module, read lazily.
//!
//! Opening costs one pass over the table headers and none over rows. A query costs the cells it reads. The bytes are
//! not trusted: a row, offset or coded index out of range gives `None`.

pub mod attribute;
pub mod coded;
mod columns;
mod locate;
mod names;
mod rows;
pub mod sig;
mod table;
mod tables;
#[cfg(test)]
pub(in crate::image) mod testblob;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod token;

pub use columns::Column;
pub use locate::find_root;
pub use table::Table;
pub use token::Token;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use crate::bytes::{get, u16_at, u32_at, u64_at, until_nul};
use crate::limits;
use crate::memory::Fault;
use tables::Tables;

/// The reason why metadata can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The signature is not BSJB.
    #[error("no metadata root: the signature is 0x{0:08x}")]
    NoRoot(u32),
    /// The bytes end within the named part.
    #[error("metadata is cut off in its {0}")]
    Cut(&'static str),
    /// The metadata has neither #~ nor #-.
    #[error("metadata has no tables")]
    NoTables,
    /// A table of unknown number has rows, so later tables can't be located.
    #[error("metadata has rows of unknown table 0x{0:02x}")]
    UnknownTable(u8),
    /// The metadata is larger than the limit.
    #[error("metadata is too large ({0} bytes)")]
    TooLarge(u64),
    /// The file is no PE file, or has no CLI header.
    #[error("not a .NET module: it has no CLI header")]
    NoCliHeader,
    /// The memory can't be read.
    #[error("metadata can't be read: {0}")]
    Unreadable(#[from] Fault),
}

/// II.24.2.1: the signature of the metadata root, "BSJB".
const SIGNATURE: u32 = 0x424a_5342;

/// The metadata of one module.
#[derive(Clone, Debug)]
pub struct Metadata<'a> {
    data: Cow<'a, [u8]>,
    strings: Range<usize>,
    blobs: Range<usize>,
    guids: Range<usize>,
    user_strings: Range<usize>,
    pdb: Range<usize>,
    tables: Tables,
}

impl<'a> Metadata<'a> {
    /// Reads the root, the stream headers and the table header (II.24.2.1).
    ///
    /// # Errors
    /// Fails if one of them is missing, or if there are rows of an unknown table.
    pub fn parse(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Metadata<'a>, MetadataError> {
        let data = bytes.into();
        let cut = MetadataError::Cut("root");
        let signature = u32_at(&data, 0).ok_or(cut.clone())?;
        if signature != SIGNATURE {
            return Err(MetadataError::NoRoot(signature));
        }
        let version_len = u32_at(&data, 12).ok_or(cut.clone())? as usize;
        // The length includes the padding to 4 bytes. It is at most 255 (II.24.2.1).
        let flags = 16usize.checked_add(version_len).filter(|_| version_len <= 256).ok_or(cut.clone())?;
        let streams = u16_at(&data, flags + 2).ok_or(cut)?;
        let mut out = Metadata {
            strings: 0..0,
            blobs: 0..0,
            guids: 0..0,
            user_strings: 0..0,
            pdb: 0..0,
            tables: Tables::empty(),
            data,
        };
        let mut tables = None;
        let mut minimal = false;
        let mut at = flags + 4;
        for _ in 0..usize::from(streams).min(limits::MAX_METADATA_STREAMS) {
            let Some((name, range, next)) = stream_header(&out.data, at) else {
                return Err(MetadataError::Cut("stream headers"));
            };
            match name {
                b"#~" | b"#-" => tables = Some(range),
                b"#Strings" => out.strings = range,
                b"#Blob" => out.blobs = range,
                b"#GUID" => out.guids = range,
                b"#US" => out.user_strings = range,
                b"#Pdb" => out.pdb = range,
                b"#JTD" => minimal = true,
                _ => {}
            }
            at = next;
        }
        let tables = tables.ok_or(MetadataError::NoTables)?;
        let referenced = out.referenced_rows();
        out.tables = Tables::parse(&out.data, tables.start, tables.end, minimal, &referenced)?;
        Ok(out)
    }

    /// Number of bytes that it copied, because they are not contiguous in memory.
    pub fn copied(&self) -> usize {
        match &self.data {
            Cow::Borrowed(_) => 0,
            Cow::Owned(bytes) => bytes.len(),
        }
    }

    /// Returns the row counts of the tables that a PDB refers to but does not contain (Portable PDB spec, #Pdb
    /// stream). All 0 for a module.
    fn referenced_rows(&self) -> [u32; 64] {
        let mut counts = [0; 64];
        let pdb = self.data.get(self.pdb.clone()).unwrap_or_default();
        let Some(mask) = u64_at(pdb, 24) else { return counts };
        let mut at = 32;
        for (number, count) in counts.iter_mut().enumerate() {
            if mask & (1 << number) != 0 {
                *count = u32_at(pdb, at).unwrap_or(0);
                at += 4;
            }
        }
        counts
    }

    /// Returns the first 20 bytes of the #Pdb stream, which identify a portable PDB.
    pub fn pdb_id(&self) -> Option<[u8; 20]> {
        self.data.get(self.pdb.clone())?.first_chunk().copied()
    }

    /// Number of rows of `table` that are present.
    pub fn row_count(&self, table: Table) -> u32 {
        self.tables.count(table)
    }

    /// Returns the raw value of a cell: row `rid` of `table`, 0-based column.
    pub fn cell(&self, table: Table, rid: u32, column: usize) -> Option<u32> {
        self.tables.cell(&self.data, table, rid, column)
    }

    /// Returns the text at `offset` of #Strings (II.24.2.3), at most [`limits::MAX_NAME`] bytes of it.
    pub fn string(&self, offset: u32) -> Option<Cow<'_, str>> {
        let heap = self.data.get(self.strings.clone())?;
        let rest = heap.get(offset as usize..).filter(|r| !r.is_empty());
        match rest {
            Some(rest) => {
                let head = rest.get(..limits::MAX_NAME).unwrap_or(rest);
                Some(String::from_utf8_lossy(until_nul(head)))
            }
            // Offset 0 is the empty text even without a heap.
            None => (offset == 0).then_some(Cow::Borrowed("")),
        }
    }

    /// Returns the bytes at `offset` of #Blob (II.24.2.4).
    pub fn blob(&self, offset: u32) -> Option<&[u8]> {
        let heap = self.data.get(self.blobs.clone())?;
        if offset == 0 {
            return Some(&[]);
        }
        length_prefixed(heap, offset)
    }

    /// Bytes of all of it.
    pub fn size(&self) -> usize {
        self.data.len()
    }

    /// Returns the ranges of values from the program's source, sorted: texts of #US, constants, arguments of
    /// attributes, permissions. The rest is names and structure. So is an argument that names a state machine among
    /// the module's own types.
    pub fn literals(&self) -> Vec<Range<usize>> {
        let columns =
            [(Table::Constant, 2), (Table::CustomAttribute, 2), (Table::FieldMarshal, 1), (Table::DeclSecurity, 2)];
        let mut out = vec![self.user_strings.clone()];
        let machines: HashSet<String> = (1..=self.row_count(Table::TypeDef))
            .filter_map(|rid| Some(self.type_def(rid)?.name.into_owned()))
            .filter(|name| attribute::is_machine(name))
            .collect();
        let names_machine = |value: &[u8]| {
            let name = attribute::first_text(value).and_then(|name| name.rsplit(['+', '.']).next());
            name.is_some_and(|name| machines.contains(name))
        };
        for (table, column) in columns {
            let offsets = (1..=self.row_count(table)).filter_map(|rid| self.cell(table, rid, column));
            out.extend(offsets.filter_map(|offset| {
                let value = self.blob(offset).filter(|value| !value.is_empty() && !names_machine(value))?;
                let start = (value.as_ptr() as usize).checked_sub(self.data.as_ptr() as usize)?;
                Some(start..start + value.len())
            }));
        }
        // Streams with other names are not included.
        out.sort_unstable_by_key(|range| range.start);
        out
    }

    /// Returns the ranges of all names: #Strings as a whole, and each text in it that a row refers to. Texts with
    /// equal ends may share bytes.
    pub fn all_names(&self) -> Vec<Range<usize>> {
        let heap = self.data.get(self.strings.clone()).unwrap_or_default();
        let mut offsets = Vec::new();
        for table in (0..64).filter_map(Table::from_number) {
            for (number, _) in table.columns().iter().enumerate().filter(|(_, c)| matches!(c, Column::Str)) {
                offsets.extend((1..=self.row_count(table)).filter_map(|rid| self.cell(table, rid, number)));
            }
        }
        offsets.sort_unstable();
        offsets.dedup();
        let named = offsets.into_iter().filter_map(|offset| {
            let text = until_nul(heap.get(offset as usize..)?);
            let start = self.strings.start + offset as usize;
            (!text.is_empty()).then_some(start..start + text.len())
        });
        named.chain([self.strings.clone()]).filter(|range| !range.is_empty()).collect()
    }

    /// Returns the GUID with this 1-based index (II.24.2.5). `None` for index 0.
    pub fn guid(&self, index: u32) -> Option<[u8; 16]> {
        let heap = self.data.get(self.guids.clone())?;
        let at = (index as usize).checked_sub(1)?.checked_mul(16)?;
        heap.get(at..)?.first_chunk().copied()
    }
}

/// Reads the stream header at `at` (II.24.2.2). Returns its name, its range and the end of the header.
///
/// A stream that reaches past the end is cut.
fn stream_header(data: &[u8], at: usize) -> Option<(&[u8], Range<usize>, usize)> {
    let offset = u32_at(data, at)? as usize;
    let size = u32_at(data, at.checked_add(4)?)? as usize;
    let from = at.checked_add(8)?;
    // Names have at most 32 bytes with their NUL.
    let rest = data.get(from..)?;
    let name = until_nul(rest.get(..32).unwrap_or(rest));
    let start = offset.min(data.len());
    let end = offset.saturating_add(size).min(data.len());
    let next = from.checked_add((name.len() + 1).next_multiple_of(4))?;
    Some((name, start..end, next))
}

/// Returns a blob of #Blob or #US, which has its compressed length before it (II.24.2.4).
fn length_prefixed(heap: &[u8], offset: u32) -> Option<&[u8]> {
    let mut reader = sig::Reader::new(heap.get(offset as usize..)?);
    let len = reader.unsigned().ok()?;
    get(reader.rest(), 0, len as usize)
}
