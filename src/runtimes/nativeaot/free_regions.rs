//! Regions without objects that the GC keeps. NativeAOT's GcDacVars has no pointer to their lists, so the lists are
//! found by their shape in the module's variables.
//!
//! A `region_free_list` counts its regions and their bytes (src/coreclr/gc/gcpriv.h). Its regions' structs are in the
//! GC's bookkeeping. A list is believed only if all of its counters are right.

use crate::addr::Addr;
use crate::image::ModuleKind;
use crate::limits;
use crate::runtimes::clr_gc::{FreeRegion, counted_free_list};
use crate::runtimes::nativeaot::bookkeeping::Bookkeeping;
use crate::runtimes::nativeaot::runtime::Runtime;

pub(super) fn find(runtime: &Runtime<'_>, bookkeeping: &Bookkeeping) -> Vec<FreeRegion> {
    let module = runtime.process.modules.get(runtime.module);
    let Some(ModuleKind::Elf(image)) = module.map(|module| &module.kind) else { return Vec::new() };
    let field = |name| runtime.layout.positive("region_free_list", name);
    let (Ok(head), Ok(tail)) = (field("head_free_region"), field("tail_free_region")) else { return Vec::new() };
    let memory = runtime.memory;
    let nodes = bookkeeping.range;
    let is_node = |word: Option<&u64>| word.is_some_and(|&word| nodes.contains(Addr::new(word)));
    // All lists that are tried have no more regions together than there can be, so the time is bounded.
    let mut left = limits::MAX_GC_SEGMENTS;
    let mut out = Vec::new();
    for part in image.writable_parts(memory) {
        let Ok(bytes) = memory.look(part.start, part.len() as usize) else { continue };
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let apart = (tail.saturating_sub(head) / 8) as usize;
        for (i, word) in words.iter().enumerate() {
            if !is_node(Some(word)) || !is_node(words.get(i.saturating_add(apart))) {
                continue;
            }
            let at = part.start.saturating_add(8 * i as u64).checked_sub(head);
            let Some(at) = at else { continue };
            let read = || counted_free_list(runtime.gc(), at, nodes, &mut left);
            out.extend(runtime.process.reads().attempt(read).unwrap_or_default());
        }
    }
    out
}
