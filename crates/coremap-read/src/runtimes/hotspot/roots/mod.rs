//! Roots of Java's objects: classes with static fields, threads, JNI, the VM's own handles, and words on stacks.
//!
//! Their names are those of heap dumps (hprof: sticky class, JNI global, thread object). Two kinds of heap dumps are
//! missing here. Monitors: a thread that holds one has the object on its stack. Constants in compiled code: once nobody
//! runs the code, they do not retain anything.

mod stacks;
mod storages;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{Heap as _, Root, RootKind, Roots};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::{Classes, WORD};
use crate::runtimes::hotspot::threads::JavaThread;
use crate::runtimes::hotspot::vm::VmError;
use crate::units::count;

/// A class that is never unloaded. It retains its static fields.
const CLASS: RootKind = RootKind::Of(0, "sticky class");

/// A global reference of native code (`NewGlobalRef`).
const JNI_GLOBAL: RootKind = RootKind::Of(1, "JNI global");

/// A reference of the VM itself.
const VM_INTERNAL: RootKind = RootKind::Of(2, "VM internal");

/// A running thread, and what it references.
const THREAD: RootKind = RootKind::Of(3, "thread object");

/// A local reference of native code, until it returns.
const JNI_LOCAL: RootKind = RootKind::Of(4, "JNI local");

pub(super) fn roots(vm: &HotSpot<'_>) -> Roots {
    let mut roots = Roots::default();
    let Some(heap) = vm.objects() else { return roots };
    let classes = vm.classes();
    let _phase = classes.vm.process.enter(Phase::References);
    if classes.loaders().is_empty() {
        roots.lacks("classes and their static fields");
    } else if !classes.has_all_loaders() {
        roots.lacks("some classes and their static fields");
    }
    of_classes(classes, &mut roots);
    let walks = Walks::new(Phase::References, limits::MAX_JNI_BLOCKS);
    if vm.java_threads().is_empty() {
        roots.lacks("threads and their stacks");
    } else if !vm.has_all_java_threads() {
        roots.lacks("some threads");
    }
    let mut broken = 0;
    for thread in vm.java_threads() {
        if let Err(e) = of_thread(classes, thread, &walks, &mut roots) {
            broken += 1;
            roots.notes.push(format!("the thread at {}: {e}", thread.address));
        }
    }
    if broken > 0 {
        roots.lacks(format!("references of {}", count(broken, "thread")));
    }
    // After the threads, because the VM has handles of their objects too.
    storages::read(classes, &mut roots);
    stacks::read(heap, vm.java_threads(), &mut roots);
    // Remove roots that are no objects. Free slots of the VM contain such words.
    let mut reader = heap.reader();
    roots.all.retain(|root| reader.node(root.object.get()).is_some());
    roots
}

/// Objects on the stacks of some Java threads, each with the thread's ID.
pub(super) fn on_stacks(vm: &HotSpot<'_>, threads: &[JavaThread]) -> Vec<(u32, Addr)> {
    let mut roots = Roots::default();
    if let Some(heap) = vm.objects() {
        stacks::read(heap, threads, &mut roots);
    }
    roots.all.iter().filter_map(|root| Some((root.thread?, root.object))).collect()
}

/// Adds the mirrors of classes whose loaders are never collected. Other classes live as long as their loader or an
/// instance, which are found through fields of objects.
fn of_classes(classes: &Classes<'_>, roots: &mut Roots) {
    let mut unread = 0;
    for loader in classes.loaders().iter().filter(|loader| loader.permanent) {
        for &class in &loader.classes {
            let Ok(address) = classes.vm.at("Klass", class).addr_of("_java_mirror") else {
                roots.lacks("classes and their static fields");
                return;
            };
            match classes.handle(address) {
                Ok(mirror) if mirror.is_null() => {}
                Ok(mirror) => roots.all.push(Root::new(CLASS, address, mirror)),
                Err(_) => unread += 1,
            }
        }
    }
    if unread > 0 {
        roots.lacks(format!("static fields of {}", count(unread, "class")));
    }
}

/// Fields of a thread with an OopHandle, or a plain pointer in older releases.
const OF_THREAD: [&str; 4] = ["_threadObj", "_vthread", "_jvmti_vthread", "_scopedValueCache"];

/// Fields of a thread with a plain pointer.
const HELD_BY_THREAD: [&str; 2] = ["_exception_oop", "_pending_exception"];

fn of_thread(classes: &Classes<'_>, thread: &JavaThread, walks: &Walks, roots: &mut Roots) -> Result<(), VmError> {
    let vm = &classes.vm;
    let view = vm.at("JavaThread", thread.address);
    let mut add = |kind, address, object: Addr| {
        if !object.is_null() {
            roots.all.push(Root { thread: thread.tid, ..Root::new(kind, address, object) });
        }
    };
    for field in OF_THREAD.iter().filter(|field| view.has(field)) {
        let address = view.addr_of(field)?;
        add(THREAD, address, classes.field_of_vm("JavaThread", field, address)?);
    }
    for field in HELD_BY_THREAD.iter().filter(|field| view.has(field)) {
        let address = view.addr_of(field)?;
        let word = vm.memory.u64(address).map_err(VmError::fault("JavaThread", field))?;
        add(THREAD, address, classes.encoding.wide(word));
    }
    // Blocks of handles. Slots up to `_top` are in use; free ones among them contain no object.
    let mut block = view.ptr("_active_handles")?;
    let mut walk = walks.begin();
    while !block.is_null() {
        walk.step(block).map_err(|_| VmError::Invalid { what: "an endless list of handles", at: block })?;
        let handles = vm.at("JNIHandleBlock", block);
        let (first, next) = (handles.addr_of("_handles")?, handles.addr_of("_next")?);
        // The handles and their count are the only contents between these addresses.
        let room = vm.size_of("JNIHandleBlock")?.max(next.since(first)) / WORD;
        for i in 0..handles.number("_top")?.min(room) {
            let address = first.wrapping_add(i * WORD);
            let word = vm.memory.u64(address).map_err(VmError::fault("JNIHandleBlock", "_handles"))?;
            add(JNI_LOCAL, address, classes.encoding.wide(word));
        }
        block = handles.ptr("_next")?;
    }
    Ok(())
}
