//! All threads that the VM knows, with their names and the marks on their stacks.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::facts::{ThreadRow, ThrownRow, WaitRow};
use crate::runtimes::api::{ManagedThread, ManagedThreads};
use crate::runtimes::hotspot::classes::Classes;
use crate::runtimes::hotspot::code::Code;
use crate::runtimes::hotspot::threads::anchors::marks;
use crate::runtimes::hotspot::threads::roles::WATCHER;
use crate::runtimes::hotspot::threads::thread_object::{has_ended, state};
use crate::runtimes::hotspot::threads::{JavaThread, ThreadObject, vm_threads};
use crate::words::GcMode;

/// A thread of the VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmThreadRecord {
    /// Thread id of the operating system.
    pub tid: Option<u32>,
    /// Whether the thread is in no list of the VM and runs no Java code.
    pub hidden: bool,
    /// The thread's name.
    pub name: Option<String>,
    /// Its java.lang.Thread object.
    pub object: Option<ThreadObject>,
}

/// All threads of a VM.
#[derive(Debug, Default)]
pub struct Threads {
    /// The threads in the form shared by all runtimes.
    pub managed: ManagedThreads,
    /// Threads by the address of the VM's Thread.
    pub by_address: HashMap<Addr, VmThreadRecord>,
    /// Addresses of the VM's Threads by Java object.
    pub by_object: HashMap<Addr, Addr>,
}

impl Threads {
    /// Reads the threads of `java`, and finds the VM's other threads.
    pub fn read(classes: &Classes<'_>, code: &Code<'_>, java: &[JavaThread]) -> Threads {
        let vm = &classes.vm;
        let mut out = Threads::default();
        for thread in java {
            let object = ThreadObject::of(classes, thread.address);
            let name = object.as_ref().and_then(|object| object.name.clone());
            let id = object.as_ref().and_then(|object| u32::try_from(object.id?).ok());
            if let Some(object) = &object {
                out.by_object.insert(object.address, thread.address);
            }
            out.by_address.insert(thread.address, VmThreadRecord { tid: thread.tid, hidden: false, name, object });
            let Some(tid) = thread.tid else { continue };
            let marks = marks(vm, code, thread);
            let managed = ManagedThread { address: thread.address, id, marks };
            out.managed.by_tid.entry(tid).or_default().push(managed);
        }
        let mut hidden = vm_threads(vm, java);
        let mut unnamed: Vec<_> = hidden.iter_mut().filter(|thread| thread.name.is_none()).collect();
        if let [watcher] = unnamed.as_mut_slice() {
            watcher.name = Some(WATCHER.to_owned());
        }
        for thread in hidden {
            let managed = ManagedThread { address: thread.address, id: None, marks: Vec::new() };
            out.managed.by_tid.entry(thread.tid).or_default().push(managed);
            let record = VmThreadRecord { tid: Some(thread.tid), hidden: true, name: thread.name, object: None };
            out.by_address.insert(thread.address, record);
        }
        out
    }

    /// Completes a wait for something that the thread at `owner` (a JavaThread) holds.
    pub(super) fn owned(&self, wait: WaitRow, owner: Addr) -> WaitRow {
        let owner = self.by_address.get(&owner);
        let id = owner.and_then(|record| u32::try_from(record.object.as_ref()?.id?).ok());
        WaitRow { owner_tid: owner.and_then(|record| record.tid), owner_managed_id: id, ..wait }
    }

    /// Completes a wait for something that a thread without a JavaThread holds. `owner`: its java.lang.Thread.
    pub(super) fn owned_by_object(&self, classes: &Classes<'_>, wait: WaitRow, owner: Addr) -> WaitRow {
        let Some(owner) = ThreadObject::read(classes, owner) else { return wait };
        WaitRow {
            owner_managed_id: owner.id.and_then(|id| u32::try_from(id).ok()),
            owner_virtual: classes.is_virtual_thread(owner.address),
            owner_ended: owner.status.is_some_and(has_ended),
            ..wait
        }
    }

    /// Fills in a thread's row.
    pub fn describe(&self, classes: &Classes<'_>, thread: &ManagedThread, row: &mut ThreadRow) {
        let Some(record) = self.by_address.get(&thread.address) else { return };
        row.managed_id = thread.id;
        row.managed_name = record.name.as_deref().map(|name| printable(name).into_owned());
        if record.hidden {
            return;
        }
        row.state = record.object.as_ref().and_then(|object| state(object.status?)).map(str::to_owned);
        let java = classes.vm.at("JavaThread", thread.address);
        row.gc_mode = java.number("_thread_state").ok().and_then(|state| gc_mode(classes, state as i64));
        let thrown = java.ptr("_pending_exception").ok().filter(|at| !at.is_null());
        row.exception = thrown.and_then(|address| {
            let class = classes.class_of(address)?;
            Some(ThrownRow { r#type: printable(&class.name).into_owned(), address, message: None })
        });
    }
}

/// Returns what a JavaThreadState means for a collection. A thread in Java or in the VM must be stopped for it.
fn gc_mode(classes: &Classes<'_>, state: i64) -> Option<GcMode> {
    let is = |names: &[&str]| names.iter().any(|name| classes.vm.constant(name) == Some(state));
    if is(&["_thread_in_Java", "_thread_in_Java_trans", "_thread_in_vm", "_thread_in_vm_trans"]) {
        Some(GcMode::Cooperative)
    } else if is(&["_thread_in_native", "_thread_in_native_trans", "_thread_blocked", "_thread_blocked_trans"]) {
        Some(GcMode::Preemptive)
    } else {
        None
    }
}
