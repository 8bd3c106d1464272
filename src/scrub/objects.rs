//! Managed objects: their headers stay, and the locations of strings' characters are known.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange, union};
use crate::runtimes::api::Heap;
use crate::runtimes::api::anatomy::{Anatomy, Scattered, ScrubRules};
use crate::scrub::heaps::{HeapObjects, RunMasks};
use crate::scrub::plan::Use;
use crate::scrub::scattered;
use crate::scrub::words::LOOK_BACK;
use crate::session::Session;
use crate::targets::byte_set::ByteSet;
use crate::targets::reads::NameAt;

/// All managed objects of a process, as far as scrubbing needs them.
#[derive(Default)]
pub(super) struct Objects<'s> {
    /// Heaps whose objects are located by their starts.
    pub(super) heaps: Vec<HeapObjects<'s>>,
    /// Additional bytes of some objects that stay, besides those that their types determine.
    pub(super) heads: ByteSet,
    /// Bytes that stay in any kind of memory.
    pub(super) own: ByteSet,
    /// Bytes of values. They never stay, even if they look like a structure or were read, unless they are in `own`.
    pub(super) values: ByteSet,
    /// Large values; sorted, disjoint.
    pub(super) large_values: Vec<AddrRange>,
    /// Objects outside of heaps. Their bytes are determined when needed.
    pub(super) scattered: Vec<Box<dyn Scattered + 's>>,
    /// Objects whose address reveals a value, each with the object that replaces it.
    pub(super) substitutes: HashMap<u64, u64>,
    /// Lowest and highest address in `substitutes`. Most words point elsewhere.
    substitute_bounds: (u64, u64),
    /// Characters of strings outside of those heaps, with the width of a character in bytes, by address.
    pub(super) texts: Vec<(AddrRange, u8)>,
    /// Names: texts that stay.
    pub(super) named: Vec<NameAt>,
    /// Indices of heaps in which only starts of objects are valid addresses, outside of reference fields.
    pub(super) precise: Vec<usize>,
    /// Heaps that can't be walked well enough for any of this, in words.
    pub(super) given_up: Vec<String>,
}

impl<'s> Objects<'s> {
    /// Whether a word that points into a heap is no address of its objects. Within the heap, fields alone determine
    /// the addresses.
    pub(super) fn is_number(&self, used: Use, value: u64) -> bool {
        let at = Addr::new(value);
        let of = self.precise_heaps().find(|heap| heap.starts.covers(at));
        of.is_some_and(|heap| used == Use::Objects || !at.is_aligned(8) || !heap.starts.has(at))
    }

    /// Whether a word points outside all parts of the heaps in `precise`. False if there is none.
    pub(super) fn is_outside(&self, value: u64) -> bool {
        let mut known = self.precise_heaps().filter(|heap| !heap.starts.is_empty()).peekable();
        known.peek().is_some() && !known.any(|heap| heap.starts.covers(Addr::new(value)))
    }

    /// Returns the replacement for the object at this address, if the object reveals a value.
    pub(super) fn substitute(&self, value: u64) -> Option<u64> {
        let (first, last) = self.substitute_bounds;
        if (first..=last).contains(&value) { self.substitutes.get(&value).copied() } else { None }
    }

    fn precise_heaps(&self) -> impl Iterator<Item = &HeapObjects<'s>> {
        self.precise.iter().filter_map(|&i| self.heaps.get(i))
    }

    /// Adds a heap whose objects are located by their starts.
    fn add_heap(
        &mut self,
        session: &'s Session<'_>,
        heap: &'s dyn Heap,
        anatomy: &dyn Anatomy,
        forms: ScrubRules,
        shown: &HashSet<String>,
    ) {
        let (objects, found) = HeapObjects::new(heap, &session.process.memory, forms, &anatomy.names(shown));
        let is_object = |at: Addr| objects.starts.has(at);
        for object in &found.special {
            anatomy.special(object, &is_object, &mut |at, len| self.heads.add(at, len));
        }
        self.named.extend(found.named);
        if anatomy.only_starts_are_addresses() {
            self.precise.push(self.heaps.len());
        }
        self.heaps.push(objects);
    }

    /// Returns the masks and texts of a run of memory of `words` words.
    pub(super) fn masks(&self, start: Addr, words: usize) -> RunMasks {
        let range = AddrRange::sized(start, 8 * words as u64);
        let mut out = RunMasks::new(start, words);
        self.heaps.iter().for_each(|heap| heap.add_masks(range, &mut out));
        let before = out.texts.len();
        if !self.scattered.is_empty() {
            // A text may have begun before the run.
            let range = AddrRange::new(start.saturating_sub(LOOK_BACK), range.end);
            out.start_masks(range);
            self.scattered.iter().for_each(|objects| scattered::add_masks(&**objects, range, &mut out));
            let first = self.large_values.partition_point(|value| value.end <= range.start);
            let large = self.large_values.iter().skip(first);
            large.take_while(|value| value.start < range.end).for_each(|value| out.add_value(*value));
        }
        let first = self.texts.partition_point(|(text, _)| text.end <= start);
        out.texts.extend(self.texts.iter().skip(first).take_while(|(text, _)| text.start < range.end));
        if let Some(scattered) = out.texts.get_mut(before..) {
            scattered.sort_unstable();
        }
        out.texts.dedup();
        out
    }
}

/// Collects all objects of all runtimes. `shown` are texts that answers print as names of threads; they stay.
pub(super) fn all<'s>(session: &'s Session<'_>, shown: &HashSet<String>) -> Objects<'s> {
    let mut out = Objects::default();
    for runtime in session.runtimes() {
        let anatomy = runtime.anatomy();
        if anatomy.is_some_and(|anatomy| scattered::all(anatomy, shown, &mut out)) {
            continue;
        }
        let Some(heap) = runtime.heap() else { continue };
        match anatomy.and_then(|anatomy| Some((anatomy, anatomy.rules()?))) {
            Some((anatomy, forms)) => out.add_heap(session, heap, anatomy, forms, shown),
            None => {
                out.given_up.push(format!("{}: values and sizes of objects are overwritten", runtime.label()));
            }
        }
    }
    out.texts.sort_unstable();
    out.texts.dedup();
    let ends = (out.substitutes.keys().min(), out.substitutes.keys().max());
    out.substitute_bounds = (ends.0.copied().unwrap_or(0), ends.1.copied().unwrap_or(0));
    out.large_values = union(std::mem::take(&mut out.large_values));
    out
}
