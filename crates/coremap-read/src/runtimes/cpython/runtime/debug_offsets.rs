//! `_Py_DebugOffsets`: CPython's description of its own layout, at the start of `_PyRuntime` since 3.13
//! (Include/internal/pycore_debug_offsets.h; in 3.13, pycore_runtime.h).
//!
//! It has a cookie, PY_VERSION_HEX and a flag for free-threaded builds. Then come offsets of 8 bytes each, in an order
//! that depends on the minor version. Unused ones are listed too, because positions count.

use crate::addr::{Addr, WORD};
use crate::layout::{Layout, LayoutError};
use crate::memory::{Fault, Memory};

/// The first 8 bytes.
pub(super) const COOKIE: [u8; 8] = *b"xdebugpy";

/// Length in bytes of cookie, version and free-threaded flag. The offsets follow.
const HEAD: u64 = 3 * WORD;

type Group = (&'static str, &'static [&'static str]);

/// Structs with their fields, in the order of 3.13. A struct may appear several times. `!` represents the struct's
/// size.
const OFFSETS_3_13: &[Group] = &[
    RUNTIME,
    ("PyInterpreterState", TO_THREADS),
    ("PyInterpreterState", FROM_GC),
    ("PyThreadState", THREAD),
    ("_PyInterpreterFrame", FRAME),
    ("PyCodeObject", CODE),
    OBJECT,
];

/// The same for 3.14.
const OFFSETS_3_14: &[Group] = &[
    RUNTIME,
    ("PyInterpreterState", TO_THREADS),
    ("PyInterpreterState", &["threads.main"]),
    ("PyInterpreterState", FROM_GC),
    ("PyInterpreterState", &["code_object_generation", "tlbc_generation"]),
    ("PyThreadState", THREAD),
    ("_PyInterpreterFrame", FRAME),
    ("_PyInterpreterFrame", &["stackpointer", "tlbc_index"]),
    ("PyCodeObject", CODE),
    ("PyCodeObject", &["co_tlbc"]),
    OBJECT,
];

const RUNTIME: Group = ("_PyRuntimeState", &["!", "finalizing", "interpreters.head"]);

const TO_THREADS: &[&str] = &["!", "id", "next", "threads.head"];

const FROM_GC: &[&str] = &[
    "gc",
    "imports.modules",
    "sysdict",
    "builtins",
    "ceval.gil",
    "_gil",
    "_gil.enabled",
    "_gil.locked",
    "_gil.last_holder",
];

const FRAME: &[&str] = &["!", "previous", "f_executable", "instr_ptr", "localsplus", "owner"];

const OBJECT: Group = ("PyObject", &["!", "ob_type"]);

const THREAD: &[&str] =
    &["!", "prev", "next", "interp", "current_frame", "thread_id", "native_thread_id", "datastack_chunk", "_status"];

const CODE: &[&str] = &[
    "!",
    "co_filename",
    "co_name",
    "co_qualname",
    "co_linetable",
    "co_firstlineno",
    "co_argcount",
    "co_localsplusnames",
    "co_localspluskinds",
    "co_code_adaptive",
];

/// Fields that have offset 0 in some version.
const FIRST: &[&str] = &["f_executable", "next", "prev"];

pub(super) struct DebugOffsets {
    /// PY_VERSION_HEX.
    pub(super) hexversion: u32,
    pub(super) free_threaded: bool,
}

/// Reads the head at `runtime`. `None` if there is no cookie.
pub(super) fn head(memory: &dyn Memory, runtime: Addr) -> Option<DebugOffsets> {
    let mut cookie = [0; 8];
    memory.read(runtime, &mut cookie).ok().filter(|()| cookie == COOKIE)?;
    let hexversion = u32::try_from(memory.u64(runtime.checked_add(WORD)?).ok()?).ok()?;
    let free_threaded = memory.u64(runtime.checked_add(2 * WORD)?).ok()? != 0;
    Some(DebugOffsets { hexversion, free_threaded })
}

/// Reads the offsets as a layout that overrides the table. `None` for minor versions without them.
pub(super) fn read(memory: &dyn Memory, runtime: Addr, minor: u32) -> Option<Result<Layout, ReadError>> {
    let groups = match minor {
        13 => OFFSETS_3_13,
        14 => OFFSETS_3_14,
        _ => return None,
    };
    let mut layout = Layout::new("_Py_DebugOffsets", "the runtime's own description");
    let mut at = runtime.wrapping_add(HEAD);
    for (kind, fields) in groups {
        for field in *fields {
            let value = match memory.u64(at) {
                Ok(value) => value,
                Err(fault) => return Some(Err(ReadError::Fault(fault))),
            };
            // Fields that the build lacks have 0. Sizes are not used.
            let put = match i64::try_from(value) {
                Ok(value) if *field != "!" && (value != 0 || FIRST.contains(field)) => layout.put(kind, field, value),
                _ => Ok(()),
            };
            if let Err(e) = put {
                return Some(Err(ReadError::Layout(e)));
            }
            at = at.wrapping_add(WORD);
        }
    }
    Some(Ok(layout))
}

/// Why the offsets can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// They are not in the core.
    #[error("{0}")]
    Fault(Fault),
    /// A value is not a valid offset.
    #[error(transparent)]
    Layout(LayoutError),
}
