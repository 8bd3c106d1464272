//! What keeps objects alive from outside the heap: handles, threads' statics,
//! objects that wait to be finalized, and threads' stacks.
//!
//! Statics of other kinds stand in arrays that a handle keeps, as SOS shows
//! them. Stacks are read without GC info: each word that leads into an object is
//! taken for a reference, so that some of these roots are none.
//!
//! src/coreclr/vm: threadstatics.h (ThreadLocalData); src/coreclr/gc: gcpriv.h
//! (CFinalize), gcinterface.dac.h (dac_finalize_queue).

use crate::addr::{Addr, AddrRange};
use crate::dotnet::Heaps;
use crate::dotnet::finalizers;
use crate::dotnet::graph::Graph;
use crate::dotnet::handles::{Handle, HandleKind};
use crate::dotnet::heap::{FREE, Losses};
use crate::dotnet::threads::{ManagedThread, threads};
use crate::limits;

/// Below the stack pointer, a leaf function may still use this much (System V
/// ABI for x86_64, the red zone).
const RED_ZONE: u64 = 128;

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
    /// A word of a thread's stack, or one of its registers.
    Stack,
}

impl RootKind {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            RootKind::Handle(kind) => format!("{}Handle", kind.name()),
            RootKind::ThreadStatics => "ThreadStatics".into(),
            RootKind::FinalizerQueue => "FinalizerQueue".into(),
            RootKind::FrozenSegment => "FrozenSegment".into(),
            RootKind::Stack => "Stack (conservative)".into(),
        }
    }
}

/// Something that keeps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// What it is.
    pub kind: RootKind,
    /// Where it stands; for a register, where its thread's stack begins.
    pub address: Addr,
    /// The object.
    pub object: Addr,
    /// The thread it is of, by the system's number.
    pub thread: Option<u32>,
    /// The register that it is.
    pub register: Option<&'static str>,
}

/// All roots of the heap that `graph` is of, and what could not be read.
pub fn roots(graph: &Graph<'_, '_>, heaps: &Heaps, handles: &[Handle]) -> (Vec<Root>, Vec<String>) {
    let mut notes = Vec::new();
    let mut out: Vec<Root> = handles
        .iter()
        .filter(|h| h.kind.keeps())
        .map(|h| Root {
            kind: RootKind::Handle(h.kind),
            address: h.address,
            object: h.object,
            thread: None,
            register: None,
        })
        .collect();
    let (process, runtime) = (graph.types.process, graph.types.runtime);
    let threads = match threads(process, runtime) {
        Ok((threads, broken)) => {
            notes.extend(broken);
            threads
        }
        Err(e) => {
            notes.push(format!("its threads: {e}"));
            Vec::new()
        }
    };
    out.extend(threads.iter().filter_map(|t| thread_statics(graph, t)));
    let (queues, broken) = finalizers::read(process, runtime, heaps);
    notes.extend(broken);
    out.extend(queues.iter().flat_map(|q| &q.ready).map(|&(address, object)| Root {
        kind: RootKind::FinalizerQueue,
        address,
        object,
        thread: None,
        register: None,
    }));
    out.extend(stacks(graph, &threads, &mut notes));
    (out, notes)
}

/// From .NET 9 on, a thread's statics are objects in an array of its own.
fn thread_statics(graph: &Graph<'_, '_>, thread: &ManagedThread) -> Option<Root> {
    let view = graph.types.view("Thread", thread.address);
    let data = graph.types.view("ThreadLocalData", view.ptr("ThreadLocalDataPtr").ok().filter(|a| a.0 != 0)?);
    let address = data.addr_of("NonCollectibleTlsArrayData").ok()?;
    let object = graph.types.memory.ptr(address).ok().filter(|o| o.0 != 0)?;
    Some(Root { kind: RootKind::ThreadStatics, address, object, thread: thread.os_id, register: None })
}

/// A word that may be a reference.
struct Candidate {
    value: u64,
    address: Addr,
    thread: u32,
    register: Option<&'static str>,
}

/// Words of stacks, and registers, that lead into objects.
fn stacks(graph: &Graph<'_, '_>, threads: &[ManagedThread], notes: &mut Vec<String>) -> Vec<Root> {
    let mut candidates = Vec::new();
    for thread in threads {
        let Some(tid) = thread.os_id.filter(|&tid| tid != 0) else { continue };
        candidates_of(graph, thread, tid, &mut candidates, notes);
    }
    candidates.sort_unstable_by_key(|c| c.value);
    let mut out = Vec::new();
    let mut rest = candidates.as_slice();
    let mut walker = graph.heap.walker();
    for part in graph.heap.parts() {
        let skip = rest.partition_point(|c| c.value < part.range.start.0);
        let len = rest.get(skip..).unwrap_or_default().partition_point(|c| c.value < part.range.end.0);
        let mut here = rest.get(skip..skip + len).unwrap_or_default();
        rest = rest.get(skip + len..).unwrap_or_default();
        if here.is_empty() {
            continue;
        }
        walker.walk(part, &mut Losses::default(), |object| {
            let end = object.addr.0.saturating_add(object.size.max(1));
            while let Some((first, others)) = here.split_first().filter(|(c, _)| c.value < end) {
                here = others;
                // Between the objects, or in what is none any more.
                if first.value >= object.addr.0 && object.kind != FREE {
                    out.push(Root {
                        kind: RootKind::Stack,
                        address: first.address,
                        object: object.addr,
                        thread: Some(first.thread),
                        register: first.register,
                    });
                }
            }
        });
    }
    out.sort_by_key(|r| (r.thread, r.address, r.register));
    out
}

fn candidates_of(
    graph: &Graph<'_, '_>,
    thread: &ManagedThread,
    tid: u32,
    out: &mut Vec<Candidate>,
    notes: &mut Vec<String>,
) {
    let process = graph.types.process;
    let Some(noted) = process.core.notes.threads.iter().find(|t| t.tid == tid) else { return };
    let sp = noted.registers.sp();
    for (name, value) in noted.registers.iter() {
        if graph.space.run(value).is_some() {
            out.push(Candidate { value, address: sp, thread: tid, register: Some(name) });
        }
    }
    let Some(bounds) = thread.stack else { return };
    let low = sp.saturating_sub(RED_ZONE).align_up(8);
    if low >= bounds.end || bounds.end.since(low) > limits::MAX_STACK_SCAN {
        notes.push(format!("the stack of thread {tid}: its pointer {sp} is not within {bounds}"));
        return;
    }
    for part in graph.types.memory.readable_parts(AddrRange::new(low, bounds.end), limits::MAX_STACK_SCAN) {
        let Ok(bytes) = graph.types.memory.bytes(part.start, part.len() as usize) else { continue };
        let skip = part.start.align_up(8).since(part.start) as usize;
        for (i, word) in bytes.get(skip..).unwrap_or_default().as_chunks::<8>().0.iter().enumerate() {
            let value = u64::from_le_bytes(*word);
            if graph.space.run(value).is_some() {
                let address = part.start.saturating_add(skip as u64 + 8 * i as u64);
                out.push(Candidate { value, address, thread: tid, register: None });
            }
        }
    }
}
