use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::bytes::printable;

/// A name shared by many rows and stored once, since a name may have 16 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl From<String> for Name {
    fn from(name: String) -> Name {
        Name(name.into())
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Name {
        Name(name.into())
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Name {
        Name(name)
    }
}

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    /// The name as in tables, cut if it is long.
    pub fn shown(&self) -> String {
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", self.0.get(..end).unwrap_or_default()),
            None => self.0.to_string(),
        }
    }
}

/// Maximum number of characters of a name in a table with many rows.
const SHOWN: usize = 500;

/// Names made printable, each stored once: half a million mappings of one file share a path.
#[derive(Default)]
pub struct Shown {
    /// Names by address of the text. The stored `Arc` keeps the address valid.
    known: HashMap<usize, (Arc<str>, Name)>,
}

impl Shown {
    /// The printable form of a name.
    pub(crate) fn of(&mut self, name: &Arc<str>) -> Name {
        let make = || {
            let shown = match printable(name) {
                std::borrow::Cow::Borrowed(_) => Name(name.clone()),
                std::borrow::Cow::Owned(safe) => Name::from(safe),
            };
            (name.clone(), shown)
        };
        self.known.entry(name.as_ptr() as usize).or_insert_with(make).1.clone()
    }
}
