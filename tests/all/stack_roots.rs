//! References of stacks: by GC info, against the official library's list.

use std::collections::BTreeSet;

use crate::support::real::{self, hex};
use coremap::internals;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::runtimes::api::{FrameSlotLocation, RefLocation};
use coremap::runtimes::coreclr::{CodeAt, StackRefs};
use coremap::session::Session;
use serde_json::Value;

/// What the official data-access library listed over the whole core: stack
/// pointer of the frame, where (0: a register), object, interior, pinned.
fn official(name: &str) -> Value {
    real::official(name)
}

/// Run `with` on what the threads of a recorded core hold, and on its methods.
fn recorded<T>(name: &str, with: impl FnOnce(&[StackRefs], &Session<'_>) -> T) -> T {
    let process = Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap();
    let session = Session::new(&process);
    let walker = session.walker(session.known_stacks());
    let id = session.runtimes_by_id()[0].0;
    let clr = internals::coreclr(&session).unwrap();
    let refs = clr.stack_refs(id, &mut |tid| session.walk_tid(&walker, tid));
    with(&refs, &session)
}

fn place(place: RefLocation) -> u64 {
    match place {
        RefLocation::Slot(FrameSlotLocation::Register(_)) => 0,
        RefLocation::Slot(FrameSlotLocation::Stack(at, ..)) | RefLocation::Listed(at, _) => at.get(),
    }
}

/// How many of the official roots there are; each must be among ours, by place
/// and object. And how many of ours, not null, are not among them.
fn compare(name: &str) -> (usize, BTreeSet<String>) {
    let official = official(name);
    recorded(name, |ours, session| {
        let (mut same, mut more) = (0, BTreeSet::new());
        for (tid, thread) in official["threads"].as_object().unwrap() {
            let Some(theirs) = thread["roots"].as_array() else { continue };
            let own = ours.iter().find(|s| s.thread.to_string() == *tid).expect("each thread is walked");
            let mut left: Vec<_> = own.precise.iter().filter(|k| k.value != 0).collect();
            for root in theirs {
                let (sp, slot, object) = (hex(&root[0]), hex(&root[1]), hex(&root[2]));
                let (interior, pinned) = (root[3].as_bool().unwrap(), root[4].as_bool().unwrap());
                let at = left.iter().position(|k| {
                    // Of a register the frame tells which; lists are of no frame.
                    let here = place(k.place) == slot && (slot != 0 || k.frame.is_some_and(|f| f.sp.get() == sp));
                    // What an interior pointer leads into, the official library looks up in
                    // the heap: wrong behind an allocation context that is used up, and of
                    // an address on the stack it gives what stands there.
                    here && (k.value == object || interior) && k.interior == interior
                });
                let at = at.unwrap_or_else(|| panic!("thread {tid}: {root} is not among {left:#x?}"));
                assert_eq!(left.remove(at).pinned, pinned, "thread {tid}: {root}");
                same += 1;
            }
            // Interior pointers may lead to the stack or to statics: no roots.
            more.extend(left.iter().filter(|k| !k.interior).map(|k| match (k.place, k.frame) {
                (RefLocation::Listed(_, list), _) => list.to_owned(),
                (_, Some(frame)) => match internals::coreclr(session).unwrap().methods().at(frame.ip) {
                    Some(CodeAt::Method(method)) => method.name.clone(),
                    _ => frame.ip.to_string(),
                },
                _ => unreachable!("a slot is of a frame"),
            }));
        }
        (same, more)
    })
}

#[test]
fn every_official_root_of_a_stack_is_found() {
    let (same, more) = compare("dotnet8-threads");
    assert_eq!(same, 305);
    // The official library does not read the list of GCFrames.
    assert_eq!(more, BTreeSet::from(["GCFrame".to_owned()]));
}

#[test]
fn every_official_root_of_a_stack_is_found_without_symbols() {
    let (same, more) = compare("dotnet10-kernel-threads");
    assert_eq!(same, 22);
    // It ends at the frames that look for an exception's handler; these are the
    // method that threw, and what the runtime keeps while it looks.
    assert!(more.contains("GCFrame"), "{more:?}");
}

/// The JIT counts a method's code in its GC info, and the unwind data of its
/// funclets tells where that ends: two independent accounts of it.
fn sizes_of_code(core: &str) -> (usize, usize) {
    recorded(core, |refs, session| {
        let methods = internals::coreclr(session).unwrap().methods();
        let ips: BTreeSet<_> = refs.iter().flat_map(|s| &s.precise).filter_map(|k| Some(k.frame?.ip)).collect();
        let (mut jitted, mut precompiled) = (0, 0);
        for ip in ips {
            let Some(CodeAt::Method(method)) = methods.at(ip) else { continue };
            let facts = methods.gc_info_facts(method.start).unwrap();
            assert_eq!(u64::from(facts.code_length), method.size, "{}", method.name);
            *(if method.jitted { &mut jitted } else { &mut precompiled }) += 1;
        }
        (jitted, precompiled)
    })
}

#[test]
fn gc_info_agrees_with_unwind_data_on_the_size_of_code() {
    let (jitted, precompiled) = sizes_of_code("dotnet8-threads");
    assert!(jitted >= 40 && precompiled >= 15, "{jitted} and {precompiled}");
}

/// There a function has no end but in its unwind data.
#[test]
fn gc_info_agrees_with_unwind_data_on_aarch64() {
    let (jitted, _) = sizes_of_code("dotnet10-aarch64-threads");
    assert!(jitted >= 40, "{jitted}");
    recorded("dotnet10-aarch64-threads", |refs, _| {
        assert!(refs.iter().all(|s| s.frames.1 == 0), "all managed frames are read");
        assert!(refs.iter().map(|s| s.frames.0).sum::<u64>() > 150, "and there are many");
    });
}

/// Its one running thread is in a method that holds no references.
#[test]
fn nothing_of_its_stacks_is_conservative() {
    recorded("dotnet8-threads", |refs, _| {
        assert!(refs.iter().all(|s| s.frames.1 == 0), "all managed frames are read");
        let guessed: Vec<_> = refs.iter().filter(|s| !s.conservative.is_empty()).map(|s| s.thread).collect();
        assert!(guessed.is_empty() && refs.iter().all(|s| s.registers.is_empty()), "{guessed:?}");
    });
}
