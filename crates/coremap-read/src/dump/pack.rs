//! Writes a core as a compressed stream. It is cut into chunks of one size, which are compressed separately (the
//! frames, members and streams of all four formats can be concatenated). So processors share the work, and a chunk of
//! zeros is compressed only once.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::dump::copy::{fetch, is_zero};
use crate::dump::plan::{Part, Plan};
use crate::host::{self, FileAt};
use crate::process::Process;
use crate::progress::Progress;
use crate::words::Compression;

/// Length of an uncompressed chunk in bytes: more than the window of any level used here.
const PART: u64 = 2 << 20;

/// Maximum number of chunks compressed at once. As many again are being written.
const AT_ONCE: usize = 16;

/// Compresses headers, notes and memory. Returns whether some memory could not be read, and is zero.
pub(super) fn memory(
    process: &Process,
    plan: &Plan,
    form: Compression,
    out: &mut (dyn Write + Send),
    progress: &Progress,
) -> io::Result<bool> {
    let head = plan.head();
    let read = |at: Range<u64>, part: &Part, bytes: &mut [u8]| {
        progress.add(at.end - at.start);
        Ok(fetch(process, part.place + (at.start - part.at), bytes))
    };
    stream(head, plan.parts(), plan.end(), form, out, &read)
}

/// Compresses the first `len` bytes of a file.
pub(super) fn file(from: &File, len: u64, form: Compression, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let extents = host::extents(from, len);
    let parts: Vec<Part> = extents
        .within(0..len)
        .map(|data| Part { at: data.start, len: data.end - data.start, place: data.start })
        .collect();
    let read = |at: Range<u64>, _: &Part, bytes: &mut [u8]| from.read_exact_at(bytes, at.start).map(|()| true);
    stream(&[], &parts, len, form, out, &read).map(drop)
}

/// Compresses one more chunk after those already written.
pub(super) fn part(bytes: &[u8], form: Compression, out: &mut (dyn Write + Send)) -> io::Result<()> {
    out.write_all(&compressed(bytes, form)?)
}

/// Reads the bytes at a range of file offsets, which is within one part. Returns `false` if not all could be read.
type Read<'a> = dyn Fn(Range<u64>, &Part, &mut [u8]) -> io::Result<bool> + Sync + 'a;

enum Next {
    /// This many chunks of zeros.
    Zeros(u64),
    /// A compressed chunk.
    Packed(Vec<u8>),
}

/// Compresses `head` and the contents of `parts`, with zeros between them, up to `end`. Returns whether something could
/// not be read.
fn stream(
    head: &[u8],
    parts: &[Part],
    end: u64,
    form: Compression,
    out: &mut (dyn Write + Send),
    read: &Read<'_>,
) -> io::Result<bool> {
    let zeros = compressed(&vec![0; PART as usize], form)?;
    let lost = AtomicBool::new(false);
    let pack = |range: Range<u64>| -> io::Result<Next> {
        let len = range.end - range.start;
        if len == PART && !holds_data(&range, head, parts) {
            return Ok(Next::Zeros(1));
        }
        let mut bytes = vec![0; len as usize];
        if !fill(&range, head, parts, read, &mut bytes)? {
            lost.store(true, Ordering::Relaxed);
        }
        if len == PART && is_zero(&bytes) { Ok(Next::Zeros(1)) } else { compressed(&bytes, form).map(Next::Packed) }
    };
    let workers = rayon::current_num_threads().clamp(1, AT_ONCE);
    let mut at = 0;
    let mut ready: Vec<Next> = Vec::new();
    loop {
        let mut batch = Vec::new();
        while at < end && batch.len() < workers {
            let range = at..(at + PART).min(end);
            at = range.end;
            batch.push(range);
        }
        // Chunks that are certainly zero.
        let next = parts.get(parts.partition_point(|part| part.at + part.len <= at)).map_or(end, |part| part.at);
        let skipped = if at < head.len() as u64 { 0 } else { next.saturating_sub(at) / PART };
        at += skipped * PART;
        let done = batch.is_empty() && skipped == 0 && ready.is_empty();
        let (written, packed) = rayon::join(
            || ready.iter().try_for_each(|next| write_next(out, next, &zeros)),
            || batch.into_par_iter().map(pack).collect::<io::Result<Vec<Next>>>(),
        );
        written?;
        ready = packed?;
        if skipped > 0 {
            ready.push(Next::Zeros(skipped));
        }
        if done {
            return Ok(lost.into_inner());
        }
    }
}

fn write_next(out: &mut (dyn Write + Send), next: &Next, zeros: &[u8]) -> io::Result<()> {
    match next {
        Next::Zeros(count) => (0..*count).try_for_each(|_| out.write_all(zeros)),
        Next::Packed(bytes) => out.write_all(bytes),
    }
}

/// Parts that overlap a range of file offsets.
fn within<'p>(range: &Range<u64>, parts: &'p [Part]) -> impl Iterator<Item = &'p Part> + use<'p> {
    let end = range.end;
    let first = parts.partition_point(|part| part.at + part.len <= range.start);
    parts.get(first..).unwrap_or_default().iter().take_while(move |part| part.at < end)
}

fn holds_data(range: &Range<u64>, head: &[u8], parts: &[Part]) -> bool {
    range.start < head.len() as u64 || within(range, parts).next().is_some()
}

/// Fills `out`, which is zero, with the bytes at a range of file offsets. Returns `false` if not all could be read.
fn fill(range: &Range<u64>, head: &[u8], parts: &[Part], read: &Read<'_>, out: &mut [u8]) -> io::Result<bool> {
    let begins = head.get(range.start as usize..).unwrap_or_default();
    out.iter_mut().zip(begins).for_each(|(to, from)| *to = *from);
    let mut whole = true;
    for part in within(range, parts) {
        let at = part.at.max(range.start)..(part.at + part.len).min(range.end);
        let bytes = out.get_mut((at.start - range.start) as usize..(at.end - range.start) as usize);
        whole &= read(at, part, bytes.unwrap_or_default())?;
    }
    Ok(whole)
}

fn compressed(bytes: &[u8], form: Compression) -> io::Result<Vec<u8>> {
    match form {
        Compression::Zstd => {
            let mut packer = zstd::bulk::Compressor::new(1)?;
            packer.include_checksum(true)?;
            packer.compress(bytes)
        }
        Compression::Gzip => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(bytes)?;
            packer.finish()
        }
        Compression::Xz => {
            let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 1);
            packer.write_all(bytes)?;
            packer.finish()
        }
        Compression::Lz4 => {
            let frame = lz4_flex::frame::FrameInfo::new().content_checksum(true);
            let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
            packer.write_all(bytes)?;
            packer.finish().map_err(io::Error::other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::inflate::to_temporary_file;
    use crate::progress::Progress;

    /// Test data: every eighth byte depends on its offset, the others are zero.
    fn byte(at: u64) -> u8 {
        if at.is_multiple_of(8) { (at >> 9) as u8 | 1 } else { 0 }
    }

    #[test]
    fn what_comes_out_is_what_went_in() -> io::Result<()> {
        let head = b"the head of it";
        let part = |at, len| Part { at, len, place: 1 << 50 | at };
        // After the head, across a border, far away, and up to the end.
        let parts = [part(4096, 9), part(PART - 100, 300), part(PART * 70 + 5, PART * 2), part(PART * 90, 77)];
        let end = PART * 90 + 77;
        let read = |at: Range<u64>, part: &Part, bytes: &mut [u8]| {
            assert!(part.place == 1 << 50 | part.at && at.start >= part.at && at.end <= part.at + part.len);
            bytes.iter_mut().zip(at).for_each(|(to, at)| *to = byte(at));
            Ok(part.at != PART * 90)
        };
        for form in Compression::ALL.iter().copied() {
            let mut out = Vec::new();
            assert!(stream(head, &parts, end, form, &mut out, &read)?, "{form}: the last part is lost");
            part_of_zeros_costs_little(&out, form);
            super::part(b"the end", form, &mut out)?;
            let unpacked =
                to_temporary_file(&out[..], None, None, |_| true, &Progress::silent()).map_err(io::Error::other)?;
            assert!(unpacked.broken.is_none() && !unpacked.trailing && unpacked.compression == Some(form));
            assert_eq!(unpacked.file.metadata()?.len(), end + 7, "{form}");
            let mut all = vec![0; (end + 7) as usize];
            unpacked.file.read_exact_at(&mut all, 0)?;
            assert_eq!((&all[..head.len()], &all[end as usize..]), (&head[..], &b"the end"[..]));
            for (i, &found) in all.iter().enumerate().skip(head.len()).take(end as usize - head.len()) {
                let at = i as u64;
                let is_data = parts.iter().any(|part| (part.at..part.at + part.len).contains(&at));
                assert_eq!(found, if is_data { byte(at) } else { 0 }, "{form}: {at:#x}");
            }
        }
        Ok(())
    }

    fn part_of_zeros_costs_little(packed: &[u8], form: Compression) {
        // About 85 chunks of zeros.
        assert!(packed.len() < 1 << 20, "{form}: {} bytes", packed.len());
    }
}
