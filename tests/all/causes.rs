//! Causes that the source of a recorded program states: caught.py, desk.py.

use serde_json::Value;

use crate::support::real;
use crate::support::run::run;

fn findings(name: &str) -> Vec<Value> {
    // Within the default budget a slow machine may leave out the graph.
    let out = run(["triage", "--json", "--budget", "300", real::plain(name).to_str().unwrap()]);
    out.json()["findings"].as_array().unwrap().clone()
}

fn text(finding: &Value) -> &str {
    finding["text"].as_str().unwrap()
}

#[track_caller]
fn with<'f>(findings: &'f [Value], id: &str, part: &str) -> &'f Value {
    let found = findings.iter().find(|finding| finding["id"] == id && text(finding).contains(part));
    found.unwrap_or_else(|| panic!("no {id} with {part:?} in {findings:#?}"))
}

/// gdb leaves out the constants of the interpreter's file, and the program imports no module that names the types.
#[test]
fn a_list_of_exceptions_keeps_the_variables_of_the_functions_that_raised_them() {
    let all = findings("python313-caught");
    let kept = with(&all, "retained", "global __main__.FAILED (list) retains 120 ValueError");
    assert!(text(kept).contains("72,000 float") && text(kept).contains("traceback"), "{}", text(kept));
    assert!(text(kept).contains(" of parse"), "{}", text(kept));
}

#[test]
fn whoever_waits_for_a_pool_waits_for_those_who_have_its_things() {
    let all = findings("python39-desk");
    let pool = with(&all, "blocked-holder", "has borrowed from __main__.Pool.idle (queue.Queue)");
    assert_eq!(pool["severity"], "warning", "{}", text(pool));
    assert!(
        text(pool).contains("sleeps in query ← serve") && text(pool).contains("4 threads wait for it"),
        "{}",
        text(pool)
    );
}

#[test]
fn a_queue_has_the_name_of_the_variable_and_the_task_that_is_stuck() {
    let all = findings("python39-desk");
    let queue = with(&all, "retained", "local parcels of main");
    assert!(text(queue).contains("8,999 __main__.Parcel"), "{}", text(queue));
    assert!(text(queue).contains("sorter uses it and waits for the asyncio.locks.Lock"), "{}", text(queue));
    with(&all, "containers", "`<asyncio.queues.Queue>._queue` is a collections.deque of 8,999");
}
