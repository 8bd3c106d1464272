//! A layout: types with their fields' offsets, globals, contract versions.
//!
//! Form: dotnet/runtime, docs/design/datacontracts/data_descriptor.md (the
//! compact one), with two keys of ours: `from` (where the numbers come from)
//! and `note` within a type.

use crate::limits;
use std::collections::BTreeMap;

use serde_json::Value;

/// Key that holds a type's size.
const SIZE: &str = "!";

/// A global's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Global {
    /// A number.
    Value(u64),
    /// An index into the descriptor's table of pointers.
    Pointer(usize),
    /// Text.
    Text(String),
}

/// Why a layout can't answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not JSON, or not of the form.
    #[error("layout: {0}")]
    Parse(String),
    /// No table has that field.
    #[error("layout {layout} has no {kind}.{field}")]
    MissingField {
        /// Layout asked.
        layout: String,
        /// Type asked for.
        kind: String,
        /// Field asked for.
        field: String,
    },
    /// No table has that global.
    #[error("layout {layout} has no global {name}")]
    MissingGlobal {
        /// Layout asked.
        layout: String,
        /// Global asked for.
        name: String,
    },
}

/// A layout.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Its name.
    pub id: String,
    /// Where its numbers come from.
    pub from: String,
    types: BTreeMap<String, BTreeMap<String, i64>>,
    globals: BTreeMap<String, Global>,
    contracts: BTreeMap<String, String>,
    /// Whether it has more than is taken of one.
    pub capped: bool,
}

impl Layout {
    /// Parse JSON text; what is not understood is left out, what is too large
    /// is refused.
    ///
    /// # Errors
    /// [`LayoutError::Parse`]
    pub fn parse(text: &str) -> Result<Layout, LayoutError> {
        let fail = |what: String| LayoutError::Parse(what);
        let root: Value = serde_json::from_str(text).map_err(|e| fail(e.to_string()))?;
        let word = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut layout = Layout { id: word("id"), from: word("from"), ..Layout::default() };
        let most = limits::MAX_DESCRIPTOR_ENTRIES;
        let table = |key: &str| root.get(key).and_then(Value::as_object);
        let mut capped =
            ["types", "globals", "contracts"].into_iter().filter_map(table).any(|entries| entries.len() > most);
        let table = |key: &str| table(key).into_iter().flatten().take(most);
        for (kind, fields) in table("types") {
            let fields = fields.as_object().ok_or_else(|| fail(format!("type {kind} is not an object")))?;
            let mut offsets = BTreeMap::new();
            capped |= fields.len() > most;
            for (field, value) in fields.iter().take(most) {
                // [offset, "type"] or offset
                let value = value.as_array().and_then(|a| a.first()).unwrap_or(value);
                let Some(offset) = number(value) else { continue };
                let offset = i64::try_from(offset).unwrap_or(i64::MAX);
                if kind.starts_with("constants") || offset.unsigned_abs() <= limits::MAX_FIELD_OFFSET.unsigned_abs() {
                    offsets.insert(field.clone(), offset);
                } else {
                    return Err(fail(format!("{kind}.{field} = {offset} is no offset")));
                }
            }
            layout.types.insert(kind.clone(), offsets);
        }
        for (name, value) in table("globals") {
            if let Some(global) = parse_global(value) {
                layout.globals.insert(name.clone(), global);
            }
        }
        for (name, version) in table("contracts") {
            let version = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
            layout.contracts.insert(name.clone(), version);
        }
        layout.capped = capped;
        Ok(layout)
    }

    /// Put `over` on top: its fields and globals win, what it lacks stays.
    pub fn overlay(&mut self, over: &Layout) {
        for (kind, fields) in &over.types {
            self.types.entry(kind.clone()).or_default().extend(fields.iter().map(|(k, v)| (k.clone(), *v)));
        }
        self.globals.extend(over.globals.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.contracts.extend(over.contracts.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.id = format!("{} over {}", over.id, self.id);
    }

    /// Offset of a field in bytes (or a number of the table's own).
    ///
    /// # Errors
    /// [`LayoutError::MissingField`]
    pub fn field(&self, kind: &str, field: &str) -> Result<i64, LayoutError> {
        self.types.get(kind).and_then(|t| t.get(field)).copied().ok_or_else(|| LayoutError::MissingField {
            layout: self.id.clone(),
            kind: kind.into(),
            field: field.into(),
        })
    }

    /// Size of a type in bytes.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`]
    pub fn size(&self, kind: &str) -> Result<u64, LayoutError> {
        self.positive(kind, SIZE)
    }

    /// As [`Layout::field`], for numbers that are never negative.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`], also where the number is negative.
    pub fn positive(&self, kind: &str, field: &str) -> Result<u64, LayoutError> {
        let value = self.field(kind, field)?;
        u64::try_from(value).map_err(|_| LayoutError::MissingField {
            layout: self.id.clone(),
            kind: kind.into(),
            field: field.into(),
        })
    }

    /// A global.
    ///
    /// # Errors
    /// [`LayoutError::MissingGlobal`]
    pub fn global(&self, name: &str) -> Result<&Global, LayoutError> {
        self.globals.get(name).ok_or_else(|| LayoutError::MissingGlobal { layout: self.id.clone(), name: name.into() })
    }

    /// A global's number; `None` where it has none.
    pub fn value(&self, name: &str) -> Option<u64> {
        match self.global(name) {
            Ok(Global::Value(value)) => Some(*value),
            _ => None,
        }
    }

    /// A global's text; `None` where it has none.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.global(name) {
            Ok(Global::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Version of a contract, as text (`2`, `c2`).
    pub fn contract(&self, name: &str) -> Option<&str> {
        self.contracts.get(name).map(String::as_str)
    }
}

/// A number, or one in text, decimal or `0x…`.
fn number(value: &Value) -> Option<i128> {
    match value {
        Value::Number(n) => n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from)),
        Value::String(s) => match s.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
            None => s.parse().ok(),
        },
        _ => None,
    }
}

/// `value`, `[value, "type"]`, `[index]` or `[[index], "type"]`.
fn parse_global(value: &Value) -> Option<Global> {
    let plain = |v: &Value| match number(v) {
        Some(n) => u64::try_from(n).ok().map(Global::Value),
        None => v.as_str().map(|s| Global::Text(s.to_owned())),
    };
    let index = |v: &Value| number(v).and_then(|n| usize::try_from(n).ok()).map(Global::Pointer);
    match value.as_array().map(Vec::as_slice) {
        None => plain(value),
        Some([only]) => index(only),
        Some([Value::Array(inner), _]) => inner.first().and_then(index),
        Some([Value::String(text), Value::String(kind)]) if kind == "string" => Some(Global::Text(text.clone())),
        Some([first, _]) => plain(first),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_fields_and_globals() -> Result<(), LayoutError> {
        let layout = Layout::parse(
            r#"{"types":{"Thread":{"Id":16,"GCHandle":[304,"GCHandle"],"!":400,"note":"x"}},
                "globals":{"A":["0xc","uint8"],"B":[[2],"pointer"],"C":[3],"D":["1","string"],"E":7},
                "contracts":{"Thread":1,"GC":"c2"}}"#,
        )?;
        assert_eq!(layout.field("Thread", "GCHandle")?, 304);
        assert_eq!(layout.size("Thread")?, 400);
        assert_eq!(layout.global("A")?, &Global::Value(12));
        assert_eq!(layout.global("B")?, &Global::Pointer(2));
        assert_eq!(layout.global("C")?, &Global::Pointer(3));
        assert_eq!(layout.global("D")?, &Global::Text("1".into()));
        assert_eq!(layout.contract("GC"), Some("c2"));
        Ok(())
    }

    #[test]
    fn what_is_cut_of_a_layout_is_marked() -> Result<(), LayoutError> {
        let fields = |n: usize| (0..n).map(|i| format!(r#""F{i}":{}"#, i % 64)).collect::<Vec<_>>().join(",");
        let most = limits::MAX_DESCRIPTOR_ENTRIES;
        for (n, capped) in [(most, false), (most + 1, true)] {
            assert_eq!(
                Layout::parse(&format!(r#"{{"types":{{"T":{{{}}}}}}}"#, fields(n)))?.capped,
                capped,
                "{n} fields"
            );
            assert_eq!(Layout::parse(&format!(r#"{{"globals":{{{}}}}}"#, fields(n)))?.capped, capped, "{n} globals");
        }
        Ok(())
    }

    #[test]
    fn hostile_layouts_are_refused() {
        assert!(Layout::parse(r#"{"types":{"T":{"F":9223372036854775807}}}"#).is_err());
        assert!(Layout::parse("[".repeat(100_000).as_str()).is_err());
        assert!(Layout::parse(r#"{"types":{"T":7}}"#).is_err());
    }

    #[test]
    fn an_overlay_wins_and_keeps_the_rest() -> Result<(), LayoutError> {
        let mut under = Layout::parse(r#"{"id":"u","types":{"T":{"A":1,"B":2}}}"#)?;
        under.overlay(&Layout::parse(r#"{"id":"o","types":{"T":{"B":3}}}"#)?);
        assert_eq!((under.field("T", "A")?, under.field("T", "B")?), (1, 3));
        Ok(())
    }
}
