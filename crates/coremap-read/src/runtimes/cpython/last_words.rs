//! Failed allocations: `MemoryError`s that were raised and are still referenced.

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{KeptFailure, LastWords, OutOfMemory};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::is_of_the_library;
use crate::runtimes::cpython::runtime::follow;

impl CPython<'_> {
    /// The functions of the program in an exception's traceback, innermost first. `None` if it has no traceback.
    fn functions_of(&self, exception: Addr) -> Option<Vec<String>> {
        let runtime = self.runtime();
        let first =
            runtime.view("PyBaseExceptionObject", exception).ptr("traceback").ok().filter(|at| !at.is_null())?;
        let mut out = Vec::new();
        let walks = Walks::new(Phase::Objects, limits::MAX_PY_CHUNKS);
        let next = |at: Addr| runtime.view("PyTracebackObject", at).ptr("tb_next");
        let walked = follow(&walks, first, next, |at| {
            let frame = runtime.view("PyTracebackObject", at).ptr("tb_frame");
            let code = frame.ok().and_then(|frame| {
                let inner = runtime.view("PyFrameObject", frame).ptr("f_frame").unwrap_or(frame);
                super::frames::frame_at(runtime, inner).ok()
            });
            let code = code.and_then(|frame| self.all_code().codes.code(frame.code));
            out.extend(code.filter(|code| !is_of_the_library(code.file())).map(|code| code.name().to_owned()));
        });
        // What was read before the end counts.
        drop(walked);
        out.reverse();
        Some(out)
    }
}

impl LastWords for CPython<'_> {
    fn out_of_memory(&self, _thread: &ThreadRow) -> Option<OutOfMemory> {
        None
    }

    fn kept_failures(&self) -> Vec<KeptFailure> {
        if !self.tracks_memory_errors() {
            return Vec::new();
        }
        let of = |&object: &Addr| {
            // MemoryErrors that the interpreter made in advance have no traceback.
            let functions = self.functions_of(object)?;
            Some(KeptFailure { object, r#type: self.type_name_of(object)?, functions })
        };
        self.instances().memory_errors.iter().filter_map(of).collect()
    }
}
