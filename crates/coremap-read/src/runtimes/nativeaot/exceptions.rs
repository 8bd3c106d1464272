//! Exception objects, and the text that the runtime writes when an exception ends the process.
//!
//! Sources: System.Private.CoreLib: Exception.cs, Exception.NativeAot.cs; CrashInfo.cs (the text).

use serde_json::Value;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::image::ModuleKind;
use crate::limits;
use crate::runtimes::api::{Heap as _, ListedException};
use crate::runtimes::nativeaot::census::{Census, Part};
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::runtime::Runtime;

/// Generation of an object that is in no segment that was read.
const UNKNOWN: &str = "unknown";

/// Lists all exception objects of the heap, and the number of those left out.
pub(super) fn list(heap: &Heap<'_>, census: &Census) -> (Vec<ListedException>, u64) {
    let all = census.of(Part::Exception);
    let rows = all.iter().take(limits::MAX_LISTED_OBJECTS).map(|object| {
        let at = object.addr;
        let part = heap.ranges().iter().find(|part| part.range.contains(at));
        ListedException {
            object: at,
            type_name: heap.type_name(object.kind),
            message: heap.text("AotException", at, "_message"),
            hresult: heap.number("AotException", at, "_HResult"),
            inner: heap.held("AotException", at, "_innerException"),
            thrown: heap.number("AotException", at, "_idxFirstFreeStackTraceEntry").map(|entries| entries > 0),
            generation: part.map_or(UNKNOWN, |part| part.generation.name),
        }
    });
    (rows.collect(), all.len().saturating_sub(limits::MAX_LISTED_OBJECTS) as u64)
}

/// What the runtime wrote before it ended the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CrashInfo {
    /// Whether the program ended itself (Environment.FailFast). Otherwise an exception was not handled.
    pub(super) fail_fast: bool,
    /// System thread id.
    pub(super) tid: Option<u32>,
    pub(super) message: Option<String>,
    /// Type and message of the exception.
    pub(super) exception: Option<(String, Option<String>)>,
    pub(super) object: Option<Addr>,
    /// Methods of its stack, innermost first.
    pub(super) stack: Vec<String>,
}

/// Start of the text.
const BEGIN: &[u8] = b"{\"version\":\"";

/// Number in `reason` of a program that ended itself.
const FAIL_FAST: &str = "2";

impl CrashInfo {
    /// Reads the text. `None` if the runtime wrote none.
    pub(super) fn read(runtime: &Runtime<'_>) -> Option<CrashInfo> {
        let at = runtime.crash_info.or_else(|| search(runtime))?;
        let len = runtime.memory().readable(at, limits::MAX_CRASH_INFO);
        let bytes = runtime.memory().bytes(at, usize::try_from(len).ok()?).ok()?;
        CrashInfo::parse(bytes.get(..memchr::memchr(0, &bytes)?)?)
    }

    fn parse(text: &[u8]) -> Option<CrashInfo> {
        if !text.starts_with(BEGIN) {
            return None;
        }
        let root: Value = serde_json::from_slice(text).ok()?;
        let word = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(|text| printable(text).into_owned());
        let number = |of: &Value, key: &str| {
            let text = of.get(key).and_then(Value::as_str)?;
            u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
        };
        let exception = root.get("exception").filter(|exception| exception.is_object());
        let frames = exception.and_then(|of| of.get("stack")).and_then(Value::as_array);
        let frames = frames.into_iter().flatten().take(limits::MAX_STACK_FRAMES);
        Some(CrashInfo {
            fail_fast: word(&root, "reason")? == FAIL_FAST,
            tid: number(&root, "thread").and_then(|tid| u32::try_from(tid).ok()),
            message: word(&root, "message").filter(|text| !text.is_empty()),
            exception: exception
                .and_then(|of| Some((word(of, "type")?, word(of, "message").filter(|text| !text.is_empty())))),
            object: exception.and_then(|of| number(of, "address")).map(Addr::new).filter(|at| !at.is_null()),
            stack: frames.filter_map(|frame| word(frame, "name").filter(|name| !name.is_empty())).collect(),
        })
    }
}

/// Finds the text in the module's variables, if the runtime does not say where it is.
fn search(runtime: &Runtime<'_>) -> Option<Addr> {
    let module = runtime.process.modules.get(runtime.module)?;
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let finder = memchr::memmem::Finder::new(BEGIN);
    for part in image.writable_parts(runtime.memory()) {
        let Ok(bytes) = runtime.memory().look(part.start, part.len() as usize) else { continue };
        for i in finder.find_iter(&bytes) {
            let rest = bytes.get(i..).unwrap_or_default();
            let rest = rest.get(..(limits::MAX_CRASH_INFO as usize).min(rest.len())).unwrap_or_default();
            let end = memchr::memchr(0, rest).unwrap_or(0);
            if rest.get(..end).is_some_and(|text| CrashInfo::parse(text).is_some()) {
                let at = part.start.saturating_add(i as u64);
                runtime.memory().keep(at, end as u64 + 1);
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_crash() {
        let text = br#"{"version":"1.0.0","runtime_base":"0x5500","runtime_type":"4","runtime_version":"8.0.34","reason":"1",
            "thread":"0x5766","message":"Unhandled","exception":{"address":"0x7f10","hr":"0x80131509","message":"reef \"99\"",
            "type":"Ledger.HarborException","stack":[{"ip":"0x1","module":"0x2","offset":"0x3","name":"Ledger.Harbor.Deep(Int32)"}]}}"#;
        let Some(found) = CrashInfo::parse(text) else { panic!("not read") };
        assert_eq!((found.fail_fast, found.tid, found.object), (false, Some(0x5766), Some(Addr::new(0x7f10))));
        assert_eq!(found.exception, Some(("Ledger.HarborException".into(), Some("reef \"99\"".into()))));
        assert_eq!(found.stack, ["Ledger.Harbor.Deep(Int32)"]);
        let fast = br#"{"version":"1.0.0","reason":"2","thread":"0x10","message":"stop"}"#;
        let Some(found) = CrashInfo::parse(fast) else { panic!("not read") };
        assert!(found.fail_fast && found.exception.is_none() && found.message.as_deref() == Some("stop"));
        assert_eq!(CrashInfo::parse(b""), None);
        assert_eq!(CrashInfo::parse(br#"{"version":"1.0.0""#), None);
    }
}
