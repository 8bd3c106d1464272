//! The end of the process: an OutOfMemoryError that ends the VM.

use crate::facts::ThreadRow;
use crate::runtimes::api::{LastWords, OutOfMemory};
use crate::runtimes::hotspot::HotSpot;
use crate::units::round;

/// The function that reports an OutOfMemoryError (src/hotspot/share/utilities/debug.cpp). It ends the VM if a flag says
/// so.
const REPORT: &str = "report_java_out_of_memory";

/// Flags by which an OutOfMemoryError ends the VM, and its handler of signals.
const ENDS: [&str; 2] = ["CrashOnOutOfMemoryError", "ExitOnOutOfMemoryError"];
const HANDLER: &str = "JVM_handle_linux_signal";

/// Share of the limit, in percent, from which the heap counts as full.
const FULL: u64 = 80;

impl HotSpot<'_> {
    fn is_full(&self) -> bool {
        let used =
            self.spaces().map(|spaces| spaces.all.iter().map(|space| space.used.len()).fold(0, u64::saturating_add));
        let limit = self.vm().int_flag("MaxHeapSize");
        used.zip(limit).is_some_and(|(used, limit)| used.saturating_mul(100) >= limit.saturating_mul(FULL))
    }
}

impl LastWords for HotSpot<'_> {
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
