//! Struct layouts as data: tables bundled with the program, in the form that
//! .NET's own contract descriptor has, each with a note of where it came from.
//! Code asks for a field by name; docs/layouts.md tells of the form.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A bundled table.
#[derive(Debug, Deserialize)]
pub struct Table {
    /// Its name.
    pub id: String,
    /// Where its numbers come from.
    pub from: String,
    types: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(i64),
    Note(#[allow(dead_code, reason = "for readers of the table")] String),
}

/// A field that no table has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout {table} has no {kind}.{field}")]
pub struct MissingField {
    table: String,
    kind: String,
    field: String,
}

impl Table {
    /// Parse a table.
    ///
    /// # Errors
    /// Where the text is not of the form that docs/layouts.md tells.
    pub fn parse(text: &str) -> Result<Table, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// A table that has no field.
    pub fn empty() -> Table {
        Table { id: "empty".into(), from: String::new(), types: BTreeMap::new() }
    }

    /// The offset or number of that field, in bytes unless its note says otherwise.
    ///
    /// # Errors
    /// [`MissingField`] where the table has none.
    pub fn field(&self, kind: &str, field: &str) -> Result<i64, MissingField> {
        match self.types.get(kind).and_then(|t| t.get(field)) {
            Some(Value::Number(n)) => Ok(*n),
            _ => Err(MissingField { table: self.id.clone(), kind: kind.into(), field: field.into() }),
        }
    }
}

/// Text of the bundled table for glibc's malloc.
pub const GLIBC_MALLOC: &str = include_str!("tables/glibc-malloc-64.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_tables_parse_and_tell_their_origin() -> Result<(), Box<dyn std::error::Error>> {
        let table = Table::parse(GLIBC_MALLOC)?;
        assert!(table.from.contains("malloc.c"));
        assert_eq!(table.field("malloc_chunk", "mchunk_size")?, 8);
        assert!(table.field("malloc_chunk", "nothing").is_err());
        Ok(())
    }
}
