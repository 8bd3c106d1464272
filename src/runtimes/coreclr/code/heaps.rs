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
        blocks.extend(code_heap(memory, runtime, heap, manager, &mut walk)?);
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
    // Only a HostCodeHeap has a pointer to the JIT manager.
    let host = StructView::new(memory, layout, "HostCodeHeap", heap);
    if host.ptr("m_pJitManager").ok() == Some(manager) {
        let range = AddrRange::new(host.ptr("m_pBaseAddr")?, host.ptr("m_pLastAvailableCommittedAddr")?);
        if range.len() > limits::MAX_LOADER_BLOCK {
            walk.notes.push(format!("the HostCodeHeap at {heap} has an implausible range: {range}"));
            return Ok(Vec::new());
        }
        let evidence = format!("HostCodeHeap at {heap}");
        return Ok(vec![HeapBlock { range, kind: Kind::HostCodeHeap, current: true, evidence }]);
    }
    let first = StructView::new(memory, layout, "LoaderCodeHeap", heap).ptr("FirstBlock")?;
    Ok(walk.list(memory, runtime, first, Kind::LoaderCodeHeap, &format!("LoaderCodeHeap at {heap}")))
}
