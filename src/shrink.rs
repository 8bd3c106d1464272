//! A smaller core that still answers: headers, notes, and only those pages that
//! some commands read.
//!
//! How the mappings are cut is told in [`core::written`](crate::core::written).

use std::io::{self, Seek, SeekFrom, Write};

use crate::addr::AddrRange;
use crate::core::open::Core;
use crate::core::written::{self, HEADER, Header, Take};
use crate::limits;
use crate::process::Process;
use crate::targets::PieceState;

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
}

/// Write a core with the pages in `keep` (sorted, disjoint) to `out`.
///
/// # Errors
/// Those of writing, and `Unsupported` where the process was not read from a core file.
pub fn write<W: Write + Seek>(process: &Process, keep: &[AddrRange], out: &mut W) -> io::Result<Shrunk> {
    let core = process.core().ok_or(io::ErrorKind::Unsupported)?;
    let of = |mapping: u32| core.segments.get(mapping as usize).map_or_else(Default::default, |s| (s.flags, s.mapping));
    let loads = written::cut(&core.facts.space, of, |piece| match piece.state {
        PieceState::Dumped(place) => Take::Within(place, keep),
        _ => Take::Nothing,
    });
    let (notes, notes_cut) = note_bytes(core);
    let mut header: Header = [0; HEADER];
    header.copy_from_slice(&core.bytes()[..HEADER]);
    let layout = written::lay(header, &notes, &loads, 0);
    out.write_all(&layout.head)?;
    let of = core.facts.space.dumped_total();
    let mut shrunk = Shrunk { of, kept: 0, segments: loads.len(), size: layout.end, notes_cut };
    for (load, &to) in loads.iter().zip(&layout.offsets) {
        let Some(source) = load.source else { continue };
        let len = load.range.len();
        out.seek(SeekFrom::Start(to))?;
        out.write_all(&core.bytes()[source as usize..(source + len) as usize])?;
        shrunk.kept += len;
    }
    out.flush()?;
    Ok(shrunk)
}

/// All PT_NOTE bytes, one after the other, each padded to 4; and whether some are
/// left out. Found by the mutation run (COREMAP_SEED=43101167 of
/// dotnet31-createdump): segments that each claim the whole file.
fn note_bytes(core: &Core) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let mut cut = false;
    for &(offset, size) in &core.note_segments {
        let file = core.bytes();
        let start = (offset as usize).min(file.len());
        let end = start.saturating_add(size as usize).min(file.len());
        let room = limits::MAX_SHRUNK_NOTES.saturating_sub(out.len());
        cut |= end - start > room;
        out.extend_from_slice(&file[start..end.min(start + room)]);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    (out, cut)
}
