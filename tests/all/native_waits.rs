//! What native threads wait for, and how native processes ended, against what the programs said.

use crate::support::builder::{CoreBuilder, Load};
use crate::support::cases;
use crate::support::notes;
use crate::support::real::{self, hex};
use coremap::commands::threads::ThreadsReport;
use coremap::commands::{self, ThreadOptions, threads};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::{LastWordsKind, LastWordsRow, LockKind, OwnerState, WaitKind};
use coremap::session::Session;
use serde_json::Value;

/// Indices into `user_regs_struct`: the arguments of a system call in order, and its number.
const RDI: usize = 14;
const RSI: usize = 13;
const RDX: usize = 12;
const ORIG_RAX: usize = 15;

/// Offsets of `r9`, the bits of FUTEX_WAIT_BITSET.
const R9: usize = 8;

const FUTEX: u64 = 202;
const WAIT_PRIVATE: u64 = 128;
const WAIT_BITSET_PRIVATE: u64 = 137;

const DATA: u64 = 0x55_5555_0000;

/// A thread in a futex call.
fn waiting(tid: u32, operation: u64, at: u64, value: u64) -> Vec<u8> {
    let bits = u64::from(u32::MAX);
    notes::prstatus_with(tid, &[(RDI, at), (RSI, operation), (RDX, value), (R9, bits), (ORIG_RAX, FUTEX)])
}

/// Words of 32 bits from an address on.
fn data(words: &[u32]) -> Load {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(4096, 0);
    Load::at(DATA).bytes(bytes)
}

fn open(name: &str) -> Process {
    Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap()
}

fn report(core: &CoreBuilder) -> ThreadsReport {
    let file = core.write();
    let process = Process::open(file.path(), &Options::default(), &Progress::silent()).unwrap();
    threads(&Session::new(&process), ThreadOptions::default())
}

#[test]
fn threads_wait_for_what_the_program_says() {
    for case in cases::serving("waits") {
        let truth = real::own_report(&case.name);
        let process = open(&case.name);
        let session = Session::new(&process);
        let report = threads(&session, ThreadOptions::default());
        for want in truth["waits"].as_array().unwrap() {
            let tid = u32::try_from(want["tid"].as_u64().unwrap()).unwrap();
            let row = report.threads.iter().find(|row| row.tid == tid).unwrap();
            let wait = row.waits_for.as_ref().unwrap_or_else(|| panic!("{tid} waits: {want}"));
            assert_eq!(wait.kind.name(), want["kind"], "{tid}");
            assert_eq!(row.syscall.as_ref().unwrap().name, Some("futex"));
            // The address of a thread that is joined is in glibc's control block.
            if wait.kind != WaitKind::Join {
                assert_eq!(wait.address.map(|at| at.get()), Some(hex(&want["address"])), "{want}");
            }
            let owner = wait.owner.as_ref().and_then(|owner| owner.tid).map(u64::from);
            assert_eq!(owner, want["owner"].as_u64(), "{want}");
            let ended = want["owner"] == truth["ended"];
            assert_eq!(wait.owner_ended, ended, "{want}");
        }
        // Three threads in a ring.
        let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids.iter().filter(|id| **id == "deadlock").count(), 1, "{ids:?}");
        assert!(report.findings[0].text.starts_with("Deadlock of 3 threads"), "{}", report.findings[0].text);

        let locks = commands::syncblocks(&session).locks;
        let count = |kind: LockKind| locks.iter().filter(|lock| lock.kind == kind).count();
        let kinds = [LockKind::Mutex, LockKind::ReaderWriter, LockKind::Condition, LockKind::Semaphore];
        assert_eq!(kinds.map(count), [4, 2, 1, 1]);
        assert!(locks.iter().all(|lock| lock.object.is_none() && !lock.waiters.is_empty()));
    }
}

#[test]
fn a_core_that_was_asked_for_is_no_crash() {
    let process = open("waits-kernel");
    let words = commands::info(&Session::new(&process), false).last_words.unwrap();
    assert_eq!(words.kind, LastWordsKind::Requested);
    assert!(words.sender.is_some_and(|pid| Some(pid) != process.pid()));
}

#[test]
fn the_locks_of_rust_are_no_mutexes_of_pthreads() {
    // A Mutex of Rust with waiters, and data that could be a mutex's owner, users and kind.
    let core = CoreBuilder::x86_64()
        .loads([data(&[2, 0, 1, 1, 0])])
        .note(waiting(7, WAIT_BITSET_PRIVATE, DATA, 2))
        .note(notes::prpsinfo(7, "p", "p"));
    let report = report(&core);
    let wait = report.threads[0].waits_for.as_ref().unwrap();
    assert_eq!((wait.kind, wait.owner_tid), (WaitKind::Futex, None));
}

#[test]
fn a_lock_of_the_parent_is_not_called_ended() {
    // Thread IDs grow, so thread 90 is older than process 100.
    for (owner, state) in [(90, OwnerState::Inherited), (120, OwnerState::Ended), (101, OwnerState::Alive)] {
        let core = CoreBuilder::x86_64()
            .loads([data(&[2, 0, owner, 1, 0])])
            .note(waiting(100, WAIT_PRIVATE, DATA, 2))
            .note(notes::prpsinfo(100, "p", "p"))
            .note(notes::prstatus_with(101, &[(ORIG_RAX, 34)]));
        let report = report(&core);
        let wait = report.threads[0].waits_for.as_ref().unwrap();
        let found = wait.owner.as_ref().unwrap();
        assert_eq!((found.tid, found.state), (Some(owner), state));
        assert_eq!(wait.owner_ended, state == OwnerState::Ended);
        assert_eq!(report.threads[1].syscall.as_ref().unwrap().name, Some("pause"));
    }
}

#[test]
fn a_thread_that_ran_is_in_no_system_call() {
    let core = CoreBuilder::x86_64().loads([data(&[0])]).note(notes::prstatus_with(7, &[(ORIG_RAX, u64::MAX)]));
    assert!(report(&core).threads[0].syscall.is_none());
}

fn last_words(core: &str, show_data: bool) -> LastWordsRow {
    let process = open(core);
    commands::info(&Session::new(&process), show_data).last_words.unwrap()
}

/// What the program wrote to stderr.
fn stderr(core: &str) -> String {
    real::own_report(core)["stderr"].as_str().unwrap().to_owned()
}

#[test]
fn messages_of_the_c_library() {
    for (core, kind) in [("ends-assert", LastWordsKind::Assert), ("ends-overrun", LastWordsKind::Malloc)] {
        let words = last_words(core, false);
        assert_eq!(words.kind, kind);
        assert_eq!(words.text.as_deref(), Some(stderr(core).trim_end_matches('\n')));
        assert!(!words.private && words.signal.as_deref() == Some("SIGABRT"));
    }
}

#[test]
fn the_block_that_was_written_past_its_end() {
    let truth: Value = real::own_report("ends-overrun");
    let words = last_words("ends-overrun", false);
    let block = |role: &str| words.blocks.iter().find(|block| block.role.name() == role).unwrap();
    // 2,017 bytes and a NUL were meant for 2,000; malloc gave 2,008, and the next 8 are the next block's size.
    let before = block("before");
    assert_eq!(before.address.get(), hex(&truth["stdout"]["block"]));
    assert_eq!((before.size, before.used, before.overrun), (Some(2008), Some(true), Some(9)));
    assert_eq!(before.text.as_deref(), Some("record x"), "no more than eight characters");
    assert_eq!(block("damaged").text.as_deref(), Some("xxxxxxxx"));
    assert_eq!(block("after").size, Some(2008));
}

#[test]
fn text_over_a_pointer() {
    let words = last_words("ends-text", false);
    assert_eq!((words.kind, words.signal.as_deref()), (LastWordsKind::Fault, Some("SIGSEGV")));
    // The last eight of the 24 characters.
    assert_eq!(words.operand.unwrap().text.as_deref(), Some("uch too "));
    assert_eq!(words.cause.unwrap().name(), "not-canonical");
}

#[test]
fn an_exception_that_nobody_catches() {
    let shown = last_words("ends-exception", true);
    assert_eq!(shown.kind, LastWordsKind::Exception);
    let text = shown.text.unwrap();
    assert!(stderr("ends-exception").contains(&format!("what():  {text}\n")), "{text}");
    // Without the program's files, the stack does not prove that the text was written.
    assert!(shown.private);
    assert_eq!(last_words("ends-exception", false).text, None);
}

#[test]
fn a_panic() {
    let words = last_words("ends-panic", false);
    assert_eq!(words.kind, LastWordsKind::Panic);
    let (text, position) = (words.text.unwrap(), words.position.unwrap());
    assert!(stderr("ends-panic").contains(&format!("panicked at {position}:\n{text}\n")), "{text}");
    assert!(stderr("ends-panic").contains(&format!("({})", words.tid.unwrap())));
}
