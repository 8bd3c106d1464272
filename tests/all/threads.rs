//! Stacks of threads: hostile and odd ones made by hand, and the real cores.

use std::collections::HashMap;

use crate::support::builder::{CoreBuilder, Load, R, W, X};
use crate::support::cases;
use crate::support::notes;
use crate::support::real::{self, hex, official};
use crate::support::run::run;
use coremap::commands::{ThreadOptions, threads};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::{ThreadRow, Trust};
use coremap::session::Session;
use serde_json::Value;

/// Code: all `call rax`, so that every even address but the first follows a call.
const CODE: u64 = 0x40_0000;
const CODE_LEN: u64 = 0x2000;
/// An address right after a call.
const CALLED: u64 = CODE + 0x100;

const STACK: u64 = 0x7f00_0000_0000;
const STACK_LEN: u64 = 0x10000;

/// Indices into `user_regs_struct`.
const RBP: usize = 4;
const RIP: usize = 16;
const RSP: usize = 19;

fn code() -> Load {
    Load::at(CODE).flags(R | X).bytes([0xff, 0xd0].repeat(CODE_LEN as usize / 2))
}

/// A stack of zeros with these words.
fn stack(words: &[(u64, u64)]) -> Load {
    let mut bytes = vec![0u8; STACK_LEN as usize];
    for &(at, word) in words {
        let at = (at - STACK) as usize;
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    Load::at(STACK).flags(R | W).bytes(bytes)
}

fn rows(core: &CoreBuilder) -> Vec<ThreadRow> {
    let file = core.write();
    let process = Process::open(file.path(), &Options::default(), &Progress::silent()).unwrap();
    let session = Session::new(&process);
    threads(&session, ThreadOptions::default()).threads
}

/// The one thread of a core with these loads and registers.
fn walked(loads: impl IntoIterator<Item = Load>, registers: &[(usize, u64)]) -> ThreadRow {
    let core = CoreBuilder::x86_64().loads(loads).note(notes::prstatus_with(7, registers));
    rows(&core).pop().unwrap()
}

fn ips(row: &ThreadRow) -> Vec<u64> {
    row.frames.iter().map(|f| f.ip.unwrap().get()).collect()
}

fn trusts(row: &ThreadRow) -> Vec<Trust> {
    row.frames.iter().map(|f| f.trust).collect()
}

fn end(row: &ThreadRow) -> &str {
    row.end.as_deref().unwrap()
}

#[test]
fn a_stack_pointer_to_nowhere() {
    for sp in [0, 8, 0xdead_0000, u64::MAX, u64::MAX - 7] {
        let row = walked([code()], &[(RIP, CALLED), (RSP, sp)]);
        assert_eq!(trusts(&row), [Trust::Context]);
        assert!(end(&row).contains("in no stack"), "{}", end(&row));
    }
}

#[test]
fn a_smashed_stack() {
    let words: Vec<(u64, u64)> = (0..STACK_LEN / 8).map(|i| (STACK + i * 8, 0x4141_4141_4141_4141)).collect();
    let row = walked(
        [code(), stack(&words)],
        &[(RIP, 0x4141_4141_4141_4141), (RSP, STACK + 0x100), (RBP, 0x4141_4141_4141_4141)],
    );
    assert_eq!(ips(&row), [0x4141_4141_4141_4141]);
    assert!(end(&row).starts_with("no unwind data"), "{}", end(&row));
}

#[test]
fn a_chain_of_frame_pointers() {
    let (a, b, c) = (STACK + 0x200, STACK + 0x300, STACK + 0x400);
    let words = [(a, b), (a + 8, CALLED), (b, c), (b + 8, CALLED + 2), (c, 0), (c + 8, 0)];
    let row = walked([code(), stack(&words)], &[(RIP, CODE), (RSP, STACK + 0x100), (RBP, a)]);
    assert_eq!(ips(&row), [CODE, CALLED, CALLED + 2]);
    assert_eq!(trusts(&row), [Trust::Context, Trust::FramePointer, Trust::FramePointer]);
    assert_eq!(row.frames.iter().map(|f| f.sp.get()).collect::<Vec<_>>(), [STACK + 0x100, a + 16, b + 16]);
}

#[test]
fn frame_pointers_in_a_circle() {
    let (a, b) = (STACK + 0x200, STACK + 0x300);
    let words = [(a, b), (a + 8, CALLED), (b, a), (b + 8, CALLED)];
    let row = walked([code(), stack(&words)], &[(RIP, CODE), (RSP, STACK + 0x100), (RBP, a)]);
    // From b on, the pointer leads down: it is not followed.
    assert_eq!(ips(&row), [CODE, CALLED, CALLED]);
    let itself = [(a, a), (a + 8, CALLED)];
    let row = walked([code(), stack(&itself)], &[(RIP, CODE), (RSP, STACK + 0x100), (RBP, a)]);
    assert_eq!(ips(&row), [CODE, CALLED]);
}

#[test]
fn return_addresses_without_frame_pointers_are_looked_for() {
    // What follows no call, and what is no code, is passed over.
    let words = [(STACK + 0x120, CODE + 1), (STACK + 0x128, STACK), (STACK + 0x130, CALLED)];
    let row = walked([code(), stack(&words)], &[(RIP, CODE), (RSP, STACK + 0x100)]);
    assert_eq!((ips(&row), trusts(&row)), (vec![CODE, CALLED], vec![Trust::Context, Trust::Scan]));
    assert_eq!(row.frames[1].sp.get(), STACK + 0x138);
}

#[test]
fn guesses_look_like_guesses_in_every_form() {
    let words = [(STACK + 0x130, CALLED)];
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_with(7, &[(RIP, CODE), (RSP, STACK + 0x100)]))
        .loads([code(), stack(&words)]);
    let file = core.write();
    let path = file.path().to_str().unwrap();
    for args in [&["threads"][..], &["threads", "--group"], &["threads", "--fold"]] {
        let out = run([args, &["-v", path]].concat());
        out.exits(0);
        assert!(out.stdout.contains("(by scan)"), "{args:?}: {}", out.stdout);
        assert!(out.stderr.contains("some frames are guesses"), "{args:?}: {}", out.stderr);
    }
    let out = run(["threads", "--group", "--format", "csv", path]);
    assert!(out.stdout.contains("(by scan)"), "{}", out.stdout);
}

#[test]
fn the_thread_that_crashed_is_marked_and_no_other() {
    // SIGSEGV in "w-big"; the kernel writes the signal at every thread.
    let core = real::plain("native-glibc-kernel");
    let path = core.to_str().unwrap();
    let crashed = run(["info", "--json", path]).json()["process"]["crash_thread"].as_u64().unwrap();
    for (command, key) in [("threads", "threads"), ("stacks", "stacks")] {
        let answer = run([command, "--json", path]).json();
        let marked: Vec<&Value> = answer[key].as_array().unwrap().iter().filter(|t| t["crashed"] == true).collect();
        let [row] = marked[..] else { panic!("{command}: {marked:?}") };
        assert_eq!(row["tid"], crashed, "{command}");
    }
    let threads = run(["threads", "--json", path]).json();
    let signals: Vec<&Value> = threads["threads"].as_array().unwrap().iter().map(|t| &t["signal"]).collect();
    assert_eq!(signals.iter().filter(|s| !s.is_null()).count(), 1, "{signals:?}");
    let group = run(["threads", "--group", path]).stdout;
    assert!(group.contains(&format!("thread {crashed} crashed by SIGSEGV")), "{group}");
    // createdump of 3.1 writes SIGABRT at every thread of a process that was well.
    let core = real::plain("dotnet31-createdump");
    let threads = run(["threads", "--json", core.to_str().unwrap()]).json();
    assert!(threads["threads"].as_array().unwrap().iter().all(|t| t["crashed"] == false));
}

#[test]
fn where_a_signal_came_is_told_without_its_handlers_code() {
    // The kernel's core has no code of libc: the handler's way back can't be followed.
    let core = real::plain("zoo-kernel");
    let answer = run(["threads", "--json", core.to_str().unwrap()]).json();
    let stacks = run(["stacks", "--json", core.to_str().unwrap()]).json();
    let mut seen = 0;
    for signal in stacks["stacks"].as_array().unwrap().iter().filter(|s| s["state"] == "signal") {
        let row = answer["threads"].as_array().unwrap().iter().find(|t| t["tid"] == signal["used_by"]).unwrap();
        let own = stacks["stacks"].as_array().unwrap().iter().find(|s| s["tid"] == signal["used_by"]).unwrap();
        let frames = row["frames"].as_array().unwrap();
        let interrupted: Vec<&Value> = frames.iter().filter(|f| f["trust"] == "signal frame").collect();
        assert_eq!(interrupted.last().unwrap()["sp"], own["sp"], "{row}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn a_symbol_without_a_size_names_nothing_beyond_itself() {
    // musl's memset has no size, and its system calls no names.
    let core = real::plain("native-musl-gcore");
    let out = run(["threads", core.to_str().unwrap()]);
    assert!(!out.stdout.contains("memset"), "{}", out.stdout);
}

#[test]
fn a_stack_full_of_return_addresses_is_bounded() {
    let words: Vec<(u64, u64)> = (0..STACK_LEN / 8).map(|i| (STACK + i * 8, CALLED)).collect();
    let row = walked([code(), stack(&words)], &[(RIP, CODE), (RSP, STACK)]);
    assert!(row.frames.len() <= 32, "{}", row.frames.len());
}

#[test]
fn a_stack_that_is_not_in_the_dump() {
    let gone = Load::at(STACK).flags(R | W).memsz(STACK_LEN);
    let row = walked([code(), gone], &[(RIP, CODE), (RSP, STACK + 0x100), (RBP, STACK + 0x200)]);
    assert_eq!(trusts(&row), [Trust::Context]);
    assert!(end(&row).contains("not in the dump"), "{}", end(&row));
}

#[test]
fn threads_without_anything_are_there() {
    let core =
        CoreBuilder::x86_64().note(notes::prstatus_with(7, &[])).note(notes::prstatus_with(8, &[(RIP, u64::MAX)]));
    let found = rows(&core);
    assert_eq!(found.iter().map(|r| r.tid).collect::<Vec<_>>(), [7, 8]);
    assert!(found.iter().all(|r| r.frames.len() == 1 && r.end.is_some()));
}

/// A small image with unwind data, at VDSO: a function at +0x400 that keeps 16
/// bytes, and a signal's trampoline at +0x500.
const VDSO: u64 = 0x7fff_0000_0000;
const FUNCTION: u64 = VDSO + 0x400;
const TRAMPOLINE: u64 = VDSO + 0x500;

/// What the trampoline's data says: where on the stack the interrupted rip and rsp are.
const SAVED_RSP: u8 = 0x10;
const SAVED_RIP: u8 = 0x18;

/// mov rax, 15; syscall
const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];

fn entry(id: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut out = (bytes.len() as u32).to_le_bytes().to_vec();
    out.extend(bytes);
    out
}

fn image() -> Vec<u8> {
    let mut out = vec![0u8; 0x1000];
    let put = |out: &mut Vec<u8>, at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    // CIE: version 1, augmentation, code and data alignment, return address 16,
    // one byte of augmentation: absolute pointers; CFA = rsp + 8, rip at CFA - 8.
    let cie = |augmentation: &[u8]| {
        let mut body = vec![1];
        body.extend(augmentation);
        body.extend([0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1]);
        entry(0, &body)
    };
    let fde = |at: usize, cie: usize, start: u64, code: &[u8]| {
        // As glibc's: the trampoline's data begins one byte before it.
        let mut body = start.to_le_bytes().to_vec();
        body.extend(0xffu64.to_le_bytes());
        body.push(0);
        body.extend(code);
        entry((at + 4 - cie) as u32, &body)
    };
    let mut frames = cie(b"zR");
    let at = frames.len();
    // DW_CFA_def_cfa_offset 24
    frames.extend(fde(at, 0, 0x400, &[0x0e, 24]));
    let signal = frames.len();
    frames.extend(cie(b"zRS"));
    let at = frames.len();
    // DW_CFA_def_cfa_expression: *(rsp + SAVED_RSP); DW_CFA_expression of rip: rsp + SAVED_RIP
    frames.extend(fde(at, signal, 0x4ff, &[0x0f, 3, 0x77, SAVED_RSP, 0x06, 0x10, 16, 2, 0x77, SAVED_RIP]));
    frames.extend([0; 4]);
    // The FDEs give addresses as they are: the image's own place is added.
    for start in [0x400u64, 0x4ff] {
        let at = frames.windows(8).position(|w| w == start.to_le_bytes()).unwrap();
        frames[at..at + 8].copy_from_slice(&(start + VDSO).to_le_bytes());
    }
    put(&mut out, 0x200, &frames);
    put(&mut out, 0x500, &SIGRETURN);
    // .eh_frame_hdr: version, absolute pointer to .eh_frame, no count, no table.
    put(&mut out, 0x1c0, &[1, 0x04, 0xff, 0xff]);
    put(&mut out, 0x1c4, &(VDSO + 0x200).to_le_bytes());
    // ELF header, PT_LOAD of it all, PT_GNU_EH_FRAME.
    put(&mut out, 0, b"\x7fELF\x02\x01\x01");
    put(&mut out, 16, &[3, 0, 62, 0, 1]);
    put(&mut out, 32, &64u64.to_le_bytes());
    put(&mut out, 52, &[64, 0, 56, 0, 2, 0, 64, 0]);
    let header = |kind: u32, at: u64, len: u64| {
        let mut h = [kind.to_le_bytes(), 5u32.to_le_bytes()].concat();
        h.extend([at, at, at, len, len, 8].iter().flat_map(|w| w.to_le_bytes()));
        h
    };
    put(&mut out, 64, &header(1, 0, 0x1000));
    put(&mut out, 120, &header(0x6474_e550, 0x1c0, 12));
    out
}

fn in_vdso(words: &[(u64, u64)], registers: &[(usize, u64)]) -> ThreadRow {
    let vdso = Load::at(VDSO).flags(R | X).bytes(image());
    let core = CoreBuilder::x86_64()
        .loads([code(), stack(words), vdso])
        .note(notes::auxv(&[(33, VDSO), (6, 4096)]))
        .note(notes::prstatus_with(7, registers));
    rows(&core).pop().unwrap()
}

#[test]
fn a_thread_in_the_vdso() {
    let words = [(STACK + 0x110, CALLED)];
    let row = in_vdso(&words, &[(RIP, FUNCTION + 4), (RSP, STACK + 0x100)]);
    assert_eq!(ips(&row)[..2], [FUNCTION + 4, CALLED]);
    assert_eq!(trusts(&row)[..2], [Trust::Context, Trust::UnwindData]);
    assert_eq!(row.frames[0].module.as_deref(), Some("[vdso]"));
    assert_eq!(row.frames[1].sp.get(), STACK + 0x118);
}

#[test]
fn a_thread_in_a_signal_handler() {
    // A handler's frame, the trampoline, and what it interrupted: exactly at the
    // first byte of a function, on a stack further down.
    let (frame, interrupted) = (STACK + 0x1000, STACK + 0x80);
    let words = [
        (frame, 0),
        (frame + 8, TRAMPOLINE),
        (frame + 16 + u64::from(SAVED_RSP), interrupted),
        (frame + 16 + u64::from(SAVED_RIP), FUNCTION),
        (interrupted + 16, CALLED),
    ];
    let row = in_vdso(&words, &[(RIP, CODE), (RSP, STACK + 0xf00), (RBP, frame)]);
    assert_eq!(ips(&row)[..4], [CODE, TRAMPOLINE, FUNCTION, CALLED]);
    assert_eq!(trusts(&row)[..4], [Trust::Context, Trust::FramePointer, Trust::UnwindData, Trust::UnwindData]);
}

#[test]
fn a_signal_handler_without_unwind_data() {
    // musl's trampoline has none: the kernel's own frame tells.
    let (frame, interrupted) = (STACK + 0x1000, STACK + 0x80);
    let gregs = frame + 16 + 40;
    let words = [
        (frame, 0),
        (frame + 8, CODE + 0x2000),
        (gregs + 10 * 8, frame + 0x1000),
        (gregs + 15 * 8, interrupted),
        (gregs + 16 * 8, CODE),
        (frame + 0x1008, CALLED),
    ];
    let more = Load::at(CODE + 0x2000).flags(R | X).bytes(SIGRETURN);
    let row = walked([code(), more, stack(&words)], &[(RIP, CODE), (RSP, STACK + 0xf00), (RBP, frame)]);
    assert_eq!(ips(&row)[..4], [CODE, CODE + 0x2000, CODE, CALLED]);
    assert_eq!(trusts(&row)[..4], [Trust::Context, Trust::FramePointer, Trust::Signal, Trust::FramePointer]);
}

fn answer(name: &str) -> HashMap<u64, Value> {
    let path = real::plain(name);
    let out = run(["threads", "--json", path.to_str().unwrap()]);
    out.is_sound();
    let v = out.json();
    v["threads"].as_array().unwrap().iter().map(|t| (t["tid"].as_u64().unwrap(), t.clone())).collect()
}

fn frames<'a>(thread: &'a Value, kind: &str) -> Vec<&'a Value> {
    thread["frames"].as_array().unwrap().iter().filter(|f| f["kind"] == kind).collect()
}

/// Managed frames, names, modes and exceptions of every thread.
#[track_caller]
fn equals_the_official_answer(name: &str, named: bool) -> usize {
    let (ours, theirs) = (answer(name), official(name));
    let mut compared = 0;
    for (tid, want) in theirs["threads"].as_object().unwrap() {
        let Some(got) = ours.get(&tid.parse().unwrap()) else { panic!("{name}: no thread {tid}") };
        let managed = frames(got, "managed");
        let pick = |key: &str| managed.iter().map(|f| f[key].clone()).collect::<Vec<_>>();
        let column = |i: usize| want["frames"].as_array().unwrap().iter().map(|f| f[i].clone()).collect::<Vec<_>>();
        assert_eq!(managed.len(), column(0).len(), "{name}: thread {tid}");
        for (ours, theirs) in managed.iter().zip(column(0)) {
            // Precompiled code notes the return address of a helper in the Frame of
            // a P/Invoke, a few bytes before that of the call itself.
            let apart = hex(&ours["ip"]).abs_diff(hex(&theirs));
            assert!(
                apart == 0 || apart < 32 && ours["method"] == want["frames"][0][1],
                "{name}: {tid}: {ours} {theirs}"
            );
        }
        assert_eq!(got["managed_id"], want["managed_id"], "{name}: thread {tid}");
        assert_eq!(got["gc_mode"], want["gc_mode"], "{name}: thread {tid}");
        if named {
            assert_eq!(pick("method"), column(1), "{name}: thread {tid}");
            assert_eq!(got["managed_name"], want["name"], "{name}: thread {tid}");
            assert_eq!(got["exception"]["type"], want["exception"], "{name}: thread {tid}");
        }
        for mark in want["marks"].as_array().unwrap() {
            let same = |f: &&Value| f["sp"] == mark[0] && f["frame"] == mark[1];
            assert!(frames(got, "frame").iter().any(same), "{name}: thread {tid}: no {mark}");
        }
        compared += usize::from(!managed.is_empty());
    }
    compared
}

#[test]
fn managed_stacks_equal_the_official_ones() {
    assert_eq!(equals_the_official_answer("dotnet8-threads", true), 35);
}

#[test]
fn explicit_frames_lead_on_where_no_module_is_in_the_core() {
    // A kernel's core, without files: tokens stand for names.
    assert_eq!(equals_the_official_answer("dotnet10-kernel-threads", false), 3);
    let threads = answer("dotnet10-kernel-threads");
    let by_frame = threads.values().flat_map(|t| frames(t, "managed")).filter(|f| f["trust"] == "frame").count();
    assert!(by_frame >= 3, "{by_frame}");
}

/// Cores of aarch64, where every function keeps a frame record: return addresses that gdb found, and those that a reader of
/// the records alone finds, each list from the innermost frame on and without gaps.
#[test]
fn frames_of_aarch64_equal_gdbs_and_the_frame_records() {
    for case in cases::serving("frames") {
        let ours = answer(&case.name);
        let truth: Value = serde_json::from_str(&real::beside(&case.name, "frames.json")).unwrap();
        let mut compared = 0;
        for source in ["gdb", "records"] {
            for (tid, want) in truth[source].as_object().into_iter().flatten() {
                let thread = &ours[&tid.parse().unwrap()];
                let all = thread["frames"].as_array().unwrap().iter().filter(|f| f["kind"] != "frame");
                // gdb has a frame without an address where a signal was delivered.
                let ips: Vec<_> = all.filter(|f| source == "records" || !is_trampoline(f)).map(|f| &f["ip"]).collect();
                let want: Vec<_> = want.as_array().unwrap().iter().collect();
                assert_eq!(ips.get(..want.len()), Some(want.as_slice()), "{}: {source}: thread {tid}", case.name);
                compared += want.len();
                // The records end where the thread began.
                if source == "records" {
                    assert_eq!((ips.len(), &thread["end"]), (want.len(), &"the thread began here".into()), "{tid}");
                }
            }
        }
        assert!(compared > 30, "{}: {compared} frames", case.name);
    }
}

/// Whether a frame is where a signal's handler returns to: in the vdso.
fn is_trampoline(frame: &Value) -> bool {
    frame["module"].as_str().is_some_and(|m| m.contains("vdso"))
}

#[test]
fn native_frames_equal_gdbs() {
    let (ours, theirs) = (answer("dotnet8-threads"), official("dotnet8-threads"));
    let (mut all, mut same, mut named, mut equal) = (0, 0, 0, 0);
    for (tid, want) in theirs["gdb"].as_object().unwrap() {
        let native = frames(&ours[&tid.parse().unwrap()], "native");
        for (i, frame) in want.as_array().unwrap().iter().enumerate() {
            // gdb makes tail calls up from debug information: no return address
            // of them is on the stack.
            if frame[1] == "__GI___futex_abstimed_wait_cancelable64" {
                continue;
            }
            all += 1;
            let found = if i == 0 { native.first() } else { native.iter().find(|f| f["ip"] == frame[0]) };
            same += usize::from(found.is_some());
            // Without debug symbols only exported functions have names.
            if let (Some(ours), theirs) = (found.and_then(|f| f["method"].as_str()), frame[1].as_str().unwrap()) {
                let plain =
                    |name: &str| name.replace("__GI_", "").replace("libc_", "").trim_matches('_').replace("64", "");
                named += usize::from(theirs != "??");
                equal += usize::from(theirs != "??" && plain(ours) == plain(theirs));
            }
        }
    }
    assert!(all > 300, "{all} frames compared");
    assert!(same * 100 >= all * 95, "{same} of {all} frames are where gdb has them");
    assert!(named > 30 && equal * 100 >= named * 95, "{equal} of {named} names");
}

#[test]
fn a_handled_exception_shows_its_method_twice() {
    let threads = answer("dotnet8-threads");
    let caught: Vec<&str> = threads
        .values()
        .filter(|t| t["managed_name"] == "lab-catch")
        .flat_map(|t| frames(t, "managed"))
        .map(|f| f["method"].as_str().unwrap())
        .filter(|m| m.starts_with("Lab.Funclets."))
        .collect();
    let want = ["Lab.Funclets.InCatch()", "Lab.Funclets.Thrower(System.String)", "Lab.Funclets.InCatch()"];
    assert_eq!(caught, want);
}

/// The lock that the thread of that name waits for, and the name of who holds it,
/// as the program itself made them: three threads at one lock, two that wait for
/// each other.
#[test]
fn locks_and_who_holds_them() {
    let all = answer("dotnet8-threads");
    let named = |name: &str| {
        let found = all.values().find(|t| t["managed_name"] == name);
        found.unwrap_or_else(|| panic!("no thread {name}"))
    };
    // The objects' addresses are what the program found them at just before the dump.
    let waits = [
        ("lab-blocked-0", "0x7f4e2cc09010", "lab-lockowner"),
        ("lab-blocked-1", "0x7f4e2cc09010", "lab-lockowner"),
        ("lab-blocked-2", "0x7f4e2cc09010", "lab-lockowner"),
        ("lab-deadlock-a", "0x7f4e2cc09040", "lab-deadlock-b"),
        ("lab-deadlock-b", "0x7f4e2cc09028", "lab-deadlock-a"),
    ];
    for (name, object, owner) in waits {
        let wait = &named(name)["waits_for"];
        assert_eq!(wait["kind"], "lock", "{name}");
        assert_eq!(wait["object"], object, "{name}");
        assert_eq!(wait["owner_tid"], named(owner)["tid"], "{name}");
        assert_eq!(wait["owner_managed_id"], named(owner)["managed_id"], "{name}");
        // The object that the runtime's helper protects, and the owner in its sync block.
        assert_eq!(wait["confidence"], "exact", "{name}");
    }
    let locks = all.values().filter(|t| t["waits_for"]["kind"] == "lock").count();
    assert_eq!(locks, waits.len(), "nobody else waits for a lock");
    // Who holds one waits to be pulsed, on the object that all who park wait on.
    let pulsed = all.values().filter(|t| t["waits_for"]["kind"] == "pulse");
    assert!(pulsed.clone().all(|t| t["waits_for"]["confidence"] == "exact"));
    assert!(pulsed.clone().any(|t| t["managed_name"] == "lab-lockowner"));
    assert!(
        pulsed
            .clone()
            .all(|t| frames(t, "managed")[0]["method"].as_str().unwrap().starts_with("System.Threading.Monitor.Wait("))
    );
}

#[test]
fn a_deadlock_is_told() {
    let path = real::plain("dotnet8-threads");
    let v = run(["threads", "--json", "--group", path.to_str().unwrap()]).json();
    let findings: Vec<_> = v["findings"].as_array().unwrap().iter().map(|f| (&f["id"], &f["severity"])).collect();
    assert_eq!(findings, [(&"deadlock".into(), &"critical".into()), (&"lock-waiters".into(), &"info".into())]);
    let text = v["findings"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Deadlock of 2 threads") && text.contains("lab-deadlock-a"), "{text}");
}

#[test]
fn stacks_say_what_threads_do() {
    let path = real::plain("dotnet8-threads");
    let v = run(["stacks", "--json", path.to_str().unwrap()]).json();
    let rows = v["stacks"].as_array().unwrap();
    let does = |tid: u64| rows.iter().find(|r| r["tid"] == tid).map(|r| r["does"].clone()).unwrap();
    let all = answer("dotnet8-threads");
    let tid = |name: &str| all.values().find(|t| t["managed_name"] == name).unwrap()["tid"].as_u64().unwrap();
    // Where the program put each thread of these names.
    assert_eq!(does(tid("lab-main")), "Thread.Sleep ← Lab.Program.ParkForever");
    assert_eq!(does(tid("lab-lockowner")), "Monitor.Wait ← Lab.Parking.Park");
    assert_eq!(does(tid("lab-blocked-1")), "lock ← Lab.Locks.BlockOnContended");
    assert_eq!(does(tid("lab-deadlock-a")), "lock ← Lab.Locks.Deadlock");
    assert_eq!(does(tid("lab-pinvoke")), "read ← Lab.PipeReader.BlockingRead");
    let groups = v["groups"].as_array().unwrap();
    let counted: u64 = groups.iter().map(|g| g["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, rows.iter().filter(|r| !r["tid"].is_null()).count() as u64);
    let reserved: u64 = groups.iter().map(|g| g["reserved"].as_u64().unwrap()).sum();
    let of_rows = rows.iter().filter(|r| !r["tid"].is_null()).filter_map(|r| r["reserved"].as_u64()).sum::<u64>();
    assert_eq!(reserved, of_rows);
    let blocked = groups.iter().find(|g| g["does"] == "lock ← Lab.Locks.BlockOnContended").unwrap();
    assert_eq!(blocked["count"], 3);
}

/// Indices into `user_pt_regs`.
const FP: usize = 29;
const LR: usize = 30;
const SP: usize = 31;
const PC: usize = 32;

/// A thread of aarch64 in a function without a frame record, whose code is not in the core. Its caller, at +0x1a0, has a
/// record that leads to the first function, at +0x168. `link`: the link register; `signed`: the signature.
fn leaf(link: u64, signature: u64, mask: Option<u64>) -> (Vec<u64>, String) {
    let (sp, fp, first) = (STACK + 0x1000, STACK + 0x1020, STACK + 0x1050);
    let library = 0x7e00_0000_0000;
    let files = [(CODE, CODE + 0x1000, 0, "/opt/till/till"), (library, library + 0x1000, 0, "/opt/till/libtill.so")];
    let core = CoreBuilder::aarch64()
        .note(notes::prstatus_aarch64_with(1, &[(PC, CODE + 0x1c8), (SP, sp), (FP, fp), (LR, link)]))
        .note(mask.map(notes::pac_mask).unwrap_or_default())
        .note(notes::files(4096, &files))
        .load(Load::at(CODE).flags(R | X).memsz(0x1000))
        .load(Load::at(library).flags(R | X).memsz(0x1000))
        .load(stack(&[(fp, first), (fp + 8, (CODE + 0x168) | signature)]));
    let file = core.write();
    let answer = run(["threads", "--json", file.path().to_str().unwrap()]).is_sound().json();
    let frames = answer["threads"][0]["frames"].as_array().unwrap().iter().map(|f| hex(&f["ip"])).collect();
    (frames, answer["warnings"].to_string())
}

/// A function signs the return address in the link register on entry (pointer authentication).
#[test]
fn a_signed_link_register_is_the_callers() {
    // The signature is above 48 bits of addresses, or above 39, which only the note shows.
    for (signature, mask) in [
        (0x2f << 48, None),
        (0x2f << 48, Some(0x7f << 48)),
        (0x2f_5a80 << 32, Some(0xffff << 39)),
        (0x15 << 39, Some(0xffff << 39)),
    ] {
        let (frames, warnings) = leaf((CODE + 0x1a0) | signature, signature, mask);
        assert_eq!(frames, [CODE + 0x1c8, CODE + 0x1a0, CODE + 0x168], "{signature:#x} {mask:x?}");
        assert!(!warnings.contains("may be missing"), "{warnings}");
    }
}

/// Without a signature, the link register may be left over from a call that returned to the function itself.
#[test]
fn a_caller_that_may_be_missing_is_said() {
    let (frames, warnings) = leaf(CODE + 0x1a0, 0, None);
    assert_eq!(frames, [CODE + 0x1c8, CODE + 0x168]);
    assert!(warnings.contains("in 1 the caller of the innermost function may be missing"), "{warnings}");
    // In another file, it is the caller's.
    let (frames, _) = leaf(0x7e00_0000_0100, 0, None);
    assert_eq!(frames, [CODE + 0x1c8, 0x7e00_0000_0100, CODE + 0x168]);
    // The frame record has it already.
    let (frames, warnings) = leaf(CODE + 0x168, 0, None);
    assert_eq!(frames, [CODE + 0x1c8, CODE + 0x168]);
    assert!(!warnings.contains("may be missing"), "{warnings}");
}

/// The auxiliary vector above the first frame has the address of the entry point, which may follow a call.
#[test]
fn nothing_follows_the_first_function() {
    let argc = STACK + 0x8000;
    let (text, random) = (STACK + 0x8800, STACK + 0x8810);
    let auxv = [(3, CODE + 0x40), (6, 4096), (9, CALLED), (25, random)];
    let mut words = vec![(argc, 1), (argc + 8, text), (argc + 24, text)];
    for (i, (key, value)) in (0..).zip(auxv) {
        words.extend([(argc + 40 + 16 * i, key), (argc + 48 + 16 * i, value)]);
    }
    let arm_code = Load::at(CODE).flags(R | X).bytes(0x9400_0000u32.to_le_bytes().repeat(CODE_LEN as usize / 4));
    let arm = |sp| {
        CoreBuilder::aarch64()
            .note(notes::prstatus_aarch64_with(1, &[(PC, CALLED), (SP, sp), (FP, 8)]))
            .load(arm_code.clone())
    };
    let x86 = |sp| CoreBuilder::x86_64().note(notes::prstatus_with(1, &[(RIP, CALLED), (RSP, sp)])).load(code());
    // In the first function, and where it pushed a word.
    for core in [arm(argc), x86(argc), arm(argc - 16), x86(argc - 16)] {
        let file = core.note(notes::auxv(&auxv)).load(stack(&words)).write();
        let answer = run(["threads", "--json", file.path().to_str().unwrap()]).is_sound().json();
        let frames: Vec<u64> =
            answer["threads"][0]["frames"].as_array().unwrap().iter().map(|f| hex(&f["ip"])).collect();
        assert_eq!(frames, [CALLED], "{answer:#}");
    }
}
