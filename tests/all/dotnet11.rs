//! .NET 11: threads, locks and suspended methods of a program that wrote down what it knows of itself
//! (testdata/sources/garage.cs), in a heap-only core of createdump and in one of the kernel without any file's pages.

use std::collections::BTreeMap;

use crate::support::real;
use crate::support::run::run;
use serde_json::Value;

const CORES: [&str; 2] = ["dotnet11-heap", "dotnet11-kernel"];

fn answer(command: &[&str], core: &str) -> Value {
    let path = real::plain(core);
    let out = run(command.iter().copied().chain(["--json", path.to_str().unwrap()]));
    out.is_sound();
    out.json()
}

/// Thread ids by the names that the program gave to its threads.
fn tids(truth: &Value) -> BTreeMap<String, u64> {
    let all = truth["tids"].as_object().unwrap();
    all.iter().map(|(name, tid)| (name.clone(), tid.as_u64().unwrap())).collect()
}

fn truth() -> Value {
    real::own_report("dotnet11-heap")
}

/// The rows of an answer's list.
fn list<'v>(answer: &'v Value, name: &str) -> &'v Vec<Value> {
    answer[name].as_array().unwrap()
}

#[test]
fn the_runtime_has_a_layout_of_its_own() {
    for core in CORES {
        let info = answer(&["summary"], core);
        let runtime = &info["core"]["runtimes"][0];
        assert_eq!(runtime["version"], "11.0.0", "{core}: {runtime}");
        assert!(runtime["layout_source"].as_str().unwrap().contains("dotnet-11-x64"), "{core}: {runtime}");
        assert!(!info["warnings"].to_string().contains("no layout of its own"), "{core}: {}", info["warnings"]);
    }
}

#[test]
fn managed_threads_have_their_names() {
    let (truth, answer) = (truth(), answer(&["threads", "--managed"], CORES[0]));
    let names: BTreeMap<String, u64> = list(&answer, "threads")
        .iter()
        .filter_map(|t| Some((t["managed_name"].as_str()?.to_owned(), t["tid"].as_u64()?)))
        .filter(|(name, _)| !name.starts_with(".NET"))
        .collect();
    assert_eq!(names, tids(&truth));
}

#[test]
fn locks_have_their_owners_and_waiters() {
    let (truth, answer) = (truth(), answer(&["locks"], CORES[0]));
    let tids = tids(&truth);
    for want in list(&truth, "locks") {
        let owner = want["owner"].as_str();
        let same = |got: &&Value| {
            got["kind"] == want["kind"] && got["type"] == want["type"] && {
                // The thread "gone" has ended, so that it has no system id.
                let ended = owner == Some("gone");
                let tid = owner.and_then(|name| tids.get(name));
                got["owner_ended"] == ended
                    && got["times"] == want["times"]
                    && got["owner"]["tid"].as_u64() == tid.copied()
            }
        };
        let found: Vec<&Value> = list(&answer, "locks").iter().filter(same).collect();
        let [got] = found.as_slice() else { panic!("{want}: {found:#?} in {answer:#}") };
        let waiting: Vec<u64> = list(got, "waiters").iter().map(|t| t["tid"].as_u64().unwrap()).collect();
        let wanted: Vec<u64> = list(want, "waiters").iter().map(|name| tids[name.as_str().unwrap()]).collect();
        assert_eq!(waiting, wanted, "{want}");
        assert_eq!(got["confidence"], "exact");
    }
    let gate = list(&answer, "locks").iter().find(|l| l["kind"] == "rwlock").unwrap();
    assert_eq!(gate["readers"][0]["tid"], tids["reader"]);
}

/// What each thread waits for, by the program's own list of its locks.
#[test]
fn threads_wait_for_what_the_program_made_them_wait_for() {
    let (truth, answer) = (truth(), answer(&["threads"], CORES[0]));
    let tids = tids(&truth);
    let wait_of = |name: &Value| {
        let of = |t: &&Value| t["tid"] == tids[name.as_str().unwrap()];
        list(&answer, "threads").iter().find(of).unwrap()["waits_for"].clone()
    };
    let mut seen = 0;
    for want in list(&truth, "locks") {
        let kind = match want["kind"].as_str().unwrap() {
            "monitor" | "lock" | "mutex" | "rwlock" => "lock",
            "monitor.wait" => "pulse",
            "semaphoreslim" => "semaphore",
            other => other,
        };
        for name in list(want, "waiters") {
            let wait = wait_of(name);
            assert_eq!((&wait["kind"], &wait["type"]), (&kind.into(), &want["type"]), "{name}: {wait}");
            assert_eq!(wait["confidence"], "exact", "{name}");
            let owner = want["owner"].as_str();
            assert_eq!(wait["owner_ended"], owner == Some("gone"), "{name}: {wait}");
            if let Some(tid) = owner.and_then(|owner| tids.get(owner)) {
                assert_eq!(wait["owner_tid"], *tid, "{name}: {wait}");
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 13);
    // The only holder of the lock that the writer waits for reads it.
    assert_eq!(wait_of(&"writer".into())["reader_tids"][0], tids["reader"]);
    assert_eq!(wait_of(&"bay".into())["kind"], "sleep");
}

#[test]
fn a_ring_of_different_locks_is_a_deadlock() {
    let (truth, answer) = (truth(), answer(&["threads"], CORES[0]));
    let tids = tids(&truth);
    let found: Vec<&Value> = list(&answer, "findings").iter().filter(|f| f["id"] == "deadlock").collect();
    let [ring] = found.as_slice() else { panic!("{found:#?}") };
    for name in ["ring 1", "ring 2", "ring 3"] {
        assert!(ring["text"].as_str().unwrap().contains(&tids[name].to_string()), "{ring}");
    }
}

#[test]
fn suspended_methods_are_objects_of_made_types() {
    let answer = answer(&["heapstat"], CORES[0]);
    let count = |name: &str| {
        let of = list(&answer, "types").iter().filter(|t| t["type"] == name || t["name"] == name);
        of.map(|t| t["count"].as_u64().unwrap()).sum::<u64>()
    };
    // Each of the three calls has two suspended methods, and a task for the outer one.
    let made: u64 = list(&answer, "types")
        .iter()
        .filter(|t| t["type"].as_str().or(t["name"].as_str()).is_some_and(|name| name.starts_with("Continuation_")))
        .map(|t| t["count"].as_u64().unwrap())
        .sum();
    assert!(made >= 6, "{made} of 6 continuations");
    assert_eq!(count("Garage.Bay"), 1);
}

/// The heap-only core with other bytes of the same length in place of some that occur once.
fn changed(parts: &[(&str, &str)]) -> tempfile::NamedTempFile {
    let mut bytes = real::bytes(CORES[0]);
    for (from, to) in parts {
        assert_eq!(from.len(), to.len());
        let places: Vec<usize> = memchr::memmem::find_iter(&bytes, from.as_bytes()).collect();
        let [at] = *places.as_slice() else { panic!("{from}: {places:?}") };
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    crate::support::builder::file_with(&bytes)
}

fn of_file(command: &[&str], file: &tempfile::NamedTempFile) -> Value {
    run(command.iter().copied().chain(["--json", file.path().to_str().unwrap()])).json()
}

/// What makes a 12 of the core.
const TWELVE: (&str, &str) =
    (r#""RuntimeProductVersionString":["11.0.0""#, r#""RuntimeProductVersionString":["12.0.0""#);

#[test]
fn a_newer_version_is_read_under_its_own_descriptor() {
    let (own, newer) = (answer(&["locks"], CORES[0]), of_file(&["locks"], &changed(&[TWELVE])));
    assert!(newer["warnings"].to_string().contains(".NET 12.0.0 has no layout of its own"), "{}", newer["warnings"]);
    let facts = |answer: &Value| -> Vec<Value> {
        let facts = |l: &Value| serde_json::json!([l["kind"], l["object"], l["owner"], l["waiters"]]);
        list(answer, "locks").iter().map(facts).collect()
    };
    assert_eq!(facts(&newer), facts(&own));
    assert!(list(&newer, "locks").iter().all(|l| l["confidence"] == "derived"));
}

#[test]
fn a_part_of_a_newer_version_that_does_not_fit_is_left_out_alone() {
    // The first word of the list of threads is elsewhere, as if its meaning had changed.
    let odd = changed(&[TWELVE, (r#""FirstThreadLink":88"#, r#""FirstThreadLink":48"#)]);
    let threads = of_file(&["threads", "--managed"], &odd);
    assert!(list(&threads, "threads").iter().all(|t| t["managed_name"].is_null()));
    let heap = of_file(&["heapstat"], &odd);
    assert!(heap.to_string().contains("Garage.Bay"), "the heap is read all the same");
}
