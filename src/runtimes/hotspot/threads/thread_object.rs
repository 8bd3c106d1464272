//! What Java keeps of a thread: an object of java.lang.Thread.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, Klass};
use crate::runtimes::hotspot::vm::VmError;

/// What an object of java.lang.Thread says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadObject {
    /// The object.
    pub address: Addr,
    /// Its class.
    pub class: String,
    /// Its name.
    pub name: Option<String>,
    /// Its number (`Thread.threadId()`).
    pub id: Option<u64>,
    /// What it does, as the VM writes it there: bits of [`state`].
    pub status: Option<u32>,
    /// What it said that it is parked for (`LockSupport.park`).
    pub blocker: Option<Addr>,
}

impl ThreadObject {
    /// The thread of a JavaThread; `None` while that is made, or where it can't be read.
    pub fn of(classes: &Classes<'_>, java_thread: Addr) -> Option<ThreadObject> {
        ThreadObject::read(classes, thread_object(classes, java_thread, "_threadObj").ok()?)
    }

    /// The object at `object`.
    pub fn read(classes: &Classes<'_>, object: Addr) -> Option<ThreadObject> {
        if object.is_null() {
            return None;
        }
        let class = classes.class_of(object)?;
        classes.keep_class(object);
        // Since JDK 19 what only threads of the system have stands in an object of its own.
        let status = number(classes, &class, object, "threadStatus").or_else(|| {
            let holder = reference(classes, &class, object, "holder")?;
            classes.keep_class(holder);
            number(classes, &*classes.class_of(holder)?, holder, "threadStatus")
        });
        let name = reference(classes, &class, object, "name");
        let id_at = classes.field(&class, "tid").map(|field| object.wrapping_add(field.offset));
        Some(ThreadObject {
            address: object,
            name: name.and_then(|name| classes.name(name, limits::MAX_JAVA_THREAD_NAME)),
            id: id_at.and_then(|at| {
                classes.vm.memory.keep(at, 8);
                classes.vm.memory.u64(at).ok()
            }),
            status,
            blocker: reference(classes, &class, object, "parkBlocker"),
            class: class.name.clone(),
        })
    }
}

/// The object that a handle of a JavaThread leads to. It was no handle but the reference itself up to JDK 15.
pub(super) fn thread_object(classes: &Classes<'_>, thread: Addr, field: &'static str) -> Result<Addr, VmError> {
    let vm = &classes.vm;
    let at = vm.at("JavaThread", thread).addr_of(field)?;
    if vm.tables.field("JavaThread", field)?.type_name.contains("OopHandle") {
        return classes.handle(at);
    }
    vm.memory.u64(at).map(|word| classes.encoding.wide(word)).map_err(VmError::fault("JavaThread", field))
}

/// The object that a field of this name holds; `None` where it is null.
pub(super) fn reference(classes: &Classes<'_>, class: &Klass, object: Addr, field: &str) -> Option<Addr> {
    let field = classes.field(class, field).filter(|field| field.is_reference())?;
    let at = object.wrapping_add(field.offset);
    // What leads to an object may be older than its last move: where it was is no heap any more, and nothing else says what it was.
    classes.keep_reference(at);
    classes.reference(at).ok().filter(|at| !at.is_null())
}

/// The `int` that a field of this name holds.
pub(super) fn number(classes: &Classes<'_>, class: &Klass, object: Addr, field: &str) -> Option<u32> {
    let field = classes.field(class, field).filter(|field| field.descriptor == "I")?;
    let at = object.wrapping_add(field.offset);
    classes.vm.memory.keep(at, 4);
    classes.vm.memory.u32(at).ok()
}

/// Bits of a thread's state, as JVMTI numbers them (JVM Tool Interface, GetThreadState): the same in all releases.
mod bits {
    pub(super) const TERMINATED: u32 = 0x2;
    pub(super) const RUNNABLE: u32 = 0x4;
    pub(super) const WAITING_WITH_TIMEOUT: u32 = 0x20;
    pub(super) const SLEEPING: u32 = 0x40;
    pub(super) const IN_OBJECT_WAIT: u32 = 0x100;
    pub(super) const PARKED: u32 = 0x200;
    pub(super) const BLOCKED: u32 = 0x400;
}

/// A state as jstack writes it: `TIMED_WAITING (sleeping)`.
pub(crate) fn state(status: u32) -> Option<&'static str> {
    let is = |bit| status & bit != 0;
    Some(match status {
        0 => "NEW",
        _ if is(bits::TERMINATED) => "TERMINATED",
        _ if is(bits::BLOCKED) => "BLOCKED (on object monitor)",
        _ if is(bits::SLEEPING) => "TIMED_WAITING (sleeping)",
        _ if is(bits::IN_OBJECT_WAIT) && is(bits::WAITING_WITH_TIMEOUT) => "TIMED_WAITING (on object monitor)",
        _ if is(bits::IN_OBJECT_WAIT) => "WAITING (on object monitor)",
        _ if is(bits::PARKED) && is(bits::WAITING_WITH_TIMEOUT) => "TIMED_WAITING (parking)",
        _ if is(bits::PARKED) => "WAITING (parking)",
        _ if is(bits::RUNNABLE) => "RUNNABLE",
        _ => return None,
    })
}

/// Whether a thread of this state is parked.
pub(super) fn is_parked(status: u32) -> bool {
    status & bits::PARKED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are the VM's own constants (`JavaThreadStatus::…`) of JDK 17 and 25, the words those of jstack.
    #[test]
    fn states_as_jstack_writes_them() {
        for (status, words) in [
            (0, Some("NEW")),
            (5, Some("RUNNABLE")),
            (225, Some("TIMED_WAITING (sleeping)")),
            (401, Some("WAITING (on object monitor)")),
            (417, Some("TIMED_WAITING (on object monitor)")),
            (657, Some("WAITING (parking)")),
            (673, Some("TIMED_WAITING (parking)")),
            (1025, Some("BLOCKED (on object monitor)")),
            (2, Some("TERMINATED")),
            (0x4000_0000, None),
        ] {
            assert_eq!(state(status), words, "{status}");
        }
    }
}
