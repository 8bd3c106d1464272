//! The end of the process by an OutOfMemoryException, and allocations that failed before.

use crate::facts::ThreadRow;
use crate::runtimes::api::{FailedAllocation, LastWords, OutOfMemory};
use crate::runtimes::clr_gc::oom;
use crate::runtimes::coreclr::CoreClr;
use crate::units::{exact, round};

/// Type of the exception.
const EXCEPTION: &str = "System.OutOfMemoryException";

/// Environment variables with the heap's limit in bytes. The values are hexadecimal (clrconfignames.h, gcconfig.h).
const LIMITS: [&str; 2] = ["DOTNET_GCHeapHardLimit", "COMPlus_GCHeapHardLimit"];

/// Functions in the stack of a thread that ended the process: it aborts, or waits for the program that writes the core.
const ENDS: [&str; 4] = ["abort", "wait4", "waitpid", "__waitpid"];

impl LastWords for CoreClr<'_> {
    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory> {
        let ends = |method: &str| ENDS.contains(&method);
        let ended = thread.crashed && thread.frames.iter().any(|frame| frame.method.as_deref().is_some_and(ends));
        thread.exception.as_ref().filter(|thrown| ended && thrown.r#type == EXCEPTION)?;
        let limit = self.heap_limit().map_or_else(String::new, |limit| format!(" (limit {})", round(limit)));
        let asked = self.failed_allocation();
        let asked = asked.map_or_else(String::new, |asked| {
            format!("; the last request that the collector could not meet was for {} bytes", exact(asked.bytes))
        });
        Some(OutOfMemory {
            what: format!("the managed heap{limit} is exhausted, unhandled OutOfMemoryException{asked}"),
            evidence: "the exception that the thread threw",
        })
    }

    fn failed_allocation(&self) -> Option<FailedAllocation> {
        let heaps = CoreClr::heaps(self);
        oom::read(self.gc(), heaps.server, &heaps.segments)
    }

    fn heap_limit(&self) -> Option<u64> {
        LIMITS.iter().find_map(|name| limit(self.process().environment(name)?))
    }
}

/// The limit in a setting's text. `None` if it is 0 or no number.
fn limit(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).ok().filter(|limit| *limit > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_hexadecimal_with_or_without_a_prefix() {
        assert_eq!([limit("0xC800000"), limit("C800000")], [Some(200 << 20); 2]);
        assert_eq!([limit(""), limit("0"), limit("200MB")], [None; 3]);
    }
}
