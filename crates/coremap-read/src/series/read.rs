//! Reads a recording. Nothing in it is trusted: it may come from anyone, and its writer may have been killed while
//! writing.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};

use crate::bytes::printable;
use crate::limits;
use crate::report::Name;
use crate::series::line::{Header, SampleLine, VERSION};
use crate::series::moment::{Moment, Recording};

/// The reason why a file can't be read as a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file can't be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first line is not a recording's header.
    #[error("not a recording of coremap: its first line {0}")]
    NotOne(String),
    /// The format has a version that this version of coremap does not know.
    #[error("its format has version {0}, but this version of coremap reads {VERSION}; use a newer coremap")]
    Version(u64),
}

/// A recording that was read, and its defects.
#[derive(Clone, Debug)]
pub struct ReadRecording {
    /// The recording, as far as it could be read.
    pub recording: Recording,
    /// Reason why samples may be missing, in words.
    pub lacks: Option<String>,
}

/// Whether a file begins like a recording.
pub fn is_recording(start: &[u8]) -> bool {
    start.starts_with(b"{\"coremap_recording\":")
}

/// Reads a recording.
///
/// # Errors
/// Returns a [`RecordingError`] if the file is no recording. A defect in a later line is no error: the samples before
/// it are returned.
pub fn read_recording(from: impl Read) -> Result<ReadRecording, RecordingError> {
    // One byte more than the limit, so that an excess is noticed.
    let mut from = BufReader::new(from.take(limits::MAX_RECORDING + 1));
    let mut line = Vec::new();
    let whole = next_line(&mut from, &mut line)?;
    let header = match (is_recording(&line), serde_json::from_slice::<Header>(&line)) {
        (true, Ok(header)) if whole => header,
        (true, _) if !whole => return Err(RecordingError::NotOne("is truncated or too long".into())),
        (true, Err(e)) => return Err(version(&line).unwrap_or_else(|| RecordingError::NotOne(e.to_string()))),
        _ => return Err(RecordingError::NotOne("is not a header of coremap".into())),
    };
    if header.coremap_recording != VERSION {
        return Err(RecordingError::Version(header.coremap_recording));
    }
    let mut recording = header.into_recording().map_err(|e| RecordingError::NotOne(e.to_string()))?;
    let mut names = Names::default();
    let mut number = 1;
    let mut bytes = line.len() as u64;
    let lacks = loop {
        number += 1;
        let whole = next_line(&mut from, &mut line)?;
        if line.is_empty() {
            break None;
        }
        bytes += line.len() as u64;
        let lacks = |why: String| Some(format!("line {number} {why}; {} samples were read", recording.moments.len()));
        if bytes > limits::MAX_RECORDING || recording.moments.len() >= limits::MAX_SAMPLES {
            break lacks("exceeds the limit on recordings".into());
        }
        if !whole {
            break lacks("is truncated: the writer was still running or was killed".into());
        }
        match names.moment(&line) {
            Ok(moment) if recording.moments.last().is_none_or(|last| last.seconds < moment.seconds) => {
                recording.moments.push(moment);
            }
            Ok(_) => break lacks("is not later than the line before it".into()),
            Err(why) => break lacks(format!("cannot be read ({})", printable(&why.to_string()))),
        }
    };
    Ok(ReadRecording { recording, lacks })
}

/// Returns the version in a header whose other fields can't be read.
fn version(line: &[u8]) -> Option<RecordingError> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    value.get("coremap_recording")?.as_u64().filter(|v| *v != VERSION).map(RecordingError::Version)
}

/// Reads the next line, with its end. Returns false if it has no end, or is longer than any sample.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    from.take(limits::MAX_RECORDING_LINE).read_until(b'\n', line)?;
    Ok(line.last() == Some(&b'\n'))
}

/// Reasons why a line is not a sample.
#[derive(Debug, thiserror::Error)]
enum LineError {
    /// The line is not JSON, or lacks a field.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The names of all lines together exceed the limit.
    #[error("too many names")]
    TooManyNames,
    /// A row refers to a number that no name has.
    #[error("a row refers to an unknown name")]
    UnknownName,
    /// The time is infinite or not a number.
    #[error("its time is not a number")]
    NoTime,
}

/// Names of a recording, each stored once.
#[derive(Default)]
struct Names {
    /// Names by number.
    numbered: Vec<Name>,
    bytes: usize,
    /// Words that every sample has.
    words: std::cell::RefCell<HashMap<String, Name>>,
}

impl Names {
    fn moment(&mut self, line: &[u8]) -> Result<Moment, LineError> {
        let mut sample: SampleLine = serde_json::from_slice(line)?;
        for name in std::mem::take(&mut sample.names) {
            self.bytes += name.len();
            if self.bytes > limits::MAX_NAMES {
                return Err(LineError::TooManyNames);
            }
            self.numbered.push(Name::from(name));
        }
        let known = |text: &str| match self.words.borrow_mut().get(text) {
            Some(name) => name.clone(),
            None => Name::from(text),
        };
        let moment = sample.into_moment(&self.numbered, known).ok_or(LineError::UnknownName)?;
        let words = moment.kinds.keys().chain(moment.findings.keys()).chain(&moment.warnings);
        let mut have = self.words.borrow_mut();
        for word in words {
            if have.len() < limits::MAX_RECORDED_WORDS && !have.contains_key(&**word) {
                have.insert(word.to_string(), word.clone());
            }
        }
        if !moment.seconds.is_finite() {
            return Err(LineError::NoTime);
        }
        Ok(moment)
    }
}
