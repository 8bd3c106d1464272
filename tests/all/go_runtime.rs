//! Go beside what the program wrote of itself: `runtime.MemStats`, and the goroutine profile (truth.json of kinds.go).

use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

fn answer(command: &[&str], name: &str) -> Value {
    let core = real::plain(name);
    let mut all = command.to_vec();
    all.extend(["--json", core.to_str().unwrap()]);
    run(all).json()
}

#[test]
fn figures_of_the_heap_are_those_of_mem_stats() {
    for name in names("go") {
        let (own, stats) = (real::own_report(name), &answer(&["heap"], name)["stats"]);
        // The program allocated after it read the figures, without a collection.
        let later = ["HeapInuse", "HeapAlloc", "HeapObjects"];
        for (key, value) in own["memstats"].as_object().unwrap() {
            let (want, got) = (value.as_u64().unwrap(), stats[key].as_u64().unwrap());
            let near = later.contains(&key.as_str()) && got >= want && got <= want + want / 10;
            assert!(got == want || near, "{name}: {key} is {got}, and was {want}");
        }
    }
}

#[test]
fn goroutines_have_the_states_and_frames_of_the_profile() {
    for name in names("go") {
        let groups = answer(&["threads", "--virtual"], name);
        let groups = groups["virtual_threads"]["groups"].as_array().unwrap().clone();
        for want in real::own_report(name)["goroutines"].as_array().unwrap() {
            let is = |group: &&Value| {
                let mut frames = group["frames"].as_array().unwrap().iter();
                // gcore lacks the tree of inlined calls: then a line is unknown, and never another one.
                let at =
                    frames.any(|f| f["method"] == want["method"] && (f["line"] == want["line"] || f["line"].is_null()));
                at && group["state"].as_str().is_some_and(|state| state.starts_with(want["state"].as_str().unwrap()))
            };
            let count: u64 = groups.iter().filter(is).map(|group| group["count"].as_u64().unwrap()).sum();
            assert_eq!(count, want["count"].as_u64().unwrap(), "{name}: {want}");
        }
    }
}

#[test]
fn planted_objects_are_counted_by_type() {
    for name in names("go") {
        let types = answer(&["heapstat"], name);
        let count = |of: &str| {
            let row = types["types"].as_array().unwrap().iter().find(|row| row["type"] == of);
            row.map_or(0, |row| row["count"].as_u64().unwrap())
        };
        // 500 sessions in a map, and 20 records (kinds.go). Ten sessions that were only in a channel may be without a type.
        assert!((500..=510).contains(&count("main.Session")), "{name}: {}", count("main.Session"));
        assert_eq!(count("main.Record"), 20, "{name}");
    }
}
