//! Roots: handles, thread statics, objects whose finalizer is due, and references on stacks.
//!
//! Other statics are in arrays that a handle keeps alive; SOS reports them like that too. Managed frames are read with
//! GC info. In parts of a stack without such information, each word that points into an object is taken as a reference,
//! so some of these roots are false.
//!
//! Sources: src/coreclr/vm: threadstatics.h (ThreadLocalData); src/coreclr/gc: gcpriv.h (CFinalize), gcinterface.dac.h
//! (dac_finalize_queue).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::addr::{Addr, WORD, union};
use crate::limits;
use crate::runtimes::api::{
    FINALIZER_QUEUE, FREE, FrameSlotLocation, Heap as _, RefLocation, Root, RootKind, Roots, StackCoverage, locate,
};
use crate::runtimes::clr_gc::{finalizers, lacks_handles};
use crate::runtimes::coreclr::Heaps;
use crate::runtimes::coreclr::gc::handles;
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::threads::{ManagedThread, StackRefs, threads};
use crate::runtimes::coreclr::types::TypeSystem;
use crate::sums::SaturatingSum;

/// A thread's array of statics. Kinds of handles have lower numbers.
const THREAD_STATICS: RootKind = RootKind::Of(u8::MAX - 1, "ThreadStatics");

/// Returns all roots of `heap`. `stacks`: references on thread stacks.
pub(in crate::runtimes::coreclr) fn roots(heap: &Heap<'_>, heaps: &Heaps, stacks: &[StackRefs]) -> Roots {
    let mut roots = Roots { stacks: coverage(stacks), ..Roots::default() };
    let types = heap.type_system();
    let (process, runtime) = (types.process, &*types.runtime);
    let (handles, unread) = handles(process, runtime);
    lacks_handles(&mut roots, handles.is_empty(), !unread.is_empty());
    // `Unload` made these, and the loader allocator frees them: no roots, but references of the loader allocator.
    let of_unload: HashSet<Addr> = heap.unloading().iter().map(|of| of.handle).collect();
    let kept = handles.iter().filter(|h| h.kind.keeps() && !of_unload.contains(&h.address));
    // Statics are in arrays that handles keep alive, except thread statics.
    roots.all.extend(kept.map(|h| Root { static_arrays: 1, ..Root::new(h.kind.root_kind(), h.address, h.object) }));
    match threads(process, runtime) {
        Ok((threads, broken)) => {
            if broken.is_some() {
                roots.lacks("some threads");
            }
            roots.notes.extend(broken.map(str::to_owned));
            roots.all.extend(threads.iter().filter_map(|t| thread_statics(types, t)));
            let in_core = stacks.iter().filter(|s| types.memory.readable(s.sp, WORD) == WORD);
            let read: HashSet<u32> = in_core.map(|s| s.thread).collect();
            // A thread that has not started or has ended has the number 0.
            let unread = threads.iter().filter_map(|t| t.os_id).filter(|tid| *tid != 0 && !read.contains(tid));
            roots.lacks_stacks(unread.count() as u64);
        }
        Err(e) => {
            roots.lacks("threads and their stacks");
            roots.notes.push(format!("threads: {e}"));
        }
    }
    let (queues, broken) = finalizers::read(runtime.gc(process), heaps.server, &heaps.segments);
    if !broken.is_empty() {
        roots.lacks("finalizer queue");
    }
    roots.notes.extend(broken);
    let ready = queues.iter().flat_map(|q| &q.ready);
    roots.all.extend(ready.map(|&(address, object)| Root::new(FINALIZER_QUEUE, address, object)));
    of_stacks(heap, stacks, &mut roots);
    roots
}

/// Array of a thread's statics, which exists from .NET 9 on.
fn thread_statics(types: &TypeSystem<'_>, thread: &ManagedThread) -> Option<Root> {
    let view = types.view("Thread", thread.address);
    let data = types.view("ThreadLocalData", view.ptr("ThreadLocalDataPtr").ok().filter(|a| !a.is_null())?);
    let address = data.addr_of("NonCollectibleTlsArrayData").ok()?;
    let object = types.memory.ptr(address).ok().filter(|o| !o.is_null())?;
    Some(Root { thread: thread.os_id, static_arrays: 2, ..Root::new(THREAD_STATICS, address, object) })
}

/// A root whose object is not located yet.
struct Candidate {
    value: u64,
    root: Root,
}

/// Adds the roots on stacks.
fn of_stacks(heap: &Heap<'_>, stacks: &[StackRefs], roots: &mut Roots) {
    let mut candidates = Vec::new();
    let mut out = Vec::new();
    let (mut reader, space) = (heap.reader(), heap.space());
    for stack in stacks {
        for found in &stack.precise {
            let sp = found.frame.map_or(stack.sp, |f| f.sp);
            let (address, register) = match found.place {
                RefLocation::Slot(FrameSlotLocation::Register(name)) => (sp, Some(name)),
                RefLocation::Slot(FrameSlotLocation::Stack(at, ..)) | RefLocation::Listed(at, _) => (at, None),
            };
            let root = Root {
                thread: Some(stack.thread),
                register,
                frame: found.frame,
                location: Some(found.place),
                interior: found.interior,
                pinned: found.pinned,
                ..Root::new(RootKind::Stack, address, Addr::new(found.value))
            };
            match found.value {
                0 => {}
                // An address on the stack, of a static, and so on.
                value if found.interior && space.run(value).is_none() => {}
                value if found.interior => candidates.push(Candidate { value, root }),
                value if reader.node(value).is_some() => out.push(root),
                _ => roots.stray += 1,
            }
        }
        for &(name, value) in stack.registers.iter().filter(|r| space.run(r.1).is_some()) {
            let root = Root { register: Some(name), ..word(stack, stack.sp) };
            candidates.push(Candidate { value, root });
        }
        words(heap, stack, &mut candidates, &mut roots.notes);
    }
    containing(heap, candidates, &mut out);
    out.sort_by_key(|r| (r.thread, r.frame.map_or(r.address, |f| f.sp), r.address, r.register));
    roots.all.extend(out);
}

fn word(stack: &StackRefs, address: Addr) -> Root {
    Root { thread: Some(stack.thread), interior: true, ..Root::new(RootKind::StackWord, address, Addr::NULL) }
}

/// Adds the words of stack parts without better information.
fn words(heap: &Heap<'_>, stack: &StackRefs, out: &mut Vec<Candidate>, notes: &mut Vec<String>) {
    let known: HashSet<Addr> = stack
        .precise
        .iter()
        .filter_map(|k| match k.place {
            RefLocation::Slot(FrameSlotLocation::Stack(at, ..)) | RefLocation::Listed(at, _) => Some(at),
            RefLocation::Slot(FrameSlotLocation::Register(_)) => None,
        })
        .collect();
    let (memory, space) = (heap.type_system().memory, heap.space());
    for range in union(stack.conservative.iter().map(|s| s.range).collect()) {
        if range.len() > limits::MAX_STACK_SCAN {
            notes.push(format!("the stack of thread {} has an implausible range: {range}", stack.thread));
            continue;
        }
        for part in memory.readable_parts(range, limits::MAX_STACK_SCAN) {
            let Ok(bytes) = memory.look(part.start, part.len() as usize) else { continue };
            let skip = part.start.align_up(8).since(part.start) as usize;
            for (i, bytes) in bytes.get(skip..).unwrap_or_default().as_chunks::<8>().0.iter().enumerate() {
                let value = u64::from_le_bytes(*bytes);
                let address = part.start.saturating_add(skip as u64 + 8 * i as u64);
                if space.run(value).is_some() && !known.contains(&address) {
                    out.push(Candidate { value, root: word(stack, address) });
                }
            }
        }
    }
}

/// Finds the objects that contain the candidates' values.
fn containing(heap: &Heap<'_>, mut candidates: Vec<Candidate>, out: &mut Vec<Root>) {
    candidates.sort_unstable_by_key(|c| c.value);
    locate(
        heap,
        &mut candidates,
        |c| Addr::new(c.value),
        |c, _, object| {
            // Free space is no object.
            if object.kind != FREE {
                out.push(Root { object: object.addr, ..c.root });
            }
        },
    );
}

/// Sums up how the stacks were read.
fn coverage(stacks: &[StackRefs]) -> StackCoverage {
    let mut reasons: BTreeMap<&'static str, BTreeSet<u32>> = BTreeMap::new();
    for stack in stacks {
        for range in &stack.conservative {
            reasons.entry(range.why).or_default().insert(stack.thread);
        }
    }
    StackCoverage {
        threads: stacks.len() as u64,
        frames_precise: stacks.iter().map(|s| s.frames.0).saturating_sum(),
        frames_conservative: stacks.iter().map(|s| s.frames.1).saturating_sum(),
        conservative: reasons.into_iter().map(|(why, threads)| (why, threads.len() as u64)).collect(),
    }
}
