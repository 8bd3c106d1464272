//! Functions, their scripts and scopes: names and places in the source.

use crate::runtimes::v8::heap::sizes::{ScopeParts, scope_parts};
use crate::runtimes::v8::vm::{Vm, count, smi, strong};

/// Maximum length of a name in characters.
const MAX_NAME: usize = 1024;

/// Maximum length of a script's source in characters. Longer ones have no lines.
const MAX_SOURCE: usize = 64 << 20;

/// Possible offsets in a SharedFunctionInfo of its code or data: in the untrusted field, and in the trusted one before
/// it.
pub(super) const FUNCTION_DATA: [u64; 2] = [8, 16];

/// Offsets in an UncompiledData: name, start and end of the function in the source (shared-function-info.tq).
mod uncompiled {
    pub(super) const NAME: u64 = 8;
    pub(super) const START: u64 = 16;
}

/// First offset of the names in a table of variables, and the size of an entry (NameToIndexHashTable).
const NAME_TABLE: (u64, u64) = (40, 16);

/// Where a function is in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub line: u32,
    pub column: u32,
}

impl<'p> Vm<'p> {
    /// Returns the SharedFunctionInfo of a function.
    pub(super) fn shared(&self, function: u64) -> Option<u64> {
        self.object(function, self.offsets.function_shared).filter(|shared| self.is(*shared, "SHARED_FUNCTION_INFO"))
    }

    /// Returns the parts of a ScopeInfo.
    pub(super) fn scope(&self, scope: u64) -> Option<ScopeParts> {
        scope_parts(&self.form.scope, |i| self.field(scope, i.checked_mul(8)?))
    }

    fn scope_text(&self, scope: u64, word: Option<u64>) -> Option<String> {
        let string = self.object(scope, word?.checked_mul(8)?).filter(|string| self.is_string(*string))?;
        self.text(string, MAX_NAME).filter(|name| !name.is_empty())
    }

    /// Returns the name of the function with this SharedFunctionInfo, as V8 prints it. Empty if the function has none.
    pub(super) fn function_name(&self, shared: u64) -> String {
        let name = self.field(shared, self.offsets.shared_name).and_then(strong);
        if let Some(name) = name {
            if self.is_string(name) {
                let name = self.text(name, MAX_NAME).unwrap_or_default();
                if !name.is_empty() {
                    return name;
                }
            } else if self.is(name, "SCOPE_INFO")
                && let Some(parts) = self.scope(name)
                && let Some(name) =
                    self.scope_text(name, parts.function).or_else(|| self.scope_text(name, parts.inferred))
            {
                return name;
            }
        }
        let inferred = FUNCTION_DATA.iter().find_map(|offset| {
            let name = self.object(self.uncompiled(shared, *offset)?, uncompiled::NAME)?;
            self.is_string(name).then(|| self.text(name, MAX_NAME)).flatten()
        });
        inferred.unwrap_or_default()
    }

    fn uncompiled(&self, shared: u64, offset: u64) -> Option<u64> {
        let data = self.object(shared, offset)?;
        let name = self.types.name(self.type_of(data)?)?;
        name.starts_with("UNCOMPILED_DATA").then_some(data)
    }

    /// Returns the Script of a SharedFunctionInfo.
    pub(super) fn script(&self, shared: u64) -> Option<u64> {
        let script = self.object(shared, self.offsets.shared_script)?;
        if self.is(script, "DEBUG_INFO") {
            // A debugger may have replaced the script by an object that refers to it.
            let fields = (8..80).step_by(8).filter_map(|offset| self.object(script, offset));
            return fields.into_iter().find(|field| self.is(*field, "SCRIPT"));
        }
        self.is(script, "SCRIPT").then_some(script)
    }

    /// Returns the name of a Script: a path, or `node:` with a module. `None` if it has none.
    pub(super) fn script_name(&self, script: u64) -> Option<String> {
        let name = self.object(script, self.offsets.script_name).filter(|name| self.is_string(*name))?;
        self.text(name, MAX_NAME).filter(|name| !name.is_empty())
    }

    /// Returns the ScopeInfo of a SharedFunctionInfo.
    pub(super) fn scope_of(&self, shared: u64) -> Option<u64> {
        self.object(shared, self.offsets.shared_name).filter(|scope| self.is(*scope, "SCOPE_INFO"))
    }

    /// Returns the outer scope of a scope.
    pub(super) fn outer_scope(&self, scope: u64) -> Option<u64> {
        let at = self.scope(scope)?.outer?;
        self.object(scope, 8 * at).filter(|outer| self.is(*outer, "SCOPE_INFO"))
    }

    /// Returns the position in the source where a function begins.
    pub(super) fn start(&self, shared: u64) -> Option<u64> {
        if let Some(scope) = self.scope_of(shared)
            && let Some(at) = self.scope(scope).and_then(|parts| parts.positions)
        {
            return count(self.field(scope, 8 * at)?);
        }
        let data = FUNCTION_DATA.iter().find_map(|offset| self.uncompiled(shared, *offset))?;
        self.half(data.checked_add(uncompiled::START)?).map(u64::from)
    }

    /// Returns the positions of a Script's line breaks.
    pub(super) fn line_ends(&self, script: u64) -> Option<Vec<u32>> {
        let source = self.object(script, self.offsets.script_source).filter(|source| self.is_string(*source))?;
        let length = self.text_length(source)?;
        if length > MAX_SOURCE as u64 {
            return None;
        }
        // Positions count UTF-16 units.
        let text = self.text(source, MAX_SOURCE)?;
        let units = text.chars().scan(0_u32, |at, c| {
            let here = *at;
            *at = here.saturating_add(c.len_utf16() as u32);
            Some((here, c))
        });
        Some(units.filter(|(_, c)| *c == '\n').map(|(at, _)| at).collect())
    }

    /// Returns the names of a scope's context variables, in the order of their slots.
    pub(super) fn variables(&self, scope: u64, parts: &ScopeParts) -> Vec<Option<String>> {
        let locals = parts.locals.min(4096);
        let name = |string: u64| self.is_string(string).then(|| self.text(string, MAX_NAME)).flatten();
        if !parts.names_in_table {
            let slot = |i: u64| self.object(scope, 8 * (parts.names + i)).and_then(name);
            return (0..locals).map(slot).collect();
        }
        let mut out = vec![None; usize::try_from(locals).unwrap_or(0)];
        let Some(table) = self.object(scope, 8 * parts.names) else { return out };
        let capacity = self.field(table, 32).and_then(count).unwrap_or(0).min(16384);
        for i in 0..capacity {
            let at = NAME_TABLE.0 + NAME_TABLE.1 * i;
            let index = self.field(table, at + 8).and_then(smi).and_then(|index| usize::try_from(index).ok());
            if let Some(key) = self.object(table, at)
                && let Some(slot) = index.and_then(|index| out.get_mut(index))
            {
                *slot = name(key);
            }
        }
        out
    }
}

/// Returns the line and column of a position, both from 1 on.
pub(super) fn place(ends: &[u32], position: u64) -> Option<Place> {
    let position = u32::try_from(position).ok()?;
    let line = ends.partition_point(|end| *end < position);
    let start = line.checked_sub(1).and_then(|i| ends.get(i)).map_or(0, |end| end.saturating_add(1));
    Some(Place {
        line: u32::try_from(line).ok()?.saturating_add(1),
        column: position.saturating_sub(start).saturating_add(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_lines_and_columns_from_one_on() {
        // "ab\ncd\n\nx"
        let ends = [2, 5, 6];
        let at = |position| place(&ends, position).map(|place| (place.line, place.column));
        assert_eq!([at(0), at(2), at(3), at(4), at(7)], [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1)].map(Some));
        assert_eq!(place(&ends, u64::MAX), None);
    }
}
