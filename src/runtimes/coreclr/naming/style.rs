//! The styles that names of types are written in.

use crate::image::metadata::sig::ElementType;
use crate::limits;

/// A function pointer, where no parameters are shown.
pub(super) const FUNCTION: &str = "(fnptr)";

/// Whose names they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// The runtime's own (src/coreclr/vm/typestring.cpp: TypeString, TypeNameBuilder), with
    /// namespaces and full instantiations:
    /// ``System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]]``.
    Runtime,
    /// As SOS `dumpheap` and ClrMD show them: `System.Collections.Generic.List<Lab.CacheEntry>`.
    /// Arguments stand behind the name whose arity counts them, also in the middle of a
    /// chain of nested types, and without their assemblies.
    Listing,
    /// In signatures (src/coreclr/vm/sigformat.cpp): primitives without namespace, nested
    /// types without the types around them, `ByRef`, arguments in `<>`.
    Signature,
}

impl Style {
    pub(super) fn suffix(self, suffix: Suffix) -> String {
        match suffix {
            Suffix::SzArray => "[]".into(),
            Suffix::Ptr => "*".into(),
            Suffix::ByRef if self == Style::Signature => " ByRef".into(),
            Suffix::ByRef => "&".into(),
            Suffix::Nothing => String::new(),
            // One dimension that is not counted from 0: `dumpheap` and ClrMD read `[*]` as
            // a list of arguments.
            Suffix::Array(0 | 1) if self == Style::Listing => "<*>".into(),
            Suffix::Array(0 | 1) if self == Style::Runtime => "[*]".into(),
            Suffix::Array(rank) | Suffix::WrittenArray(rank) => {
                format!("[{}]", ",".repeat(rank.clamp(1, limits::MAX_TYPE_DEPTH) as usize - 1))
            }
        }
    }

    pub(super) fn primitive(self, element: ElementType) -> &'static str {
        let name = element.type_name();
        let short = name.strip_prefix("System.").unwrap_or(name);
        let keeps = matches!(element, ElementType::String | ElementType::Object);
        if self == Style::Signature && !keeps { short } else { name }
    }
}

/// What stands behind the type that another one is made of.
#[derive(Clone, Copy)]
pub(super) enum Suffix {
    SzArray,
    /// By number of dimensions, as the runtime has it loaded.
    Array(u32),
    /// By number of dimensions, as a signature writes it: no name of it tells an array
    /// of one dimension from one that counts from 0.
    WrittenArray(u32),
    Ptr,
    ByRef,
    /// A modifier, which no name shows.
    Nothing,
}
