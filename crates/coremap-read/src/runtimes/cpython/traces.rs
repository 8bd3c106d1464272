//! Where blocks were allocated: the table of `tracemalloc` (Modules/_tracemalloc.c, since 3.13 Python/tracemalloc.c).
//!
//! The table is a `_Py_hashtable_t` from the address of a block to its trace. Up to 3.11 a static variable points to
//! it, later `_PyRuntime`. It is found without a symbol or an offset: of all tables that the interpreter's data points
//! to, only this one has traces with file names as values.

use std::collections::{HashMap, HashSet};
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

/// Offsets in `_Py_hashtable_t`: number of entries, number of buckets, array of buckets, and two functions
/// (Include/internal/pycore_hashtable.h).
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

/// Minimum number of traces that precede the first other entry. With fewer, the table is another one.
const CHECKED: usize = 16;

impl CPython<'_> {
    pub(super) fn read_traces(&self) -> Option<AllocationTraces> {
        let runtime = self.runtime();
        let module = runtime.process.modules.get(runtime.module)?;
        let ModuleKind::Elf(image) = &module.kind else { return None };
        let _phase = runtime.process.enter(Phase::Objects);
        let (mut tried, mut left) = (HashSet::new(), limits::MAX_PY_TRACES);
        for part in image.writable_parts(runtime.memory) {
            for window in Window::written(runtime.process.target(), part) {
                for word in window.within(part) {
                    let table = Addr::new(u64::from_le_bytes(*word));
                    let Some(buckets) = self.buckets_of(table) else { continue };
                    // Many words may point to one table, and tables of other kinds may be as large.
                    if left == 0 || !tried.insert(table) {
                        continue;
                    }
                    if let Some(found) = self.table(table, buckets) {
                        return Some(found);
                    }
                    left = left.saturating_sub(buckets);
                }
            }
        }
        None
    }

    /// Number of buckets of the table at `at`. `None` if its first words are not a table's.
    fn buckets_of(&self, at: Addr) -> Option<u64> {
        if !at.is_aligned(8) || at.is_null() {
            return None;
        }
        let (memory, modules) = (self.runtime().memory, &self.runtime().process.modules);
        let word = |offset: u64| memory.peek_u64(at.checked_add(offset)?).ok();
        let is_code = |value: u64| modules.iter().any(|module| module.range.contains(Addr::new(value)));
        let buckets = word(BUCKETS)?;
        let is_table = buckets.is_power_of_two()
            && buckets <= limits::MAX_PY_TRACES
            && word(ENTRIES)? > 0
            && FUNCTIONS.iter().all(|offset| word(*offset).is_some_and(is_code));
        is_table.then_some(buckets)
    }

    /// Reads a table. `None` if its entries are no traces.
    fn table(&self, at: Addr, buckets: u64) -> Option<AllocationTraces> {
        let memory = self.runtime().memory;
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
            let is_whole = follow(&walks, first, next, &mut visit).is_ok();
            // Before the first trace, the words may be no table's at all.
            if is_other || !is_whole && out.list.is_empty() {
                return None;
            }
            if !is_whole {
                self.warn("tracemalloc", "a part of its table could not be read");
                break;
            }
        }
        out.nodes.push(array);
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
        let name = memory.peek_u64(frame).ok().filter(|_| frames > 0).map(Addr::new)?;
        let line = memory.peek_u32(frame.checked_add(LINE)?).ok()?;
        let file = match files.get(&name) {
            Some(file) => file.clone(),
            None => {
                let file: Arc<str> = objects.is_str(name).then(|| objects.text(name, limits::MAX_PY_NAME))??.into();
                files.insert(name, file.clone());
                file
            }
        };
        Some(AllocationTrace { block, size, file, line })
    }
}
