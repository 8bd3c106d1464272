//! Where blocks were allocated: the table of `tracemalloc` (Modules/_tracemalloc.c, since 3.13 Python/tracemalloc.c).
//!
//! The table is a `_Py_hashtable_t` from the address of a block to its trace. Up to 3.11 a static variable leads to it,
//! later `_PyRuntime`. Neither its symbol nor its offset is needed: among the words of the interpreter's data, only
//! those tables have keys with a trace, whose file names are strings.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::image::ModuleKind;
use crate::limits;
use crate::memory::walk::Walks;
use crate::memory::window::Window;
use crate::memory::{Fault, Memory};
use crate::phase::Phase;
use crate::runtimes::api::{AllocationTrace, AllocationTraces};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::runtime::follow;

/// Offsets in `_Py_hashtable_t`: entries, buckets, their array, and two functions (Include/internal/pycore_hashtable.h).
const ENTRIES: u64 = 0;
const BUCKETS: u64 = 8;
const ARRAY: u64 = 16;
const FUNCTIONS: [u64; 2] = [24, 32];

/// Offsets in `_Py_hashtable_entry_t`.
const KEY: u64 = 16;
const VALUE: u64 = 24;

/// Offsets in `trace_t`, and in `traceback_t`, whose frames are packed: file name and line.
const TRACEBACK: u64 = 8;
const NFRAME: u64 = 8;
const FRAMES: u64 = 12;
const LINE: u64 = 8;

/// Number of entries that are checked before a table is believed.
const CHECKED: usize = 16;

impl CPython<'_> {
    pub(super) fn read_traces(&self) -> Option<AllocationTraces> {
        let runtime = self.runtime();
        let module = runtime.process.modules.get(runtime.module)?;
        let ModuleKind::Elf(image) = &module.kind else { return None };
        let _phase = runtime.process.enter(Phase::Objects);
        for part in image.writable_parts(runtime.memory) {
            for window in Window::written(runtime.process.target(), part) {
                for word in window.within(part) {
                    let table = Addr::new(u64::from_le_bytes(*word));
                    if self.is_table(table) == Some(true)
                        && let Some(found) = self.table(table)
                    {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    /// Whether the first words at `at` can be those of a table.
    fn is_table(&self, at: Addr) -> Option<bool> {
        if !at.is_aligned(8) || at.is_null() {
            return Some(false);
        }
        let memory = self.runtime().memory;
        let word = |offset: u64| memory.peek_u64(at.checked_add(offset)?).ok();
        let buckets = word(BUCKETS)?;
        let sound = buckets.is_power_of_two() && buckets <= limits::MAX_PY_TRACES && word(ENTRIES)? > 0;
        let modules = &self.runtime().process.modules;
        let is_code = |value: u64| modules.iter().any(|module| module.range.contains(Addr::new(value)));
        Some(sound && FUNCTIONS.iter().all(|offset| word(*offset).is_some_and(is_code)))
    }

    /// Reads a table. `None` if its entries are no traces.
    fn table(&self, at: Addr) -> Option<AllocationTraces> {
        let (runtime, memory) = (self.runtime(), self.runtime().memory);
        let buckets = memory.peek_u64(at.checked_add(BUCKETS)?).ok()?;
        let array = memory.ptr(at.checked_add(ARRAY)?).ok()?;
        let mut out = AllocationTraces { tracer: "tracemalloc", ..AllocationTraces::default() };
        let mut files: HashMap<Addr, Arc<str>> = HashMap::new();
        let walks = Walks::new(Phase::Objects, usize::try_from(limits::MAX_PY_TRACES).ok()?);
        let mut is_other = false;
        for bucket in 0..buckets {
            let Some(first) = array.checked_add(8 * bucket).and_then(|at| memory.ptr(at).ok()) else { continue };
            let next = |at: Addr| -> Result<Addr, Fault> { memory.ptr(at) };
            let mut visit = |entry: Addr| match self.trace(entry, &mut files) {
                Some(trace) => {
                    out.list.push(trace);
                    out.nodes.push(entry);
                }
                None => is_other |= out.list.len() < CHECKED,
            };
            if follow(&walks, first, next, &mut visit).is_err() {
                self.warn("tracemalloc", "a part of its table could not be read");
                break;
            }
            if is_other {
                return None;
            }
        }
        out.nodes.push(array);
        let _ = runtime;
        (!out.list.is_empty()).then_some(out)
    }

    fn trace(&self, entry: Addr, files: &mut HashMap<Addr, Arc<str>>) -> Option<AllocationTrace> {
        let (memory, objects) = (self.runtime().memory, self.runtime().objects());
        let block = memory.ptr(entry.checked_add(KEY)?).ok().filter(|at| !at.is_null())?;
        let value = memory.ptr(entry.checked_add(VALUE)?).ok()?;
        let size = memory.peek_u64(value).ok().filter(|size| *size <= limits::MAX_RUNTIME_RANGE)?;
        let traceback = memory.ptr(value.checked_add(TRACEBACK)?).ok()?;
        let frames = memory.peek_u64(traceback.checked_add(NFRAME)?).ok()? & 0xffff;
        let frame = traceback.checked_add(FRAMES)?;
        let mut word = [0; 8];
        memory.peek(frame, &mut word).ok().filter(|()| frames > 0)?;
        let name = Addr::new(u64::from_le_bytes(word));
        let mut line = [0; 4];
        memory.peek(frame.checked_add(LINE)?, &mut line).ok()?;
        let file = match files.get(&name) {
            Some(file) => file.clone(),
            None => {
                let file: Arc<str> = objects.is_str(name).then(|| objects.text(name, limits::MAX_PY_NAME))??.into();
                files.insert(name, file.clone());
                file
            }
        };
        Some(AllocationTrace { block, size, file, line: u32::from_le_bytes(line) })
    }
}
