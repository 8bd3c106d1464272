//! Isolates: each has a heap, a table of roots, and areas that allocators are filling.
//!
//! An isolate contains its heap. The table of roots is before the heap, at a distance that no constant has. It is found
//! by its contents: undefined, (the hole), null, true and false in a row (roots.h).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::registers::Regs;
use crate::runtimes::v8::pages::{PAGE, Page};
use crate::runtimes::v8::vm::{Vm, strong};

/// Maximum distance in bytes from the table of roots to the isolate's heap.
const MAX_ROOTS_DISTANCE: u64 = 0x14000;

/// Size in bytes of the isolate's first fields, which precede the table of roots.
const BEFORE_ROOTS: u64 = 0x800;

/// Size in bytes of the part after the heap's start that contains its allocators and the isolate's other fields.
const AFTER_HEAP: u64 = 0x4000;

/// Size in bytes of the part of a space that may contain its allocator.
const SPACE: u64 = 0x400;

/// Size in words of a separate structure with an allocation area, to which a space may refer.
const AREA_WORDS: u64 = 16;

/// Kinds of oddballs (oddball.h) in the order of the table: null, true, false.
const NULL_TRUE_FALSE: [u64; 3] = [3, 1, 0];

/// One isolate.
#[derive(Clone, Debug)]
pub(super) struct Isolate {
    /// Address of its heap.
    pub heap: Addr,
    /// Address of its table of roots.
    pub roots: Addr,
    /// System thread that runs it. `None` if none was found.
    pub tid: Option<u32>,
    /// `main`, or `worker` with its thread.
    pub name: String,
}

impl Isolate {
    /// Returns the address range of the isolate's own fields that is scanned.
    pub(super) fn fields(&self) -> AddrRange {
        AddrRange::new(self.roots.saturating_sub(BEFORE_ROOTS), self.heap.saturating_add(AFTER_HEAP))
    }
}

/// Finds the isolates of the heaps that pages refer to. The main thread's comes first, if it is known.
pub(super) fn find(vm: &Vm<'_>) -> Vec<Isolate> {
    let heaps: BTreeSet<Addr> = vm.pages.iter().map(|page| page.heap).filter(|heap| !heap.is_null()).collect();
    let heaps = heaps.into_iter().take(limits::MAX_V8_ISOLATES);
    let mut out: Vec<Isolate> = heaps
        .filter_map(|heap| Some(Isolate { heap, roots: roots(vm, heap)?, tid: None, name: String::new() }))
        .collect();
    let stacks = stacks(vm.process);
    for isolate in &mut out {
        isolate.tid = thread(vm, isolate, &stacks);
    }
    let main = vm.process.main_tid();
    // The main thread makes its isolate first, so a single isolate belongs to it.
    if let [only] = out.as_mut_slice() {
        only.tid = only.tid.or(main);
    }
    out.sort_by_key(|isolate| (isolate.tid.is_none() || isolate.tid != main, isolate.tid, isolate.heap));
    for isolate in &mut out {
        isolate.name = match isolate.tid {
            Some(tid) if Some(tid) == main => "main".to_owned(),
            Some(tid) => format!("worker of thread {tid}"),
            None => format!("isolate at {}", isolate.heap),
        };
    }
    out
}

/// Finds the table of roots of the isolate that contains `heap`.
fn roots(vm: &Vm<'_>, heap: Addr) -> Option<Addr> {
    let undefined = u64::try_from(vm.constants.get("OddballUndefined")?).ok()?;
    let low = heap.checked_sub(MAX_ROOTS_DISTANCE)?;
    // The isolate may begin in the middle of the searched memory.
    let parts = vm.memory.readable_parts(AddrRange::new(low, heap), MAX_ROOTS_DISTANCE);
    let part = parts.last().filter(|part| part.end == heap)?;
    let words = vm.words(part.start.align_up(8).get(), part.len() / 8);
    let kind = |word: u64| Some(vm.field(strong(word)?, vm.offsets.oddball_kind)? >> 32);
    let is_roots = |five: &[u64]| {
        let [first, hole, rest @ ..] = five else { return false };
        let known = rest.iter().zip(NULL_TRUE_FALSE).all(|(word, wanted)| kind(*word) == Some(wanted));
        known && strong(*hole).is_some() && kind(*first) == Some(undefined)
    };
    let place = words.windows(5).rposition(is_roots)? as u64;
    let first = place.checked_sub(vm.form.undefined)?;
    part.start.align_up(8).checked_add(8 * first)
}

/// Returns the mapping that contains each thread's stack pointer.
fn stacks(process: &Process) -> Vec<(u32, AddrRange, Addr)> {
    let of = |thread: &crate::targets::Thread| {
        let sp = Regs::of_thread(process.arch(), &thread.registers).sp();
        Some((thread.tid, process.space().pieces.at(sp)?.range, sp))
    };
    process.threads().iter().filter_map(of).collect()
}

/// Returns the thread whose stack most of the isolate's fields point at: stack limits and last frames.
fn thread(vm: &Vm<'_>, isolate: &Isolate, stacks: &[(u32, AddrRange, Addr)]) -> Option<u32> {
    let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
    let own = isolate.fields();
    for part in vm.memory.readable_parts(own, own.len()) {
        for word in vm.words(part.start.align_up(8).get(), part.len() / 8) {
            let at = Addr::new(word);
            for (tid, _, _) in stacks.iter().filter(|(_, stack, _)| stack.contains(at)) {
                *votes.entry(*tid).or_default() += 1;
            }
        }
    }
    votes.into_iter().max_by_key(|(tid, n)| (*n, std::cmp::Reverse(*tid))).map(|(tid, _)| tid)
}

/// Finds the parts of pages that allocators reserved and have not used, by address: from top to limit.
///
/// An allocation area is three addresses in a row in one page: start <= top <= limit. Allocators are fields of the
/// isolate and its spaces, or these refer to them.
pub(super) fn allocation_areas(vm: &Vm<'_>, isolate: &Isolate) -> Vec<AddrRange> {
    let owners: BTreeSet<Addr> =
        vm.pages.iter().filter(|page| page.heap == isolate.heap).map(|page| page.owner).collect();
    let mut found: BTreeMap<Addr, Addr> = BTreeMap::new();
    let mut scan = |words: &[u64]| {
        for three in words.windows(3) {
            let &[start, top, limit] = three else { continue };
            let in_order = start != 0 && start <= top && top <= limit && start != limit && limit - start <= PAGE;
            if !in_order || (start | top | limit) & 7 != 0 {
                continue;
            }
            let Some(page) = vm.page_of(start).filter(|page| page.heap == isolate.heap) else { continue };
            let limit = Addr::new(limit);
            if limit > page.area.end {
                continue;
            }
            // In the new space the limit may be an earlier, soft one.
            let end = if vm.space_name(page.space) == "new_space" { page.area.end } else { limit };
            let known = found.entry(Addr::new(top)).or_insert(end);
            *known = end.max(*known);
        }
    };
    let own = isolate.fields();
    for part in vm.memory.readable_parts(own, own.len()) {
        scan(&vm.words(part.start.align_up(8).get(), part.len() / 8));
    }
    for owner in owners {
        let words = vm.words(owner.get(), SPACE / 8);
        scan(&words);
        for word in words.iter().take(48).filter(|word| **word != 0 && **word & 7 == 0) {
            if vm.page_of(*word).is_none() {
                scan(&vm.words(*word, AREA_WORDS));
            }
        }
    }
    let areas = found.into_iter().map(|(top, end)| AddrRange::new(top, end));
    let mut out: Vec<AddrRange> = Vec::new();
    for area in areas.filter(|area| !area.is_empty()) {
        // Leave out a stale copy of an area, which is inside the area itself.
        if out.last().is_none_or(|last| last.end <= area.start) {
            out.push(area);
        }
    }
    out
}

/// Returns the pages of the new space after the one that is being filled. They contain leftovers of an earlier cycle.
///
/// Two neighbouring words link a page to the next and the previous one. Their index is the one at which all pages lead
/// to each other.
pub(super) fn stale_pages(vm: &Vm<'_>, isolate: &Isolate, areas: &[AddrRange]) -> BTreeSet<Addr> {
    let mut out = BTreeSet::new();
    let new = |page: &&Page| page.heap == isolate.heap && page.is_to() && vm.space_name(page.space) == "new_space";
    let pages: HashMap<u64, &Page> = vm.pages.iter().filter(new).map(|page| (page.metadata.get(), page)).collect();
    if pages.len() < 2 {
        return out;
    }
    const FIRST: u64 = 12;
    const LINKS: u64 = 64;
    let mut hits = [0_usize; LINKS as usize];
    for at in pages.keys() {
        for (hit, word) in hits.iter_mut().zip(vm.words(*at, LINKS)) {
            *hit += usize::from(pages.contains_key(&word));
        }
    }
    let linked = pages.len() - 1;
    let next = (FIRST..LINKS - 1).find(|i| {
        let i = *i as usize;
        hits.get(i..i + 2) == Some(&[linked, linked])
    });
    let filled = |page: &&&Page| areas.iter().any(|area| page.area.start <= area.start && area.start <= page.area.end);
    let current: Vec<_> = pages.values().filter(filled).collect();
    let (Some(next), [current]) = (next, current.as_slice()) else { return out };
    let mut at = vm.field(current.metadata.get(), 8 * next);
    // At most one step per page, because each is added once.
    while let Some(page) = at.and_then(|at| pages.get(&at)) {
        if !out.insert(page.range.start) {
            break;
        }
        at = vm.field(page.metadata.get(), 8 * next);
    }
    out
}
