//! Portable PDBs: the file that a module requires, and the source line of an IL offset.
//!
//! Portable PDB spec (dotnet/runtime, docs/design/specs/PortablePdb-Metadata.md).
//!
//! [`crate::image::metadata`] reads the tables. Only the sequence points of the queried
//! method are decoded. The tests compare them with `symbolic-ppdb`, which converts all
//! methods before it answers and drops columns.

mod reference;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use reference::{PdbReference, find_pdb};

use crate::image::metadata::sig::{Reader, SigError};
use crate::image::metadata::{Metadata, MetadataError, Table};
use crate::limits;

/// Column of a LocalScope with its first variable.
const VARIABLES: usize = 2;

/// IL offset of native code without IL (CoreCLR, src/inc/cordebuginfo.h).
pub const NO_MAPPING: u32 = -1i32 as u32;

/// IL offset of a method's entry code (CoreCLR, src/inc/cordebuginfo.h).
pub const PROLOG: u32 = -2i32 as u32;

/// IL offset of a method's exit code (CoreCLR, src/inc/cordebuginfo.h).
pub const EPILOG: u32 = -3i32 as u32;

/// The id of a portable PDB: a GUID as stored in the file, and a stamp. The module's
/// debug directory has the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdbId(pub [u8; 20]);

impl std::fmt::Display for PdbId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// The reason why a portable PDB can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PdbError {
    /// The metadata has no #Pdb stream with an id.
    #[error("not a portable PDB: no #Pdb stream with an id")]
    NotPortable,
    /// The metadata can't be read.
    #[error("not a portable PDB: {0}")]
    Metadata(#[from] MetadataError),
    /// The PDB is larger than the limit.
    #[error("portable PDB is too large ({0} bytes)")]
    TooLarge(u64),
    /// The embedded PDB does not decompress to its stated length.
    #[error("embedded PDB can't be decompressed")]
    Inflate,
}

/// A position in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Path that the compiler was given.
    pub file: String,
    /// 1-based line.
    pub line: u32,
    /// 1-based column.
    pub column: u32,
}

/// A portable PDB.
#[derive(Clone, Debug)]
pub struct Pdb {
    tables: Metadata<'static>,
}

impl Pdb {
    /// Reads the headers of a portable PDB, but no methods.
    ///
    /// # Errors
    /// Fails if it is no portable PDB, or is damaged.
    pub fn open(bytes: Vec<u8>) -> Result<Pdb, PdbError> {
        if bytes.len() as u64 > limits::MAX_PDB {
            return Err(PdbError::TooLarge(bytes.len() as u64));
        }
        let tables = Metadata::parse(bytes)?;
        tables.pdb_id().ok_or(PdbError::NotPortable)?;
        Ok(Pdb { tables })
    }

    /// Returns the source position of an IL offset in the method with this row. That is
    /// the last sequence point at or before the offset that is not hidden, as in SOS
    /// (dotnet/diagnostics, SymbolReader).
    ///
    /// The JIT's special offsets are mapped as in SOS. [`PROLOG`] is offset 0, where an
    /// async method's code is often hidden. [`EPILOG`] is the end. [`NO_MAPPING`] has no
    /// position.
    pub fn line(&self, method_rid: u32, il_offset: u32) -> Option<Line> {
        let limit = match il_offset {
            NO_MAPPING => return None,
            PROLOG => 0,
            EPILOG => u32::MAX,
            offset => offset,
        };
        let mut best = None;
        // A damaged point ends the list. Earlier points remain valid.
        for point in self.points(method_rid)?.map_while(Result::ok) {
            if point.il_offset > limit {
                break;
            }
            if point.place.is_some() {
                best = Some(point);
            }
        }
        let point = best?;
        let (line, column) = point.place?;
        Some(Line { file: self.document(point.document)?, line, column })
    }

    /// Returns the names of a method's local variables, with their slots. Several scopes may name one slot: the last
    /// counts.
    pub fn locals(&self, method_rid: u32) -> Vec<(u16, String)> {
        let scopes = self.tables.row_count(Table::LocalScope);
        let scope = |rid, column| self.tables.cell(Table::LocalScope, rid, column);
        // The rows are sorted by method.
        let (mut from, mut to) = (1, scopes.saturating_add(1));
        while from < to {
            let middle = from + (to - from) / 2;
            if scope(middle, 0).is_some_and(|of| of < method_rid) { from = middle + 1 } else { to = middle }
        }
        let all = self.tables.row_count(Table::LocalVariable).saturating_add(1);
        let mut out = Vec::new();
        for rid in (from..=scopes).take_while(|rid| scope(*rid, 0) == Some(method_rid)) {
            let first = scope(rid, VARIABLES).unwrap_or(all);
            let end = rid.checked_add(1).and_then(|next| scope(next, VARIABLES)).unwrap_or(all).min(all);
            for variable in first..end {
                if out.len() >= limits::MAX_VARIABLES {
                    return out;
                }
                let cell = |column| self.tables.cell(Table::LocalVariable, variable, column);
                let slot = cell(1).and_then(|slot| u16::try_from(slot).ok());
                let name = cell(2).and_then(|name| self.tables.string(name));
                out.extend(slot.zip(name).map(|(slot, name)| (slot, name.into_owned())));
            }
        }
        out
    }

    /// Returns the sequence points of one method. `None` if it has none.
    fn points(&self, method_rid: u32) -> Option<Points<'_>> {
        let document = self.tables.cell(Table::MethodDebugInformation, method_rid, 0)?;
        let blob = self.tables.cell(Table::MethodDebugInformation, method_rid, 1).filter(|b| *b != 0)?;
        let mut reader = Reader::new(self.tables.blob(blob)?);
        // The signature of the locals, then the document if the row has none.
        reader.unsigned().ok()?;
        let document = if document == 0 { reader.unsigned().ok()? } else { document };
        Some(Points { reader, document, il_offset: None, place: None })
    }

    /// Returns the path of a document: a separator, and the blobs that it joins (Portable
    /// PDB spec, document name blob).
    fn document(&self, rid: u32) -> Option<String> {
        let name = self.tables.blob(self.tables.cell(Table::Document, rid, 0)?)?;
        let (separator, parts) = name.split_first()?;
        let mut reader = Reader::new(parts);
        let mut out = Vec::new();
        while !reader.rest().is_empty() {
            if parts.len() > reader.rest().len() && *separator != 0 {
                out.push(*separator);
            }
            let part = self.tables.blob(reader.unsigned().ok()?)?;
            // Parts may share one long blob, so the whole could have any length.
            if out.len() + part.len() > limits::MAX_NAME {
                return None;
            }
            out.extend_from_slice(part);
        }
        Some(String::from_utf8_lossy(&out).into_owned())
    }
}

struct Point {
    il_offset: u32,
    document: u32,
    /// Line and column. `None` if hidden.
    place: Option<(u32, u32)>,
}

/// Iterator over a sequence points blob (Portable PDB spec).
struct Points<'p> {
    reader: Reader<'p>,
    document: u32,
    il_offset: Option<u32>,
    /// Position of the last point that was not hidden.
    place: Option<(u32, u32)>,
}

impl Points<'_> {
    fn read(&mut self) -> Result<Point, SigError> {
        let il_offset = loop {
            let delta = self.reader.unsigned()?;
            match self.il_offset {
                None => break delta,
                Some(_) if delta == 0 => self.document = self.reader.unsigned()?,
                Some(last) => break last.checked_add(delta).ok_or(SigError::BadNumber)?,
            }
        };
        self.il_offset = Some(il_offset);
        let lines = self.reader.unsigned()?;
        let hidden = if lines == 0 {
            self.reader.unsigned()? == 0
        } else {
            self.reader.signed()?;
            false
        };
        let mut point = Point { il_offset, document: self.document, place: None };
        if !hidden {
            let place = match self.place {
                None => (self.reader.unsigned()?, self.reader.unsigned()?),
                Some((line, column)) => {
                    let line = line.checked_add_signed(self.reader.signed()?);
                    let column = column.checked_add_signed(self.reader.signed()?);
                    line.zip(column).ok_or(SigError::BadNumber)?
                }
            };
            self.place = Some(place);
            point.place = self.place;
        }
        Ok(point)
    }
}

impl Iterator for Points<'_> {
    type Item = Result<Point, SigError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.reader.rest().is_empty()).then(|| self.read())
    }
}
