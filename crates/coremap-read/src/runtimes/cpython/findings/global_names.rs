//! Names of objects in the program: module globals and class attributes.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Heap as _, TypeIndex};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::flags;

#[derive(Default)]
pub(super) struct GlobalNames {
    /// Name of each object in a global or class attribute.
    named: HashMap<Addr, String>,
    /// Owner of each module's and class's dict.
    dicts: HashMap<Addr, String>,
    seen: u64,
}

/// Maximum number of dict entries read. A large application has a few hundred thousand.
const MAX_ENTRIES: u64 = 1 << 24;

impl GlobalNames {
    /// Reads the dicts of all modules in `sys.modules`, and of all known classes.
    pub(super) fn read(python: &CPython<'_>, heap: &Heap<'_>) -> GlobalNames {
        let mut out = GlobalNames::default();
        let objects = heap.objects();
        let runtime = python.runtime();
        let modules = runtime.interpreters.iter().flat_map(|interpreter| runtime.modules(*interpreter));
        let mut modules: Vec<(String, Addr)> = modules.map(|module| (module.name, module.dict)).collect();
        // An object in several modules gets its name from `__main__`, else from the module with the shortest name.
        modules.sort_by_key(|(name, _)| (name != "__main__", name.len(), name.clone()));
        for (module, dict) in modules {
            out.add_dict(heap, dict, &module);
        }
        for number in 0..heap.types() as u32 {
            let Some(kind) = heap.type_of_kind(TypeIndex(number)).filter(|kind| kind.is(flags::HEAPTYPE)) else {
                continue;
            };
            if let Some(dict) = objects.ptr_at(kind.address, objects.shape.types.dict).filter(|dict| !dict.is_null()) {
                out.add_dict(heap, dict, &kind.name);
            }
        }
        out
    }

    fn add_dict(&mut self, heap: &Heap<'_>, dict: Addr, whose: &str) {
        let objects = heap.objects();
        // A module may be listed under several names.
        if self.seen >= MAX_ENTRIES || self.dicts.contains_key(&dict) {
            return;
        }
        self.dicts.insert(dict, whose.to_owned());
        objects.each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
            self.seen += 1;
            if objects.is_str(entry.key) && !self.named.contains_key(&entry.value) {
                let name = objects.name(entry.key);
                self.named.extend(name.map(|name| (entry.value, format!("{whose}.{name}"))));
            }
            true
        });
    }

    pub(super) fn name(&self, object: Addr) -> Option<&str> {
        self.named.get(&object).map(String::as_str)
    }

    /// Owner of the namespace dict at `dict`.
    pub(super) fn owner_of_dict(&self, dict: Addr) -> Option<&str> {
        self.dicts.get(&dict).map(String::as_str)
    }
}
