//! Decompresses cores, and copies standard input, to an unlinked temporary file, with holes for runs of zero blocks.
//!
//! A compressed file may be a sequence of parts: frames of pzstd and lz4, streams of pixz, members of `cat a.gz b.gz`.
//! Together they are one core. Zeros between and after them are padding. zstd's skippable frames are skipped.

mod sink;
mod source;
mod xz;
mod zstd;

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::core::mapped::Losses;
use crate::limits;
use crate::progress::Progress;
use crate::units::{human, round};
pub use crate::words::Compression;
use sink::Sink;
use source::Source;

impl Compression {
    /// Detects the compression by the magic number at the start of `head`. zstd and lz4 share skippable frames; they
    /// count as zstd, because pzstd begins with one.
    pub fn detect(head: &[u8]) -> Option<Compression> {
        match head {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            // The second is the legacy format of before 2013, `lz4 -l`.
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Some(Compression::Lz4),
            _ => skippable(head).map(|_| Compression::Zstd),
        }
    }
}

/// Content length of a skippable frame, in bytes. `None` if `head` is not one.
fn skippable(head: &[u8]) -> Option<u64> {
    match head {
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, len @ ..] => Some(crate::bytes::u32_at(len, 0).unwrap_or(0).into()),
        _ => None,
    }
}

/// Result of [`to_temporary_file`].
pub struct Inflated {
    /// The unlinked file with the core.
    pub file: File,
    /// Long runs of zeros in the file, sorted and disjoint. They take no disk space.
    pub holes: Vec<Range<u64>>,
    /// Compression of the first part. `None` for uncompressed input.
    pub compression: Option<Compression>,
    /// Why the stream ended early, if it did.
    pub broken: Option<String>,
    /// Whether uncompressed data follows. It was left out.
    pub trailing: bool,
    /// Parts of the file that could not be read back while it was written.
    pub losses: Arc<Losses>,
}

/// Why a core could not be decompressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InflateError {
    /// More memory is needed than is allowed.
    #[error("{what} needs {} of memory, more than the {} that unpacking may use; allow it with --memory {}", human(*needs), round(*allowed), suggested(*needs))]
    Memory {
        /// Consumer of the memory.
        what: String,
        /// Bytes needed.
        needs: u64,
        /// Bytes allowed.
        allowed: u64,
    },
    /// The system did not provide memory.
    #[error("{what} could not be allocated: {}", human(*needs))]
    Unavailable {
        /// Purpose of the memory.
        what: String,
        /// Bytes needed.
        needs: u64,
    },
    /// The temporary file can't be created, or can't grow.
    #[error("{} in {} for the unpacked core ({} written so far); set TMPDIR to another folder", reason(source), folder.display(), human(*written))]
    Output {
        /// Directory of the file.
        folder: PathBuf,
        /// Bytes decompressed so far.
        written: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The compressed file can't be read.
    #[error(transparent)]
    Input(io::Error),
}

impl InflateError {
    fn output(source: io::Error, sink: &Sink) -> InflateError {
        InflateError::Output { folder: std::env::temp_dir(), written: sink.len(), source }
    }
}

/// Describes the error of a full disk, or returns the system's text.
fn reason(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::StorageFull => "no space left".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::FileTooLarge => "the file size limit is reached (ulimit -f)".to_owned(),
        _ => format!("can't write a temporary file ({e})"),
    }
}

/// The value to suggest for `--memory`: whole MiB, rounded up.
fn suggested(needs: u64) -> String {
    format!("{}MiB", needs.div_ceil(1 << 20))
}

/// How a part of the stream ended.
enum StreamEnd {
    Whole,
    Broken(String),
}

impl StreamEnd {
    fn broken(why: &str) -> StreamEnd {
        StreamEnd::Broken(why.to_owned())
    }

    fn cut() -> StreamEnd {
        StreamEnd::broken("the stream is cut off")
    }
}

/// Copies `input`, decompressed if it is compressed, to an unlinked temporary file under `$TMPDIR`.
///
/// `accepts` gets the first 512 bytes or more of the result. If it returns false, the rest is neither decompressed nor
/// written. `memory` limits windows and dictionaries, in bytes. `file` is the compressed file, if `input` is one, so
/// that its end can be read. A stream that breaks off yields the data before the break, and the reason.
///
/// # Errors
/// [`InflateError`], for example if the disk is full.
pub fn to_temporary_file<R: Read>(
    input: R,
    file: Option<&File>,
    memory: Option<u64>,
    accepts: fn(&[u8]) -> bool,
    progress: &Progress,
) -> Result<Inflated, InflateError> {
    let memory = memory.unwrap_or(limits::MAX_UNPACK_MEMORY);
    let mut source = Source::new(input, progress);
    let mut sink = Sink::new(accepts).map_err(|source| InflateError::Output {
        folder: std::env::temp_dir(),
        written: 0,
        source,
    })?;
    let head = source.peek(HEAD).map_err(InflateError::Input)?;
    let mut compression = Compression::detect(head);
    let (mut broken, mut trailing) = (None, false);
    if compression.is_none() {
        broken = plain(&mut source, &mut sink)?;
    } else {
        let mut parts = 0u64;
        let mut frames = zstd::Frames::default();
        let known_size = file.filter(|_| compression == Some(Compression::Xz)).and_then(xz::decompressed_size);
        while !sink.is_refused() && source.pass_zeros().map_err(InflateError::Input)? {
            let head = source.peek(HEAD).map_err(InflateError::Input)?;
            let ended = if let Some(len) = skippable(head) {
                let there = source.pass(8 + len).map_err(InflateError::Input)?;
                if there { StreamEnd::Whole } else { StreamEnd::cut() }
            } else {
                let Some(kind) = Compression::detect(head) else {
                    trailing = true;
                    break;
                };
                parts += 1;
                if parts == 1 {
                    compression = Some(kind);
                }
                match kind {
                    Compression::Zstd => frames.decompress(&mut source, &mut sink, memory)?,
                    Compression::Xz => xz::decompress(&mut source, &mut sink, memory, known_size)?,
                    Compression::Gzip => read(flate2::bufread::GzDecoder::new(&mut source), &mut sink)?,
                    Compression::Lz4 => lz4(&mut source, &mut sink)?,
                }
            };
            if let StreamEnd::Broken(why) = ended {
                broken = Some(why);
                break;
            }
        }
    }
    let (written, losses) = (sink.len(), sink.losses().clone());
    let (file, holes) =
        sink.finish().map_err(|source| InflateError::Output { folder: std::env::temp_dir(), written, source })?;
    Ok(Inflated { file, holes, compression, broken, trailing, losses })
}

/// Bytes needed to detect the next part: the length of a skippable frame's header.
const HEAD: usize = 8;

/// Copies uncompressed input. Returns why it ended early, if it did.
fn plain<R: Read>(source: &mut Source<'_, R>, sink: &mut Sink) -> Result<Option<String>, InflateError> {
    Ok(match read(source, sink)? {
        StreamEnd::Whole => None,
        StreamEnd::Broken(why) => Some(why),
    })
}

fn lz4<R: Read>(source: &mut Source<'_, R>, sink: &mut Sink) -> Result<StreamEnd, InflateError> {
    // The legacy format has no end mark.
    let marked = source.peek(1).map_err(InflateError::Input)? == [0x04];
    let ended = read(lz4_flex::frame::FrameDecoder::new(&mut *source), sink)?;
    // The decoder takes the end of the file for the end of the frame.
    if marked && matches!(ended, StreamEnd::Whole) && source.read_past_end() { Ok(StreamEnd::cut()) } else { Ok(ended) }
}

/// Copies everything that a reader returns.
fn read(mut reader: impl Read, sink: &mut Sink) -> Result<StreamEnd, InflateError> {
    loop {
        match reader.read(sink.room()) {
            Ok(0) => return Ok(StreamEnd::Whole),
            Ok(n) => sink.advance(n).map_err(|e| InflateError::output(e, sink))?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Ok(StreamEnd::broken(&e.to_string())),
        }
        if sink.is_full() {
            return Ok(sink.full());
        }
    }
}

#[cfg(test)]
mod tests;
