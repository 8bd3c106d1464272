//! What CPython's structures say of memory, as claims on it.

use crate::cpython::CPython;
use crate::map::{Claim, Claims, Confidence, Kind, Owner};

/// Claim what is the interpreter's own.
pub(super) fn claim(python: &CPython<'_>, claims: &mut Claims) {
    let runtime = python.runtime();
    let owner = Owner::Module(runtime.module as u32);
    for arenas in python.arenas() {
        for arena in &arenas.all {
            claims.add(Claim {
                range: arena.range,
                kind: Kind::PyMalloc,
                confidence: Confidence::Exact,
                owner,
                detail: "arena of obmalloc".into(),
                evidence: format!(
                    "arena_object {} of the array at {}, by the {}",
                    arena.index, arenas.array, arenas.how
                )
                .into(),
            });
        }
    }
}
