//! Writing a recording, line by line.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::bytes::is_harmful;
use crate::report::Name;
use crate::series::keep::{Keeper, Most};
use crate::series::line::{Header, Look};
use crate::series::moment::{BlockSize, Moment, Recording};

/// Types that a look keeps: 200 have all but a thousandth of most heaps.
const TYPES: Most = Most { largest: 150, changed: 50, ever: 400 };

/// Sizes of blocks that a look keeps.
const SIZES: Most = Most { largest: 60, changed: 40, ever: 200 };

/// A recording that grows, a line a look. It can be read at any time, and what was written stays, whatever becomes of who
/// writes.
pub struct RecordingWriter<W> {
    out: W,
    written: u64,
    names: HashMap<Name, u32>,
    types: Keeper<Name>,
    sizes: Keeper<BlockSize>,
}

impl<W: Write> RecordingWriter<W> {
    /// Begin one: what it is of, without looks.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(out: W, recording: &Recording) -> io::Result<RecordingWriter<W>> {
        let mut writer = RecordingWriter {
            out,
            written: 0,
            names: HashMap::new(),
            types: Keeper::new(TYPES),
            sizes: Keeper::new(SIZES),
        };
        writer.line(&serde_json::to_vec(&Header::of(recording))?)?;
        Ok(writer)
    }

    /// Add a look. Of types and sizes of blocks those are kept that have most bytes, or whose bytes change most; what the others come
    /// to is kept as a sum.
    ///
    /// # Errors
    /// Those of writing.
    pub fn add(&mut self, mut moment: Moment) -> io::Result<()> {
        if let Some(objects) = &mut moment.types {
            (objects.types, objects.rest) = self.types.pick(&objects.types);
        }
        if let Some(blocks) = &mut moment.malloc {
            (blocks.sizes, blocks.rest) = self.sizes.pick(&blocks.sizes);
        }
        let names = &mut self.names;
        let line = Look::of(&moment, |name, new| match names.get(name) {
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

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        let line = safe(&String::from_utf8_lossy(text)) + "\n";
        // In one piece: who reads meanwhile sees whole lines in most cases.
        self.out.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        self.out.flush()
    }
}

/// JSON whose text a terminal may show: what it would obey, or nobody would see, as an escape. Beyond ASCII there is nothing but text.
fn safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if is_harmful(c) {
            // Beyond 16 bits two escapes stand for one character (RFC 8259, 7).
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}
