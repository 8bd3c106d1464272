//! Objects in nearly empty arenas, and numbers by value.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::Heap;
use crate::addr::Addr;
use crate::runtimes::api::{Heap as _, SmallBlockSums, Survivors, TypeIndex, TypeRole, UnwalkedRanges};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::findings::is_nearly_empty;

/// Maximum number of types reported.
const TYPES: usize = 4;

/// The type of integers.
const INTEGER: &str = "int";

impl CPython<'_> {
    /// Numbers of objects in nearly empty arenas, by type: first types of the program, then by count.
    pub(in crate::runtimes::cpython) fn survivors_in(&self, heap: &Heap<'_>, sums: &SmallBlockSums) -> Vec<Survivors> {
        let is_empty = |at: Addr| {
            let behind = sums.arenas.partition_point(|arena| arena.range.start <= at);
            let arena = behind.checked_sub(1).and_then(|i| sums.arenas.get(i)).filter(|a| a.range.contains(at));
            arena.is_some_and(is_nearly_empty)
        };
        let (mut walker, mut losses) = (heap.walker(), UnwalkedRanges::default());
        let mut counts: HashMap<TypeIndex, (u64, Addr)> = HashMap::new();
        for part in heap.ranges().iter().filter(|part| is_empty(part.range.start)) {
            walker.walk(part, &mut losses, &mut |object| {
                counts.entry(object.kind).or_insert((0, object.addr)).0 += 1;
            });
        }
        let own = |kind: TypeIndex| self.role_of_type(kind) == TypeRole::Program;
        let mut all: Vec<(TypeIndex, (u64, Addr))> =
            counts.into_iter().filter(|(kind, _)| heap.type_of_kind(*kind).is_some()).collect();
        all.sort_by_cached_key(|(kind, (count, _))| (Reverse(own(*kind)), Reverse(*count), *kind));
        let of = |(kind, (count, example))| Survivors { r#type: heap.type_name(kind), count, example };
        all.into_iter().take(TYPES).map(of).collect()
    }
}

impl Heap<'_> {
    /// Integers with one of these values, by value.
    pub(in crate::runtimes::cpython) fn numbers(&self, wanted: &HashSet<u64>) -> HashMap<u64, Addr> {
        let mut out = HashMap::new();
        if wanted.is_empty() {
            return out;
        }
        let (mut walker, mut losses) = (self.walker(), UnwalkedRanges::default());
        let mut kinds: HashMap<TypeIndex, bool> = HashMap::new();
        for part in self.ranges() {
            walker.walk(part, &mut losses, &mut |object| {
                let is = *kinds.entry(object.kind).or_insert_with(|| self.type_name(object.kind) == INTEGER);
                let value = if is { self.objects.integer(object.addr) } else { None };
                if let Some(value) = value.and_then(|value| u64::try_from(value).ok()).filter(|v| wanted.contains(v)) {
                    out.insert(value, object.addr);
                }
            });
        }
        out
    }
}
