//! Loader heaps of all loader allocators: the global one and those of collectible assemblies.
//!
//! Sources: src/coreclr: vm/loaderallocator.hpp, inc/loaderheap.h (UnlockedLoaderHeap, LoaderHeapBlock),
//! vm/virtualcallstub.h, vm/appdomain.hpp, inc/arraylist.h; contract Loader.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::layout::{StructView, ViewError};
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Walks};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::coreclr::runtime::GlobalsError;
use crate::runtimes::coreclr::runtime::Runtime;

/// A block of a loader heap.
#[derive(Clone, Debug)]
pub struct HeapBlock {
    /// Reserved range.
    pub range: AddrRange,
    /// Kind of the heap that it belongs to.
    pub kind: Kind,
    /// Whether the heap currently allocates from it.
    pub current: bool,
    /// Evidence, for display.
    pub evidence: String,
}

/// The heaps of one loader allocator (or of the JIT's code manager).
#[derive(Clone, Debug)]
pub struct AllocatorHeaps {
    /// Name for display: `the global loader allocator`, `loader allocator 0x…` or `the JIT's code manager`.
    pub name: String,
    /// Address of the loader allocator or code manager.
    pub address: Addr,
    /// Blocks of its heaps.
    pub blocks: Vec<HeapBlock>,
    /// Facts about collectible assemblies, if it belongs to these.
    pub collectible: Option<Collectible>,
}

/// Assemblies with a common loader allocator. They are unloaded when nothing keeps it alive.
#[derive(Clone, Debug, Default)]
pub struct Collectible {
    /// Addresses of their Modules.
    pub modules: Vec<Addr>,
    /// The System.Reflection.LoaderAllocator object. It keeps the assemblies alive. `None` if its handle could not be
    /// read.
    pub object: Option<Addr>,
}

/// Reasons why loader heaps can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::runtimes::coreclr) enum LoaderError {
    #[error(transparent)]
    Globals(#[from] GlobalsError),
    #[error(transparent)]
    View(#[from] ViewError),
    /// The layout is that of another version, and the list's elements do not fit it.
    #[error("the AppDomain's list does not contain Assemblies")]
    Assemblies,
}

/// Fields of a LoaderAllocator that point to a heap, and the heap's kind.
const HEAPS: &[(&str, Kind)] = &[
    ("HighFrequencyHeap", Kind::HighFrequencyHeap),
    ("LowFrequencyHeap", Kind::LowFrequencyHeap),
    ("StaticsHeap", Kind::StaticsHeap),
    ("StubHeap", Kind::StubHeap),
    ("ExecutableHeap", Kind::ExecutableHeap),
    ("FixupPrecodeHeap", Kind::FixupPrecodeHeap),
    ("NewStubPrecodeHeap", Kind::NewStubPrecodeHeap),
];

/// Fields of a VirtualCallStubManager that point to a heap, and the heap's kind.
const STUB_HEAPS: &[(&str, Kind)] = &[
    ("IndcellHeap", Kind::IndirectionCellHeap),
    ("CacheEntryHeap", Kind::CacheEntryHeap),
    ("LookupHeap", Kind::LookupHeap),
    ("ResolveHeap", Kind::ResolveHeap),
    ("DispatchHeap", Kind::DispatchHeap),
    ("VtableHeap", Kind::VtableHeap),
];

/// Reads all loader heaps. Returns them with messages about what could not be read.
pub(in crate::runtimes::coreclr) fn read(
    process: &Process,
    runtime: &Runtime,
) -> Result<(Vec<AllocatorHeaps>, Vec<String>), LoaderError> {
    let memory: &dyn Memory = &process.memory;
    let mut notes = Vec::new();
    let system = runtime.globals.pointer(memory, &runtime.layout, "SystemDomain")?;
    let global = StructView::new(memory, &runtime.layout, "SystemDomain", system).addr_of("GlobalLoaderAllocator")?;
    let mut allocators = vec![(global, None)];
    match collectible(memory, runtime, global) {
        Ok(more) => allocators.extend(more.into_iter().map(|(address, of)| (address, Some(of)))),
        Err(e) => notes.push(format!("collectible assemblies: {e}")),
    }
    let mut seen_heaps = HashSet::new();
    let mut walk = BlockWalk::new(Phase::LoaderHeaps);
    let out = allocators
        .into_iter()
        .map(|(address, collectible)| {
            let name = if collectible.is_none() {
                "the global loader allocator".to_owned()
            } else {
                format!("loader allocator {address}")
            };
            let blocks = allocator(memory, runtime, address, (&mut seen_heaps, &mut walk), &mut notes);
            AllocatorHeaps { name, address, blocks, collectible }
        })
        .collect();
    notes.extend(walk.notes);
    Ok((out, notes))
}

fn allocator(
    memory: &dyn Memory,
    runtime: &Runtime,
    address: Addr,
    (seen, walk): (&mut HashSet<Addr>, &mut BlockWalk),
    notes: &mut Vec<String>,
) -> Vec<HeapBlock> {
    let layout = &runtime.layout;
    let view = StructView::new(memory, layout, "LoaderAllocator", address);
    let mut blocks = Vec::new();
    let mut add = |view: &StructView<'_>, fields: &[(&str, Kind)], what: &str| {
        for &(field, kind) in fields.iter().filter(|(f, _)| view.has(f)) {
            match view.ptr(field) {
                // The low-frequency pointer of a collectible allocator leads to its high-frequency heap, which is
                // counted once.
                Ok(heap) if !heap.is_null() && seen.insert(heap) => {
                    match heap_blocks(memory, runtime, heap, kind, walk) {
                        Ok(found) => blocks.extend(found),
                        Err(e) => notes.push(format!("{what}.{field}: {e}")),
                    }
                }
                Ok(_) => {}
                Err(e) => notes.push(e.to_string()),
            }
        }
    };
    add(&view, HEAPS, "LoaderAllocator");
    match view.ptr("VirtualCallStubManager") {
        Ok(manager) if !manager.is_null() => {
            let view = StructView::new(memory, layout, "VirtualCallStubManager", manager);
            add(&view, STUB_HEAPS, "VirtualCallStubManager");
        }
        Ok(_) => {}
        Err(e) => notes.push(e.to_string()),
    }
    blocks
}

fn heap_blocks(
    memory: &dyn Memory,
    runtime: &Runtime,
    heap: Addr,
    kind: Kind,
    walk: &mut BlockWalk,
) -> Result<Vec<HeapBlock>, ViewError> {
    let view = StructView::new(memory, &runtime.layout, "LoaderHeap", heap);
    let first = view.ptr("FirstBlock")?;
    let mut blocks = walk.list(memory, runtime, first, kind, &format!("LoaderHeap at {heap}"));
    // The order of the list differs between versions, so find the current block by the allocation pointer.
    match view.ptr("AllocPtr") {
        Ok(at) => {
            for block in &mut blocks {
                block.current = block.range.contains(at) || block.range.end == at;
            }
        }
        Err(e) => walk.notes.push(e.to_string()),
    }
    Ok(blocks)
}

/// Walks lists of LoaderHeapBlocks. Visits each block once, since heaps that share a list would otherwise multiply it.
pub(in crate::runtimes::coreclr) struct BlockWalk {
    walks: Walks,
    /// Errors that ended a walk early.
    pub(in crate::runtimes::coreclr) notes: Vec<String>,
}

impl BlockWalk {
    pub(in crate::runtimes::coreclr) fn new(phase: Phase) -> BlockWalk {
        BlockWalk { walks: Walks::new(phase, limits::MAX_LOADER_BLOCKS), notes: Vec::new() }
    }

    /// Returns the blocks from `first` on, all marked as current. The caller corrects that by the heap's allocation
    /// pointer.
    pub(in crate::runtimes::coreclr) fn list(
        &mut self,
        memory: &dyn Memory,
        runtime: &Runtime,
        first: Addr,
        kind: Kind,
        evidence: &str,
    ) -> Vec<HeapBlock> {
        let mut out = Vec::new();
        let end = self.walks.begin().follow(first, |at| {
            let (range, next) = block(memory, runtime, at).map_err(|e| e.to_string())?;
            if range.len() > limits::MAX_LOADER_BLOCK || !range.start.is_aligned(PAGE) {
                return Err(format!("the block is invalid: {range}"));
            }
            out.push(HeapBlock { range, kind, current: true, evidence: evidence.to_owned() });
            Ok(next)
        });
        self.notes.extend(end.err().map(|why| format!("the list of blocks of {evidence} {why}")));
        out
    }
}

/// Reads the range of a LoaderHeapBlock, and the next block of its list.
fn block(memory: &dyn Memory, runtime: &Runtime, at: Addr) -> Result<(AddrRange, Addr), ViewError> {
    let view = StructView::new(memory, &runtime.layout, "LoaderHeapBlock", at);
    let range = AddrRange::sized(view.ptr("pVirtualAddress")?, view.u64("dwVirtualSize")?);
    Ok((range, view.ptr("pNext")?))
}

/// Loader allocators of assemblies, except the global one, ordered by their first assembly.
fn collectible(memory: &dyn Memory, runtime: &Runtime, global: Addr) -> Result<Vec<(Addr, Collectible)>, LoaderError> {
    let mut out: Vec<(Addr, Collectible)> = Vec::new();
    let mut known: HashMap<Addr, usize> = HashMap::new();
    for assembly in domain_assemblies(memory, runtime)? {
        let Ok(Some(address)) = loader_allocator(memory, runtime, assembly) else { continue };
        if address == global || address.is_null() {
            continue;
        }
        let at = *known.entry(address).or_insert(out.len());
        if at == out.len() {
            if out.len() >= limits::MAX_MODULES {
                break;
            }
            out.push((address, Collectible { object: object_of(memory, runtime, address), ..Collectible::default() }));
        }
        if let Some((_, of)) = out.get_mut(at) {
            of.modules.extend(manifest_module(memory, runtime, assembly));
        }
    }
    Ok(out)
}

/// Object of a collectible loader allocator's handle.
fn object_of(memory: &dyn Memory, runtime: &Runtime, allocator: Addr) -> Option<Addr> {
    let handle = StructView::new(memory, &runtime.layout, "LoaderAllocator", allocator).ptr("ObjectHandle").ok()?;
    memory.ptr(handle).ok().filter(|object| !object.is_null())
}

/// Manifest module of an element of the domain's list of assemblies.
pub(in crate::runtimes::coreclr) fn manifest_module(
    memory: &dyn Memory,
    runtime: &Runtime,
    element: Addr,
) -> Option<Addr> {
    let assembly = assembly(memory, runtime, element).ok()??;
    let module = StructView::new(memory, &runtime.layout, "Assembly", assembly).ptr("Module").ok()?;
    (!module.is_null()).then_some(module)
}

/// Elements of the list of assemblies of the process's AppDomain: Assemblies from .NET 11 on, DomainAssemblies before.
pub(in crate::runtimes::coreclr) fn domain_assemblies(
    memory: &dyn Memory,
    runtime: &Runtime,
) -> Result<Vec<Addr>, LoaderError> {
    let layout = &runtime.layout;
    let field = if holds_assemblies(runtime) { "AssemblyList" } else { "DomainAssemblyList" };
    if layout.field("AppDomain", field).is_err() {
        return Ok(Vec::new());
    }
    let domain = runtime.globals.pointer(memory, layout, "AppDomain")?;
    let list = StructView::new(memory, layout, "AppDomain", domain).addr_of(field)?;
    let found = array_list(memory, runtime, list)?;
    // If the layout is another version's, each element's module must refer back to it.
    if !runtime.own_table && holds_assemblies(runtime) {
        let is_own = |&element: &Addr| {
            let module = manifest_module(memory, runtime, element)?;
            let back = StructView::new(memory, layout, "Module", module).ptr("Assembly").ok()?;
            Some(back == element)
        };
        let verdicts: Vec<bool> = found.iter().filter_map(is_own).take(limits::MAX_CHECKED_SEGMENTS).collect();
        if !found.is_empty() && (verdicts.is_empty() || verdicts.contains(&false)) {
            return Err(LoaderError::Assemblies);
        }
    }
    Ok(found)
}

/// Whether the domain's list contains Assemblies themselves, not DomainAssemblies.
fn holds_assemblies(runtime: &Runtime) -> bool {
    runtime.layout.field("AppDomain", "AssemblyList").is_ok()
}

/// The Assembly of an element of the domain's list. `None` if the layout lacks the field that leads to it.
fn assembly(memory: &dyn Memory, runtime: &Runtime, element: Addr) -> Result<Option<Addr>, ViewError> {
    if holds_assemblies(runtime) {
        return Ok(Some(element));
    }
    let view = StructView::new(memory, &runtime.layout, "DomainAssembly", element);
    if view.has("Assembly") { view.ptr("Assembly").map(Some) } else { Ok(None) }
}

/// Loader allocator of an element of the domain's list: from a field of the DomainAssembly, or else from its module.
fn loader_allocator(memory: &dyn Memory, runtime: &Runtime, element: Addr) -> Result<Option<Addr>, ViewError> {
    let layout = &runtime.layout;
    let view = StructView::new(memory, layout, "DomainAssembly", element);
    if view.has("LoaderAllocator") && !holds_assemblies(runtime) {
        return view.ptr("LoaderAllocator").map(Some);
    }
    let Some(assembly) = assembly(memory, runtime, element)? else { return Ok(None) };
    let module = StructView::new(memory, layout, "Assembly", assembly).ptr("Module")?;
    StructView::new(memory, layout, "Module", module).ptr("LoaderAllocator").map(Some)
}

/// Elements of an ArrayList: blocks of pointers, the first one inline.
fn array_list(memory: &dyn Memory, runtime: &Runtime, list: Addr) -> Result<Vec<Addr>, ViewError> {
    let layout = &runtime.layout;
    let view = StructView::new(memory, layout, "ArrayListBase", list);
    let mut left = view.u32("Count")?.min(limits::MAX_MODULES as u32);
    let first = view.addr_of("FirstBlock")?;
    let mut out = Vec::new();
    // Bounds the blocks too: a block without elements does not reduce `left`.
    let walks = Walks::new(Phase::LoaderHeaps, limits::MAX_MODULES);
    let end = walks.begin().follow(first, |block| {
        if left == 0 {
            return Ok(Addr::NULL);
        }
        let view = StructView::new(memory, layout, "ArrayListBlock", block);
        let start = view.addr_of("ArrayStart")?;
        let here = view.u32("Size")?.min(left);
        for i in 0..u64::from(here) {
            if let Ok(element) = memory.ptr(start.saturating_add(8 * i)) {
                out.push(element);
            }
        }
        left -= here;
        view.ptr("Next")
    });
    if let Err(Broken::Unreadable(_, e)) = end {
        return Err(e);
    }
    out.retain(|a| !a.is_null());
    Ok(out)
}
