//! A layout: types with the offsets of their fields, constants, globals, contract versions, and the source of each
//! offset.

use std::collections::BTreeMap;

use crate::limits;

/// Key for a type's size.
const SIZE: &str = "!";

/// Value of a global.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Global {
    /// A number.
    Value(u64),
    /// An index into the descriptor's table of pointers.
    Pointer(usize),
    /// Text.
    Text(String),
}

/// Why a layout has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The text is not JSON, or not in the right format.
    #[error("layout: {0}")]
    Parse(String),
    /// The layout has no such field.
    #[error("layout {layout} has no {kind}.{field}")]
    MissingField {
        /// Name of the layout.
        layout: String,
        /// Requested type.
        kind: String,
        /// Requested field.
        field: String,
    },
    /// The layout has no such global.
    #[error("layout {layout} has no global {name}")]
    MissingGlobal {
        /// Name of the layout.
        layout: String,
        /// Requested global.
        name: String,
    },
}

/// Offsets of the fields of one type, and under `!` its size.
pub(super) type Fields = BTreeMap<String, i64>;

/// A layout, from JSON, from a runtime's description in its memory, or from both.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Name of the layout.
    pub id: String,
    /// Source of the numbers.
    pub from: String,
    /// IDs of the tables that this one extends, the lowest first.
    pub bases: Vec<String>,
    /// Fields (type, field) of those tables that this one lacks.
    absent: Vec<(String, String)>,
    types: BTreeMap<String, Fields>,
    constants: BTreeMap<String, BTreeMap<String, u64>>,
    globals: BTreeMap<String, Global>,
    contracts: BTreeMap<String, String>,
    /// Whether entries beyond the limit were left out.
    pub capped: bool,
}

impl Layout {
    /// An empty layout.
    pub fn new(id: &str, from: &str) -> Layout {
        Layout { id: id.into(), from: from.into(), ..Layout::default() }
    }

    /// Adds a type without fields, unless the type exists.
    pub fn put_type(&mut self, kind: &str) {
        if self.types.len() < limits::MAX_DESCRIPTOR_ENTRIES {
            self.types.entry(kind.to_owned()).or_default();
        }
    }

    /// Adds or replaces the offset of a field in bytes. The field `!` is the type's size.
    ///
    /// # Errors
    /// [`LayoutError::Parse`], if the offset is larger than any struct.
    pub fn put(&mut self, kind: &str, field: &str, offset: i64) -> Result<(), LayoutError> {
        if offset.unsigned_abs() > limits::MAX_TABLE_OFFSET.unsigned_abs() {
            return Err(LayoutError::Parse(format!("{kind}.{field} = {offset} is not a valid offset")));
        }
        self.types.entry(kind.to_owned()).or_default().insert(field.to_owned(), offset);
        Ok(())
    }

    /// Records that a field of the extended tables does not exist.
    pub(super) fn put_absent(&mut self, kind: &str, field: &str) {
        if self.absent.len() < limits::MAX_DESCRIPTOR_ENTRIES {
            self.absent.push((kind.to_owned(), field.to_owned()));
        }
    }

    /// Adds or replaces a number that is not an offset: a flag, a count.
    pub fn put_constant(&mut self, group: &str, name: &str, value: u64) {
        self.constants.entry(group.to_owned()).or_default().insert(name.to_owned(), value);
    }

    /// Adds or replaces a global.
    pub fn put_global(&mut self, name: &str, global: Global) {
        self.globals.insert(name.to_owned(), global);
    }

    /// Adds or replaces a contract's version.
    pub fn put_contract(&mut self, name: &str, version: &str) {
        self.contracts.insert(name.to_owned(), version.to_owned());
    }

    /// Merges `over` into this layout. Its entries win.
    pub fn overlay(&mut self, over: &Layout) {
        for (kind, fields) in &over.types {
            self.types.entry(kind.clone()).or_default().extend(fields.iter().map(|(k, v)| (k.clone(), *v)));
        }
        for (group, numbers) in &over.constants {
            self.constants.entry(group.clone()).or_default().extend(numbers.iter().map(|(k, v)| (k.clone(), *v)));
        }
        self.globals.extend(over.globals.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.contracts.extend(over.contracts.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.capped |= over.capped;
        self.id = format!("{} over {}", over.id, self.id);
    }

    /// Merges this layout over a table that it extends.
    #[must_use]
    pub fn on(&self, base: &Layout) -> Layout {
        let mut whole = base.clone();
        for (kind, field) in &self.absent {
            if let Some(fields) = whole.types.get_mut(kind) {
                fields.remove(field);
            }
        }
        whole.overlay(self);
        let (id, from) = (self.id.clone(), self.from.clone());
        Layout { id, from, bases: Vec::new(), ..whole }
    }

    /// Offset of a field in bytes.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`]
    pub fn field(&self, kind: &str, field: &str) -> Result<i64, LayoutError> {
        self.types.get(kind).and_then(|t| t.get(field)).copied().ok_or_else(|| self.missing(kind, field))
    }

    /// All fields of a type, for callers that read several.
    pub(super) fn fields(&self, kind: &str) -> Option<&Fields> {
        self.types.get(kind)
    }

    /// Names and offsets of all fields of a type, without its size.
    pub fn fields_of(&self, kind: &str) -> impl Iterator<Item = (&str, u64)> {
        let fields = self.types.get(kind).into_iter().flatten();
        let own = fields.filter(|(name, _)| *name != SIZE);
        own.filter_map(|(name, offset)| Some((name.as_str(), u64::try_from(*offset).ok()?)))
    }

    pub(super) fn missing(&self, kind: &str, field: &str) -> LayoutError {
        LayoutError::MissingField { layout: self.id.clone(), kind: kind.into(), field: field.into() }
    }

    /// Size of a type in bytes.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`]
    pub fn size(&self, kind: &str) -> Result<u64, LayoutError> {
        self.positive(kind, SIZE)
    }

    /// Offset of a field that is never negative.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`], also if the offset is negative.
    pub fn positive(&self, kind: &str, field: &str) -> Result<u64, LayoutError> {
        u64::try_from(self.field(kind, field)?).map_err(|_| self.missing(kind, field))
    }

    /// A constant: a flag, a count, an index.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`]
    pub fn constant(&self, group: &str, name: &str) -> Result<u64, LayoutError> {
        let found = self.constants.get(group).and_then(|numbers| numbers.get(name)).copied();
        found.ok_or_else(|| self.missing(&format!("constants {group}"), name))
    }

    /// A global.
    ///
    /// # Errors
    /// [`LayoutError::MissingGlobal`]
    pub fn global(&self, name: &str) -> Result<&Global, LayoutError> {
        self.globals.get(name).ok_or_else(|| LayoutError::MissingGlobal { layout: self.id.clone(), name: name.into() })
    }

    /// Numeric value of a global. `None` if there is none.
    pub fn value(&self, name: &str) -> Option<u64> {
        match self.global(name) {
            Ok(Global::Value(value)) => Some(*value),
            _ => None,
        }
    }

    /// Text of a global. `None` if there is none.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.global(name) {
            Ok(Global::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Version of a contract as text (`2`, `c2`).
    pub fn contract(&self, name: &str) -> Option<&str> {
        self.contracts.get(name).map(String::as_str)
    }

    /// All offsets and sizes: type, field (`!` for the size), bytes.
    #[doc(hidden)]
    pub fn offsets(&self) -> impl Iterator<Item = (&str, &str, i64)> {
        self.types.iter().flat_map(|(kind, fields)| fields.iter().map(move |(f, o)| (&**kind, &**f, *o)))
    }

    /// All constants: group, name, number.
    #[doc(hidden)]
    pub fn constants(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.constants.iter().flat_map(|(group, numbers)| numbers.iter().map(move |(n, v)| (&**group, &**n, *v)))
    }

    /// All globals.
    pub fn globals(&self) -> impl Iterator<Item = (&str, &Global)> {
        self.globals.iter().map(|(name, global)| (&**name, global))
    }

    /// All contracts: name, version.
    #[doc(hidden)]
    pub fn contracts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.contracts.iter().map(|(name, version)| (&**name, &**version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_wins_and_keeps_the_rest() -> Result<(), LayoutError> {
        let mut under = Layout::parse(r#"{"id":"u","types":{"T":{"A":1,"B":2}},"constants":{"C":{"X":1}}}"#)?;
        under.overlay(&Layout::parse_from(r#"{"id":"o","types":{"T":{"B":3}}}"#, true)?);
        assert_eq!((under.field("T", "A")?, under.field("T", "B")?, under.constant("C", "X")?), (1, 3, 1));
        Ok(())
    }

    #[test]
    fn a_layout_can_come_from_the_runtimes_own_tables() -> Result<(), LayoutError> {
        let mut layout = Layout::new("vmStructs", "the runtime's own tables");
        layout.put("Klass", "_name", 24)?;
        layout.put("Klass", "!", 184)?;
        assert!(layout.put("Klass", "_far", i64::MAX).is_err());
        assert_eq!((layout.field("Klass", "_name")?, layout.size("Klass")?), (24, 184));
        assert!(layout.field("Klass", "_far").is_err());
        Ok(())
    }
}
