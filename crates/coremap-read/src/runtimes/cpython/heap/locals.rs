//! Names of variables in frames that are on the heap: frames of coroutines and generators, and frames of functions that
//! have returned but are in a traceback.

use super::Heap;
use crate::addr::{Addr, WORD};
use crate::layout::StructView;
use crate::runtimes::cpython::objects::TypeForm;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// Tuples with the names of a frame's variables, in the order of the variables: one since 3.11, three up to 3.10.
const NAMES: [&str; 1] = ["co_localsplusnames"];
const OLD_NAMES: [&str; 3] = ["co_varnames", "co_cellvars", "co_freevars"];

impl Heap<'_> {
    /// Name of the variable at `offset` of a frame, coroutine or generator, with its function. `None` for other fields.
    pub(super) fn name_of_local(&self, object: Addr, offset: u64) -> Option<String> {
        let kind = self.type_of(object)?;
        let (variables, code) = match kind.form {
            TypeForm::Generator => self.inner_variables(object.checked_add(self.objects.shape.generator?.frame)?)?,
            TypeForm::Frame => match self.objects.shape.frame_object {
                Some(shape) => self.inner_variables(object.checked_add(shape.own)?)?,
                None => self.old_variables(object)?,
            },
            _ if kind.name == "frame" => self.old_variables(object)?,
            _ => return None,
        };
        let index = object.checked_add(offset)?.checked_since(variables)? / WORD;
        let view = self.runtime.view("PyCodeObject", code);
        let text = |field: &str| {
            let at = view.ptr(field).ok().filter(|at| self.objects.is_str(*at))?;
            self.objects.name(at)
        };
        let function = text("co_qualname").or_else(|| text("co_name"))?;
        let tables: &[&str] = if view.has("co_localsplusnames") { &NAMES } else { &OLD_NAMES };
        let mut left = index;
        for table in tables {
            let tuple = view.ptr(table).ok()?;
            let count = u64::try_from(self.objects.ob_size(tuple)?).ok()?;
            if left < count {
                let first = self.runtime.layout.positive("PyTupleObject", "ob_item").ok()?;
                let name = self.objects.ptr_at(tuple, first.checked_add(WORD.checked_mul(left)?)?)?;
                let name = self.objects.name(name).filter(|_| self.objects.is_str(name))?;
                return Some(format!("local {name} of {function}"));
            }
            left -= count;
        }
        None
    }

    /// Variables and code of the frame at `frame`, which is part of an object.
    fn inner_variables(&self, frame: Addr) -> Option<(Addr, Addr)> {
        let view: StructView<'_> = self.runtime.view("_PyInterpreterFrame", frame);
        let code = view.ptr("f_executable").or_else(|_| view.ptr("f_code")).ok()?;
        Some((view.addr_of("localsplus").ok()?, Addr::new(code.get() & !STACK_REF_TAGS)))
    }

    /// Variables and code of a frame of 3.9 or 3.10, which is an object.
    fn old_variables(&self, frame: Addr) -> Option<(Addr, Addr)> {
        let view = self.runtime.view("PyFrameObject", frame);
        Some((view.addr_of("f_localsplus").ok()?, view.ptr("f_code").ok()?))
    }
}
