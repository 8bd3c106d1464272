//! What every command writes with `--format csv`, read by a CSV reader as a
//! spreadsheet would, and held against the same command's JSON.

use std::collections::BTreeSet;

use crate::support::commands::{self, COMMANDS, GLIBC, OBJECTS, RUNS, THREADS, of_cores};
use crate::support::run::Output;
use coremap::commands::Subject;
use serde_json::Value;

/// Columns of numbers: digits alone, and a sign where one can be.
const NUMBERS: &[&str] = &[
    "size",
    "bytes",
    "count",
    "in_core",
    "largest",
    "zero",
    "written",
    "reserved",
    "guard",
    "in_use",
    "touched",
    "allocated",
    "committed",
    "wasted",
    "blocks",
    "objects",
    "malloc_bytes",
    "mmap_bytes",
    "reaches_bytes",
    "retained",
    "code_size",
    "old",
    "new",
    "delta",
    "old_count",
    "new_count",
    "delta_count",
    "old_in_core",
    "new_in_core",
    "delta_in_core",
    "offset",
    "length",
    "free",
    "gen0",
    "gen1",
    "gen2",
    "loh",
    "tid",
    "line",
];

fn answer(args: &[&str], form: &str) -> Output {
    commands::answer(args, &["--format", form])
}

/// Its heading and rows; a row of another length is an error of the reader.
fn rows(what: &str, text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heading = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows = reader.records().map(|r| r.unwrap_or_else(|e| panic!("{what}: {e}")));
    (heading, rows.map(|r| r.iter().map(str::to_owned).collect()).collect())
}

#[test]
fn every_command_writes_rows_that_a_spreadsheet_reads() {
    for (args, list) in RUNS.iter().filter_map(|r| Some((r.args, r.rows?))) {
        let what = args.join(" ");
        let text = answer(args, "csv").stdout;
        let (heading, rows) = rows(&what, &text);
        assert!(!rows.is_empty(), "{what}: no rows, so nothing was checked");
        let names: BTreeSet<&String> = heading.iter().collect();
        assert_eq!(names.len(), heading.len(), "{what}: a heading twice: {heading:?}");
        let form =
            |n: &String| !n.is_empty() && n.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(heading.iter().all(form), "{what}: {heading:?}");
        for (name, i) in heading.iter().zip(0..).filter(|(n, _)| NUMBERS.contains(&n.as_str())) {
            for row in &rows {
                let number = row[i].is_empty() || row[i].parse::<i128>().is_ok();
                assert!(number, "{what}: {name} is {:?}", row[i]);
            }
        }
        let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        assert!(!text.contains(control), "{what}: control characters");
        if list.is_empty() {
            continue;
        }
        let json = commands::json(args);
        let entries = json.pointer(list).and_then(Value::as_array).unwrap_or_else(|| panic!("{what}: no {list}"));
        assert_eq!(rows.len(), entries.len(), "{what}");
        // What has a name of its own in both is the same in both.
        for (row, entry) in rows.iter().zip(entries) {
            for (name, cell) in heading.iter().zip(row) {
                let same = match &entry[name] {
                    Value::String(s) => *cell == escaped(s),
                    Value::Number(n) => *cell == n.to_string(),
                    Value::Bool(b) => *cell == b.to_string(),
                    Value::Null => entry.get(name).is_none() || cell.is_empty(),
                    Value::Array(_) | Value::Object(_) => true,
                };
                assert!(same, "{what}: {name} is {cell:?}, in JSON {}", entry[name]);
            }
        }
    }
}

/// A text as CSV has it: no control characters, but for what quotes keep.
fn escaped(text: &str) -> String {
    let code = |c: char| match c {
        '\n' | '\r' | '\t' => c.to_string(),
        c if c.is_control() => format!("\\x{:02x}", u32::from(c)),
        // Overrides of the direction of text (Unicode, UAX 9).
        '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            format!("\\u{{{:x}}}", u32::from(c))
        }
        c => c.to_string(),
    };
    text.chars().map(code).collect()
}

#[test]
fn commas_quotes_and_ends_of_lines_stay_in_their_cell() {
    let of = |args: &[&str], list: &str, field: &str| -> (Vec<String>, String) {
        let csv = answer(args, "csv").stdout;
        let (heading, rows) = rows(&args.join(" "), &csv);
        let at = heading.iter().position(|h| h == field).unwrap();
        let json = answer(args, "json").json();
        let want =
            json.pointer(list).unwrap().as_array().unwrap().iter().map(|e| e[field].as_str().unwrap().to_owned());
        let cells: Vec<String> = rows.into_iter().map(|mut r| r.swap_remove(at)).collect();
        assert_eq!(cells, want.map(|w| escaped(&w)).collect::<Vec<_>>());
        (cells, csv)
    };
    // The lab's strings have every character of ASCII in them.
    let (texts, csv) = of(&["heapstat", "--strings", OBJECTS], "/strings/duplicates", "value");
    for c in [',', '"', '\n', '\r', '\t'] {
        assert!(texts.iter().any(|t| t.contains(c)), "no text with {c:?}, so nothing was checked");
    }
    assert!(csv.contains("\\x00") && csv.contains("\\x1b"));
    let (types, _) = of(&["objects", "--type", "Dictionary", OBJECTS], "/objects", "type");
    assert!(types.iter().any(|t| t.contains("String, ")), "{types:?}");
}

#[test]
fn elements_and_entries_of_an_object_are_rows() {
    let storages = |address: &str| -> Vec<(String, String, String)> {
        let (heading, rows) = rows(address, &answer(&["object", address, OBJECTS], "csv").stdout);
        let at = |name: &str| heading.iter().position(|h| h == name).unwrap();
        rows.iter().map(|r| (r[at("name")].clone(), r[at("storage")].clone(), r[at("value")].clone())).collect()
    };
    // A Dictionary of the lab: fields, and what it holds.
    let map = storages("0x7f4e2cc08bc8");
    assert!(map.iter().any(|(name, storage, _)| name == "_entries" && storage == "instance"), "{map:?}");
    let entry = |(name, storage, value): &(String, String, String)| {
        (name.as_str(), storage.as_str(), value.as_str()) == ("[63]", "entry", "map value 21")
    };
    assert!(map.iter().any(entry), "{map:?}");
    // Its array of buckets, element by element.
    let json = answer(&["object", "0x7f4e2cc08bc8", OBJECTS], "json").json();
    let buckets = json["fields"].as_array().unwrap().iter().find(|f| f["name"] == "_buckets").unwrap();
    let buckets = buckets["object"].as_str().unwrap();
    let told = answer(&["object", buckets, OBJECTS], "json").json()["elements"].as_array().unwrap().len();
    let elements = storages(buckets);
    assert_eq!(elements.iter().filter(|(_, storage, _)| storage == "element").count(), told);
    assert!(told > 0);
}

#[test]
fn every_command_has_rows_or_says_that_it_has_none() {
    let with_rows: BTreeSet<&str> = RUNS.iter().filter(|r| r.rows.is_some()).map(|r| r.args[0]).collect();
    assert_eq!(with_rows, of_cores().map(|c| c.name).collect());
    for command in COMMANDS.iter().filter(|c| matches!(c.subject, Subject::Program | Subject::Screen)) {
        let core: &[&str] = if command.subject == Subject::Screen { &[GLIBC] } else { &[] };
        let said = answer(&[&[command.name], command.asked, core].concat(), "csv");
        said.exits(2);
        assert_eq!(said.stdout, "", "{command:?}");
        assert!(said.stderr.contains(" has no CSV: "), "{}", said.stderr);
    }
}

#[test]
fn whatever_core_there_is_one_heading_and_rows_as_long() {
    for core in [GLIBC, THREADS] {
        for command in of_cores() {
            let args = [&[command.name], command.asked, &[core]].concat();
            let (heading, _) = rows(&args.join(" "), &answer(&args, "csv").stdout);
            assert!(heading.len() > 1, "{args:?}: {heading:?}");
        }
    }
}

#[test]
fn without_a_runtime_there_is_a_heading_and_a_sentence() {
    for command in of_cores().filter(|c| c.subject == Subject::Runtime) {
        let out = answer(&[&[command.name], command.asked, &[GLIBC]].concat(), "csv");
        out.exits(1);
        let (heading, rows) = rows(command.name, &out.stdout);
        assert!(heading.len() > 2 && rows.is_empty(), "{command:?}: {heading:?}");
        assert_eq!(
            out.stderr, "coremap: no managed runtime (.NET, Java, Python) was found in this core\n",
            "{command:?}"
        );
    }
}
