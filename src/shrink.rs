//! Writes a smaller core that still answers: headers, notes, and only the pages that some commands read.
//!
//! `core/written.rs` describes how mappings are divided.

use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::core::written::{self, HEADER, Header, WriteMode};
use crate::limits;
use crate::process::Process;
use crate::scrub::{self, By, Counts, Kept, LeftTexts, Plan};
use crate::targets::{Extents, PieceState};

/// Figures of a core that was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shrunk {
    /// Bytes of memory written.
    pub written: u64,
    /// Bytes of memory in the original.
    pub total: u64,
    /// Segments written.
    pub segments: usize,
    /// Size of the file written.
    pub size: u64,
    /// Whether notes were left out, because they are larger than the notes of any real process.
    pub notes_cut: bool,
    /// Texts in the memory written.
    pub text: TextRuns,
}

/// Number of texts: runs of at least `MIN_TEXT_RUN` printable ASCII characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRuns {
    /// Texts with one byte a character.
    pub utf8: u64,
    /// Texts with two bytes a character, little-endian.
    pub utf16: u64,
}

/// Minimum number of characters of a text. Shorter runs occur in code and numbers by chance.
pub const MIN_TEXT_RUN: u64 = 8;

impl TextRuns {
    /// Counts the texts in a run of memory.
    fn count(&mut self, bytes: &[u8]) {
        // A text ends at the first byte that is not printable. Two-byte texts are counted for even and odd offsets.
        let (mut one, mut two) = (0u64, [0u64; 2]);
        let mut before = None;
        for (i, &b) in bytes.iter().enumerate() {
            let readable = matches!(b, b' '..=b'~');
            if readable {
                one += 1;
                self.utf8 += u64::from(one == MIN_TEXT_RUN);
            } else {
                one = 0;
            }
            // This zero is the second byte of a two-byte character if the byte before it is printable.
            let wide = &mut two[i % 2];
            if b == 0 && before.is_some_and(|b| matches!(b, b' '..=b'~')) {
                *wide += 1;
                self.utf16 += u64::from(*wide == MIN_TEXT_RUN);
            } else {
                *wide = 0;
            }
            before = Some(b);
        }
    }
}

/// Result of scrubbing a core.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// Bytes of memory per rule. Their sum is all memory.
    pub memory: Counts,
    /// Bytes of headers and notes per rule.
    pub outside_memory: Counts,
    /// Texts that remain.
    pub left: LeftTexts,
}

/// Writes a core with the pages in `keep` (sorted, disjoint) to `out`.
///
/// # Errors
/// Errors of writing, and `Unsupported` if the process was not read from a core file.
pub fn write<W: Write + Seek>(process: &Process, keep: &[AddrRange], out: &mut W) -> io::Result<Shrunk> {
    write_as(process, Some(keep), None, out)
}

/// Writes a core with the pages in `keep`, or with all pages, without the values that `plan` overwrites. `left` has no
/// texts yet. It collects those that remain, as its own settings say.
///
/// # Errors
/// Like [`write()`].
pub fn write_scrubbed<W: Write + Seek>(
    process: &Process,
    keep: Option<&[AddrRange]>,
    plan: &Plan<'_>,
    left: LeftTexts,
    out: &mut W,
) -> io::Result<(Shrunk, Scrubbed)> {
    let mut scrubbed = Scrubbed { memory: Counts::default(), outside_memory: Counts::default(), left };
    let shrunk = write_as(process, keep, Some((plan, &mut scrubbed)), out)?;
    Ok((shrunk, scrubbed))
}

/// Bytes that one thread overwrites at once.
const CHUNK: usize = 4 << 20;

fn write_as<W: Write + Seek>(
    process: &Process,
    keep: Option<&[AddrRange]>,
    mut scrub: Option<(&Plan<'_>, &mut Scrubbed)>,
    out: &mut W,
) -> io::Result<Shrunk> {
    let core = process.core().ok_or(io::ErrorKind::Unsupported)?;
    let of = |mapping: u32| core.segments.get(mapping as usize).map_or_else(Default::default, |s| (s.flags, s.mapping));
    let loads = written::split_loads(&core.facts.space, of, |piece| match piece.state {
        PieceState::Dumped(place) => keep.map_or(WriteMode::All(place), |keep| WriteMode::Within(place, keep)),
        _ => WriteMode::Nothing,
    });
    let (mut notes, notes_cut) = core.note_bytes(limits::MAX_SHRUNK_NOTES);
    if let Some((plan, scrubbed)) = &mut scrub {
        notes = scrub::notes(&notes, process.arch(), plan, &mut scrubbed.outside_memory);
    }
    let mut header: Header = [0; HEADER];
    header.copy_from_slice(&core.bytes()[..HEADER]);
    let layout = written::layout_core(header, &notes, &loads, 0);
    out.write_all(&layout.head)?;
    let total = core.facts.space.dumped_total();
    let mut buffers = Vec::new();
    let mut shrunk =
        Shrunk { total, written: 0, segments: loads.len(), size: layout.end, notes_cut, text: TextRuns::default() };
    for (load, &to) in loads.iter().zip(&layout.offsets) {
        let Some(source) = load.source else { continue };
        let len = load.range.len();
        let bytes = &core.bytes()[source as usize..(source + len) as usize];
        shrunk.written += len;
        let Some((plan, scrubbed)) = &mut scrub else {
            out.seek(SeekFrom::Start(to))?;
            out.write_all(bytes)?;
            shrunk.text.count(bytes);
            continue;
        };
        let holes = process.residence().map(|_| process.target().extents());
        let run = Run { start: load.range.start, bytes, source, to, holes };
        run.write(plan, &mut buffers, scrubbed, out)?;
    }
    // Zeros at the end are a hole, but the file needs its full length.
    if let Some((_, scrubbed)) = &mut scrub
        && layout.end > 0
    {
        let rest = layout.end.saturating_sub(shrunk.written).saturating_sub(notes.len() as u64);
        scrubbed.outside_memory.count(By::Kept(Kept::Headers), rest);
        out.flush()?;
        let at = out.seek(SeekFrom::End(0))?;
        if at < layout.end {
            out.seek(SeekFrom::Start(layout.end - 1))?;
            out.write_all(&[0])?;
        }
    }
    out.flush()?;
    Ok(shrunk)
}

/// A run of memory to write.
struct Run<'a> {
    start: Addr,
    bytes: &'a [u8],
    /// Offset in the core, in bytes.
    source: u64,
    /// Offset in the new file, in bytes.
    to: u64,
    /// Extents of the core that are no holes, if its holes show which pages were in RAM. Then those holes are holes of
    /// the new file too.
    holes: Option<&'a Extents>,
}

impl Run<'_> {
    /// Overwrites the run, several blocks in parallel, and writes what is not zero.
    fn write<W: Write + Seek>(
        &self,
        plan: &Plan<'_>,
        buffers: &mut Vec<Vec<u8>>,
        scrubbed: &mut Scrubbed,
        out: &mut W,
    ) -> io::Result<()> {
        buffers.resize_with(rayon::current_num_threads(), Vec::new);
        let mut at = 0;
        for parts in self.bytes.chunks(CHUNK * buffers.len().max(1)) {
            let none = scrubbed.left.empty();
            let done: Vec<(Counts, LeftTexts)> = buffers
                .par_iter_mut()
                .enumerate()
                .filter_map(|(i, buffer)| {
                    let part = parts.get(i * CHUNK..)?;
                    buffer.clear();
                    buffer.extend_from_slice(part.get(..CHUNK).unwrap_or(part));
                    let (mut counts, mut left) = (Counts::default(), none.clone());
                    let start = self.start.saturating_add((at + i * CHUNK) as u64);
                    plan.apply(start, buffer, &mut counts, &mut left);
                    Some((counts, left))
                })
                .collect();
            let parts_done = done.len();
            for (counts, left) in done {
                scrubbed.memory.add(&counts);
                scrubbed.left.append(left);
            }
            let mut place = self.to + at as u64;
            for buffer in buffers.iter().take(parts_done) {
                self.write_part(buffer, place, out)?;
                place += buffer.len() as u64;
            }
            at += parts.len();
        }
        Ok(())
    }

    /// Writes the scrubbed bytes of `part` at offset `place` of the new file.
    fn write_part<W: Write + Seek>(&self, part: &[u8], place: u64, out: &mut W) -> io::Result<()> {
        let source = self.source + (place - self.to);
        let whole = || (part.iter().any(|&b| b != 0)).then_some(source..source + part.len() as u64);
        let data: Vec<Range<u64>> = match self.holes {
            Some(data) => data.within(source..source + part.len() as u64).collect(),
            None => whole().into_iter().collect(),
        };
        for data in data {
            let (from, to) = ((data.start - source) as usize, (data.end - source) as usize);
            out.seek(SeekFrom::Start(place + data.start - source))?;
            out.write_all(part.get(from..to).unwrap_or_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(bytes: &[u8]) -> (u64, u64) {
        let mut texts = TextRuns::default();
        texts.count(bytes);
        (texts.utf8, texts.utf16)
    }

    #[test]
    fn text_is_eight_characters_in_a_row() {
        assert_eq!(counted(b"\0password\x01hunter2\0a longer text\0"), (2, 0));
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        assert_eq!(counted(&wide("password")), (0, 1));
        assert_eq!(counted(&wide("hunter2")), (0, 0));
        // At any offset.
        let odd = [&[7][..], &wide("correct horse"), &[0, 0], &wide("battery staple")].concat();
        assert_eq!(counted(&odd), (0, 2));
        assert_eq!(counted(&[0x41; 4096]), (1, 0));
        assert_eq!(counted(&[0; 64]), (0, 0));
    }
}
