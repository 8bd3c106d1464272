//! A NativeAOT program beside what it said of itself (`program` in truth.json) and what another reader of the same
//! structures found, which shares no code with this one (`prototype`): one core with the program's read-only pages, one
//! without, of two runs of one program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use coremap::addr::Addr;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::runtimes::nativeaot::NativeAot;
use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

/// With the program's read-only pages: strings of the header, metadata.
const FULL: &str = "nativeaot9";
/// A program of 8.0 without them, whose MethodTables have another flag for references.
const OLD: &str = "nativeaot8-kernel";
/// Without them.
const PLAIN: &str = "nativeaot9-kernel";

/// Exit status of an answer that is not whole.
const PARTIAL: i32 = 4;

fn ask(name: &str, args: &[&str]) -> Value {
    let core: PathBuf = real::plain(name);
    let answer = run(args.iter().copied().chain(["--json", core.to_str().unwrap()]));
    assert!(matches!(answer.is_sound().code, Some(0 | PARTIAL)), "{args:?}: {}", answer.stderr);
    answer.json()
}

/// The answer of a command that may list nothing.
fn ask_list(name: &str, command: &str) -> Value {
    let core: PathBuf = real::plain(name);
    let answer = run([command, "--json", core.to_str().unwrap()]);
    assert!(matches!(answer.is_sound().code, Some(0 | 1)), "{command}: {}", answer.stderr);
    answer.json()
}

fn truth(name: &str) -> Value {
    serde_json::from_str(&real::beside(name, "truth.json")).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

/// Count and bytes by type.
fn by_type(stat: &Value) -> BTreeMap<String, (u64, u64)> {
    let mut out: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in list(&stat["types"]) {
        let sum = out.entry(row["type"].as_str().unwrap().to_owned()).or_default();
        *sum = (sum.0 + number(&row["count"]), sum.1 + number(&row["size"]));
    }
    out
}

fn warned(answer: &Value, code: &str) -> bool {
    list(&answer["warnings"]).iter().any(|warning| warning["code"] == code)
}

#[test]
fn it_is_told_with_its_version_and_how_that_is_known() {
    for name in names("nativeaot") {
        let answer = ask(name, &["info"]);
        let runtime = &answer["core"]["runtimes"][0];
        assert_eq!(runtime["name"], "NativeAOT", "{name}");
        let source = runtime["layout_source"].as_str().unwrap();
        if name == PLAIN {
            assert_eq!(runtime["version"], "9.0");
            assert!(source.contains("by its shape, the order of the entries"), "{source}");
        } else {
            assert_eq!(runtime["version"], truth(name)["program"]["runtime_version"]);
            assert!(source.contains("exported, the names in the header"), "{source}");
        }
    }
}

#[test]
fn all_objects_are_there() {
    for name in names("nativeaot") {
        let (stat, truth) = (ask(name, &["heapstat"]), truth(name));
        let (types, wanted) = (by_type(&stat), &truth["prototype"]);
        let sum = types.values().fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        assert_eq!(sum, (number(&wanted["objects"]), number(&wanted["bytes"])), "{name}");
        assert_eq!(number(&stat["lost"]["count"]), 0, "{name}: every segment is walked to its end");
    }
}

#[test]
fn types_are_named_by_the_metadata_in_the_core() {
    let (stat, truth) = (ask(FULL, &["heapstat"]), truth(FULL));
    let types = by_type(&stat);
    for (name, wanted) in truth["prototype"]["types"].as_object().unwrap() {
        let wanted = (number(&wanted["count"]), number(&wanted["bytes"]));
        assert_eq!(types.get(name), Some(&wanted), "{name}");
    }
    for (name, count) in truth["program"]["expected_instances"].as_object().unwrap() {
        assert_eq!(types[name].0, number(count), "{name}");
    }
    // Made of those: an array, a list of them.
    assert!(types.contains_key("P.CacheEntry[]"));
    assert!(types.contains_key("System.Collections.Generic.List<P.CacheEntry>"), "{:?}", types.keys());
    assert!(!warned(&stat, "nativeaot-names"));
    let unnamed = types.keys().filter(|name| name.starts_with("MethodTable_")).count();
    assert!(unnamed * 4 < types.len(), "{unnamed} of {} types have no name", types.len());
}

#[test]
fn without_metadata_types_are_addresses_and_that_is_said() {
    let stat = ask(PLAIN, &["heapstat"]);
    assert!(warned(&stat, "nativeaot-names"));
    let entries = truth(PLAIN)["program"]["expected_instances"]["P.CacheEntry"].clone();
    let unnamed = by_type(&stat).into_iter().filter(|(name, _)| name.starts_with("MethodTable_0x"));
    assert!(unnamed.into_iter().any(|(_, (count, _))| count == number(&entries)), "they are counted all the same");
    assert!(by_type(&stat).contains_key("System.String"), "strings are told by their form");
}

#[test]
fn its_threads_are_managed_and_others_are_not() {
    for name in names("nativeaot") {
        let (answer, truth) = (ask(name, &["threads"]), truth(name));
        let managed = list(&answer["threads"]).iter().filter(|row| !row["gc_mode"].is_null());
        let mut tids: Vec<u64> = managed.map(|row| number(&row["tid"])).collect();
        tids.sort_unstable();
        let wanted: Vec<u64> = list(&truth["prototype"]["threads"]).iter().map(number).collect();
        assert_eq!(tids, wanted, "{name}");
        assert!(tids.len() < list(&answer["threads"]).len(), "{name}: a thread of the GC's own is none");
    }
}

#[test]
fn a_cache_is_held_by_a_static_field() {
    let answer = ask(FULL, &["gcroot", "--type", "^P.CacheEntry$"]);
    let text = answer.to_string();
    assert!(text.contains("\"Statics\""), "{text}");
    assert!(text.contains("(static fields)"), "{text}");
    let answer = ask(FULL, &["retained", "--type", "^P.CacheEntry$"]);
    let rows = list(&answer["types"]).iter().filter(|row| row["type"] == "P.CacheEntry");
    assert_eq!(rows.map(|row| number(&row["count"])).sum::<u64>(), 2000);
}

/// The objects of the program's static fields are alive, and so are the objects of the types that it keeps.
#[test]
fn references_of_8_are_followed() {
    let truth = truth(OLD);
    let answer = ask(OLD, &["retained", "--top", "100000"]);
    assert_eq!(answer["not_read"], serde_json::json!([]));
    let (live, dead) = (&answer["live"], &answer["unreachable"]);
    let shares = |row: &Value| (number(&row["objects"]), number(&row["size"]));
    // The program had not made any garbage but some strings, which the report itself is of.
    assert!(shares(dead).1 * 3 < shares(live).1, "{live} live, {dead} not");
    // Its 319 entries are in a list. Types have no names without the program's file.
    let count = &truth["types"]["Ledger.Entry"];
    let of = |rows: &str| list(&answer[rows]).iter().filter(|row| row["count"] == *count).count();
    assert!(of("types") > 0 && of("unreachable_types") == 0, "{count}");
    let statics = list(&truth["statics"]);
    assert!(statics.len() >= 10);
    for field in statics.iter().take(12) {
        let found = ask(OLD, &["gcroot", field["object"].as_str().unwrap()]);
        let text = found["paths"].to_string();
        assert!(text.contains("\"Statics\"") && text.contains("(static fields)"), "{field}: {text}");
    }
}

/// The runtime of `name`'s core.
fn with<R>(name: &str, body: impl FnOnce(&NativeAot<'_>) -> R) -> R {
    let process = Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap();
    body(&NativeAot::find(&process).pop().unwrap())
}

fn ask_patched(name: &str, words: &[(u64, u64)], args: &[&str]) -> Value {
    let file = real::patched(name, words);
    let answer = run(args.iter().copied().chain(["--json", file.path().to_str().unwrap()]));
    // In an overview, what was left out of a shrunk core is not lost.
    assert!(matches!(answer.is_sound().code, Some(0 | PARTIAL)), "{args:?}: {}", answer.stderr);
    answer.json()
}

#[test]
fn without_handles_nothing_is_called_unreachable() {
    // Of GcDacVars, and of the map, whose first word leads to its tables.
    let (map, first) = with(FULL, |aot| {
        let runtime = aot.runtime();
        let map = runtime.gc_dac_vars.get() + runtime.layout.positive("GcDacVars", "handle_table_map").unwrap();
        (map, runtime.memory().u64(Addr::new(map)).unwrap())
    });
    for (at, word) in [(map, 0), (first, 0)] {
        let answer = ask_patched(FULL, &[(at, word)], &["retained"]);
        let not_read = answer["not_read"].to_string();
        assert!(not_read.contains("GC handles"), "{not_read}");
        assert!(warned(&answer, "heap"));
        let triage = ask_patched(FULL, &[(at, word)], &["triage"]);
        let findings = list(&triage["findings"]);
        // The cache of 2,000 entries with 10 KiB each is most of the heap. Its static field is a root without handles.
        let cache = list(&answer["types"]).iter().filter(|row| row["type"] == "P.CacheEntry");
        assert_eq!(cache.map(|row| number(&row["count"])).sum::<u64>(), 2000, "{answer}");
        assert!(triage["findings"].to_string().contains("GC handles"), "{triage}");
        for finding in findings {
            let text = finding["text"].as_str().unwrap();
            assert!(!text.contains("unreachable") && !text.contains("would free"), "{text}");
        }
        assert!(findings.iter().all(|finding| finding["id"] != "unreachable"));
    }
}

#[test]
fn arrays_of_references_without_references_are_noticed() {
    let stat = ask(FULL, &["heapstat"]);
    let array = list(&stat["types"]).iter().find(|row| row["type"] == "P.CacheEntry[]").unwrap();
    let at = real::hex(&array["method_table"]);
    let head = with(FULL, |aot| aot.runtime().memory().u64(Addr::new(at)).unwrap());
    // 9.0 has HasPointers in bit 24.
    assert!(head & 1 << 24 != 0);
    let answer = ask_patched(FULL, &[(at, head & !(1 << 24))], &["retained"]);
    assert!(answer["not_read"].to_string().contains("references of objects of 1 type"), "{}", answer["not_read"]);
}

#[test]
fn the_heap_is_on_the_map() {
    for name in names("nativeaot") {
        let (answer, truth) = (ask(name, &["summary"]), truth(name));
        let size = |kind: &str| {
            let row = list(&answer["kinds"]).iter().find(|row| row["kind"] == kind);
            row.map_or(0, |row| number(&row["size"]))
        };
        let objects = number(&truth["prototype"]["bytes"]);
        assert!(size("GCHeap") >= objects && size("GCHeap") < objects + objects / 4, "{name}: {}", size("GCHeap"));
        assert!(size("HandleTable") > 0 && size("GCBookkeeping") > 0, "{name}");
        let check = ask(name, &["check"]);
        assert!(list(&check["conflicts"]).is_empty(), "{name}: {check}");
    }
}

/// 9.0, by the metadata in the core and without symbols. What the program of this core did is in
/// testdata/sources: 30 threads wait on one object.
#[test]
fn locks_exceptions_and_tasks_are_read() {
    let locks = ask(FULL, &["syncblocks"]);
    assert_eq!(locks["unread"], serde_json::json!([]));
    let [lock] = list(&locks["locks"]) else { panic!("{locks}") };
    assert_eq!((&lock["kind"], &lock["type"]), (&"monitor.wait".into(), &"System.Object".into()));
    let waiters = list(&lock["waiters"]);
    assert_eq!(waiters.len(), 30);
    assert!(waiters.iter().all(|waiter| waiter["name"].as_str().unwrap().starts_with("aot-")), "{lock}");
    // Each of these threads says the same of itself.
    let threads = ask(FULL, &["threads"]);
    let waits = |row: &&Value| row["waits_for"]["object"] == lock["object"] && row["waits_for"]["kind"] == "pulse";
    let mut tids: Vec<u64> = list(&threads["threads"]).iter().filter(waits).map(|row| number(&row["tid"])).collect();
    let mut wanted: Vec<u64> = waiters.iter().map(|waiter| number(&waiter["tid"])).collect();
    tids.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(tids, wanted);
    let main = list(&threads["threads"]).iter().find(|row| row["tid"] == threads["core"]["pid"]).unwrap();
    assert_eq!(main["managed_id"], 1);
    let exceptions = ask(FULL, &["exceptions"]);
    assert_eq!(exceptions["unread"], serde_json::json!([]));
    let types: Vec<&str> = list(&exceptions["exceptions"]).iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["System.OutOfMemoryException"], "the one that the runtime makes in advance");
    assert_eq!(ask_list(FULL, "async")["unread"], serde_json::json!([]));
}

#[test]
fn without_names_nothing_is_called_absent() {
    for command in ["syncblocks", "exceptions", "async"] {
        let answer = ask_list(PLAIN, command);
        assert_eq!(list(&answer["unread"]).len(), 1, "{command}: {}", answer["unread"]);
    }
}
