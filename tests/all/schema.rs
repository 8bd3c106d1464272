//! What every command answers in JSON, held against the schema that the program
//! itself prints. Here the schema is made strict: a field that it does not
//! name fails too.

use std::collections::BTreeSet;

use crate::support::commands::{self, COMMANDS, EXAMPLES, GLIBC, RUNS, of_cores};
use crate::support::run::run;
use coremap::commands::Subject;
use serde_json::{Value, json};

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

#[test]
fn every_answer_is_as_the_schema_says() {
    for (args, there) in RUNS.iter().filter_map(|r| Some((r.args, r.there?))) {
        let what = args.join(" ");
        let answer = commands::json(args);
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
    let summary = commands::json(&["summary", GLIBC]);
    assert!(validator.is_valid(&summary));
    let mut other = summary.clone();
    other["command"] = json!("check");
    assert!(!validator.is_valid(&other), "a summary passed for a check");
}

#[test]
fn what_breaks_the_contract_fails() {
    let validator = jsonschema::draft202012::new(&schema(Some("summary"))).unwrap();
    let good = commands::json(&["summary", GLIBC]);
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
    let good = commands::json(&["regions", GLIBC]);
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
    let lines = help.lines().skip_while(|l| *l != "Memory:").take_while(|l| !l.starts_with('`'));
    // Headings of groups are not indented, and deeper lines go on with the text of the one before.
    let names = lines.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let names = names.filter_map(|l| l.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_tests_know_every_command() {
    let known: BTreeSet<&str> = COMMANDS.iter().map(|c| c.name).collect();
    assert_eq!(known, commands().iter().map(String::as_str).collect());
    assert_eq!(EXAMPLES.len(), COMMANDS.len(), "an example of a command that is gone, or two of one");
}

#[test]
fn every_command_that_answers_has_a_schema_and_a_run_here() {
    let live = COMMANDS.iter().filter(|c| c.subject == Subject::Live);
    let answer: BTreeSet<&str> = of_cores().chain(live).map(|c| c.name).collect();
    let expected: BTreeSet<&str> = of_cores().map(|c| c.name).collect();
    let all = schema(None);
    let told = all["oneOf"].as_array().unwrap().iter();
    let told: BTreeSet<&str> = told.map(|s| s["properties"]["command"]["const"].as_str().unwrap()).collect();
    assert_eq!(told, answer);
    let tried: BTreeSet<&str> = RUNS.iter().filter(|r| r.there.is_some()).map(|r| r.args[0]).collect();
    assert_eq!(tried, expected);
    for command in COMMANDS.iter().filter(|c| matches!(c.subject, Subject::Program | Subject::Screen)) {
        run(["schema", command.name]).exits(2);
    }
}
