//! The interpreter's global state: `_PyRuntime`, its interpreters and threads, and the version.

mod debug_offsets;
mod detect;
mod version;

pub use detect::{Detection, detect};

use crate::addr::{Addr, AddrRange, WORD};
use crate::layout::{Layout, LayoutError, StructView, ViewError};
use crate::limits;
use crate::memory::ProcessMemory;
use crate::memory::walk::{Broken, Stop, Walks};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::cpython::objects::{Objects, PyModule, StaticNames, modules};
use crate::runtimes::cpython::shape::Shape;

/// Why something of CPython can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PyError {
    /// A field is unknown, or its memory can't be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The layout table lacks a field.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A value is impossible.
    #[error("{what} at {at}")]
    Nonsense {
        /// Description of the value.
        what: &'static str,
        /// Address of the value.
        at: Addr,
    },
    /// A list is broken or too long.
    #[error("the list of {what} {why}")]
    List {
        /// What the list contains.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl PyError {
    /// Creates an error for a broken list of `what`.
    pub(crate) fn list(what: &'static str) -> impl Fn(Broken<ViewError>) -> PyError {
        move |why| PyError::List { what, why: why.to_string() }
    }
}

/// Fields of an interpreter with `sys.modules`: since 3.12, and before.
const SYS_MODULES: &[&str] = &["imports.modules", "modules"];

/// A CPython in a process, with its proven version.
pub struct Runtime<'p> {
    /// The process.
    pub process: &'p Process,
    /// Memory of the process.
    pub memory: &'p ProcessMemory,
    /// Index in the process's modules of the module with `_PyRuntime`: libpython or the program itself.
    pub module: usize,
    /// Path of that module.
    pub path: String,
    /// Addresses of that module.
    pub range: AddrRange,
    /// Address of `_PyRuntime`.
    pub address: Addr,
    /// PY_VERSION_HEX, as `sys.hexversion` has it.
    pub hexversion: u32,
    /// Field offsets of the version.
    pub layout: Layout,
    pub(crate) shape: Shape,
    /// Address of each interpreter's PyInterpreterState, newest first.
    pub interpreters: Vec<Addr>,
}

impl<'p> Runtime<'p> {
    /// A view of the struct of type `kind` at `addr`.
    pub fn view<'v>(&'v self, kind: &'v str, addr: Addr) -> StructView<'v> {
        StructView::new(self.memory, &self.layout, kind, addr)
    }

    /// The minor version N of Python 3.N.
    pub fn minor(&self) -> u32 {
        self.hexversion >> 16 & 0xff
    }

    /// Version as text: `3.11.7`, `3.14.0rc2`.
    pub fn version(&self) -> String {
        version::text(self.hexversion)
    }

    /// Name and version: `CPython 3.11.7`.
    pub fn name(&self) -> String {
        format!("CPython {}", self.version())
    }

    /// The first of these fields that the version has, if it is not null.
    fn of_interpreter(&self, interpreter: Addr, fields: &[&str]) -> Option<Addr> {
        let state = self.view("PyInterpreterState", interpreter);
        fields.iter().find_map(|field| state.ptr(field).ok()).filter(|at| !at.is_null())
    }

    /// Address of an interpreter's `sys.modules` dict.
    pub(crate) fn sys_modules(&self, interpreter: Addr) -> Option<Addr> {
        self.of_interpreter(interpreter, SYS_MODULES)
    }

    /// The modules of an interpreter, from `sys.modules`.
    pub fn modules(&self, interpreter: Addr) -> Vec<PyModule> {
        let md_dict = self.layout.positive("PyModuleObject", "md_dict");
        let dict = self.sys_modules(interpreter);
        let found = dict.zip(md_dict.ok());
        found.map(|(dict, md_dict)| modules(&self.objects(), dict, md_dict)).unwrap_or_default()
    }

    /// Names of static types, from the modules that define them.
    pub(crate) fn static_names(&self) -> StaticNames {
        // The main interpreter is the oldest, and has imported most.
        let Some(&main) = self.interpreters.last() else { return StaticNames::default() };
        StaticNames::read(&self.objects(), self.of_interpreter(main, &["builtins"]), &self.modules(main))
    }

    /// Creates a reader of objects.
    pub fn objects(&self) -> Objects<'p> {
        Objects::new(self.memory, self.shape)
    }

    /// The first `max` items of a tuple.
    pub(crate) fn tuple_items(&self, tuple: Addr, max: u64) -> impl Iterator<Item = Addr> + use<'p> {
        let (objects, first) = (self.objects(), self.layout.positive("PyTupleObject", "ob_item").ok());
        let count = objects.ob_size(tuple).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        (0..count.min(max)).filter_map(move |i| objects.ptr_at(tuple, first?.checked_add(WORD.checked_mul(i)?)?))
    }

    /// Address of the dict of the module `name` in an interpreter.
    pub(crate) fn module_dict(&self, objects: &Objects<'_>, interpreter: Addr, name: &str) -> Option<Addr> {
        let module = objects.lookup(self.sys_modules(interpreter)?, name)?;
        self.view("PyModuleObject", module).ptr("md_dict").ok().filter(|dict| !dict.is_null())
    }

    /// The thread states (PyThreadState) of an interpreter, and why the list ends early.
    pub fn thread_states(&self, interpreter: Addr) -> (Vec<Addr>, Option<PyError>) {
        let view = self.view("PyInterpreterState", interpreter);
        let first = view.ptr("threads.head").or_else(|_| view.ptr("tstate_head"));
        let walks = Walks::new(Phase::ManagedThreads, limits::MAX_PY_THREADS);
        let mut out = Vec::new();
        let found = first.map_err(PyError::from).and_then(|first| {
            let next = |at: Addr| self.view("PyThreadState", at).ptr("next");
            follow(&walks, first, next, |at| out.push(at)).map_err(PyError::list("thread states"))
        });
        (out, found.err())
    }
}

/// Visits the nodes of a null-terminated list.
pub(crate) fn follow<E: std::fmt::Display>(
    walks: &Walks,
    first: Addr,
    next: impl Fn(Addr) -> Result<Addr, E>,
    mut visit: impl FnMut(Addr),
) -> Result<(), Broken<E>> {
    let mut walk = walks.begin();
    let mut at = first;
    while !at.is_null() {
        walk.step(at).map_err(|stop: Stop| Broken::Stop(stop))?;
        let after = next(at).map_err(|e| Broken::Unreadable(at, e))?;
        visit(at);
        at = after;
    }
    Ok(())
}
