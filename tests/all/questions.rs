//! Commands that answer what other tools answer: pools, timers, requests, collections, objects of stacks, live objects.

use serde_json::Value;

use crate::support::real;
use crate::support::run::run;

fn answer(command: &[&str], core: &str) -> Value {
    let path = real::plain(core);
    let words = command.iter().copied().chain(["--json", path.to_str().unwrap()]);
    run(words).json()
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// A list doubles its array, from four slots on, so 2,000 elements have 2,048 slots of a reference.
#[test]
fn the_slots_of_a_list_are_those_that_it_doubled_to() {
    let report = answer(&["collections"], "dotnet8-objects");
    let types = report["types"].as_array().unwrap();
    let entries = types.iter().find(|row| row["type"] == "System.Collections.Generic.List<Lab.CacheEntry>").unwrap();
    let of = |name: &str| number(&entries[name]);
    assert_eq!((of("count"), of("elements"), of("slots")), (1, 2000, 2048));
    assert_eq!((of("bytes"), of("empty_bytes")), (2048 * 8, 48 * 8));
    let holders = report["holders"].as_array().unwrap();
    assert!(holders.iter().any(|row| row["holder"] == "Lab.LeakyCache._entries"), "{holders:?}");
}

/// Sums by type are the total, of .NET and of Java, and no collection has more empty bytes than bytes.
#[test]
fn collections_add_up() {
    for core in ["dotnet8-objects", "dotnet11-heap", "java17-offheap"] {
        let report = answer(&["collections"], core);
        let types = report["types"].as_array().unwrap();
        assert!(!types.is_empty(), "{core}");
        for column in ["count", "empty", "elements", "slots", "bytes", "empty_bytes"] {
            let sum: u64 = types.iter().map(|row| number(&row[column])).sum();
            assert_eq!(sum, number(&report["total"][column]), "{core} {column}");
        }
        for row in types {
            assert!(number(&row["empty_bytes"]) <= number(&row["bytes"]), "{core}: {row}");
        }
    }
}

/// Live and dead objects are those that `retained` counts.
#[test]
fn live_and_dead_objects_are_those_of_the_graph() {
    let core = "dotnet8-objects";
    let retained = answer(&["retained", "--top", "0"], core);
    for (option, part) in [("--live", "live"), ("--dead", "unreachable")] {
        let report = answer(&["heapstat", option], core);
        assert_eq!(report["total"], retained[part], "{option}");
        assert_eq!(report["reach"]["live"], option == "--live");
    }
}

/// Objects of one region are those of its addresses.
#[test]
fn a_region_has_the_objects_at_its_addresses() {
    let core = "dotnet8-objects";
    let map = answer(&["regions", "--kind", "GCHeap"], core);
    let whole = answer(&["heapstat"], core);
    let mut sum = 0;
    for region in map["regions"].as_array().unwrap() {
        let start = region["start"].as_str().unwrap();
        sum += number(&answer(&["heapstat", "--region", start], core)["total"]["objects"]);
    }
    assert_eq!(sum, number(&whole["total"]["objects"]));
}

#[test]
fn pools_are_listed_and_what_was_not_read_is_named() {
    let pools = answer(&["threadpool"], "java25-virtual");
    let pool = &pools["pools"][0];
    assert_eq!((number(&pool["workers"]), number(&pool["busy"]), number(&pool["queued"])), (3, 2, 0));
    // This core lacks the names of the core library, and the array of the queues.
    let unread = |command: &str, core: &str| answer(&[command], core)["unread"].as_array().unwrap().len();
    assert_eq!(unread("threadpool", "dotnet8-objects"), 1);
    assert_eq!(unread("timers", "dotnet31-pending"), 1);
}

#[test]
fn objects_of_stacks_are_those_of_the_roots() {
    let report = answer(&["stackobjects"], "dotnet8-objects");
    let objects = report["objects"].as_array().unwrap();
    let precise = objects.iter().filter(|row| row["precise"] == true).count() as u64;
    let words = objects.len() as u64 - precise;
    assert_eq!(words, number(&report["stacks"]["roots_conservative"]));
    let first = objects.iter().find_map(|row| row["tid"].as_u64()).unwrap();
    let one = answer(&["stackobjects", "--tid", &first.to_string()], "dotnet8-objects");
    assert!(one["objects"].as_array().unwrap().iter().all(|row| row["tid"] == first));
}

#[test]
fn a_sort_by_what_was_not_computed_names_the_option() {
    let core = real::plain("dotnet8-objects");
    let out = run(["stacks", "--sort", "touched", core.to_str().unwrap()]);
    assert!(out.exits(2).stderr.contains("--zero-fill"), "{}", out.stderr);
    assert!(run(["verifyheap", core.to_str().unwrap()]).exits(2).stderr.contains("verifyheap"));
}
