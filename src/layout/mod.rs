//! Struct layouts as data: tables bundled with the program, and the runtime's
//! own contract descriptor read from memory, in one JSON form. Code asks for a
//! field by name; docs/layouts.md tells of the form.

mod descriptor;
mod model;
mod view;

pub use descriptor::{DescriptorError, read_descriptor};
pub use model::{Global, Layout, LayoutError};
pub use view::{StructView, ViewError};

/// Text of the bundled table for glibc's malloc.
pub const GLIBC_MALLOC: &str = include_str!("tables/glibc-malloc-64.json");

/// Text of the bundled table for Go's runtime.
pub const GO_RUNTIME: &str = include_str!("tables/go-runtime-64.json");

/// Bundled tables for .NET on x86_64: major version and text.
pub const DOTNET_X64: &[(u32, &str)] = &[
    (3, include_str!("tables/dotnet-3.1-x64.json")),
    (8, include_str!("tables/dotnet-8-x64.json")),
    (9, include_str!("tables/dotnet-9-x64.json")),
    (10, include_str!("tables/dotnet-10-x64.json")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_tables_parse_and_tell_their_origin() -> Result<(), Box<dyn std::error::Error>> {
        for text in DOTNET_X64.iter().map(|(_, text)| *text).chain([GLIBC_MALLOC, GO_RUNTIME]) {
            let layout = Layout::parse(text)?;
            assert!(layout.from.len() > 40, "{} tells where its numbers come from", layout.id);
        }
        let malloc = Layout::parse(GLIBC_MALLOC)?;
        assert_eq!(malloc.field("malloc_chunk", "mchunk_size")?, 8);
        assert!(malloc.field("malloc_chunk", "nothing").is_err());
        Ok(())
    }
}
