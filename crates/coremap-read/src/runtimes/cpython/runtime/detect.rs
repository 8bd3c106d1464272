//! Detects CPython and proves its version. `_PyRuntime` is found in a module's data by its symbol, by the cookie of its
//! debug offsets, or by structures that point back to it.

use super::{Runtime, debug_offsets, version};
use crate::addr::Addr;
use crate::diag::{Warning, WarningCode};
use crate::image::elf::ElfImage;
use crate::image::{Module, ModuleKind, symbols};
use crate::layout::{CPYTHON_X64, Layout, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::memory::window::Window;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::cpython::objects::Objects;
use crate::runtimes::cpython::runtime::PyError;
use crate::runtimes::cpython::shape::Shape;
use crate::targets::Arch;

/// The symbol of the runtime's state. libpython exports it, or the program that contains the interpreter.
const SYMBOL: &str = "_PyRuntime";

/// Prefixes of module names that may contain CPython. Their data is searched even without the symbol, because a
/// stripped program exports none.
const NAMES: [&str; 4] = ["libpython", "python", "uwsgi", "mod_wsgi"];

/// Prefixes of modules of other Python implementations.
const OTHERS: [(&str, &str); 2] = [("libpypy", "PyPy"), ("pypy", "PyPy")];

/// Result of examining a module.
pub enum Detection<'p> {
    /// CPython that can be read.
    Found(Box<Runtime<'p>>),
    /// CPython, or another Python, that can't be read. The warning says why.
    Unusable(Warning),
}

/// Examines all modules of the process that may contain CPython.
pub fn detect(process: &Process) -> Vec<Detection<'_>> {
    let _phase = process.enter(Phase::Runtime);
    let mut out: Vec<Detection<'_>> = Vec::new();
    for (index, module) in process.modules.iter().enumerate() {
        let found = examine(process, index, module);
        // The program and libpython may both export the symbol. List the runtime once.
        let known = |found: &Detection<'_>| match found {
            Detection::Found(new) => {
                out.iter().any(|old| matches!(old, Detection::Found(o) if o.address == new.address))
            }
            Detection::Unusable(_) => false,
        };
        out.extend(found.filter(|found| !known(found)));
        if out.len() >= limits::MAX_RUNTIMES {
            break;
        }
    }
    // If one CPython was found, the failure of another module is of no interest.
    if out.iter().any(|found| matches!(found, Detection::Found(_))) {
        out.retain(|found| matches!(found, Detection::Found(_)));
    }
    out
}

fn examine<'p>(process: &'p Process, index: usize, module: &Module) -> Option<Detection<'p>> {
    let name = module.name();
    if let Some((_, other)) = OTHERS.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return unsupported(format!("{}: {other}, whose objects coremap can't read", module.path));
    }
    let named = NAMES.iter().any(|prefix| name.starts_with(prefix)) && !name.contains(".cpython-");
    let ModuleKind::Elf(image) = &module.kind else {
        let why = "its ELF header is not in the core";
        return if named { unsupported(format!("{}: {why}, so Python can't be read", module.path)) } else { None };
    };
    let exported = symbols::find(&process.memory, image, SYMBOL).map(|symbol| symbol.addr);
    if !named && exported.is_none() {
        return None;
    }
    if process.arch() != Arch::X86_64 {
        return unsupported(format!("{}: coremap reads Python on x86_64 only", module.path));
    }
    let finder = Finder { process, image };
    // A program that has only the name of Python, and loads libpython, has no runtime inside.
    let candidates = match exported {
        Some(at) => vec![at],
        None => finder.search(),
    };
    // A shrunk core leaves out what its commands did not ask for.
    if !process.facts().is_shrunk && image.lacks_variables(&process.memory) {
        let path = &module.path;
        return unsupported(format!("{path}: its variables are not in the core, so Python's objects can't be read"));
    }
    let mut why = None;
    for address in candidates {
        match finder.identify(address) {
            Ok(proven) => {
                let Proven { layout, shape, hexversion, interpreters } = proven;
                return Some(Detection::Found(Box::new(Runtime {
                    process,
                    memory: &process.memory,
                    module: index,
                    path: module.path.to_string(),
                    range: module.range,
                    address,
                    hexversion,
                    layout,
                    shape,
                    interpreters,
                })));
            }
            Err(reason) => why = Some(reason),
        }
    }
    let Unusable { why, is_damaged } = why?;
    let message = format!("{}: {why}", module.path);
    Some(Detection::Unusable(Warning { code: WarningCode::CpythonUnusable, message, is_partial: is_damaged }))
}

fn unsupported<'p>(message: String) -> Option<Detection<'p>> {
    Some(Detection::Unusable(Warning::note(WarningCode::CpythonUnusable, message)))
}

struct Unusable {
    why: String,
    /// Whether its structures are damaged, as opposed to an unsupported version.
    is_damaged: bool,
}

impl Unusable {
    fn unsupported(why: String) -> Unusable {
        Unusable { why, is_damaged: false }
    }

    fn damaged(why: String) -> Unusable {
        Unusable { why, is_damaged: true }
    }
}

/// A runtime with its proven version.
struct Proven {
    layout: Layout,
    shape: Shape,
    hexversion: u32,
    interpreters: Vec<Addr>,
}

struct Finder<'p, 'i> {
    process: &'p Process,
    image: &'i ElfImage,
}

impl<'p> Finder<'p, '_> {
    /// Addresses in the module's data where the runtime may be, if no symbol names it.
    fn search(&self) -> Vec<Addr> {
        let memory = &self.process.memory;
        let mut cookies = Vec::new();
        let mut rings = Vec::new();
        let old: Vec<BackLinkOffsets> =
            CPYTHON_X64.iter().filter_map(|(_, table)| BackLinkOffsets::of(table.layout().ok()?)).collect();
        for part in self.image.writable_parts(memory) {
            for window in Window::all(self.process.target(), part) {
                let mut at = window.start;
                while at < window.end {
                    let Some(word) = window.word(at) else { break };
                    if word == u64::from_le_bytes(debug_offsets::COOKIE) {
                        cookies.push(Addr::new(at));
                    } else if word & 7 == 0 && word > 4096 && rings.len() < limits::MAX_RUNTIMES {
                        let found = old.iter().filter_map(|heads| {
                            let runtime = Addr::new(at).checked_sub(heads.interpreters)?;
                            heads.interpreter(memory, runtime).map(|_| runtime)
                        });
                        rings.extend(found);
                    }
                    at += 8;
                }
            }
        }
        rings.dedup();
        cookies.extend(rings);
        cookies
    }

    /// Determines and proves the version of the runtime at `runtime`.
    fn identify(&self, runtime: Addr) -> Result<Proven, Unusable> {
        let memory = &self.process.memory;
        if let Some(head) = debug_offsets::head(memory, runtime) {
            let minor = head.hexversion >> 16 & 0xff;
            let version = version::text(head.hexversion);
            if head.free_threaded {
                return Err(Unusable::unsupported(format!(
                    "CPython {version} is free-threaded (no global lock); coremap can't read its objects"
                )));
            }
            let table = CPYTHON_X64.iter().find(|(of, _)| *of == minor && head.hexversion >> 24 == 3);
            let Some((_, table)) = table else {
                return Err(Unusable::unsupported(format!(
                    "CPython {version} is not supported; coremap can't read its objects"
                )));
            };
            let mut layout = table.layout().map_err(|e| Unusable::unsupported(e.to_string()))?.clone();
            match debug_offsets::read(memory, runtime, minor) {
                Some(Ok(own)) => layout.overlay(&own),
                Some(Err(e)) => {
                    return Err(Unusable::damaged(format!("CPython {version}: its own offsets can't be read: {e}")));
                }
                None => {}
            }
            return self
                .prove(runtime, layout, Some(head.hexversion))
                .map_err(|e| Unusable::damaged(format!("CPython {version}: {e}")));
        }
        // 3.9 and 3.10 pass the check with the same offsets. `sys.hexversion` decides.
        let why = "no interpreter of CPython 3.9 to 3.14 points back to _PyRuntime";
        let mut why = Unusable::unsupported(why.to_owned());
        for (minor, table) in &CPYTHON_X64 {
            let Some(layout) = table.layout().ok().filter(|layout| is_silent(layout)) else { continue };
            let leads_back = BackLinkOffsets::of(layout).and_then(|heads| heads.interpreter(memory, runtime)).is_some();
            if !leads_back {
                continue;
            }
            match self.prove(runtime, layout.clone(), None) {
                Ok(proven) if proven.hexversion >> 16 & 0xff == *minor => return Ok(proven),
                Ok(proven) => {
                    let version = version::text(proven.hexversion);
                    why = Unusable::unsupported(format!(
                        "CPython {version} is not supported; coremap can't read its objects"
                    ));
                }
                Err(e) => why = Unusable::damaged(e.to_string()),
            }
        }
        Err(why)
    }

    /// Reads the proof of a version: interpreters that point back, and `sys.hexversion`.
    fn prove(&self, runtime: Addr, layout: Layout, own_version: Option<u32>) -> Result<Proven, PyError> {
        let memory = &self.process.memory;
        let shape = Shape::of(&layout)?;
        let nonsense = |what| PyError::Nonsense { what, at: runtime };
        let heads = BackLinkOffsets::of(&layout).ok_or_else(|| nonsense("a layout without interpreters"))?;
        let first = heads
            .interpreter(memory, runtime)
            .ok_or_else(|| nonsense("no interpreter that points back to _PyRuntime"))?;
        let mut interpreters = Vec::new();
        let walks = Walks::new(Phase::Runtime, limits::MAX_PY_INTERPRETERS);
        let next = |at: Addr| StructView::new(memory, &layout, "PyInterpreterState", at).ptr("next");
        // Interpreters after a broken link are lost; the others are used.
        let ended =
            super::follow(&walks, first, next, |at| interpreters.push(at)).map_err(PyError::list("interpreters"));
        if let Err(e) = ended {
            self.process.diag.partial(WarningCode::Cpython, e.to_string());
        }
        let objects = Objects::new(memory, shape);
        let sysdict = StructView::new(memory, &layout, "PyInterpreterState", first).ptr("sysdict")?;
        let hexversion = match (version::hexversion(&objects, sysdict), own_version) {
            (Ok(own), Some(own_version)) if own != own_version => {
                return Err(nonsense("different versions in sys and in the runtime's own offsets"));
            }
            (Ok(own), _) => own,
            // The runtime's own version is at its start. `sys` may be gone while the interpreter shuts down.
            (Err(_), Some(own_version)) => own_version,
            (Err(e), None) => return Err(e),
        };
        Ok(Proven { layout, shape, hexversion, interpreters })
    }
}

/// Whether the version does not describe its own layout (up to 3.12), so that tables are the only source.
fn is_silent(layout: &Layout) -> bool {
    layout.field("PyThreadState", "current_frame").is_err()
}

/// Offsets of the links from the runtime to an interpreter, to its first thread, and back.
struct BackLinkOffsets {
    interpreters: u64,
    runtime: Option<u64>,
    threads: u64,
    interp: u64,
}

impl BackLinkOffsets {
    fn of(layout: &Layout) -> Option<BackLinkOffsets> {
        let interpreter = |field| layout.positive("PyInterpreterState", field);
        Some(BackLinkOffsets {
            interpreters: layout.positive("_PyRuntimeState", "interpreters.head").ok()?,
            // Since 3.13 the other offsets come from the debug offsets, which do not include this one.
            runtime: is_silent(layout).then(|| interpreter("runtime").ok()).flatten(),
            threads: interpreter("threads.head").or_else(|_| interpreter("tstate_head")).ok()?,
            interp: layout.positive("PyThreadState", "interp").ok()?,
        })
    }

    /// The first interpreter of the runtime at `runtime`. `None` if it does not point back.
    fn interpreter(&self, memory: &dyn Memory, runtime: Addr) -> Option<Addr> {
        // Peek, because most candidates are something else.
        let ptr = |at| memory.peek_u64(at).ok().map(Addr::new);
        let first = ptr(runtime.checked_add(self.interpreters)?)?;
        if !first.is_aligned(8) || first.is_null() {
            return None;
        }
        if let Some(at) = self.runtime
            && ptr(first.checked_add(at)?)? != runtime
        {
            return None;
        }
        let thread = ptr(first.checked_add(self.threads)?)?;
        // An interpreter that shuts down has no threads.
        let leads_back = ptr(thread.checked_add(self.interp)?).is_some_and(|interp| interp == first);
        leads_back.then_some(first)
    }
}
