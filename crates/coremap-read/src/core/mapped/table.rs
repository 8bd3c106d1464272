//! Arrays of numbers, as large as a heap has objects: in memory, or in an unnamed file if there is not enough memory.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;

/// A type that a table may contain.
///
/// # Safety
/// Every bit pattern, including all zeros, must be a valid value, and the type must have no padding.
pub(crate) unsafe trait Number: Send + Sync + 'static {}

// SAFETY: plain integers.
unsafe impl Number for u8 {}
// SAFETY: plain integers.
unsafe impl Number for u16 {}
// SAFETY: plain integers.
unsafe impl Number for u32 {}
// SAFETY: plain integers.
unsafe impl Number for u64 {}
// SAFETY: same layout as `u64`.
unsafe impl Number for AtomicU64 {}

/// An array of numbers, initially zero.
pub(crate) struct Table<T> {
    map: memmap2::MmapMut,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Number> Table<T> {
    /// Creates a table of `len` numbers in memory. Pages that are never written take none.
    ///
    /// # Errors
    /// Errors of mmap(2).
    pub(crate) fn in_memory(len: usize) -> io::Result<Table<T>> {
        let map = memmap2::MmapOptions::new().len(bytes::<T>(len)?).no_reserve_swap().map_anon()?;
        Ok(Table { map, len, kind: PhantomData })
    }

    /// Creates a table of `len` numbers in a file in the directory for temporary files. The file is private to its
    /// owner, and is removed with the table or the process. Its blocks are allocated at once, so a full disk is an
    /// error here, not later.
    ///
    /// # Errors
    /// Errors of creating the file, of allocating its blocks, and of mmap(2).
    pub(crate) fn in_file(len: usize) -> io::Result<Table<T>> {
        let file = tempfile::tempfile()?;
        let bytes = bytes::<T>(len)?;
        reserve(&file, bytes as u64)?;
        // SAFETY: the file has no name, so nobody else writes to it or truncates it.
        let map = unsafe { memmap2::MmapOptions::new().len(bytes).map_mut(&file)? };
        Ok(Table { map, len, kind: PhantomData })
    }
}

impl Table<AtomicU64> {
    /// Converts the table for use by a single thread.
    pub(crate) fn settled(self) -> Table<u64> {
        let Table { map, len, .. } = self;
        Table { map, len, kind: PhantomData }
    }
}

/// Length of `len` numbers in bytes, at least one, because no mapping is empty.
fn bytes<T>(len: usize) -> io::Result<usize> {
    Ok(len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?.max(1))
}

/// Sets the length of the file, with allocated blocks if the system supports it.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    // Write zeros, so that no page lacks its block when it is written later.
    io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut &*file).map(drop)
}

impl<T: Number> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping begins at a page and has the bytes of `len` numbers, of which any bytes are valid; it is
        // ours alone.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<T>(), self.len) }
    }
}

impl<T: Number> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast::<T>(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hold_what_is_put_into_them() -> io::Result<()> {
        for mut table in [Table::<u32>::in_memory(3_000_000)?, Table::in_file(3_000_000)?] {
            assert!(table.len() == 3_000_000 && table.iter().all(|&n| n == 0));
            for (i, n) in (0..).zip(table.iter_mut()) {
                *n = i;
            }
            assert_eq!((table[0], table[2_999_999]), (0, 2_999_999));
        }
        assert!(Table::<u64>::in_memory(0)?.is_empty() && Table::<u64>::in_file(0)?.is_empty());
        assert!(Table::<u64>::in_memory(usize::MAX / 4).is_err());
        Ok(())
    }
}
