//! `--top`, `--sort` and what tables leave out.

use serde_json::Value;

use crate::support::commands::{CREATEDUMP, GLIBC, MALLOC, unpacked};
use crate::support::run::{Output, program};

fn ask(args: &[&str]) -> Output {
    let out = program(args).dir(&unpacked(args)).go();
    out.is_sound();
    out
}

/// Lines of a table between its rules.
fn rows(text: &str) -> Vec<&str> {
    let mut parts = text.split("\n---").skip(1);
    let body = parts.next().unwrap_or_default();
    body.lines().skip(1).collect()
}

fn list(args: &[&str], name: &str) -> Vec<Value> {
    let out = ask(&[&["--json"], args].concat());
    out.json()[name].as_array().unwrap_or_else(|| panic!("{args:?}")).clone()
}

#[test]
fn a_table_shows_the_first_rows_and_says_what_it_leaves_out() {
    let all = list(&["heapstat", CREATEDUMP], "types");
    assert!(all.len() > 45, "too few types for a long table: {}", all.len());
    let table = ask(&["heapstat", CREATEDUMP]).stdout;
    assert_eq!(rows(&table).len(), 40, "{table}");
    let bytes: u64 = all[40..].iter().map(|t| t["size"].as_u64().unwrap()).sum();
    let rest = format!("and {} more types, {} in all; --top 0 shows all", all.len() - 40, coremap::units::human(bytes));
    assert!(table.lines().any(|l| l == rest), "no '{rest}' in {table}");
    let whole = ask(&["heapstat", "--top", "0", CREATEDUMP]).stdout;
    assert_eq!(rows(&whole).len(), all.len());
    assert!(!whole.contains(" more types"), "{whole}");
    // The sums are those of all, whatever is shown.
    let total = |text: &str| {
        text.lines().find(|l| l.starts_with("[TOTAL]")).unwrap().split_whitespace().nth(1).map(str::to_owned)
    };
    assert_eq!(total(&table), total(&whole));
    assert_eq!(rows(&ask(&["heapstat", "--top", "3", CREATEDUMP]).stdout).len(), 3);
}

#[test]
fn json_and_csv_have_all_rows_unless_told() {
    let three = list(&["heapstat", "--top", "3", CREATEDUMP], "types");
    let all = list(&["heapstat", "--top", "0", CREATEDUMP], "types");
    assert_eq!(three[..], all[..3]);
    assert_eq!(all, list(&["heapstat", CREATEDUMP], "types"));
    let csv = ask(&["heapstat", "--top", "3", "--format", "csv", CREATEDUMP]).stdout;
    assert_eq!(csv.lines().count(), 4, "{csv}");
    // The older name, and a list that its command cuts by itself.
    assert_eq!(list(&["malloc", "--limit", "2", MALLOC], "clusters").len(), 2);
    assert_eq!(list(&["malloc", "--top", "2", MALLOC], "clusters").len(), 2);
}

#[test]
fn rows_come_in_the_order_asked_for() {
    for (command, name, column) in [
        (&["heapstat", CREATEDUMP][..], "types", "count"),
        (&["regions", GLIBC], "regions", "size"),
        (&["regions", GLIBC], "regions", "in_core"),
        (&["stacks", GLIBC], "stacks", "in_use"),
        (&["malloc", MALLOC], "clusters", "count"),
        (&["malloc", "--chunks", MALLOC], "chunks", "size"),
        (&["objects", "--type", "Object", CREATEDUMP], "objects", "size"),
        (&["finalizers", CREATEDUMP], "types", "count"),
        (&["anon", GLIBC], "clusters", "bytes"),
        (&["leaks", MALLOC], "clusters", "count"),
    ] {
        let mut args = command.to_vec();
        let core = args.pop().unwrap();
        args.extend(["--sort", column, core]);
        let sorted = list(&args, name);
        // What is not known comes last.
        let key = |row: &Value| row[column].as_u64().map_or((1, 0), |n| (0, u64::MAX - n));
        assert!(sorted.is_sorted_by_key(key), "{args:?}");
        let mut plain = list(command, name);
        assert_eq!(plain.len(), sorted.len(), "{args:?}");
        plain.sort_by_key(key);
        assert_eq!(plain, sorted, "{args:?}: rows that are equal in it stay in their order");
    }
    let by_address = list(&["regions", "--sort", "address", GLIBC], "regions");
    assert_eq!(by_address, list(&["regions", GLIBC], "regions"));
    // The biggest of all are on top, whatever the order without.
    let two = list(&["regions", "--sort", "size", "--top", "2", GLIBC], "regions");
    assert_eq!(two[..], list(&["regions", "--sort", "size", GLIBC], "regions")[..2]);
}

#[test]
fn a_column_that_is_none_is_told_before_the_core_is_read() {
    for (command, one) in [
        ("heapstat", "count"),
        ("handles", "kind"),
        ("regions", "address"),
        ("stacks", "in_use"),
        ("malloc", "bytes"),
        ("anon", "owner"),
        ("leaks", "bytes"),
        ("holders", "malloc.bytes"),
        ("exceptions", "hresult"),
        ("finalizers", "state"),
        ("syncblocks", "waiting"),
    ] {
        let out = ask(&[command, "--sort", "colour", "no-such-core"]);
        out.exits(2);
        let told = out.stderr.split("; use ").nth(1).unwrap_or_else(|| panic!("{command}: {}", out.stderr));
        assert!(told.trim_end().split(", ").any(|column| column == one), "{command}: {told}");
    }
}

#[test]
fn sizes_are_taken_with_units() {
    let plain = list(&["heapstat", "--min", "1024", "--max", "8192", CREATEDUMP], "types");
    assert!(!plain.is_empty());
    assert_eq!(plain, list(&["heapstat", "--min", "1KiB", "--max", "8k", CREATEDUMP], "types"));
    ask(&["heapstat", "--min", "some", CREATEDUMP]).exits(2);
}

#[test]
fn handles_by_kind_and_type() {
    let all = list(&["handles", CREATEDUMP], "handles");
    let groups = list(&["handles", "--group", CREATEDUMP], "groups");
    assert!(groups.len() > 1 && groups.is_sorted_by_key(|g| std::cmp::Reverse(g["bytes"].as_u64())), "{groups:?}");
    for g in &groups {
        let of: Vec<&Value> = all.iter().filter(|h| h["kind"] == g["kind"] && h["type"] == g["type"]).collect();
        assert_eq!(g["count"], of.len());
        let objects: std::collections::BTreeMap<_, _> =
            of.iter().map(|h| (h["object"].as_str(), h["size"].as_u64().unwrap_or(0))).collect();
        assert_eq!(g["bytes"], objects.values().sum::<u64>(), "{g}");
    }
    let counted: u64 = groups.iter().map(|g| g["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, all.len() as u64);
    // Of one type alone, and the kinds are counted of what is listed.
    let name = groups.iter().find_map(|g| g["type"].as_str()).unwrap();
    let exactly = format!("^{}$", regex::escape(name));
    let some = ask(&["--json", "handles", "--type", &exactly, CREATEDUMP]).json();
    let want: Vec<&Value> = all.iter().filter(|h| h["type"] == name).collect();
    assert_eq!(some["handles"].as_array().unwrap().iter().collect::<Vec<_>>(), want);
    let kinds: u64 = some["kinds"].as_array().unwrap().iter().map(|k| k["count"].as_u64().unwrap()).sum();
    assert_eq!(kinds, want.len() as u64);
    ask(&["handles", "--type", "no such type", CREATEDUMP]).exits(1);
    let csv = ask(&["handles", "--group", "--format", "csv", CREATEDUMP]).stdout;
    assert!(csv.starts_with("kind,type,count,bytes,example\n") && csv.lines().count() == groups.len() + 1, "{csv}");
}
