//! PartitionAlloc (Chromium, Electron): super pages of 2 MiB.
//!
//! Each run of super pages has an entry (`PartitionSuperPageExtentEntry`: root, next, count). It is at the start of a
//! metadata page between guards, followed by descriptors of the slot spans (free list, next, bucket), 32 bytes each. A
//! root has its last and its first entry side by side, and the entries are a list. The metadata page is the second page
//! of the super page. Since 2024 it may be at a distance that is constant within a pool; the lists of free slots show
//! it. Source: partition_page_metadata.h, partition_superpage_extent_entry.h, partition_root.h.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange, PAGE};
use crate::limits;
use crate::map::{Kind, Owner};
use crate::memory::walk::Walks;
use crate::phase::Phase;

/// kSuperPageSize
const SUPER_PAGE: u64 = 2 << 20;

/// Maximum size in bytes of a range that begins with an entry. It is one page between guards, or several where pools
/// have their pages side by side.
const MAX_ENTRY_RANGE: u64 = 16 * PAGE;

/// Maximum number of words of a root: its buckets, then its entries. Fewer than 1,000 so far.
const ROOT_WORDS: usize = 2048;

/// Words of a slot span descriptor, and the index of the pointer to its bucket, which is in the root.
const SPAN_WORDS: usize = 4;
const BUCKET: usize = 2;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let image = scene.named(&["chrom", "electron", "libcef", "nwjs", "code"]);
    // Guards on both sides make an entry's page the start of a range of memory. Without a hint from a module's name,
    // large ranges are skipped: each would cost a page read, and a process may have a hundred thousand.
    let small = |range: &&AddrRange| image.is_some() || range.len() <= MAX_ENTRY_RANGE;
    let mut roots: BTreeMap<Addr, BTreeSet<Addr>> = BTreeMap::new();
    for at in scene.unclaimed().iter().filter(small).map(|r| r.start) {
        if let Some(entry) = entry(scene, at) {
            roots.entry(entry.root).or_default().insert(at);
        }
    }
    let owner = image.or_else(|| scene.images.iter().find(|i| i.is_program)).map_or(Owner::None, |i| i.owner);
    let walks = Walks::new(Phase::Foreign, limits::MAX_FOREIGN_RANGES);
    for (root, candidates) in roots.into_iter().take(limits::MAX_PARTITIONS) {
        let Some(list) = entries(scene, &walks, root, &candidates) else { continue };
        let Some(distance) = distance(scene, root, &list) else { continue };
        let (mut memory, mut own) = (Vec::new(), Vec::new());
        for (at, entry) in &list {
            memory.extend(at.checked_offset(distance).map(|start| AddrRange::sized(start, entry.count * SUPER_PAGE)));
            own.extend((0..entry.count).map(|i| AddrRange::sized(at.saturating_add(i * SUPER_PAGE), PAGE)));
        }
        let evidence =
            format!("{} runs of super pages of root {root}; root and entries point to each other", list.len());
        found.add(memory, &Label::derived(Kind::Allocator, owner, "PartitionAlloc", evidence));
        let label =
            Label::derived(Kind::Allocator, owner, "PartitionAlloc: allocator structures", "super page entries");
        found.add(own, &label);
    }
}

/// A `PartitionSuperPageExtentEntry`.
struct Entry {
    root: Addr,
    next: Addr,
    count: u64,
}

fn entry(scene: &Scene<'_>, at: Addr) -> Option<Entry> {
    let [root, next, counts] = scene.words(at)?;
    let [root, next] = [root, next].map(Addr::new);
    let count = counts & 0xffff;
    let sound = !root.is_null()
        && root.is_aligned(16)
        && next.is_aligned(PAGE)
        && count > 0
        && counts >> 32 == 0
        && scene.memory.readable(root, 8) == 8;
    sound.then_some(Entry { root, next, count })
}

/// Returns all entries of a root, if the root has the first and the last of them.
fn entries(scene: &Scene<'_>, walks: &Walks, root: Addr, candidates: &BTreeSet<Addr>) -> Option<Vec<(Addr, Entry)>> {
    // The root may be only partly in the core.
    let len = scene.memory.readable(root, 8 * ROOT_WORDS as u64);
    let mut words: Vec<Addr> = Vec::new();
    scene.each_word(AddrRange::sized(root, len), |addr, word| {
        words.resize((addr.since(root) / 8) as usize, Addr::NULL);
        words.push(Addr::new(word));
    });
    let sides = words.windows(2).filter_map(|w| w.first().zip(w.last()));
    let first = sides.filter(|(last, first)| candidates.contains(last) && candidates.contains(first)).map(|(_, f)| *f);
    first.into_iter().find_map(|first| {
        let mut out = Vec::new();
        let end = walks.begin_own_set().follow(first, |at| {
            let entry = entry(scene, at).filter(|e| e.root == root).ok_or("it is not an entry of this root")?;
            let next = entry.next;
            out.push((at, entry));
            Ok::<_, &str>(next)
        });
        if let Err(e) = end {
            tracing::debug!("super pages of {root}: {e}");
            return None;
        }
        out.iter().for_each(|(at, _)| scene.keep(*at, 3));
        Some(out)
    })
}

/// Returns the distance from an entry to its super page, by a vote of the lists of free slots.
fn distance(scene: &Scene<'_>, root: Addr, list: &[(Addr, Entry)]) -> Option<i64> {
    let of_root = AddrRange::sized(root, 8 * ROOT_WORDS as u64);
    let mut votes: BTreeMap<i64, usize> = BTreeMap::new();
    for (at, _) in list {
        let Some(words) = scene.words::<512>(*at) else { continue };
        for span in words.chunks_exact(SPAN_WORDS).skip(1) {
            let free = span.first().map_or(Addr::NULL, |w| Addr::new(*w));
            let its = span.get(BUCKET).is_some_and(|w| of_root.contains(Addr::new(*w)));
            if its && scene.unclaimed_at(free).is_some() {
                *votes.entry(free.align_down(SUPER_PAGE).offset_from(*at)).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|(_, n)| *n).map(|(distance, _)| distance)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;

    const ROOT: u64 = 0x1_0000;
    const HEAP: u64 = 0x1c8c_0000_0000;

    /// Two super pages, with their entries `far` bytes above them. The root says that its first entry is at `first`.
    fn recognise(far: u64, first: u64) -> Vec<(AddrRange, Label)> {
        let mut lab = Lab::default();
        lab.map(ROOT, 0x4000).put(ROOT + 0x1658, &[HEAP + SUPER_PAGE + far, first]);
        let mut open = Vec::new();
        for (i, next) in [(0, HEAP + SUPER_PAGE + far), (1, 0)] {
            let at = HEAP + i * SUPER_PAGE;
            let page = at + far;
            lab.map(page, PAGE as usize).put(page, &[ROOT, next, 0x3_0001]);
            lab.put(page + 32 * 3, &[at + 0xc880, 0, ROOT + 0x128]);
            lab.map(at + 0x4000, 0x1000);
            open.extend([range(page, PAGE), range(at + 0x4000, 0x1f_8000)]);
        }
        lab.recognise(find, ("chromium", range(ROOT, 0x4000)), &open)
    }

    #[test]
    fn a_root_and_its_entries_lead_to_each_other() {
        for far in [0x1000, 0xc97_239f_5000] {
            let found = recognise(far, HEAP + far);
            assert_eq!((found[0].0, found[0].1.detail.as_str()), (range(HEAP, 2 * SUPER_PAGE), "PartitionAlloc"));
            assert_eq!(found[1].0, range(HEAP + far, PAGE));
        }
    }

    #[test]
    fn a_root_that_does_not_has_none() {
        assert!(recognise(0x1000, HEAP + 0x2000).is_empty());
    }
}
