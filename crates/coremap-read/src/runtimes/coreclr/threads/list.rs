//! The runtime's list of threads: ids, state, allocation contexts, and stack bounds.
//!
//! Sources: docs/design/datacontracts/Thread.md; src/coreclr/vm: threads.h (Thread, ThreadStore, RuntimeThreadLocals),
//! gcheaputilities.h (ee_alloc_context).

use crate::addr::{Addr, AddrRange};
use crate::diag::was_read;
use crate::layout::{Layout, StructView, ViewError};
use crate::limits;
use crate::memory::walk::Walks;
use crate::memory::{Fault, Memory};
use crate::phase::Phase;
use crate::process::Process;
pub(crate) use crate::runtimes::clr_gc::AllocContext;
use crate::runtimes::coreclr::runtime::GlobalsError;
use crate::runtimes::coreclr::runtime::Runtime;

/// FRAME_TOP: the end of a thread's lists of Frames and GCFrames.
pub(super) const FRAME_TOP: Addr = Addr::MAX;

impl AllocContext {
    /// The context of code without a thread, on machines with one processor.
    pub(in crate::runtimes::coreclr) fn global(memory: &dyn Memory, runtime: &Runtime) -> Option<AllocContext> {
        let at = runtime.globals.global(&runtime.layout, "GlobalAllocContext").ok()?;
        AllocContext::in_ee(memory, &runtime.layout, at)
    }

    /// Reads a gc_alloc_context directly, or within an ee_alloc_context (10 on).
    fn in_ee(memory: &dyn Memory, layout: &Layout, at: Addr) -> Option<AllocContext> {
        let inner = StructView::new(memory, layout, "EEAllocContext", at).addr_of("GCAllocationContext");
        AllocContext::read(memory, layout, inner.unwrap_or(at))
    }
}

/// A thread that has run managed code, or will. Unreadable fields are `None`.
#[derive(Clone, Debug)]
pub struct ManagedThread {
    /// Address of the Thread.
    pub address: Addr,
    /// Managed thread id.
    pub managed_id: Option<u32>,
    /// System thread id; 0 before the thread starts and after it ends.
    pub os_id: Option<u32>,
    /// Thread::ThreadState, as bits.
    pub state: Option<u32>,
    /// Whether it was in cooperative mode, so that a collection had to wait for it.
    pub cooperative: Option<bool>,
    /// Allocation context. `None` if it has none.
    pub alloc_context: Option<AllocContext>,
    /// Address of the handle of its System.Threading.Thread.
    pub exposed_object: Option<Addr>,
    /// Address of the handle of the exception that it threw last.
    pub last_thrown: Option<Addr>,
    /// First GCFrame: list of references that the runtime's own code protects.
    pub gc_frame: Option<Addr>,
    /// First explicit Frame.
    pub frame: Option<Addr>,
    /// Stack bounds cached by the runtime.
    pub stack: Option<AddrRange>,
}

/// Reasons why the list can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadsError {
    /// The list's global can't be found or read.
    #[error(transparent)]
    Globals(#[from] GlobalsError),
    /// A field of the list can't be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The layout is that of another version, and the first element of the list does not fit it.
    #[error(
        "the list of threads does not begin with a Thread: {at} does not fit the layout, which is another version's"
    )]
    Form {
        /// Address of the supposed Thread.
        at: Addr,
    },
}

/// All threads in the runtime's list, with the error that ended the list early. Cached.
///
/// # Errors
/// If not even the head of the list can be read.
pub fn threads<'r>(
    process: &Process,
    runtime: &'r Runtime,
) -> Result<(&'r [ManagedThread], Option<&'r str>), &'r ThreadsError> {
    let list = runtime.cache.threads.get_or_init(|| read(process, runtime)).as_ref();
    list.map(|(threads, broken)| (threads.as_slice(), broken.as_deref()))
}

/// Threads, and the error that ended the list early.
pub(in crate::runtimes::coreclr) type ThreadList = Result<(Vec<ManagedThread>, Option<String>), ThreadsError>;

fn read(process: &Process, runtime: &Runtime) -> ThreadList {
    was_read("threads");
    let _phase = process.enter(Phase::ManagedThreads);
    let memory: &dyn Memory = &process.memory;
    let layout = &runtime.layout;
    let store = runtime.globals.pointer(memory, layout, "ThreadStore")?;
    let store = StructView::new(memory, layout, "ThreadStore", store);
    let count = store.u32("ThreadCount").ok();
    let to_link = layout.positive("Thread", "LinkNext").map_err(ViewError::from)?;
    // From .NET 11 on the list leads from Thread to Thread, before that from link to link within them.
    let back = if layout.constant("ThreadStore", "HoldsThreads").is_ok() { 0 } else { to_link };
    let first = store.ptr("FirstThreadLink")?;
    if !runtime.own_table && !first.is_null() && !is_thread(process, layout, first.saturating_sub(back)) {
        return Err(ThreadsError::Form { at: first.saturating_sub(back) });
    }
    let mut out = Vec::new();
    let end = Walks::new(Phase::ManagedThreads, limits::MAX_LIST).begin().follow(first, |at| {
        let address = at.saturating_sub(back);
        let next = memory.ptr(address.saturating_add(to_link))?;
        out.push(thread(memory, layout, address));
        Ok::<_, Fault>(next)
    });
    let mut broken = end.err().map(|why| format!("the list of threads {why}"));
    let missing = count.map_or(0, |n| (n as usize).saturating_sub(out.len()));
    if missing > 0 && broken.is_none() {
        broken = Some(format!(
            "the list of threads has only {} of {} threads",
            out.len(),
            out.len().saturating_add(missing)
        ));
    }
    Ok((out, broken))
}

/// Whether there is a Thread at `address`, by the layout of another version: it must have a plausible managed id and
/// system id, and a mapped stack. Only a thread that does not run lacks the stack.
fn is_thread(process: &Process, layout: &Layout, address: Addr) -> bool {
    let read = thread(&process.memory, layout, address);
    let plausible = |id: u32| id as usize <= limits::MAX_THREADS;
    let managed = read.managed_id.is_some_and(|id| id != 0 && plausible(id));
    let mapped = |stack: AddrRange| {
        let top = stack.end.saturating_sub(8);
        stack.len() <= limits::MAX_RUNTIME_RANGE && top.is_aligned(8) && process.base().at(top).is_some()
    };
    managed && read.os_id.is_some_and(|id| plausible(id) && (id == 0 || read.stack.is_some_and(mapped)))
}

fn thread(memory: &dyn Memory, layout: &Layout, address: Addr) -> ManagedThread {
    let view = StructView::new(memory, layout, "Thread", address);
    let pointer = |field| view.ptr(field).ok().filter(|a| !a.is_null());
    let stack = pointer("CachedStackLimit").zip(pointer("CachedStackBase"));
    ManagedThread {
        address,
        managed_id: view.u32("Id").ok(),
        os_id: view.u32("OSId").ok(),
        state: view.u32("State").ok(),
        cooperative: view.u32("PreemptiveGCDisabled").ok().map(|v| v != 0),
        alloc_context: alloc_context(memory, layout, &view),
        exposed_object: pointer(if view.has("ExposedObject") { "ExposedObject" } else { "GCHandle" }),
        last_thrown: pointer("LastThrownObject"),
        gc_frame: pointer("GCFrame").filter(|&f| f != FRAME_TOP),
        frame: pointer("Frame").filter(|&f| f != FRAME_TOP),
        stack: stack.map(|(low, high)| AddrRange::new(low, high)).filter(|r| !r.is_empty()),
    }
}

/// Reads a thread's context: in the Thread up to .NET 8, in thread-local storage from .NET 9 on.
fn alloc_context(memory: &dyn Memory, layout: &Layout, thread: &StructView<'_>) -> Option<AllocContext> {
    if thread.has("m_alloc_context") {
        return AllocContext::read(memory, layout, thread.addr_of("m_alloc_context").ok()?);
    }
    let locals = thread.ptr("RuntimeThreadLocals").ok().filter(|a| !a.is_null())?;
    let at = StructView::new(memory, layout, "RuntimeThreadLocals", locals).addr_of("AllocContext").ok()?;
    AllocContext::in_ee(memory, layout, at)
}
