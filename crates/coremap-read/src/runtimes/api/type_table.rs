//! A table of the types that were seen in a heap, numbered in the order of their discovery.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::runtimes::api::{FREE, TypeIndex};

/// Types by address, each looked up once by all threads together. The first is the type of free space, [`FREE`].
pub(crate) struct TypeTable<I> {
    data: RwLock<TableData<I>>,
    limit: usize,
}

struct TableData<I> {
    by_address: HashMap<u64, u32>,
    all: Vec<I>,
}

impl<I: Copy> TypeTable<I> {
    /// Creates a table that contains only the type of free space, whose address may be unknown yet. It takes up to
    /// `limit` types.
    pub(crate) fn new(free: I, address: Option<u64>, limit: usize) -> TypeTable<I> {
        let by_address = address.map(|address| (address, FREE.0)).into_iter().collect();
        TypeTable { data: RwLock::new(TableData { by_address, all: vec![free] }), limit }
    }

    fn read(&self) -> RwLockReadGuard<'_, TableData<I>> {
        self.data.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, kind: TypeIndex) -> Option<I> {
        self.read().all.get(kind.0 as usize).copied()
    }

    /// The first type that satisfies `is`.
    pub(crate) fn find(&self, is: impl Fn(&I) -> bool) -> Option<TypeIndex> {
        self.read().all.iter().position(is).map(|i| TypeIndex(i as u32))
    }

    pub(crate) fn len(&self) -> usize {
        self.read().all.len()
    }

    /// Whether the table is full. Objects of further types are then lost.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Returns the type at `address`. On first use, `look` reads it and returns whether it is free space.
    pub(crate) fn lookup(&self, address: u64, look: impl FnOnce() -> Option<(I, bool)>) -> Option<(TypeIndex, I)> {
        {
            let known = self.read();
            if let Some(&i) = known.by_address.get(&address) {
                return Some((TypeIndex(i), *known.all.get(i as usize)?));
            }
        }
        let (info, free) = look()?;
        let mut known = self.data.write().unwrap_or_else(PoisonError::into_inner);
        if free {
            known.by_address.insert(address, FREE.0);
            *known.all.first_mut()? = info;
            return Some((FREE, info));
        }
        let next = u32::try_from(known.all.len()).ok().filter(|&n| (n as usize) < self.limit)?;
        let i = *known.by_address.entry(address).or_insert(next);
        if i == next {
            known.all.push(info);
        }
        Some((TypeIndex(i), info))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_looked_at_once_and_there_is_an_end_to_them() {
        let table = TypeTable::new('f', None, 3);
        let looked = |address, info| table.lookup(address, || Some((info, false)));
        assert_eq!(looked(0x10, 'a'), Some((TypeIndex(1), 'a')));
        assert_eq!(looked(0x10, 'x'), Some((TypeIndex(1), 'a')));
        assert_eq!(table.lookup(0x20, || None), None);
        assert_eq!(table.lookup(0x30, || Some(('F', true))), Some((FREE, 'F')));
        assert_eq!((table.get(FREE), table.len(), table.is_full()), (Some('F'), 2, false));
        assert_eq!(looked(0x40, 'b'), Some((TypeIndex(2), 'b')));
        assert!(table.is_full());
        assert_eq!(looked(0x50, 'c'), None);
        assert_eq!(table.find(|info| *info == 'b'), Some(TypeIndex(2)));
    }
}
