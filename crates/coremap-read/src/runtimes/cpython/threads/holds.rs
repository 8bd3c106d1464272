//! What a thread holds: the objects of `with` statements that it is inside of.
//!
//! While a `with` statement runs, its bound `__exit__` is on the frame's value stack. A slot is live if the instruction
//! is covered by a handler that needs it: by the block stack up to 3.10, by `co_exceptiontable` since 3.11
//! (InternalDocs/exception_handling.md). A slot above may be stale, and is ignored.

use super::list::PyThread;
use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::PyFrame;
use crate::runtimes::cpython::runtime::Runtime;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// `SETUP_FINALLY`, the type of a block in `f_blockstack` (Include/opcode.h, 3.9 and 3.10).
const SETUP_FINALLY: u32 = 122;

/// Size of a block (PyTryBlock) in bytes, offset of its level, and number of blocks.
const BLOCK: u64 = 12;
const LEVEL: u64 = 8;
const MAX_BLOCKS: u32 = 20;

/// Size of a code unit in bytes.
const UNIT: i64 = 2;

/// An object that a thread holds, with the frame whose `with` statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) object: Addr,
    pub(super) frame: Addr,
}

/// Depth of the value stack that the exception table proves live at the code unit `at`.
fn depth_by_table(table: &[u8], at: u64) -> u64 {
    let mut bytes = table.iter();
    let mut number = || {
        let mut value = 0_u64;
        loop {
            let byte = *bytes.next()?;
            value = value << 6 & u64::from(u32::MAX) | u64::from(byte & 63);
            if byte & 64 == 0 {
                return Some(value);
            }
        }
    };
    let mut depth = 0;
    while let (Some(start), Some(length), Some(_target), Some(packed)) = (number(), number(), number(), number()) {
        if at >= start && at < start.saturating_add(length) {
            depth = packed >> 1;
        }
    }
    depth
}

/// Address and number of the live slots of a frame's value stack.
fn live_slots(runtime: &Runtime<'_>, frame: &PyFrame) -> Option<(Addr, u64)> {
    let code = runtime.view("PyCodeObject", frame.code);
    if let Ok(table) = code.ptr("co_exceptiontable") {
        let objects = runtime.objects();
        let size = u64::try_from(objects.ob_size(table)?).ok()?.min(limits::MAX_PY_EXCEPTION_TABLE);
        let start = runtime.view("PyBytesObject", table).addr_of("ob_sval").ok()?;
        let bytes = runtime.memory.look(start, usize::try_from(size).ok()?).ok()?;
        let at = u64::try_from(frame.offset / UNIT).ok()?;
        let locals = u64::from(code.u32("co_nlocalsplus").ok()?);
        let stack = frame.variables(runtime)?.checked_add(8 * locals)?;
        return Some((stack, depth_by_table(&bytes, at)));
    }
    let view = runtime.view("PyFrameObject", frame.address);
    let (stack, blocks) = (view.ptr("f_valuestack").ok()?, view.addr_of("f_blockstack").ok()?);
    let mut depth = 0;
    for block in 0..view.u32("f_iblock").ok()?.min(MAX_BLOCKS) {
        let at = blocks.checked_add(BLOCK * u64::from(block))?;
        if runtime.memory.u32(at).ok()? == SETUP_FINALLY {
            depth = depth.max(u64::from(runtime.memory.u32(at.checked_add(LEVEL)?).ok()?));
        }
    }
    Some((stack, depth))
}

/// The objects whose `with` statements a frame is inside of.
pub(in crate::runtimes::cpython) fn held_by_frame(python: &CPython<'_>, frame: &PyFrame) -> Vec<Addr> {
    let Some((stack, depth)) = live_slots(python.runtime(), frame) else { return Vec::new() };
    let word = |slot: u64| python.runtime().memory.peek_u64(stack.checked_add(8 * slot)?).ok();
    let words = (0..depth.min(limits::MAX_PY_SLOTS)).map_while(word);
    words.filter_map(|word| python.exit_of(Addr::new(word & !STACK_REF_TAGS))).collect()
}

impl CPython<'_> {
    /// The objects whose `with` statements a thread is inside of.
    pub(super) fn held_by(&self, thread: &PyThread) -> Vec<Held> {
        let mut out = Vec::new();
        for frame in thread.frames() {
            // A Condition that waits has given its lock back, though it is inside of its `with`.
            let library = self
                .all_code()
                .codes
                .code(frame.code)
                .is_some_and(|code| crate::runtimes::cpython::frames::is_of_the_library(code.file()));
            if library {
                continue;
            }
            let held = held_by_frame(self, frame).into_iter();
            out.extend(held.map(|object| Held { object, frame: frame.address }));
        }
        out
    }

    /// The object whose bound `__exit__` or `__aexit__` is at `at`.
    fn exit_of(&self, at: Addr) -> Option<Addr> {
        let runtime = self.runtime();
        match self.type_name_of(at)?.as_str() {
            "builtin_function_or_method" => {
                let owner = runtime.view("PyCFunctionObject", at).ptr("m_self").ok()?;
                let kind = self.type_name_of(owner)?;
                matches!(kind.as_str(), "_thread.lock" | "_thread.RLock" | "lock" | "RLock").then_some(owner)
            }
            "method" => {
                let view = runtime.view("PyMethodObject", at);
                let function = view.ptr("im_func").ok()?;
                let name = runtime.view("PyFunctionObject", function).ptr("func_name").ok()?;
                let name = runtime.objects().name(name)?;
                if name == "__exit__" || name == "__aexit__" { view.ptr("im_self").ok() } else { None }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_those_of_the_handlers_that_cover_the_instruction() {
        // Entries of start, length, target, depth << 1 | lasti; the first byte of an entry has bit 7.
        let table = [0x80 | 2, 10, 20, 1 << 1 | 1, 0x80 | 5, 3, 30, 2 << 1];
        assert_eq!([1, 2, 5, 8, 12].map(|at| depth_by_table(&table, at)), [0, 1, 2, 1, 0]);
        // A number of two bytes: 65.
        assert_eq!(depth_by_table(&[0x80 | 64 | 1, 1, 1, 0, 4], 65), 2);
        assert_eq!(depth_by_table(&[0x80 | 64 | 1, 1, 1, 0, 4], 66), 0);
        assert_eq!(depth_by_table(&[64; 9], 1), 0);
    }
}
