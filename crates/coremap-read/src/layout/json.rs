//! Parses a layout from JSON.
//!
//! The format is the compact one of dotnet/runtime, docs/design/datacontracts/data_descriptor.md, with additional keys:
//! `id`, `from` (source of the numbers), `base` (the tables that this one extends), `null` for a base field that
//! this one lacks, `constants`, and `note` within a type.

use serde_json::{Map, Value};

use crate::limits;

use super::{Global, Layout, LayoutError, SUB_DESCRIPTOR};

impl Layout {
    /// Parses a table. Unknown entries are ignored. Numbers that are too large are an error.
    ///
    /// # Errors
    /// [`LayoutError::Parse`]
    pub fn parse(text: &str) -> Result<Layout, LayoutError> {
        Layout::parse_from(text, false)
    }

    /// Parses text that is not from a table, as [`Layout::parse`] does.
    ///
    /// # Errors
    /// [`LayoutError::Parse`]
    pub fn parse_from(text: &str, said: bool) -> Result<Layout, LayoutError> {
        let fail = |what: String| LayoutError::Parse(what);
        let root: Value = serde_json::from_str(text).map_err(|e| fail(e.to_string()))?;
        let word = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut layout = Layout::new(&word("id"), &word("from"));
        layout.bases = match root.get("base") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        for (kind, fields) in entries(&root, "types", &mut layout.capped) {
            let fields = fields.as_object().ok_or_else(|| fail(format!("type {kind} is not an object")))?;
            layout.put_type(kind);
            for (field, value) in capped(fields, &mut layout.capped) {
                // [offset, "type"] or offset
                let value = value.as_array().and_then(|a| a.first()).unwrap_or(value);
                if value.is_null() && !said {
                    layout.put_absent(kind, field);
                }
                if let Some(offset) = number(value) {
                    if said && offset.unsigned_abs() > u128::from(limits::MAX_FIELD_OFFSET.unsigned_abs()) {
                        return Err(fail(format!("{kind}.{field} = {offset} is not a valid offset")));
                    }
                    layout.put(kind, field, i64::try_from(offset).unwrap_or(i64::MAX))?;
                }
            }
        }
        // `constants` is our own key, and ignored in a process's memory.
        let groups = if said { None } else { Some(entries(&root, "constants", &mut layout.capped)) };
        for (group, numbers) in groups.into_iter().flatten() {
            let numbers = numbers.as_object().ok_or_else(|| fail(format!("constants {group} are not an object")))?;
            for (name, value) in capped(numbers, &mut layout.capped) {
                if let Some(value) = number(value).and_then(|n| u64::try_from(n).ok()) {
                    layout.put_constant(group, name, value);
                }
            }
        }
        for (name, value) in entries(&root, "globals", &mut layout.capped) {
            if let Some(global) = parse_global(value) {
                layout.put_global(name, global);
            }
        }
        for (name, value) in entries(&root, "subDescriptors", &mut layout.capped) {
            if let Some(global) = parse_global(value) {
                layout.put_global(&format!("{SUB_DESCRIPTOR}{name}"), global);
            }
        }
        for (name, version) in entries(&root, "contracts", &mut layout.capped) {
            let version = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
            layout.put_contract(name, &version);
        }
        Ok(layout)
    }
}

fn entries<'v>(root: &'v Value, key: &str, cut: &mut bool) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
    root.get(key).and_then(Value::as_object).map(|map| capped(map, cut)).into_iter().flatten()
}

/// The first entries of `map`, up to the limit. Sets `cut` if there are more.
fn capped<'v>(map: &'v Map<String, Value>, cut: &mut bool) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
    *cut |= map.len() > limits::MAX_DESCRIPTOR_ENTRIES;
    map.iter().take(limits::MAX_DESCRIPTOR_ENTRIES)
}

/// A number, or a number as text in decimal or `0x…`.
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

/// Parses `value`, `[value, "type"]`, `[index]` or `[[index], "type"]`.
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
                "constants":{"Flags":{"Detached":2147483648,"note":"x"}},
                "globals":{"A":["0xc","uint8"],"B":[[2],"pointer"],"C":[3],"D":["1","string"],"E":7},
                "contracts":{"Thread":1,"GC":"c2"}}"#,
        )?;
        assert_eq!(layout.field("Thread", "GCHandle")?, 304);
        assert_eq!(layout.size("Thread")?, 400);
        assert_eq!(layout.constant("Flags", "Detached")?, 1 << 31);
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
}
