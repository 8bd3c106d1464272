//! The list of Java threads: `ThreadsSMRSupport::_java_thread_list`, an array that is replaced as a whole, or up to JDK
//! 11 `Threads::_thread_list`, a linked list (src/hotspot/share/runtime: threadSMR.hpp, javaThread.hpp, osThread.hpp).

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Walks};
use crate::phase::Phase;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::vm::{Vm, VmError};

/// A thread that runs or compiles Java code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaThread {
    /// Address of its JavaThread.
    pub address: Addr,
    /// Thread id of the operating system. `None` if the thread is just being created.
    pub tid: Option<u32>,
    /// Its stack. The guard zones are at the low end.
    pub stack: Option<AddrRange>,
    /// Unused part of its allocation buffer: from the next object's address to the end.
    pub tlab: Option<AddrRange>,
}

/// Returns all Java threads. Unreadable ones are described in `notes`.
///
/// # Errors
/// If the list cannot be read.
pub fn java_threads(vm: &Vm<'_>, notes: &mut Vec<String>) -> Result<Vec<JavaThread>, VmError> {
    let addresses = if vm.static_addr("ThreadsSMRSupport", "_java_thread_list").is_ok() {
        by_array(vm, notes)?
    } else {
        by_links(vm, notes)?
    };
    let reserve = tlab_reserve(vm);
    let mut out = Vec::new();
    for address in addresses {
        match read(vm, address, reserve) {
            Ok(thread) => out.push(thread),
            Err(e) => notes.push(format!("the thread at {address}: {e}")),
        }
    }
    Ok(out)
}

fn by_array(vm: &Vm<'_>, notes: &mut Vec<String>) -> Result<Vec<Addr>, VmError> {
    let list = vm.at("ThreadsList", vm.static_ptr("ThreadsSMRSupport", "_java_thread_list")?);
    let (count, array) = (list.number("_length")?, list.ptr("_threads")?);
    if count > limits::MAX_JAVA_THREADS {
        notes.push(format!("{count} threads, more than the limit; the others are ignored"));
    }
    let slots = (0..count.min(limits::MAX_JAVA_THREADS)).map(|i| array.wrapping_add(i * WORD));
    slots.map(|slot| vm.memory.ptr(slot).map_err(VmError::fault("ThreadsList", "_threads"))).collect()
}

/// Builds of JDK 11 differ in which of the two lists is in their tables.
fn by_links(vm: &Vm<'_>, notes: &mut Vec<String>) -> Result<Vec<Addr>, VmError> {
    let first = vm.static_ptr("Threads", "_thread_list")?;
    let walks = Walks::new(Phase::ManagedThreads, limits::MAX_JAVA_THREADS as usize);
    let mut out = Vec::new();
    let walked: Result<(), Broken<VmError>> = walks.begin().follow(first, |at| {
        out.push(at);
        vm.at("JavaThread", at).ptr("_next")
    });
    if let Err(e) = walked {
        notes.push(format!("the list of threads {e}"));
    }
    Ok(out)
}

fn read(vm: &Vm<'_>, address: Addr, reserve: u64) -> Result<JavaThread, VmError> {
    let thread = vm.at("JavaThread", address);
    let os_thread = thread.ptr("_osthread")?;
    let tid = if os_thread.is_null() { None } else { Some(vm.at("OSThread", os_thread).number("_thread_id")? as u32) };
    let (base, size) = (thread.ptr("_stack_base")?, thread.number("_stack_size")?);
    let stack = base.checked_sub(size).filter(|_| size != 0).map(|low| AddrRange::new(low, base));
    let tlab = vm.at("ThreadLocalAllocBuffer", thread.addr_of("_tlab")?);
    let (start, top, end) = (tlab.ptr("_start")?, tlab.ptr("_top")?, tlab.ptr("_end")?);
    let tlab = (!start.is_null() && top <= end).then(|| AddrRange::new(top, end.saturating_add(reserve)));
    Ok(JavaThread { address, tid: tid.filter(|&tid| tid != 0), stack, tlab })
}

/// Returns the bytes reserved after the end of each allocation buffer (ThreadLocalAllocBuffer::end_reserve): room for a
/// filler object, or for allocation prefetch.
fn tlab_reserve(vm: &Vm<'_>) -> u64 {
    let prefetch = vm.static_number("ThreadLocalAllocBuffer", "_reserve_for_allocation_prefetch").unwrap_or(0);
    // The smallest filler is an empty array with a header of two words.
    (prefetch & u64::from(u32::MAX)).max(2) * WORD
}
