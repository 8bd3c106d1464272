//! Threads of the VM that are in no list: those of the collector, the VM thread, the watcher.
//!
//! Each thread of the VM keeps its own C++ Thread in a slot of the C library (pthread_setspecific, since JDK 9
//! threadLocalStorage_posix.cpp), which glibc has in the thread's control block for the first 32 keys. Which slot that is, Java threads
//! tell; a Thread is believed where its OSThread has the number of the very thread.

use std::collections::{BTreeSet, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::threads::JavaThread;
use crate::runtimes::hotspot::vm::Vm;
use crate::targets::Thread;

/// A thread of the VM that runs no Java.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmThread {
    /// Its Thread.
    pub address: Addr,
    /// The system's number of it.
    pub tid: u32,
    /// Its name, `GC Thread#0`; `None` of the one that is no NamedThread.
    pub name: Option<String>,
}

/// All of them among the process's threads.
pub fn vm_threads(vm: &Vm<'_>, java: &[JavaThread]) -> Vec<VmThread> {
    let slots = slots(vm, java);
    let known: HashSet<u32> = java.iter().filter_map(|thread| thread.tid).collect();
    let others = vm.process.threads().iter().filter(|thread| !known.contains(&thread.tid));
    others.filter_map(|thread| of_thread(vm, thread, &slots)).collect()
}

/// From a control block to the slot, as Java threads have it; all that it may be where none tells.
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
