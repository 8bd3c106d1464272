//! Failed allocations: `MemoryError`s that were raised and that something keeps.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{Heap as _, KeptFailure, LastWords, OutOfMemory, UnwalkedRanges};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::is_of_the_library;
use crate::runtimes::cpython::runtime::follow;

/// The exception. Libraries derive their own from it.
const MEMORY_ERROR: &str = "MemoryError";

impl CPython<'_> {
    fn is_memory_error(&self, kind: Addr) -> bool {
        let objects = self.runtime().objects();
        objects.bases(kind).any(|base| {
            self.objects().and_then(|heap| heap.type_at(base)).is_some_and(|found| found.name == MEMORY_ERROR)
        })
    }

    /// The functions of the program in a traceback, innermost first.
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
        let Some(heap) = self.objects() else { return Vec::new() };
        // The collector knows all exceptions, so most heaps need no walk.
        let is = |kind| heap.type_of_kind(kind).is_some_and(|found| self.is_memory_error(found.address));
        let blocks = heap.blocks();
        let kinds: HashMap<_, bool> =
            blocks.iter().flat_map(|blocks| blocks.tracked().keys()).map(|kind| (*kind, is(*kind))).collect();
        if !kinds.values().any(|is| *is) {
            return Vec::new();
        }
        let (mut walker, mut losses, mut found) = (heap.walker(), UnwalkedRanges::default(), Vec::new());
        for part in heap.ranges() {
            walker.walk(part, &mut losses, &mut |object| {
                if kinds.get(&object.kind) == Some(&true) && found.len() < limits::MAX_PY_OUTSIDE {
                    found.push(object.addr);
                }
            });
        }
        let of = |object: Addr| {
            // Those that the interpreter made in advance have no traceback.
            let functions = self.functions_of(object)?;
            Some(KeptFailure { object, r#type: self.type_name_of(object)?, functions })
        };
        found.into_iter().filter_map(of).collect()
    }
}
