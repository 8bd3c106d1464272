//! A layout: types with their fields' offsets, constants, globals, contract versions,
//! and where each offset comes from.

use std::collections::BTreeMap;

use crate::limits;

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
#[non_exhaustive]
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

/// Offsets of the fields of one type, and under `!` its size.
pub(super) type Fields = BTreeMap<String, i64>;

/// A layout: a value made of JSON, of what a runtime says in its memory, or of both.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Its name.
    pub id: String,
    /// Where its numbers come from.
    pub from: String,
    /// Ids of the tables that it adds to, the lowest first.
    pub bases: Vec<String>,
    /// Fields of these that it has not.
    absent: Vec<(String, String)>,
    types: BTreeMap<String, Fields>,
    constants: BTreeMap<String, BTreeMap<String, u64>>,
    globals: BTreeMap<String, Global>,
    contracts: BTreeMap<String, String>,
    /// Whether it has more than is taken of one.
    pub capped: bool,
}

impl Layout {
    /// An empty layout.
    pub fn new(id: &str, from: &str) -> Layout {
        Layout { id: id.into(), from: from.into(), ..Layout::default() }
    }

    /// Add a type without fields, if it is not there.
    pub fn put_type(&mut self, kind: &str) {
        if self.types.len() < limits::MAX_DESCRIPTOR_ENTRIES {
            self.types.entry(kind.to_owned()).or_default();
        }
    }

    /// Add or replace the offset of a field, in bytes; of field `!`, the type's size.
    ///
    /// # Errors
    /// [`LayoutError::Parse`], where no struct is so large.
    pub fn put(&mut self, kind: &str, field: &str, offset: i64) -> Result<(), LayoutError> {
        if offset.unsigned_abs() > limits::MAX_FIELD_OFFSET.unsigned_abs() {
            return Err(LayoutError::Parse(format!("{kind}.{field} = {offset} is not a valid offset")));
        }
        self.types.entry(kind.to_owned()).or_default().insert(field.to_owned(), offset);
        Ok(())
    }

    /// Say that a field of the tables below is not there.
    pub(super) fn put_absent(&mut self, kind: &str, field: &str) {
        if self.absent.len() < limits::MAX_DESCRIPTOR_ENTRIES {
            self.absent.push((kind.to_owned(), field.to_owned()));
        }
    }

    /// Add or replace a number that is no offset: a flag, a count.
    pub fn put_constant(&mut self, group: &str, name: &str, value: u64) {
        self.constants.entry(group.to_owned()).or_default().insert(name.to_owned(), value);
    }

    /// Add or replace a global.
    pub fn put_global(&mut self, name: &str, global: Global) {
        self.globals.insert(name.to_owned(), global);
    }

    /// Add or replace a contract's version.
    pub fn put_contract(&mut self, name: &str, version: &str) {
        self.contracts.insert(name.to_owned(), version.to_owned());
    }

    /// Put `over` on top: its fields and globals win, what it lacks stays.
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

    /// This layout on top of a table that it adds to.
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

    /// All fields of a type, for who asks for several of them.
    pub(super) fn fields(&self, kind: &str) -> Option<&Fields> {
        self.types.get(kind)
    }

    /// Names and offsets of all fields of a type, without its size: in its objects they stand for what is there.
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

    /// As [`Layout::field`], for numbers that are never negative.
    ///
    /// # Errors
    /// [`LayoutError::MissingField`], also where the number is negative.
    pub fn positive(&self, kind: &str, field: &str) -> Result<u64, LayoutError> {
        u64::try_from(self.field(kind, field)?).map_err(|_| self.missing(kind, field))
    }

    /// A number that is no offset: a flag, a count, an index.
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

    /// All offsets and sizes: type, field (`!` for the size), bytes.
    #[cfg(feature = "internals")]
    pub fn offsets(&self) -> impl Iterator<Item = (&str, &str, i64)> {
        self.types.iter().flat_map(|(kind, fields)| fields.iter().map(move |(f, o)| (&**kind, &**f, *o)))
    }

    /// All constants: group, name, number.
    #[cfg(feature = "internals")]
    pub fn constants(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.constants.iter().flat_map(|(group, numbers)| numbers.iter().map(move |(n, v)| (&**group, &**n, *v)))
    }

    /// All globals.
    #[cfg(feature = "internals")]
    pub fn globals(&self) -> impl Iterator<Item = (&str, &Global)> {
        self.globals.iter().map(|(name, global)| (&**name, global))
    }

    /// All contracts: name, version.
    #[cfg(feature = "internals")]
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
