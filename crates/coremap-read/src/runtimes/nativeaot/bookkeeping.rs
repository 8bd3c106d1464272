//! The GC's card table and other bookkeeping, and its reserved range. No known structure refers to them, so they are
//! found by their shape in the module's variables.
//!
//! Two adjacent words are the lowest and highest address of the heap (g_lowest_address, g_highest_address). One of the
//! words before them is the address of the card table, minus the table's share for addresses below the heap. A header
//! that precedes the table has the same two addresses, which confirms all of them (src/coreclr/gc/gc.cpp:
//! card_table_info, translate_card_table).

use crate::addr::{Addr, AddrRange};
use crate::image::ModuleKind;
use crate::limits;
use crate::runtimes::api::Segment;
use crate::runtimes::nativeaot::runtime::Runtime;

/// Number of words before the two addresses that may refer to the card table.
const NEAR: usize = 4;

pub(super) struct Bookkeeping {
    /// Lowest to highest address of the heap.
    pub(super) bounds: AddrRange,
    /// The card table and other bookkeeping.
    pub(super) range: AddrRange,
}

/// Finds the bookkeeping. The heap's bounds must include all `segments` that are not frozen.
pub(super) fn find(runtime: &Runtime<'_>, segments: &[Segment]) -> Option<Bookkeeping> {
    let module = runtime.process.modules.get(runtime.module)?;
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let collected = || segments.iter().filter(|s| !s.generation.managed().frozen);
    let lowest = collected().map(|s| s.start).min()?;
    let highest = collected().map(|s| s.end).max()?;
    let memory = runtime.memory();
    let mut tries = limits::MAX_BOOKKEEPING_TRIES;
    for (start, words) in image.writable_words(memory) {
        for (i, pair) in words.windows(2).enumerate() {
            let [low, high] = [pair.first(), pair.get(1)].map(|word| Addr::new(word.copied().unwrap_or(0)));
            if low > lowest || high < highest || high.since(low) > limits::MAX_RUNTIME_RANGE || !low.is_aligned(4096) {
                continue;
            }
            if tries == 0 {
                return None;
            }
            tries -= 1;
            let tables = words.get(i.saturating_sub(NEAR)..i).unwrap_or_default();
            let bounds = AddrRange::new(low, high);
            let first = i - tables.len();
            let proven = |(n, &table): (usize, &u64)| Some((first + n, prove(runtime, bounds, table)?));
            if let Some((place, found)) = tables.iter().enumerate().rev().find_map(proven) {
                for word in [place, i, i + 1] {
                    memory.keep(start.saturating_add(8 * word as u64), 8);
                }
                return Some(found);
            }
        }
    }
    None
}

/// Checks that `table` refers to the card table of a heap with these bounds.
fn prove(runtime: &Runtime<'_>, bounds: AddrRange, table: u64) -> Option<Bookkeeping> {
    let ratio = runtime.layout.constant("card_table", "heap_bytes_a_byte").ok().filter(|&ratio| ratio > 0)?;
    let cards = Addr::new(table).checked_add(bounds.start.get().checked_div(ratio)?)?;
    let head = cards.checked_sub(runtime.layout.size("card_table_info").ok()?)?;
    let view = runtime.view("card_table_info", head);
    let same = view.ptr("lowest_address").ok()? == bounds.start && view.ptr("highest_address").ok()? == bounds.end;
    let size = view.u64("size").ok().filter(|&size| same && size <= limits::MAX_GC_BOOKKEEPING)?;
    Some(Bookkeeping { bounds, range: AddrRange::sized(head, size) })
}
