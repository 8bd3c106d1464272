//! Where the tables of a graph are: in memory as long as there is room for them, and from then on in files without a name.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::mapped::table::{self, Number};

/// Why there is no graph of a heap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// More objects than can be numbered.
    #[error(
        "what keeps objects alive is not computed: the heap has more than {} objects",
        crate::limits::MAX_LIVE_OBJECTS
    )]
    TooMany,
    /// Neither memory nor a temporary file can hold its tables.
    #[error("what keeps objects alive is not computed: a table of {bytes} bytes fits neither in memory nor in a file \
             under {}: {why}", folder.display())]
    NoRoom {
        /// Of one table.
        bytes: u64,
        /// The folder for temporary files.
        folder: PathBuf,
        /// In the system's words.
        why: String,
    },
}

impl GraphError {
    pub(super) fn no_room(bytes: u64) -> impl FnOnce(io::Error) -> GraphError {
        move |e| GraphError::NoRoom { bytes, folder: std::env::temp_dir(), why: e.to_string() }
    }
}

/// How much memory the tables of graphs may take.
#[derive(Clone, Debug)]
pub struct Room {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bound: u64,
    /// By tables that are in memory.
    tables: AtomicU64,
    /// By what is in memory whatever the bound.
    held: AtomicU64,
    /// What that is expected to come to.
    reserved: AtomicU64,
    most: AtomicU64,
    in_files: AtomicU64,
}

impl Room {
    /// So many bytes.
    pub fn of(bound: u64) -> Room {
        let zero = || AtomicU64::new(0);
        Room {
            inner: Arc::new(Inner {
                bound,
                tables: zero(),
                held: zero(),
                reserved: zero(),
                most: zero(),
                in_files: zero(),
            }),
        }
    }

    /// As many as the machine gives.
    pub fn unbounded() -> Room {
        Room::of(u64::MAX)
    }

    /// Bytes in memory at most so far.
    pub fn most(&self) -> u64 {
        self.inner.most.load(Ordering::Relaxed)
    }

    /// Bytes that went to files so far.
    pub fn in_files(&self) -> u64 {
        self.inner.in_files.load(Ordering::Relaxed)
    }

    /// Bytes that are taken now, in memory.
    pub(super) fn taken(&self) -> u64 {
        let Inner { tables, held, .. } = &*self.inner;
        tables.load(Ordering::Relaxed).saturating_add(held.load(Ordering::Relaxed))
    }

    /// Bytes that are left for tables.
    pub(crate) fn left(&self) -> u64 {
        let Inner { bound, tables, held, reserved, .. } = &*self.inner;
        let others = held.load(Ordering::Relaxed).max(reserved.load(Ordering::Relaxed));
        bound.saturating_sub(tables.load(Ordering::Relaxed)).saturating_sub(others)
    }

    /// What is to be in memory whatever the bound will be so many bytes at most: tables leave room for it.
    pub(super) fn reserve(&self, bytes: u64) {
        self.inner.reserved.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Count so many bytes as taken, whether there is room for them or not.
    pub(super) fn hold(&self, bytes: u64) -> Held {
        self.count(bytes, |inner| &inner.held)
    }

    /// Count a table, if there is room.
    fn take(&self, bytes: u64) -> Option<Held> {
        (bytes <= self.left()).then(|| self.count(bytes, |inner| &inner.tables))
    }

    fn count(&self, bytes: u64, of: fn(&Inner) -> &AtomicU64) -> Held {
        of(&self.inner).fetch_add(bytes, Ordering::Relaxed);
        self.inner.most.fetch_max(self.taken(), Ordering::Relaxed);
        Held { inner: Arc::clone(&self.inner), bytes, of }
    }

    /// So many bytes went to a file.
    pub(super) fn note_file(&self, bytes: u64) {
        self.inner.in_files.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A table of so many zeros.
    ///
    /// # Errors
    /// [`GraphError::NoRoom`]
    pub(super) fn table<T: Number>(&self, len: usize) -> Result<Table<T>, GraphError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let held = self.take(bytes);
        let numbers = match held {
            Some(_) => table::Table::in_memory(len),
            None => table::Table::in_file(len),
        };
        let numbers = numbers.map_err(GraphError::no_room(bytes))?;
        if held.is_none() {
            self.note_file(bytes);
        }
        Ok(Table { numbers, _held: held })
    }
}

/// Bytes that are given back with it.
#[derive(Debug)]
pub(super) struct Held {
    inner: Arc<Inner>,
    bytes: u64,
    of: fn(&Inner) -> &AtomicU64,
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.of)(&self.inner).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Numbers in a row, wherever they are.
pub(super) struct Table<T> {
    numbers: table::Table<T>,
    _held: Option<Held>,
}

impl Table<AtomicU64> {
    /// The same, now that one thread alone changes it.
    pub(super) fn settled(self) -> Table<u64> {
        Table { numbers: self.numbers.settled(), _held: self._held }
    }
}

impl<T: Number> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.numbers
    }
}

impl<T: Number> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_goes_to_a_file() -> Result<(), GraphError> {
        let room = Room::of(1000);
        let first = room.table::<u32>(200)?;
        assert_eq!((room.left(), room.in_files()), (200, 0));
        let mut second = room.table::<u64>(100)?;
        second[99] = 7;
        assert_eq!((room.left(), room.in_files(), second[99]), (200, 800, 7));
        drop(first);
        let _third = room.table::<u8>(1000)?;
        assert_eq!((room.left(), room.in_files(), room.most()), (0, 800, 1000));
        Ok(())
    }

    #[test]
    fn tables_leave_room_for_what_is_to_come() -> Result<(), GraphError> {
        let room = Room::of(1000);
        room.reserve(300);
        let held = room.hold(200);
        assert_eq!((room.left(), room.taken()), (700, 200));
        let _table = room.table::<u8>(600)?;
        let _more = room.hold(150);
        assert_eq!((room.left(), room.taken(), room.in_files()), (50, 950, 0));
        drop(held);
        assert_eq!((room.left(), room.most()), (100, 950));
        let _in_file = room.table::<u8>(101)?;
        assert_eq!(room.in_files(), 101);
        Ok(())
    }
}
