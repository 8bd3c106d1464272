//! Writes a recording, line by line.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::bytes::is_harmful;
use crate::report::Name;
use crate::series::keep::{RowLimits, RowSelector};
use crate::series::line::{Header, SampleLine};
use crate::series::moment::{BlockSize, Moment, Recording};

/// Stored types per sample. 200 types have all but a thousandth of most heaps.
const TYPES: RowLimits = RowLimits { largest: 150, changed: 50, ever: 400 };

/// Stored block sizes per sample.
const SIZES: RowLimits = RowLimits { largest: 60, changed: 40, ever: 200 };

/// A growing recording, one line per sample. It can be read at any time. Lines that were written remain even if the
/// writer is killed.
pub struct RecordingWriter<W> {
    out: W,
    written: u64,
    names: HashMap<Name, u32>,
    types: RowSelector<Name>,
    sizes: RowSelector<BlockSize>,
}

impl<W: Write> RecordingWriter<W> {
    /// Starts a recording: writes its subject, without samples.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn begin(out: W, recording: &Recording) -> io::Result<RecordingWriter<W>> {
        let mut writer = RecordingWriter {
            out,
            written: 0,
            names: HashMap::new(),
            types: RowSelector::new(TYPES),
            sizes: RowSelector::new(SIZES),
        };
        writer.line(&serde_json::to_vec(&Header::of(recording))?)?;
        Ok(writer)
    }

    /// Adds a sample. Stores the types and block sizes with most bytes, or whose bytes change most, and the sum of the
    /// others.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn add(&mut self, mut moment: Moment) -> io::Result<()> {
        if let Some(objects) = &mut moment.types {
            (objects.types, objects.rest) = self.types.pick(&objects.types);
        }
        if let Some(blocks) = &mut moment.malloc {
            (blocks.sizes, blocks.rest) = self.sizes.pick(&blocks.sizes);
        }
        let names = &mut self.names;
        let line = SampleLine::of(&moment, |name, new| match names.get(name) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(names.len()).unwrap_or(u32::MAX);
                names.insert(name.clone(), number);
                new.push(name.to_string());
                number
            }
        });
        self.line(&serde_json::to_vec(&line)?)
    }

    /// Number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        let line = safe(&String::from_utf8_lossy(text)) + "\n";
        // Written at once, so that a concurrent reader sees whole lines in most cases.
        self.out.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        self.out.flush()
    }
}

/// Escapes JSON text for terminals: control and invisible characters. Beyond ASCII, JSON has nothing but text.
fn safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if is_harmful(c) {
            // A character above 16 bits needs two escapes (RFC 8259, 7).
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}
