//! Counts the slots of musl's malloc by class, size and content.

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::analysis::blocks::{BlockReader, Tally};
use crate::commands::malloc::report::{GroupClassRow, MallocTotal, MallocngRow, MmappedRow, OtherHeapRow};
use crate::diag::WarningCode;
use crate::native::malloc::extents::Sum;
use crate::native::malloc::{ExtentHeap, Mallocng, Slot, SlotState, Source, State};
use crate::phase::Phase;
use crate::process::Process;
use crate::report::ChunkSum;
use crate::sums::SaturatingAdd;
use crate::units::{count, exact, human};

/// Slots of some groups.
#[derive(Default)]
pub(super) struct SlotTally {
    /// Slots in groups.
    pub(super) inside: Tally,
    /// Slots with a separate mapping.
    pub(super) mapped: Tally,
    classes: BTreeMap<u8, GroupClassRow>,
    requested: u64,
    damaged: u64,
    /// First used block with an invalid header.
    first_damaged: Option<Addr>,
}

impl SlotTally {
    fn add(&mut self, musl: &Mallocng, slot: &Slot, reader: &BlockReader<'_>) {
        let tally = if slot.mapped { &mut self.mapped } else { &mut self.inside };
        tally.add_slot(slot, reader);
        self.damaged.add_saturating(u64::from(slot.damaged));
        self.first_damaged = self.first_damaged.or(slot.damaged.then_some(slot.range.start));
        // If the header is invalid, the whole slot counts as requested.
        let requested = if slot.state == SlotState::Used { slot.block.len() } else { 0 };
        self.requested = self.requested.saturating_add(requested);
        let Some(group) = musl.groups.get(slot.group).filter(|_| !slot.mapped) else { return };
        let row = self.classes.entry(group.class).or_default();
        row.asked = row.asked.saturating_add(requested);
    }
}

/// Visits all slots. Returns their sums, by address.
pub(super) fn walk(process: &Process, musl: &Mallocng, reader: &BlockReader<'_>) -> Vec<SlotTally> {
    musl.walk_many(process, SlotTally::default, |share, slot| share.add(musl, slot, reader))
}

/// Returns the row about mallocng, or `None` if the process does not use it. Adds its sums to `total` and `mmapped`.
pub(super) fn row(
    process: &Process,
    musl: &Mallocng,
    shares: &[SlotTally],
    total: &mut MallocTotal,
    mmapped: &mut MmappedRow,
) -> Option<MallocngRow> {
    if musl.is_empty() {
        return None;
    }
    let mut row = MallocngRow {
        context: musl.context.start,
        areas: musl.areas.len() as u64,
        groups: musl.groups.len() as u64,
        nested: musl.groups.iter().filter(|g| g.from == Source::Slot).count() as u64,
        donated: musl.groups.iter().filter(|g| g.from == Source::Donated).count() as u64,
        complete: musl.is_whole(),
        ..MallocngRow::default()
    };
    let mut classes: BTreeMap<u8, GroupClassRow> = BTreeMap::new();
    for group in &musl.groups {
        let (used, free) = group.counts();
        if group.is_single() {
            mmapped.count += 1;
            mmapped.free.add_saturating(free);
            mmapped.bytes = mmapped.bytes.saturating_add(group.range.len());
            continue;
        }
        let class = classes.entry(group.class).or_default();
        (class.class, class.slot) = (u64::from(group.class), group.stride);
        class.groups += 1;
        class.used.add_saturating(used);
        class.free.add_saturating(free);
        class.used_bytes = class.used_bytes.saturating_add(used.saturating_mul(group.stride));
        class.free_bytes = class.free_bytes.saturating_add(free.saturating_mul(group.stride));
    }
    let mut requested = 0_u64;
    for share in shares {
        requested = requested.saturating_add(share.requested);
        row.damaged.add_saturating(share.damaged);
        for (class, sum) in &share.classes {
            if let Some(class) = classes.get_mut(class) {
                class.asked = class.asked.saturating_add(sum.asked);
            }
        }
        for tally in [&share.inside, &share.mapped] {
            let of = |state: State| tally.states.get(state as usize).copied().unwrap_or_default();
            let (used, free) = (of(State::Used), of(State::Unlisted));
            total.used.add_saturating(used.count);
            total.used_bytes = total.used_bytes.saturating_add(used.bytes);
            total.free.add_saturating(free.count);
            total.free_bytes = total.free_bytes.saturating_add(free.bytes);
        }
    }
    row.classes = classes.into_values().collect();
    total.asked = Some(requested);
    let split = musl.split();
    total.committed = total.committed.saturating_add(musl.committed());
    total.overhead = total.overhead.saturating_add(split.overhead);
    warn_missing(process, musl, &row, shares.iter().find_map(|s| s.first_damaged));
    Some(row)
}

/// Returns the row about another allocator's heap, and the sums of its blocks. Adds them to `total`.
pub(super) fn other(
    process: &Process,
    heap: &ExtentHeap,
    reader: &BlockReader<'_>,
    total: &mut MallocTotal,
) -> (OtherHeapRow, Vec<SlotTally>) {
    let _phase = process.enter(Phase::Blocks);
    let shares = heap.walk_many(SlotTally::default, |share, slot| share.inside.add_slot(slot, reader));
    let (used, free, cached) = heap.sums();
    let sum = |sum: Sum| ChunkSum { count: sum.count, bytes: sum.bytes };
    let active = heap.active();
    total.committed = total.committed.saturating_add(heap.committed);
    total.used.add_saturating(used.count);
    total.used_bytes = total.used_bytes.saturating_add(used.bytes);
    total.free.add_saturating(free.count);
    total.free_bytes = total.free_bytes.saturating_add(free.bytes);
    total.trimmed = total.trimmed.saturating_add(heap.free_extents());
    total.unknown = total.unknown.saturating_add(heap.unknown);
    let inside = used.bytes.saturating_add(free.bytes);
    total.overhead = total.overhead.saturating_add(active.min(heap.committed).saturating_sub(inside));
    if heap.unsound > 0 {
        let (extents, bytes) = (count(heap.unsound, "extent"), human(heap.unknown));
        let text = format!(
            "{extents} of {} ({bytes}) with inconsistent or missing structures; their blocks count as unknown",
            heap.name
        );
        process.diag.partial(WarningCode::MallocWalk, text);
    }
    if heap.without_cache > 0 {
        let threads = count(heap.without_cache, "thread");
        process.diag.partial(
            WarningCode::MallocList,
            format!("the {} caches of {threads} could not be read: blocks in them count as used", heap.name),
        );
    }
    let row = OtherHeapRow {
        name: heap.name.to_string(),
        committed: heap.committed,
        extents: heap.extents.len() as u64,
        active,
        unknown: heap.unknown,
        used: sum(used),
        free: sum(free),
        cached: sum(cached),
        without_cache: heap.without_cache,
    };
    (row, shares)
}

/// Adds a warning for everything that is missing from the sums.
fn warn_missing(process: &Process, musl: &Mallocng, row: &MallocngRow, damaged: Option<Addr>) {
    let warn = |text: String| process.diag.partial(WarningCode::MallocWalk, text);
    if let Some(why) = &musl.broken {
        warn(why.clone());
    }
    if musl.unproven > 0 {
        warn(format!(
            "{} in use with a group that is not in the core or does not point back",
            count(musl.unproven, "meta")
        ));
    }
    if musl.orphans > 0 {
        warn(format!("{} in slots of an unknown group", count(musl.orphans, "group")));
    }
    if let Some(first) = damaged {
        warn(format!(
            "{} used blocks have a damaged header (first: slot at {first}), probably by a write past the end of the \
             preceding block",
            exact(row.damaged)
        ));
    }
    if !row.complete && musl.unproven == 0 && musl.broken.is_none() {
        warn("the number of slots differs from mallocng's count".to_owned());
    }
    if musl.capped {
        process.diag.partial(WarningCode::Limit, "too many groups of musl's malloc: the rest are not read");
    }
}
