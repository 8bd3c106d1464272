//! Threads of Java against what the VM itself said of them just before the dump: `Thread.print` (jstack.txt), and of virtual
//! threads `Thread.dump_to_file` (dump.json). The program is testdata/sources/JavaThreads.java.

use std::collections::BTreeMap;
use std::path::Path;

use coremap::addr::Addr;
use coremap::commands::threads::ThreadsReport;
use coremap::commands::{self, ThreadOptions};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::{FrameRow, FrameRowKind, HeldRow, Severity, ThreadRow, WaitKind};
use coremap::runtimes::api::Execution;
use coremap::session::Session;
use coremap::targets::PieceState;
use serde_json::Value;

use crate::support::cases;
use crate::support::real;
use crate::support::run::run;

fn answer(core: &Path, virtual_threads: bool) -> ThreadsReport {
    let process = Process::open(core, &Options::default(), &Progress::silent()).unwrap();
    let options = ThreadOptions { virtual_threads, ..ThreadOptions::default() };
    let report = commands::threads(&Session::new(&process), options);
    let warnings = process.diag.warnings();
    assert!(warnings.iter().all(|w| w.code != coremap::diag::WarningCode::Hotspot), "{warnings:?}");
    report
}

/// A thread as jstack tells it.
#[derive(Debug)]
struct Told<'t> {
    name: &'t str,
    tid: u32,
    state: Option<&'t str>,
    /// Methods without arguments, and lines.
    frames: Vec<(String, Option<u32>)>,
    native: Vec<bool>,
    /// Addresses after these words.
    blocked: Vec<u64>,
    waiting: Vec<u64>,
    parked: Vec<u64>,
    locked: Vec<u64>,
}

/// `java.base@17.0.1/java.lang.Thread.run`, `A$$Lambda$3/0x00007f.run`: without module, and without what numbers hidden classes.
fn plain(method: &str) -> String {
    let rest = match method.split_once('/') {
        Some((module, rest)) if module.contains('@') => rest,
        _ => method,
    };
    let hidden = |at: usize| rest[at..].find('.').map(|dot| format!("{}{}", &rest[..at], &rest[at + dot..]));
    rest.find("/0x").and_then(hidden).unwrap_or_else(|| rest.to_owned())
}

fn told(text: &str) -> Vec<Told<'_>> {
    let text = text.split("Found one Java-level deadlock").next().unwrap();
    let mut out: Vec<Told<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('"') {
            let (name, head) = rest.split_once('"').unwrap();
            // A thread that a virtual one is on has none, and is shown without what the other does.
            let nid = head.split("nid=").nth(1).map_or("0", |rest| rest.split(' ').next().unwrap());
            let tid = nid.strip_prefix("0x").map_or_else(|| nid.parse(), |hex| u32::from_str_radix(hex, 16)).unwrap();
            let (frames, native) = Default::default();
            let (blocked, waiting, parked, locked) = Default::default();
            out.push(Told { name, tid, state: None, frames, native, blocked, waiting, parked, locked });
            continue;
        }
        let Some(thread) = out.last_mut() else { continue };
        let address = || line.split_once("<0x").map(|(_, rest)| u64::from_str_radix(&rest[..16], 16).unwrap());
        let line = line.trim();
        if let Some(state) = line.strip_prefix("java.lang.Thread.State: ") {
            thread.state = Some(state);
        } else if let Some((method, place)) = line.strip_prefix("at ").and_then(|frame| frame.rsplit_once('(')) {
            let number = place.trim_end_matches(')').rsplit_once(':').map(|(_, line)| line.parse().unwrap());
            thread.frames.push((plain(method), number));
            thread.native.push(place.contains("Native Method"));
        } else if line.starts_with("- waiting to lock") {
            thread.blocked.extend(address());
        } else if line.starts_with("- waiting on") {
            thread.waiting.extend(address());
        } else if line.starts_with("- parking to wait for") {
            thread.parked.extend(address());
        } else if line.starts_with("- locked") {
            thread.locked.extend(address());
        }
    }
    out
}

fn managed(frames: &[FrameRow]) -> impl Iterator<Item = &FrameRow> {
    frames.iter().filter(|f| f.kind == FrameRowKind::Managed)
}

/// Without its arguments.
fn method(frame: &FrameRow) -> String {
    plain(frame.method.as_deref().unwrap().split('(').next().unwrap())
}

fn stack(frames: &[FrameRow]) -> Vec<(String, Option<u32>)> {
    managed(frames).map(|frame| (method(frame), frame.line)).collect()
}

#[track_caller]
fn thread<'r>(report: &'r ThreadsReport, name: &str) -> &'r ThreadRow {
    let found = report.threads.iter().find(|t| t.managed_name.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("no thread {name}"))
}

#[test]
fn stacks_states_and_locks_are_those_of_jstack() {
    for case in cases::serving("jstack") {
        let report = answer(&real::plain(&case.name), false);
        let by_tid: BTreeMap<u32, &ThreadRow> = report.threads.iter().map(|t| (t.tid, t)).collect();
        let text = real::beside(&case.name, "jstack.txt");
        let (mut compared, mut frames) = (0, 0);
        for told in told(&text) {
            // Who answered jstack may be gone.
            let Some(ours) = by_tid.get(&told.tid) else { continue };
            let name = format!("{}: {}", case.name, told.name);
            assert_eq!(ours.managed_name.as_deref(), Some(told.name), "{name}");
            assert_eq!(told.state.map(str::to_owned), ours.state, "{name}");
            assert_eq!(stack(&ours.frames), told.frames, "{name}");
            let native: Vec<bool> = managed(&ours.frames).map(|f| f.how == Some(Execution::Native)).collect();
            assert_eq!(native, told.native, "{name}");
            let wait = ours.waits_for.as_ref();
            let waits = |kind| wait.filter(|w| w.kind == kind).map(|w| w.object.get()).into_iter().collect::<Vec<_>>();
            assert_eq!(waits(WaitKind::Notify), told.waiting, "{name}");
            // A lock of java.util.concurrent is waited for parked.
            let of_two = [waits(WaitKind::Lock), waits(WaitKind::Park)].concat();
            assert_eq!(of_two, [&*told.blocked, &*told.parked].concat(), "{name}");
            // Who waits to be notified has let go of what jstack shows as locked further up.
            let mut locked: Vec<u64> = told.locked.into_iter().filter(|at| !told.waiting.contains(at)).collect();
            locked.sort_unstable();
            let held: Vec<u64> = ours.holds.iter().map(|h: &HeldRow| h.object.get()).collect();
            assert_eq!(held, locked, "{name}");
            compared += 1;
            frames += told.frames.len();
        }
        assert!(compared > 15 && frames > 80, "{}: {compared} threads, {frames} frames", case.name);
    }
}

#[test]
fn threads_in_a_deadlock_are_told() {
    for case in cases::serving("jstack") {
        let report = answer(&real::plain(&case.name), false);
        let (one, other) = (thread(&report, "dead-1"), thread(&report, "dead-2"));
        for (waits, holds) in [(one, other), (other, one)] {
            let wait = waits.waits_for.as_ref().unwrap();
            assert_eq!(
                (wait.kind, wait.owner_tid, wait.owner_managed_id),
                (WaitKind::Lock, Some(holds.tid), holds.managed_id)
            );
            assert_eq!(holds.holds.iter().map(|h| h.object).collect::<Vec<_>>(), [wait.object]);
        }
        let deadlock = report.findings.iter().find(|f| f.id == "deadlock").unwrap();
        assert_eq!(deadlock.severity, Severity::Critical);
        assert!([one.tid, other.tid].iter().all(|tid| deadlock.text.contains(&tid.to_string())), "{}", deadlock.text);
        // A lock of java.util.concurrent has an owner too.
        let wait = thread(&report, "wants").waits_for.as_ref().unwrap();
        assert_eq!((wait.kind, wait.owner_tid), (WaitKind::Lock, Some(thread(&report, "owns").tid)));
        assert_eq!(wait.r#type.as_deref(), Some("java.util.concurrent.locks.ReentrantLock$NonfairSync"));
    }
}

#[test]
fn one_frame_of_compiled_code_is_several_methods() {
    for case in cases::serving("jstack") {
        let report = answer(&real::plain(&case.name), false);
        let row = thread(&report, "compiled");
        let of_class = managed(&row.frames).filter(|f| f.method.as_deref().unwrap().contains("$Compiled."));
        let frames: Vec<_> = of_class.collect();
        let told: Vec<_> = frames.iter().map(|f| (f.method.as_deref().unwrap(), f.how.unwrap())).collect();
        let expected = [
            ("JavaThreads$Compiled.inner(boolean)", Execution::Inlined),
            ("JavaThreads$Compiled.middle(boolean)", Execution::Inlined),
            ("JavaThreads$Compiled.outer(boolean)", Execution::Compiled),
        ];
        assert_eq!(told, expected, "{}", case.name);
        // All are at one place; only that whose code it is has a distance from its start.
        assert!(
            frames
                .iter()
                .all(|f| f.sp == frames[0].sp && f.bci.is_some() && f.file.as_deref() == Some("JavaThreads.java"))
        );
        assert!(frames[2].offset.is_some() && frames[0].offset.is_none());
        let hows: Vec<_> = managed(&row.frames).filter_map(|f| f.how).collect();
        assert_eq!((hows[0], hows[hows.len() - 1]), (Execution::Native, Execution::Interpreted));
        // Before its first bytecode it waits for its lock, on the method's first line.
        let row = thread(&report, "blocked");
        let first = managed(&row.frames).next().unwrap();
        assert_eq!((first.bci, first.line.is_some(), first.how), (Some(-1), true, Some(Execution::Compiled)));
        assert_eq!(row.waits_for.as_ref().unwrap().owner_tid, Some(thread(&report, "compiled").tid));
        let row = thread(&report, "compiled");
        assert!(managed(&row.frames).all(|f| f.runtime.as_deref() == Some("HotSpot")));
    }
}

#[test]
fn java_and_native_frames_are_one_list_down_to_where_the_thread_began() {
    for case in cases::serving("jstack") {
        let report = answer(&real::plain(&case.name), false);
        let row = thread(&report, "recurses \u{e9}\u{4e2d}");
        let kinds: Vec<_> = row.frames.iter().map(|f| f.kind).collect();
        let java = kinds.iter().position(|&k| k == FrameRowKind::Managed).unwrap();
        let last = kinds.iter().rposition(|&k| k == FrameRowKind::Managed).unwrap();
        // The wait in libc; an anchor; Java alone; the call stub, the VM and the thread's start.
        assert!(kinds[..java - 1].iter().all(|&k| k == FrameRowKind::Native), "{kinds:?}");
        assert_eq!((kinds[java - 1], row.frames[java - 1].frame), (FrameRowKind::Frame, Some("JavaFrameAnchor")));
        assert!(kinds[java..=last].iter().all(|&k| k == FrameRowKind::Managed), "{kinds:?}");
        assert!(row.frames[last + 1].method.as_deref().unwrap().contains("call_stub"));
        assert!(kinds.len() > last + 4 && java > 3, "{kinds:?}");
        assert!(row.frames.iter().all(|f| f.doubt() == 0), "{:?}", row.frames);
        assert!(row.end.as_deref().unwrap().starts_with("the thread began"), "{:?}", row.end);
        let recursion = managed(&row.frames).filter(|f| method(f) == "JavaThreads.recurse");
        let recursion: Vec<_> = recursion.collect();
        assert_eq!(recursion.len(), 21);
        assert!(recursion.iter().all(|f| f.how == Some(Execution::Interpreted)));
        assert!(recursion.windows(2).all(|w| w[0].sp < w[1].sp));
    }
}

#[test]
fn threads_of_the_vm_have_names_and_roles() {
    for case in cases::serving("jstack") {
        let report = answer(&real::plain(&case.name), false);
        for (name, role) in [
            ("VM Thread", "vm"),
            ("VM Periodic Task Thread", "vm"),
            ("Reference Handler", "reference handler"),
            ("Finalizer", "finalizer"),
            ("Signal Dispatcher", "signal dispatcher"),
            ("Common-Cleaner", "cleaner"),
            ("C1 CompilerThread0", "compiler"),
        ] {
            assert_eq!(thread(&report, name).role, Some(role), "{}: {name}", case.name);
        }
        assert_eq!(thread(&report, "parks").role, None);
    }
}

#[test]
fn virtual_threads_are_those_of_the_vms_own_dump() {
    for case in cases::serving("virtual") {
        let report = answer(&real::plain(&case.name), true);
        let found = report.virtual_threads.as_ref().unwrap();
        let dump: Value = serde_json::from_str(&real::beside(&case.name, "dump.json")).unwrap();
        let containers = dump["threadDump"]["threadContainers"].as_array().unwrap();
        let all = containers.iter().flat_map(|c| c["threads"].as_array().unwrap());
        let virtuals: BTreeMap<u64, &Value> =
            all.filter(|t| t["virtual"] == true).map(|t| (t["tid"].as_str().unwrap().parse().unwrap(), t)).collect();
        assert_eq!((found.total, found.mounted), (virtuals.len() as u64, 2));
        // The dump leaves out frames that the JDK hides.
        let own = |frames: &[String]| {
            let own = frames.iter().filter(|f| f.starts_with("JavaThreads.") || f.starts_with("JavaThreads$Free"));
            own.filter(|f| !f.contains("$$Lambda")).cloned().collect::<Vec<_>>()
        };
        let shown = |f: &FrameRow| match f.line {
            Some(line) => format!("{}({}:{line})", method(f), f.file.as_deref().unwrap()),
            None => method(f),
        };
        let mut compared = 0;
        for group in &found.groups {
            assert_eq!(group.count, group.threads.len() as u64);
            for row in &group.threads {
                let theirs = virtuals[&row.id.unwrap()];
                assert_eq!(row.name.as_deref(), theirs["name"].as_str());
                // What was put back on a thread's stack is there.
                let carried = row.carrier_tid.map(|tid| report.threads.iter().find(|t| t.tid == tid).unwrap());
                let carried = carried.into_iter().flat_map(|t| managed(&t.frames));
                let ours: Vec<String> = carried.chain(&group.frames).map(shown).collect();
                let stack = theirs["stack"].as_array().unwrap().iter().map(|f| f.as_str().unwrap().to_owned());
                let stack: Vec<String> = stack.collect();
                assert_eq!(own(&ours), own(&stack), "{:?}", row.name);
                compared += 1;
            }
        }
        assert_eq!(compared, virtuals.len());
        let starts = |name: &str| {
            let with = |g: &&commands::threads::VirtualGroupRow| {
                g.threads[0].name.as_deref().is_some_and(|n| n.starts_with(name))
            };
            found.groups.iter().filter(with).collect::<Vec<_>>()
        };
        let [parks] = starts("parks-")[..] else { panic!("one group of those that park") };
        assert_eq!((parks.count, parks.state, parks.objects), (12, Some("PARKED"), 1));
        let [wants] = starts("wants-")[..] else { panic!("one group of those that want the lock") };
        let owner = wants.waits_for.as_ref().and_then(|w| w.owner_tid);
        assert_eq!((wants.count, owner), (3, Some(thread(&report, "owns").tid)));
        let [compiled] = starts("compiled-")[..] else { panic!("one group of those in compiled code") };
        let hows = managed(&compiled.frames).filter(|f| method(f).contains("$Free.")).filter_map(|f| f.how);
        assert_eq!(hows.collect::<Vec<_>>(), [Execution::Inlined, Execution::Compiled]);
        // Its youngest frame is on a thread, the others are still in the heap.
        let [resumes] = starts("resumes")[..] else { panic!("one that was resumed") };
        assert!(managed(&resumes.frames).filter(|f| method(f) == "JavaThreads.resume").count() >= 29);
    }
}

/// A core with other words at some places.
fn patched(name: &str, words: &[(Addr, u64)]) -> tempfile::NamedTempFile {
    let plain = real::plain(name);
    let process = Process::open(&plain, &Options::default(), &Progress::silent()).unwrap();
    let mut bytes = std::fs::read(&plain).unwrap();
    for &(at, word) in words {
        let piece = process.space().pieces.at(at).unwrap();
        let PieceState::Dumped(place) = piece.state else { panic!("{at} is not in the core") };
        let place = (place + at.since(piece.range.start)) as usize;
        bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
    let mut file = tempfile::NamedTempFile::new_in(real::folder()).unwrap();
    real::write_sparse(file.as_file_mut(), &bytes);
    file
}

/// Frame pointers of the interpreted frames of a thread, youngest first: each but the first is what the one below it keeps.
fn frame_pointers(name: &str, thread_name: &str) -> Vec<Addr> {
    let process = Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap();
    let session = Session::new(&process);
    let report = commands::threads(&session, ThreadOptions::default());
    let tid = thread(&report, thread_name).tid;
    let walk = session.walk_tid(&session.walker(session.known_stacks()), tid).unwrap();
    let interpreted = |f: &&coremap::runtimes::api::StackFrame| {
        f.position.as_ref().is_some_and(|p| p.how == Some(Execution::Interpreted))
    };
    walk.frames.iter().filter(interpreted).map(|f| f.regs.fp().unwrap()).collect()
}

#[test]
fn frames_that_are_damaged_end_a_stack_and_nothing_else() {
    let name = "java17-threads";
    let whole = answer(&real::plain(name), false);
    let thread_name = "recurses \u{e9}\u{4e2d}";
    let before = stack(&thread(&whole, thread_name).frames);
    let fps = frame_pointers(name, thread_name);
    assert!(fps.len() > 20);
    let fp = fps[5];
    let last = fps[fps.len() - 1];
    for (what, words) in [
        ("a frame that leads to itself", vec![(fp, fp.get())]),
        ("one that leads back down", vec![(fp, fps[2].get())]),
        ("a frame pointer in no stack", vec![(fp, 0x10)]),
        ("at the end of the address space", vec![(fp, u64::MAX - 7)]),
        ("not aligned", vec![(fp, fps[6].get() + 1)]),
        ("a return address of no code", vec![(fp.saturating_add(8), 0x1234)]),
        ("a caller's stack pointer below its own", vec![(fp.saturating_sub(8), fps[0].get())]),
        ("a call stub without a frame pointer", vec![(last, 0)]),
    ] {
        let file = patched(name, &words);
        let report = answer(file.path(), false);
        let ours = thread(&report, thread_name);
        assert!(ours.frames.len() < 200, "{what}: {}", ours.frames.len());
        // What was called before the damage is as it was: the wait, and five calls of the recursion.
        assert_eq!(stack(&ours.frames)[..6], before[..6], "{what}");
        for other in report.threads.iter().filter(|t| t.tid != ours.tid) {
            let as_before = whole.threads.iter().find(|t| t.tid == other.tid).unwrap();
            assert_eq!(stack(&other.frames), stack(&as_before.frames), "{what}");
        }
    }
}

#[test]
fn what_a_frame_says_of_its_method_is_not_believed_blindly() {
    let name = "java17-threads";
    let thread_name = "recurses \u{e9}\u{4e2d}";
    let fp = frame_pointers(name, thread_name)[5];
    let whole = answer(&real::plain(name), false);
    let before = stack(&thread(&whole, thread_name).frames);
    // The address of the bytecode is in no bytecode of the method: the method stays, its line is not known.
    for bcp in [0, 0x10, u64::MAX, fp.get()] {
        let file = patched(name, &[(fp.saturating_sub(64), bcp)]);
        let after = stack(&thread(&answer(file.path(), false), thread_name).frames);
        let changed: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert_eq!((after.len(), changed.len()), (before.len(), 1));
        assert_eq!((changed[0].1.0.as_str(), changed[0].1.1), ("JavaThreads.recurse", None));
    }
    // What is no method has no name; the frames above it are as they were.
    for method in [0, 0x10, u64::MAX, fp.get()] {
        let file = patched(name, &[(fp.saturating_sub(24), method)]);
        let after = stack(&thread(&answer(file.path(), false), thread_name).frames);
        assert_eq!(after.len(), before.len() - 1, "{method:#x}");
    }
}

/// The owner of a lock is replaced by a virtual thread, which is in no list of threads but in that of virtual ones.
#[test]
fn a_virtual_thread_that_holds_a_lock_is_one() {
    for case in cases::serving("virtual") {
        let before = answer(&real::plain(&case.name), true);
        let lock = thread(&before, "wants").waits_for.clone().unwrap();
        let groups = &before.virtual_threads.as_ref().unwrap().groups;
        let owner =
            groups.iter().flat_map(|group| &group.threads).find(|t| t.name.as_deref() == Some("parks-0")).unwrap();
        // AbstractOwnableSynchronizer has one field, which follows the compressed class pointer.
        let at = lock.object.get() + 8;
        let bytes = std::fs::read(real::plain(&case.name)).unwrap();
        let load = crate::support::elf::read(&bytes).loads.into_iter();
        let load = load.clone().find(|l| l.vaddr <= at && at < l.vaddr + l.filesz).unwrap();
        let place = (load.offset + (at - load.vaddr)) as usize;
        let old = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
        let new = old & 0xffff_ffff | owner.object.get() << 32;
        let damaged = real::patched(&case.name, &[(at, new)]);
        let report = answer(damaged.path(), true);
        let wait = thread(&report, "wants").waits_for.as_ref().unwrap();
        assert_eq!((wait.kind, wait.owner_tid, wait.owner_virtual), (WaitKind::Lock, None, true), "{}", case.name);
        assert_eq!(wait.owner_managed_id.map(u64::from), owner.id, "{}", case.name);
        assert!(!lock.owner_virtual && lock.owner_tid.is_some(), "{}", case.name);
        let text = run(["threads", damaged.path().to_str().unwrap()]).stdout;
        let wanted = format!("held by virtual thread #{}", owner.id.unwrap());
        assert!(text.contains(&wanted) && !text.contains("not in the core"), "{}", case.name);
    }
}
