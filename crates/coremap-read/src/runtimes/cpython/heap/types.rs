//! Type indices: free space, kinds of owned memory, other blocks, and then types in the order of their discovery.

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

/// Name of used blocks that are neither an object nor known to be owned.
const OTHER_NAME: &str = "(other blocks)";

/// Index of the first real type.
const FIRST_TYPE: u32 = 2 + OwnedKind::ALL.len() as u32;

/// Used blocks that are neither an object nor known to be owned.
pub(super) const OTHER: TypeIndex = TypeIndex(FIRST_TYPE - 1);

/// Type index of a kind of owned memory.
pub(super) fn index_of_owned(kind: OwnedKind) -> TypeIndex {
    TypeIndex(1 + u32::from(kind.number()))
}

/// Kind of owned memory with this type index.
pub(super) fn owned_kind_of(kind: TypeIndex) -> Option<OwnedKind> {
    OwnedKind::of_number(u8::try_from(kind.0.checked_sub(1)?).ok()?)
}

#[derive(Default)]
struct SeenTypes {
    by_address: HashMap<u64, u32>,
    all: Vec<Arc<PyType>>,
}

pub(super) struct Types<'p> {
    objects: Objects<'p>,
    reads: &'p Reads,
    names: StaticNames,
    seen: RwLock<SeenTypes>,
}

impl<'p> Types<'p> {
    /// `tracked`: objects of the collector, by which unnamed static types are known.
    pub(super) fn new(runtime: &Runtime<'p>, tracked: &[Addr]) -> Types<'p> {
        let reads = runtime.process.reads();
        let mut names = runtime.static_names();
        names.learn(runtime, tracked);
        Types { objects: runtime.objects(), reads, names, seen: RwLock::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).all.len() + FIRST_TYPE as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= limits::MAX_PY_TYPES
    }

    pub(super) fn get(&self, kind: TypeIndex) -> Option<Arc<PyType>> {
        let known = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        known.all.get(kind.0.checked_sub(FIRST_TYPE)? as usize).cloned()
    }

    pub(super) fn name(&self, kind: TypeIndex) -> String {
        match self.get(kind) {
            Some(found) => found.name.clone(),
            None if kind == OTHER => OTHER_NAME.to_owned(),
            None => owned_kind_of(kind).map_or(FREE_NAME, OwnedKind::name).to_owned(),
        }
    }

    /// The type at `address`. `None` if it is not a valid type.
    pub(super) fn lookup(&self, address: u64) -> Option<(TypeIndex, Arc<PyType>)> {
        {
            let known = self.seen.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(&i) = known.by_address.get(&address) {
                return Some((TypeIndex(i + FIRST_TYPE), known.all.get(i as usize)?.clone()));
            }
        }
        let found = Arc::new(self.objects.read_type(Addr::new(address), &self.names)?);
        let mut known = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(known.all.len()).ok().filter(|&n| (n as usize) < limits::MAX_PY_TYPES)?;
        let i = *known.by_address.entry(address).or_insert(next);
        if i == next {
            known.all.push(found.clone());
        }
        Some((TypeIndex(i + FIRST_TYPE), found))
    }

    /// Like [`Types::lookup`], for an address that may be any word. The bytes read are not recorded as used before
    /// [`Types::confirm`].
    fn guess(&self, address: u64) -> TypeLookup {
        if !self.reads.records_bytes() {
            return self.lookup(address);
        }
        let mut found = None;
        self.reads.attempt(|| {
            found = self.objects.read_type(Addr::new(address), &self.names);
            None::<()>
        });
        // A guess needs no index.
        found.map(|found| (OTHER, Arc::new(found)))
    }

    /// Records that an object of this type was found.
    pub(super) fn confirm(&self, kind: &PyType) {
        if self.reads.records_bytes() {
            self.lookup(kind.address.get());
        }
    }
}

/// Log2 of the number of cache entries.
const CACHE_BITS: u32 = 11;

/// A type with its index. `None` if there is no valid type at the address.
type TypeLookup = Option<(TypeIndex, Arc<PyType>)>;

/// Cache of one thread's lookups. Most of the words looked up are not types, so failures are cached too.
pub(super) struct TypeCache {
    entries: Vec<(u64, TypeLookup)>,
    guesses: bool,
}

impl TypeCache {
    pub(super) fn new() -> TypeCache {
        TypeCache { entries: vec![(0, None); 1 << CACHE_BITS], guesses: false }
    }

    /// Creates a cache for words that may be anything. Its users call [`Types::confirm`] when they find an object, and
    /// ignore the indices.
    pub(super) fn of_guesses() -> TypeCache {
        TypeCache { guesses: true, ..TypeCache::new() }
    }

    #[inline(always)]
    pub(super) fn lookup(&mut self, types: &Types<'_>, address: u64) -> Option<(TypeIndex, &Arc<PyType>)> {
        // Nothing is on the first page, and types are aligned to 8.
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
