//! [`Memory`] over the pieces of a target, with bytes from proven files where the dump
//! left them out.

use std::ops::Range;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::core::mapped::MappedFile;
use crate::memory::{Fault, FaultKind, Memory};
use crate::range_map::{RangeMap, Ranged};
use crate::targets::PieceState;
use crate::targets::Target;
use crate::targets::reads::{Loss, Script};

/// A range of a file on disk that supplies bytes the dump left out.
pub(crate) struct Overlay {
    /// Addresses that the file can fill.
    pub range: AddrRange,
    /// Index into the list of files.
    pub file: usize,
    /// Offset of the range in the file, in bytes.
    pub offset: u64,
}

impl Ranged for Overlay {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Location of the bytes at an address.
enum Source<'a> {
    Here(&'a [u8]),
    /// To be copied from these offsets of the target.
    At(Range<u64>),
}

impl Source<'_> {
    fn len(&self) -> u64 {
        match self {
            Source::Here(bytes) => bytes.len() as u64,
            Source::At(place) => place.end - place.start,
        }
    }
}

/// Purpose of a read: it decides whether the bytes are recorded as a structure.
#[derive(Clone, Copy)]
enum For {
    Structure,
    Looking,
}

/// The memory of a process.
pub struct ProcessMemory {
    target: Arc<dyn Target>,
    overlays: RangeMap<Overlay>,
    /// File ranges of parts that the process may have written to; see
    /// [`ProcessMemory::pristine`].
    originals: RangeMap<Overlay>,
    files: Vec<MappedFile>,
}

/// A view of the memory that reads writable parts from the file if the dump left them out.
/// Right for tables that nobody writes to, wrong for anything else.
#[derive(Clone, Copy)]
pub(crate) struct Pristine<'m>(&'m ProcessMemory);

impl ProcessMemory {
    /// Memory with the target's bytes only.
    pub fn new(target: Arc<dyn Target>) -> ProcessMemory {
        ProcessMemory { target, overlays: RangeMap::default(), originals: RangeMap::default(), files: Vec::new() }
    }

    /// Memory with `overlays` (into `files`) for parts that the dump left out, and
    /// `originals` for such parts that are writable.
    pub(crate) fn with_files(
        target: Arc<dyn Target>,
        overlays: RangeMap<Overlay>,
        originals: RangeMap<Overlay>,
        files: Vec<MappedFile>,
    ) -> ProcessMemory {
        ProcessMemory { target, overlays, originals, files }
    }

    /// Returns a view for tables of program files that nobody writes to, even if their
    /// section is writable.
    pub(crate) fn pristine(&self) -> Pristine<'_> {
        Pristine(self)
    }

    /// Returns the longest run of bytes from `addr` on, within one piece.
    fn run(&self, addr: Addr, pristine: bool) -> Result<Source<'_>, Fault> {
        let space = &self.target.facts().space;
        let i = space.pieces.index_at_or_above(addr);
        let piece = space.pieces.get(i).filter(|p| p.range.contains(addr));
        if let Some(piece) = piece
            && let Some(offset) = piece.state.place()
        {
            let skip = addr.since(piece.range.start);
            let place = offset.saturating_add(skip)..offset.saturating_add(piece.range.len());
            return Ok(self.target.slice(place.clone()).map_or(Source::At(place), Source::Here));
        }
        let kind = match piece.map(|p| p.state) {
            Some(PieceState::Truncated) => FaultKind::Truncated,
            Some(_) => FaultKind::NotDumped,
            // Listed in NT_FILE only. gcore leaves a mapping out in this way.
            None if space.is_listed(addr) => FaultKind::NotDumped,
            None => FaultKind::Unmapped,
        };
        // Files never replace bytes that a piece has.
        let next = match (piece, space.pieces.get(i)) {
            (Some(here), _) => here.range.end,
            (None, Some(next)) => next.range.start,
            (None, None) => Addr::MAX,
        };
        let original = || if pristine { self.overlay(&self.originals, addr, next) } else { None };
        self.overlay(&self.overlays, addr, next).or_else(original).map(Source::Here).ok_or(Fault { addr, kind })
    }

    fn overlay(&self, overlays: &RangeMap<Overlay>, addr: Addr, next: Addr) -> Option<&[u8]> {
        let o = overlays.at(addr)?;
        let from = usize::try_from(o.offset.checked_add(addr.since(o.range.start))?).ok()?;
        let len = o.range.end.min(next).since(addr) as usize;
        let file = self.files.get(o.file)?;
        file.get(from..from.checked_add(len)?.min(file.len()))
    }

    fn read_from(&self, addr: Addr, buf: &mut [u8], pristine: bool, for_what: For) -> Result<(), Fault> {
        if let Some(loss) = self.target.reads().refuses(addr, buf.len() as u64) {
            return Err(Fault { addr, kind: loss.into() });
        }
        let mut at = addr;
        let mut done = 0;
        while done < buf.len() {
            let run = self.run(at, pristine).inspect_err(|fault| {
                if fault.kind == FaultKind::Truncated {
                    self.target.reads().lose(fault.addr, Loss::Cut);
                }
            })?;
            let n = match run {
                Source::Here(bytes) => {
                    let n = bytes.len().min(buf.len() - done);
                    buf[done..done + n].copy_from_slice(&bytes[..n]);
                    n
                }
                Source::At(place) => {
                    let n = (place.end - place.start).min((buf.len() - done) as u64) as usize;
                    match self.target.copy(place.start, &mut buf[done..done + n]) {
                        Ok(n) if n > 0 => n,
                        _ => {
                            self.target.reads().lose(at, Loss::Failed);
                            return Err(Fault { addr: at, kind: FaultKind::Failed });
                        }
                    }
                }
            };
            if n == 0 {
                return Err(Fault { addr: at, kind: FaultKind::NotDumped });
            }
            self.note(at, n as u64, for_what);
            done += n;
            match at.checked_add(n as u64) {
                Some(next) => at = next,
                None if done < buf.len() => return Err(Fault { addr: at, kind: FaultKind::Unmapped }),
                None => {}
            }
        }
        Ok(())
    }

    fn note(&self, addr: Addr, len: u64, for_what: For) {
        match for_what {
            For::Structure => self.target.reads().note(addr, len),
            For::Looking => self.target.reads().note_run(addr, len),
        }
    }

    fn borrow_from(&self, addr: Addr, len: usize, pristine: bool, for_what: For) -> Option<&[u8]> {
        let bytes = match self.run(addr, pristine).ok()? {
            Source::Here(bytes) => bytes.get(..len)?,
            Source::At(place) if len as u64 <= place.end - place.start => {
                self.target.cached_slice(place.start..place.start + len as u64)?
            }
            Source::At(_) => return None,
        };
        // A borrower may use one word of it only, so it counts as one read.
        if self.target.reads().refuses(addr, 0).is_some() {
            return None;
        }
        self.note(addr, len as u64, for_what);
        Some(bytes)
    }

    fn readable_from(&self, addr: Addr, max: u64, pristine: bool) -> u64 {
        let mut have = 0;
        while have < max {
            let Some(at) = addr.checked_add(have) else { break };
            match self.run(at, pristine) {
                Ok(run) if run.len() > 0 => have += run.len(),
                _ => break,
            }
        }
        have.min(max)
    }

    /// Returns the next border of a piece, or of a file that can supply bytes. So a
    /// mapping that was left out is one step, whatever its size.
    fn past_gap_from(&self, addr: Addr, pristine: bool) -> Addr {
        fn border<T: Ranged>(map: &RangeMap<T>, addr: Addr) -> Option<Addr> {
            let range = map.get(map.index_at_or_above(addr))?.range();
            Some(if range.start > addr { range.start } else { range.end })
        }
        let originals = if pristine { border(&self.originals, addr) } else { None };
        let borders = [border(&self.target.facts().space.pieces, addr), border(&self.overlays, addr), originals];
        borders.into_iter().flatten().min().unwrap_or(Addr::MAX)
    }
}

impl Memory for ProcessMemory {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.read_from(addr, buf, false, For::Structure)
    }

    fn peek(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.read_from(addr, buf, false, For::Looking)
    }

    fn borrow(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.borrow_from(addr, len, false, For::Structure)
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        self.readable_from(addr, max, false)
    }

    fn past_gap(&self, addr: Addr) -> Addr {
        self.past_gap_from(addr, false)
    }

    fn look(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        let have = self.readable(addr, len as u64) as usize;
        let mut buf = vec![0; have.min(len)];
        self.read_from(addr, &mut buf, false, For::Looking)?;
        if have < len {
            // Returns the reason why the rest is missing.
            self.read_from(addr.saturating_add(have as u64), &mut [0], false, For::Looking)?;
        }
        Ok(buf)
    }

    fn borrow_to_look(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.borrow_from(addr, len, false, For::Looking)
    }

    fn keeps(&self) -> bool {
        self.target.reads().records_bytes()
    }

    fn keep(&self, addr: Addr, len: u64) {
        self.target.reads().keep(addr, len);
    }

    fn keep_name(&self, addr: Addr, len: u64, script: Script) {
        self.target.reads().keep_name(addr, len, script);
    }
}

impl Memory for Pristine<'_> {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.0.read_from(addr, buf, true, For::Structure)
    }

    fn peek(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.0.read_from(addr, buf, true, For::Looking)
    }

    fn borrow(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.0.borrow_from(addr, len, true, For::Structure)
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        self.0.readable_from(addr, max, true)
    }

    fn past_gap(&self, addr: Addr) -> Addr {
        self.0.past_gap_from(addr, true)
    }

    fn look(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        let have = self.readable(addr, len as u64) as usize;
        let mut buf = vec![0; have.min(len)];
        self.0.read_from(addr, &mut buf, true, For::Looking)?;
        if have < len {
            // Returns the reason why the rest is missing.
            self.0.read_from(addr.saturating_add(have as u64), &mut [0], true, For::Looking)?;
        }
        Ok(buf)
    }

    fn borrow_to_look(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.0.borrow_from(addr, len, true, For::Looking)
    }

    fn keeps(&self) -> bool {
        self.0.target.reads().records_bytes()
    }

    fn keep(&self, addr: Addr, len: u64) {
        self.0.target.reads().keep(addr, len);
    }

    fn keep_name(&self, addr: Addr, len: u64, script: Script) {
        self.0.target.reads().keep_name(addr, len, script);
    }
}
