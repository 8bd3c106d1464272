//! Rows of a table by kind, and the one that sums them up.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::map::Kind;

/// What a row by kind is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindOrTotal {
    /// Regions of one kind.
    Kind(Kind),
    /// All of them.
    #[default]
    Total,
}

impl KindOrTotal {
    /// The kind's name, or `total`.
    pub const fn name(self) -> &'static str {
        match self {
            KindOrTotal::Kind(kind) => kind.name(),
            KindOrTotal::Total => "total",
        }
    }
}

impl fmt::Display for KindOrTotal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for KindOrTotal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for KindOrTotal {
    fn schema_name() -> Cow<'static, str> {
        "KindOrTotal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds = Kind::ALL.iter().map(|kind| KindOrTotal::Kind(*kind));
        let names: Vec<&str> = kinds.chain([KindOrTotal::Total]).map(KindOrTotal::name).collect();
        json_schema!({ "description": "A kind of regions, or all of them.", "type": "string", "enum": names })
    }
}
