//! `why` against the truth of the programs, and against the commands whose answers it joins.

use serde_json::Value;

use crate::support::real::{argument, beside};
use crate::support::run::run;

fn why(core: &str, address: &str) -> Value {
    run(["why", "--json", address, core]).json()
}

#[test]
fn blocks_are_lost_or_reached_as_the_program_says() {
    let core = argument("native-leaks");
    let truth: Value = serde_json::from_str(&beside("native-leaks", "truth.json")).unwrap();
    let blocks = truth["blocks"].as_array().unwrap();
    for what in ["kept", "lost", "lost, held by a lost one"] {
        let some: Vec<&Value> = blocks.iter().filter(|block| block["what"] == what).take(3).collect();
        assert!(!some.is_empty(), "{what}");
        for block in some {
            let v = why(&core, block["address"].as_str().unwrap());
            let expected = if what == "kept" { "reached" } else { "unreached" };
            assert_eq!(v["kept"], expected, "{what}: {v}");
            assert!(v["text"].as_str().unwrap().contains("malloc block"), "{v}");
        }
    }
}

#[test]
fn it_joins_what_the_single_commands_answer() {
    let core = argument("dotnet8-objects");
    let cache = "0x7f4e2a0c72b8";
    let v = why(&core, cache);
    let single = |args: &[&str]| run([args, &["--json", &core]].concat()).json();
    let (roots, retained) = (single(&["gcroot", cache]), single(&["retained", "--object", cache]));
    let whatis = single(&["whatis", cache]);
    assert_eq!((&v["paths"], &v["more_paths"]), (&roots["paths"], &roots["more"]));
    assert_eq!((&v["retained"], &v["dominators"]), (&retained["object"], &retained["dominators"]));
    assert_eq!(v["whatis"]["object"], whatis["object"]);
    assert_eq!(v["kept"], "reached");
    let text = v["text"].as_str().unwrap();
    assert!(text.contains("Kept by static Lab.LeakyCache.Instance → Lab.LeakyCache"), "{text}");
    assert!(text.contains("It retains 15.75 MiB"), "{text}");
    // Within an object, it is about the object.
    let inside = why(&core, "0x7f4e2a0c72bc");
    assert_eq!((&inside["object"], &inside["kept"]), (&Value::from(cache), &Value::from("reached")));
}

/// A search that did not see everything must not say that nothing is there.
#[test]
fn unknown_is_not_none() {
    // Some stacks of this core could not be unwound, and parts of its heap are missing.
    let core = argument("dotnet8-objects");
    let types = run(["why", "--type", "^No.Such.Type$", "--json", &core]).json();
    assert_eq!((&types["kept"], &types["confidence"]), (&Value::from("unknown"), &Value::Null), "{types}");
    assert!(types["text"].as_str().unwrap().contains("not all of the heap could be read"), "{types}");
    let objects = run(["objects", "--type", r"^System.Char\[\]$", "--json", &core]).json();
    let mut unreached = 0;
    for object in objects["objects"].as_array().unwrap().iter().step_by(16) {
        let v = why(&core, object["address"].as_str().unwrap());
        assert_ne!(v["kept"], "unreached", "{v}");
        unreached += usize::from(v["kept"] == "unknown");
    }
    assert!(unreached > 0, "no object without a path, so nothing was checked");
    // All of this one's roots and references could be read.
    let core = argument("dotnet31-createdump");
    let objects = run(["objects", "--type", r"0x020000b[14]\[\]$", "--json", &core]).json();
    let all = objects["objects"].as_array().unwrap().iter();
    let kept: Vec<Value> = all.map(|object| why(&core, object["address"].as_str().unwrap())["kept"].clone()).collect();
    assert!(kept.contains(&Value::from("unreached")) && kept.contains(&Value::from("reached")), "{kept:?}");
    assert!(!kept.contains(&Value::from("unknown")), "{kept:?}");
}

#[test]
fn memory_that_no_reference_keeps_is_named() {
    let core = argument("native-glibc-kernel");
    let stack = why(&core, "0x7fe744a0fdd0");
    assert_eq!(stack["kept"], "mapped");
    assert!(stack["text"].as_str().unwrap().contains("Stack"), "{stack}");
    let nothing = run(["why", "--json", "0x7fe720000000", &core]);
    assert_eq!(nothing.exits(1).json()["kept"], "absent");
    let native = run(["why", "--type", ".", "--json", &core]);
    assert!(native.exits(1).json()["text"].as_str().unwrap().contains("coremap retained --type"));
}

#[test]
fn memory_that_nothing_claims_may_be_a_heap_that_was_not_read() {
    let core = argument("dotnet8-objects");
    let regions = run(["regions", "--kind", "AnonRW", "--json", &core]).json();
    let first = regions["regions"][0]["start"].as_str().unwrap().to_owned();
    assert_eq!(why(&core, &first)["kept"], "unknown", "{first}");
}
