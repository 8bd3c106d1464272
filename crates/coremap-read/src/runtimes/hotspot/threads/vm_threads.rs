//! Threads of the VM that are in no list: the collector's threads, the VM thread, the watcher.
//!
//! Each thread of the VM stores its C++ Thread in thread-specific data (pthread_setspecific, since JDK 9
//! threadLocalStorage_posix.cpp). glibc has the first 32 keys in the thread's control block. Java threads show which
//! slot it is. A Thread is accepted if its OSThread has the thread's own tid.

use std::collections::{BTreeSet, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::threads::JavaThread;
use crate::runtimes::hotspot::vm::Vm;
use crate::targets::Thread;

/// A thread of the VM that runs no Java code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmThread {
    /// Address of its Thread.
    pub address: Addr,
    /// Thread id of the operating system.
    pub tid: u32,
    /// The thread's name, such as `GC Thread#0`. `None` for the only thread that is no NamedThread.
    pub name: Option<String>,
}

/// Finds all such threads among the process's threads.
pub fn vm_threads(vm: &Vm<'_>, java: &[JavaThread]) -> Vec<VmThread> {
    let slots = slots(vm, java);
    let known: HashSet<u32> = java.iter().filter_map(|thread| thread.tid).collect();
    let others = vm.process.threads().iter().filter(|thread| !known.contains(&thread.tid));
    others.filter_map(|thread| of_thread(vm, thread, &slots)).collect()
}

/// Returns the offset of the slot in control blocks, by Java threads. If none shows it, returns all possible offsets.
fn slots(vm: &Vm<'_>, java: &[JavaThread]) -> Vec<u64> {
    let by_tid = |tid| vm.process.threads().iter().find(|thread| thread.tid == tid);
    let mut out = BTreeSet::new();
    for thread in java.iter().take(limits::MAX_SLOT_WITNESSES) {
        let block = thread.tid.and_then(by_tid).and_then(|thread| thread.thread_pointer);
        let holds = |at: &u64| {
            let is_it = || vm.memory.ptr(block?.checked_add(*at)?).ok().filter(|word| *word == thread.address);
            vm.process.reads().attempt(is_it).is_some()
        };
        out.extend(all().filter(holds));
    }
    if out.is_empty() { all().collect() } else { out.into_iter().collect() }
}

fn all() -> impl Iterator<Item = u64> {
    (0..limits::MAX_CONTROL_BLOCK / WORD).map(|i| i * WORD)
}

fn of_thread(vm: &Vm<'_>, thread: &Thread, slots: &[u64]) -> Option<VmThread> {
    let block = thread.thread_pointer?;
    let reads = vm.process.reads();
    let in_slot = |&slot: &u64| {
        let address = vm.memory.ptr(block.checked_add(slot)?).ok()?;
        let plausible = !address.is_null() && address.is_aligned(WORD);
        (plausible && tid_of(vm, address) == Some(thread.tid)).then_some(address)
    };
    let address = slots.iter().find_map(|slot| reads.attempt(|| in_slot(slot)))?;
    let name = reads.attempt(|| {
        let name = vm.memory.public_text(vm.at("NamedThread", address).ptr("_name").ok()?, limits::MAX_VM_NAME).ok()?;
        Some(name).filter(|name| !name.is_empty() && name.bytes().all(|b| (b' '..=b'~').contains(&b)))
    });
    Some(VmThread { address, tid: thread.tid, name })
}

fn tid_of(vm: &Vm<'_>, thread: Addr) -> Option<u32> {
    let os_thread = vm.at("JavaThread", thread).ptr("_osthread").ok().filter(|at| !at.is_null())?;
    u32::try_from(vm.at("OSThread", os_thread).number("_thread_id").ok()?).ok()
}
