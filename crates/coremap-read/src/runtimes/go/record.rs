//! The bytes of one structure.

use std::borrow::Cow;

use crate::addr::Addr;
use crate::bytes;
use crate::memory::Memory;

/// The bytes of a structure, read once. Fields beyond its end are 0.
pub(super) struct Record<'m>(Cow<'m, [u8]>);

impl<'m> Record<'m> {
    /// Reads `size` bytes at `at`. `None` if not all of them are in the core.
    pub(super) fn read(memory: &'m dyn Memory, at: Addr, size: u64) -> Option<Record<'m>> {
        let size = usize::try_from(size).ok()?;
        match memory.borrow(at, size) {
            Some(bytes) => Some(Record(Cow::Borrowed(bytes))),
            None => memory.bytes(at, size).ok().map(|bytes| Record(Cow::Owned(bytes))),
        }
    }

    /// Like `read`, but for a search: the bytes are not recorded as a structure.
    pub(super) fn look(memory: &'m dyn Memory, at: Addr, size: u64) -> Option<Record<'m>> {
        let size = usize::try_from(size).ok()?;
        match memory.borrow_to_look(at, size) {
            Some(bytes) => Some(Record(Cow::Borrowed(bytes))),
            None => memory.look(at, size).ok().map(|bytes| Record(Cow::Owned(bytes))),
        }
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The byte at an offset.
    pub(super) fn u8(&self, at: u64) -> u8 {
        usize::try_from(at).ok().and_then(|at| self.0.get(at)).copied().unwrap_or(0)
    }

    /// The 16-bit number at an offset.
    pub(super) fn u16(&self, at: u64) -> u16 {
        usize::try_from(at).ok().and_then(|at| bytes::u16_at(&self.0, at)).unwrap_or(0)
    }

    /// The 32-bit number at an offset.
    pub(super) fn u32(&self, at: u64) -> u32 {
        usize::try_from(at).ok().and_then(|at| bytes::u32_at(&self.0, at)).unwrap_or(0)
    }

    /// The 64-bit number at an offset.
    pub(super) fn u64(&self, at: u64) -> u64 {
        usize::try_from(at).ok().and_then(|at| bytes::u64_at(&self.0, at)).unwrap_or(0)
    }

    /// The pointer at an offset.
    pub(super) fn ptr(&self, at: u64) -> Addr {
        Addr::new(self.u64(at))
    }
}
