//! Compressed cores and standard input: inflated into an unlinked temporary
//! file, with runs of zero blocks left as holes.
//!
//! A compressed file may have several parts, one behind the other: frames as pzstd and lz4
//! write them, streams of pixz, members of `cat a.gz b.gz`. Together they are one core.
//! Zeros between and behind them are padding, and zstd's skippable frames are skipped.

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
    /// The compression whose magic number `head` begins with. A skippable frame, which
    /// zstd and lz4 have in common, counts as zstd's: pzstd begins with one.
    pub fn detect(head: &[u8]) -> Option<Compression> {
        match head {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            // The second is the form of before 2013, `lz4 -l`.
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Some(Compression::Lz4),
            _ => skippable(head).map(|_| Compression::Zstd),
        }
    }
}

/// Of a skippable frame: the bytes behind its magic number and its length.
fn skippable(head: &[u8]) -> Option<u64> {
    match head {
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, len @ ..] => Some(crate::bytes::u32_at(len, 0).unwrap_or(0).into()),
        _ => None,
    }
}

/// What [`to_temporary_file`] made.
pub struct Inflated {
    /// The unlinked file that holds the core.
    pub file: File,
    /// Long runs of zeros in it, sorted and disjoint, that take no room on the disk.
    pub holes: Vec<Range<u64>>,
    /// What it was compressed with, by its first part.
    pub compression: Option<Compression>,
    /// Why the stream ended before its end, if it did.
    pub broken: Option<String>,
    /// Whether something follows that is not compressed, and was left out.
    pub trailing: bool,
    /// What could not be read back from the file while it was written.
    pub losses: Arc<Losses>,
}

/// Why a core could not be decompressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InflateError {
    /// More memory than is allowed.
    #[error("{what} needs {} of memory, more than the {} that unpacking may use; allow it with --memory {}", human(*needs), round(*allowed), suggested(*needs))]
    Memory {
        /// What takes it.
        what: String,
        /// Bytes.
        needs: u64,
        /// Bytes.
        allowed: u64,
    },
    /// Memory that the system did not give.
    #[error("{what} could not be allocated: {}", human(*needs))]
    Unavailable {
        /// What for.
        what: String,
        /// Bytes.
        needs: u64,
    },
    /// The temporary file can't be had, or can't grow.
    #[error("{} in {} for the unpacked core ({} written so far); set TMPDIR to another folder", reason(source), folder.display(), human(*written))]
    Output {
        /// Where the file is.
        folder: PathBuf,
        /// Bytes decompressed by then.
        written: u64,
        /// The system's reason.
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

/// What a full disk is, in words; else the system's.
fn reason(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::StorageFull => "no space left".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::FileTooLarge => "the file size limit is reached (ulimit -f)".to_owned(),
        _ => format!("can't write a temporary file ({e})"),
    }
}

/// What `--memory` is to be set to: whole MiBs, with some to spare.
fn suggested(needs: u64) -> String {
    format!("{}MiB", needs.div_ceil(1 << 20))
}

/// How one part ended.
enum Ended {
    Whole,
    Broken(String),
}

impl Ended {
    fn broken(why: &str) -> Ended {
        Ended::Broken(why.to_owned())
    }

    fn cut() -> Ended {
        Ended::broken("the stream is cut off")
    }
}

/// Copy `input`, decompressed where it is compressed, into an unlinked temporary file under
/// `$TMPDIR`. `memory`: bytes that windows and dictionaries may take; `file`: the compressed
/// file where `input` is one, to look at its end.
///
/// A stream that breaks off half way gives what came before, and the reason.
///
/// # Errors
/// Where memory or the temporary file (a full disk, say) does not allow it.
pub fn to_temporary_file<R: Read>(
    input: R,
    file: Option<&File>,
    memory: Option<u64>,
    progress: &Progress,
) -> Result<Inflated, InflateError> {
    let memory = memory.unwrap_or(limits::MAX_UNPACK_MEMORY);
    let mut source = Source::new(input, progress);
    let mut sink =
        Sink::new().map_err(|source| InflateError::Output { folder: std::env::temp_dir(), written: 0, source })?;
    let head = source.peek(HEAD).map_err(InflateError::Input)?;
    let mut compression = Compression::detect(head);
    let (mut broken, mut trailing) = (None, false);
    if compression.is_none() {
        broken = plain(&mut source, &mut sink)?;
    } else {
        let mut parts = 0u64;
        let mut frames = zstd::Frames::default();
        let told = file.filter(|_| compression == Some(Compression::Xz)).and_then(xz::told_size);
        while source.pass_zeros().map_err(InflateError::Input)? {
            let head = source.peek(HEAD).map_err(InflateError::Input)?;
            let ended = if let Some(len) = skippable(head) {
                let there = source.pass(8 + len).map_err(InflateError::Input)?;
                if there { Ended::Whole } else { Ended::cut() }
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
                    Compression::Xz => xz::decompress(&mut source, &mut sink, memory, told)?,
                    Compression::Gzip => read(flate2::bufread::GzDecoder::new(&mut source), &mut sink)?,
                    Compression::Lz4 => lz4(&mut source, &mut sink)?,
                }
            };
            if let Ended::Broken(why) = ended {
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

/// Bytes that tell what comes next: those of a skippable frame's header.
const HEAD: usize = 8;

/// What is not compressed at all. Why it ended, if it did not end by itself.
fn plain<R: Read>(source: &mut Source<'_, R>, sink: &mut Sink) -> Result<Option<String>, InflateError> {
    Ok(match read(source, sink)? {
        Ended::Whole => None,
        Ended::Broken(why) => Some(why),
    })
}

/// One frame of lz4.
fn lz4<R: Read>(source: &mut Source<'_, R>, sink: &mut Sink) -> Result<Ended, InflateError> {
    // The old form has no mark at its end.
    let marked = source.peek(1).map_err(InflateError::Input)? == [0x04];
    let ended = read(lz4_flex::frame::FrameDecoder::new(&mut *source), sink)?;
    // The decoder takes the end of the file for that of the frame.
    if marked && matches!(ended, Ended::Whole) && source.starved() { Ok(Ended::cut()) } else { Ok(ended) }
}

/// All that a reader gives.
fn read(mut reader: impl Read, sink: &mut Sink) -> Result<Ended, InflateError> {
    loop {
        match reader.read(sink.room()) {
            Ok(0) => return Ok(Ended::Whole),
            Ok(n) => sink.advance(n).map_err(|e| InflateError::output(e, sink))?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Ok(Ended::broken(&e.to_string())),
        }
        if sink.is_full() {
            return Ok(sink.full());
        }
    }
}

#[cfg(test)]
mod tests;
