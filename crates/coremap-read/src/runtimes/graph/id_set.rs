//! Sets of objects, and roles of types, without hashing: the ownership tree asks for both at each reference.

use crate::runtimes::api::{TypeIndex, TypeRole};
use crate::runtimes::graph::root_bfs::{has_bit, set_bit};

/// A set of IDs, as a bit for each.
pub(super) struct IdSet {
    bits: Vec<u64>,
    len: usize,
}

impl IdSet {
    /// IDs below `count`.
    pub(super) fn of(count: u32, ids: impl Iterator<Item = u32>) -> IdSet {
        let mut out = IdSet { bits: Vec::new(), len: 0 };
        for id in ids {
            // Most sets are empty.
            out.bits.resize(count as usize / 64 + 1, 0);
            set_bit(&mut out.bits, id);
            out.len += 1;
        }
        out
    }

    #[inline(always)]
    pub(super) fn has(&self, id: u32) -> bool {
        has_bit(&self.bits, id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Maximum number of types whose role is stored.
const MAX_ROLES: usize = 1 << 20;

/// The role of a type, which `role` is asked for once.
pub(super) fn role_of(
    known: &mut Vec<Option<TypeRole>>,
    kind: TypeIndex,
    role: &mut dyn FnMut(TypeIndex) -> TypeRole,
) -> TypeRole {
    let at = kind.0 as usize;
    if let Some(Some(found)) = known.get(at) {
        return *found;
    }
    let found = role(kind);
    // Numbers of types have no gaps.
    if at < MAX_ROLES {
        known.resize(known.len().max(at + 1), None);
        if let Some(entry) = known.get_mut(at) {
            *entry = Some(found);
        }
    }
    found
}
