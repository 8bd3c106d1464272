//! Module globals, and the part that each type plays in the question who holds memory.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Heap as _, NamedStatics, StaticRoot, TypeIndex, TypeRole};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::is_of_the_library;
use crate::runtimes::cpython::objects::PyModule;
use crate::units::round;

/// Collections of the interpreter and its library.
const COLLECTIONS: [&str; 12] = [
    "dict",
    "list",
    "set",
    "frozenset",
    "collections.deque",
    "collections.OrderedDict",
    "collections.defaultdict",
    "collections.Counter",
    "queue.Queue",
    "_queue.SimpleQueue",
    "functools._lru_cache_wrapper",
    "weakref.WeakValueDictionary",
];

/// The type of views. A view is reported if it shows less than this percentage of the bytes that it keeps alive.
const VIEW: &str = "memoryview";
const SMALL_VIEW: u64 = 25;

/// The type of thread-local variables.
const THREAD_LOCAL: &str = "_thread._local";

/// Types that lead nearly everywhere.
const HUBS: [&str; 6] = ["type", "module", "function", "code", "builtin_function_or_method", "threading.Thread"];

impl CPython<'_> {
    /// Globals of all modules. Modules and their dicts contain them.
    pub(super) fn all_globals(&self) -> NamedStatics {
        let mut out = NamedStatics::default();
        let Some(heap) = self.objects() else { return out };
        let (runtime, objects) = (self.runtime(), heap.objects());
        let mut modules: Vec<_> = runtime.interpreters.iter().flat_map(|at| runtime.modules(*at)).collect();
        // An object that several modules import gets its name from the program's entry module.
        modules.sort_by_key(|module| (module.name != "__main__", module.name.len(), module.name.clone()));
        out.containers.extend(modules.iter().flat_map(|module| [module.object, module.dict]));
        for module in &modules {
            let library = self.library_modules().get(&module.name).copied().unwrap_or(true);
            objects.each_entry(module.dict, limits::MAX_PY_LOOKUP, |entry| {
                let key = objects.name(entry.key).filter(|key| objects.is_str(entry.key) && !key.starts_with("__"));
                if let Some(key) = key.filter(|_| heap.is_object(entry.value)) {
                    let name = format!("global {}.{key}", module.name).into();
                    out.roots.push(StaticRoot { name, object: entry.value, library });
                }
                out.roots.len() < limits::MAX_PY_GLOBALS
            });
        }
        out
    }

    pub(super) fn modules_by_library(&self) -> HashMap<String, bool> {
        let (runtime, objects) = (self.runtime(), self.runtime().objects());
        let of_module = |module: PyModule| {
            let file = objects.lookup(module.dict, "__file__").and_then(|file| objects.name(file));
            // The entry module may have no file.
            let library =
                module.name != "__main__" && (module.is_native || file.as_deref().is_none_or(is_of_the_library));
            (module.name, library)
        };
        runtime.interpreters.iter().flat_map(|at| runtime.modules(*at)).map(of_module).collect()
    }

    /// A sentence on views that show little of their buffers.
    pub(super) fn note_on_views(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        let heap = self.objects()?;
        if heap.type_name(kind) != VIEW {
            return None;
        }
        let view = |at: &Addr| self.runtime().view("PyMemoryViewObject", *at);
        let shown = elements.iter().filter_map(|at| view(at).u64("view.len").ok()).fold(0, u64::saturating_add);
        let mut owners: Vec<Addr> = elements.iter().filter_map(|at| view(at).ptr("view.obj").ok()).collect();
        owners.sort_unstable();
        owners.dedup();
        let kept = owners.iter().map(|at| heap.own_bytes(*at)).fold(0, u64::saturating_add);
        (shown.saturating_mul(100) < kept.saturating_mul(SMALL_VIEW))
            .then(|| format!("Each is a small view of a large buffer: they show {} of {}.", round(shown), round(kept)))
    }

    /// Whether an object is a thread-local variable (`threading.local`), or of a class derived from it.
    pub(super) fn is_thread_local(&self, object: Addr) -> bool {
        let objects = self.runtime().objects();
        let Some((heap, kind)) = self.objects().zip(objects.type_of(object)) else { return false };
        let is = |base| heap.type_at(base).is_some_and(|found| found.name == THREAD_LOCAL);
        objects.bases(kind).any(is)
    }

    /// The limit of a cache of `functools.lru_cache`.
    pub(super) fn limit_of_cache(&self, object: Addr) -> Option<(&'static str, u64)> {
        self.type_name_of(object).filter(|kind| kind == "functools._lru_cache_wrapper")?;
        let limit = self.runtime().view("lru_cache_object", object).u64("maxsize").ok()?.cast_signed();
        // -1 means that there is no limit.
        u64::try_from(limit).ok().map(|limit| ("maxsize", limit))
    }

    pub(super) fn role_of_type(&self, kind: TypeIndex) -> TypeRole {
        let Some(heap) = self.objects() else { return TypeRole::Program };
        let name = heap.type_name(kind);
        if name.starts_with('(') {
            return TypeRole::Part;
        }
        if COLLECTIONS.contains(&name.as_str()) {
            return TypeRole::Collection;
        }
        if HUBS.contains(&name.as_str()) {
            return TypeRole::Hub;
        }
        match name.rsplit_once('.') {
            // Builtin types have no module.
            None => TypeRole::Library,
            Some((module, _)) if self.is_library_module(module) => TypeRole::Library,
            Some(_) => TypeRole::Program,
        }
    }

    /// Whether a module, or the one that a nested class is in, belongs to the library.
    fn is_library_module(&self, module: &str) -> bool {
        let known = self.library_modules();
        let mut at = Some(module);
        while let Some(name) = at {
            if let Some(&is) = known.get(name) {
                return is;
            }
            at = name.rsplit_once('.').map(|(outer, _)| outer);
        }
        true
    }
}
