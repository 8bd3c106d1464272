//! Roles of threads in the VM.

use crate::map::Confidence;
use crate::runtimes::hotspot::threads::records::VmThreadRecord;

/// Threads that the JDK creates, by the class of their object.
const BY_CLASS: [(&str, &str); 5] = [
    ("java.lang.ref.Reference$ReferenceHandler", "reference handler"),
    ("java.lang.ref.Finalizer$FinalizerThread", "finalizer"),
    ("jdk.internal.misc.CarrierThread", "carrier of virtual threads"),
    ("java.util.concurrent.ForkJoinWorkerThread", "fork-join worker"),
    ("sun.nio.ch.Poller", "poller"),
];

/// Threads with an object that the VM or the JDK creates, by the prefix of their names. A program may use such a name
/// too, so more evidence is needed.
const BY_NAME: [(&str, &str); 12] = [
    ("C1 Compiler", "compiler"),
    ("C2 Compiler", "compiler"),
    ("JVMCI CompilerThread", "compiler"),
    ("Signal Dispatcher", "signal dispatcher"),
    ("Service Thread", "service"),
    ("Monitor Deflation Thread", "monitor deflation"),
    ("Sweeper thread", "code sweeper"),
    ("Notification Thread", "notification"),
    ("Attach Listener", "attach listener"),
    ("DestroyJavaVM", "waits for the program's end"),
    ("Surrogate Locker Thread", "gc"),
    ("JFR ", "flight recorder"),
];

/// Threads that the JDK creates to run Java code, of a class that programs cannot use.
const INNOCUOUS: [(&str, &str); 3] =
    [("Common-Cleaner", "cleaner"), ("Cleaner-", "cleaner"), ("Read-Poller", "poller")];
const INNOCUOUS_CLASS: &str = "jdk.internal.misc.InnocuousThread";

/// The name for the VM's only thread without one (WatcherThread).
pub(super) const WATCHER: &str = "VM Periodic Task Thread";

/// Threads of the VM without an object, by the prefix of their names.
const HIDDEN: [(&str, &str); 3] = [("VM Thread", "vm"), (WATCHER, "vm"), ("JFR ", "flight recorder")];

/// Returns what a thread is for, and the confidence.
pub(super) fn role(thread: &VmThreadRecord, runs_java: bool) -> Option<(&'static str, Confidence)> {
    let named = |table: &[(&str, &'static str)]| {
        let name = thread.name.as_deref()?;
        table.iter().find(|(start, _)| name.starts_with(start)).map(|&(_, role)| role)
    };
    let Some(object) = &thread.object else {
        // All others belong to the collector: GC Thread#0, G1 Conc#0, ZDriver, Shenandoah Control Thread, StrDedup.
        let role = named(&HIDDEN).unwrap_or("gc");
        return (thread.hidden && thread.name.is_some()).then_some((role, Confidence::Derived));
    };
    if let Some((_, role)) = BY_CLASS.iter().find(|(class, _)| object.class == *class) {
        return Some((role, Confidence::Exact));
    }
    if object.class == INNOCUOUS_CLASS {
        return named(&INNOCUOUS).map(|role| (role, Confidence::Exact));
    }
    let plain = object.class == "java.lang.Thread" && !runs_java;
    named(&BY_NAME).filter(|_| plain).map(|role| (role, Confidence::Derived))
}
