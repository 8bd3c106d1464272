//! The tables that are bundled with the program.

use std::sync::OnceLock;

use super::{Layout, LayoutError};
use crate::diag::was_read;

/// A bundled table, parsed when it is first asked for.
pub struct Table {
    text: &'static str,
    parsed: OnceLock<Result<Layout, LayoutError>>,
}

impl Table {
    const fn new(text: &'static str) -> Table {
        Table { text, parsed: OnceLock::new() }
    }

    /// The layout, with what it takes from its `base`.
    ///
    /// # Errors
    /// [`LayoutError::Parse`], if it is not of the form; a test parses each.
    pub fn layout(&self) -> Result<&Layout, LayoutError> {
        let parse = || {
            let own = Layout::parse(self.text)?;
            was_read(&own.id);
            let Some(id) = &own.base else { return Ok(own) };
            let missing = || LayoutError::Parse(format!("{}: no table is its base, {id}", own.id));
            let (_, text) = BASES.iter().find(|(base, _)| base == id).ok_or_else(missing)?;
            Ok(own.on(&Layout::parse(text)?))
        };
        self.parsed.get_or_init(parse).as_ref().map_err(Clone::clone)
    }

    /// Its text.
    pub fn text(&self) -> &'static str {
        self.text
    }
}

/// What several tables have in common, by id.
const BASES: &[(&str, &str)] = &[("dotnet-9-10-x64", include_str!("dotnet-9-10-x64.json"))];

/// glibc's malloc.
pub static GLIBC_MALLOC: Table = Table::new(include_str!("glibc-malloc-64.json"));

/// NativeAOT: what its own header leaves out.
pub static NATIVEAOT: Table = Table::new(include_str!("nativeaot-64.json"));

/// The entries of NativeAOT's own header, by their position: no layout, but lists of names.
pub const NATIVEAOT_ENTRIES: &str = include_str!("nativeaot-entries.json");

/// Go's runtime.
pub static GO_RUNTIME: Table = Table::new(include_str!("go-runtime-64.json"));

/// .NET on x86_64, by major version, in ascending order.
pub static DOTNET_X64: [(u32, Table); 4] = [
    (3, Table::new(include_str!("dotnet-3.1-x64.json"))),
    (8, Table::new(include_str!("dotnet-8-x64.json"))),
    (9, Table::new(include_str!("dotnet-9-x64.json"))),
    (10, Table::new(include_str!("dotnet-10-x64.json"))),
];

/// CPython on x86_64 with the global lock, by minor version of Python 3, in ascending order.
pub static CPYTHON_X64: [(u32, Table); 6] = [
    (9, Table::new(include_str!("cpython-3.9-x64.json"))),
    (10, Table::new(include_str!("cpython-3.10-x64.json"))),
    (11, Table::new(include_str!("cpython-3.11-x64.json"))),
    (12, Table::new(include_str!("cpython-3.12-x64.json"))),
    (13, Table::new(include_str!("cpython-3.13-x64.json"))),
    (14, Table::new(include_str!("cpython-3.14-x64.json"))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_tables_parse_and_tell_their_origin() -> Result<(), Box<dyn std::error::Error>> {
        let all = DOTNET_X64.iter().chain(&CPYTHON_X64).map(|(_, table)| table);
        let tables = all.chain([&GLIBC_MALLOC, &GO_RUNTIME, &NATIVEAOT]);
        for layout in tables.map(Table::layout) {
            let layout = layout?;
            assert!(layout.from.len() > 40, "{} tells where its numbers come from", layout.id);
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
                if own.base.as_deref() != Some(id) {
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
}
