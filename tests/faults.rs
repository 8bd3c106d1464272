//! Reads that fail: one after the other, each read of a run. The answer is partial
//! and says so, its sums hold, and it has no more than the undisturbed one.
//!
//! `COREMAP_FAULT_STEP=N` tries each Nth read; 1 is all of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use coremap::analysis::{self, HeapStatOptions, Names, ThreadOptions};
use coremap::introspect::introspect;
use coremap::map::audit;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use serde_json::Value;
use support::real;

/// What a run answered.
struct Answer {
    body: Value,
    codes: Vec<String>,
    partial: bool,
    reads: u64,
    /// Objects and their bytes, bytes of memory, threads.
    figures: [u64; 4],
}

fn run(path: &std::path::Path, command: &str, fail_at: u64) -> Answer {
    let silent = Progress::silent();
    let options = Options { fail_at: Some(fail_at), ..Options::default() };
    let process = Process::open(path, &options, &silent).unwrap();
    let found = introspect(&process);
    let broken: Vec<_> = audit::invariants(&found.map, &process.core).into_iter().filter(|i| !i.ok).collect();
    assert!(broken.is_empty(), "{command}, read {fail_at}: {broken:?}");
    let mut figures = [0; 4];
    let report = match command {
        "summary" => {
            let sum = analysis::summary(&process, &found, false, &silent);
            assert_eq!(sum.total.size, sum.base.size, "read {fail_at}");
            assert_eq!(sum.total.in_core, sum.base.in_core, "read {fail_at}");
            figures[2] = sum.total.size;
            serde_json::to_value(analysis::envelope("summary", &process, &found, sum)).unwrap()
        }
        "heapstat" => {
            let heap = analysis::heapstat(&process, &found, &HeapStatOptions::default(), &silent);
            let sum = heap.types.iter().fold((0, 0), |sum, t| (sum.0 + t.count, sum.1 + t.size));
            assert_eq!(sum, (heap.total.objects, heap.total.size), "read {fail_at}");
            (figures[0], figures[1]) = sum;
            serde_json::to_value(analysis::envelope("heapstat", &process, &found, heap)).unwrap()
        }
        _ => {
            let names = Names::new(&process, &found);
            let threads = analysis::threads(&process, &names, &found.stacks, ThreadOptions::default());
            figures[3] = threads.threads.len() as u64;
            serde_json::to_value(analysis::envelope("threads", &process, &found, threads)).unwrap()
        }
    };
    let mut body = report;
    let codes = body["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap().to_owned()).collect();
    body.as_object_mut().unwrap().remove("warnings");
    let reads = process.core.reads.counted();
    Answer { body, codes, partial: process.diag.is_partial(), reads, figures }
}

/// Tries of one command where not all are asked for.
const TRIES: u64 = 150;

fn each_read_fails(name: &str, command: &str) {
    let path = real::plain(name);
    let whole = run(&path, command, u64::MAX);
    assert!(whole.reads > 100, "{name}: {} reads", whole.reads);
    let step = std::env::var("COREMAP_FAULT_STEP").ok().map_or(whole.reads.div_ceil(TRIES), |v| v.parse().unwrap());
    let (mut tried, mut differ, mut alone) = (0, 0, 0);
    for n in (1..=whole.reads).step_by(step as usize) {
        let answer = run(&path, command, n);
        tried += 1;
        // A read that fails may spare later ones, never itself.
        assert!(answer.reads >= n, "{command}: read {n} was not done");
        assert!(answer.partial && answer.codes.iter().any(|c| c == "read-failed"), "{command}: read {n} is not told");
        for (i, (got, all)) in answer.figures.iter().zip(&whole.figures).enumerate() {
            assert!(got <= all, "{command}: read {n}: figure {i} is {got}, undisturbed {all}");
        }
        assert_eq!(answer.figures[2..], whole.figures[2..], "{command}: read {n}: memory or threads are missing");
        if answer.body != whole.body {
            differ += 1;
            alone += u64::from(answer.codes.len() == whole.codes.len() + 1);
        }
    }
    println!(
        "{name} {command}: {tried} of {} reads failed, one a run (step {step}); {differ} answers differ, \
         {alone} of them with `read-failed` as the only new warning",
        whole.reads
    );
}

#[test]
fn each_read_of_a_summary_fails() {
    each_read_fails("dotnet8-shrunk", "summary");
    each_read_fails("native-glibc-kernel", "summary");
}

#[test]
fn each_read_of_a_heapstat_fails() {
    each_read_fails("dotnet31-kernel", "heapstat");
}

#[test]
fn each_read_of_threads_fails() {
    each_read_fails("dotnet10-kernel-threads", "threads");
}
