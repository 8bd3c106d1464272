//! Static variables of modules written in C: words of their data that lead to objects.

use super::{STATIC, may_be_object, root};
use crate::cpython::heap::Heap;
use crate::image::ModuleKind;
use crate::managed::Roots;
use crate::memory::window::Window;

pub(super) fn read(heap: &Heap<'_>, roots: &mut Roots) {
    let runtime = heap.runtime();
    for module in &runtime.process.modules {
        let ModuleKind::Elf(image) = &module.kind else { continue };
        for part in image.writable_parts(runtime.memory) {
            for window in Window::written(runtime.process.target(), part) {
                for (i, word) in window.within(part).iter().enumerate() {
                    let value = u64::from_le_bytes(*word);
                    if may_be_object(heap, value) {
                        let at = crate::addr::Addr::new(window.start).wrapping_add(8 * i as u64);
                        roots.all.extend(root(heap, STATIC, at, value, None));
                    }
                }
            }
        }
    }
}
