//! The data stack (since 3.11): chunks of memory per thread, in which each call allocates its frame after the previous
//! one (`_PyStackChunk`, Python/pystate.c).
//!
//! Frames are linked to their callers, in part through structures on the C stack. Some cores lack that stack. The order
//! of frames in the chunks then replaces the missing links.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange, WORD};
use crate::layout::StructView;
use crate::limits;
use crate::memory::walk::Walks;
use crate::runtimes::cpython::runtime::{PyError, Runtime, follow};
use crate::runtimes::cpython::shape::STACK_REF_TAGS;

/// Size of the smallest chunk in bytes. Sizes double until a frame fits (DATA_STACK_CHUNK_SIZE, `push_chunk`).
const SMALLEST: u64 = 16 << 10;

/// Words of a `_PyInterpreterFrame` before its variables in 3.11 (FRAME_SPECIALS_SIZE). Later versions store the size
/// of the whole frame in `co_framesize`.
const SPECIALS_3_11: u64 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::cpython) struct Chunk {
    /// Addresses of the whole chunk. It is a mapping of its own.
    pub(in crate::runtimes::cpython) range: AddrRange,
    /// The part that contains frames. `None` if it is empty or invalid.
    pub(in crate::runtimes::cpython) used: Option<AddrRange>,
    /// Cached for the next call that needs a chunk. Only in 3.14.
    pub(in crate::runtimes::cpython) spare: bool,
}

/// The chunks of a thread, newest first, and why the list ends early.
pub(in crate::runtimes::cpython) fn chunks(
    runtime: &Runtime<'_>,
    walks: &Walks,
    tstate: Addr,
) -> (Vec<Chunk>, Option<PyError>) {
    let thread = runtime.view("PyThreadState", tstate);
    if !thread.has("datastack_chunk") {
        return (Vec::new(), None);
    }
    let mut out = Vec::new();
    let (mut ended, mut odd) = (None, None);
    for (field, spare) in [("datastack_chunk", false), ("datastack_cached_chunk", true)] {
        let Ok(first) = thread.ptr(field) else { continue };
        let next = |at: Addr| runtime.view("_PyStackChunk", at).ptr("previous");
        // The link of a cached chunk is meaningless.
        let next = |at: Addr| if spare { Ok(Addr::NULL) } else { next(at) };
        let walked = follow(walks, first, next, |at| match whole(runtime, at) {
            Some(range) => {
                let used = if spare { None } else { used(runtime, &thread, range, at == first) };
                out.push(Chunk { range, used, spare });
            }
            None => odd = odd.or(Some(at)),
        });
        ended = ended.or(walked.err());
    }
    let odd = odd.map(|at| PyError::Nonsense { what: "a data stack chunk with an invalid size", at });
    (out, ended.map(PyError::list("data stack chunks")).or(odd))
}

/// The range of the chunk at `at`. `None` if its size is invalid for a chunk or exceeds its mapping.
fn whole(runtime: &Runtime<'_>, at: Addr) -> Option<AddrRange> {
    let size = runtime.view("_PyStackChunk", at).u64("size").ok()?;
    let sane = at.is_aligned(WORD) && size.is_power_of_two() && (SMALLEST..=limits::MAX_PY_CHUNK).contains(&size);
    let range = AddrRange::new(at, at.checked_add(size).filter(|_| sane)?);
    (range.end <= runtime.process.mapping_at(at)?.range.end).then_some(range)
}

/// The part of a chunk that contains frames. The thread state has the end for the newest chunk. Each older chunk stores
/// its own end, written when the next one was started.
fn used(runtime: &Runtime<'_>, thread: &StructView<'_>, chunk: AddrRange, latest: bool) -> Option<AddrRange> {
    let view = runtime.view("_PyStackChunk", chunk.start);
    let data = view.addr_of("data").ok()?;
    let top = match latest {
        true => thread.ptr("datastack_top").ok()?,
        false => data.checked_add(view.u64("top").ok()?.checked_mul(WORD)?)?,
    };
    (data <= top && top <= chunk.end).then_some(AddrRange { start: data, end: top })
}

/// Continues where the list of frames breaks off, by the order of frames in the chunks.
pub(super) struct Bridge<'r, 'p> {
    runtime: &'r Runtime<'p>,
    walks: &'r Walks,
    tstate: Addr,
    /// Frames of the list so far. Used until the chunks are read.
    passed: Vec<Addr>,
    chunk_frames: Option<ChunkFrames>,
}

struct ChunkFrames {
    /// Frames, oldest first.
    frames: Vec<Addr>,
    indices: HashMap<Addr, usize>,
    /// Index of the oldest frame that the list has reached.
    oldest: usize,
}

impl ChunkFrames {
    fn pass(&mut self, frame: Addr) {
        if let Some(&place) = self.indices.get(&frame) {
            self.oldest = self.oldest.min(place);
        }
    }
}

impl<'r, 'p> Bridge<'r, 'p> {
    pub(super) fn new(runtime: &'r Runtime<'p>, walks: &'r Walks, tstate: Addr) -> Bridge<'r, 'p> {
        Bridge { runtime, walks, tstate, passed: Vec::new(), chunk_frames: None }
    }

    pub(super) fn was_used(&self) -> bool {
        self.chunk_frames.as_ref().is_some_and(|chunk_frames| !chunk_frames.frames.is_empty())
    }

    /// Records that the list has reached this frame.
    pub(super) fn pass(&mut self, frame: Addr) {
        match &mut self.chunk_frames {
            Some(chunk_frames) => chunk_frames.pass(frame),
            None => self.passed.push(frame),
        }
    }

    /// The caller, by memory order, of the oldest frame that the list has reached.
    pub(super) fn next(&mut self) -> Option<Addr> {
        if self.chunk_frames.is_none() {
            let frames = self.read();
            let indices = frames.iter().enumerate().map(|(i, frame)| (*frame, i)).collect();
            let mut chunk_frames = ChunkFrames { oldest: frames.len(), frames, indices };
            self.passed.drain(..).for_each(|frame| chunk_frames.pass(frame));
            self.chunk_frames = Some(chunk_frames);
        }
        let chunk_frames = self.chunk_frames.as_mut()?;
        chunk_frames.oldest = chunk_frames.oldest.checked_sub(1)?;
        chunk_frames.frames.get(chunk_frames.oldest).copied()
    }

    fn read(&self) -> Vec<Addr> {
        // Uses walks of its own, because another walk may visit the same chunks.
        let walks = Walks::new(crate::phase::Phase::ManagedThreads, limits::MAX_PY_CHUNKS);
        let (chunks, _) = chunks(self.runtime, &walks, self.tstate);
        let mut out = Vec::new();
        for (i, chunk) in chunks.iter().filter(|chunk| !chunk.spare).rev().enumerate() {
            let Some(used) = chunk.used else { break };
            // The first word of the first chunk stays unused, so that the chunk is never freed.
            let mut at = if i == 0 { used.start.saturating_add(WORD) } else { used.start };
            while at < used.end && self.walks.spend(at, 1).is_ok() {
                let Some(size) = self.size_at(at) else { return out };
                out.push(at);
                at = at.saturating_add(size);
            }
        }
        out
    }

    /// Size in bytes of the frame at `at`.
    fn size_at(&self, at: Addr) -> Option<u64> {
        let frame = self.runtime.view("_PyInterpreterFrame", at);
        let code = frame.ptr("f_executable").or_else(|_| frame.ptr("f_code")).ok()?;
        let code = self.runtime.view("PyCodeObject", Addr::new(code.get() & !STACK_REF_TAGS));
        let words = match code.u32("co_framesize") {
            Ok(words) => u64::from(words),
            Err(_) => {
                let count = |field| code.u32(field).ok().map(u64::from);
                SPECIALS_3_11.checked_add(count("co_nlocalsplus")?)?.checked_add(count("co_stacksize")?)?
            }
        };
        (words > 0).then_some(words * WORD)
    }
}
