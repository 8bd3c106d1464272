//! Node.js beside what the program wrote of itself: its objects, and V8's own stack (truth.json of kinds.js).

use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

const SCRIPT: &str = "kinds.js";

fn answer(command: &[&str], name: &str) -> Value {
    let core = real::plain(name);
    let mut all = command.to_vec();
    all.extend(["--json", core.to_str().unwrap()]);
    run(all).json()
}

fn is_of_script(row: &Value) -> bool {
    row["script"].as_str().is_some_and(|script| script.ends_with(SCRIPT))
}

#[test]
fn planted_objects_are_counted_by_constructor_and_script() {
    for name in names("node") {
        let (truth, heap) = (real::own_report(name), answer(&["heapstat", "--top", "0"], name));
        let count = |of: &str| {
            let rows = heap["types"].as_array().unwrap().iter();
            // The constructor itself is one object of its own name.
            rows.filter(|row| row["type"] == of && is_of_script(row)).filter_map(|row| row["count"].as_u64()).max()
        };
        for (of, want) in truth["types"].as_object().unwrap() {
            assert_eq!(count(of), want.as_u64(), "{name}: {of}");
        }
        // Closures by their function.
        assert_eq!(count("ready"), truth["closures"].as_u64(), "{name}");
    }
}

#[test]
fn memory_outside_of_the_heap_is_that_of_buffers() {
    for name in names("node") {
        let truth = real::own_report(name);
        let holders = answer(&["holders"], name);
        let rows = holders["buffers"].as_array().unwrap().iter();
        let row = rows.filter(|row| row["type"] == "ArrayBuffer").max_by_key(|row| row["bytes"].as_u64()).unwrap();
        let (bytes, planted) = (row["bytes"].as_u64().unwrap(), truth["buffers"]["bytes"].as_u64().unwrap());
        // Node.js has small ones of its own: a pool of 8 KiB and tables of a few words.
        assert!((planted..planted + planted / 10).contains(&bytes), "{name}: {bytes}");
        assert!(row["objects"].as_u64() >= truth["buffers"]["count"].as_u64(), "{name}");
    }
}

#[test]
fn frames_are_those_that_v8_gave() {
    for name in names("node") {
        let threads = answer(&["threads"], name);
        let frames =
            threads["threads"].as_array().unwrap().iter().flat_map(|thread| thread["frames"].as_array().unwrap());
        let ours: Vec<(Value, Value)> = frames
            .filter(|frame| frame["file"].as_str().is_some_and(|file| file.ends_with(SCRIPT)))
            .map(|frame| (frame["method"].clone(), frame["line"].clone()))
            .collect();
        let wanted = real::own_report(name);
        let wanted: Vec<(Value, Value)> = wanted["frames"]
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| (frame["method"].clone(), frame["line"].clone()))
            .collect();
        assert!(wanted.len() >= 3 && ours.starts_with(&wanted), "{name}: {ours:?}");
    }
}

#[test]
fn a_type_is_held_by_the_variable_of_its_module() {
    for name in names("node") {
        let roots = answer(&["gcroot", "--type", "^Invoice$"], name);
        let groups = roots["groups"].as_array().unwrap();
        let most = groups.iter().map(|group| group["count"].as_u64().unwrap()).max();
        assert_eq!(most, real::own_report(name)["types"]["Invoice"].as_u64(), "{name}");
    }
}
