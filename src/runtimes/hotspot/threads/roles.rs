//! What threads of the VM are for.

use crate::map::Confidence;
use crate::runtimes::hotspot::threads::known::Known;

/// Threads that the JDK makes, by the class of their object.
const BY_CLASS: [(&str, &str); 5] = [
    ("java.lang.ref.Reference$ReferenceHandler", "reference handler"),
    ("java.lang.ref.Finalizer$FinalizerThread", "finalizer"),
    ("jdk.internal.misc.CarrierThread", "carrier of virtual threads"),
    ("java.util.concurrent.ForkJoinWorkerThread", "fork-join worker"),
    ("sun.nio.ch.Poller", "poller"),
];

/// Threads of the VM that have an object, and threads that the JDK makes, by how their names begin. A program may give
/// such a name to a thread of its own, so that more must speak for it.
const BY_NAME: [(&str, &str); 14] = [
    ("C1 CompilerThread", "compiler"),
    ("C2 CompilerThread", "compiler"),
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
    ("C1 Compiler", "compiler"),
    ("C2 Compiler", "compiler"),
];

/// Made by the JDK to run Java code, of a class that programs can't use.
const INNOCUOUS: [(&str, &str); 3] =
    [("Common-Cleaner", "cleaner"), ("Cleaner-", "cleaner"), ("Read-Poller", "poller")];
const INNOCUOUS_CLASS: &str = "jdk.internal.misc.InnocuousThread";

/// The one thread of the VM without a name of its own (WatcherThread).
pub(super) const WATCHER: &str = "VM Periodic Task Thread";

/// Threads of the VM without an object.
const HIDDEN: [(&str, &str); 3] = [("VM Thread", "vm"), (WATCHER, "vm"), ("JFR ", "flight recorder")];

/// What a thread is for, and how sure that is.
pub(super) fn role(thread: &Known, runs_java: bool) -> Option<(&'static str, Confidence)> {
    let named = |table: &[(&str, &'static str)]| {
        let name = thread.name.as_deref()?;
        table.iter().find(|(start, _)| name.starts_with(start)).map(|&(_, role)| role)
    };
    let Some(object) = &thread.object else {
        // The rest are the collector's: GC Thread#0, G1 Conc#0, ZDriver, Shenandoah Control Thread, StrDedup.
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
