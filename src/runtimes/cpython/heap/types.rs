//! Numbers of types: free space, memory that objects own, what is neither, and then types as they are met.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::owned::OwnedKind;
use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::linear::slot;
use crate::runtimes::api::{FREE_NAME, TypeIndex};
use crate::runtimes::cpython::objects::{Objects, PyType, StaticNames};
use crate::runtimes::cpython::runtime::Runtime;
use crate::targets::reads::Reads;

/// What a block in use that is no object and that none is known to own is called.
const OTHER_NAME: &str = "(other blocks)";

/// Numbers before that of the first type.
const FIRST: u32 = 2 + OwnedKind::ALL.len() as u32;

/// Blocks in use that are neither an object nor owned by one.
pub(super) const OTHER: TypeIndex = TypeIndex(FIRST - 1);

/// The number of memory that objects own.
pub(super) fn of_owned(kind: OwnedKind) -> TypeIndex {
    TypeIndex(1 + u32::from(kind.number()))
}

/// What memory of that number is for, if objects own it.
pub(super) fn owned_of(kind: TypeIndex) -> Option<OwnedKind> {
    OwnedKind::of_number(u8::try_from(kind.0.checked_sub(1)?).ok()?)
}

#[derive(Default)]
struct Known {
    by_address: HashMap<u64, u32>,
    all: Vec<Arc<PyType>>,
}

/// Types met so far.
pub(super) struct Types<'p> {
    objects: Objects<'p>,
    reads: &'p Reads,
    names: StaticNames,
    known: RwLock<Known>,
}

impl<'p> Types<'p> {
    pub(super) fn new(runtime: &Runtime<'p>) -> Types<'p> {
        let reads = runtime.process.reads();
        Types { objects: runtime.objects(), reads, names: runtime.static_names(), known: RwLock::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).all.len() + FIRST as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= limits::MAX_PY_TYPES
    }

    pub(super) fn get(&self, kind: TypeIndex) -> Option<Arc<PyType>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.all.get(kind.0.checked_sub(FIRST)? as usize).cloned()
    }

    pub(super) fn name(&self, kind: TypeIndex) -> String {
        match self.get(kind) {
            Some(found) => found.name.clone(),
            None if kind == OTHER => OTHER_NAME.to_owned(),
            None => owned_of(kind).map_or(FREE_NAME, OwnedKind::name).to_owned(),
        }
    }

    /// The type at `address`, if it is one.
    pub(super) fn lookup(&self, address: u64) -> Option<(TypeIndex, Arc<PyType>)> {
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(&i) = known.by_address.get(&address) {
                return Some((TypeIndex(i + FIRST), known.all.get(i as usize)?.clone()));
            }
        }
        let found = Arc::new(self.objects.read_type(Addr::new(address), &self.names)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(known.all.len()).ok().filter(|&n| (n as usize) < limits::MAX_PY_TYPES)?;
        let i = *known.by_address.entry(address).or_insert(next);
        if i == next {
            known.all.push(found.clone());
        }
        Some((TypeIndex(i + FIRST), found))
    }

    /// What may be the type at `address`: any word may lead to one. That it was read is no record of it before
    /// [`Types::confirm`].
    fn guess(&self, address: u64) -> Found {
        if !self.reads.records_bytes() {
            return self.lookup(address);
        }
        let mut found = None;
        self.reads.attempt(|| {
            found = self.objects.read_type(Addr::new(address), &self.names);
            None::<()>
        });
        // It has no number yet, which nobody asks for of a guess.
        found.map(|found| (OTHER, Arc::new(found)))
    }

    /// An object was found whose type this is.
    pub(super) fn confirm(&self, kind: &PyType) {
        if self.reads.records_bytes() {
            self.lookup(kind.address.get());
        }
    }
}

/// Entries of a cache: a power of two.
const CACHE_BITS: u32 = 11;

/// A type with its number, if it is one.
type Found = Option<(TypeIndex, Arc<PyType>)>;

/// What one thread has looked up last: most words that are looked at are no type.
pub(super) struct TypeCache {
    entries: Vec<(u64, Found)>,
    guesses: bool,
}

impl TypeCache {
    pub(super) fn new() -> TypeCache {
        TypeCache { entries: vec![(0, None); 1 << CACHE_BITS], guesses: false }
    }

    /// For words that may be anything. Who finds an object by one says so ([`Types::confirm`]), and does not ask for the number.
    pub(super) fn of_guesses() -> TypeCache {
        TypeCache { guesses: true, ..TypeCache::new() }
    }

    #[inline(always)]
    pub(super) fn lookup(&mut self, types: &Types<'_>, address: u64) -> Option<(TypeIndex, &Arc<PyType>)> {
        // Nothing lies on the first page, and a type begins at a multiple of 8.
        if address < 4096 || address & 7 != 0 {
            return None;
        }
        let entry = self.entries.get_mut(slot(address, CACHE_BITS))?;
        if entry.0 != address {
            *entry = (address, if self.guesses { types.guess(address) } else { types.lookup(address) });
        }
        entry.1.as_ref().map(|(kind, found)| (*kind, found))
    }
}
