//! Reads that fail: one after the other, each read of a run, from the core's
//! header on. The answer is partial and says so with the phase and the address,
//! its sums hold, and nothing in it is wrong: it is compared with the undisturbed
//! one, piece by piece.
//!
//! `COREMAP_FAULT_STEP=N` tries each Nth read; 1 is all of them. `COREMAP_FAULT_FROM=N`
//! begins at the Nth.

mod compare;

use std::collections::BTreeMap;

use self::compare::{Answer, Place};
use crate::support::real;
use crate::watch;
use coremap::commands::{self, HeapStatOptions, ThreadOptions};
use coremap::map::audit;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;

/// One run; an error where the core does not open.
fn run(path: &std::path::Path, command: &str, fail_at: u64) -> Result<Answer, String> {
    let silent = Progress::silent();
    let options = Options { fail_at: Some(fail_at), ..Options::default() };
    let process = Process::open(path, &options, &silent).map_err(|e| e.to_string())?;
    let session = Session::new(&process);
    let broken: Vec<_> = audit::invariants(session.map(), process.facts()).into_iter().filter(|i| !i.ok).collect();
    assert!(broken.is_empty(), "{command}, read {fail_at}: {broken:?}");
    let body = match command {
        "summary" => {
            let sum = commands::summary(&session, true, &silent);
            assert_eq!(sum.total.size, sum.base.size, "read {fail_at}");
            assert_eq!(sum.total.in_core, sum.base.in_core, "read {fail_at}");
            serde_json::to_value(commands::envelope("summary", &session, sum)).unwrap()
        }
        "heapstat" => {
            let heap = commands::heapstat(&session, &HeapStatOptions::default(), &silent);
            let sum = heap.types.iter().fold((0, 0), |sum, t| (sum.0 + t.count, sum.1 + t.size));
            assert_eq!(sum, (heap.total.objects, heap.total.size), "read {fail_at}");
            serde_json::to_value(commands::envelope("heapstat", &session, heap)).unwrap()
        }
        _ => {
            let threads = commands::threads(&session, ThreadOptions::default());
            serde_json::to_value(commands::envelope("threads", &session, threads)).unwrap()
        }
    };
    let places = session.map().regions.iter();
    let places = places.map(|r| Place { range: r.range, kind: r.kind, confidence: r.confidence }).collect();
    // Whichever fails, a phase with a name tells of it.
    assert_eq!(process.reads().unnamed(), 0, "{command}, read {fail_at}: reads without a phase");
    let partial = process.diag.is_partial();
    Ok(Answer { body, places, partial, reads: process.reads().counted() })
}

/// Tries of one command where not all are asked for.
const TRIES: u64 = 100;

/// The first reads are of the headers and notes: all of these are tried.
const FIRST: u64 = 12;

/// What was wrong, in words; and how much was tried, on standard output.
fn each_read_fails(name: &str, command: &str) -> Vec<String> {
    // Where threads share the work, which read is the nth is chance.
    watch::alone();
    let path = real::plain(name);
    let whole = run(&path, command, u64::MAX).unwrap();
    assert!(whole.reads > 100, "{name}: {} reads", whole.reads);
    let step = std::env::var("COREMAP_FAULT_STEP").ok().map_or(whole.reads.div_ceil(TRIES), |v| v.parse().unwrap());
    let from = std::env::var("COREMAP_FAULT_FROM").ok().map_or(FIRST, |v| v.parse().unwrap());
    let (mut tried, mut refused, mut differ) = (0, 0, 0);
    let mut wrong: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut phases: BTreeMap<String, u64> = BTreeMap::new();
    for n in (1..FIRST).chain((from..=whole.reads).step_by(step as usize)) {
        tried += 1;
        let answer = match run(&path, command, n) {
            Ok(answer) => answer,
            Err(why) => {
                assert!(why.contains("could not be read"), "{command}: read {n}: {why}");
                refused += 1;
                continue;
            }
        };
        // A read that fails may spare later ones, never itself.
        assert!(answer.reads >= n, "{command}: read {n} was not done");
        let told = compare::told(&answer, &whole);
        if !answer.partial || told.is_empty() {
            wrong.entry("no phase tells of it".to_owned()).or_default().push(n);
        }
        let differences = compare::differences(command, &answer, &whole);
        differ += u64::from(answer.body["warnings"] != whole.body["warnings"] && differences.differ);
        for phase in &told {
            *phases.entry(phase.clone()).or_default() += 1;
        }
        for what in differences.wrong {
            wrong.entry(format!("{what}  [{}]", told.join(", "))).or_default().push(n);
        }
    }
    println!(
        "{name} {command}: {tried} of {} reads failed, one a run (step {step}); {refused} did not open, {differ} answers differ; told by {phases:?}",
        whole.reads
    );
    let row =
        |(what, at): (&String, &Vec<u64>)| format!("{name} {command}: {what}: {} reads, the first {}", at.len(), at[0]);
    wrong.iter().map(row).collect()
}

/// Let each read of `command` fail, on each of the cores.
fn on_each(command: &str, cores: [&str; 3]) {
    let list: Vec<String> = cores.iter().flat_map(|name| each_read_fails(name, command)).collect();
    assert!(list.is_empty(), "wrong where a read failed:\n{}", list.join("\n"));
}

#[test]
fn each_read_of_a_summary_fails() {
    on_each("summary", ["dotnet8-shrunk", "native-glibc-kernel", "dotnet31-kernel"]);
}

#[test]
fn each_read_of_a_heapstat_fails() {
    on_each("heapstat", ["dotnet31-kernel", "dotnet8-shrunk", "dotnet10-kernel-threads"]);
}

#[test]
fn each_read_of_threads_fails() {
    on_each("threads", ["dotnet10-kernel-threads", "dotnet8-threads", "dotnet31-kernel"]);
}
