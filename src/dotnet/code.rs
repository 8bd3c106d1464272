//! Code heaps of the JIT: loader code heaps (methods), host code heaps (dynamic
//! methods).
//!
//! src/coreclr/vm: codeman.h (EEJitManager::m_pAllCodeHeaps, HeapList,
//! LoaderCodeHeap), dynamicmethod.h (HostCodeHeap).

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::dotnet::detect::Runtime;
use crate::dotnet::loader::{AllocatorHeaps, HeapBlock, LoaderError, walk_blocks};
use crate::layout::StructView;
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::process::Process;

/// All code heaps.
pub(super) fn read(process: &Process, runtime: &Runtime) -> Result<AllocatorHeaps, LoaderError> {
    let memory: &dyn Memory = &process.memory;
    let layout = &runtime.layout;
    let manager = runtime.roots.pointer(memory, layout, "EEJitManager")?;
    let mut node = StructView::new(memory, layout, "EEJitManager", manager).ptr("AllCodeHeaps")?;
    let mut seen = HashSet::new();
    let mut blocks = Vec::new();
    while node.0 != 0 && seen.insert(node) && seen.len() < limits::MAX_LIST {
        let view = StructView::new(memory, layout, "CodeHeapListNode", node);
        blocks.extend(code_heap(memory, runtime, view.ptr("pHeap")?, manager)?);
        node = view.ptr("Next")?;
    }
    Ok(AllocatorHeaps { name: "the JIT's code manager".into(), address: manager, blocks })
}

fn code_heap(memory: &dyn Memory, runtime: &Runtime, heap: Addr, manager: Addr) -> Result<Vec<HeapBlock>, LoaderError> {
    let layout = &runtime.layout;
    // Only a HostCodeHeap keeps a pointer to the JIT manager.
    let host = StructView::new(memory, layout, "HostCodeHeap", heap);
    if host.ptr("m_pJitManager").ok() == Some(manager) {
        let range = AddrRange::new(host.ptr("m_pBaseAddr")?, host.ptr("m_pLastAvailableCommittedAddr")?);
        let evidence = format!("HostCodeHeap at {heap}");
        return Ok(vec![HeapBlock { range, kind: Kind::HostCodeHeap, current: true, evidence }]);
    }
    let first = StructView::new(memory, layout, "LoaderCodeHeap", heap).ptr("FirstBlock")?;
    Ok(walk_blocks(memory, runtime, first, Kind::LoaderCodeHeap, &format!("LoaderCodeHeap at {heap}"))?)
}
