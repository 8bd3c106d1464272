//! java.lang.Thread objects: Java's record of a thread.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, Klass};
use crate::runtimes::hotspot::vm::VmError;

/// The fields of a java.lang.Thread object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadObject {
    /// Address of the object.
    pub address: Addr,
    /// Name of its class.
    pub class: String,
    /// The thread's name.
    pub name: Option<String>,
    /// The thread's number (`Thread.threadId()`).
    pub id: Option<u64>,
    /// The thread's state, as bits of JVMTI; see [`state`].
    pub status: Option<u32>,
    /// The object for which the thread is parked (`LockSupport.park`).
    pub blocker: Option<Addr>,
}

impl ThreadObject {
    /// Returns the object of a JavaThread. `None` while it is being created, or if it cannot be read.
    pub fn of(classes: &Classes<'_>, java_thread: Addr) -> Option<ThreadObject> {
        ThreadObject::read(classes, thread_object(classes, java_thread, "_threadObj").ok()?)
    }

    /// Reads the thread object at `object`.
    pub fn read(classes: &Classes<'_>, object: Addr) -> Option<ThreadObject> {
        if object.is_null() {
            return None;
        }
        let class = classes.class_of(object)?;
        classes.keep_class(object);
        // Since JDK 19 another object has the fields that only platform threads have.
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

/// Returns the object in a field of a JavaThread. The field is an OopHandle, up to JDK 15 the reference itself.
pub(super) fn thread_object(classes: &Classes<'_>, thread: Addr, field: &'static str) -> Result<Addr, VmError> {
    let at = classes.vm.at("JavaThread", thread).addr_of(field)?;
    classes.field_of_vm("JavaThread", field, at)
}

/// Returns the object in the field of this name. `None` if it is null.
pub(in crate::runtimes::hotspot) fn reference(
    classes: &Classes<'_>,
    class: &Klass,
    object: Addr,
    field: &str,
) -> Option<Addr> {
    let field = classes.field(class, field).filter(|field| field.is_reference())?;
    let at = object.wrapping_add(field.offset);
    // The reference that led to this object may be older than the object's last move. The old address is no longer in
    // the heap, so nothing else says what these bytes are.
    classes.keep_reference(at);
    classes.reference(at).ok().filter(|at| !at.is_null())
}

/// Returns the `int` in the field of this name.
pub(in crate::runtimes::hotspot) fn number(
    classes: &Classes<'_>,
    class: &Klass,
    object: Addr,
    field: &str,
) -> Option<u32> {
    let field = classes.field(class, field).filter(|field| field.descriptor == "I")?;
    let at = object.wrapping_add(field.offset);
    classes.vm.memory.keep(at, 4);
    classes.vm.memory.u32(at).ok()
}

/// Bits of a thread's state in JVMTI (JVM Tool Interface, GetThreadState), equal in all releases.
mod bits {
    pub(super) const TERMINATED: u32 = 0x2;
    pub(super) const RUNNABLE: u32 = 0x4;
    pub(super) const WAITING_WITH_TIMEOUT: u32 = 0x20;
    pub(super) const SLEEPING: u32 = 0x40;
    pub(super) const IN_OBJECT_WAIT: u32 = 0x100;
    pub(super) const PARKED: u32 = 0x200;
    pub(super) const BLOCKED: u32 = 0x400;
}

/// Returns a state as jstack writes it: `TIMED_WAITING (sleeping)`.
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

pub(super) fn has_ended(status: u32) -> bool {
    status & bits::TERMINATED != 0
}

pub(super) fn is_parked(status: u32) -> bool {
    status & bits::PARKED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are the VM's constants (`JavaThreadStatus::…`) of JDK 17 and 25, the words are jstack's.
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
