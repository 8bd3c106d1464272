//! Detection of CoreCLR by its exports or, if a dump lacks the symbol table, by the shape of GcDacVars in its data.

use std::sync::OnceLock;

use crate::addr::{Addr, AddrRange};
use crate::diag::{Warning, WarningCode};
use crate::image::elf::ElfImage;
use crate::image::symbols::{self, Symbol};
use crate::image::{Module, ModuleKind};
use crate::layout::{DESCRIPTOR_SYMBOL, DescriptorHead, Layout, LayoutError, read_descriptor};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::clr_gc::NATIVE_AOT;
use crate::runtimes::clr_gc::{Gc, HandleList, SegmentList, vars};
use crate::runtimes::coreclr::gc;
use crate::runtimes::coreclr::runtime::candidates::{Candidate, candidates, is_derived, tables};
use crate::runtimes::coreclr::runtime::globals::{self, Globals, GlobalsError};
use crate::runtimes::coreclr::threads::ThreadList;
use crate::targets::Arch;

/// Export: addresses of the runtime's globals, in the order of dacvars.h.
const DAC_TABLE: &str = "g_dacTable";

/// Start of the version text that the build adds to every native file (eng/native: _version.c). It is in writable data,
/// and so in every dump.
const VERSION_TEXT: &[u8] = b"@(#)Version ";

/// A readable CoreCLR in the process.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Index of its module.
    pub module: usize,
    /// Path of its module.
    pub path: String,
    /// Load address of the module.
    pub base: Addr,
    /// Architecture of the process.
    pub arch: Arch,
    /// Version as users know it, such as `8.0.33`.
    pub version: String,
    /// Where the version was read.
    pub version_source: String,
    /// Whether the layout's table is of this major version, and not of an older one.
    pub own_table: bool,
    /// Whether cores of its major version have confirmed the layout. Facts from other layouts are derived.
    pub proven: bool,
    /// Sources of the layout, for display.
    pub layout_source: String,
    /// Structures and slots.
    pub layout: Layout,
    /// Addresses of its globals.
    pub globals: Globals,
    /// Why the GC's structures are not read, although the runtime is: they do not fit the layout of another version.
    pub(in crate::runtimes::coreclr) gc_misfit: Option<String>,
    /// Cached lists.
    pub(in crate::runtimes::coreclr) cache: ListCache,
}

/// Lists used by several analyses, each read on first use.
#[derive(Clone, Debug, Default)]
pub(in crate::runtimes::coreclr) struct ListCache {
    pub(in crate::runtimes::coreclr) threads: OnceLock<ThreadList>,
    pub(in crate::runtimes::coreclr) handle_segments: OnceLock<SegmentList>,
    pub(in crate::runtimes::coreclr) handles: OnceLock<HandleList>,
}

impl Runtime {
    /// Name with version, such as `.NET 8.0.33`.
    pub fn name(&self) -> String {
        format!(".NET {}", self.version)
    }

    /// Access to the runtime's GC.
    pub(in crate::runtimes::coreclr) fn gc<'a>(&'a self, process: &'a Process) -> Gc<'a> {
        Gc { memory: &process.memory, layout: &self.layout, vars: self.globals.gc_dac_vars }
    }

    /// Lowest to highest address of the GC's heap.
    pub(in crate::runtimes::coreclr) fn gc_bounds(&self, memory: &dyn Memory) -> Option<AddrRange> {
        let bound = |name| self.globals.pointer(memory, &self.layout, name).ok();
        Some(AddrRange::new(bound("LowestAddress")?, bound("HighestAddress")?))
    }

    /// Whether all locks are objects, so that the heap has their waiters (.NET 11 on).
    pub fn has_managed_locks(&self) -> bool {
        self.layout.field("SyncBlock", "ThinLock").is_ok()
    }

    /// Name of the memfd with code and loader heaps, as NT_FILE has it.
    pub fn code_file(&self) -> Option<&str> {
        self.layout.text("ExecutableMemory")
    }
}

/// Result of examining one module.
#[derive(Clone, Debug)]
pub enum Detection {
    /// Not a .NET runtime.
    NotMine,
    /// A .NET runtime.
    Found(Box<Runtime>),
    /// A .NET runtime that can't be read, and why.
    Unusable(Warning),
}

/// Examines every module of the process.
pub fn detect(process: &Process) -> Vec<Detection> {
    let _phase = process.enter(Phase::Runtime);
    process
        .modules
        .iter()
        .enumerate()
        .map(|(i, module)| detect_module(process, i, module))
        .filter(|d| !matches!(d, Detection::NotMine))
        .take(limits::MAX_RUNTIMES)
        .collect()
}

/// Name of the runtime's library, unless it is inside the program.
pub(in crate::runtimes::coreclr) const CORECLR: &str = "libcoreclr.so";

fn detect_module(process: &Process, index: usize, module: &Module) -> Detection {
    let named = module.name() == CORECLR;
    let ModuleKind::Elf(image) = &module.kind else {
        return if named {
            let why = format!("{}: its ELF header is not in the core", module.path);
            Detection::Unusable(Warning::note(WarningCode::DotnetUnusable, why))
        } else {
            Detection::NotMine
        };
    };
    let memory = &process.memory;
    let exports = Exports {
        table: symbols::find(memory, image, DAC_TABLE),
        descriptor: symbols::find(memory, image, DESCRIPTOR_SYMBOL),
    };
    // NativeAOT exports a descriptor too, and has no such table (runtimes/nativeaot).
    if !named && exports.table.is_none() && exports.descriptor.is_some_and(|at| !is_of_coreclr(memory, at.addr)) {
        return Detection::NotMine;
    }
    let exported = exports.table.is_some() || exports.descriptor.is_some();
    // Without a symbol table in the core, search only the library of that name, and programs, which may contain the
    // runtime.
    if !exported && !named && !image.has_interpreter {
        return Detection::NotMine;
    }
    let text = version_text(memory, image);
    let described = exports.descriptor.and_then(|symbol| read_own(process, symbol));
    let said = described.as_ref().and_then(|(layout, _)| layout.text("RuntimeProductVersionString"));
    let version = said.and_then(product_version).or_else(|| version(&text, &module.path));
    // The version text alone is not enough: every native file from .NET's build has it.
    if !exported && !named && text.is_none() && version.is_none() {
        return Detection::NotMine;
    }
    // .NET's own programs without a runtime have a version text too: `dotnet` and the application hosts.
    let unusable = |why: String, is_partial: bool| {
        if exported || named || (text.is_some() && globals::has_table(memory, image)) {
            let message = format!("{}: {why}", module.path);
            Detection::Unusable(Warning { code: WarningCode::DotnetUnusable, message, is_partial })
        } else {
            Detection::NotMine
        }
    };
    let said = version.as_ref().map(|(version, ..)| version.as_str());
    let arch = process.arch();
    let candidates = candidates(tables(arch), version.as_ref().map(|v| v.1));
    let mut why = match said {
        Some(version) if candidates.is_empty() => {
            format!("coremap has no layout of .NET {version} for {}", arch.name())
        }
        Some(version) => format!(
            ".NET {version}: coremap has no layout of this version, and its structures fit no \
                                  other layout"
        ),
        None => "the runtime's version is not in the core, and its structures fit no layout".to_owned(),
    };
    let (mut misfit, mut damaged) = (false, false);
    for candidate in candidates {
        let fitted = match fit(process, image, &exports, described.as_ref(), &candidate) {
            Ok(fitted) => fitted,
            Err(Misfit::Shape) => continue,
            Err(Misfit::Layout(e)) => {
                return Detection::Unusable(Warning::note(WarningCode::DotnetUnusable, e.to_string()));
            }
            // A table that was found but does not fit explains more than one that was not found.
            Err(Misfit::Globals(_)) if misfit => continue,
            Err(Misfit::Globals(e)) => {
                why = said.map_or_else(|| e.to_string(), |version| format!(".NET {version}: {e}"));
                continue;
            }
        };
        let Fitted { layout, layout_source, globals } = fitted;
        let (version, major, version_source) = match &version {
            Some(known) => known.clone(),
            None => {
                let version = layout.text("TableVersion").unwrap_or("?").to_owned();
                (version, candidate.major, "the shape of its structures".to_owned())
            }
        };
        let (own_table, derived) = (candidate.major == major, is_derived(&layout));
        let mut runtime = Runtime {
            module: index,
            path: module.path.to_string(),
            base: module.range.start,
            arch,
            version,
            version_source,
            own_table,
            proven: own_table && !derived,
            layout_source,
            layout,
            globals,
            gc_misfit: None,
            cache: ListCache::default(),
        };
        if !runtime.proven
            && let Some(odd) = gc::misfit(process, &runtime)
        {
            // A newer version describes its threads and code itself. What it does not describe is not read.
            if !runtime.own_table && !candidate.by_shape && described.is_some() {
                runtime.globals.gc_dac_vars = None;
                runtime.gc_misfit = Some(odd);
                warn_of_layout(process, &runtime, candidate.major, derived, said.is_none());
                return Detection::Found(Box::new(runtime));
            }
            if !misfit {
                let tried = candidate.table.layout().map_or("?", |table| &table.id);
                why = match said {
                    Some(v) => format!(".NET {v}: its structures fit no layout (tried {tried}: {odd})"),
                    None => format!("{why} (tried {tried}: {odd})"),
                };
            }
            misfit = true;
            // A version without a layout of its own is unsupported. If it has one that does not fit, its structures are
            // damaged.
            damaged |= runtime.own_table;
            continue;
        }
        warn_of_layout(process, &runtime, candidate.major, derived, said.is_none());
        return Detection::Found(Box::new(runtime));
    }
    unusable(why, damaged)
}

/// Notes which layout the answers use, unless cores of this version have confirmed it.
fn warn_of_layout(process: &Process, runtime: &Runtime, table: u32, derived: bool, by_structures: bool) {
    let name = runtime.name();
    let rests = match &runtime.gc_misfit {
        None => "The GC's structures fit; all results have confidence derived".to_owned(),
        Some(odd) => format!(
            "The GC's structures do not fit ({odd}), so its heap is not read. All other results have confidence derived"
        ),
    };
    let why = match (runtime.own_table, derived) {
        (false, false) => {
            let over = if runtime.layout_source.starts_with(BY_DESCRIPTOR) {
                " under the runtime's own descriptor"
            } else {
                ""
            };
            format!("{name} has no layout of its own; coremap uses the layout of .NET {table}{over}. {rests}")
        }
        (_, true) => {
            let id = &runtime.layout.id;
            format!("{name}: its layout ({id}) is derived from public headers and not yet confirmed by a core. {rests}")
        }
        (true, false) if by_structures => {
            let path = &runtime.path;
            format!("{path}: its version is not in the core; its structures match {name}")
        }
        (true, false) => return,
    };
    process.diag.note(WarningCode::DotnetVersion, why);
    if !runtime.proven {
        // A structure may be unreadable because its layout differs.
        process.diag.excuse(WarningCode::OF_DOTNET);
    }
}

/// Prefix of a layout's source if the runtime's own descriptor overrides the bundled table.
const BY_DESCRIPTOR: &str = "contract descriptor over ";

/// Symbols that a module exports.
struct Exports {
    table: Option<Symbol>,
    descriptor: Option<Symbol>,
}

/// A layout that fits, and the globals found with it.
struct Fitted {
    layout: Layout,
    layout_source: String,
    globals: Globals,
}

enum Misfit {
    Layout(LayoutError),
    Globals(GlobalsError),
    Shape,
}

/// The descriptor of a runtime in its memory: its layout and its pointers.
type Described = (Layout, Vec<Addr>);

/// Reads the runtime's own descriptor. `None` if the dump lacks the file's read-only pages.
fn read_own(process: &Process, symbol: Symbol) -> Option<Described> {
    match read_descriptor(&process.memory, symbol.addr) {
        Ok((own, pointers)) => {
            if own.capped {
                let limit = limits::MAX_DESCRIPTOR_ENTRIES;
                let what = "types, globals, contracts or fields of a type";
                let at = symbol.addr;
                let why =
                    format!("the contract descriptor at {at} has more than {limit} {what}; the others are ignored");
                process.diag.partial(WarningCode::Limit, why);
            }
            Some((own, pointers))
        }
        Err(e) => {
            tracing::debug!(%e, "no contract descriptor");
            None
        }
    }
}

/// Whether the descriptor at `at` is CoreCLR's. Descriptors name their runtime from 11.0 on; all earlier ones are
/// CoreCLR's. A descriptor that is not in the core is left to NativeAOT's finder, which reports what is missing.
fn is_of_coreclr(memory: &dyn Memory, at: Addr) -> bool {
    let Ok(head) = DescriptorHead::read(memory, at) else { return false };
    let layout = head.own_layout(memory).ok().or_else(|| head.built_in_layout());
    layout.is_some_and(|layout| layout.text("RuntimeFlavor").is_none_or(|flavor| flavor != NATIVE_AOT))
}

fn fit(
    process: &Process,
    image: &ElfImage,
    exports: &Exports,
    described: Option<&Described>,
    candidate: &Candidate,
) -> Result<Fitted, Misfit> {
    let memory = &process.memory;
    let table = candidate.table.layout().map_err(Misfit::Layout)?;
    let globals = |layout: &Layout, pointers| {
        Globals::find(memory, image, layout, exports.table, pointers).map_err(Misfit::Globals)
    };
    if candidate.by_shape {
        let vars = globals(table, Vec::new())?.gc_dac_vars.ok_or(Misfit::Shape)?;
        if !vars::matches_layout(memory, vars, table) {
            return Err(Misfit::Shape);
        }
    }
    let mut layout = table.clone();
    let mut layout_source = layout.id.clone();
    let mut pointers = Vec::new();
    // Without its descriptor, the bundled table is of the same version.
    if let Some((own, table)) = described {
        layout.overlay(own);
        layout_source = format!("{BY_DESCRIPTOR}{layout_source}");
        pointers.clone_from(table);
    }
    let globals = globals(&layout, pointers)?.checked_by_descriptor(&layout);
    Ok(Fitted { layout, layout_source, globals })
}

/// Finds the version text in the image's writable data.
fn version_text(memory: &dyn Memory, image: &ElfImage) -> Option<String> {
    let finder = memchr::memmem::Finder::new(VERSION_TEXT);
    for part in image.writable_parts(memory) {
        let bytes = memory.look(part.start, part.len() as usize).ok()?;
        if let Some(i) = finder.find(&bytes) {
            let text = crate::bytes::text(&bytes[i + VERSION_TEXT.len()..bytes.len().min(i + 128)]);
            memory.keep(part.start.saturating_add(i as u64), (VERSION_TEXT.len() + text.len() + 1) as u64);
            return Some(text);
        }
    }
    None
}

/// Maximum bytes of the version in a descriptor.
const MAX_VERSION_TEXT: usize = 64;

/// Version, major version and source, from the version that the runtime's descriptor has (11 and later).
fn product_version(text: &str) -> Option<(String, u32, String)> {
    let major = text.split('.').next()?.parse().ok()?;
    let plain = text.len() <= MAX_VERSION_TEXT && text.bytes().all(|b| b.is_ascii_graphic());
    plain.then(|| (text.to_owned(), major, "its own descriptor".to_owned()))
}

/// Returns version, major version and source. `8.0.3326.52219` is the file version of 8.0.33: the third number is 100
/// times the servicing number plus a build number. Files of 3.1 have `4.700.…`; their path has the version.
fn version(text: &Option<String>, path: &str) -> Option<(String, u32, String)> {
    let from_path = || {
        path.rsplit('/').find_map(|part| {
            let numbers: Vec<u32> = part.split('.').map(|n| n.parse().ok()).collect::<Option<_>>()?;
            (numbers.len() == 3).then(|| (part.to_owned(), numbers[0]))
        })
    };
    let first = text.as_deref().and_then(|t| t.split_whitespace().next());
    if let Some(file_version) = first {
        let parts: Vec<u32> = file_version.split('.').map_while(|n| n.parse().ok()).collect();
        match parts.as_slice() {
            [4, 700, ..] => {
                let version = from_path().map_or_else(|| "3.1".to_owned(), |(v, _)| v);
                return Some((version, 3, format!("version text {file_version}, and its path")));
            }
            [major, minor, build, ..] if (5..100).contains(major) => {
                let version = format!("{major}.{minor}.{}", build / 100);
                return Some((version, *major, format!("version text {file_version}")));
            }
            _ => {}
        }
    }
    from_path().map(|(version, major)| (version, major, "its path".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, path: &str) -> Option<(String, u32)> {
        version(&Some(text.to_owned()), path).map(|(v, m, _)| (v, m))
    }

    #[test]
    fn versions() {
        assert_eq!(of("8.0.3326.52219 @Commit: x", ""), Some(("8.0.33".into(), 8)));
        assert_eq!(of("10.0.1126.37416", ""), Some(("10.0.11".into(), 10)));
        assert_eq!(of("9.0.26.52218", ""), Some(("9.0.0".into(), 9)));
        assert_eq!(of("4.700.22.11601", "/x/3.1.23/libcoreclr.so"), Some(("3.1.23".into(), 3)));
        assert_eq!(of("", "/x/shared/Microsoft.NETCore.App/7.0.4/libcoreclr.so"), Some(("7.0.4".into(), 7)));
        assert_eq!(of("junk", "/usr/bin/bash"), None);
        let product = |text: &str| product_version(text).map(|(v, m, _)| (v, m));
        assert_eq!(product("11.0.0"), Some(("11.0.0".into(), 11)));
        assert_eq!(product("12.0.0-preview.1.26"), Some(("12.0.0-preview.1.26".into(), 12)));
        assert_eq!(product("x"), None);
        assert_eq!(product("11.0\u{1b}[2J"), None);
    }
}
