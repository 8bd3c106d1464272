//! ZGC: a table with the page of each granule of the address space (src/hotspot/share/gc/z: zPage.hpp, zPageTable.hpp,
//! zGranuleMap.hpp; in 21 to 23 the non-generational collector is gc/x).

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::memory::window::Window;
use crate::runtimes::hotspot::classes::{Classes, WORD, z_prefix};
use crate::runtimes::hotspot::heap::spaces::{Generation, Space};
use crate::runtimes::hotspot::vm::VmError;

pub(super) fn read(classes: &Classes<'_>, heap: Addr, notes: &mut Vec<String>) -> Result<Vec<Space>, VmError> {
    let vm = &classes.vm;
    let z = |name: &str| format!("{}{name}", z_prefix(vm));
    let (collected, inner, table, granules, page_type, memory) =
        (z("CollectedHeap"), z("Heap"), z("PageTable"), z("GranuleMapForPageTable"), z("Page"), z("VirtualMemory"));
    let inner = vm.at(&inner, vm.at(&collected, heap).addr_of("_heap")?);
    let table = vm.at(&table, inner.addr_of("_page_table")?);
    let holder = vm.at(&granules, table.addr_of("_map")?);
    let map = holder.ptr("_map")?;
    let shift = vm.constant(&z("GranuleSizeShift")).and_then(|s| u32::try_from(s).ok()).filter(|&s| s < 64);
    let shift = shift.ok_or(VmError::Invalid { what: "no ZGC granule size", at: map })?;
    let offsets = classes.encoding.heap_offsets().unwrap_or(0);
    let limit = (offsets >> shift).min(limits::MAX_ZGC_GRANULES);
    // ZGranuleMap has its size before its array, but no table lists that field. The word is accepted if it is
    // plausible. In JDK 25 the table ends before the address space does.
    let before = holder.addr_of("_map")?.checked_sub(WORD).filter(|at| *at == holder.addr);
    let size = before.and_then(|at| vm.memory.u64(at).ok()).filter(|size| (1..=limit).contains(size));
    let count = size.unwrap_or(limit);
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    let mut lost = 0_u64;
    // The table covers terabytes of address space and is nearly empty.
    for window in Window::written(vm.process.target(), AddrRange::sized(map, count * WORD)) {
        for at in (window.start..window.end).step_by(WORD as usize) {
            let Some(page) = window.word(at).filter(|&page| page != 0) else { continue };
            if !seen.insert(page) {
                continue;
            }
            if out.len() as u64 >= limits::MAX_HEAP_REGIONS {
                notes.push("more heap pages than the limit; the others are ignored".to_owned());
                return Ok(out);
            }
            let offset = (Addr::new(at).since(map) / WORD).saturating_mul(1 << shift);
            let page = vm.at(&page_type, Addr::new(page));
            let Ok(range) = page.addr_of("_virtual") else { continue };
            let range = vm.at(&memory, range);
            let (Ok(start), Ok(top), Ok(kind)) = (range.ptr("_start"), page.ptr("_top"), page.number("_type")) else {
                lost += 1;
                continue;
            };
            let end =
                if range.has("_end") { range.ptr("_end")? } else { start.saturating_add(range.ptr("_size")?.get()) };
            // If the size is unknown, any data may follow the table. A page must contain the granule that led to it.
            if !(start.get()..end.get()).contains(&offset) || end.get() > offsets || !start.is_aligned(1 << shift) {
                continue;
            }
            let generation = [Generation::Small, Generation::Medium, Generation::Large].get((kind & 0xff) as usize);
            // A small page is one granule (ZPageSizeSmall). Memory that was freed in one piece has an entry too (JDK
            // 25).
            if generation == Some(&Generation::Small) && end.since(start) != 1 << shift {
                continue;
            }
            let to_addr = |offset: Addr| classes.encoding.at_heap_offset(offset.get());
            let generation = generation.copied().unwrap_or(Generation::Other);
            let space = Space::new(generation, to_addr(start), to_addr(top), to_addr(end));
            out.push(Space { one_object: generation == Generation::Large, ..space });
        }
    }
    if lost > 0 {
        notes.push(format!("{lost} entries of the page table point to unreadable memory"));
    }
    Ok(out)
}
