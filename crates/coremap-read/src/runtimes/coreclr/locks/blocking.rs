//! ThreadBlockingInfo: the monitor, Lock or condition that a thread waits for, by a thread static (.NET 9 on).
//!
//! A thread has a chain of them on its stack, and `t_first` leads to the innermost. Only the first counts: a pulsed
//! thread that wants its lock again has an entry for that before the entry of Monitor.Wait. Source:
//! System.Private.CoreLib: ThreadBlockingInfo.cs.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::coreclr::ManagedThread;
use crate::runtimes::coreclr::types::TypeSystem;

const CLASS: &str = "System.Threading.ThreadBlockingInfo";
const FIRST: &str = "t_first";

/// ThreadBlockingInfo.ObjectKind.
const MONITOR: u32 = 0;
const MONITOR_WAIT: u32 = 1;
const LOCK: u32 = 2;
const CONDITION: u32 = 3;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    /// To enter a monitor, by the address of its SyncBlock (up to .NET 10).
    Monitor(Addr),
    /// In Monitor.Wait, by the address of the SyncBlock (up to .NET 10).
    MonitorWait(Addr),
    /// To enter a System.Threading.Lock, which from .NET 11 on may be a monitor's.
    Lock(Addr),
    /// On the condition of a Lock (from .NET 11 on).
    Condition(Addr),
}

/// Offsets of the object and its kind in an entry.
#[derive(Clone, Copy)]
struct Offsets {
    object: u64,
    kind: u64,
}

/// What each thread waits for, in the order of `threads`. `None` if it waits for nothing of this kind, or if its thread
/// static is not in the core.
pub(super) fn read(types: &TypeSystem<'_>, threads: &[ManagedThread]) -> Vec<Option<Blocking>> {
    let layout = &types.runtime.layout;
    // Up to .NET 10 the native runtime writes them, at places that need no metadata.
    let field = |name| layout.field("ThreadBlockingInfo", name).ok().and_then(|at| u64::try_from(at).ok());
    if let (Some(object), Some(kind)) = (field("_objectPtr"), field("_objectKind")) {
        let offsets = Offsets { object, kind };
        return threads.iter().map(|thread| entry(types, thread, native_first(types, thread), offsets)).collect();
    }
    let none = || vec![None; threads.len()];
    let Some(method_table) = types.core_class(CLASS) else { return none() };
    let own = types.own_fields(method_table).unwrap_or_default();
    let named = |name: &str| own.iter().find(|f| types.field_name(f) == name);
    let Some(first) = named(FIRST) else { return none() };
    let (Some(pointer), Some(kind)) = (named("_objectPtr"), named("_objectKind")) else { return none() };
    let offsets = Offsets { object: pointer.offset, kind: kind.offset };
    threads.iter().map(|t| entry(types, t, types.thread_static_address(first, t.address), offsets)).collect()
}

/// The entry that the thread static at `first` leads to.
fn entry(types: &TypeSystem<'_>, thread: &ManagedThread, first: Option<Addr>, at: Offsets) -> Option<Blocking> {
    let memory: &dyn Memory = types.memory;
    thread.os_id.filter(|&id| id != 0)?;
    let info = memory.ptr(first?).ok().filter(|at| !at.is_null())?;
    // It is a local of the waiting function.
    if thread.stack.is_some_and(|stack| !stack.contains(info)) {
        return None;
    }
    let object = memory.ptr(info.saturating_add(at.object)).ok().filter(|at| !at.is_null())?;
    let referenced = || memory.ptr(object).ok().filter(|at| !at.is_null());
    match memory.u32(info.saturating_add(at.kind)).ok()? {
        MONITOR => Some(Blocking::Monitor(object)),
        MONITOR_WAIT => Some(Blocking::MonitorWait(object)),
        LOCK => referenced().map(Blocking::Lock),
        CONDITION => referenced().map(Blocking::Condition),
        _ => None,
    }
}

/// Returns the address at which the native runtime writes the thread static (up to .NET 10). It does so even if no
/// managed code used the static yet and the class has no index (threadstatics.h:
/// ThreadLocalData.ThreadBlockingInfo_First).
fn native_first(types: &TypeSystem<'_>, thread: &ManagedThread) -> Option<Addr> {
    let data = types.view("Thread", thread.address).ptr("ThreadLocalDataPtr").ok().filter(|at| !at.is_null())?;
    types.view("ThreadLocalData", data).addr_of("ThreadBlockingInfo_First").ok()
}
