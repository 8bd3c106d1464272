//! The runtime's threads: all that ran managed code, and their references outside of the stack.
//!
//! Sources: src/coreclr/nativeaot/Runtime: threadstore.h (ThreadStore), thread.h (RuntimeThreadLocals, ExInfo,
//! InlinedThreadStaticRoot, GCFrameRegistration).

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::diag::WarningCode;
use crate::layout::ViewError;
use crate::limits;
use crate::memory::walk::{Broken, Walks};
use crate::phase::Phase;
use crate::runtimes::api::{self, ManagedThreads};
use crate::runtimes::clr_gc::AllocContext;
use crate::runtimes::nativeaot::runtime::Runtime;

/// A reference of a thread: its address, the object, and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadRef {
    pub(super) address: Addr,
    pub(super) object: Addr,
    pub(super) origin: RefOrigin,
}

/// Origin of a thread's reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefOrigin {
    /// The array of thread statics of types with an index.
    Statics,
    /// The object with the thread statics of all other types.
    InlinedStatics,
    /// An exception being handled.
    Exception,
    /// A GC frame of the runtime's own code.
    Frame,
}

/// A thread that has run managed code. Unreadable fields are `None`.
#[derive(Clone, Debug)]
pub(super) struct AotThread {
    /// Address of its RuntimeThreadLocals.
    pub address: Addr,
    /// System thread id.
    pub tid: Option<u32>,
    /// Allocation context. `None` if it has none.
    pub context: Option<AllocContext>,
    /// Whether it was in cooperative mode, so that a collection had to wait for it.
    pub cooperative: Option<bool>,
    /// Stack bounds from the runtime.
    pub stack: Option<AddrRange>,
    /// References outside of the stack.
    pub(super) refs: Vec<ThreadRef>,
    /// The exception being handled.
    pub exception: Option<Addr>,
}

#[derive(Debug, Default)]
pub(super) struct Threads {
    pub(super) all: Vec<AotThread>,
    /// Threads in the form that all runtimes share.
    pub(super) managed: ManagedThreads,
    /// Index into `all` by address.
    pub(super) by_address: HashMap<Addr, usize>,
    /// Messages about what could not be read.
    pub(super) notes: Vec<String>,
}

impl Threads {
    pub(super) fn read(runtime: &Runtime<'_>) -> Threads {
        let _phase = runtime.process.enter(Phase::ManagedThreads);
        let mut out = Threads::default();
        match list(runtime, &mut out.all) {
            Ok(Ok(())) => {}
            Ok(Err(broken)) => out.notes.push(format!("the list of threads {broken}")),
            Err(e) => out.notes.push(format!("threads: {e}")),
        }
        for (i, thread) in out.all.iter().enumerate() {
            out.by_address.insert(thread.address, i);
            let Some(tid) = thread.tid else { continue };
            let known = api::ManagedThread { address: thread.address, id: None, marks: Vec::new() };
            out.managed.by_tid.entry(tid).or_default().push(known);
        }
        let named = out.notes.iter().map(|note| (WarningCode::Nativeaot, format!("{}: {note}", runtime.name())));
        out.managed.notes.extend(named);
        out
    }
}

/// Reads the runtime's list of threads. The inner error says why the list ended early.
fn list(runtime: &Runtime<'_>, out: &mut Vec<AotThread>) -> Result<Result<(), Broken<ViewError>>, ViewError> {
    let store = runtime.thread_store()?;
    let first = runtime.view("ThreadStore", store).ptr("m_ThreadList")?;
    let nodes = Walks::new(Phase::ManagedThreads, limits::MAX_AOT_THREAD_NODES);
    let walks = Walks::new(Phase::ManagedThreads, limits::MAX_AOT_THREADS);
    Ok(walks.begin().follow(first, |at| {
        let next = runtime.view("RuntimeThreadLocals", at).ptr("m_pNext")?;
        out.push(thread(runtime, &nodes, at));
        Ok::<_, ViewError>(next)
    }))
}

fn thread(runtime: &Runtime<'_>, nodes: &Walks, at: Addr) -> AotThread {
    let view = runtime.view("RuntimeThreadLocals", at);
    let tail = || Some(runtime.view("ThreadTail", view.addr_of("m_threadId").ok()?));
    let head = || Some(runtime.view("ThreadNode", view.addr_of("m_pNext").ok()?));
    let tid = view.u64("m_threadId").ok().and_then(|tid| u32::try_from(tid).ok()).filter(|&tid| tid != 0);
    let stack = || {
        let tail = tail()?;
        let (low, high) = (tail.ptr("m_pStackLow").ok()?, tail.ptr("m_pStackHigh").ok()?);
        (low < high && high.since(low) <= limits::MAX_STACK_SCAN).then(|| AddrRange::new(low, high))
    };
    let stack = stack();
    let mut refs = Vec::new();
    let exceptions = exceptions(runtime, nodes, at);
    refs.extend(exceptions.iter().copied());
    // Trust the neighbouring fields only if the stack bounds are valid.
    if stack.is_some()
        && let Some(tail) = tail()
    {
        let address = tail.addr_of("m_pThreadLocalStatics").ok();
        refs.extend(address.and_then(|address| thread_ref(runtime, address, RefOrigin::Statics)));
        statics(runtime, nodes, tail.ptr("m_pInlinedThreadLocalStatics").ok(), &mut refs);
        frames(runtime, nodes, tail.ptr("m_pGCFrameRegistrations").ok(), &mut refs);
    }
    AotThread {
        address: at,
        tid,
        context: context(runtime, at),
        cooperative: head().and_then(|head| head.ptr("m_pTransitionFrame").ok()).map(Addr::is_null),
        stack,
        refs,
        exception: exceptions.first().map(|thrown| thrown.object),
    }
}

/// Allocation context of a thread. In 10.0 it is part of a larger structure of the runtime.
fn context(runtime: &Runtime<'_>, thread: Addr) -> Option<AllocContext> {
    let view = runtime.view("RuntimeThreadLocals", thread);
    let at = match view.addr_of("m_rgbAllocContextBuffer") {
        Ok(at) => at,
        Err(_) => {
            let at = view.addr_of("m_eeAllocContext").ok()?;
            runtime.view("ee_alloc_context", at).addr_of("m_rgbAllocContextBuffer").ok()?
        }
    };
    let view = runtime.view("gc_alloc_context", at);
    AllocContext::new(view.ptr("alloc_ptr").ok()?, view.ptr("alloc_limit").ok()?)
}

fn thread_ref(runtime: &Runtime<'_>, address: Addr, origin: RefOrigin) -> Option<ThreadRef> {
    let object = runtime.memory().ptr(address).ok().filter(|object| !object.is_null())?;
    Some(ThreadRef { address, object, origin })
}

/// Exceptions that a thread handles, latest first.
fn exceptions(runtime: &Runtime<'_>, nodes: &Walks, thread: Addr) -> Vec<ThreadRef> {
    let mut out = Vec::new();
    let Ok(first) = runtime.view("RuntimeThreadLocals", thread).ptr("m_pExInfoStackHead") else { return out };
    // If the list breaks off, its first part is used.
    let _ = nodes.begin().follow(first, |at| {
        let view = runtime.view("ExInfo", at);
        out.extend(thread_ref(runtime, view.addr_of("m_exception")?, RefOrigin::Exception));
        view.ptr("m_pPrevExInfo")
    });
    out
}

/// Adds thread statics that the compiler stored separately.
fn statics(runtime: &Runtime<'_>, nodes: &Walks, first: Option<Addr>, out: &mut Vec<ThreadRef>) {
    let Some(first) = first else { return };
    let _ = nodes.begin().follow(first, |at| {
        let view = runtime.view("InlinedThreadStaticRoot", at);
        out.extend(thread_ref(runtime, view.addr_of("m_threadStaticsBase")?, RefOrigin::InlinedStatics));
        view.ptr("m_next")
    });
}

/// Adds references in GC frames of the runtime's own code.
fn frames(runtime: &Runtime<'_>, nodes: &Walks, first: Option<Addr>, out: &mut Vec<ThreadRef>) {
    let Some(first) = first else { return };
    let _ = nodes.begin().follow(first, |at| {
        let view = runtime.view("GCFrameRegistration", at);
        let (refs, count) = (view.ptr("m_pObjRefs")?, view.u32("m_numObjRefs")?);
        let count = u64::from(count).min(limits::MAX_AOT_FRAME_REFS);
        // Guards against frames that all claim the same references.
        let count = if nodes.spend(refs, count).is_ok() { count } else { 0 };
        let places = (0..count).map(|i| refs.saturating_add(8 * i));
        out.extend(places.filter_map(|address| thread_ref(runtime, address, RefOrigin::Frame)));
        view.ptr("m_pNext")
    });
}
