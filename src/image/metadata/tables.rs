//! The metadata tables: their columns as data, and where their rows lie.
//!
//! ECMA-335 II.22 (tables), II.24.2.6 (the #~ stream); the Ptr and Enc tables
//! by CoreCLR's metamodel (src/coreclr/md/inc/metamodelpub.h); tables from 0x30
//! on by the Portable PDB spec.

use super::MetadataError;
use super::token::{
    CUSTOM_ATTRIBUTE_TYPE, Coded, HAS_CONSTANT, HAS_CUSTOM_ATTRIBUTE, HAS_CUSTOM_DEBUG_INFORMATION, HAS_DECL_SECURITY,
    HAS_FIELD_MARSHAL, HAS_SEMANTICS, IMPLEMENTATION, MEMBER_FORWARDED, MEMBER_REF_PARENT, METHOD_DEF_OR_REF,
    RESOLUTION_SCOPE, TYPE_DEF_OR_REF, TYPE_OR_METHOD_DEF,
};
use crate::bytes::{get, u32_at, u64_at};

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// A number of 2 bytes.
    U16,
    /// A number of 4 bytes.
    U32,
    /// An offset into #Strings.
    Str,
    /// An index into #GUID.
    Guid,
    /// An offset into #Blob.
    Blob,
    /// A row of one table.
    Rid(Table),
    /// A row of one of several tables.
    Coded(&'static Coded),
}

macro_rules! tables {
    ($($name:ident = $number:literal: [$($column:expr),*],)*) => {
        /// A metadata table by its number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Table { $($name = $number,)* }

        impl Table {
            /// The table of that number, if there is one.
            pub fn from_number(number: u8) -> Option<Table> {
                match number {
                    $($number => Some(Table::$name),)*
                    _ => None,
                }
            }

            /// Its columns, in order.
            pub fn columns(self) -> &'static [Column] {
                use Column::{Blob, Coded, Guid, Rid, Str, U16, U32};
                match self {
                    $(Table::$name => const { &[$($column),*] },)*
                }
            }
        }
    };
}

tables! {
    Module = 0x00: [U16, Str, Guid, Guid, Guid],
    TypeRef = 0x01: [Coded(&RESOLUTION_SCOPE), Str, Str],
    TypeDef = 0x02: [U32, Str, Str, Coded(&TYPE_DEF_OR_REF), Rid(Table::Field), Rid(Table::MethodDef)],
    FieldPtr = 0x03: [Rid(Table::Field)],
    Field = 0x04: [U16, Str, Blob],
    MethodPtr = 0x05: [Rid(Table::MethodDef)],
    MethodDef = 0x06: [U32, U16, U16, Str, Blob, Rid(Table::Param)],
    ParamPtr = 0x07: [Rid(Table::Param)],
    Param = 0x08: [U16, U16, Str],
    InterfaceImpl = 0x09: [Rid(Table::TypeDef), Coded(&TYPE_DEF_OR_REF)],
    MemberRef = 0x0a: [Coded(&MEMBER_REF_PARENT), Str, Blob],
    Constant = 0x0b: [U16, Coded(&HAS_CONSTANT), Blob],
    CustomAttribute = 0x0c: [Coded(&HAS_CUSTOM_ATTRIBUTE), Coded(&CUSTOM_ATTRIBUTE_TYPE), Blob],
    FieldMarshal = 0x0d: [Coded(&HAS_FIELD_MARSHAL), Blob],
    DeclSecurity = 0x0e: [U16, Coded(&HAS_DECL_SECURITY), Blob],
    ClassLayout = 0x0f: [U16, U32, Rid(Table::TypeDef)],
    FieldLayout = 0x10: [U32, Rid(Table::Field)],
    StandAloneSig = 0x11: [Blob],
    EventMap = 0x12: [Rid(Table::TypeDef), Rid(Table::Event)],
    EventPtr = 0x13: [Rid(Table::Event)],
    Event = 0x14: [U16, Str, Coded(&TYPE_DEF_OR_REF)],
    PropertyMap = 0x15: [Rid(Table::TypeDef), Rid(Table::Property)],
    PropertyPtr = 0x16: [Rid(Table::Property)],
    Property = 0x17: [U16, Str, Blob],
    MethodSemantics = 0x18: [U16, Rid(Table::MethodDef), Coded(&HAS_SEMANTICS)],
    MethodImpl = 0x19: [Rid(Table::TypeDef), Coded(&METHOD_DEF_OR_REF), Coded(&METHOD_DEF_OR_REF)],
    ModuleRef = 0x1a: [Str],
    TypeSpec = 0x1b: [Blob],
    ImplMap = 0x1c: [U16, Coded(&MEMBER_FORWARDED), Str, Rid(Table::ModuleRef)],
    FieldRva = 0x1d: [U32, Rid(Table::Field)],
    EncLog = 0x1e: [U32, U32],
    EncMap = 0x1f: [U32],
    Assembly = 0x20: [U32, U16, U16, U16, U16, U32, Blob, Str, Str],
    AssemblyProcessor = 0x21: [U32],
    AssemblyOs = 0x22: [U32, U32, U32],
    AssemblyRef = 0x23: [U16, U16, U16, U16, U32, Blob, Str, Str, Blob],
    AssemblyRefProcessor = 0x24: [U32, Rid(Table::AssemblyRef)],
    AssemblyRefOs = 0x25: [U32, U32, U32, Rid(Table::AssemblyRef)],
    File = 0x26: [U32, Str, Blob],
    ExportedType = 0x27: [U32, U32, Str, Str, Coded(&IMPLEMENTATION)],
    ManifestResource = 0x28: [U32, U32, Str, Coded(&IMPLEMENTATION)],
    NestedClass = 0x29: [Rid(Table::TypeDef), Rid(Table::TypeDef)],
    GenericParam = 0x2a: [U16, U16, Coded(&TYPE_OR_METHOD_DEF), Str],
    MethodSpec = 0x2b: [Coded(&METHOD_DEF_OR_REF), Blob],
    GenericParamConstraint = 0x2c: [Rid(Table::GenericParam), Coded(&TYPE_DEF_OR_REF)],
    Document = 0x30: [Blob, Guid, Blob, Guid],
    MethodDebugInformation = 0x31: [Rid(Table::Document), Blob],
    LocalScope = 0x32: [
        Rid(Table::MethodDef), Rid(Table::ImportScope), Rid(Table::LocalVariable), Rid(Table::LocalConstant), U32, U32
    ],
    LocalVariable = 0x33: [U16, U16, Str],
    LocalConstant = 0x34: [Str, Blob],
    ImportScope = 0x35: [Rid(Table::ImportScope), Blob],
    StateMachineMethod = 0x36: [Rid(Table::MethodDef), Rid(Table::MethodDef)],
    CustomDebugInformation = 0x37: [Coded(&HAS_CUSTOM_DEBUG_INFORMATION), Guid, Blob],
}

/// Tables a module can name by the 64-bit mask of the #~ stream.
const NUMBERS: usize = 64;

/// The last row that a token can name (II.24.2.6).
const MAX_RID: u32 = 0x00ff_ffff;

/// Columns of the widest table (Assembly, AssemblyRef).
const MAX_COLUMNS: usize = 9;

/// HeapSizes (II.24.2.6): wide #Strings, #GUID, #Blob; by CoreCLR's metamodel,
/// 4 more bytes after the row counts.
const WIDE_STRINGS: u8 = 0x01;
const WIDE_GUID: u8 = 0x02;
const WIDE_BLOB: u8 = 0x04;
const EXTRA_DATA: u8 = 0x40;

/// Where one table's rows lie.
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
    /// No rows at all.
    pub(super) fn empty() -> Tables {
        Tables { rows: [Rows::default(); NUMBERS], sorted: 0, cut: false }
    }

    /// Read the header of the stream at `start..end` of `data`.
    ///
    /// `minimal` makes every index 4 bytes wide (#JTD). `referenced` are the
    /// row counts of the tables that a PDB names but does not hold.
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
            // A count is believed as far as there are bytes for it.
            let room = stream.len().saturating_sub(at) / usize::from(size);
            rows.count = stated.min(MAX_RID).min(u32::try_from(room).unwrap_or(MAX_RID));
            rows.size = u32::from(size);
            rows.start = start + at;
            at += rows.count as usize * usize::from(size);
            if rows.count < stated {
                // Where the next table starts isn't known to be in the bytes.
                tables.cut = true;
                at = stream.len();
            }
        }
        Ok(tables)
    }

    /// Rows of `table` that are there.
    pub(super) fn count(&self, table: Table) -> u32 {
        self.rows.get(table as usize).map_or(0, |r| r.count)
    }

    /// Whether the stream says that `table` is sorted by its key.
    pub(super) fn is_sorted(&self, table: Table) -> bool {
        self.sorted & (1 << (table as u32)) != 0
    }

    /// What row `rid` of `table` holds in a column.
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

/// How wide an index is in this module (II.24.2.6).
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
