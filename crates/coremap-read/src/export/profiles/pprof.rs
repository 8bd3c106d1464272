//! pprof's protobuf format, compressed with gzip (google/pprof, proto/profile.proto). A file has several measures of
//! one set of stacks.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::export::profiles::{Frame, Measure, Profile};

/// Field numbers, by message.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
    pub(super) mod value_type {
        pub(in super::super) const TYPE: u32 = 1;
        pub(in super::super) const UNIT: u32 = 2;
    }
    pub(super) mod sample {
        pub(in super::super) const LOCATIONS: u32 = 1;
        pub(in super::super) const VALUES: u32 = 2;
    }
    pub(super) mod mapping {
        pub(in super::super) const ID: u32 = 1;
        pub(in super::super) const FILE: u32 = 5;
        pub(in super::super) const HAS_FUNCTIONS: u32 = 7;
    }
    pub(super) mod location {
        pub(in super::super) const ID: u32 = 1;
        pub(in super::super) const MAPPING: u32 = 2;
        pub(in super::super) const LINE: u32 = 4;
    }
    pub(super) mod line {
        pub(in super::super) const FUNCTION: u32 = 1;
        pub(in super::super) const LINE: u32 = 2;
    }
    pub(super) mod function {
        pub(in super::super) const ID: u32 = 1;
        pub(in super::super) const NAME: u32 = 2;
        pub(in super::super) const FILE: u32 = 4;
    }
}

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Appends a number as seven bits per byte, the lowest first.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends a number field. Leaves out 0, which is the default.
    fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(value);
        }
    }

    /// Appends a field with a length: a text, a message, or packed numbers.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn numbers(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        let mut row = Message::default();
        values.for_each(|value| row.varint(value));
        self.bytes(field, &row.0);
    }
}

/// String table. The first text is empty.
struct Texts<'a> {
    numbers: HashMap<&'a str, u64>,
    all: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    fn new() -> Texts<'a> {
        Texts { numbers: HashMap::from([("", 0)]), all: vec![""] }
    }

    fn number(&mut self, text: &'a str) -> u64 {
        let next = self.all.len() as u64;
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(text);
            next
        })
    }
}

/// Writes `profile` of `program`. `tool` is the name of the writing tool. Returns the number of stacks.
///
/// # Errors
/// Errors of writing.
pub fn write(profile: &Profile, program: &str, tool: &str, out: &mut dyn Write) -> io::Result<u64> {
    let mut out = GzEncoder::new(out, Compression::default());
    let mut texts = Texts::new();
    let mut message = Message::default();
    for measure in &profile.measures {
        let mut of = Message::default();
        of.number(field::value_type::TYPE, texts.number(measure.name));
        of.number(field::value_type::UNIT, texts.number(unit(measure)));
        message.bytes(field::SAMPLE_TYPE, &of.0);
    }
    for stack in &profile.stacks {
        let mut of = Message::default();
        // The innermost frame is first here, and numbers start at 1.
        of.numbers(field::sample::LOCATIONS, stack.frames.iter().rev().map(|&frame| u64::from(frame) + 1));
        // Values are signed, so they have 63 bits.
        let weights = stack.weights.iter().map(|&weight| weight.min(i64::MAX as u64));
        of.numbers(field::sample::VALUES, weights);
        message.bytes(field::SAMPLE, &of.0);
        if message.0.len() > 1 << 20 {
            out.write_all(&std::mem::take(&mut message.0))?;
        }
    }
    frames(&mut message, program, &profile.frames, &mut texts);
    let (comment, first) = (texts.number(tool), profile.measures.first().map_or(0, |m| texts.number(m.name)));
    for text in &texts.all {
        message.bytes(field::STRING, text.as_bytes());
    }
    message.number(field::COMMENT, comment);
    message.number(field::DEFAULT_SAMPLE_TYPE, first);
    out.write_all(&message.0)?;
    out.finish()?;
    Ok(profile.stacks.len() as u64)
}

fn unit(measure: &Measure) -> &'static str {
    if measure.bytes { "bytes" } else { "count" }
}

/// Writes a location and a function for each frame, and a mapping for each module. pprof takes the first mapping for
/// the program.
fn frames<'a>(message: &mut Message, program: &'a str, frames: &'a [Frame], texts: &mut Texts<'a>) {
    let mut modules: HashMap<&str, u64> = HashMap::from([(program, 1)]);
    put_mapping(message, 1, texts.number(program));
    for (number, frame) in (1..).zip(frames) {
        let module = frame.module.as_deref().map_or(0, |module| {
            let next = modules.len() as u64 + 1;
            *modules.entry(module).or_insert_with(|| {
                put_mapping(message, next, texts.number(module));
                next
            })
        });
        let mut line = Message::default();
        line.number(field::line::FUNCTION, number);
        line.number(field::line::LINE, frame.line.unwrap_or(0).into());
        let mut location = Message::default();
        location.number(field::location::ID, number);
        location.number(field::location::MAPPING, module);
        location.bytes(field::location::LINE, &line.0);
        message.bytes(field::LOCATION, &location.0);
        let mut function = Message::default();
        function.number(field::function::ID, number);
        // If the system name were equal, pprof would take the name for a mangled one, and cut what is in `<>`.
        function.number(field::function::NAME, texts.number(&frame.name));
        function.number(field::function::FILE, texts.number(frame.file.as_deref().unwrap_or_default()));
        message.bytes(field::FUNCTION, &function.0);
    }
}

fn put_mapping(message: &mut Message, id: u64, file: u64) {
    let mut mapping = Message::default();
    mapping.number(field::mapping::ID, id);
    mapping.number(field::mapping::FILE, file);
    // pprof must not look for symbols: it has them all.
    mapping.number(field::mapping::HAS_FUNCTIONS, 1);
    message.bytes(field::MAPPING, &mapping.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_protobuf_has_them() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.numbers(4, [3, 270, 86942].into_iter());
        message.number(5, 0);
        // Examples in protobuf's description of its encoding.
        let want = b"\x08\x96\x01\x12\x07testing\x22\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.0, want);
    }
}
