//! Memory budget for the tables of a graph. Tables that exceed it are in unnamed files.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::core::mapped::table::{self, Number};
use crate::targets::deadline::{Deadline, QUERY_INTERVAL};

/// Why a heap's graph could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// There are more objects than can be numbered.
    #[error(
        "what keeps objects alive is not computed: the heap has more than {} objects",
        crate::limits::MAX_LIVE_OBJECTS
    )]
    TooMany,
    /// The time limit of the analysis has passed.
    #[error("what keeps objects alive is not computed: the time limit has passed")]
    OutOfTime,
    /// A table fits neither in memory nor in a temporary file.
    #[error("what keeps objects alive is not computed: a table of {bytes} bytes fits neither in memory nor in a file \
             under {}: {why}", folder.display())]
    NoSpace {
        /// Size of the table in bytes.
        bytes: u64,
        /// Folder for temporary files.
        folder: PathBuf,
        /// The system's error message.
        why: String,
    },
}

impl GraphError {
    pub(super) fn no_space(bytes: u64) -> impl FnOnce(io::Error) -> GraphError {
        move |e| GraphError::NoSpace { bytes, folder: std::env::temp_dir(), why: e.to_string() }
    }
}

/// Memory budget for tables of graphs. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: u64,
    tables: AtomicU64,
    /// Bytes in structures that are in memory whatever the budget.
    charged: AtomicU64,
    /// Expected maximum of `charged`.
    reserved: AtomicU64,
    peak: AtomicU64,
    in_files: AtomicU64,
    deadline: Arc<Deadline>,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget::until(limit, Arc::default())
    }

    /// Creates a budget of `limit` bytes. Whatever uses it ends with [`GraphError::OutOfTime`] once `deadline` has
    /// passed.
    pub(crate) fn until(limit: u64, deadline: Arc<Deadline>) -> MemoryBudget {
        let zero = || AtomicU64::new(0);
        MemoryBudget {
            inner: Arc::new(Inner {
                limit,
                tables: zero(),
                charged: zero(),
                reserved: zero(),
                peak: zero(),
                in_files: zero(),
                deadline,
            }),
        }
    }

    /// Whether the time limit has passed.
    #[inline]
    pub(super) fn is_late(&self) -> bool {
        self.inner.deadline.has_passed()
    }

    /// Fails if the time limit has passed.
    pub(super) fn in_time(&self) -> Result<(), GraphError> {
        if self.is_late() { Err(GraphError::OutOfTime) } else { Ok(()) }
    }

    /// Fails if the time limit has passed. Queries it for one in [`QUERY_INTERVAL`] numbers.
    #[inline(always)]
    pub(crate) fn in_time_at(&self, number: usize) -> Result<(), GraphError> {
        if number.is_multiple_of(QUERY_INTERVAL) { self.in_time() } else { Ok(()) }
    }

    /// Whether the time limit has passed. Queries it for one in [`QUERY_INTERVAL`] numbers.
    #[inline(always)]
    pub fn is_late_at(&self, number: usize) -> bool {
        number.is_multiple_of(QUERY_INTERVAL) && self.is_late()
    }

    /// Creates a budget without a limit.
    pub fn unbounded() -> MemoryBudget {
        MemoryBudget::new(u64::MAX)
    }

    /// Peak number of bytes in memory.
    pub fn peak(&self) -> u64 {
        self.inner.peak.load(Ordering::Relaxed)
    }

    /// Number of bytes in files so far.
    pub fn in_files(&self) -> u64 {
        self.inner.in_files.load(Ordering::Relaxed)
    }

    /// Number of bytes in memory now.
    pub(super) fn used(&self) -> u64 {
        let Inner { tables, charged, .. } = &*self.inner;
        tables.load(Ordering::Relaxed).saturating_add(charged.load(Ordering::Relaxed))
    }

    /// Number of bytes left for tables.
    pub(crate) fn left(&self) -> u64 {
        let Inner { limit, tables, charged, reserved, .. } = &*self.inner;
        let others = charged.load(Ordering::Relaxed).max(reserved.load(Ordering::Relaxed));
        limit.saturating_sub(tables.load(Ordering::Relaxed)).saturating_sub(others)
    }

    /// Sets `bytes` aside for structures that are in memory whatever the budget.
    pub(super) fn reserve(&self, bytes: u64) {
        self.inner.reserved.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Counts `bytes` as in memory until the result is dropped, whatever the budget.
    pub(super) fn charge(&self, bytes: u64) -> Charge {
        self.count(bytes, |inner| &inner.charged)
    }

    /// Counts a table of `bytes`. `None` if it exceeds the budget.
    fn try_charge(&self, bytes: u64) -> Option<Charge> {
        (bytes <= self.left()).then(|| self.count(bytes, |inner| &inner.tables))
    }

    fn count(&self, bytes: u64, of: fn(&Inner) -> &AtomicU64) -> Charge {
        of(&self.inner).fetch_add(bytes, Ordering::Relaxed);
        self.inner.peak.fetch_max(self.used(), Ordering::Relaxed);
        Charge { inner: Arc::clone(&self.inner), bytes, of }
    }

    /// Counts `bytes` as written to a file.
    pub(super) fn note_file(&self, bytes: u64) {
        self.inner.in_files.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Creates a table of `len` zeros.
    ///
    /// # Errors
    /// [`GraphError::NoSpace`]
    pub(super) fn table<T: Number>(&self, len: usize) -> Result<Table<T>, GraphError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let charge = self.try_charge(bytes);
        let numbers = match charge {
            Some(_) => table::Table::in_memory(len),
            None => table::Table::in_file(len),
        };
        let numbers = numbers.map_err(GraphError::no_space(bytes))?;
        if charge.is_none() {
            self.note_file(bytes);
        }
        Ok(Table { numbers, _charge: charge })
    }
}

/// Bytes counted against the budget. They are freed when this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    inner: Arc<Inner>,
    bytes: u64,
    of: fn(&Inner) -> &AtomicU64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        (self.of)(&self.inner).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An array of numbers in memory or in a file.
pub(super) struct Table<T> {
    numbers: table::Table<T>,
    _charge: Option<Charge>,
}

impl Table<AtomicU64> {
    /// Converts to a plain table, once a single thread owns it.
    pub(super) fn settled(self) -> Table<u64> {
        Table { numbers: self.numbers.settled(), _charge: self._charge }
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
        let budget = MemoryBudget::new(1000);
        let first = budget.table::<u32>(200)?;
        assert_eq!((budget.left(), budget.in_files()), (200, 0));
        let mut second = budget.table::<u64>(100)?;
        second[99] = 7;
        assert_eq!((budget.left(), budget.in_files(), second[99]), (200, 800, 7));
        drop(first);
        let _third = budget.table::<u8>(1000)?;
        assert_eq!((budget.left(), budget.in_files(), budget.peak()), (0, 800, 1000));
        Ok(())
    }

    #[test]
    fn tables_leave_room_for_what_is_to_come() -> Result<(), GraphError> {
        let budget = MemoryBudget::new(1000);
        budget.reserve(300);
        let charge = budget.charge(200);
        assert_eq!((budget.left(), budget.used()), (700, 200));
        let _table = budget.table::<u8>(600)?;
        let _more = budget.charge(150);
        assert_eq!((budget.left(), budget.used(), budget.in_files()), (50, 950, 0));
        drop(charge);
        assert_eq!((budget.left(), budget.peak()), (100, 950));
        let _in_file = budget.table::<u8>(101)?;
        assert_eq!(budget.in_files(), 101);
        Ok(())
    }
}
