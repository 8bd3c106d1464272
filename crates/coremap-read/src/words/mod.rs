//! Words of the answers. Each field that takes one of a few values has an enum, with the word that JSON, CSV and tables
//! show for each value.
//!
//! This room uses no other, so that the rooms that find a fact and the reports that show it share one type. Users of
//! the library find it in [`crate::report`]. Kinds and confidences of regions are in [`crate::map`], machines and
//! producers in [`crate::targets`].
//!
//! Words that come from a managed runtime are plain text instead: generations of any heap, tiers of code, roles of
//! threads, marks on stacks, kinds of roots.

mod code;
mod export;
mod malloc;
mod managed;
mod memory;
mod native;
mod process;
mod secrets;
mod series;
mod threads;

pub use code::{CodeKind, CodePart, Execution, FrameRowKind, TextFormat, Trust};
pub use export::{ExportFormat, ExportSubject};
pub use malloc::{AllocatorName, ChunkPlace, ChunkState, ClusterContent};
pub use managed::{
    AsyncEnd, AsyncPart, AsyncState, FieldStorage, FinalizerState, GcMode, Generation, HandleKind, HolderState,
    LockKind, TaskEndKind, TaskStatus, WaitKind,
};
pub use memory::{BlockBorders, BlockContent, BufferMemory, HitEncoding, Kept, TargetKind};
pub use native::{BlockRole, FaultCause, LastWordsKind, NativeRootKind, OwnerState};
pub use process::{Compression, ImageFormat, OsSubject};
pub use secrets::{SecretKind, SecretSeverity};
pub use series::{Measure, Part, RecordingEnd, SeriesClock, SeriesOf, Verdict};
pub use threads::StackState;

/// Declares an enum of words: `Variant = "word"` for each value.
///
/// It gets `ALL`, `name`, a `Display` that respects the width, and JSON with a schema that lists the words. If rows of
/// a table need a default, one value is marked `#[default]`. The default is only used for headers of CSV.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$of:meta])* $value:ident = $word:tt,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
        $vis enum $name {
            $($(#[$of])* #[serde(rename = $word)] $value,)+
        }

        impl $name {
            /// All values, as they are declared.
            #[allow(dead_code, reason = "of some enums nobody needs the list")]
            pub const ALL: &'static [$name] = &[$($name::$value),+];

            /// The word in JSON, CSV and tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$value => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub use words;

/// Implements the same traits for an enum that contains another one, by its `name` and `all`. `$about` describes it in
/// the schema.
#[doc(hidden)]
#[macro_export]
macro_rules! worded {
    ($name:ident, $about:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = $name::all().map($name::name).collect();
                schemars::json_schema!({ "description": $about, "type": "string", "enum": words })
            }
        }
    };
}
pub use worded;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_a_table_and_the_name_have_one_word() -> Result<(), serde_json::Error> {
        for kind in FieldStorage::ALL {
            assert_eq!(serde_json::to_string(kind)?, format!("\"{}\"", kind.name()));
            assert_eq!(kind.to_string(), kind.name());
        }
        assert_eq!(serde_json::to_string(&FieldStorage::Image)?, "\"static in the image\"");
        assert_eq!(format!("{:<5}|{:>5}", TextFormat::Gdb, TextFormat::Perf), "gdb  | perf");
        Ok(())
    }

    #[test]
    fn the_schema_lists_the_words() -> Result<(), serde_json::Error> {
        let schema = serde_json::to_value(schemars::schema_for!(ChunkState))?;
        let words = schema["oneOf"].as_array().into_iter().flatten().map(|value| value["const"].as_str());
        assert_eq!(words.collect::<Vec<_>>(), ["used", "free", "unknown"].map(Some));
        Ok(())
    }
}
