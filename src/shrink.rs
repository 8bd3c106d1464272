//! A smaller core that still answers: headers, notes, and only those pages that
//! some commands read.
//!
//! How the mappings are cut is told in `core/written.rs`.

use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::core::written::{self, HEADER, Header, Take};
use crate::limits;
use crate::process::Process;
use crate::scrub::{self, By, Counts, Kept, LeftTexts, Plan};
use crate::targets::{Extents, PieceState};

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shrunk {
    /// Bytes of memory kept.
    pub kept: u64,
    /// Bytes of memory that the original holds.
    pub of: u64,
    /// Segments written.
    pub segments: usize,
    /// Size of the file written.
    pub size: u64,
    /// Whether notes were left out: more bytes than any process has.
    pub notes_cut: bool,
    /// Pieces of text that can be read in the memory kept.
    pub text: Texts,
}

/// Pieces of text: at least `LEAST_TEXT` printable characters of ASCII in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Of one byte each.
    pub utf8: u64,
    /// Of two bytes each, little-endian.
    pub utf16: u64,
}

/// Characters that make a piece of text: fewer come by chance in code and numbers.
pub const LEAST_TEXT: u64 = 8;

impl Texts {
    /// Count those of a run of memory.
    fn count(&mut self, bytes: &[u8]) {
        // A piece ends with what is no character; of two-byte ones each parity has its own.
        let (mut one, mut two) = (0u64, [0u64; 2]);
        let mut before = None;
        for (i, &b) in bytes.iter().enumerate() {
            let readable = matches!(b, b' '..=b'~');
            if readable {
                one += 1;
                self.utf8 += u64::from(one == LEAST_TEXT);
            } else {
                one = 0;
            }
            // The byte before is a character's first where this is the zero behind it.
            let wide = &mut two[i % 2];
            if b == 0 && before.is_some_and(|b| matches!(b, b' '..=b'~')) {
                *wide += 1;
                self.utf16 += u64::from(*wide == LEAST_TEXT);
            } else {
                *wide = 0;
            }
            before = Some(b);
        }
    }
}

/// What became of a core that was scrubbed.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// Bytes of its memory by the rule that each went by: all of them.
    pub memory: Counts,
    /// The same of all else in the file: headers and notes.
    pub beside: Counts,
    /// Texts that are left.
    pub left: LeftTexts,
}

/// Write a core with the pages in `keep` (sorted, disjoint) to `out`.
///
/// # Errors
/// Those of writing, and `Unsupported` where the process was not read from a core file.
pub fn write<W: Write + Seek>(process: &Process, keep: &[AddrRange], out: &mut W) -> io::Result<Shrunk> {
    write_as(process, Some(keep), None, out)
}

/// Write a core with the pages in `keep`, or with all of them, and without what `plan` overwrites. `left`: no texts yet, to be told as
/// those are to be that are left.
///
/// # Errors
/// As [`write()`].
pub fn write_scrubbed<W: Write + Seek>(
    process: &Process,
    keep: Option<&[AddrRange]>,
    plan: &Plan<'_>,
    left: LeftTexts,
    out: &mut W,
) -> io::Result<(Shrunk, Scrubbed)> {
    let mut scrubbed = Scrubbed { memory: Counts::default(), beside: Counts::default(), left };
    let shrunk = write_as(process, keep, Some((plan, &mut scrubbed)), out)?;
    Ok((shrunk, scrubbed))
}

/// Bytes that are overwritten at once.
const AT_ONCE: usize = 4 << 20;

fn write_as<W: Write + Seek>(
    process: &Process,
    keep: Option<&[AddrRange]>,
    mut scrub: Option<(&Plan<'_>, &mut Scrubbed)>,
    out: &mut W,
) -> io::Result<Shrunk> {
    let core = process.core().ok_or(io::ErrorKind::Unsupported)?;
    let of = |mapping: u32| core.segments.get(mapping as usize).map_or_else(Default::default, |s| (s.flags, s.mapping));
    let loads = written::cut(&core.facts.space, of, |piece| match piece.state {
        PieceState::Dumped(place) => keep.map_or(Take::All(place), |keep| Take::Within(place, keep)),
        _ => Take::Nothing,
    });
    let (mut notes, notes_cut) = core.note_bytes(limits::MAX_SHRUNK_NOTES);
    if let Some((plan, scrubbed)) = &mut scrub {
        notes = scrub::notes(&notes, process.arch(), plan, &mut scrubbed.beside);
    }
    let mut header: Header = [0; HEADER];
    header.copy_from_slice(&core.bytes()[..HEADER]);
    let layout = written::lay(header, &notes, &loads, 0);
    out.write_all(&layout.head)?;
    let of = core.facts.space.dumped_total();
    let mut buffers = Vec::new();
    let mut shrunk = Shrunk { of, kept: 0, segments: loads.len(), size: layout.end, notes_cut, text: Texts::default() };
    for (load, &to) in loads.iter().zip(&layout.offsets) {
        let Some(source) = load.source else { continue };
        let len = load.range.len();
        let bytes = &core.bytes()[source as usize..(source + len) as usize];
        shrunk.kept += len;
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
    // What is zero at the end is a hole too, and has to be there.
    if let Some((_, scrubbed)) = &mut scrub
        && layout.end > 0
    {
        let rest = layout.end.saturating_sub(shrunk.kept).saturating_sub(notes.len() as u64);
        scrubbed.beside.count(By::Kept(Kept::Headers), rest);
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

/// A run of memory that is written.
struct Run<'a> {
    start: Addr,
    bytes: &'a [u8],
    /// Its place in the core.
    source: u64,
    /// Its place in the file.
    to: u64,
    /// What is no hole of the core, where a core's holes are what tells which pages were in RAM: then these are holes of the file.
    holes: Option<&'a Extents>,
}

impl Run<'_> {
    /// Overwrite it, some parts of it side by side, and write what is not zero.
    fn write<W: Write + Seek>(
        &self,
        plan: &Plan<'_>,
        buffers: &mut Vec<Vec<u8>>,
        scrubbed: &mut Scrubbed,
        out: &mut W,
    ) -> io::Result<()> {
        buffers.resize_with(rayon::current_num_threads(), Vec::new);
        let mut at = 0;
        for parts in self.bytes.chunks(AT_ONCE * buffers.len().max(1)) {
            let none = scrubbed.left.empty();
            let done: Vec<(Counts, LeftTexts)> = buffers
                .par_iter_mut()
                .enumerate()
                .filter_map(|(i, buffer)| {
                    let part = parts.get(i * AT_ONCE..)?;
                    buffer.clear();
                    buffer.extend_from_slice(part.get(..AT_ONCE).unwrap_or(part));
                    let (mut counts, mut left) = (Counts::default(), none.clone());
                    let start = self.start.saturating_add((at + i * AT_ONCE) as u64);
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

    /// Write what became of a part of it, whose place in the file is told.
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
        let mut texts = Texts::default();
        texts.count(bytes);
        (texts.utf8, texts.utf16)
    }

    #[test]
    fn text_is_eight_characters_in_a_row() {
        assert_eq!(counted(b"\0password\x01hunter2\0a longer text\0"), (2, 0));
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        assert_eq!(counted(&wide("password")), (0, 1));
        assert_eq!(counted(&wide("hunter2")), (0, 0));
        // Wherever it begins.
        let odd = [&[7][..], &wide("correct horse"), &[0, 0], &wide("battery staple")].concat();
        assert_eq!(counted(&odd), (0, 2));
        assert_eq!(counted(&[0x41; 4096]), (1, 0));
        assert_eq!(counted(&[0; 64]), (0, 0));
    }
}
