//! Variables of Python frames.
//!
//! Since 3.11 frames lie one on the other in chunks of memory of their thread (the data stack); up to 3.10 they are
//! objects, and the thread state leads to the latest. Frames of generators are inside these.

use super::{may_be_object, root};
use crate::addr::{Addr, AddrRange};
use crate::cpython::heap::Heap;
use crate::cpython::runtime::{Runtime, follow};
use crate::limits;
use crate::managed::{RootKind, Roots};
use crate::memory::walk::Walks;
use crate::memory::window::Window;
use crate::phase::Phase;

/// The system's number of a thread: what the thread state says (3.11 on), or whose thread pointer it has.
pub(super) fn thread(runtime: &Runtime<'_>, state: Addr) -> Option<u32> {
    let view = runtime.view("PyThreadState", state);
    let ident = view.ptr("thread_id").ok()?;
    let all = runtime.process.threads();
    let found = all.iter().find(|thread| thread.thread_pointer == Some(ident));
    let native = || view.u64("native_thread_id").ok().and_then(|tid| u32::try_from(tid).ok());
    found.map(|thread| thread.tid).or_else(native).filter(|tid| all.iter().any(|thread| thread.tid == *tid))
}

pub(super) fn read(heap: &Heap<'_>, state: Addr, tid: Option<u32>, roots: &mut Roots) {
    roots.stacks.threads += 1;
    let runtime = heap.runtime();
    let view = runtime.view("PyThreadState", state);
    let Ok(latest) = view.ptr("datastack_chunk") else { return };
    let top = view.ptr("datastack_top").unwrap_or(Addr::NULL);
    let walks = Walks::new(Phase::Frames, limits::MAX_PY_FRAMES);
    let previous = |chunk: Addr| runtime.view("_PyStackChunk", chunk).ptr("previous");
    let ended = follow(&walks, latest, previous, |chunk| {
        let view = runtime.view("_PyStackChunk", chunk);
        let size = view.u64("size").unwrap_or(0).min(limits::MAX_PY_CHUNK);
        let whole = AddrRange::sized(chunk, size);
        let Ok(first) = view.addr_of("data") else { return };
        // Of older chunks the struct says how many words were in use when the next was begun.
        let end = match chunk == latest {
            true => top,
            false => first.wrapping_add(8 * view.u64("top").unwrap_or(0).min(limits::MAX_PY_CHUNK / 8)),
        };
        if whole.contains(first) && end <= whole.end {
            words(heap, AddrRange::new(first, end.max(first)), tid, roots);
        }
    });
    if let Err(e) = ended {
        roots.notes.push(format!("the data stack of a thread {e}"));
    }
}

fn words(heap: &Heap<'_>, range: AddrRange, tid: Option<u32>, roots: &mut Roots) {
    for window in Window::all(heap.runtime().process.target(), range) {
        for (i, word) in window.within(range).iter().enumerate() {
            let value = u64::from_le_bytes(*word);
            if may_be_object(heap, value & !super::TAGS) {
                let at = Addr::new(window.start).max(range.start).wrapping_add(8 * i as u64);
                roots.all.extend(root(heap, RootKind::Stack, at, value, tid));
            }
        }
    }
}
