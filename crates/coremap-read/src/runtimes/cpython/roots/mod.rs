//! GC roots: references that keep Python's objects alive from outside the heap.
//!
//! | kind | meaning |
//! |---|---|
//! | module | the globals of a module in `sys.modules`. Listed first: the module's name is the best explanation |
//! | interpreter | a field of PyInterpreterState: `sys.modules`, `builtins`, codecs |
//! | thread state | a field of PyThreadState: the current exception, the thread's dict |
//! | Stack | a variable or temporary of a Python frame |
//! | static variable of C | a static variable of a C module; dicts of static types |
//! | Stack (conservative) | a word of a native stack, or a register |
//! | immortal | an object whose references are not counted (since 3.12) |
//! | held from C | an object with more references than were found; C code references it from unknown memory |
//!
//! The last kind uses the collector's own method (`gc_refs`): an object with as many references as were found is kept
//! alive only by those.

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
pub(super) const FROM_C: RootKind = RootKind::Of(5, "held from C");

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
        struct_fields(heap, "PyInterpreterState", interpreter, INTERPRETER, None, &mut roots);
    }
    let walks = Walks::new(Phase::Frames, limits::MAX_PY_CHUNKS);
    for thread in &python.all_threads().all {
        struct_fields(heap, "PyThreadState", thread.address, THREAD, thread.tid, &mut roots);
        frames::read(heap, &walks, thread.address, thread.tid, &mut roots);
    }
    data::read(heap, &mut roots);
    stacks::read(heap, &mut roots);
    counts::add_unfound(heap, &mut roots.all);
    roots
}

/// A root, if an object begins at `value`.
fn root(heap: &Heap<'_>, kind: RootKind, at: Addr, value: u64, thread: Option<u32>) -> Option<Root> {
    let object = Addr::new(value);
    heap.is_object(object).then(|| Root { thread, ..Root::new(kind, at, object) })
}

/// Adds the words of `range` that reference objects, ignoring the bits `tags`. `windows`: the parts of the range to
/// read.
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

/// Adds the fields of one of the interpreter's structs that reference objects.
fn struct_fields(heap: &Heap<'_>, kind: &str, at: Addr, root_kind: RootKind, thread: Option<u32>, roots: &mut Roots) {
    let runtime = heap.runtime();
    for (_, offset) in runtime.layout.fields_of(kind) {
        let place = at.wrapping_add(offset);
        let value = runtime.memory.u64(place).unwrap_or(0);
        if place.is_aligned(8) && !roots.all.iter().rev().take(NEAR).any(|known| known.address == place) {
            roots.all.extend(root(heap, root_kind, place, value, thread));
        }
    }
}

/// Number of recent roots checked for duplicates: a struct and its first member have the same address.
const NEAR: usize = 4;

/// Whether a word may be the address of an object. A quick check for arbitrary words.
fn may_be_object(heap: &Heap<'_>, value: u64) -> bool {
    value & 7 == 0 && heap.space().run(value).is_some()
}
