//! Styles of type names.

use crate::image::metadata::sig::ElementType;
use crate::limits;

/// Text of a function pointer if its parameters are not shown.
pub(super) const FUNCTION: &str = "(fnptr)";

/// Style of a type name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// The runtime's style (src/coreclr/vm/typestring.cpp: TypeString, TypeNameBuilder), with namespaces and full type
    /// arguments: ``System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]]``.
    Runtime,
    /// As SOS `dumpheap` and ClrMD print types: `System.Collections.Generic.List<Lab.CacheEntry>`. Type arguments
    /// follow the name whose arity counts them, even within a chain of nested types, and without their assemblies.
    Listing,
    /// As in signatures (src/coreclr/vm/sigformat.cpp): primitives without namespace, nested types without their
    /// enclosing types, `ByRef`, type arguments in `<>`.
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
            // An array of one dimension with another lower bound than 0: `dumpheap` and ClrMD read `[*]` as type
            // arguments.
            Suffix::Array(0 | 1) if self == Style::Listing => "<*>".into(),
            Suffix::Array(0 | 1) if self == Style::Runtime => "[*]".into(),
            Suffix::Array(rank) | Suffix::SignatureArray(rank) => {
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

/// Suffix after an element type.
#[derive(Clone, Copy)]
pub(super) enum Suffix {
    SzArray,
    /// Number of dimensions of a loaded array type.
    Array(u32),
    /// Number of dimensions of an array type in a signature. Its name does not distinguish an array of one dimension
    /// from one with lower bound 0.
    SignatureArray(u32),
    Ptr,
    ByRef,
    /// A modifier, which is not printed.
    Nothing,
}
