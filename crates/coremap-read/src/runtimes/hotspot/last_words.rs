//! The end of the process: an OutOfMemoryError that ends the VM.

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::memory::Memory;
use crate::runtimes::api::{LastWords, OutOfMemory};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::JavaField;
use crate::runtimes::hotspot::roots::on_stacks;
use crate::units::round;

/// The function that reports an OutOfMemoryError (src/hotspot/share/utilities/debug.cpp). It ends the VM if a flag says
/// so.
const REPORT: &str = "report_java_out_of_memory";

/// Flags by which an OutOfMemoryError ends the VM, and its handler of signals.
const ENDS: [&str; 2] = ["CrashOnOutOfMemoryError", "ExitOnOutOfMemoryError"];
const HANDLER: &str = "JVM_handle_linux_signal";

/// Upper bound on addresses that are taken for an offset from null.
const NEAR_NULL: u64 = 16 << 20;

/// Share of the limit, in percent, from which the heap counts as full.
const FULL: u64 = 80;

impl HotSpot<'_> {
    fn is_full(&self) -> bool {
        let used =
            self.spaces().map(|spaces| spaces.all.iter().map(|space| space.used.len()).fold(0, u64::saturating_add));
        let limit = self.vm().int_flag("MaxHeapSize");
        used.zip(limit).is_some_and(|(used, limit)| used.saturating_mul(100) >= limit.saturating_mul(FULL))
    }

    /// The field of type `long` that is 0, in the object whose method failed. `None` if several such objects are on the
    /// thread's stack.
    fn null_address(&self, tid: u32, method: Addr) -> Option<String> {
        let classes = self.classes();
        let class = classes.klass(classes.method(method)?.holder)?;
        let fields = classes.declared_fields(class.address);
        let thread = self.java_threads().iter().find(|thread| thread.tid == Some(tid))?;
        let is = |object: &Addr| classes.class_of(*object).is_some_and(|of| of.address == class.address);
        let on_stack = on_stacks(self, std::slice::from_ref(thread)).into_iter().map(|(_, object)| object);
        let mut objects: Vec<Addr> = on_stack.filter(is).collect();
        objects.sort_unstable();
        objects.dedup();
        // Which of several objects the method used is not recorded.
        let [object] = objects.as_slice() else { return None };
        let is_null = |offset| classes.vm.memory.u64(object.wrapping_add(offset)) == Ok(0);
        let is_long = |field: &&JavaField| !field.is_static && field.descriptor == "J";
        let null = fields.iter().filter(is_long).find(|field| is_null(field.offset))?;
        Some(format!("{}.{}", class.name, null.name))
    }
}

impl LastWords for HotSpot<'_> {
    fn fault(&self, thread: &ThreadRow, address: Addr) -> Option<String> {
        let first = thread.frames.first().filter(|frame| frame.runtime.is_some())?;
        if address.get() >= NEAR_NULL {
            return None;
        }
        // A null reference would throw an exception. Only code that computes addresses faults here.
        let null = first.method_desc.and_then(|method| self.null_address(thread.tid, method));
        let null = null.map_or_else(String::new, |field| format!(": {field} is 0 (null)"));
        Some(format!(
            "Java code reaches such an address only through Unsafe or foreign memory, as an offset from null{null}."
        ))
    }

    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory> {
        let reports = |method: &str| method.contains(REPORT);
        let by_name = thread.frames.iter().any(|frame| frame.method.as_deref().is_some_and(reports));
        let aborts = || thread.frames.iter().any(|frame| frame.method.as_deref() == Some("abort"));
        // A VM without symbols has no such name. Its handler of signals is exported.
        let handles = || {
            let handler = |method: &str| method == HANDLER;
            thread.frames.iter().any(|frame| frame.method.as_deref().is_some_and(handler))
        };
        let by_flag = || ENDS.iter().any(|flag| self.vm().is_set(flag)) && aborts() && !handles() && self.is_full();
        if !by_name && !by_flag() {
            return None;
        }
        let limit = self.vm().int_flag("MaxHeapSize").filter(|limit| *limit > 0);
        let limit = limit.map_or_else(String::new, |limit| format!(" (limit {})", round(limit)));
        Some(OutOfMemory {
            what: format!("the Java heap{limit} is exhausted, OutOfMemoryError"),
            evidence: if by_name {
                "report_java_out_of_memory on the stack"
            } else {
                "the VM's flags, and its full heap"
            },
        })
    }
}
