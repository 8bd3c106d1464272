//! Static variables of modules written in C: words of their data that reference objects.

use super::{STATIC, words};
use crate::image::ModuleKind;
use crate::memory::window::Window;
use crate::runtimes::api::Roots;
use crate::runtimes::cpython::heap::Heap;

pub(super) fn read(heap: &Heap<'_>, roots: &mut Roots) {
    let runtime = heap.runtime();
    for module in &runtime.process.modules {
        let ModuleKind::Elf(image) = &module.kind else { continue };
        for part in image.writable_parts(runtime.memory) {
            words(heap, Window::written(runtime.process.target(), part), part, 0, (STATIC, None), roots);
        }
    }
}
