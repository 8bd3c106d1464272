//! Claims for memory that CPython owns: arenas and frame chunks.

use crate::limits;
use crate::map::{Claim, Claims, Confidence, Kind, Owner};
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::frames::chunks;

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
                detail: "obmalloc arena".into(),
                evidence: format!(
                    "arena_object {} of the array at {}, found by the {}",
                    arena.index, arenas.array, arenas.how
                )
                .into(),
            });
        }
    }
    frames(python, claims, owner);
}

fn frames(python: &CPython<'_>, claims: &mut Claims, owner: Owner) {
    let runtime = python.runtime();
    let walks = Walks::new(Phase::ManagedThreads, limits::MAX_PY_CHUNKS);
    for thread in &python.all_threads().all {
        let (chunks, ended) = chunks(runtime, &walks, thread.address);
        if let Some(e) = ended {
            python.warn("frames", &e.to_string());
        }
        let of = thread.tid.map_or_else(|| "a thread missing from the core".to_owned(), |tid| format!("thread {tid}"));
        for chunk in chunks {
            let spare = if chunk.spare { " (cached for the next call)" } else { "" };
            claims.add(Claim {
                range: chunk.range,
                kind: Kind::PyFrames,
                confidence: Confidence::Exact,
                owner,
                detail: format!("frames of {of}{spare}").into(),
                evidence: format!("_PyStackChunk of the PyThreadState at {}", thread.address).into(),
            });
        }
    }
}
