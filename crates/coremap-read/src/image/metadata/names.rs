//! Queries over several rows: the owner of a row, the name of a type.
//!
//! Sorted tables: ECMA-335 II.22, "informative: the table shall be sorted".

use std::ops::Range;

use super::{Metadata, Table, Token};
use crate::limits;

impl Metadata<'_> {
    /// Returns the first row of `table` whose column, which never decreases from row to row, is
    /// at least `key`.
    fn lower_bound(&self, table: Table, column: usize, key: u64) -> u32 {
        let (mut low, mut high) = (1, self.row_count(table) + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.cell(table, middle, column).is_some_and(|v| u64::from(v) < key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the first row of `table` with `key` in a column. Uses binary search if the table
    /// is marked as sorted, else a linear one.
    pub(super) fn find(&self, table: Table, column: usize, key: u32) -> Option<u32> {
        self.find_all(table, column, key, 1).first().copied()
    }

    /// Returns at most `max` rows of `table` with `key` in a column.
    pub(super) fn find_all(&self, table: Table, column: usize, key: u32, max: usize) -> Vec<u32> {
        let rows = self.row_count(table);
        let is_key = |rid: &u32| self.cell(table, *rid, column) == Some(key);
        if self.tables.is_sorted(table) {
            let first = self.lower_bound(table, column, u64::from(key));
            (first..=rows).take_while(is_key).take(max).collect()
        } else {
            (1..=rows).filter(is_key).take(max).collect()
        }
    }

    /// Returns the list positions of row `rid`: from its own first one up to the next row's
    /// (II.22.37). If `pointers` has rows, which occurs only in #-, positions count those rows.
    pub(super) fn list(
        &self,
        table: Table,
        rid: u32,
        column: usize,
        pointers: Table,
        target: Table,
    ) -> Option<Range<u32>> {
        let first = self.cell(table, rid, column)?;
        let last = match self.row_count(pointers) {
            0 => self.row_count(target),
            n => n,
        } + 1;
        let end = if rid < self.row_count(table) { self.cell(table, rid + 1, column)? } else { last }.min(last);
        // Row 0 means an empty list.
        Some(if first == 0 || first >= end { first..first } else { first..end })
    }

    /// Returns the row at a list position.
    fn listed(&self, pointers: Table, place: u32) -> Option<u32> {
        if self.row_count(pointers) == 0 { Some(place) } else { self.cell(pointers, place, 0) }
    }

    /// Returns the rows of the fields at these list positions.
    pub fn field_rids(&self, places: Range<u32>) -> impl Iterator<Item = u32> {
        places.filter_map(|place| self.listed(Table::FieldPtr, place))
    }

    /// Returns the rows of the methods at these list positions.
    pub fn method_rids(&self, places: Range<u32>) -> impl Iterator<Item = u32> {
        places.filter_map(|place| self.listed(Table::MethodPtr, place))
    }

    /// Returns the row of `table` whose list contains row `rid` of `target`.
    fn owner(&self, table: Table, column: usize, pointers: Table, target: Table, rid: u32) -> Option<u32> {
        if rid == 0 || rid > self.row_count(target) {
            return None;
        }
        let place = match self.row_count(pointers) {
            0 => rid,
            n => (1..=n).find(|p| self.cell(pointers, *p, 0) == Some(rid))?,
        };
        // The last row that starts at or before it. Earlier rows with the same start are empty.
        let owner = self.lower_bound(table, column, u64::from(place) + 1).checked_sub(1)?;
        self.list(table, owner, column, pointers, target)?.contains(&place).then_some(owner)
    }

    /// Returns the type that declares a method.
    pub fn type_of_method(&self, method_rid: u32) -> Option<u32> {
        self.owner(Table::TypeDef, 5, Table::MethodPtr, Table::MethodDef, method_rid)
    }

    /// Returns `Namespace.Outer+Inner` of a TypeDef, TypeRef or ExportedType. If types enclose
    /// each other in a cycle, the name starts with `?` after [`limits::MAX_TYPE_NESTING`]
    /// names.
    pub fn full_name(&self, token: Token) -> Option<String> {
        let mut names = Vec::new();
        let mut at = token;
        let mut namespace = None;
        while names.len() < limits::MAX_TYPE_NESTING {
            let (name, space, outer) = self.name_and_outer(at)?;
            names.push(name);
            match outer {
                Some(outer) => at = outer,
                None => {
                    namespace = Some(space);
                    break;
                }
            }
        }
        let mut out = match namespace {
            Some(space) if space.is_empty() => String::new(),
            Some(space) => format!("{space}."),
            None => "?+".to_owned(),
        };
        for (i, name) in names.iter().rev().enumerate() {
            if i > 0 {
                out.push('+');
            }
            out.push_str(name);
        }
        Some(out)
    }

    /// Returns a type's own name, its namespace, and the enclosing type.
    fn name_and_outer(
        &self,
        token: Token,
    ) -> Option<(std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>, Option<Token>)> {
        let rid = token.rid();
        match token.table()? {
            Table::TypeDef => {
                let row = self.type_def(rid)?;
                // The low 3 bits of TypeAttributes are above 1 for nested types only
                // (II.23.1.15).
                let outer = if row.flags & 7 > 1 { self.enclosing(rid) } else { None };
                Some((row.name, row.namespace, outer.map(|o| Token::new(Table::TypeDef, o))))
            }
            Table::TypeRef => {
                let row = self.type_ref(rid)?;
                let outer = row.scope.rid_in(Table::TypeRef).map(|_| row.scope);
                Some((row.name, row.namespace, outer))
            }
            Table::ExportedType => {
                let row = self.exported_type(rid)?;
                let outer = row.implementation.rid_in(Table::ExportedType).map(|_| row.implementation);
                Some((row.name, row.namespace, outer))
            }
            _ => None,
        }
    }
}
