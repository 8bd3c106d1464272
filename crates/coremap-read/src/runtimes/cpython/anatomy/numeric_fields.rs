//! Numeric fields of C objects that reports read by name. Each is a word or half a word.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::PyType;

/// Type name, struct, and fields.
const FIELDS: [(&str, &str, &[&str]); 4] = [
    ("functools._lru_cache_wrapper", "lru_cache_object", &["hits", "misses", "maxsize"]),
    ("_asyncio.Future", "FutureObj", &["fut_state"]),
    ("_asyncio.Task", "TaskObj", &["task_state"]),
    ("_thread.RLock", "rlockobject", &["rlock_owner"]),
];

/// Offsets of such fields by type, found on first use.
#[derive(Default)]
pub(super) struct NumericFields {
    known: HashMap<Addr, Vec<u64>>,
}

impl NumericFields {
    /// Offsets for objects of a type, including fields of its base types.
    pub(super) fn of(&mut self, heap: &Heap<'_>, kind: &PyType) -> &[u64] {
        self.known.entry(kind.address).or_insert_with(|| {
            let bases = heap.objects().bases(kind.address).filter_map(|base| heap.type_at(base));
            let structs = bases.filter_map(|base| FIELDS.iter().find(|(name, ..)| *name == base.name));
            let layout = &heap.runtime().layout;
            let offsets = |(_, of, fields): &(&str, &str, &'static [&'static str])| {
                let of = (*of).to_owned();
                fields.iter().filter_map(move |field| layout.positive(&of, field).ok())
            };
            structs.flat_map(offsets).collect()
        })
    }
}
