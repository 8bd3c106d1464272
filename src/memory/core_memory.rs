//! [`Memory`] over a core's segments, with bytes from proven files where the
//! core left them out.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::core::elf::PieceState;
use crate::core::mapped::MappedFile;
use crate::core::open::Core;
use crate::core::reads::Loss;
use crate::memory::{Fault, FaultKind, Memory};
use crate::range_map::{RangeMap, Ranged};

/// Bytes of a file on disk that stand in for a mapping's.
pub struct Overlay {
    /// Addresses it can fill.
    pub range: AddrRange,
    /// Index into the list of files.
    pub file: usize,
    /// Where in the file the range begins.
    pub offset: u64,
}

impl Ranged for Overlay {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// A core's memory.
pub struct CoreMemory {
    core: Arc<Core>,
    overlays: RangeMap<Overlay>,
    /// Parts that the process may have written to; see [`CoreMemory::pristine`].
    originals: RangeMap<Overlay>,
    files: Vec<MappedFile>,
}

/// A core's memory where what the core left out of writable parts is as in the
/// file: right for tables that nobody writes, wrong for anything else.
#[derive(Clone, Copy)]
pub struct Pristine<'m>(&'m CoreMemory);

impl CoreMemory {
    /// Only what the core holds.
    pub fn new(core: Arc<Core>) -> CoreMemory {
        CoreMemory { core, overlays: RangeMap::default(), originals: RangeMap::default(), files: Vec::new() }
    }

    /// With `overlays` (into `files`) for what the core left out, and `originals`
    /// for what it left out of writable parts.
    pub fn with_files(
        core: Arc<Core>,
        overlays: RangeMap<Overlay>,
        originals: RangeMap<Overlay>,
        files: Vec<MappedFile>,
    ) -> CoreMemory {
        CoreMemory { core, overlays, originals, files }
    }

    /// The view for tables of program files that nobody writes, whatever the
    /// section they lie in allows.
    pub fn pristine(&self) -> Pristine<'_> {
        Pristine(self)
    }

    /// The longest run of bytes from `addr` on, within one piece.
    fn run(&self, addr: Addr, pristine: bool) -> Result<&[u8], Fault> {
        let i = self.core.pieces.index_at_or_above(addr);
        let piece = self.core.pieces.get(i).filter(|p| p.range.contains(addr));
        if let Some(piece) = piece
            && let PieceState::Dumped(offset) = piece.state
        {
            let skip = addr.since(piece.range.start);
            let from = (offset + skip) as usize;
            let to = (offset + piece.range.len()) as usize;
            return Ok(&self.core.bytes()[from..to]);
        }
        let kind = match piece.map(|p| p.state) {
            Some(PieceState::Truncated) => FaultKind::Truncated,
            Some(_) => FaultKind::NotDumped,
            // Known from NT_FILE alone (gcore's way to leave a mapping out).
            None if self.core.is_listed(addr) => FaultKind::NotDumped,
            None => FaultKind::Unmapped,
        };
        // A piece with bytes of its own always speaks for itself.
        let next = match (piece, self.core.pieces.get(i)) {
            (Some(here), _) => here.range.end,
            (None, Some(next)) => next.range.start,
            (None, None) => Addr::MAX,
        };
        let original = || if pristine { self.overlay(&self.originals, addr, next) } else { None };
        self.overlay(&self.overlays, addr, next).or_else(original).ok_or(Fault { addr, kind })
    }

    fn overlay(&self, overlays: &RangeMap<Overlay>, addr: Addr, next: Addr) -> Option<&[u8]> {
        let o = overlays.at(addr)?;
        let from = usize::try_from(o.offset.checked_add(addr.since(o.range.start))?).ok()?;
        let len = o.range.end.min(next).since(addr) as usize;
        let file = self.files.get(o.file)?;
        file.get(from..from.checked_add(len)?.min(file.len()))
    }

    fn read_from(&self, addr: Addr, buf: &mut [u8], pristine: bool) -> Result<(), Fault> {
        if let Some(loss) = self.core.reads.refuses(addr, buf.len() as u64) {
            return Err(Fault { addr, kind: loss.into() });
        }
        let mut at = addr;
        let mut done = 0;
        while done < buf.len() {
            let run = self.run(at, pristine).inspect_err(|fault| {
                if fault.kind == FaultKind::Truncated {
                    self.core.reads.lose(fault.addr, Loss::Cut);
                }
            })?;
            let n = run.len().min(buf.len() - done);
            if n == 0 {
                return Err(Fault { addr: at, kind: FaultKind::NotDumped });
            }
            self.core.reads.note(at, n as u64);
            buf[done..done + n].copy_from_slice(&run[..n]);
            done += n;
            match at.checked_add(n as u64) {
                Some(next) => at = next,
                None if done < buf.len() => return Err(Fault { addr: at, kind: FaultKind::Unmapped }),
                None => {}
            }
        }
        Ok(())
    }

    fn borrow_from(&self, addr: Addr, len: usize, pristine: bool) -> Option<&[u8]> {
        let bytes = self.run(addr, pristine).ok()?.get(..len)?;
        // What is borrowed may be looked at for a word only: it counts as one read.
        if self.core.reads.refuses(addr, 0).is_some() {
            return None;
        }
        self.core.reads.note(addr, len as u64);
        Some(bytes)
    }

    fn readable_from(&self, addr: Addr, max: u64, pristine: bool) -> u64 {
        let mut have = 0;
        while have < max {
            let Some(at) = addr.checked_add(have) else { break };
            match self.run(at, pristine) {
                Ok(run) if !run.is_empty() => have += run.len() as u64,
                _ => break,
            }
        }
        have.min(max)
    }

    /// The next border of a piece, or of a file that may stand in: a mapping that is
    /// left out is one step, however much it claims.
    fn past_gap_from(&self, addr: Addr, pristine: bool) -> Addr {
        fn border<T: Ranged>(map: &RangeMap<T>, addr: Addr) -> Option<Addr> {
            let range = map.get(map.index_at_or_above(addr))?.range();
            Some(if range.start > addr { range.start } else { range.end })
        }
        let originals = if pristine { border(&self.originals, addr) } else { None };
        let borders = [border(&self.core.pieces, addr), border(&self.overlays, addr), originals];
        borders.into_iter().flatten().min().unwrap_or(Addr::MAX)
    }
}

impl Memory for CoreMemory {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.read_from(addr, buf, false)
    }

    fn borrow(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.borrow_from(addr, len, false)
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        self.readable_from(addr, max, false)
    }

    fn past_gap(&self, addr: Addr) -> Addr {
        self.past_gap_from(addr, false)
    }
}

impl Memory for Pristine<'_> {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.0.read_from(addr, buf, true)
    }

    fn borrow(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.0.borrow_from(addr, len, true)
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        self.0.readable_from(addr, max, true)
    }

    fn past_gap(&self, addr: Addr) -> Addr {
        self.0.past_gap_from(addr, true)
    }
}
