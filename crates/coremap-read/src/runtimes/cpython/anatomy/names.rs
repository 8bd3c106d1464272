//! Texts that reports print as names, and numbers that they print.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::image::known_files;
use crate::limits;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{BY_MEMBER, Objects, PyType, flags, is_identifier};

/// Names that reports need for lookups, and states of futures. None of them is the program's own.
const WORDS: [&str; 17] = [
    "__file__",
    "__module__",
    "__name__",
    "_active",
    "_children",
    "_coro",
    "_daemonic",
    "_fut_waiter",
    "_name",
    "_state",
    "hexversion",
    "threading",
    "CANCELLED",
    "FINISHED",
    "PENDING",
    "Task",
    "_PyTask",
];

/// Names that reports need for lookups: [`WORDS`], and members that name a static type.
fn words() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain(BY_MEMBER.into_iter().map(|(member, _)| member))
}

fn is_word(text: &str) -> bool {
    words().any(|word| word == text)
}

/// Values of `__module__` in modules that are frozen into the interpreter.
const LIBRARY: [&str; 2] = ["_frozen_importlib", "_frozen_importlib_external"];

/// Fields with names, of code objects and of functions.
const OF_CODE: &[&str] = &["co_name", "co_qualname", "co_filename"];
const OF_FUNCTION: &[&str] = &["func_name", "func_qualname", "func_module"];

/// Fields with line tables of code objects.
const LINES: &[&str] = &["co_linetable", "co_lnotab"];

/// Texts and numbers that stay as they are.
pub(super) struct KeptNames {
    /// Addresses of objects of any type: str, int, float, bytes.
    all: HashSet<Addr>,
    /// The names among them that come from the interpreter's own library.
    public: HashSet<Addr>,
    /// Names of the library's modules.
    library: HashSet<String>,
    /// Names at the top level of these modules.
    top_level: HashSet<String>,
    /// Addresses of references to names that are printed as keys or fields.
    name_refs: HashSet<Addr>,
    shown: HashSet<String>,
    /// Length in characters of the longest text in `shown` and [`words`].
    longest: u64,
}

impl KeptNames {
    /// Collects all names except those of code and functions ([`KeptNames::add_code`]) and of classes
    /// ([`KeptNames::of_type`]).
    pub(super) fn read(python: &CPython<'_>, heap: &Heap<'_>, shown: &HashSet<String>) -> KeptNames {
        let lengths = words().map(str::len).chain(shown.iter().map(|text| text.chars().count()));
        let longest = lengths.max().unwrap_or(0) as u64;
        let mut names = KeptNames {
            all: HashSet::new(),
            public: HashSet::new(),
            library: LIBRARY.map(str::to_owned).into(),
            top_level: HashSet::new(),
            name_refs: HashSet::new(),
            shown: shown.clone(),
            longest,
        };
        names.of_modules(python, heap.objects());
        names.all.extend(python.shown_thread_objects());
        for (object, place) in python.shown_task_objects() {
            names.all.insert(object);
            names.name_refs.extend(place);
        }
        names
    }

    /// Addresses of references that must not be redirected.
    pub(super) fn name_refs(&self) -> impl Iterator<Item = Addr> + '_ {
        self.name_refs.iter().copied()
    }

    /// Whether the object is a str that reports print as a thread's name.
    pub(super) fn is_shown(&self, objects: &Objects<'_>, object: Addr) -> bool {
        objects.str_at(object).is_some_and(|text| self.shown.contains(&text))
    }

    /// Whether the object is a name from the interpreter's own library.
    pub(super) fn is_public(&self, objects: &Objects<'_>, object: Addr) -> bool {
        self.public.contains(&object) || objects.str_at(object).is_some_and(|text| is_word(&text))
    }

    /// Whether the object stays as it is.
    pub(super) fn has(&self, object: Addr) -> bool {
        self.all.contains(&object)
    }

    /// Whether the str stays as it is, because of its address or its text.
    pub(super) fn has_text(&self, objects: &Objects<'_>, object: Addr, length: u64) -> bool {
        let by_text = || {
            let text = objects.text(object, usize::try_from(length).ok()?)?;
            Some(is_word(&text) || self.shown.contains(&text))
        };
        self.has(object) || length <= self.longest && by_text() == Some(true)
    }

    /// Whether objects of a type are code or functions, and so have names.
    pub(super) fn are_in(kind: &PyType) -> bool {
        matches!(kind.name.as_str(), "code" | "function")
    }

    /// Whether the name of a function or class that claims to be in `module` comes from the interpreter's library. The
    /// library also creates classes on behalf of a program, with names from the program (`namedtuple`,
    /// `make_dataclass`). Those are not at the top level of any library module.
    fn is_librarys(&self, module: &str, qualname: Option<String>) -> bool {
        let is_at_top = |name: String| name.split('.').next().is_some_and(|first| self.top_level.contains(first));
        self.library.contains(module) && (LIBRARY.contains(&module) || qualname.is_some_and(is_at_top))
    }

    /// Collects the names of a code object or function.
    pub(super) fn add_code(&mut self, heap: &Heap<'_>, object: Addr, kind: &PyType) {
        let (of, fields) = match kind.name.as_str() {
            "code" => ("PyCodeObject", OF_CODE),
            "function" => ("PyFunctionObject", OF_FUNCTION),
            _ => return,
        };
        let objects = heap.objects();
        let field = |field: &&str| objects.ptr_at(object, heap.runtime().layout.positive(of, field).ok()?);
        let of_it: Vec<Addr> = fields.iter().filter_map(field).filter(|at| objects.is_str(*at)).collect();
        let says = |index: usize| objects.str_at(field(fields.get(index)?)?);
        let is_library = match of {
            "PyCodeObject" => says(2).is_some_and(|file| known_files::is_public_file(&file, &[])),
            _ => says(2).is_some_and(|module| self.is_librarys(&module, says(1))),
        };
        if is_library {
            self.public.extend(of_it.iter().copied());
        }
        self.all.extend(of_it);
        let places = fields.iter().filter_map(|field| heap.runtime().layout.positive(of, field).ok());
        self.name_refs.extend(places.map(|offset| object.saturating_add(offset)));
        if of == "PyCodeObject" {
            self.all.extend(LINES.iter().filter_map(field));
        }
    }

    /// Collects the names of modules and of their globals.
    fn of_modules(&mut self, python: &CPython<'_>, objects: &Objects<'_>) {
        let runtime = python.runtime();
        for &interpreter in &runtime.interpreters {
            if let Some(modules) = runtime.sys_modules(interpreter) {
                objects.each_entry(modules, limits::MAX_PY_LOOKUP, |entry| {
                    self.all.insert(entry.key);
                    true
                });
            }
            if let Ok(dict) = runtime.view("PyInterpreterState", interpreter).ptr("sysdict") {
                self.keys(objects, dict, true);
                // Needed to recognise the version.
                self.all.extend(objects.lookup(dict, "hexversion"));
            }
            for module in runtime.modules(interpreter) {
                let own = ["__file__", "__name__"].map(|name| objects.lookup(module.dict, name));
                let [file, name] = own.map(|at| at.filter(|at| objects.is_str(*at)));
                let name_text = name.and_then(|name| objects.str_at(name)).unwrap_or_default();
                // Modules without a file are built into the interpreter, except `__main__` of an interactive session.
                let is_library = match file.and_then(|file| objects.str_at(file)) {
                    Some(file) => known_files::is_public_file(&file, &[]),
                    None => name_text != "__main__",
                };
                self.keys(objects, module.dict, is_library);
                self.all.extend([file, name].into_iter().flatten());
                if is_library {
                    objects.each_entry(module.dict, limits::MAX_PY_LOOKUP, |entry| {
                        self.top_level.extend(objects.str_at(entry.key));
                        true
                    });
                    self.public.extend([file, name].into_iter().flatten());
                    self.library.insert(name_text);
                }
            }
        }
    }

    /// Collects the names of a class, of its attributes, and of its instances' attributes. Only for verified types: a
    /// word that merely looks like a reference to one does not count.
    pub(super) fn of_type(&mut self, heap: &Heap<'_>, kind: &PyType) {
        if !kind.is(flags::HEAPTYPE) {
            return;
        }
        let objects = heap.objects();
        let shape = &objects.shape;
        self.all.extend(objects.ptr_at(kind.address, shape.types.qualname));
        let mut is_library = false;
        if let Some(dict) = objects.ptr_at(kind.address, shape.types.dict).filter(|dict| !dict.is_null()) {
            let module = objects.lookup(dict, "__module__").filter(|module| objects.is_str(*module));
            let qualname = objects.ptr_at(kind.address, shape.types.qualname).and_then(|name| objects.str_at(name));
            is_library = module
                .and_then(|module| objects.str_at(module))
                .is_some_and(|module| self.is_librarys(&module, qualname));
            self.keys(objects, dict, is_library);
            self.all.extend(module);
            if is_library {
                self.public.extend(objects.ptr_at(kind.address, shape.types.qualname));
            }
        }
        if let Some(keys) = objects.dict_keys(kind.shared_keys).filter(|_| !kind.shared_keys.is_null()) {
            for index in 0..keys.count.min(limits::MAX_PY_LOOKUP) {
                let place = keys.key_at(index);
                if let Some(key) = objects.ptr_at(place, 0).filter(|key| is_name(objects, *key)) {
                    self.all.insert(key);
                    if is_library {
                        self.public.insert(key);
                    }
                    self.name_refs.insert(place);
                }
            }
        }
        // For slots, the addresses of the characters are known, and the str objects precede them.
        for at in heap.slot_names(kind) {
            let object =
                at.checked_sub(shape.text.ascii).filter(|object| object.is_aligned(8) && objects.is_str(*object));
            self.public.extend(object.filter(|_| is_library));
            self.all.extend(object);
        }
    }

    /// Collects the keys of a dict that are identifiers.
    fn keys(&mut self, objects: &Objects<'_>, dict: Addr, is_library: bool) {
        let Some(keys) = objects.ptr_at(dict, objects.shape.dict.keys).and_then(|keys| objects.dict_keys(keys)) else {
            return;
        };
        objects.each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
            if is_name(objects, entry.key) {
                self.all.insert(entry.key);
                if is_library {
                    self.public.insert(entry.key);
                }
                self.name_refs.insert(keys.key_at(entry.index));
            }
            true
        });
    }
}

/// Whether the object is a str that could be a name in a program. `globals()` may have any text as a key.
fn is_name(objects: &Objects<'_>, object: Addr) -> bool {
    objects.str_at(object).is_some_and(|text| is_identifier(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_makes_for_a_program_is_named_by_the_program() {
        let set = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<HashSet<_>>();
        let names = KeptNames {
            all: HashSet::new(),
            public: HashSet::new(),
            library: set(&["collections", "types", "_frozen_importlib"]),
            top_level: set(&["namedtuple", "OrderedDict"]),
            name_refs: HashSet::new(),
            shown: HashSet::new(),
            longest: 0,
        };
        let is = |module, name: &str| names.is_librarys(module, Some(name.to_owned()));
        assert!(is("collections", "OrderedDict.copy") && is("collections", "namedtuple.<locals>._replace"));
        // Cases: `collections.namedtuple("Invoice", ...)`, `dataclasses.make_dataclass("Invoice", ...)`.
        assert!(!is("collections", "Invoice._replace") && !is("types", "Invoice"));
        assert!(!is("acme", "OrderedDict"));
        assert!(is("_frozen_importlib", "ModuleSpec.parent"));
    }
}
