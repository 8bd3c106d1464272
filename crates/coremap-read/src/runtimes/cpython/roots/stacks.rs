//! Words on native stacks and in registers, which C code uses.

use super::{may_be_object, root, words};
use crate::addr::AddrRange;
use crate::limits;
use crate::memory::window::Window;
use crate::runtimes::api::{Root, RootKind, Roots};
use crate::runtimes::cpython::heap::Heap;

const WHY: &str = "references in C frames have no map";

pub(super) fn read(heap: &Heap<'_>, roots: &mut Roots) {
    let process = heap.runtime().process;
    let mut threads = 0;
    for thread in process.threads() {
        let sp = thread.registers.sp();
        for (name, value) in thread.registers.iter() {
            if may_be_object(heap, value)
                && let Some(found) = root(heap, RootKind::StackWord, sp, value, Some(thread.tid))
            {
                roots.all.push(Root { register: Some(name), ..found });
            }
        }
        let Some(entry) = process.base().entries.at(sp) else { continue };
        threads += 1;
        // The control block of other threads is above their stack. That of the main thread is elsewhere.
        let above = thread.thread_pointer.filter(|tcb| *tcb > sp && entry.range.contains(*tcb));
        let range = AddrRange::new(sp.align_up(8), above.unwrap_or(entry.range.end));
        if range.len() > limits::MAX_STACK_SCAN {
            continue;
        }
        let windows = Window::written(process.target(), range);
        words(heap, windows, range, 0, (RootKind::StackWord, Some(thread.tid)), roots);
    }
    if threads > 0 {
        roots.stacks.conservative.push((WHY, threads));
    }
}
