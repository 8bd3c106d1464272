//! Interfaces: two words, of which the first is a type or an `itab`.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::types::{TypeKind, Types};

/// Bytes of an `itab` that are read: interface type, type, and a copy of the type's hash. The second constant is the
/// offset of the hash in a type.
const ITAB: u64 = 24;
const HASH: u64 = 16;

/// Cache of types, by the first word of an interface.
#[derive(Default)]
pub(super) struct Interfaces {
    itabs: HashMap<Addr, Option<Addr>>,
}

impl Interfaces {
    /// Returns the type that the first word of an interface refers to. `None` if it is neither a type nor an `itab`.
    pub(super) fn type_of(&mut self, memory: &dyn Memory, types: &Types<'_>, word: Addr) -> Option<Addr> {
        if types.may_be(word) && types.get(word).is_some() {
            return Some(word);
        }
        if !word.is_aligned(8) || word < Addr::new(4096) {
            return None;
        }
        *self.itabs.entry(word).or_insert_with(|| {
            let r = Record::look(memory, word, ITAB)?;
            let (interface, of) = (r.ptr(0), r.ptr(8));
            let is_interface = types.get(interface).is_some_and(|t| t.kind == TypeKind::Interface);
            let hash = memory.peek_u32(of.checked_add(HASH)?).ok()?;
            (is_interface && types.get(of).is_some() && hash == r.u32(16)).then_some(of)
        })
    }
}
