//! Writes answers as tables, JSON and CSV, with the parts that tables of several commands share. All output to a
//! terminal passes through `table`, which escapes control characters.

mod bar;
#[doc(hidden)]
pub mod brief;
#[doc(hidden)]
pub mod clusters;
#[doc(hidden)]
pub mod cut;
#[doc(hidden)]
pub mod document;
mod generics;
mod json;
#[doc(hidden)]
pub mod lines;
mod list;
mod object;
#[doc(hidden)]
pub mod resident;
mod safe;
pub(crate) mod table;

pub use bar::bar;
pub use brief::Brief;
pub use cut::shorten;
pub use document::{Align, Block, Column, Cut, Document, Rows, TableBlock};
pub use list::{List, Listed, Listing, columns};

use crate::diag::Warning;
use crate::report::{CoreRow, Envelope};
pub use table::{DrawOptions, write};

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

/// A report that can be shown as a document and as rows.
pub trait Render: Serialize {
    /// The document.
    fn document(&self) -> Document<'_>;

    /// Whether the line about the core precedes it.
    fn wants_headline(&self) -> bool {
        true
    }

    /// Whether its table ends with the warnings. They are then not on stderr.
    fn lists_warnings(&self) -> bool {
        false
    }

    /// The column that it was to be sorted by, if it was not computed.
    fn missing_column(&self) -> Option<&str> {
        None
    }

    /// Writes the main rows as CSV.
    ///
    /// # Errors
    /// Errors of `out`.
    fn csv(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// The first line of a table: the core, and whether it is complete.
pub fn headline(core: &CoreRow) -> Document<'_> {
    lines::headline(core)
}

/// The section with all warnings. Empty if there are none.
pub fn warnings(warnings: &[Warning]) -> Document<'_> {
    lines::warnings(warnings)
}

/// Writes a report as JSON: one object, indented.
///
/// # Errors
/// Errors of `out`.
pub fn json<T: Serialize>(report: &Envelope<T>, out: &mut dyn Write) -> io::Result<()> {
    json::pretty(report, out)?;
    writeln!(out)
}

/// Writes rows as CSV, with their field names as header.
///
/// # Errors
/// Errors of `out`.
pub fn csv_rows<T: Serialize + Default>(rows: &[T], out: &mut dyn Write) -> io::Result<()> {
    csv_each::<T, &T>(rows.iter(), out)
}

/// Writes rows that are created one by one as CSV.
#[doc(hidden)]
pub fn csv_each<T: Serialize + Default, R: Serialize>(
    rows: impl Iterator<Item = R>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut rows = rows.peekable();
    let mut empty = csv::Writer::from_writer(Vec::new());
    if empty.serialize(T::default()).is_err() {
        return csv_flat::<T, R>(rows, out);
    }
    if rows.peek().is_none() {
        // Without a row, the header comes from an empty one.
        let text = empty.into_inner().map_err(|e| io::Error::other(e.to_string()))?;
        let header = text.split_inclusive(|&b| b == b'\n').next().unwrap_or_default();
        return out.write_all(header);
    }
    let mut writer = csv::Writer::from_writer(safe::Safe::new(out));
    for row in rows {
        writer.serialize(row).map_err(io_error)?;
    }
    writer.flush()
}

/// Writes rows with flattened fields as CSV. To serde such a row is a map, which the csv crate does not write.
fn csv_flat<T: Serialize + Default, R: Serialize>(
    rows: impl Iterator<Item = R>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(safe::Safe::new(out));
    writer.write_record(fields(&T::default())?.keys()).map_err(io_error)?;
    for row in rows {
        let cells = fields(&row)?.into_iter().map(|(name, value)| cell(&name, value));
        writer.write_record(cells.collect::<io::Result<Vec<_>>>()?).map_err(io_error)?;
    }
    writer.flush()
}

/// The fields of a row by name, in order.
fn fields<T: Serialize>(row: &T) -> io::Result<Map<String, Value>> {
    match serde_json::to_value(row)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(io::Error::other("a row of CSV without fields")),
    }
}

/// Formats a field as the csv crate does.
fn cell(name: &str, value: Value) -> io::Result<String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => Err(io::Error::other(format!("'{name}' is no cell of CSV"))),
    }
}

/// Unwraps the I/O error, so that a closed pipe is recognised.
fn io_error(e: csv::Error) -> io::Error {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Serialize)]
    struct Inner {
        b: Option<u64>,
        c: f64,
    }

    #[derive(Default, Serialize)]
    struct Row {
        a: &'static str,
        #[serde(flatten)]
        inner: Inner,
        d: bool,
    }

    #[test]
    fn flattened_fields_are_columns() -> io::Result<()> {
        let written = |rows: &[Row]| -> io::Result<String> {
            let mut out = Vec::new();
            csv_rows(rows, &mut out)?;
            Ok(String::from_utf8_lossy(&out).into_owned())
        };
        assert_eq!(written(&[])?, "a,b,c,d\n");
        let row = Row { a: "x,y", inner: Inner { b: None, c: 2.0 }, d: true };
        assert_eq!(written(&[row])?, "a,b,c,d\n\"x,y\",,2.0,true\n");
        Ok(())
    }
}
