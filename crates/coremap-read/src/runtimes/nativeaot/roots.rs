//! Roots: handles, references of threads, objects whose finalizer is due, and references on stacks.
//!
//! Statics are in objects of their own, in an array that a handle keeps alive; each of these objects is a root too.
//! Each word of a stack that points into an object is taken as a reference, since the GC maps of NativeAOT's frames are
//! not read.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::phase::Phase;
use crate::registers::{self, Regs};
use crate::runtimes::api::{FINALIZER_QUEUE, FREE, Handle, Heap as _, Root, RootKind, Roots, locate};
use crate::runtimes::clr_gc::{finalizers, lacks_handles};
use crate::runtimes::nativeaot::claim::Heaps;
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::statics::{CompiledBase, compiled_bases};
use crate::runtimes::nativeaot::threads::{AotThread, RefOrigin, Threads};
use crate::targets::Thread;
use crate::units::count;

const STATICS: RootKind = RootKind::Of(u8::MAX - 4, "Statics");
const THREAD_STATICS: RootKind = RootKind::Of(u8::MAX - 3, "ThreadStatics");
const EXCEPTION: RootKind = RootKind::Of(u8::MAX - 2, "Exception");
const FRAME: RootKind = RootKind::Of(u8::MAX - 1, "GCFrame");

/// Number of objects on the path from a handle, or from a thread's arrays, to an object with statics, including that
/// object.
const STATIC_ARRAYS: u8 = 3;

/// Reason for scanning stacks word by word.
const WHY: &str = "coremap does not read the GC reference maps of NativeAOT frames";

/// Number of general registers by DWARF number: 17 on x86_64, 32 on aarch64.
const REGISTERS: u16 = 32;

/// A root whose object is not located yet.
struct Candidate {
    value: Addr,
    root: Root,
}

/// Returns all roots of `heap`. `broken`: some handles could not be read.
pub(super) fn roots(heap: &Heap<'_>, heaps: &Heaps, (handles, broken): (&[Handle], bool), threads: &Threads) -> Roots {
    let runtime = heap.runtime();
    let _phase = runtime.process.enter(Phase::References);
    let mut roots = Roots::default();
    lacks_handles(&mut roots, handles.is_empty(), broken);
    let kept = handles.iter().filter(|h| h.kind.keeps());
    let with_statics = |root| Root { static_arrays: STATIC_ARRAYS, ..root };
    roots.all.extend(kept.map(|h| with_statics(Root::new(h.kind.root_kind(), h.address, h.object))));
    // These objects are also in an array to which a handle refers. As roots of their own, they are on paths with their
    // names.
    let statics = compiled_bases(heap).0;
    let root = |found: &CompiledBase| Root { static_arrays: 1, ..Root::new(STATICS, found.cell, found.base) };
    roots.all.extend(statics.iter().map(root));
    match (threads.all.is_empty(), threads.notes.is_empty()) {
        (true, _) => roots.lacks("threads and their stacks"),
        (false, false) => roots.lacks("some threads"),
        (false, true) => {}
    }
    let threads = threads.all.as_slice();
    // The lists of a thread are trusted only with its stack bounds.
    let unbounded = threads.iter().filter(|thread| thread.tid.is_some() && thread.stack.is_none()).count();
    if unbounded > 0 {
        roots.lacks(format!("statics of {}", count(unbounded as u64, "thread")));
    }
    for thread in threads {
        for reference in &thread.refs {
            let kind = match reference.origin {
                RefOrigin::Statics | RefOrigin::InlinedStatics => THREAD_STATICS,
                RefOrigin::Exception => EXCEPTION,
                RefOrigin::Frame => FRAME,
            };
            let root = Root { thread: thread.tid, ..Root::new(kind, reference.address, reference.object) };
            roots.all.push(if kind == THREAD_STATICS { with_statics(root) } else { root });
        }
    }
    let (queues, broken) = finalizers::read(runtime.gc(), heaps.gc.server, &heaps.gc.segments);
    if !broken.is_empty() {
        roots.lacks("finalizer queue");
    }
    roots.notes.extend(broken);
    let ready = queues.iter().flat_map(|q| &q.ready);
    roots.all.extend(ready.map(|&(address, object)| Root::new(FINALIZER_QUEUE, address, object)));
    of_stacks(heap, threads, &mut roots);
    roots
}

/// Adds the possible roots in registers and on stacks.
fn of_stacks(heap: &Heap<'_>, threads: &[AotThread], roots: &mut Roots) {
    let process = heap.runtime().process;
    let mut candidates = Vec::new();
    let mut unread = 0;
    let by_tid: HashMap<u32, &Thread> = process.threads().iter().map(|thread| (thread.tid, thread)).collect();
    for thread in threads {
        let Some(tid) = thread.tid else { continue };
        let Some(system) = by_tid.get(&tid) else {
            unread += 1;
            continue;
        };
        let regs = Regs::of_thread(process.arch(), &system.registers);
        let sp = regs.sp();
        let mut is_read = heap.runtime().memory().readable(sp, WORD) == WORD;
        let word =
            |address| Root { thread: Some(tid), interior: true, ..Root::new(RootKind::StackWord, address, Addr::NULL) };
        for (name, value) in
            (0..REGISTERS).filter_map(|n| Some((registers::name(process.arch(), n)?, Addr::new(regs.get(n)?))))
        {
            candidates.push(Candidate { value, root: Root { register: Some(name), ..word(sp) } });
        }
        // A thread may run on another stack, such as a signal handler's.
        let range = match thread.stack {
            Some(stack) if stack.contains(sp) => AddrRange::new(sp.align_down(8), stack.end),
            Some(stack) => AddrRange::new(stack.start.align_up(8), stack.end),
            None => match process.base().entries.at(sp) {
                Some(entry) => AddrRange::new(sp.align_down(8), entry.range.end),
                None => {
                    unread += 1;
                    continue;
                }
            },
        };
        if range.len() > limits::MAX_STACK_SCAN {
            roots.notes.push(format!("the stack of thread {tid} has an implausible range: {range}"));
            is_read = false;
        } else {
            // With the stack pointer in the guard after an overflow, the stack itself can still be read.
            words(heap, range, word, &mut candidates);
        }
        match is_read {
            true => roots.stacks.threads += 1,
            false => unread += 1,
        }
    }
    roots.lacks_stacks(unread);
    if roots.stacks.threads > 0 {
        roots.stacks.conservative.push((WHY, roots.stacks.threads));
    }
    candidates.retain(|c| heap.space().run(c.value.get()).is_some());
    candidates.sort_unstable_by_key(|c| (c.value, c.root.address));
    let mut out = Vec::new();
    locate(
        heap,
        &mut candidates,
        |c| c.value,
        |c, _, object| {
            // Free space is no object.
            if object.kind != FREE {
                out.push(Root { object: object.addr, ..c.root });
            }
        },
    );
    out.sort_by_key(|r| (r.thread, r.address, r.register));
    roots.all.extend(out);
}

/// Adds the words of a stack that point into the heap.
fn words(heap: &Heap<'_>, range: AddrRange, root: impl Fn(Addr) -> Root, out: &mut Vec<Candidate>) {
    let (memory, space) = (heap.runtime().memory(), heap.space());
    for part in memory.readable_parts(range, limits::MAX_STACK_SCAN) {
        let Ok(bytes) = memory.look(part.start, part.len() as usize) else { continue };
        let skip = part.start.align_up(8).since(part.start) as usize;
        for (i, bytes) in bytes.get(skip..).unwrap_or_default().as_chunks::<8>().0.iter().enumerate() {
            let value = u64::from_le_bytes(*bytes);
            if space.run(value).is_some() {
                let address = part.start.saturating_add(skip as u64 + 8 * i as u64);
                out.push(Candidate { value: Addr::new(value), root: root(address) });
            }
        }
    }
}
