//! The function in C that a thread's innermost Python function calls.
//!
//! Its callable is on the frame's value stack, below the arguments. The depth of that stack during a call is not
//! stored, and slots above its top are stale. So the address of the arguments, or the receiver, must be on the thread's
//! native stack too.

use std::collections::HashSet;

use super::list::PyThread;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;
use crate::targets::Thread;

/// Bytes of the native stack above the stack pointer in which the arguments of a call are looked for.
const NATIVE: u64 = 16 << 10;

/// Maximum number of bytes of a function's name.
const NAME: usize = 80;

impl CPython<'_> {
    /// Name of the C function that the thread's innermost Python function calls: `re.Pattern.match`.
    pub(super) fn callee(&self, thread: &PyThread, system: &Thread) -> Option<String> {
        let (runtime, frame) = (self.runtime(), thread.frames().next()?);
        let code = runtime.view("PyCodeObject", frame.code);
        let number = |field| code.u32(field).ok().map(u64::from);
        let locals = number("co_nlocalsplus").or_else(|| number("co_nlocals"))?;
        let stack = frame.variables(runtime)?.checked_add(8 * locals)?;
        let slots = number("co_stacksize")?.min(limits::MAX_PY_SLOTS);
        let native = native_words(self, thread, system);
        let word = |slot: u64| runtime.memory.peek_u64(stack.checked_add(8 * slot)?).ok();
        let value = |slot: u64| Some(Addr::new(word(slot)? & !STACK_REF_TAGS)).filter(|at| !at.is_null());
        (0..slots).rev().find_map(|slot| {
            let (name, receiver) = self.c_function(value(slot)?, slot.checked_add(1).and_then(value))?;
            let argument = |by: u64| stack.wrapping_add(8 * (slot + by));
            let arguments = [argument(1).get(), argument(2).get()];
            let known = arguments.iter().chain(receiver.map(Addr::get).iter()).any(|word| native.contains(word));
            known.then_some(name)
        })
    }

    /// Name of a C function, and the object whose method it is. `next`: the object in the slot above.
    fn c_function(&self, at: Addr, next: Option<Addr>) -> Option<(String, Option<Addr>)> {
        let (runtime, objects) = (self.runtime(), self.runtime().objects());
        match self.type_name_of(at)?.as_str() {
            "builtin_function_or_method" => {
                let view = runtime.view("PyCFunctionObject", at);
                let name = view.ptr("m_ml").ok()?;
                let name = runtime.memory.text(runtime.memory.ptr(name).ok()?, NAME).ok().filter(|n| !n.is_empty())?;
                let owner = view.ptr("m_self").ok().filter(|owner| !owner.is_null());
                let kind = owner.and_then(|owner| self.type_name_of(owner));
                let module = view.ptr("m_module").ok().filter(|module| objects.is_str(*module));
                Some(match (kind, module.and_then(|module| objects.name(module))) {
                    (Some(kind), _) if kind != "module" => (format!("{kind}.{name}"), owner),
                    (_, Some(module)) => (format!("{module}.{name}"), owner),
                    (_, None) => (name, owner),
                })
            }
            "method_descriptor" => {
                let view = runtime.view("PyMethodDescrObject", at);
                let name = view.ptr("d_common.d_name").ok().filter(|name| objects.is_str(*name))?;
                let receiver = next?;
                Some((format!("{}.{}", self.type_name_of(receiver)?, objects.name(name)?), Some(receiver)))
            }
            _ => None,
        }
    }
}

/// Words of the registers, and of the native stack up to the interpreter's frame.
fn native_words(python: &CPython<'_>, thread: &PyThread, system: &Thread) -> HashSet<u64> {
    let (sp, memory) = (system.registers.sp(), python.runtime().memory);
    let end = sp.saturating_add(NATIVE);
    let anchor = thread.runs.first().and_then(|run| run.anchor).filter(|at| *at > sp && *at < end);
    let mut words: HashSet<u64> = system.registers.iter().map(|(_, value)| value).collect();
    let range = AddrRange::new(sp.align_up(8), anchor.unwrap_or(end));
    for part in memory.readable_parts(range, NATIVE) {
        let Ok(bytes) = memory.look(part.start, usize::try_from(part.len()).unwrap_or(0)) else { continue };
        words.extend(bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)));
    }
    words
}
