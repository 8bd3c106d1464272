//! The bundled layout tables.

use std::sync::OnceLock;

use super::{Layout, LayoutError};
use crate::diag::was_read;

/// A bundled table, parsed on first use.
pub struct Table {
    text: &'static str,
    parsed: OnceLock<Result<Layout, LayoutError>>,
}

impl Table {
    const fn new(text: &'static str) -> Table {
        Table { text, parsed: OnceLock::new() }
    }

    /// The layout, including what it inherits from its `base`.
    ///
    /// # Errors
    /// [`LayoutError::Parse`], if the table is invalid. A test parses all tables.
    pub fn layout(&self) -> Result<&Layout, LayoutError> {
        let parse = || {
            let own = Layout::parse(self.text)?;
            was_read(&own.id);
            on_its_bases(own, MAX_BASES)
        };
        self.parsed.get_or_init(parse).as_ref().map_err(Clone::clone)
    }

    /// Its text.
    #[doc(hidden)]
    pub fn text(&self) -> &'static str {
        self.text
    }
}

/// Tables that other tables extend, by ID. Some have the common part of several tables. Others are tables of one
/// architecture from which another architecture's tables differ.
const BASES: &[(&str, &str)] = &[
    ("dotnet-5-7-x64", include_str!("dotnet-5-7-x64.json")),
    ("dotnet-9-11-x64", include_str!("dotnet-9-11-x64.json")),
    ("dotnet-9-10-x64", include_str!("dotnet-9-10-x64.json")),
    ("dotnet-10-11-x64", include_str!("dotnet-10-11-x64.json")),
    ("dotnet-8-x64", include_str!("dotnet-8-x64.json")),
    ("dotnet-9-x64", include_str!("dotnet-9-x64.json")),
    ("dotnet-10-x64", include_str!("dotnet-10-x64.json")),
    ("dotnet-11-x64", include_str!("dotnet-11-x64.json")),
    ("dotnet-arm64", include_str!("dotnet-arm64.json")),
];

/// Maximum depth of tables that extend each other.
const MAX_BASES: usize = 4;

/// Merges a table over its bases, the first of which is lowest.
fn on_its_bases(own: Layout, most: usize) -> Result<Layout, LayoutError> {
    let fail = |why: &str, id: &str| LayoutError::Parse(format!("{}: {why}, {id}", own.id));
    let mut under: Option<Layout> = None;
    for id in &own.bases {
        let (_, text) = BASES.iter().find(|(base, _)| base == id).ok_or_else(|| fail("unknown base table", id))?;
        let most = most.checked_sub(1).ok_or_else(|| fail("base tables nested too deep", id))?;
        let base = on_its_bases(Layout::parse(text)?, most)?;
        under = Some(match &under {
            Some(under) => base.on(under),
            None => base,
        });
    }
    Ok(under.map_or_else(|| own.clone(), |under| own.on(&under)))
}

/// glibc's malloc.
pub static GLIBC_MALLOC: Table = Table::new(include_str!("glibc-malloc-64.json"));

/// musl's malloc.
pub static MUSL_MALLOCNG: Table = Table::new(include_str!("musl-mallocng-64.json"));

/// NativeAOT: fields that its own header leaves out.
pub static NATIVEAOT: Table = Table::new(include_str!("nativeaot-64.json"));

/// NativeAOT: what differs from [`NATIVEAOT`] in some releases, by the major version of their header.
pub static NATIVEAOT_BY_HEADER: [(u16, Table); 1] = [(3, Table::new(include_str!("nativeaot-8-64.json")))];

/// NativeAOT: what differs from [`NATIVEAOT`] from 11.0 on, which has a contract descriptor instead of the header.
pub static NATIVEAOT_11: Table = Table::new(include_str!("nativeaot-11-64.json"));

/// Texts of descriptors for cores that lack the program's constants, with the number of pointers that they refer to.
/// Each has its own number of pointers and its own size.
pub(super) const BUILT_IN_DESCRIPTORS: [(usize, &str); 4] = [
    (9, include_str!("nativeaot-11-x64-descriptor.json")),
    (9, include_str!("nativeaot-11-arm64-descriptor.json")),
    (25, include_str!("nativeaot-11-gc-descriptor.json")),
    (12, include_str!("nativeaot-11-gc-server-descriptor.json")),
];

/// Names of the entries in NativeAOT's own header, by their position. Not a layout.
pub const NATIVEAOT_ENTRIES: &str = include_str!("nativeaot-entries.json");

/// Go's runtime.
pub static GO_RUNTIME: Table = Table::new(include_str!("go-runtime-64.json"));

/// The manifest of a single-file .NET program, in the memory of its host.
pub static DOTNET_BUNDLE: Table = Table::new(include_str!("dotnet-bundle-64.json"));

/// .NET on x86_64, by major version, ascending.
pub static DOTNET_X64: [(u32, Table); 8] = [
    (3, Table::new(include_str!("dotnet-3.1-x64.json"))),
    (5, Table::new(include_str!("dotnet-5-x64.json"))),
    (6, Table::new(include_str!("dotnet-6-x64.json"))),
    (7, Table::new(include_str!("dotnet-7-x64.json"))),
    (8, Table::new(include_str!("dotnet-8-x64.json"))),
    (9, Table::new(include_str!("dotnet-9-x64.json"))),
    (10, Table::new(include_str!("dotnet-10-x64.json"))),
    (11, Table::new(include_str!("dotnet-11-x64.json"))),
];

/// .NET on aarch64, by major version, ascending.
pub static DOTNET_ARM64: [(u32, Table); 4] = [
    (8, Table::new(include_str!("dotnet-8-arm64.json"))),
    (9, Table::new(include_str!("dotnet-9-arm64.json"))),
    (10, Table::new(include_str!("dotnet-10-arm64.json"))),
    (11, Table::new(include_str!("dotnet-11-arm64.json"))),
];

/// EventPipe of .NET, 64-bit.
pub static EVENT_PIPE: Table = Table::new(include_str!("eventpipe-64.json"));

/// numpy's arrays, 64-bit.
pub static NUMPY: Table = Table::new(include_str!("numpy-64.json"));

/// CPython on x86_64 with the global lock, by minor version of Python 3, ascending.
pub static CPYTHON_X64: [(u32, Table); 6] = [
    (9, Table::new(include_str!("cpython-3.9-x64.json"))),
    (10, Table::new(include_str!("cpython-3.10-x64.json"))),
    (11, Table::new(include_str!("cpython-3.11-x64.json"))),
    (12, Table::new(include_str!("cpython-3.12-x64.json"))),
    (13, Table::new(include_str!("cpython-3.13-x64.json"))),
    (14, Table::new(include_str!("cpython-3.14-x64.json"))),
];

/// Go on x86_64, by minor version of Go 1, ascending.
pub static GO_X64: [(u32, Table); 8] = [
    (19, Table::new(include_str!("go-1.19-x64.json"))),
    (21, Table::new(include_str!("go-1.21-x64.json"))),
    (22, Table::new(include_str!("go-1.22-x64.json"))),
    (23, Table::new(include_str!("go-1.23-x64.json"))),
    (24, Table::new(include_str!("go-1.24-x64.json"))),
    (25, Table::new(include_str!("go-1.25-x64.json"))),
    (26, Table::new(include_str!("go-1.26-x64.json"))),
    (27, Table::new(include_str!("go-1.27-x64.json"))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_tables_parse_and_name_their_sources() -> Result<(), Box<dyn std::error::Error>> {
        let all = DOTNET_X64.iter().chain(&DOTNET_ARM64).chain(&CPYTHON_X64).chain(&GO_X64).map(|(_, table)| table);
        let all = all.chain(NATIVEAOT_BY_HEADER.iter().map(|(_, table)| table));
        let others = [&GLIBC_MALLOC, &GO_RUNTIME, &DOTNET_BUNDLE, &MUSL_MALLOCNG, &NATIVEAOT, &NUMPY, &EVENT_PIPE];
        let tables = all.chain(others);
        for layout in tables.map(Table::layout) {
            let layout = layout?;
            assert!(layout.from.len() > 40, "{} names no source of its numbers", layout.id);
        }
        let malloc = GLIBC_MALLOC.layout()?;
        assert_eq!(malloc.field("malloc_chunk", "mchunk_size")?, 8);
        assert!(malloc.field("malloc_chunk", "nothing").is_err());
        Ok(())
    }

    #[test]
    fn no_table_repeats_its_base() -> Result<(), Box<dyn std::error::Error>> {
        for (id, text) in BASES {
            let base = Layout::parse(text)?;
            assert_eq!(&base.id, id);
            for (_, table) in &DOTNET_X64 {
                let own = Layout::parse(table.text)?;
                if !own.bases.iter().any(|base| base == id) {
                    continue;
                }
                let twice: Vec<_> = own.offsets().filter(|(t, f, _)| base.field(t, f).is_ok()).collect();
                assert!(twice.is_empty(), "{}: {twice:?}", own.id);
                let twice: Vec<_> = own.constants().filter(|(g, n, _)| base.constant(g, n).is_ok()).collect();
                assert!(twice.is_empty(), "{}: {twice:?}", own.id);
                let twice: Vec<_> = own.globals().filter(|(n, _)| base.global(n).is_ok()).collect();
                assert!(twice.is_empty(), "{}: {twice:?}", own.id);
            }
        }
        Ok(())
    }

    #[test]
    fn a_table_of_another_architecture_has_what_differs() -> Result<(), Box<dyn std::error::Error>> {
        for (major, table) in &DOTNET_ARM64 {
            let own = Layout::parse(table.text)?;
            assert_eq!(own.bases, [format!("dotnet-{major}-x64"), "dotnet-arm64".to_owned()]);
            let (_, x64) = DOTNET_X64.iter().find(|(of, _)| of == major).ok_or("no such version on x86_64")?;
            let (x64, arm64) = (x64.layout()?, table.layout()?);
            let (_, common) = BASES.iter().find(|(id, _)| *id == "dotnet-arm64").ok_or("no base")?;
            let common = Layout::parse(common)?;
            assert_eq!(arm64.value("TableIsDerived").is_some(), *major < 9, "which were tried on cores");
            let same: Vec<_> = own.offsets().filter(|(t, f, n)| x64.field(t, f) == Ok(*n)).collect();
            assert!(same.is_empty(), "{}: {same:?}", own.id);
            let twice: Vec<_> = own.offsets().filter(|(t, f, _)| common.field(t, f).is_ok()).collect();
            assert!(twice.is_empty(), "{}: {twice:?}", own.id);
            // Fields that RUNTIME_FUNCTION lacks there must not be inherited.
            assert!(x64.field("RuntimeFunction", "EndAddress").is_ok());
            assert!(arm64.field("RuntimeFunction", "EndAddress").is_err());
            assert_eq!(arm64.field("MethodTable", "BaseSize"), x64.field("MethodTable", "BaseSize"));
        }
        Ok(())
    }
}
