//! Threads of CPython beside what the process said of them just before the dump: `sys._current_frames()`, `threading`
//! (truth.json). The program is testdata/sources/caches.py.

use std::collections::BTreeMap;
use std::path::Path;

use coremap::commands::threads::ThreadsReport;
use coremap::commands::{self, ThreadOptions};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::{FrameRow, FrameRowKind, ThreadRow};
use coremap::session::Session;
use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

fn answer(core: &Path) -> ThreadsReport {
    let process = Process::open(core, &Options::default(), &Progress::silent()).unwrap();
    let report = commands::threads(&Session::new(&process), ThreadOptions::default());
    let warnings = process.diag.warnings();
    assert!(warnings.iter().all(|w| w.code != coremap::diag::WarningCode::Cpython), "{warnings:?}");
    report
}

#[track_caller]
fn thread<'r>(report: &'r ThreadsReport, name: &str) -> &'r ThreadRow {
    let found = report.threads.iter().find(|t| t.managed_name.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("no thread {name}"))
}

fn python(frames: &[FrameRow]) -> impl Iterator<Item = &FrameRow> {
    frames.iter().filter(|f| f.kind == FrameRowKind::Managed)
}

/// File without folders, qualified name, line.
type Place = (String, String, u64);

fn places(frames: &[FrameRow]) -> Vec<Place> {
    let of = |f: &FrameRow| {
        let file = f.file.as_deref().unwrap().rsplit('/').next().unwrap();
        (file.to_owned(), f.method.as_deref().unwrap().to_owned(), u64::from(f.line.unwrap()))
    };
    python(frames).map(of).collect()
}

fn told(frames: &Value) -> Vec<Place> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let frames = frames.as_array().unwrap().iter();
    frames.map(|f| (text(&f[0]), text(&f[1]), f[2].as_u64().unwrap())).collect()
}

#[test]
fn frames_and_names_are_those_that_the_process_told() {
    for name in names("python") {
        let report = answer(&real::plain(name));
        let truth = real::own_report(name);
        let wanted: BTreeMap<u64, &Value> =
            truth["threads"].as_array().unwrap().iter().map(|t| (t["tid"].as_u64().unwrap(), t)).collect();
        assert_eq!(report.threads.len(), wanted.len(), "{name}");
        for ours in &report.threads {
            let theirs = wanted[&u64::from(ours.tid)];
            assert_eq!(ours.managed_name.as_deref(), theirs["name"].as_str(), "{name}");
            assert_eq!(places(&ours.frames), told(&theirs["frames"]), "{name}: {}", theirs["name"]);
        }
        // A function that C code calls stands deeper on the C stack than what called it.
        let sorted = thread(&report, "sorted \u{436}");
        let frames: Vec<&FrameRow> = python(&sorted.frames).collect();
        assert!(frames.windows(2).all(|w| w[0].sp <= w[1].sp), "{name}: {frames:?}");
        // 3.9 has nothing on the C stack that leads to the Python frame.
        let told = frames[0].sp < frames[frames.len() - 1].sp;
        assert!(told || name == "python39", "{name}: the call by `sorted` is a call of C");
    }
}

/// All wait in calls that give the lock back.
#[test]
fn who_waits_has_no_global_lock() {
    for name in names("python") {
        let report = answer(&real::plain(name));
        for row in &report.threads {
            let state = row.state.as_deref().unwrap_or_default();
            assert!(!state.contains("GIL"), "{name}: {:?} {state}", row.managed_name);
        }
        let state = |of: &str| thread(&report, of).state.clone().unwrap_or_default();
        assert!(state("asleep").contains("sleeps"), "{name}: {}", state("asleep"));
        assert!(state("locked").contains("waits for a lock"), "{name}: {}", state("locked"));
        assert_eq!(thread(&report, "MainThread").role, Some("main"), "{name}");
        assert!(report.threads.iter().all(|t| t.crashed == (t.role == Some("main"))), "{name}");
    }
}

#[test]
fn tasks_that_wait_alike_are_one_group() {
    let core = real::plain("python313-tasks");
    let answer = run(["async", "--json", core.to_str().unwrap()]).exits(0).json();
    let chains = answer["chains"].as_array().unwrap();
    // Coroutines of a chain, that which waits first.
    let methods = |chain: &Value| -> Vec<String> {
        let frames = chain["frames"].as_array().unwrap().iter();
        let names = frames.filter_map(|f| f["method"].as_str());
        names.map(|name| name.rsplit('.').next().unwrap().to_owned()).collect()
    };
    let counted: Vec<(u64, Vec<String>)> = chains.iter().map(|c| (c["count"].as_u64().unwrap(), methods(c))).collect();
    let of = |words: &[&str]| {
        let found = counted.iter().find(|(_, names)| names.iter().map(String::as_str).eq(words.iter().copied()));
        found.unwrap_or_else(|| panic!("no {words:?}: {counted:?}")).0
    };
    assert_eq!(of(&["wait", "at_gate", "main"]), 5);
    assert_eq!(of(&["sleep", "nap", "main"]), 1);
    assert_eq!(of(&["wait", "at_gate", "on_other", "main"]), 1);
    assert_eq!((counted.len(), answer["total"].as_u64()), (3, Some(7)));
    // `other` waits for a task that is one of the five.
    let tasks = |chain: &Value| -> Vec<String> {
        let frames = chain["frames"].as_array().unwrap().iter();
        let tasks = frames.filter(|f| f["kind"] == "task");
        tasks.map(|f| f["object"].as_str().unwrap().to_owned()).collect()
    };
    let chain = |name: &str| chains.iter().find(|c| methods(c).iter().any(|m| m == name)).unwrap();
    let (other, gates) = (tasks(chain("on_other")), tasks(chain("at_gate")));
    assert_eq!((other.len(), gates.len()), (3, 2));
    assert_eq!(other.last(), gates.last(), "all are awaited by the task of main()");
    let nap = chain("nap")["awaiting"].as_str().unwrap();
    assert!(nap.contains("asyncio.sleep") && nap.contains("1000000"), "{nap}");
    assert!(chain("at_gate")["awaiting"].as_str().unwrap().contains("Event.wait"));
}

/// A thread that waits for files or a clock waits for no notification, whatever the first argument of its function is.
/// And 3.10's lists of CFrames, which end without a null pointer, give no warning.
#[test]
fn only_threads_that_wait_for_others_have_a_wait() {
    for name in names("holdings") {
        let report = answer(&real::plain(name));
        let truth = real::own_report(name);
        let told = truth["threads"].as_array().unwrap();
        assert_eq!(report.threads.len(), told.len(), "{name}");
        for thread in told {
            let (called, tid) = (thread[0].as_str().unwrap(), thread[1].as_u64().unwrap());
            let row = report.threads.iter().find(|row| u64::from(row.tid) == tid).unwrap();
            assert_eq!(row.managed_name.as_deref(), Some(called), "{name}");
            let kind = row.waits_for.as_ref().map(|wait| wait.kind);
            let wanted = (called == "waits_for_lock").then_some(coremap::report::WaitKind::Lock);
            assert_eq!(kind, wanted, "{name}: {called}");
            assert!(python(&row.frames).next().is_some(), "{name}: {called}");
        }
    }
}
