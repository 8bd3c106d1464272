//! Detection of NativeAOT by its exported symbol, or by its header or descriptor in a module's data.
//!
//! The second way is needed for libraries that restrict their exports, and if the symbol table is not in the core.

use std::sync::Arc;

use super::Runtime;
use super::described::{self, Described};
use super::entries;
use super::file_data::FileData;
use super::header::{COOKIE, Header, HeaderError, NamedEntries};
use crate::addr::Addr;
use crate::diag::{Warning, WarningCode};
use crate::image::elf::ElfImage;
use crate::image::{Module, ModuleKind, symbols};
use crate::layout::{
    DESCRIPTOR_SYMBOL, DOTNET_ARM64, DOTNET_X64, Layout, NATIVEAOT, NATIVEAOT_11, NATIVEAOT_BY_HEADER, Table,
};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::clr_gc::vars;
use crate::targets::Arch;

/// Exported symbol of the header.
const SYMBOL: &str = "DotNetRuntimeDebugHeader";

/// Result for a module with a NativeAOT runtime.
pub(in crate::runtimes::nativeaot) enum Detection<'p> {
    /// A runtime that can be read.
    Found(Box<Runtime<'p>>),
    /// A runtime that can't be read, and why.
    Unusable(Warning),
}

/// Examines every module of the process.
pub(in crate::runtimes::nativeaot) fn detect(process: &Process) -> Vec<Detection<'_>> {
    let _phase = process.enter(Phase::Runtime);
    let modules = process.modules.iter().enumerate();
    modules.filter_map(|(i, module)| detect_module(process, i, module)).take(limits::MAX_RUNTIMES).collect()
}

fn detect_module<'p>(process: &'p Process, index: usize, module: &Module) -> Option<Detection<'p>> {
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let data = Arc::new(data(process, module, image));
    let memory = data.memory();
    let exported = symbols::find(memory, image, SYMBOL).map(|symbol| symbol.addr);
    let unusable = |why: &OpenError| {
        let (code, message) = (WarningCode::NativeaotUnusable, format!("{}: NativeAOT: {why}", module.path));
        Some(Detection::Unusable(Warning { code, message, is_partial: why.is_damage() }))
    };
    if let Some(at) = exported {
        if memory.readable(at, 1) == 0 {
            return unusable(&OpenError::NoData);
        }
        return match open(process, &data, index, module, image, at, "exported") {
            Ok(runtime) => Some(Detection::Found(Box::new(runtime))),
            Err(e) => unusable(&e),
        };
    }
    match described::search(memory, image) {
        described::Search::Found(found, exported) => {
            return match open_described(process, &data, index, module, image, &found, exported) {
                Ok(runtime) => Some(Detection::Found(Box::new(runtime))),
                Err(e) => unusable(&e),
            };
        }
        described::Search::Unknown(size, pointers) => return unusable(&OpenError::NoText(size, pointers)),
        described::Search::NoMain => return unusable(&OpenError::NoMain),
        described::Search::NoData => return unusable(&OpenError::NoData),
        described::Search::None => {}
    }
    let mut why = None;
    for at in search(memory, image) {
        match open(process, &data, index, module, image, at, "by its shape") {
            Ok(runtime) => return Some(Detection::Found(Box::new(runtime))),
            Err(OpenError::Header(HeaderError::None)) => {}
            // The four letters alone prove nothing.
            Err(OpenError::Header(HeaderError::Wrong(_) | HeaderError::Empty)) => {}
            Err(e) => why = Some(e),
        }
    }
    unusable(&why?)
}

/// The process's memory. If the description of a runtime is exported, but not in the core, the module's data is its
/// file's.
fn data<'p>(process: &'p Process, module: &Module, image: &ElfImage) -> FileData<'p> {
    let memory = &process.memory;
    let symbols = [SYMBOL, DESCRIPTOR_SYMBOL].into_iter().filter_map(|name| symbols::find(memory, image, name));
    let missing = symbols.into_iter().any(|symbol| memory.readable(symbol.addr, 1) == 0);
    let read = || {
        let data = FileData::read(process, module, image)?;
        let why = format!(
            "{}: its writable data is not in the core, and is read from the program's file. Variables there have the values \
             that the program was linked with",
            module.path
        );
        process.diag.note(WarningCode::NativeaotData, why);
        Some(data)
    };
    missing.then(read).flatten().unwrap_or_else(|| FileData::none(process))
}

/// Addresses in the module's data that start with the header's cookie.
fn search(memory: &dyn Memory, image: &ElfImage) -> Vec<Addr> {
    let finder = memchr::memmem::Finder::new(COOKIE);
    let mut out = Vec::new();
    for part in image.writable_parts(memory) {
        let len = part.len() as usize;
        let copy;
        let bytes = match memory.borrow_to_look(part.start, len) {
            Some(bytes) => bytes,
            None => {
                copy = memory.look(part.start, len).unwrap_or_default();
                &*copy
            }
        };
        let places = finder.find_iter(bytes).map(|i| part.start.saturating_add(i as u64));
        out.extend(places.filter(|at| at.is_aligned(8)).take(limits::MAX_RUNTIMES));
    }
    out
}

/// Reasons why a header leads to no runtime.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("its own description has no entry {0}")]
    Missing(&'static str),
    #[error("{0}")]
    Wrong(&'static str),
    #[error(
        "its description is in writable data that is not in the core. Give the folder of the program's file with \
         --symbols DIR"
    )]
    NoData,
    #[error(
        "it was published without a description for debuggers (DebuggerSupport=false), so its heap and threads are not \
         read"
    )]
    NoMain,
    #[error(
        "the text of its contract descriptor ({0} bytes, {1} pointers) is not in the core, and coremap has no copy of \
         this size. Give the folder of the program's file with --symbols DIR"
    )]
    NoText(u32, usize),
    #[error(transparent)]
    Layout(#[from] crate::layout::LayoutError),
}

impl OpenError {
    /// Whether structures are damaged, rather than of an unsupported version.
    fn is_damage(&self) -> bool {
        match self {
            OpenError::Header(HeaderError::Wrong(_)) | OpenError::Wrong(_) => true,
            OpenError::Header(_)
            | OpenError::Missing(_)
            | OpenError::NoData
            | OpenError::NoMain
            | OpenError::NoText(..) => false,
            OpenError::Layout(_) => false,
        }
    }
}

fn open<'p>(
    process: &'p Process,
    data: &Arc<FileData<'p>>,
    index: usize,
    module: &Module,
    image: &ElfImage,
    at: Addr,
    found: &str,
) -> Result<Runtime<'p>, OpenError> {
    let memory = data.memory();
    let header = Header::read(memory, image.range, at)?;
    let NamedEntries { layout: own, globals, how } = header.named(memory)?;
    let global = |name: &'static str| globals.get(name).copied().ok_or(OpenError::Missing(name));
    if global("moduleBaseAddress")? != image.range.start {
        return Err(OpenError::Wrong("its header gives another base address for its module"));
    }
    let (gc_dac_vars, free) = (global("g_gcDacGlobals")?, global("g_pFreeObjectEEType")?);
    if !image.range.contains(gc_dac_vars) || !vars::looks_like(memory, gc_dac_vars, true) {
        return Err(OpenError::Wrong("its GC description (GcDacVars) is invalid"));
    }
    if !image.range.contains(free) {
        return Err(OpenError::Wrong("its free-space type is outside of its module"));
    }
    let instance = global("g_pTheRuntimeInstance")?;
    let by_header = NATIVEAOT_BY_HEADER.iter().find(|(of, _)| *of == header.major).map(|(_, table)| table);
    let (layout, table) = layout(process, by_header, &own, gc_dac_vars)?;
    let release = entries::of(header.major).map(|list| &*list.release);
    let source = format!("{} ({found}, {how}), GC by its GcDacVars as in {table}", own.id);
    let (path, range) = (module.path.to_string(), module.range);
    Ok(Runtime {
        process,
        data: data.clone(),
        module: index,
        path,
        range,
        release,
        layout,
        source,
        gc_dac_vars,
        instance,
        store: None,
        crash_info: globals.get("g_CrashInfoBuffer").copied(),
        version: None,
        free,
    })
}

/// Opens a runtime by its contract descriptor.
fn open_described<'p>(
    process: &'p Process,
    data: &Arc<FileData<'p>>,
    index: usize,
    module: &Module,
    image: &ElfImage,
    main: &Described,
    exported: bool,
) -> Result<Runtime<'p>, OpenError> {
    let memory = data.memory();
    let value = |name: &'static str| main.value(memory, name).ok_or(OpenError::Missing(name));
    let free = value("FreeObjectMethodTable")?;
    if !image.range.contains(free) {
        return Err(OpenError::Wrong("its free-space type is outside of its module"));
    }
    let gc = main.part(memory, "GC").ok_or(OpenError::Missing("GC"))?;
    let mut found = None;
    for table in gc_tables(process.arch()).iter().rev() {
        found = found.or_else(|| described::gc_dac_vars(memory, image, &gc, table));
    }
    let gc_dac_vars = found.ok_or(OpenError::Wrong("its GC description (GcDacVars) is not in the core"))?;
    let (layout, table) = layout(process, Some(&NATIVEAOT_11), &main.renamed()?, gc_dac_vars)?;
    let (found, id) = (if exported { "exported" } else { "by its first bytes" }, &main.layout.id);
    Ok(Runtime {
        process,
        data: data.clone(),
        module: index,
        path: module.path.to_string(),
        range: module.range,
        release: Some("11.0"),
        layout,
        source: format!("{id} ({found}), GC by its GcDacVars as in {table}"),
        gc_dac_vars,
        instance: value("RuntimeInstance")?,
        store: Some(value("ThreadStore")?),
        crash_info: None,
        version: main.version(),
        free,
    })
}

/// Tables of CoreCLR for an architecture, oldest first.
fn gc_tables(arch: Arch) -> Vec<&'static Layout> {
    let tables: &[(u32, Table)] = if arch == Arch::Aarch64 { &DOTNET_ARM64 } else { &DOTNET_X64 };
    tables.iter().filter_map(|(_, table)| table.layout().ok()).collect()
}

/// Layout and id of the base table. The base is CoreCLR's table for the same GC version. NativeAOT's table overrides
/// it, then the table of this `release`, then the runtime's own description.
fn layout(process: &Process, release: Option<&Table>, own: &Layout, vars: Addr) -> Result<(Layout, String), OpenError> {
    let mut tables = gc_tables(process.arch());
    tables.reverse();
    let fits = tables.iter().find(|table| vars::matches_layout(&process.memory, vars, table));
    let base = fits.or(tables.first()).ok_or(OpenError::Missing("table"))?;
    let mut layout = (*base).clone();
    layout.overlay(NATIVEAOT.layout()?);
    if let Some(table) = release {
        layout.overlay(table.layout()?);
    }
    layout.overlay(own);
    Ok((layout, base.id.clone()))
}
