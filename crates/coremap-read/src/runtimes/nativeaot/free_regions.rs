//! Regions without objects that the GC keeps. NativeAOT's GcDacVars has no pointer to their lists, so the lists are
//! found by their shape in the module's variables.
//!
//! A `region_free_list` counts its regions and their bytes (src/coreclr/gc/gcpriv.h). Its regions' structs are in the
//! GC's bookkeeping. A list is believed only if all of its counters are right.

use crate::addr::{Addr, WORD};
use crate::image::ModuleKind;
use crate::limits;
use crate::runtimes::clr_gc::{FreeRegion, counted_free_list};
use crate::runtimes::nativeaot::bookkeeping::Bookkeeping;
use crate::runtimes::nativeaot::runtime::Runtime;

/// Returns the regions of all lists that are found.
pub(super) fn find(runtime: &Runtime<'_>, bookkeeping: &Bookkeeping) -> Vec<FreeRegion> {
    let module = runtime.process.modules.get(runtime.module);
    let Some(ModuleKind::Elf(image)) = module.map(|module| &module.kind) else { return Vec::new() };
    let field = |name| runtime.layout.positive("region_free_list", name);
    let (Ok(head), Ok(tail)) = (field("head_free_region"), field("tail_free_region")) else { return Vec::new() };
    let memory = runtime.memory();
    let nodes = bookkeeping.range;
    let is_node = |word: u64| nodes.contains(Addr::new(word));
    let distance = (tail.saturating_sub(head) / WORD) as usize;
    // One limit for all lists that are tried bounds the time.
    let mut left = limits::MAX_GC_SEGMENTS;
    let mut out = Vec::new();
    for (start, words) in image.writable_words(memory) {
        let pairs = words.iter().zip(words.iter().skip(distance)).enumerate();
        for (i, _) in pairs.filter(|(_, (first, last))| is_node(**first) && is_node(**last)) {
            let Some(at) = start.saturating_add(WORD * i as u64).checked_sub(head) else { continue };
            let read = || counted_free_list(runtime.gc(), at, nodes, &mut left);
            out.extend(runtime.process.reads().attempt(read).unwrap_or_default());
        }
    }
    out
}
