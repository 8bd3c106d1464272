//! References in frames inside objects: in generators and coroutines, and in frame objects that outlived their
//! function.

use super::source::word;
use super::visit::{RawReference, Visit, Visitor};
use crate::addr::{Addr, WORD};
use crate::layout::{Layout, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::cpython::objects::{Objects, TypeForm};
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// `_framestate` values from this one on mean that the frame is cleared (Include/internal/pycore_frame.h).
const FRAME_CLEARED: i8 = 4;

impl Visitor<'_, '_> {
    /// Visits the frame in a generator: its code, its variables, and the used part of its operand stack.
    pub(super) fn generator<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let Some(shape) = self.objects.shape.generator else { return true };
        let state = word(words, shape.frame_state & !7).map(|w| (w >> (8 * (shape.frame_state & 7))) as u8 as i8);
        let cleared = state.is_none_or(|state| state >= FRAME_CLEARED);
        cleared || self.inner_frame(at, shape.frame, visit)
    }

    /// Visits the frame in a frame object, if the function has returned and the frame was moved there.
    pub(super) fn frame_object<F: FnMut(u32, RawReference) -> bool>(
        &self,
        words: &[[u8; 8]],
        at: u64,
        visit: &mut Visit<'_, F>,
    ) -> bool {
        let Some(shape) = self.objects.shape.frame_object else { return true };
        let inside = word(words, shape.frame) == Some(at.wrapping_add(shape.own));
        !inside || self.inner_frame(at, shape.own, visit)
    }

    /// Visits the words of a frame inside an object, after the object's own fields.
    fn inner_frame<F: FnMut(u32, RawReference) -> bool>(&self, at: u64, frame: u64, visit: &mut Visit<'_, F>) -> bool {
        let used = used_size(self.objects, self.layout, Addr::new(at.wrapping_add(frame)));
        let Some(size) = used else { return true };
        let end = frame.saturating_add(size);
        let words = self.source.words(at, end);
        let mut offset = visit.basicsize.max(frame);
        while offset < end {
            let Some(value) = word(words, offset) else { break };
            if !visit.word(offset, value & !STACK_REF_TAGS) {
                return false;
            }
            offset += WORD;
        }
        true
    }
}

/// Size in bytes of the used part of the frame at `frame`: its fields, and its variables and operands. `None` while it
/// is executed.
fn used_size(objects: &Objects<'_>, layout: &Layout, frame: Addr) -> Option<u64> {
    let view = StructView::new(objects.memory, layout, "_PyInterpreterFrame", frame);
    let locals = view.addr_of("localsplus").ok()?;
    let used = match view.has("stackpointer") {
        true => view.ptr("stackpointer").ok()?.checked_since(locals)?,
        false => u64::from(view.u32("stacktop").ok()?).checked_mul(WORD)?,
    };
    let whole = locals.checked_since(frame)?.checked_add(used)?;
    (whole <= limits::MAX_PY_BASIC_SIZE).then_some(whole)
}

/// The space for a frame in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::cpython) enum FrameSpace {
    /// There is no frame: the bytes from this address on are left over.
    Empty(Addr),
    /// A frame, and where its used part ends. `None` while it is executed: its end is not stored then.
    Used(Addr, Option<Addr>),
}

/// The space for a frame in a generator or frame object. `None` if objects of this form have none.
pub(in crate::runtimes::cpython) fn frame_space(
    objects: &Objects<'_>,
    layout: &Layout,
    form: TypeForm,
    object: Addr,
) -> Option<FrameSpace> {
    let (start, is_used) = match form {
        TypeForm::Generator => {
            let shape = objects.shape.generator?;
            let state = objects.memory.peek_u64(object.checked_add(shape.frame_state & !7)?).ok()?;
            let state = (state >> (8 * (shape.frame_state & 7))) as u8 as i8;
            (object.checked_add(shape.frame)?, state < FRAME_CLEARED)
        }
        TypeForm::Frame => {
            let shape = objects.shape.frame_object?;
            let own = object.checked_add(shape.own)?;
            (own, objects.ptr_at(object, shape.frame) == Some(own))
        }
        _ => return None,
    };
    Some(match is_used {
        true => FrameSpace::Used(start, used_size(objects, layout, start).and_then(|size| start.checked_add(size))),
        false => FrameSpace::Empty(start),
    })
}
