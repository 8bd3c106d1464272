//! A command reads each part of a process once: the program's log (`-vv`) tells of each.

use std::collections::BTreeMap;

use crate::support::real;
use crate::support::run::run;

/// What the log says was read, and how often.
fn reads(args: &[&str]) -> BTreeMap<String, usize> {
    let out = run(args.iter().copied().chain(["-vv"]));
    let log = &out.stderr;
    let mut seen = BTreeMap::new();
    for line in log.lines() {
        if let Some((_, what)) = line.split_once("read what=") {
            *seen.entry(what.trim_matches('"').to_owned()).or_default() += 1;
        }
    }
    seen
}

#[test]
fn one_gcroot_reads_each_part_once() {
    let core = real::plain("dotnet8-objects");
    let core = core.to_str().unwrap();
    let strings = run(["objects", "--type", "System.String$", "--json", core]).json();
    let object = strings["objects"][0]["address"].as_str().unwrap().to_owned();
    for args in [
        vec!["gcroot", &object, core],
        vec!["gcroot", "--type", "String", core],
        vec!["retained", core],
        vec!["threads", core],
        vec!["refs", &object, core],
        vec!["ip2method", "0x1000", core],
    ] {
        let seen = reads(&args);
        let twice: Vec<_> = seen.iter().filter(|(_, n)| **n > 1).collect();
        assert!(twice.is_empty(), "{args:?}: {twice:?}");
        let needed: &[&str] = match args[0] {
            "gcroot" | "retained" => &["CoreCLR", "map", "types", "threads", "handles", "objects", "code", "stacks"],
            "threads" => &["CoreCLR", "types", "threads", "code", "stacks"],
            _ => &["CoreCLR", "map", "types"],
        };
        for what in needed {
            assert!(seen.contains_key(*what), "{args:?}: no {what} in {seen:?}");
        }
        // What the question does not need is not read.
        if args[0] == "threads" {
            assert!(!seen.contains_key("map") && !seen.contains_key("objects"), "{seen:?}");
        }
    }
}

#[test]
fn a_report_finds_the_graph_of_a_heap_once() {
    let core = real::plain("dotnet8-objects");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let seen = reads(&["report", "--out", page.to_str().unwrap(), core.to_str().unwrap()]);
    assert_eq!(seen.get("graph"), Some(&1), "{seen:?}");
}
