//! Texts that answers print as names, and numbers that they print.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::image::known_files;
use crate::limits;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{Objects, PyType, flags};

/// What is looked up by name to answer, and states of futures: nobody's own words.
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

/// What modules that the interpreter has in itself call themselves in their functions.
const LIBRARY: [&str; 2] = ["_frozen_importlib", "_frozen_importlib_external"];

/// Fields of code objects that are names, and of functions.
const OF_CODE: &[&str] = &["co_name", "co_qualname", "co_filename"];
const OF_FUNCTION: &[&str] = &["func_name", "func_qualname", "func_module"];

/// Tables of lines of code objects.
const LINES: &[&str] = &["co_linetable", "co_lnotab"];

/// What stays though it is a text or a number.
pub(super) struct Names {
    /// Objects, whatever they are: str, int, float, bytes.
    all: HashSet<Addr>,
    /// Of these, names that the interpreter's own library has.
    public: HashSet<Addr>,
    /// Its modules, by name.
    library: HashSet<String>,
    /// What these have at their top.
    tops: HashSet<String>,
    /// Where references to names stand that are printed as keys or fields.
    places: HashSet<Addr>,
    shown: HashSet<String>,
    /// Characters of the longest text of `shown` and of [`WORDS`].
    longest: u64,
}

impl Names {
    /// All but those of code and functions ([`Names::take`]) and of classes ([`Names::of_type`]).
    pub(super) fn read(python: &CPython<'_>, heap: &Heap<'_>, shown: &HashSet<String>) -> Names {
        let words = WORDS.iter().copied().chain(shown.iter().map(String::as_str));
        let longest = words.map(|word| word.chars().count() as u64).max().unwrap_or(0);
        let mut names = Names {
            all: HashSet::new(),
            public: HashSet::new(),
            library: LIBRARY.map(str::to_owned).into(),
            tops: HashSet::new(),
            places: HashSet::new(),
            shown: shown.clone(),
            longest,
        };
        names.of_modules(python, heap.objects());
        names.all.extend(python.told_of_threads());
        for (object, place) in python.told_of_tasks() {
            names.all.insert(object);
            names.places.extend(place);
        }
        names
    }

    /// Where references stand that must lead where they do.
    pub(super) fn places(&self) -> impl Iterator<Item = Addr> + '_ {
        self.places.iter().copied()
    }

    /// Whether the object is a str that is printed as the name of a thread.
    pub(super) fn is_shown(&self, objects: &Objects<'_>, object: Addr) -> bool {
        objects.str_at(object).is_some_and(|text| self.shown.contains(&text))
    }

    /// Whether it is a name that the interpreter's own library has.
    pub(super) fn is_public(&self, objects: &Objects<'_>, object: Addr) -> bool {
        self.public.contains(&object) || objects.str_at(object).is_some_and(|text| WORDS.contains(&text.as_str()))
    }

    /// Whether the object stays as it is.
    pub(super) fn has(&self, object: Addr) -> bool {
        self.all.contains(&object)
    }

    /// Whether the str stays as it is, for being such an object or by what it says.
    pub(super) fn has_text(&self, objects: &Objects<'_>, object: Addr, length: u64) -> bool {
        let by_text = || {
            let text = objects.text(object, usize::try_from(length).ok()?)?;
            Some(WORDS.contains(&text.as_str()) || self.shown.contains(&text))
        };
        self.has(object) || length <= self.longest && by_text() == Some(true)
    }

    /// Whether objects of a type have names for being code or functions.
    pub(super) fn are_in(kind: &PyType) -> bool {
        matches!(kind.name.as_str(), "code" | "function")
    }

    /// Whether a function or a class that says to be of `module` has its name of the interpreter's library too: what the library makes on
    /// behalf of a program is named after what is the program's (`namedtuple`, `make_dataclass`), and is nothing that a module
    /// of the library has at its top.
    fn is_librarys(&self, module: &str, qualname: Option<String>) -> bool {
        let is_at_top = |name: String| name.split('.').next().is_some_and(|first| self.tops.contains(first));
        self.library.contains(module) && (LIBRARY.contains(&module) || qualname.is_some_and(is_at_top))
    }

    /// Names that the object has for being code or a function.
    pub(super) fn take(&mut self, heap: &Heap<'_>, object: Addr, kind: &PyType) {
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
            "PyCodeObject" => says(2).is_some_and(|file| known_files::is_everybodys(&file, &[])),
            _ => says(2).is_some_and(|module| self.is_librarys(&module, says(1))),
        };
        if is_library {
            self.public.extend(of_it.iter().copied());
        }
        self.all.extend(of_it);
        let places = fields.iter().filter_map(|field| heap.runtime().layout.positive(of, field).ok());
        self.places.extend(places.map(|offset| object.saturating_add(offset)));
        if of == "PyCodeObject" {
            self.all.extend(LINES.iter().filter_map(field));
        }
    }

    /// Names of modules and of their globals.
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
                // By which the version is recognised.
                self.all.extend(objects.lookup(dict, "hexversion"));
            }
            for module in runtime.modules(interpreter) {
                let own = ["__file__", "__name__"].map(|name| objects.lookup(module.dict, name));
                let [file, name] = own.map(|at| at.filter(|at| objects.is_str(*at)));
                let name_text = name.and_then(|name| objects.str_at(name)).unwrap_or_default();
                // Those without a file are part of the interpreter, but for the program itself where it was typed.
                let is_library = match file.and_then(|file| objects.str_at(file)) {
                    Some(file) => known_files::is_everybodys(&file, &[]),
                    None => name_text != "__main__",
                };
                self.keys(objects, module.dict, is_library);
                self.all.extend([file, name].into_iter().flatten());
                if is_library {
                    objects.each_entry(module.dict, limits::MAX_PY_LOOKUP, |entry| {
                        self.tops.extend(objects.str_at(entry.key));
                        true
                    });
                    self.public.extend([file, name].into_iter().flatten());
                    self.library.insert(name_text);
                }
            }
        }
    }

    /// Names of a class, of its attributes, and of those of its instances. That a word somewhere leads to one does not count: any number
    /// may.
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
                if let Some(key) = objects.ptr_at(place, 0).filter(|key| is_identifier(objects, *key)) {
                    self.all.insert(key);
                    if is_library {
                        self.public.insert(key);
                    }
                    self.places.insert(place);
                }
            }
        }
        // Of slots the characters themselves are known.
        for at in heap.slot_names(kind) {
            let object =
                at.checked_sub(shape.text.ascii).filter(|object| object.is_aligned(8) && objects.is_str(*object));
            self.public.extend(object.filter(|_| is_library));
            self.all.extend(object);
        }
    }

    /// Keys of a dict of names, where they are names.
    fn keys(&mut self, objects: &Objects<'_>, dict: Addr, is_library: bool) {
        let Some(keys) = objects.ptr_at(dict, objects.shape.dict.keys).and_then(|keys| objects.dict_keys(keys)) else {
            return;
        };
        objects.each_entry(dict, limits::MAX_PY_LOOKUP, |entry| {
            if is_identifier(objects, entry.key) {
                self.all.insert(entry.key);
                if is_library {
                    self.public.insert(entry.key);
                }
                self.places.insert(keys.key_at(entry.index));
            }
            true
        });
    }
}

/// Whether the object is a str that a program could have as a name: any text may be a key of `globals()`.
fn is_identifier(objects: &Objects<'_>, object: Addr) -> bool {
    let text = objects.str_at(object).unwrap_or_default();
    let begins = text.starts_with(|c: char| c == '_' || c.is_alphabetic());
    begins && text.chars().all(|c| c == '_' || c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_makes_for_a_program_is_named_by_the_program() {
        let set = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<HashSet<_>>();
        let names = Names {
            all: HashSet::new(),
            public: HashSet::new(),
            library: set(&["collections", "types", "_frozen_importlib"]),
            tops: set(&["namedtuple", "OrderedDict"]),
            places: HashSet::new(),
            shown: HashSet::new(),
            longest: 0,
        };
        let is = |module, name: &str| names.is_librarys(module, Some(name.to_owned()));
        assert!(is("collections", "OrderedDict.copy") && is("collections", "namedtuple.<locals>._replace"));
        // collections.namedtuple("Invoice", ...), dataclasses.make_dataclass("Invoice", ...).
        assert!(!is("collections", "Invoice._replace") && !is("types", "Invoice"));
        assert!(!is("acme", "OrderedDict"));
        assert!(is("_frozen_importlib", "ModuleSpec.parent"));
    }
}
