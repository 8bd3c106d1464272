//! Variables of Python frames.
//!
//! Since 3.11 frames are stored contiguously in chunks of memory per thread (the data stack). Up to 3.10 they are
//! objects, and the thread state references the newest one. Frames of generators are inside the generator objects.

use super::words;
use crate::addr::Addr;
use crate::memory::walk::Walks;
use crate::memory::window::Window;
use crate::runtimes::api::{RootKind, Roots};
use crate::runtimes::cpython::frames::chunks;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

pub(super) fn read(heap: &Heap<'_>, walks: &Walks, state: Addr, tid: Option<u32>, roots: &mut Roots) {
    roots.stacks.threads += 1;
    // Errors in chunks are reported when the chunks are claimed.
    let (chunks, _) = chunks(heap.runtime(), walks, state);
    for range in chunks.into_iter().filter_map(|chunk| chunk.used) {
        let windows = Window::all(heap.runtime().process.target(), range);
        words(heap, windows, range, STACK_REF_TAGS, (RootKind::Stack, tid), roots);
    }
}
