//! Compressed cores and standard input: inflated into an unlinked temporary
//! file, with runs of zero blocks left as holes.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use crate::limits;
use crate::progress::Progress;

/// What a stream of bytes is packed with, told by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// zstd frames, RFC 8878 (skippable frames too).
    Zstd,
    /// gzip members, RFC 1952.
    Gzip,
    /// The .xz container.
    Xz,
    /// The lz4 frame format (`lz4 -9 core`), not bare blocks.
    Lz4,
}

impl Packing {
    /// The packing whose magic number `head` begins with.
    pub fn detect(head: &[u8]) -> Option<Packing> {
        match head {
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Packing::Zstd),
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Packing::Lz4),
            _ => None,
        }
    }

    /// The usual file ending, without its dot.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Zstd => "zst",
            Packing::Gzip => "gz",
            Packing::Xz => "xz",
            Packing::Lz4 => "lz4",
        }
    }

    fn reader<'a, R: Read + 'a>(self, input: R) -> io::Result<Box<dyn Read + 'a>> {
        let input = BufReader::with_capacity(1 << 18, input);
        Ok(match self {
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(input)?;
                // `zstd --long=31` needs a window of 2 GiB; the default stops at 128 MiB.
                decoder.window_log_max(31)?;
                Box::new(decoder)
            }
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Packing::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(input)),
            Packing::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
        })
    }
}

/// What [`to_temporary_file`] made.
pub struct Inflated {
    /// The unlinked file that holds the core.
    pub file: File,
    /// Why the stream ended before its end, if it did.
    pub broken: Option<String>,
}

/// Copy `input`, unpacked, into an unlinked temporary file under `$TMPDIR`.
///
/// A stream that breaks off half way gives what came before, and the reason.
///
/// # Errors
/// Those of making and writing the temporary file (a full disk, say).
pub fn to_temporary_file<R: Read>(input: R, packing: Option<Packing>, progress: &Progress) -> io::Result<Inflated> {
    let counted = Counted { inner: input, progress };
    let mut reader: Box<dyn Read + '_> = match packing {
        Some(packing) => packing.reader(counted)?,
        None => Box::new(counted),
    };
    let mut file = tempfile::tempfile().map_err(no_file)?;
    let mut buffer = vec![0u8; 1 << 20];
    let mut total = 0u64;
    let mut broken = None;
    loop {
        let n = match fill(&mut reader, &mut buffer) {
            (n, Ok(())) => n,
            (n, Err(e)) => {
                broken = Some(e.to_string());
                n
            }
        };
        write_sparse(&mut file, &buffer[..n], &mut total).map_err(no_file)?;
        if total >= limits::MAX_INFLATED {
            broken = Some(format!("more than {} bytes", limits::MAX_INFLATED));
        }
        if n < buffer.len() || broken.is_some() {
            break;
        }
    }
    file.set_len(total)?;
    file.flush()?;
    Ok(Inflated { file, broken })
}

fn no_file(e: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let text = format!("the unpacked core needs a file in {} (TMPDIR names another folder): {e}", folder.display());
    io::Error::new(e.kind(), text)
}

/// Fill the buffer as far as the stream goes; short only at its end or on error.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> (usize, io::Result<()>) {
    let mut n = 0;
    while n < buffer.len() {
        match reader.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (n, Err(e)),
        }
    }
    (n, Ok(()))
}

/// Block in which zeros become a hole: what file systems allocate by.
const HOLE: usize = 4096;

fn write_sparse(file: &mut File, bytes: &[u8], total: &mut u64) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        let zero = |block: &[u8]| block.iter().all(|&b| b == 0);
        let hole = bytes[at..].chunks(HOLE).take_while(|c| zero(c)).map(<[u8]>::len).sum::<usize>();
        if hole > 0 {
            file.seek(SeekFrom::Current(hole as i64))?;
            at += hole;
        }
        let data = bytes[at..].chunks(HOLE).take_while(|c| !zero(c)).map(<[u8]>::len).sum::<usize>();
        file.write_all(&bytes[at..at + data])?;
        at += data;
    }
    *total += bytes.len() as u64;
    Ok(())
}

struct Counted<'a, R> {
    inner: R,
    progress: &'a Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.progress.add(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_become_holes_and_bytes_stay() -> io::Result<()> {
        let mut data = vec![0u8; 3 << 20];
        data[5000] = 1;
        data[(2 << 20) + 17] = 2;
        let packed = zstd::encode_all(&data[..], 1)?;
        assert_eq!(Packing::detect(&packed), Some(Packing::Zstd));
        let mut out = to_temporary_file(&packed[..], Some(Packing::Zstd), &Progress::silent())?;
        assert!(out.broken.is_none());
        assert!(out.file.metadata()?.blocks() * 512 < 100 << 10);
        let mut back = Vec::new();
        out.file.rewind()?;
        out.file.read_to_end(&mut back)?;
        assert_eq!(back, data);
        Ok(())
    }

    #[test]
    fn a_cut_stream_gives_what_came_before() -> io::Result<()> {
        let data: Vec<u8> = (0..4u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let packed = zstd::encode_all(&data[..], 1)?;
        let out = to_temporary_file(&packed[..packed.len() / 2], Some(Packing::Zstd), &Progress::silent())?;
        assert!(out.broken.is_some());
        let len = out.file.metadata()?.len();
        assert!(len > 0 && len < data.len() as u64);
        Ok(())
    }
}
