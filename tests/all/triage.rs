//! `triage`: what has the memory comes first, and every written byte belongs to some sentence.

use serde_json::Value;

use crate::support::run::run;
use crate::support::{cases, real};

fn triage(name: &str) -> Value {
    let out = run(["triage", "--json", real::plain(name).to_str().unwrap()]);
    out.is_sound();
    out.json()
}

fn findings(answer: &Value) -> &Vec<Value> {
    answer["findings"].as_array().unwrap()
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// What each program of `shapes.c` keeps is the first finding, of that many bytes, with the way on.
#[test]
fn what_a_program_leaks_comes_first() {
    for (shape, id, words) in [
        // Size alone is no fault. Threads that nobody joined are one.
        ("mmap", ("anonymous", "info"), "text"),
        ("nodes", ("native-holder", "info"), "holds 28.8 MiB in 629,145 malloc blocks"),
        (
            "vector",
            ("malloc-large-block", "info"),
            "1 malloc block of 33,558,528 bytes (32 MiB in all, 24 MiB of it written)",
        ),
        ("ended", ("cached-stacks", "warning"), "neither joined"),
        ("memfd", ("shared-memory", "info"), "memfd:frames"),
    ] {
        let name = format!("shape-{shape}");
        let answer = triage(&name);
        // The programs abort to be dumped, which comes first.
        let first = findings(&answer).iter().find(|finding| finding["id"] != "crash").unwrap();
        let text = first["text"].as_str().unwrap();
        assert_eq!((first["id"].as_str().unwrap(), first["severity"].as_str().unwrap()), id, "{name}: {text}");
        assert!(text.contains(words), "{name}: {text}");
        // What malloc and the kernel add to it is less than half of it again.
        let (kept, found) = (real::own_report(&name)["bytes"].as_u64().unwrap(), number(&first["bytes"]));
        let least = kept - kept / 16;
        assert!((least..=kept + kept / 2).contains(&found), "{name}: {found} of {kept}");
        let command = first["command"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(words[0], "coremap", "{command}");
        assert!(!run(words[1..].iter().copied()).exits(0).stdout.is_empty(), "{command}");
    }
}

#[test]
fn a_cache_that_grew_is_among_the_first() {
    let answer = triage("dotnet8-objects");
    let cache = findings(&answer).iter().position(|f| f["text"].as_str().unwrap().contains("Lab.LeakyCache"));
    assert!(cache.is_some_and(|at| at < 5), "{cache:?}");
    let first = &findings(&answer)[0];
    assert_eq!((&first["id"], &first["severity"]), (&"deadlock".into(), &"critical".into()));
}

/// Every core: what is named and what is not are all that was written; nine tenths have a name; what only counts
/// adds up to all that was written.
#[test]
fn every_written_byte_belongs_to_a_sentence() {
    for case in cases::all().iter().filter(|c| c.producer != "unknown") {
        let name = &case.name;
        let answer = triage(name);
        let written = number(&answer["written"]);
        let unnamed: u64 = answer["unnamed"].as_array().unwrap().iter().map(|u| number(&u["bytes"])).sum();
        let part = |name: &str| number(&answer[name]["bytes"]);
        assert_eq!(part("named") + part("described") + part("unknown"), written, "{name}");
        if answer["more_unnamed"] == 0 {
            assert_eq!(part("unknown"), unnamed, "{name}");
        }
        let kinds = answer["memory"].as_array().unwrap();
        assert_eq!(kinds.iter().map(|kind| number(&kind["bytes"])).sum::<u64>(), written, "{name}");
        // Cores that were made smaller lack what names things.
        if case.shrunk_for.is_none() {
            assert!(part("unknown") * 10 <= written, "{name}: {}", answer["unknown"]);
        }
        let ids: Vec<&str> = findings(&answer).iter().map(|f| f["id"].as_str().unwrap()).collect();
        for id in &ids {
            assert!(coremap::report::finding_id(id).is_some(), "{name}: {id} has no row in FINDING_IDS");
        }
        // One is about more than was written: blocks of which samples were looked at.
        let more = |f: &Value| f["id"] == "anonymous-blocks";
        if !findings(&answer).iter().any(more) {
            let whole = findings(&answer).iter().filter(|f| f["within"].is_null());
            let sum: u64 = whole.filter_map(|f| f["bytes"].as_u64()).sum();
            assert_eq!(sum, written, "{name}");
        }
        for finding in findings(&answer) {
            let within = finding["within"].as_str();
            assert!(within.is_none_or(|id| ids.contains(&id)), "{name}: {} is within none", finding["id"]);
            // What is within no other is of written bytes, and its share is that of the bytes beside it.
            if let (Some(bytes), Some(share), None) = (finding["bytes"].as_u64(), finding["share"].as_f64(), within) {
                let expected = (bytes as f64 / written as f64).min(1.0);
                assert!((expected - share).abs() < 0.0002, "{name}: {finding}");
            }
        }
    }
}

#[test]
fn without_time_the_rest_is_left_out_and_told() {
    let core = real::plain("dotnet8-objects");
    let core = core.to_str().unwrap();
    let answer = run(["triage", "--budget", "0s", "--json", core]).json();
    let left: Vec<&str> = answer["left_out"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    assert!(left.iter().any(|l| l.starts_with("objects by type")), "{left:?}");
    assert!(!findings(&answer).is_empty());
    let out = run(["triage", "--fail-if", "finding=deadlock", core]);
    assert!(out.exits(1).stderr.contains("eadlock: 2 threads wait for each other"), "{}", out.stderr);
    assert_ne!(run(["triage", "--fail-if", "finding=timers", core]).is_sound().code, Some(1));
}

/// What keeps much says by which static variable; assemblies that could go, pinned and large objects are told.
#[test]
fn what_only_dotnet_has_is_told() {
    let answer = triage("dotnet8-objects");
    let of = |id: &str| -> &Value {
        findings(&answer).iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("no {id}: {answer:#}"))
    };
    let cache = findings(&answer)
        .iter()
        .find(|f| f["id"] == "retained" && f["text"].as_str().unwrap().contains("Lab.LeakyCache"));
    let evidence = cache.unwrap()["evidence"].as_str().unwrap();
    assert!(evidence.contains("static Lab.LeakyCache.Instance"), "{evidence}");
    let collectible = of("collectible-assemblies");
    let text = collectible["text"].as_str().unwrap();
    // A plug-in, the same from bytes, and a dynamic assembly; their names are not in this core.
    assert!(text.starts_with("3 collectible assemblies in 3 loader allocators"), "{text}");
    assert_eq!((&collectible["within"], &collectible["severity"]), (&"runtime".into(), &"info".into()));
    assert!(collectible["command"].as_str().unwrap().starts_with("coremap gcroot 0x"), "{collectible}");
    for id in ["large-objects", "pinned"] {
        let finding = of(id);
        assert_eq!(finding["within"], "managed-heap");
        let command: Vec<&str> = finding["command"].as_str().unwrap().split(' ').collect();
        assert!(!run(command[1..].iter().copied()).exits(0).stdout.is_empty(), "{command:?}");
    }
}
