//! Roots: fields of isolates, global handles, handle scopes, and words on stacks.
//!
//! Not read: traced handles of C++ objects (cppgc), and all but the newest block of handle scopes.

use std::collections::BTreeSet;

use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::registers::{self, Regs};
use crate::runtimes::api::{Heap as _, Root, RootKind, Roots, locate};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::isolates::Isolate;
use crate::runtimes::v8::vm::{Vm, strong};

/// A field of an isolate, such as V8's own roots or the current context.
const ISOLATE: RootKind = RootKind::Of(0, "isolate");

/// A global handle: a reference of C++ code that lives until it is released.
const GLOBAL: RootKind = RootKind::Of(1, "global handle");

/// A local handle of a C++ function that has not returned.
const LOCAL: RootKind = RootKind::Of(2, "handle scope");

/// Reason why stacks are scanned word by word.
const WHY: &str = "coremap does not read V8's safepoint tables, nor handles of C++ objects (cppgc)";

/// A node of the global handles (global-handles.cc): object, class, index in its block, flags, callback and the
/// callback's argument.
mod node {
    pub(super) const SIZE: u64 = 32;
    pub(super) const COUNT: u64 = 256;
    pub(super) const INDEX: usize = 10;
    pub(super) const FLAGS: usize = 11;
    /// The two low bits of the flags: 1 strong, 2 weak, 3 near death.
    pub(super) const STRONG: u8 = 1;
}

/// Bytes of a block of local handles (kHandleBlockSize).
const HANDLE_BLOCK: u64 = 1022 * WORD;

/// Bytes after the heap's start that contain the isolate's pointer to its global handles.
const AFTER_HEAP: u64 = 0x20000;

/// Upper bound on DWARF numbers of general registers on x86_64.
const REGISTERS: u16 = 17;

pub(super) fn roots(heap: &Heap<'_>) -> Roots {
    let vm = &*heap.vm;
    let mut out = Roots::default();
    let mut candidates = Vec::new();
    let mut without = 0_u64;
    for isolate in &vm.isolates {
        let range = AddrRange::new(isolate.roots, isolate.heap);
        scan(vm, range, ISOLATE, isolate.tid, &mut candidates);
        without += u64::from(!globals(vm, isolate, &mut candidates));
        locals(vm, isolate, &mut candidates);
    }
    if without > 0 {
        out.lacks("global handles");
    }
    stacks(vm, &mut candidates, &mut out);
    // A stale word may lead to freed memory.
    candidates.retain(|root| heap.space().run(root.object.get()).is_some());
    candidates.sort_unstable_by_key(|root| (root.object, root.kind, root.address));
    locate(
        heap,
        &mut candidates,
        |root| root.object,
        |root, _, object| {
            if object.addr == root.object {
                out.all.push(*root);
            }
        },
    );
    out.all.sort_by_key(|root| (root.kind, root.thread, root.address, root.register));
    out
}

/// Adds the strong references in a range to objects of the isolates.
fn scan(vm: &Vm<'_>, range: AddrRange, kind: RootKind, tid: Option<u32>, out: &mut Vec<Root>) {
    for part in vm.memory.readable_parts(range, range.len()) {
        let start = part.start.align_up(WORD);
        for (i, word) in (0..).zip(vm.words(start.get(), part.end.since(start) / WORD)) {
            let address = start.saturating_add(WORD * i);
            out.extend(root(vm, kind, address, word, tid));
        }
    }
}

/// Returns the root for a word that references an object. `None` for read-only objects, which are never collected.
fn root(vm: &Vm<'_>, kind: RootKind, address: Addr, word: u64, tid: Option<u32>) -> Option<Root> {
    let object = strong(word).filter(|at| at & 7 == 0)?;
    vm.page_of(object).filter(|page| !page.heap.is_null())?;
    Some(Root { thread: tid, ..Root::new(kind, address, Addr::new(object)) })
}

/// Returns the objects of strong global handles.
pub(super) fn handle_objects(vm: &Vm<'_>) -> Vec<u64> {
    let mut out = Vec::new();
    for isolate in &vm.isolates {
        globals(vm, isolate, &mut out);
    }
    out.into_iter().map(|root| root.object.get()).collect()
}

/// Adds the strong global handles of an isolate. Returns whether their blocks were found.
fn globals(vm: &Vm<'_>, isolate: &Isolate, out: &mut Vec<Root>) -> bool {
    let own = AddrRange::new(isolate.roots, isolate.heap.saturating_add(AFTER_HEAP));
    let mut firsts = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for part in vm.memory.readable_parts(own, own.len()) {
        for word in vm.words(part.start.align_up(WORD).get(), part.len() / WORD) {
            if word & 7 != 0 || word < 1 << 16 || vm.page_of(word).is_some() || !seen.insert(word) {
                continue;
            }
            // GlobalHandles has a NodeSpace. This leads back to GlobalHandles, and to its blocks.
            for space in vm.words(word, 4) {
                if space & 7 != 0 || space < 1 << 16 || vm.word(space) != Some(word) {
                    continue;
                }
                firsts.extend(vm.words(space, 4).into_iter().skip(1).filter(|block| is_block(vm, *block)));
            }
        }
    }
    let walks = Walks::new(Phase::References, limits::MAX_V8_HANDLE_BLOCKS);
    let mut done = BTreeSet::new();
    for first in &firsts {
        let mut walk = walks.begin();
        let mut block = *first;
        while is_block(vm, block) && done.insert(block) && walk.step(Addr::new(block)).is_ok() {
            handles(vm, block, out);
            block = vm.word(block.wrapping_add(node::SIZE * node::COUNT)).unwrap_or(0);
        }
    }
    !firsts.is_empty()
}

/// Whether a block of global handles is at `block`: each node has its index.
fn is_block(vm: &Vm<'_>, block: u64) -> bool {
    if block == 0 || block & 7 != 0 {
        return false;
    }
    let Some(bytes) = vm.bytes(block, node::SIZE * node::COUNT) else { return false };
    let mut nodes = (0_u8..=u8::MAX).zip(bytes.as_chunks::<{ node::SIZE as usize }>().0);
    nodes.all(|(i, node)| node.get(node::INDEX) == Some(&i))
}

fn handles(vm: &Vm<'_>, block: u64, out: &mut Vec<Root>) {
    let Some(bytes) = vm.bytes(block, node::SIZE * node::COUNT) else { return };
    for (i, node) in (0..).zip(bytes.as_chunks::<{ node::SIZE as usize }>().0) {
        let is_strong = node.get(node::FLAGS).is_some_and(|flags| flags & 3 == node::STRONG);
        let word = node.first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
        let address = Addr::new(block).saturating_add(node::SIZE * i);
        out.extend(word.filter(|_| is_strong).and_then(|word| root(vm, GLOBAL, address, word, None)));
    }
}

/// Adds the local handles in the newest block. The block's bounds are two of three consecutive words: next, limit,
/// level.
fn locals(vm: &Vm<'_>, isolate: &Isolate, out: &mut Vec<Root>) {
    let own = AddrRange::new(isolate.fields().start, isolate.heap);
    for part in vm.memory.readable_parts(own, own.len()) {
        let words = vm.words(part.start.align_up(WORD).get(), part.len() / WORD);
        for three in words.windows(3) {
            let &[next, limit, level] = three else { continue };
            let in_order =
                next & 7 == 0 && limit & 7 == 0 && next <= limit && limit.saturating_sub(next) <= HANDLE_BLOCK;
            let Some(start) = limit.checked_sub(HANDLE_BLOCK).filter(|start| *start > 1 << 16) else { continue };
            let level = level & 0xffff_ffff;
            if in_order && (1..1024).contains(&level) && vm.page_of(next).is_none() && next >= start {
                scan(vm, AddrRange::new(Addr::new(start), Addr::new(next)), LOCAL, isolate.tid, out);
            }
        }
    }
}

/// Adds the references on stacks and in registers.
fn stacks(vm: &Vm<'_>, out: &mut Vec<Root>, roots: &mut Roots) {
    let mut unread = 0;
    for thread in vm.process.threads() {
        let regs = Regs::of_thread(vm.process.arch(), &thread.registers);
        let Some(piece) = vm.process.space().pieces.at(regs.sp()) else {
            unread += 1;
            continue;
        };
        let range = AddrRange::new(regs.sp().align_down(WORD), piece.range.end);
        let range = AddrRange::sized(range.start, range.len().min(limits::MAX_STACK_SCAN));
        let named = (0..REGISTERS).filter_map(|n| Some((registers::name(regs.arch(), n)?, regs.get(n)?)));
        for (name, word) in named {
            let found = root(vm, RootKind::StackWord, regs.sp(), word, Some(thread.tid));
            out.extend(found.map(|root| Root { register: Some(name), ..root }));
        }
        scan(vm, range, RootKind::StackWord, Some(thread.tid), out);
        roots.stacks.threads += 1;
    }
    roots.lacks_stacks(unread);
    if roots.stacks.threads > 0 {
        roots.stacks.conservative.push((WHY, roots.stacks.threads));
    }
}
