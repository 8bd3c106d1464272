//! Sorts and cuts the lists of an answer, whatever their rows are.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::ops::Deref;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::render::{Document, Render};
use crate::units::exact;

/// An answer with lists that can be sorted and cut.
pub trait Listing: Render {
    /// The lists: one, or several about the same items.
    fn lists(&mut self) -> Vec<&mut dyn List>;
}

/// Rows of an answer.
pub trait List {
    /// Sorts by a column, named as in [`columns`]. Numbers are descending, `true` precedes `false`, addresses and text
    /// are ascending, missing values last. Stable: equal rows, and rows without this column, stay in order.
    fn sort_by_column(&mut self, column: &str);

    /// Whether a row has a value in this column. `None` if there are no rows.
    fn has_column(&self, column: &str) -> Option<bool>;

    /// Removes all but the first `most` rows. Returns how many were removed.
    fn cut(&mut self, most: usize) -> usize;
}

impl<T: Serialize> List for Vec<T> {
    fn sort_by_column(&mut self, column: &str) {
        self.sort_by_cached_key(|row| Key::of(row, column));
    }

    fn has_column(&self, column: &str) -> Option<bool> {
        (!self.is_empty()).then(|| self.iter().any(|row| Key::of(row, column) != Key::Missing))
    }

    fn cut(&mut self, most: usize) -> usize {
        let more = self.len().saturating_sub(most);
        self.truncate(most);
        more
    }
}

/// Sort key of a row.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(Reverse<i128>),
    Flag(Reverse<bool>),
    Address(u64),
    Text(String),
    Missing,
}

impl Key {
    fn of(row: &impl Serialize, column: &str) -> Key {
        let Ok(row) = serde_json::to_value(row) else { return Key::Missing };
        let cell = column.split('.').try_fold(&row, |value, name| value.get(name));
        match cell {
            Some(Value::Bool(flag)) => Key::Flag(Reverse(*flag)),
            Some(Value::Number(n)) => {
                // Shares are the only numbers that are not integers.
                let scaled = n.as_f64().map(|share| (share * 1e9) as i128);
                let whole = n.as_u64().map(i128::from).or(n.as_i64().map(i128::from)).map(|n| n * 1_000_000_000);
                whole.or(scaled).map_or(Key::Missing, |n| Key::Number(Reverse(n)))
            }
            Some(Value::String(text)) => {
                let address = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
                address.map_or_else(|| Key::Text(text.clone()), Key::Address)
            }
            _ => Key::Missing,
        }
    }
}

/// Columns by which rows of a type can be sorted, as JSON names them. A nested column has a dot: `malloc.bytes`.
pub fn columns<T: JsonSchema>() -> Vec<String> {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let mut out = Vec::new();
    collect(schema.as_value(), schema.as_value(), "", &mut out);
    out
}

fn collect(root: &Value, schema: &Value, within: &str, out: &mut Vec<String>) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let field = resolved(root, field);
        if field.get("properties").is_some() {
            // Tables show one level of nesting.
            if within.is_empty() {
                collect(root, field, &format!("{name}."), out);
            }
        } else if field.get("items").is_none() {
            out.push(format!("{within}{name}"));
        }
    }
}

/// A field's schema, without `null`, and with references resolved.
fn resolved<'v>(root: &'v Value, field: &'v Value) -> &'v Value {
    let any = field.get("anyOf").and_then(Value::as_array);
    let field = any.and_then(|forms| forms.first()).unwrap_or(field);
    let reference = field.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    reference.and_then(|place| root.pointer(place)).unwrap_or(field)
}

/// An answer, sorted and cut.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Listed<R> {
    report: R,
    #[serde(skip)]
    top: Option<usize>,
    /// Rows that were removed, of lists that are no tables.
    #[serde(skip)]
    omitted: usize,
    /// The column to sort by, if no row has a value in it.
    #[serde(skip)]
    missing: Option<String>,
}

impl<R: Listing> Listed<R> {
    /// Sorts `report` by `column`. Its tables have `top` rows (0: all; `None`: each table's default). If `cut` is set,
    /// so do JSON and CSV.
    pub fn new(mut report: R, column: Option<&str>, top: Option<usize>, cut: bool) -> Listed<R> {
        let missing = sort(&mut report, column);
        if let Some(most) = top.filter(|&most| cut && most > 0) {
            for list in report.lists() {
                list.cut(most);
            }
        }
        Listed { report, top, omitted: 0, missing }
    }

    /// Sorts `report` by `column` and cuts its lists to `top` rows (0: all), in all forms. For lists that are no tables.
    pub fn cut(mut report: R, column: Option<&str>, top: Option<usize>) -> Listed<R> {
        let missing = sort(&mut report, column);
        let most = top.filter(|&most| most > 0);
        let omitted = most.map_or(0, |most| report.lists().into_iter().map(|list| list.cut(most)).max().unwrap_or(0));
        Listed { report, top, omitted, missing }
    }
}

/// Sorts `report` by `column`. Returns the column if no row has a value in it.
fn sort(report: &mut impl Listing, column: Option<&str>) -> Option<String> {
    let column = column?;
    let mut lists = report.lists();
    let has: Vec<bool> = lists.iter().filter_map(|list| list.has_column(column)).collect();
    lists.iter_mut().for_each(|list| list.sort_by_column(column));
    (!has.is_empty() && !has.contains(&true)).then(|| column.to_owned())
}

impl<R> Deref for Listed<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.report
    }
}

impl<R: Render> Render for Listed<R> {
    fn document(&self) -> Document<'_> {
        let mut document = self.report.document();
        document.top = self.top;
        if self.omitted > 0 {
            document.line(format!("and {} more (--top 0 lists all)", exact(self.omitted as u64)));
        }
        document
    }

    fn wants_headline(&self) -> bool {
        self.report.wants_headline()
    }

    fn lists_warnings(&self) -> bool {
        self.report.lists_warnings()
    }

    fn missing_column(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        self.report.csv(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::report::ChunkSum;

    #[derive(Serialize, JsonSchema)]
    struct Row {
        size: Option<u64>,
        at: Addr,
        name: &'static str,
        held: Option<ChunkSum>,
        parts: Vec<u64>,
    }

    fn rows() -> Vec<Row> {
        let row = |size, at, name, bytes: Option<u64>| Row {
            size,
            at: Addr::new(at),
            name,
            held: bytes.map(|bytes| ChunkSum { count: 1, bytes }),
            parts: Vec::new(),
        };
        vec![
            row(Some(2), 0x1000, "b", None),
            row(None, 0xff, "a", Some(7)),
            row(Some(10), 0x20, "c", Some(9)),
            row(Some(2), 0x30, "B", None),
        ]
    }

    #[test]
    fn columns_are_those_of_one_value() {
        let mut have = columns::<Row>();
        have.sort();
        assert_eq!(have, ["at", "held.bytes", "held.count", "name", "size"]);
    }

    #[test]
    fn numbers_biggest_first_addresses_and_text_from_the_first_unknown_last() {
        for (column, order) in
            [("size", "cbBa"), ("at", "cBab"), ("name", "Babc"), ("held.bytes", "cabB"), ("nothing", "bacB")]
        {
            let mut rows = rows();
            rows.sort_by_column(column);
            assert_eq!(rows.iter().map(|r| r.name).collect::<String>(), order, "{column}");
        }
    }

    #[derive(Serialize)]
    struct Report(Vec<Row>);

    impl Render for Report {
        fn document(&self) -> Document<'_> {
            Document::default()
        }

        fn csv(&self, _: &mut dyn Write) -> io::Result<()> {
            Ok(())
        }
    }

    impl Listing for Report {
        fn lists(&mut self) -> Vec<&mut dyn List> {
            vec![&mut self.0]
        }
    }

    #[test]
    fn a_column_without_any_value_is_reported() {
        let missing = |rows: Vec<Row>, column| Listed::new(Report(rows), column, None, false).missing;
        assert_eq!(missing(rows(), Some("size")), None);
        let unknown = || rows().into_iter().map(|row| Row { size: None, ..row }).collect::<Vec<_>>();
        assert_eq!(missing(unknown(), Some("size")).as_deref(), Some("size"));
        assert_eq!(missing(unknown(), None), None);
        // Without rows there is nothing to sort.
        assert_eq!(missing(Vec::new(), Some("size")), None);
    }
}
