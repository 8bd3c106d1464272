//! What keeps objects alive from outside the heap: handles, threads' statics,
//! objects that wait to be finalized, and threads' stacks.
//!
//! Statics of other kinds stand in arrays that a handle keeps, as SOS shows
//! them. Of stacks, managed frames are known by their GC info; in parts of which
//! no more is known, each word that leads into an object is taken for a
//! reference, so that some of these roots are none.
//!
//! src/coreclr/vm: threadstatics.h (ThreadLocalData); src/coreclr/gc: gcpriv.h
//! (CFinalize), gcinterface.dac.h (dac_finalize_queue).

use std::collections::HashSet;

use crate::addr::{Addr, union};
use crate::dotnet::Heaps;
use crate::dotnet::gc::finalizers;
use crate::dotnet::gc::{Handle, HandleKind};
use crate::dotnet::graph::{Graph, RefFrame, RefPlace, StackRefs};
use crate::dotnet::heap::FREE;
use crate::dotnet::methods::SlotPlace;
use crate::dotnet::threads::{ManagedThread, threads};
use crate::limits;

/// What kind of root it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// A handle that keeps its object.
    Handle(HandleKind),
    /// A thread's array of statics.
    ThreadStatics,
    /// An object whose finalizer is due.
    FinalizerQueue,
    /// A place in a frozen segment, which is never collected; not among [`roots`].
    FrozenSegment,
    /// A slot of a managed frame, by its GC info, or of a list of a thread's.
    Stack,
    /// A word of a thread's stack, or one of its registers, that may be one.
    StackWord,
}

impl RootKind {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            RootKind::Handle(kind) => format!("{}Handle", kind.name()),
            RootKind::ThreadStatics => "ThreadStatics".into(),
            RootKind::FinalizerQueue => "FinalizerQueue".into(),
            RootKind::FrozenSegment => "FrozenSegment".into(),
            RootKind::Stack => "Stack".into(),
            RootKind::StackWord => "Stack (conservative)".into(),
        }
    }
}

/// Something that keeps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// What it is.
    pub kind: RootKind,
    /// Where it stands; for a register, the stack pointer of its frame, or of its thread.
    pub address: Addr,
    /// The object.
    pub object: Addr,
    /// The thread it is of, by the system's number.
    pub thread: Option<u32>,
    /// The register that it is.
    pub register: Option<&'static str>,
    /// Of a stack: the frame that holds it.
    pub frame: Option<RefFrame>,
    /// Of a stack: how it is known.
    pub place: Option<RefPlace>,
    /// Of a stack: whether it may lead into the object, and not to its start.
    pub interior: bool,
    /// Of a stack: whether the object must not be moved.
    pub pinned: bool,
}

impl Root {
    fn new(kind: RootKind, address: Addr, object: Addr) -> Root {
        Root {
            kind,
            address,
            object,
            thread: None,
            register: None,
            frame: None,
            place: None,
            interior: false,
            pinned: false,
        }
    }
}

/// All roots, and what was known of the stacks.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The roots.
    pub all: Vec<Root>,
    /// What could not be read, in words.
    pub notes: Vec<String>,
    /// Slots of managed frames that hold a reference, but no object is there.
    pub stray: u64,
}

/// All roots of the heap that `graph` is of; `stacks`: what the threads hold.
pub fn roots(graph: &Graph<'_, '_>, heaps: &Heaps, handles: &[Handle], stacks: &[StackRefs]) -> Roots {
    let mut roots = Roots::default();
    let kept = handles.iter().filter(|h| h.kind.keeps());
    roots.all.extend(kept.map(|h| Root::new(RootKind::Handle(h.kind), h.address, h.object)));
    let (process, runtime) = (graph.types.process, graph.types.runtime);
    match threads(process, runtime) {
        Ok((threads, broken)) => {
            roots.notes.extend(broken);
            roots.all.extend(threads.iter().filter_map(|t| thread_statics(graph, t)));
        }
        Err(e) => roots.notes.push(format!("its threads: {e}")),
    }
    let (queues, broken) = finalizers::read(process, runtime, heaps);
    roots.notes.extend(broken);
    let ready = queues.iter().flat_map(|q| &q.ready);
    roots.all.extend(ready.map(|&(address, object)| Root::new(RootKind::FinalizerQueue, address, object)));
    of_stacks(graph, stacks, &mut roots);
    roots
}

/// From .NET 9 on, a thread's statics are objects in an array of its own.
fn thread_statics(graph: &Graph<'_, '_>, thread: &ManagedThread) -> Option<Root> {
    let view = graph.types.view("Thread", thread.address);
    let data = graph.types.view("ThreadLocalData", view.ptr("ThreadLocalDataPtr").ok().filter(|a| !a.is_null())?);
    let address = data.addr_of("NonCollectibleTlsArrayData").ok()?;
    let object = graph.types.memory.ptr(address).ok().filter(|o| !o.is_null())?;
    Some(Root { thread: thread.os_id, ..Root::new(RootKind::ThreadStatics, address, object) })
}

/// A root of which only the object is not known yet.
struct Candidate {
    value: u64,
    root: Root,
}

/// What stacks hold.
fn of_stacks(graph: &Graph<'_, '_>, stacks: &[StackRefs], roots: &mut Roots) {
    let mut candidates = Vec::new();
    let mut out = Vec::new();
    let mut reader = graph.reader();
    for stack in stacks {
        for known in &stack.known {
            let sp = known.frame.map_or(stack.sp, |f| f.sp);
            let (address, register) = match known.place {
                RefPlace::Slot(SlotPlace::Register(name)) => (sp, Some(name)),
                RefPlace::Slot(SlotPlace::Stack(at, ..)) | RefPlace::Listed(at, _) => (at, None),
            };
            let root = Root {
                thread: Some(stack.thread),
                register,
                frame: known.frame,
                place: Some(known.place),
                interior: known.interior,
                pinned: known.pinned,
                ..Root::new(RootKind::Stack, address, Addr::new(known.value))
            };
            match known.value {
                0 => {}
                // The address of something on the stack, of a static, …
                value if known.interior && graph.space.run(value).is_none() => {}
                value if known.interior => candidates.push(Candidate { value, root }),
                value if reader.node(value).is_some() => out.push(root),
                _ => roots.stray += 1,
            }
        }
        for &(name, value) in stack.registers.iter().filter(|r| graph.space.run(r.1).is_some()) {
            let root = Root { register: Some(name), ..word(stack, stack.sp) };
            candidates.push(Candidate { value, root });
        }
        words(graph, stack, &mut candidates, &mut roots.notes);
    }
    containing(graph, candidates, &mut out);
    out.sort_by_key(|r| (r.thread, r.frame.map_or(r.address, |f| f.sp), r.address, r.register));
    roots.all.extend(out);
}

fn word(stack: &StackRefs, address: Addr) -> Root {
    Root { thread: Some(stack.thread), interior: true, ..Root::new(RootKind::StackWord, address, Addr::NULL) }
}

/// The words of parts of a stack of which no more is known.
fn words(graph: &Graph<'_, '_>, stack: &StackRefs, out: &mut Vec<Candidate>, notes: &mut Vec<String>) {
    let known: HashSet<Addr> = stack
        .known
        .iter()
        .filter_map(|k| match k.place {
            RefPlace::Slot(SlotPlace::Stack(at, ..)) | RefPlace::Listed(at, _) => Some(at),
            RefPlace::Slot(SlotPlace::Register(_)) => None,
        })
        .collect();
    for range in union(stack.stretches.iter().map(|s| s.range).collect()) {
        if range.len() > limits::MAX_STACK_SCAN {
            notes.push(format!("the stack of thread {}: {range} is too large to be one", stack.thread));
            continue;
        }
        for part in graph.types.memory.readable_parts(range, limits::MAX_STACK_SCAN) {
            let Ok(bytes) = graph.types.memory.bytes(part.start, part.len() as usize) else { continue };
            let skip = part.start.align_up(8).since(part.start) as usize;
            for (i, bytes) in bytes.get(skip..).unwrap_or_default().as_chunks::<8>().0.iter().enumerate() {
                let value = u64::from_le_bytes(*bytes);
                let address = part.start.saturating_add(skip as u64 + 8 * i as u64);
                if graph.space.run(value).is_some() && !known.contains(&address) {
                    out.push(Candidate { value, root: word(stack, address) });
                }
            }
        }
    }
}

/// The objects that candidates lead into.
fn containing(graph: &Graph<'_, '_>, mut candidates: Vec<Candidate>, out: &mut Vec<Root>) {
    candidates.sort_unstable_by_key(|c| c.value);
    graph.heap.locate(
        &mut candidates,
        |c| Addr::new(c.value),
        |c, _, object| {
            // What is no object any more keeps nothing.
            if object.kind != FREE {
                out.push(Root { object: object.addr, ..c.root });
            }
        },
    );
}
