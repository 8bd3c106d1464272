//! What every command answers in JSON, held against the schema that the program
//! itself prints. Here the schema is made strict: a field that it does not
//! name fails too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::run::run;
use support::runs::{self, AARCH64, CREATEDUMP, FRAMES, GLIBC, LEAKS, MALLOC, METHODS, NEW, OBJECTS, PENDING, THREADS};

/// Arguments, and what the answer must hold so that something was checked.
const RUNS: &[(&[&str], &str)] = &[
    (&["info", GLIBC], "/modules/0"),
    (&["info", "--show-data", CREATEDUMP], "/core/runtimes/0"),
    (&["info", AARCH64], "/process"),
    (&["summary", "--zero-fill", CREATEDUMP], "/kinds/0/zero"),
    (&["summary", GLIBC], "/malloc/used"),
    (&["regions", CREATEDUMP], "/regions/0"),
    (&["maddress", GLIBC], "/regions/0"),
    (&["stacks", "--zero-fill", GLIBC], "/stacks/0/touched"),
    (&["stacks", THREADS], "/groups/0"),
    (&["threads", CREATEDUMP], "/threads/0/frames/0"),
    (&["threads", "--group", THREADS], "/groups/0/frames/0"),
    (&["threads", GLIBC], "/threads/0/frames/0"),
    (&["async", "--all", PENDING], "/chains/0/frames/0"),
    (&["heap", "--loader", CREATEDUMP], "/core/runtimes/0"),
    (&["heapstat", "--strings", CREATEDUMP], "/types/0"),
    (&["objects", "--type", "^app", CREATEDUMP], "/objects/0"),
    (&["object", "0x7f4e2cc08dd0", OBJECTS], "/fields/0"),
    (&["object", "0x7f4e31500f20", OBJECTS], "/exception"),
    (&["object", "0x7f4e2cc08bc8", OBJECTS], "/collection"),
    (&["object", "0x7f4e314ea4c0", OBJECTS], "/delegate"),
    (&["gcroot", "0x7f61f606c590", CREATEDUMP], "/paths/0/chain/0"),
    (&["gcroot", "--type", "^app", CREATEDUMP], "/groups/0"),
    (&["retained", CREATEDUMP], "/types/0"),
    (&["retained", "--object", "0x7f61f606c590", CREATEDUMP], "/object"),
    (&["handles", CREATEDUMP], "/handles/0"),
    (&["finalizers", CREATEDUMP], "/types/0"),
    (&["syncblocks", CREATEDUMP], "/core/runtimes/0"),
    (&["exceptions", OBJECTS], "/exceptions/0"),
    (&["malloc", MALLOC], "/clusters/0"),
    (&["malloc", "--chunks", "--limit", "50", MALLOC], "/chunks/0"),
    (&["search", "--context", "coremap-", GLIBC], "/hits/0/context"),
    (&["whatis", "--bytes", "16", "0x557a682b6b10", GLIBC], "/block"),
    (&["whatis", "0x7fe720000000", GLIBC], "/neighbours/0"),
    (&["refs", "--region", "0x7fe744a0fdd0", GLIBC], "/refs/0"),
    (&["leaks", "--blocks", LEAKS], "/clusters/0"),
    (&["holders", CREATEDUMP], "/core/runtimes/0"),
    (&["anon", GLIBC], "/clusters/0"),
    (&["ip2method", "0x7f8e3e84433c", "0x10", METHODS], "/results/0/method"),
    (&["symbolicate", FRAMES, METHODS], "/frames/0/symbol"),
    (&["perfmap", METHODS], "/entries/0"),
    (&["diff", GLIBC, CREATEDUMP], "/kinds/0"),
    (&["diff", CREATEDUMP, "dotnet31-gcore.core.xz"], "/types/0"),
    (&["shrink", "-o", NEW, GLIBC], "/segments"),
    (&["check", GLIBC], "/invariants/0"),
];

fn schema(command: Option<&str>) -> Value {
    run(["schema"].into_iter().chain(command)).exits(0).json()
}

/// Nothing beside the fields that it names. Of the contract that is not true:
/// fields may be added.
fn strict(mut schema: Value) -> Value {
    for definition in schema["$defs"].as_object_mut().unwrap().values_mut() {
        if definition["type"] == "object" && definition.get("properties").is_some() {
            definition["additionalProperties"] = json!(false);
        }
    }
    schema
}

fn answer(args: &[&str]) -> Value {
    runs::answer(args, &["--json"]).json()
}

#[test]
fn every_answer_is_as_the_schema_says() {
    for (args, there) in RUNS {
        let what = args.join(" ");
        let answer = answer(args);
        let at = answer.pointer(there).unwrap_or(&Value::Null);
        assert!(!at.is_null(), "{what}: no {there}, so nothing was checked");
        let validator = jsonschema::draft202012::new(&strict(schema(Some(args[0])))).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&answer).take(3).map(|e| format!("{}: {e:.500}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{what}: {errors:#?}");
    }
}

#[test]
fn the_schema_of_all_tells_commands_apart() {
    let all = schema(None);
    jsonschema::draft202012::meta::validate(&all).unwrap();
    let validator = jsonschema::draft202012::new(&all).unwrap();
    let summary = answer(&["summary", GLIBC]);
    assert!(validator.is_valid(&summary));
    let mut other = summary.clone();
    other["command"] = json!("check");
    assert!(!validator.is_valid(&other), "a summary passed for a check");
}

#[test]
fn what_breaks_the_contract_fails() {
    let validator = jsonschema::draft202012::new(&schema(Some("summary"))).unwrap();
    let good = answer(&["summary", GLIBC]);
    assert!(validator.is_valid(&good));
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut v = good.clone();
        change(&mut v);
        !validator.is_valid(&v)
    };
    assert!(broken(&|v| drop(v["kinds"][0].as_object_mut().unwrap().remove("size"))), "a field is gone");
    assert!(broken(&|v| v["kinds"][0]["size"] = json!("1 MiB")), "a size in words");
    assert!(broken(&|v| v["total"]["size"] = json!(-1)), "a size below 0");
    assert!(broken(&|v| v["schema_version"] = json!(2)), "another version");
    // Unknown is null, and a field more breaks nothing.
    assert!(!broken(&|v| v["total"]["zero"] = Value::Null));
    assert!(!broken(&|v| v["total"]["more"] = json!(1)));

    let validator = jsonschema::draft202012::new(&schema(Some("regions"))).unwrap();
    let good = answer(&["regions", GLIBC]);
    assert!(validator.is_valid(&good));
    for wrong in ["7f42d256e000", "0x07f4", "0X7F", "0x7F42", "0x", "0x12345678901234567"] {
        let mut v = good.clone();
        v["regions"][0]["start"] = json!(wrong);
        assert!(!validator.is_valid(&v), "{wrong} passed for an address");
    }
}

/// Commands of `--help`.
fn commands() -> BTreeSet<String> {
    let help = run(["--help"]).exits(0).stdout.clone();
    let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    // Deeper lines go on with the text of the one before.
    let names = lines.filter(|l| !l.starts_with("   ")).filter_map(|l| l.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_that_answers_has_a_schema_and_a_run_here() {
    // These tell of the program.
    let without = ["schema", "completions", "man", "help"];
    let expected: BTreeSet<String> = commands().into_iter().filter(|c| !without.contains(&c.as_str())).collect();
    assert!(expected.len() >= 30, "{expected:?}");
    let all = schema(None);
    let told = all["oneOf"].as_array().unwrap().iter();
    let told: BTreeSet<String> =
        told.map(|s| s["properties"]["command"]["const"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, expected);
    let tried: BTreeSet<String> = RUNS.iter().map(|(args, _)| args[0].to_owned()).collect();
    assert_eq!(tried, expected);
    run(["schema", "man"]).exits(2);
}
