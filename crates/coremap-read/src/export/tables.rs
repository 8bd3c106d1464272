//! Tables for SQL engines, as Parquet: one file per table, written in row groups. So memory is bounded, and readers
//! process groups in parallel.
//!
//! Numbers and addresses are signed 64-bit integers, because Spark has no unsigned ones, and no program address has
//! the highest bit. Words are texts with a dictionary. Unknown values are NULL.

use std::collections::HashMap;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::export::{ExportError, Output};

/// Rows per group. DuckDB gives one to each thread, and Spark splits files between groups.
const GROUP: usize = 1 << 18;

/// Maximum number of texts remembered for later rows. The cache is cleared when it is full.
const MAX_CACHED_TEXTS: usize = 1 << 16;

/// The form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Number.
    Number,
    /// Number that mostly increases from row to row, such as an address. Differences are written.
    Rising,
    /// Text.
    Text,
}

/// A column: its name and its form.
pub type Column = (&'static str, Form);

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// A number. `None` if unknown.
    Number(Option<u64>),
    /// A text. `None` if unknown.
    Text(Option<&'a str>),
}

impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Cell::Number(Some(value))
    }
}

impl From<Option<u64>> for Cell<'_> {
    fn from(value: Option<u64>) -> Self {
        Cell::Number(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        Cell::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Cell<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Cell::Text(value)
    }
}

/// Values of a column that are not written yet.
#[derive(Default)]
struct ColumnBuffer {
    numbers: Vec<i64>,
    texts: Vec<ByteArray>,
    /// 1 for each known value, 0 for each unknown one.
    known: Vec<i16>,
    words: HashMap<String, ByteArray>,
}

impl ColumnBuffer {
    fn add(&mut self, cell: Cell<'_>) {
        let known = match cell {
            Cell::Number(value) => {
                // The highest bit becomes the sign.
                self.numbers.extend(value.map(u64::cast_signed));
                value.is_some()
            }
            Cell::Text(text) => {
                if let Some(text) = text {
                    let word = self.word(text);
                    self.texts.push(word);
                }
                text.is_some()
            }
        };
        self.known.push(known.into());
    }

    fn word(&mut self, text: &str) -> ByteArray {
        if let Some(word) = self.words.get(text) {
            return word.clone();
        }
        if self.words.len() >= MAX_CACHED_TEXTS {
            self.words.clear();
        }
        let word = ByteArray::from(text);
        self.words.insert(text.to_owned(), word.clone());
        word
    }
}

/// A table that is being written.
pub struct Table<'o> {
    writer: SerializedFileWriter<&'o mut dyn Output>,
    columns: &'static [Column],
    buffers: Vec<ColumnBuffer>,
    rows: u64,
}

fn io(e: ParquetError) -> ExportError {
    ExportError::Io(match e {
        ParquetError::External(e) => std::io::Error::other(e),
        e => std::io::Error::other(e.to_string()),
    })
}

impl<'o> Table<'o> {
    /// Starts a table with these columns. `tool` is the name of the writing tool.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn begin(
        name: &str,
        columns: &'static [Column],
        tool: &str,
        out: &'o mut dyn Output,
    ) -> Result<Table<'o>, ExportError> {
        let fields = columns.iter().map(|&(name, form)| {
            let (physical, logical) = match form {
                Form::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Form::Number | Form::Rising => (Physical::INT64, None),
            };
            let of = Type::primitive_type_builder(name, physical).with_logical_type(logical);
            Ok(Arc::new(of.with_repetition(Repetition::OPTIONAL).build()?))
        });
        let fields = fields.collect::<Result<Vec<_>, ParquetError>>().map_err(io)?;
        let schema = Type::group_type_builder(name).with_fields(fields).build().map_err(io)?;
        let level = ZstdLevel::try_new(1).map_err(io)?;
        let about = KeyValue::new("coremap.table".to_owned(), name.to_owned());
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(tool.to_owned())
            .set_key_value_metadata(Some(vec![about]));
        for &(name, _) in columns.iter().filter(|(_, form)| *form == Form::Rising) {
            let path = ColumnPath::from(name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build())).map_err(io)?;
        let buffers = columns.iter().map(|_| ColumnBuffer::default()).collect();
        Ok(Table { writer, columns, buffers, rows: 0 })
    }

    /// Appends a row: one value for each column.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.buffers.iter_mut().zip(cells).for_each(|(buffer, cell)| buffer.add(*cell));
        self.rows += 1;
        if self.rows.is_multiple_of(GROUP as u64) { self.group() } else { Ok(()) }
    }

    /// Writes the stored rows as a group.
    fn group(&mut self) -> Result<(), ExportError> {
        let mut group = self.writer.next_row_group().map_err(io)?;
        for (buffer, (_, form)) in self.buffers.iter_mut().zip(self.columns) {
            let Some(mut column) = group.next_column().map_err(io)? else { break };
            match form {
                Form::Text => column.typed::<ByteArrayType>().write_batch(&buffer.texts, Some(&buffer.known), None),
                _ => column.typed::<Int64Type>().write_batch(&buffer.numbers, Some(&buffer.known), None),
            }
            .map_err(io)?;
            column.close().map_err(io)?;
            buffer.numbers.clear();
            buffer.texts.clear();
            buffer.known.clear();
        }
        group.close().map_err(io)?;
        Ok(())
    }

    /// Finishes the table. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(mut self) -> Result<u64, ExportError> {
        if self.rows == 0 || !self.rows.is_multiple_of(GROUP as u64) {
            self.group()?;
        }
        self.writer.close().map_err(io)?;
        Ok(self.rows)
    }
}
