//! The process's memory: reads that return bytes or the reason for a failure, page scans, and bytes filled in from
//! proven files. Lists are followed only by the walks in `walk.rs`.

mod pages;
mod process_memory;
pub(crate) mod walk;
pub(crate) mod window;

#[doc(hidden)]
pub mod alias;
#[doc(hidden)]
pub mod content;
#[doc(hidden)]
pub mod pointers;
#[doc(hidden)]
pub mod scan;

/// Value of an overwritten word in a scrubbed core (docs/sharing.md). It is no program address on any machine, and no
/// text. Breakpad's and Crashpad's sanitizers use the same form.
pub const OVERWRITTEN: u64 = 0x0def_aced_0def_aced;

pub(crate) use process_memory::Overlay;
pub use process_memory::ProcessMemory;

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::targets::reads::{Loss, Script};

/// Why an address can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No mapping contains it.
    Unmapped,
    /// Mapped, but its bytes were left out of the dump.
    NotDumped,
    /// The core file is cut off before its bytes.
    Truncated,
    /// The read itself failed.
    Failed,
    /// The work or memory budget for this core is spent.
    Spent,
}

impl FaultKind {
    /// The reason in words.
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

/// Memory that can be read by address.
///
/// Reads are all or nothing. Numbers are little-endian, as on both supported machines.
pub trait Memory: Sync {
    /// Fills `buf` from `addr` on.
    ///
    /// # Errors
    /// A [`Fault`] at the first address that can't be read.
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault>;

    /// Borrows `len` bytes at `addr`. `None` if they are not contiguous in one mapping.
    fn borrow(&self, _addr: Addr, _len: usize) -> Option<&[u8]> {
        None
    }

    /// Number of readable bytes from `addr` on, at most `max`.
    fn readable(&self, addr: Addr, max: u64) -> u64;

    /// Reads `len` bytes at `addr`. The caller limits `len`.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn bytes(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        // Checked before allocating, since `len` may come from the core.
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

    /// Reads the u64 at `addr`.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn u64(&self, addr: Addr) -> Result<u64, Fault> {
        let mut buf = [0; 8];
        self.read(addr, &mut buf)?;
        Ok(LittleEndian::read_u64(&buf))
    }

    /// Reads the u32 at `addr`.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn u32(&self, addr: Addr) -> Result<u32, Fault> {
        let mut buf = [0; 4];
        self.read(addr, &mut buf)?;
        Ok(LittleEndian::read_u32(&buf))
    }

    /// Reads the pointer at `addr`.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn ptr(&self, addr: Addr) -> Result<Addr, Fault> {
        self.u64(addr).map(Addr::new)
    }

    /// Like [`Memory::bytes`], for a search. Where reads of structures are recorded
    /// ([`ReadBytes`](crate::targets::reads::ReadBytes)), these bytes are not, unless [`Memory::keep`] is called for
    /// them.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn look(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        self.bytes(addr, len)
    }

    /// Like [`Memory::read`], for a search.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn peek(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.read(addr, buf)
    }

    /// Reads the u64 at `addr`, for a search.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn peek_u64(&self, addr: Addr) -> Result<u64, Fault> {
        let mut buf = [0; 8];
        self.peek(addr, &mut buf)?;
        Ok(LittleEndian::read_u64(&buf))
    }

    /// Reads the u32 at `addr`, for a search.
    ///
    /// # Errors
    /// Like [`Memory::read`].
    fn peek_u32(&self, addr: Addr) -> Result<u32, Fault> {
        let mut buf = [0; 4];
        self.peek(addr, &mut buf)?;
        Ok(LittleEndian::read_u32(&buf))
    }

    /// Like [`Memory::borrow`], for a search.
    fn borrow_to_look(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.borrow(addr, len)
    }

    /// Whether calls of [`Memory::keep`] are recorded.
    fn keeps(&self) -> bool {
        false
    }

    /// Records that the bytes found at `addr` are a structure, or a name that answers print.
    fn keep(&self, _addr: Addr, _len: u64) {}

    /// Records that the bytes found at `addr` are a name that answers print. They are replaced when names are
    /// scrubbed.
    fn keep_name(&self, addr: Addr, len: u64, _script: Script) {
        self.keep(addr, len);
    }

    /// Reads the NUL-terminated text at `addr`, at most `max` bytes of it.
    ///
    /// # Errors
    /// Like [`Memory::read`], if not even the first byte can be read.
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

    /// Like [`Memory::text`], for text that every process with the same program files has, so that it is no name of
    /// the program's own.
    ///
    /// # Errors
    /// Like [`Memory::text`].
    fn public_text(&self, addr: Addr, max: usize) -> Result<String, Fault> {
        let text = self.text(addr, max)?;
        self.keep_name(addr, text.len() as u64, Script::Public);
        Ok(text)
    }

    /// Returns the next address worth reading after `addr`, which can't be read.
    fn past_gap(&self, addr: Addr) -> Addr {
        // Producers leave out whole pages.
        addr.align_down(4096).saturating_add(4096)
    }

    /// Returns the readable ranges within `range`, each at most `longest` bytes.
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
