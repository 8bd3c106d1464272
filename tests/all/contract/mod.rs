//! The JSON contract, restated: programs rely on these names and meanings.
//! Fields may be added; none here may go or change its form. And the CSV.

mod forms;
mod memory;
mod runtime;

use self::forms::answer;
use crate::support::real;
use crate::support::run::run;
use serde_json::Value;

#[test]
fn csv_has_the_rows_and_names_of_the_json() {
    let core = real::plain("dotnet31-kernel");
    let core = core.to_str().unwrap();
    for (args, rows) in [
        (&["summary", "--zero-fill"][..], "kinds"),
        (&["regions"], "regions"),
        (&["maddress"], "regions"),
        (&["stacks"], "stacks"),
        (&["info"], "modules"),
        (&["check"], "invariants"),
        (&["search", "coremap-marker-managed"], "hits"),
        (&["diff", core], "kinds"),
    ] {
        let out = run(args.iter().copied().chain(["--format", "csv", core]));
        out.exits(0);
        let want = answer(args, core);
        let want = want[rows].as_array().unwrap();
        let mut reader = csv::Reader::from_reader(out.stdout.as_bytes());
        let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert_eq!(names, want[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>(), "{args:?}");
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), want.len(), "{args:?}");
        for (line, row) in lines.iter().zip(want) {
            for (cell, value) in line.iter().zip(row.as_object().unwrap().values()) {
                let text = match value {
                    Value::Null => String::new(),
                    Value::String(s) => s.clone(),
                    other => other.to_string(),
                };
                assert_eq!(cell, text, "{args:?}");
            }
        }
    }
}

#[test]
fn csv_without_rows_still_has_its_header() {
    // A reader by column names must not fail where there is nothing to read.
    let core = real::plain("native-aarch64-qemu");
    for args in [&["regions", "--kind", "GCHeap"][..], &["search", "no such text anywhere in it"]] {
        let out = run(args.iter().copied().chain(["--format", "csv", core.to_str().unwrap()]));
        out.is_sound();
        assert_eq!(out.stdout.lines().count(), 1, "{args:?}: {:?}", out.stdout);
    }
}
