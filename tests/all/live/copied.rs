//! A command that needs all memory copies it, and sees one moment of a process that goes on: `changing.c` counts in memory
//! of three kinds.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::live::answer;
use crate::live::resident::Running;
use crate::support::live::compile;

#[test]
fn memory_of_every_kind_is_of_one_moment() {
    let Some((folder, program)) = compile("changing.c") else { return };
    let file = folder.path().join("file");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let child = Command::new(program).arg(&file).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");

    let pid = running.0.id().to_string();
    for _ in 0..3 {
        let found = answer(&["search", "beat [a-z]+ [0-9]{12} ", "--regex", "--context", "--json", "--pid", &pid]);
        let mut beats = BTreeMap::new();
        for hit in found["hits"].as_array().unwrap().iter().filter(|hit| hit["kind"] != "Stack") {
            let text = hit["context"].as_str().unwrap();
            let mut words = text.split_once("beat ").unwrap().1.split_whitespace();
            let (name, number) = (words.next().unwrap().to_owned(), words.next().unwrap().parse::<i64>().unwrap());
            assert_eq!(beats.insert(name, number), None, "{found}");
        }
        let beat = |name: &str| beats.get(name).copied().unwrap_or(-1);
        // Each may be one step behind the one that is written before it.
        let steps = [beat("own") - beat("changed"), beat("changed") - beat("shared"), beat("own") - beat("shared")];
        assert!(steps.iter().all(|step| (0..=1).contains(step)) && beat("shared") >= 0, "{beats:?}");
    }
}
