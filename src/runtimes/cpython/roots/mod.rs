//! What keeps Python's objects from outside the heap.
//!
//! | kind | is |
//! |---|---|
//! | module | the globals of a module in `sys.modules`: what people look for first, and named by the module |
//! | interpreter | a field of PyInterpreterState: `sys.modules`, `builtins`, codecs |
//! | thread state | a field of PyThreadState: the current exception, the dict of the thread |
//! | Stack | a variable or temporary of a Python frame |
//! | static variable of C | a static variable of a C module; dicts of static types |
//! | Stack (conservative) | a word of a native stack, or a register |
//! | immortal | an object whose count of references is never counted (3.12 on) |
//! | held from C | an object with more references than were found: C code keeps it, in memory that nobody knows |
//!
//! The last is how the collector itself tells what is alive (`gc_refs`): what has as many references as were found
//! is kept by what was found alone.

mod counts;
mod data;
mod frames;
mod stacks;

use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::memory::window::Window;
use crate::phase::Phase;
use crate::runtimes::api::{Heap as _, Root, RootKind, Roots};
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::heap::Heap;

const MODULE: RootKind = RootKind::Of(0, "module");
const INTERPRETER: RootKind = RootKind::Of(1, "interpreter");
const THREAD: RootKind = RootKind::Of(2, "thread state");
const STATIC: RootKind = RootKind::Of(3, "static variable of C");
const IMMORTAL: RootKind = RootKind::Of(4, "immortal");
const FROM_C: RootKind = RootKind::Of(5, "held from C");

/// All roots of an interpreter.
pub(super) fn roots(python: &CPython<'_>) -> Roots {
    let mut roots = Roots::default();
    let Some(heap) = python.objects() else { return roots };
    let runtime = python.runtime();
    let _phase = runtime.process.enter(Phase::References);
    let md_dict = runtime.layout.positive("PyModuleObject", "md_dict").unwrap_or(0);
    for &interpreter in &runtime.interpreters {
        let modules = runtime.modules(interpreter);
        let dicts = modules.iter().map(|m| (m.object.wrapping_add(md_dict), m.dict.get()));
        roots.all.extend(dicts.filter_map(|(at, dict)| root(heap, MODULE, at, dict, None)));
        of_struct(heap, "PyInterpreterState", interpreter, INTERPRETER, None, &mut roots);
    }
    let walks = Walks::new(Phase::Frames, limits::MAX_PY_CHUNKS);
    for thread in &python.all_threads().all {
        of_struct(heap, "PyThreadState", thread.address, THREAD, thread.tid, &mut roots);
        frames::read(heap, &walks, thread.address, thread.tid, &mut roots);
    }
    data::read(heap, &mut roots);
    stacks::read(heap, &mut roots);
    counts::settle(heap, &mut roots.all);
    roots
}

/// A root, if an object begins at `value`.
fn root(heap: &Heap<'_>, kind: RootKind, at: Addr, value: u64, thread: Option<u32>) -> Option<Root> {
    let object = Addr::new(value);
    heap.is_object(object).then(|| Root { thread, ..Root::new(kind, at, object) })
}

/// Words of `range` that lead to objects, but for the bits `tags`; `windows`: what is looked at of it.
fn words(
    heap: &Heap<'_>,
    windows: Vec<Window<'_>>,
    range: AddrRange,
    tags: u64,
    (kind, thread): (RootKind, Option<u32>),
    roots: &mut Roots,
) {
    for window in windows {
        let first = Addr::new(window.start).max(range.start).align_up(WORD);
        for (i, word) in window.within(range).iter().enumerate() {
            let value = u64::from_le_bytes(*word) & !tags;
            if may_be_object(heap, value) {
                roots.all.extend(root(heap, kind, first.wrapping_add(WORD * i as u64), value, thread));
            }
        }
    }
}

/// Fields of a struct of the interpreter that lead to objects.
fn of_struct(heap: &Heap<'_>, kind: &str, at: Addr, root_kind: RootKind, thread: Option<u32>, roots: &mut Roots) {
    let runtime = heap.runtime();
    for (_, offset) in runtime.layout.fields_of(kind) {
        let place = at.wrapping_add(offset);
        let value = runtime.memory.u64(place).unwrap_or(0);
        if place.is_aligned(8) && !roots.all.iter().rev().take(NEAR).any(|known| known.address == place) {
            roots.all.extend(root(heap, root_kind, place, value, thread));
        }
    }
}

/// Structs and their first members have one place under two names.
const NEAR: usize = 4;

/// Whether an address may be one of an object at all: quick, for words that may be anything.
fn may_be_object(heap: &Heap<'_>, value: u64) -> bool {
    value & 7 == 0 && heap.space().run(value).is_some()
}
