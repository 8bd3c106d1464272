//! The dumped process's memory: reads that give bytes or the reason why not,
//! page scans, and bytes filled in from files that are proven the same build. Lists
//! in it are followed by the walks of `walk.rs` alone.

#[doc(hidden)]
pub mod alias;
#[doc(hidden)]
pub mod content;
mod pages;
#[doc(hidden)]
pub mod pointers;
mod process_memory;
pub mod scan;
pub(crate) mod walk;
pub(crate) mod window;

/// What a word is in a core that was scrubbed (docs/sharing.md) whose value went: no address of a program on any machine, and
/// nobody's text. The form is that of Breakpad's and Crashpad's sanitizers.
pub const OVERWRITTEN: u64 = 0x0def_aced_0def_aced;

pub use process_memory::{Overlay, Pristine, ProcessMemory};

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::targets::reads::{Loss, Script};

/// Why an address can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No mapping of the core covers it.
    Unmapped,
    /// Mapped, but its bytes were left out of the dump.
    NotDumped,
    /// Its bytes should be in the file, but the file was cut off.
    Truncated,
    /// The read itself failed.
    Failed,
    /// The budget of work or memory for this core is spent.
    Spent,
}

impl FaultKind {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            FaultKind::Unmapped => "not mapped",
            FaultKind::NotDumped => "mapped, but not in the dump",
            FaultKind::Truncated => "the core file is cut off before it",
            FaultKind::Failed => "the core file could not be read there",
            FaultKind::Spent => "not read: coremap's work or memory budget is spent",
        }
    }
}

impl From<Loss> for FaultKind {
    fn from(loss: Loss) -> FaultKind {
        match loss {
            Loss::Failed => FaultKind::Failed,
            Loss::Cut => FaultKind::Truncated,
            Loss::Spent => FaultKind::Spent,
        }
    }
}

/// A failed read: the first address that could not be read, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{addr}: {}", .kind.text())]
pub struct Fault {
    /// First unreadable address.
    pub addr: Addr,
    /// Reason.
    pub kind: FaultKind,
}

/// Something whose memory can be read by address.
///
/// Reads are all or nothing. Numbers are little-endian, as on both machines
/// that are supported.
pub trait Memory: Sync {
    /// Fill `buf` from `addr` on.
    ///
    /// # Errors
    /// A [`Fault`] at the first address that can't be read.
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault>;

    /// `len` bytes at `addr` without a copy, where they lie in one piece.
    fn borrow(&self, _addr: Addr, _len: usize) -> Option<&[u8]> {
        None
    }

    /// Bytes that can be read from `addr` on, at most `max`.
    fn readable(&self, addr: Addr, max: u64) -> u64;

    /// `len` bytes at `addr`; the caller has capped `len`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn bytes(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        // Ask before allocating: `len` may come from the core.
        let have = self.readable(addr, len as u64);
        if have < len as u64 {
            let mut byte = [0];
            let at = addr.saturating_add(have);
            self.read(at, &mut byte)?;
            return Err(Fault { addr: at, kind: FaultKind::Unmapped });
        }
        let mut buf = vec![0; len];
        self.read(addr, &mut buf)?;
        Ok(buf)
    }

    /// The u64 at `addr`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn u64(&self, addr: Addr) -> Result<u64, Fault> {
        let mut buf = [0; 8];
        self.read(addr, &mut buf)?;
        Ok(LittleEndian::read_u64(&buf))
    }

    /// The u32 at `addr`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn u32(&self, addr: Addr) -> Result<u32, Fault> {
        let mut buf = [0; 4];
        self.read(addr, &mut buf)?;
        Ok(LittleEndian::read_u32(&buf))
    }

    /// The pointer at `addr`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn ptr(&self, addr: Addr) -> Result<Addr, Fault> {
        self.u64(addr).map(Addr::new)
    }

    /// The same as [`Memory::bytes`], to look for something in it: where it is recorded which bytes are structures
    /// ([`ReadBytes`](crate::targets::reads::ReadBytes)), these are none, but for what is told to [`Memory::keep`].
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn look(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        self.bytes(addr, len)
    }

    /// The same as [`Memory::read`], to look for something in it.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn peek(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.read(addr, buf)
    }

    /// The u64 at `addr`, to look for something in it.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn peek_u64(&self, addr: Addr) -> Result<u64, Fault> {
        let mut buf = [0; 8];
        self.peek(addr, &mut buf)?;
        Ok(LittleEndian::read_u64(&buf))
    }

    /// The u32 at `addr`, to look for something in it.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn peek_u32(&self, addr: Addr) -> Result<u32, Fault> {
        let mut buf = [0; 4];
        self.peek(addr, &mut buf)?;
        Ok(LittleEndian::read_u32(&buf))
    }

    /// The same as [`Memory::borrow`], to look for something in it.
    fn borrow_to_look(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.borrow(addr, len)
    }

    /// Whether it is recorded what [`Memory::keep`] is told.
    fn keeps(&self) -> bool {
        false
    }

    /// What was found at `addr` is a structure, or a name that answers print.
    fn keep(&self, _addr: Addr, _len: u64) {}

    /// What was found at `addr` is a name that answers print: where names are overwritten too, this is one.
    fn keep_name(&self, addr: Addr, len: u64, _script: Script) {
        self.keep(addr, len);
    }

    /// The NUL-terminated text at `addr`, at most `max` bytes of it.
    ///
    /// # Errors
    /// As [`Memory::read`], where not even the first byte can be read.
    fn text(&self, addr: Addr, max: usize) -> Result<String, Fault> {
        let have = self.readable(addr, max.min(limits::MAX_ARG_BYTES) as u64);
        if have == 0 {
            let mut byte = [0];
            self.read(addr, &mut byte)?;
        }
        let bytes = self.look(addr, have as usize)?;
        self.keep_name(addr, bytes.iter().take_while(|&&b| b != 0).count() as u64 + 1, Script::Utf8);
        Ok(bytes::text(&bytes))
    }

    /// The same, of a text that everybody who runs the same program files has: no name of the program's own.
    ///
    /// # Errors
    /// As [`Memory::text`].
    fn public_text(&self, addr: Addr, max: usize) -> Result<String, Fault> {
        let text = self.text(addr, max)?;
        self.keep_name(addr, text.len() as u64, Script::Public);
        Ok(text)
    }

    /// Where to look on after `addr`, which can't be read: nothing before it can.
    fn past_gap(&self, addr: Addr) -> Addr {
        // What producers leave out, they leave out by pages.
        addr.align_down(4096).saturating_add(4096)
    }

    /// The parts of `range` that can be read, each at most `longest` bytes.
    fn readable_parts(&self, range: AddrRange, longest: u64) -> Vec<AddrRange> {
        let mut out = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let have = self.readable(at, range.end.since(at).min(longest));
            if have == 0 {
                at = self.past_gap(at);
                continue;
            }
            out.push(AddrRange::sized(at, have));
            at = at.saturating_add(have);
        }
        out
    }
}
