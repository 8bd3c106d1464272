//! `_Py_DebugOffsets`: what CPython says of its own layout since 3.13, at the start of `_PyRuntime`
//! (Include/internal/pycore_debug_offsets.h; of 3.13, pycore_runtime.h).
//!
//! A cookie, PY_VERSION_HEX, whether the build is free-threaded, then offsets, 8 bytes each. Their order is that of the
//! minor version; what this program has no use for is named too, as its place counts.

use crate::addr::{Addr, WORD};
use crate::layout::{Layout, LayoutError};
use crate::memory::{Fault, Memory};

/// What it begins with.
pub(super) const COOKIE: [u8; 8] = *b"xdebugpy";

/// What comes before the offsets: cookie, version, free-threaded.
const HEAD: u64 = 3 * WORD;

type Group = (&'static str, &'static [&'static str]);

/// Fields of structs, in the order of 3.13; a struct may come in pieces. `!` is a size.
const OFFSETS_3_13: &[Group] = &[
    RUNTIME,
    ("PyInterpreterState", TO_THREADS),
    ("PyInterpreterState", FROM_GC),
    ("PyThreadState", THREAD),
    ("_PyInterpreterFrame", FRAME),
    ("PyCodeObject", CODE),
    OBJECT,
];

/// The same of 3.14.
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

/// Fields that are the first of their struct in some version.
const FIRST: &[&str] = &["f_executable", "next", "prev"];

/// What a runtime says of itself.
pub(super) struct DebugOffsets {
    /// PY_VERSION_HEX.
    pub(super) hexversion: u32,
    /// Whether it is a build without the global lock.
    pub(super) free_threaded: bool,
}

/// The head of the offsets at `runtime`; `None` where they don't begin there.
pub(super) fn head(memory: &dyn Memory, runtime: Addr) -> Option<DebugOffsets> {
    let mut cookie = [0; 8];
    memory.read(runtime, &mut cookie).ok().filter(|()| cookie == COOKIE)?;
    let hexversion = u32::try_from(memory.u64(runtime.checked_add(WORD)?).ok()?).ok()?;
    let free_threaded = memory.u64(runtime.checked_add(2 * WORD)?).ok()? != 0;
    Some(DebugOffsets { hexversion, free_threaded })
}

/// The offsets of a minor version as a layout that goes over the table's; `None` for versions without them.
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
            // What a build lacks is 0; sizes are of no use.
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

/// Why offsets can't be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// They are not in the core.
    #[error("{0}")]
    Fault(Fault),
    /// One of them is none.
    #[error(transparent)]
    Layout(LayoutError),
}
