//! Finding CPython: `_PyRuntime` in the data of a module, by its symbol, by its cookie, or by structures that lead back
//! to it; and proving which version it is.

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

/// The runtime's state, exported by libpython or by the program that has it inside.
const SYMBOL: &str = "_PyRuntime";

/// Names of modules that have CPython inside; looked at closer, as a stripped program exports no symbol.
const NAMES: [&str; 4] = ["libpython", "python", "uwsgi", "mod_wsgi"];

/// Names of interpreters that are something else.
const OTHERS: [(&str, &str); 2] = [("libpypy", "PyPy"), ("pypy", "PyPy")];

/// Whether a module is CPython.
pub enum Detection<'p> {
    /// It is.
    Found(Box<Runtime<'p>>),
    /// It is, or is another Python, but can't be used, for this reason.
    Unusable(Warning),
}

/// Look at the modules of the process that may have CPython inside.
pub fn detect(process: &Process) -> Vec<Detection<'_>> {
    let _phase = process.enter(Phase::Runtime);
    let mut out: Vec<Detection<'_>> = Vec::new();
    for (index, module) in process.modules.iter().enumerate() {
        let found = look_at(process, index, module);
        // The program and libpython may both have a name for it: a runtime is told once.
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
    // Why a library was not read is of no use where the other one was.
    if out.iter().any(|found| matches!(found, Detection::Found(_))) {
        out.retain(|found| matches!(found, Detection::Found(_)));
    }
    out
}

fn look_at<'p>(process: &'p Process, index: usize, module: &Module) -> Option<Detection<'p>> {
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

/// Why an interpreter can't be used.
struct Unusable {
    why: String,
    /// Its structures are damaged, rather than of a version that is not supported.
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

/// What a runtime was proven to be.
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
    /// Places in the module's data where the runtime may be, where no symbol tells.
    fn search(&self) -> Vec<Addr> {
        let memory = &self.process.memory;
        let mut cookies = Vec::new();
        let mut rings = Vec::new();
        let old: Vec<Heads> = CPYTHON_X64.iter().filter_map(|(_, table)| Heads::of(table.layout().ok()?)).collect();
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

    /// Prove what is at `runtime`.
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
        // 3.9 and 3.10 lead back to themselves by the same offsets: the version that sys tells decides.
        let why = "no interpreter of CPython 3.9 to 3.14 points back to _PyRuntime";
        let mut why = Unusable::unsupported(why.to_owned());
        for (minor, table) in &CPYTHON_X64 {
            let Some(layout) = table.layout().ok().filter(|layout| is_silent(layout)) else { continue };
            let leads_back = Heads::of(layout).and_then(|heads| heads.interpreter(memory, runtime)).is_some();
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

    /// Read what proves a version: interpreters, and what `sys` says of it.
    fn prove(&self, runtime: Addr, layout: Layout, told: Option<u32>) -> Result<Proven, PyError> {
        let memory = &self.process.memory;
        let shape = Shape::of(&layout)?;
        let nonsense = |what| PyError::Nonsense { what, at: runtime };
        let heads = Heads::of(&layout).ok_or_else(|| nonsense("a layout without interpreters"))?;
        let first = heads
            .interpreter(memory, runtime)
            .ok_or_else(|| nonsense("no interpreter that points back to _PyRuntime"))?;
        let mut interpreters = Vec::new();
        let walks = Walks::new(Phase::Runtime, limits::MAX_PY_INTERPRETERS);
        let next = |at: Addr| StructView::new(memory, &layout, "PyInterpreterState", at).ptr("next");
        // What follows a broken link is lost; what is known is kept.
        let ended =
            super::follow(&walks, first, next, |at| interpreters.push(at)).map_err(PyError::list("interpreters"));
        if let Err(e) = ended {
            self.process.diag.partial(WarningCode::Cpython, e.to_string());
        }
        let objects = Objects::new(memory, shape);
        let sysdict = StructView::new(memory, &layout, "PyInterpreterState", first).ptr("sysdict")?;
        let hexversion = match (version::hexversion(&objects, sysdict), told) {
            (Ok(own), Some(told)) if own != told => {
                return Err(nonsense("different versions in sys and in the runtime's own offsets"));
            }
            (Ok(own), _) => own,
            // What the runtime says of itself stands at its start; sys may be gone already, as it ends.
            (Err(_), Some(told)) => told,
            (Err(e), None) => return Err(e),
        };
        Ok(Proven { layout, shape, hexversion, interpreters })
    }
}

/// Whether a version says nothing of its own layout (up to 3.12): where its fields are, tables alone tell.
fn is_silent(layout: &Layout) -> bool {
    layout.field("PyThreadState", "current_frame").is_err()
}

/// Offsets of what leads from the runtime to an interpreter, its first thread, and back.
struct Heads {
    interpreters: u64,
    runtime: Option<u64>,
    threads: u64,
    interp: u64,
}

impl Heads {
    fn of(layout: &Layout) -> Option<Heads> {
        let interpreter = |field| layout.positive("PyInterpreterState", field);
        Some(Heads {
            interpreters: layout.positive("_PyRuntimeState", "interpreters.head").ok()?,
            // 3.13 on tell by their own offsets where the others are, of this one they don't.
            runtime: is_silent(layout).then(|| interpreter("runtime").ok()).flatten(),
            threads: interpreter("threads.head").or_else(|_| interpreter("tstate_head")).ok()?,
            interp: layout.positive("PyThreadState", "interp").ok()?,
        })
    }

    /// The first interpreter of the runtime at `runtime`, if it leads back there.
    fn interpreter(&self, memory: &dyn Memory, runtime: Addr) -> Option<Addr> {
        // Nearly always it is something else.
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
        // An interpreter that ends has no thread any more.
        let leads_back = ptr(thread.checked_add(self.interp)?).is_some_and(|interp| interp == first);
        leads_back.then_some(first)
    }
}
