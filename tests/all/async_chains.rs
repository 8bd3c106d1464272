//! Async methods that wait, in a core of a program that made each of them wait for
//! something else (testdata/sources/pending.cs).

use crate::support::builder::file_with;
use crate::support::real;
use crate::support::run::run;
use serde_json::Value;

fn chains(more: &[&str]) -> Value {
    let path = real::plain("dotnet31-pending");
    let out = run(["async", "--json"].iter().chain(more).copied().chain([path.to_str().unwrap()]));
    out.is_sound();
    out.json()
}

/// Other compilers call the state of an async method otherwise. Methods of a compiler that nobody knows are found too,
/// without the number of the await.
#[test]
fn state_machines_of_other_compilers_are_found() {
    for (name, known) in [("$PC\0_state", true), ("<>1__other", false)] {
        let mut bytes = real::bytes("dotnet31-pending");
        let finder = memchr::memmem::Finder::new("<>1__state\0");
        let places: Vec<usize> = finder.find_iter(&bytes).collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
        let file = file_with(&bytes);
        let answer = run(["async", "--json", file.path().to_str().unwrap()]);
        let v = answer.is_sound().json();
        // As Main of the program makes them: see below.
        assert_eq!((&v["total"], &v["methods"]), (&15.into(), &19.into()), "{name}");
        let frames = v["chains"].as_array().unwrap().iter().flat_map(|c| c["frames"].as_array().unwrap());
        let inner = frames.into_iter().find(|f| f["method"] == "Work.Inner(Int32)").unwrap();
        assert_eq!(inner["state"], if known { 0.into() } else { Value::Null }, "{name}");
    }
}

/// What is waited for, the chain's parts, what stands at its end.
fn told(chain: &Value) -> (String, Vec<String>, String) {
    let part = |f: &Value| {
        let name = f["method"].as_str().filter(|_| f["kind"] == "method").or(f["type"].as_str()).unwrap();
        f["state"].as_i64().map_or_else(|| name.to_owned(), |state| format!("{name} {state}"))
    };
    let parts = chain["frames"].as_array().unwrap().iter().map(part).collect();
    (chain["awaiting"].as_str().unwrap().to_owned(), parts, chain["end"].as_str().unwrap().to_owned())
}

#[test]
fn each_chain_is_told_with_its_count() {
    let v = chains(&[]);
    const NEVER: &str = "TaskCompletionSource<System.Int32>";
    const INT: &str = "System.Threading.Tasks.Task<System.Int32>";
    const FOR: &str = "Work.For(System.Threading.Tasks.Task) 0";
    // As Main of the program makes them.
    let want: [(u64, u64, &str, &[&str], &str); 9] = [
        (5, 1, NEVER, &[INT, "Work.Inner(Int32) 0", "Work.Outer(System.String) 1"], "nobody"),
        (2, 2, NEVER, &[INT, "System.Threading.Tasks.Task+WhenAllPromise<System.Int32>", FOR], "nobody"),
        (2, 1, "SemaphoreSlim.WaitAsync", &["System.Threading.SemaphoreSlim+TaskNode", FOR], "nobody"),
        (1, 1, "Task.Delay of 3,600,000 ms", &["System.Threading.Tasks.Task+DelayPromise", FOR], "nobody"),
        (1, 1, "a NeverSource", &["NeverSource", "Work.For(System.Threading.Tasks.ValueTask`1<Int32>) 0"], "nobody"),
        (1, 1, NEVER, &[INT, FOR, "System.Threading.Tasks.ContinuationTaskFromTask"], "nobody"),
        (1, 1, NEVER, &[INT, FOR], "callback"),
        (1, 1, NEVER, &[INT, FOR], "thread"),
        (1, 1, "a running or queued task: ", &["System.Threading.Tasks.Task", FOR], "nobody"),
    ];
    let got: Vec<_> = v["chains"].as_array().unwrap().iter().map(|c| (&c["count"], &c["roots"], told(c))).collect();
    for (count, roots, awaiting, parts, end) in want {
        let same = |(n, r, told): &&(&Value, &Value, (String, Vec<String>, String))| {
            **n == count && **r == roots && told.0.starts_with(awaiting) && told.1 == parts && told.2 == end
        };
        assert_eq!(got.iter().filter(same).count(), 1, "{count} × {awaiting} {parts:?} {end} in {got:#?}");
    }
    assert_eq!(got.len(), want.len(), "{got:#?}");
    assert_eq!(v["total"], 15);
    // Five of Inner and Outer, nine of For: of these one waits by two chains.
    assert_eq!(v["methods"], 19);
    assert_eq!(v["ready"], 0);
    // What the program's delegates call.
    let end = |kind: &str| v["chains"].as_array().unwrap().iter().find(|c| c["end"] == kind).unwrap().clone();
    assert_eq!(end("callback")["end_name"], "Work.Callback()");
    let continued = v["chains"].as_array().unwrap().iter().flat_map(|c| c["frames"].as_array().unwrap());
    let continued = continued.filter(|f| f["method"] == "Work.Continue(System.Threading.Tasks.Task)").count();
    assert_eq!(continued, 1);
}

#[test]
fn all_shows_each_by_itself() {
    let (merged, all) = (chains(&[]), chains(&["--all"]));
    let all = all["chains"].as_array().unwrap();
    assert_eq!(all.len(), 15);
    assert!(all.iter().all(|c| c["count"] == 1));
    // The merged one has the objects of each.
    let first = &merged["chains"][0];
    let mut last: Vec<_> = all.iter().filter(|c| told(c) == told(first)).map(|c| c["objects"][0].clone()).collect();
    let mut objects = first["objects"].as_array().unwrap().clone();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    last.sort_by_key(text);
    objects.sort_by_key(text);
    assert_eq!(last, objects);
    // A method's token and module are those of its definition.
    let method = &first["frames"][1];
    assert_eq!(method["module"], "pending.dll");
    assert!(method["token"].as_str().unwrap().starts_with("0x06"), "{method}");
}

#[test]
fn without_metadata_it_says_so() {
    // No page of a module but the first is in a kernel's core.
    let path = real::plain("dotnet31-kernel");
    let out = run(["async", path.to_str().unwrap()]);
    assert_eq!(out.code, Some(1), "{out:?}");
    assert!(out.stderr.contains("no metadata for"), "{}", out.stderr);
}
