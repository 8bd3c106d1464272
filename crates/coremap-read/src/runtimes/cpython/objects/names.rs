//! Names of static types whose `tp_name` can't be read. It is among the constants of a program file, which most dumps
//! omit. Modules reference these types by name, and their dicts are in every core.

use std::collections::HashMap;

use super::{Objects, PyModule, flags};
use crate::addr::Addr;
use crate::limits;
use crate::runtimes::cpython::runtime::Runtime;

/// Names in modules (mainly in `types`) for types whose own name differs (Lib/types.py, Lib/importlib,
/// Lib/zipimport.py).
const OF_TYPES: [(&str, &str); 24] = [
    ("FunctionType", "function"),
    ("MethodType", "method"),
    ("BuiltinFunctionType", "builtin_function_or_method"),
    ("GeneratorType", "generator"),
    ("CoroutineType", "coroutine"),
    ("AsyncGeneratorType", "async_generator"),
    ("CodeType", "code"),
    ("ModuleType", "module"),
    ("FrameType", "frame"),
    ("TracebackType", "traceback"),
    ("CellType", "cell"),
    ("MappingProxyType", "mappingproxy"),
    ("GetSetDescriptorType", "getset_descriptor"),
    ("MemberDescriptorType", "member_descriptor"),
    ("WrapperDescriptorType", "wrapper_descriptor"),
    ("MethodWrapperType", "method-wrapper"),
    ("MethodDescriptorType", "method_descriptor"),
    ("ClassMethodDescriptorType", "classmethod_descriptor"),
    // From importlib._bootstrap_external and zipimport, which exist even if the program does not import `types`.
    ("_code_type", "code"),
    ("_module_type", "module"),
    // From _thread, up to 3.12 an alias of `lock`.
    ("LockType", "_thread.lock"),
    ("NoneType", "NoneType"),
    ("EllipsisType", "ellipsis"),
    ("NotImplementedType", "NotImplementedType"),
];

/// Modules whose types carry the name of another, public module.
const PUBLIC: [(&str, &str); 3] =
    [("_collections", "collections"), ("_functools", "functools"), ("_weakref", "weakref")];

/// Name of the module that a module's types claim to belong to.
fn public(module: &str) -> &str {
    // All of numpy's types are known as numpy's, whatever submodule defines them.
    if module.starts_with("numpy.") && module.contains("_multiarray") {
        return "numpy";
    }
    PUBLIC.iter().find(|(name, _)| *name == module).map_or(module, |(_, public)| public)
}

/// Names that modules give to static types, by the type's address.
#[derive(Clone, Debug, Default)]
pub struct StaticNames {
    names: HashMap<Addr, String>,
}

impl StaticNames {
    /// Collects the names of static types from the dict of `builtins` and the dicts of all modules.
    pub(crate) fn read(objects: &Objects<'_>, builtins: Option<Addr>, modules: &[PyModule]) -> StaticNames {
        let mut found = StaticNames::default();
        if let Some(dict) = builtins {
            found.take(objects, dict, |key| Some(key.to_owned()));
        }
        // Modules written in C define static types. Other modules only import them, under their own names, and come
        // last.
        let mut all: Vec<&PyModule> = modules.iter().collect();
        all.sort_by_key(|module| (module.name != "types", !module.is_native));
        for module in all {
            found.take(objects, module.dict, |key| {
                if let Some((_, name)) = OF_TYPES.iter().find(|(alias, _)| *alias == key) {
                    return Some((*name).to_owned());
                }
                match module.name.as_str() {
                    "types" => None,
                    // Iterators and views of the interpreter, under their own names.
                    "_collections_abc" => Some(key.to_owned()),
                    name => Some(format!("{}.{key}", public(name))),
                }
            });
        }
        found
    }

    fn take(&mut self, objects: &Objects<'_>, dict: Addr, name: impl Fn(&str) -> Option<String>) {
        // A module may have a type under two names, such as `array` and `ArrayType` in `array`. The plain name is the
        // type's own.
        for aliases in [false, true] {
            objects.each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
                let bits = objects.word_at(entry.value, objects.shape.types.flags).unwrap_or(0);
                let is_static = bits & flags::READY != 0 && bits & flags::HEAPTYPE == 0;
                let is_new = is_static && self.of(entry.value).is_none() && objects.is_type(entry.value);
                let key = if is_new && objects.is_str(entry.key) { objects.name(entry.key) } else { None };
                if let Some(name) = key.filter(|key| key.ends_with("Type") == aliases).and_then(|key| name(&key)) {
                    self.names.insert(entry.value, name);
                }
                true
            });
        }
    }

    /// Adds the types of tracebacks and frames. A program's modules may not name them, but an exception's traceback
    /// leads to both. `tracked`: objects of the collector. The first with a traceback is enough.
    pub(crate) fn learn(&mut self, runtime: &Runtime<'_>, tracked: &[Addr]) {
        let objects = runtime.objects();
        let mut exceptions: HashMap<Addr, bool> = HashMap::new();
        let mut is_exception = |kind: Addr| {
            *exceptions.entry(kind).or_insert_with(|| {
                objects.word_at(kind, objects.shape.types.flags).is_some_and(|bits| bits & flags::BASE_EXCEPTION != 0)
            })
        };
        let raised = tracked.iter().take(limits::MAX_PY_LOOKUP as usize).find_map(|&at| {
            is_exception(objects.type_of(at)?).then_some(())?;
            runtime.view("PyBaseExceptionObject", at).ptr("traceback").ok().filter(|at| !at.is_null())
        });
        let Some(traceback) = raised else { return };
        let frame = runtime.view("PyTracebackObject", traceback).ptr("tb_frame").ok().filter(|at| !at.is_null());
        for (object, name) in [(Some(traceback), "traceback"), (frame, "frame")] {
            let Some(kind) = object.and_then(|at| objects.type_of(at)) else { return };
            let bits = objects.word_at(kind, objects.shape.types.flags).unwrap_or(0);
            if bits & flags::READY != 0 && bits & flags::HEAPTYPE == 0 && objects.is_type(kind) {
                self.names.entry(kind).or_insert_with(|| name.to_owned());
            }
        }
    }

    /// Name of the type at `at`. `None` if no module has it.
    pub fn of(&self, at: Addr) -> Option<&str> {
        self.names.get(&at).map(String::as_str)
    }
}
