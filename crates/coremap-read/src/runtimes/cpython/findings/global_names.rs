//! Names of objects in the program: module globals and class attributes.

use std::collections::HashMap;
use std::sync::Arc;

use super::containers::Candidates;
use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Heap as _, TypeIndex};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::PyType;

#[derive(Default)]
pub(super) struct GlobalNames {
    /// Name of each object in a global or class attribute.
    named: HashMap<Addr, String>,
    /// Owner of each module's and class's dict, and `sys.modules`.
    dicts: HashMap<Addr, String>,
    seen: u64,
}

/// Maximum number of dict entries read. A large application has a few hundred thousand.
const MAX_ENTRIES: u64 = 1 << 24;

impl GlobalNames {
    /// Reads the dicts of all modules in `sys.modules`, and of all known classes. `candidates`: the modules and classes
    /// of the heap. Some have no instances, and modules may be missing in `sys.modules`.
    pub(super) fn read(python: &CPython<'_>, heap: &Heap<'_>, candidates: &Candidates) -> GlobalNames {
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
            out.add_type(heap, heap.type_of_kind(TypeIndex(number)));
        }
        candidates.classes.iter().for_each(|class| out.add_type(heap, heap.type_at(*class)));
        let md_dict = runtime.layout.positive("PyModuleObject", "md_dict").ok();
        for module in &candidates.modules {
            let Some(dict) = md_dict.and_then(|at| objects.ptr_at(*module, at)).filter(|at| objects.is_dict(*at))
            else {
                continue;
            };
            let name = objects.lookup(dict, "__name__").filter(|name| objects.is_str(*name));
            out.add_dict(
                heap,
                dict,
                &name.and_then(|name| objects.name(name)).unwrap_or_else(|| "a module".to_owned()),
            );
        }
        let all = runtime.interpreters.iter().filter_map(|interpreter| runtime.sys_modules(*interpreter));
        out.dicts.extend(all.map(|dict| (dict, "sys.modules".to_owned())));
        out
    }

    /// Adds the attributes of a class.
    fn add_type(&mut self, heap: &Heap<'_>, kind: Option<Arc<PyType>>) {
        let objects = heap.objects();
        let dict = kind.as_ref().and_then(|kind| objects.ptr_at(kind.address, objects.shape.types.dict));
        if let Some((kind, dict)) = kind.zip(dict).filter(|(_, dict)| !dict.is_null()) {
            self.add_dict(heap, dict, &kind.name);
        }
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

    /// Whether the dict at `dict` is the namespace of a module or class, or `sys.modules`.
    pub(super) fn is_namespace(&self, dict: Addr) -> bool {
        self.dicts.contains_key(&dict)
    }

    /// Owner of the namespace dict at `dict`.
    pub(super) fn owner_of_dict(&self, dict: Addr) -> Option<&str> {
        self.dicts.get(&dict).map(String::as_str)
    }
}
