//! Rows of numbers as large as a heap has objects: in memory of our own, or in a file without a name, where there is no
//! memory for them.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;

/// What a table may hold.
///
/// # Safety
/// All bits set or not, and all bytes zero, are a value; it has no padding.
pub(crate) unsafe trait Number: Send + Sync + 'static {}

// SAFETY: plain integers.
unsafe impl Number for u8 {}
// SAFETY: plain integers.
unsafe impl Number for u16 {}
// SAFETY: plain integers.
unsafe impl Number for u32 {}
// SAFETY: plain integers.
unsafe impl Number for u64 {}
// SAFETY: in memory as `u64` is.
unsafe impl Number for AtomicU64 {}

/// Numbers in a row, zero at first.
pub(crate) struct Table<T> {
    map: memmap2::MmapMut,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Number> Table<T> {
    /// So many, in memory. What was never written takes none.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn in_memory(len: usize) -> io::Result<Table<T>> {
        let map = memmap2::MmapOptions::new().len(bytes::<T>(len)?).no_reserve_swap().map_anon()?;
        Ok(Table { map, len, kind: PhantomData })
    }

    /// So many, in a file of the folder for temporary ones, for its owner alone, which is gone with the table or with the
    /// process. Its room is taken at once: a full disk is an error here, and none later.
    ///
    /// # Errors
    /// Those of making a file, of its room, and of mmap(2).
    pub(crate) fn in_file(len: usize) -> io::Result<Table<T>> {
        let file = tempfile::tempfile()?;
        let bytes = bytes::<T>(len)?;
        reserve(&file, bytes as u64)?;
        // SAFETY: the file has no name, so that nobody else writes to it or makes it shorter.
        let map = unsafe { memmap2::MmapOptions::new().len(bytes).map_mut(&file)? };
        Ok(Table { map, len, kind: PhantomData })
    }
}

impl Table<AtomicU64> {
    /// The same, now that one thread alone changes it.
    pub(crate) fn settled(self) -> Table<u64> {
        let Table { map, len, .. } = self;
        Table { map, len, kind: PhantomData }
    }
}

/// Bytes of so many; one at the least, since no mapping has none.
fn bytes<T>(len: usize) -> io::Result<usize> {
    Ok(len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?.max(1))
}

/// Make the file so long, with blocks behind all of it where the system can be asked for that.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    // So that no page of it lacks its block when it is written to.
    io::copy(&mut io::Read::take(io::repeat(0), bytes), &mut &*file).map(drop)
}

impl<T: Number> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping begins at a page, has the bytes of `len` of these, and any bytes are such; it is ours alone.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<T>(), self.len) }
    }
}

impl<T: Number> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has it.
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
