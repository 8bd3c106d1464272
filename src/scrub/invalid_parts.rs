//! Tests that fill the invalid parts of kept structures with canaries and check that scrubbing overwrites all of them.
//! Offsets and conditions are from the runtimes' sources, not from coremap's tables.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use super::tests::{becomes, plan};
use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::native::malloc::free_pages;
use crate::process::{Options, Process};
use crate::progress::Progress;
use crate::runtimes::api::{Object, UnwalkedRanges};
use crate::session::Session;
use crate::targets::PieceState;

/// A byte that no address, text or small number contains.
const CANARY: u8 = 0xc7;

/// Opens the core at `path`, unpacked or not.
fn open(path: &Path) -> Process {
    let options = Options { record_bytes: true, ..Options::default() };
    Process::open(path, &options, &Progress::silent()).unwrap()
}

/// Fills the ranges that `find` returns with canaries, and scrubs the result. Returns the number of ranges.
#[track_caller]
fn none_is_left(core: &str, find: impl Fn(&Session<'_>) -> Vec<AddrRange>) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores").join(core).join("core.zst");
    let mut bytes = Vec::new();
    zstd::Decoder::new(std::fs::File::open(&path).unwrap()).unwrap().read_to_end(&mut bytes).unwrap();
    let ranges = {
        let process = open(&path);
        let ranges = find(&Session::new(&process));
        for range in &ranges {
            let piece = process.space().pieces.at(range.start).unwrap();
            let PieceState::Dumped(place) = piece.state else { panic!("{range} is not in {core}") };
            let from = (place + range.start.since(piece.range.start)) as usize;
            bytes.get_mut(from..from + range.len() as usize).unwrap().fill(CANARY);
        }
        ranges
    };
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let process = open(file.path());
    let session = Session::new(&process);
    let plan = plan(&session);
    for range in &ranges {
        let words = (range.start.align_down(8).get()..range.end.get()).step_by(8).map(Addr::new);
        for (at, after) in words.map(|at| (at, becomes(&plan, at))) {
            let (from, to) = (range.start.max(at).since(at), range.end.min(at.saturating_add(8)).since(at));
            let left = after.get(from as usize..to as usize).unwrap();
            assert!(left.iter().all(|byte| *byte != CANARY), "{core}: {left:02x?} is left at {at} in {range}");
        }
    }
    ranges.len()
}

/// Returns the first runtime's objects of the type with this name.
fn objects(session: &Session<'_>, name: &str) -> Vec<Object> {
    let heap = session.runtimes().first().unwrap().heap().unwrap();
    let mut out = Vec::new();
    let mut walker = heap.walker();
    for range in heap.ranges() {
        walker.walk(range, &mut UnwalkedRanges::default(), &mut |object| {
            if heap.type_name(object.kind) == name {
                out.push(*object);
            }
        });
    }
    out
}

/// Size in bytes of the collector's header, which precedes an object and is part of its block.
const GC_HEAD: u64 = 16;

/// The range from `offset` in the object to the end of its block, in whole words.
fn rest(object: &Object, offset: u64) -> AddrRange {
    let end = object.addr.saturating_add(object.size - GC_HEAD);
    AddrRange::new(object.addr.saturating_add(offset), end.align_down(8))
}

fn part(object: &Object, from: u64, to: u64) -> AddrRange {
    AddrRange::new(object.addr.saturating_add(from), object.addr.saturating_add(to))
}

/// Returns the unused `_f_frame_data` of frame objects, at offset `own`. It is in use once the function has returned;
/// then `f_frame`, at offset 24, points there (Include/internal/pycore_frame.h).
fn frames(session: &Session<'_>, own: u64) -> Vec<AddrRange> {
    let is_elsewhere = |object: &Object| {
        let frame = peek_ptr(&session.process.memory, object.addr.saturating_add(24));
        frame != object.addr.saturating_add(own)
    };
    let all = objects(session, "frame");
    all.iter().filter(|object| is_elsewhere(object)).map(|object| rest(object, own)).collect()
}

fn peek_ptr(memory: &dyn Memory, at: Addr) -> Addr {
    Addr::new(memory.peek_u64(at).unwrap())
}

#[test]
fn space_for_frames_of_python() {
    for (core, own) in [("python311", 48), ("python313-tasks", 64), ("python314", 72)] {
        let found = none_is_left(core, |session| frames(session, own));
        assert!(found > 10, "{core}: {found}");
    }
}

/// Fields of a generator or coroutine, by offset: `gi_frame_state`, `gi_iframe`, and in the frame `stacktop` and
/// `localsplus` (Include/cpython/genobject.h, Include/internal/pycore_frame.h).
struct GeneratorFields {
    state: u64,
    frame: u64,
    top: u64,
    values: u64,
}

/// The smallest `gi_frame_state` of a generator that is done: FRAME_COMPLETED of 3.11 and 3.13. Its frame is not valid
/// any more.
const DONE: u8 = 1;

/// Returns the parts of the frames in generators and coroutines that are not in use: the stack above `stacktop`, or
/// all of a frame that is done.
fn unused_of_generators(session: &Session<'_>, fields: &GeneratorFields) -> Vec<AddrRange> {
    let memory = &session.process.memory;
    let mut out = Vec::new();
    for object in ["generator", "coroutine"].into_iter().flat_map(|name| objects(session, name)) {
        let state = memory.bytes(object.addr.saturating_add(fields.state), 1).unwrap()[0];
        let top = u64::from(memory.peek_u32(object.addr.saturating_add(fields.frame + fields.top)).unwrap());
        // The numbers of created and suspended ones are negative. An executing one has 0.
        let from = match state {
            DONE..0x80 => fields.frame,
            0 => continue,
            _ => fields.frame + fields.values + 8 * top,
        };
        let unused = rest(&object, from);
        if !unused.is_empty() {
            out.push(unused);
        }
    }
    out
}

#[test]
fn frames_in_generators_of_python() {
    let of_311 = GeneratorFields { state: 75, frame: 80, top: 64, values: 72 };
    let of_313 = GeneratorFields { state: 67, frame: 72, top: 64, values: 72 };
    for (core, fields) in [("python311-frames", of_311), ("python313-tasks", of_313)] {
        let found = none_is_left(core, |session| unused_of_generators(session, &fields));
        assert!(found > 0, "{core}: {found}");
    }
}

/// Include/cpython/frameobject.h of 3.9: `f_iblock` at 112 counts the `PyTryBlock`s in use, 12 bytes each from 120 on.
#[test]
fn blocks_of_try_in_frames_of_python() {
    let found = none_is_left("python39", |session| {
        let frames = objects(session, "frame");
        let unused = |object: &Object| {
            let used = u64::from(session.process.memory.peek_u32(object.addr.saturating_add(112)).unwrap());
            part(object, 120 + 12 * used, 360)
        };
        frames.iter().map(unused).collect()
    });
    assert!(found > 10, "{found}");
}

/// Include/cpython/code.h: four bytes after `_co_firsttraceable`, before `co_extra`. Of 3.9: after `co_firstlineno`.
#[test]
fn padding_of_code_of_python() {
    for (core, at) in [("python39", 44), ("python311", 172), ("python313-tasks", 188)] {
        let found = none_is_left(core, |session| {
            let code = objects(session, "code");
            code.iter().map(|object| part(object, at, at + 4)).collect()
        });
        assert!(found > 100, "{core}: {found}");
    }
}

/// src/vm/amd64/gmscpu.h of .NET 3.1: a LazyMachState has six captured registers at 16, and six pointers to saved
/// registers at 64. At 112 it has a pointer to the return address, which is null until somebody unwound from there. It
/// is 48 bytes into a HelperMethodFrame. A register that is no address is a value of the program.
#[test]
fn registers_that_a_helper_of_dotnet_saved() {
    let found = none_is_left("dotnet31-kernel", |session| {
        let memory = &session.process.memory;
        let threads = session.runtimes().first().unwrap().threads();
        let marks = threads.by_tid.values().flatten().flat_map(|thread| &thread.marks);
        let states = marks.filter(|mark| mark.class.starts_with("HelperMethodFrame")).map(|mark| mark.addr);
        let mut out = Vec::new();
        for state in states.map(|frame| frame.saturating_add(48)) {
            let unwound = !peek_ptr(memory, state.saturating_add(112)).is_null();
            for i in 0..6 {
                let slot = match unwound {
                    true => peek_ptr(memory, state.saturating_add(64 + 8 * i)),
                    false => state.saturating_add(16 + 8 * i),
                };
                let value = peek_ptr(memory, slot);
                if session.process.mapping_at(value).is_none() {
                    out.push(AddrRange::sized(slot, 8));
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    });
    assert!(found > 0);
}

/// malloc/malloc.c: a free chunk has its size, and up to four links. What follows them is left over from the block.
#[test]
fn contents_of_free_chunks_of_malloc() {
    for core in ["native-leaks", "native-malloc-gcore"] {
        let found = none_is_left(core, |session| {
            let links = 48;
            let body = |chunk: AddrRange| AddrRange::sized(chunk.start.saturating_add(links), 4096 - links);
            let chunks = free_pages(session.process, session.malloc()).into_iter();
            chunks.filter(|chunk| chunk.len() >= 4096).map(body).collect()
        });
        assert!(found > 0, "{core}: {found}");
    }
}
