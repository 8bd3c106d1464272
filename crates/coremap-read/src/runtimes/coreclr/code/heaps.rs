//! Code heaps of the JIT: loader code heaps (methods) and host code heaps (dynamic methods).
//!
//! Sources: src/coreclr/vm: codeman.h (EEJitManager::m_pAllCodeHeaps, HeapList, LoaderCodeHeap), dynamicmethod.h
//! (HostCodeHeap).

use crate::addr::{Addr, AddrRange};
use crate::layout::{StructView, ViewError};
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::coreclr::loader::{AllocatorHeaps, BlockWalk, HeapBlock, LoaderError};
use crate::runtimes::coreclr::runtime::Runtime;

/// Reads all code heaps. Returns them with messages about what could not be read.
pub(in crate::runtimes::coreclr) fn read(
    process: &Process,
    runtime: &Runtime,
) -> Result<(AllocatorHeaps, Vec<String>), LoaderError> {
    let memory: &dyn Memory = &process.memory;
    let layout = &runtime.layout;
    let manager = runtime.globals.pointer(memory, layout, "EEJitManager")?;
    let first = StructView::new(memory, layout, "EEJitManager", manager).ptr("AllCodeHeaps")?;
    let mut walk = BlockWalk::new(Phase::CodeHeaps);
    let mut blocks = Vec::new();
    let nodes = Walks::new(Phase::CodeHeaps, limits::MAX_LOADER_BLOCKS);
    let end = nodes.begin().follow(first, |node| {
        let view = StructView::new(memory, layout, "CodeHeapListNode", node);
        let heap = view.ptr("pHeap")?;
        let found = code_heap(memory, runtime, heap, manager, &mut walk)?;
        if !runtime.own_table {
            // The layout of another version fits only if a block contains the node's code.
            let base = view.ptr("MapBase")?;
            if !found.iter().any(|block| block.range.contains(base)) {
                walk.notes.push(format!("the code heap at {heap} has no block with its code at {base}"));
                return view.ptr("Next");
            }
        }
        blocks.extend(found);
        view.ptr("Next")
    });
    walk.notes.extend(end.err().map(|why| format!("the list of code heaps {why}")));
    Ok((
        AllocatorHeaps { name: "the JIT's code manager".into(), address: manager, blocks, collectible: None },
        walk.notes,
    ))
}

fn code_heap(
    memory: &dyn Memory,
    runtime: &Runtime,
    heap: Addr,
    manager: Addr,
    walk: &mut BlockWalk,
) -> Result<Vec<HeapBlock>, ViewError> {
    let layout = &runtime.layout;
    let host = StructView::new(memory, layout, "HostCodeHeap", heap);
    let kind = StructView::new(memory, layout, "CodeHeap", heap);
    let (is_host, bounds) = if kind.has("HeapType") {
        let is_host = layout.constant("CodeHeap", "Host") == Ok(u64::from(kind.u8("HeapType")?));
        (is_host, ("BaseAddress", "CurrentAddress"))
    } else {
        // Up to .NET 10 only a HostCodeHeap has a pointer to the JIT manager.
        (host.ptr("m_pJitManager").ok() == Some(manager), ("m_pBaseAddr", "m_pLastAvailableCommittedAddr"))
    };
    if is_host {
        let range = AddrRange::new(host.ptr(bounds.0)?, host.ptr(bounds.1)?);
        if range.len() > limits::MAX_LOADER_BLOCK {
            walk.notes.push(format!("the HostCodeHeap at {heap} has an implausible range: {range}"));
            return Ok(Vec::new());
        }
        let evidence = format!("HostCodeHeap at {heap}");
        return Ok(vec![HeapBlock { range, kind: Kind::HostCodeHeap, current: true, evidence }]);
    }
    let loader = StructView::new(memory, layout, "LoaderCodeHeap", heap);
    let first = if loader.has("LoaderHeap") {
        StructView::new(memory, layout, "LoaderHeap", loader.addr_of("LoaderHeap")?).ptr("FirstBlock")?
    } else {
        loader.ptr("FirstBlock")?
    };
    Ok(walk.list(memory, runtime, first, Kind::LoaderCodeHeap, &format!("LoaderCodeHeap at {heap}")))
}
