//! Detection of NativeAOT by its exported symbol, or by its header in a module's data.
//!
//! The second way is needed for libraries that restrict their exports, and if the symbol table is not in the core.

use super::Runtime;
use super::entries;
use super::header::{COOKIE, Header, HeaderError, NamedEntries};
use crate::addr::Addr;
use crate::diag::{Warning, WarningCode};
use crate::image::elf::ElfImage;
use crate::image::{Module, ModuleKind, symbols};
use crate::layout::{DOTNET_X64, Layout, NATIVEAOT, NATIVEAOT_BY_HEADER};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::clr_gc::vars;

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
    let memory = &process.memory;
    let exported = symbols::find(memory, image, SYMBOL).map(|symbol| symbol.addr);
    let unusable = |why: &OpenError| {
        let (code, message) = (WarningCode::NativeaotUnusable, format!("{}: NativeAOT: {why}", module.path));
        Some(Detection::Unusable(Warning { code, message, is_partial: why.is_damage() }))
    };
    if let Some(at) = exported {
        return match open(process, index, module, image, at, "exported") {
            Ok(runtime) => Some(Detection::Found(Box::new(runtime))),
            Err(e) => unusable(&e),
        };
    }
    let mut why = None;
    for at in search(memory, image) {
        match open(process, index, module, image, at, "by its shape") {
            Ok(runtime) => return Some(Detection::Found(Box::new(runtime))),
            Err(OpenError::Header(HeaderError::None)) => {}
            // The four letters alone prove nothing.
            Err(OpenError::Header(HeaderError::Wrong(_) | HeaderError::Empty)) => {}
            Err(e) => why = Some(e),
        }
    }
    unusable(&why?)
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
    #[error("its header has no entry {0}")]
    Missing(&'static str),
    #[error("{0}")]
    Wrong(&'static str),
    #[error(transparent)]
    Layout(#[from] crate::layout::LayoutError),
}

impl OpenError {
    /// Whether structures are damaged, rather than of an unsupported version.
    fn is_damage(&self) -> bool {
        match self {
            OpenError::Header(HeaderError::Wrong(_)) | OpenError::Wrong(_) => true,
            OpenError::Header(_) | OpenError::Missing(_) | OpenError::Layout(_) => false,
        }
    }
}

fn open<'p>(
    process: &'p Process,
    index: usize,
    module: &Module,
    image: &ElfImage,
    at: Addr,
    found: &str,
) -> Result<Runtime<'p>, OpenError> {
    let memory = &process.memory;
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
    let (layout, table) = layout(memory, header.major, &own, gc_dac_vars)?;
    let release = entries::of(header.major).map(|list| &*list.release);
    let source = format!("{} ({found}, {how}), GC by its GcDacVars as in {table}", own.id);
    let (path, range) = (module.path.to_string(), module.range);
    let process_memory: &dyn Memory = memory;
    Ok(Runtime {
        process,
        memory: process_memory,
        module: index,
        path,
        range,
        release,
        layout,
        source,
        gc_dac_vars,
        instance,
        free,
    })
}

/// Layout and id of the base table. The base is CoreCLR's table for the same GC version. NativeAOT's table overrides
/// it, then the table for headers of this `major` version, then the header itself.
fn layout(memory: &dyn Memory, major: u16, own: &Layout, vars: Addr) -> Result<(Layout, String), OpenError> {
    let mut tables = Vec::new();
    for (_, table) in DOTNET_X64.iter().rev() {
        tables.push(table.layout()?);
    }
    let fits = tables.iter().find(|table| vars::matches_layout(memory, vars, table));
    let base = fits.or(tables.first()).ok_or(OpenError::Missing("table"))?;
    let mut layout = (*base).clone();
    layout.overlay(NATIVEAOT.layout()?);
    if let Some((_, table)) = NATIVEAOT_BY_HEADER.iter().find(|(of, _)| *of == major) {
        layout.overlay(table.layout()?);
    }
    layout.overlay(own);
    Ok((layout, base.id.clone()))
}
