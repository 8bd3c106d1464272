//! `--snapshot`: the same answers as without it, of one moment, from a process that is not harmed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::live::resident::Running;
use crate::live::{answer, number};
use crate::support::live::{Target, compile};
use crate::support::run::program;

/// Removes what differs between two looks at a process that stands still: times.
fn without_times(mut answer: Value) -> Value {
    answer["core"]["stopped_ms"] = Value::Null;
    answer["core"]["fetched"] = Value::Null;
    for thread in answer["threads"].as_array_mut().into_iter().flatten() {
        thread["cpu_ms"] = Value::Null;
    }
    answer
}

fn has_warning(answer: &Value, code: &str) -> bool {
    answer["warnings"].as_array().is_some_and(|all| all.iter().any(|warning| warning["code"] == code))
}

/// Children of any thread of a process.
fn children(target: &Target) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("{}/task", target.path())).unwrap();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<String> = tasks.filter_map(Result::ok).map(of).collect();
    all.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
}

#[test]
fn the_answers_are_the_same() {
    let Some(target) = Target::start() else { return };
    target.stand_still();
    let path = target.path();
    for command in
        [&["regions"][..], &["summary"], &["threads"], &["stacks", "--zero-fill"], &["malloc"], &["leaks"], &["triage"]]
    {
        let ask = |more: &[&str]| without_times(answer(&[command, &["--json", &path], more].concat()));
        let (plain, snapshot) = (ask(&[]), ask(&["--snapshot"]));
        assert!(!has_warning(&snapshot, "no-snapshot"), "{:#}", snapshot["warnings"]);
        assert_eq!(plain, snapshot, "{command:?}");
        assert_eq!(children(&target), Vec::<String>::new(), "{command:?}");
    }
    target.go_on();
    target.goes_on();
}

#[test]
fn a_process_goes_on_after_snapshots() {
    let Some(target) = Target::start() else { return };
    for round in 0..20 {
        let command = ["summary", "threads", "triage", "search"][round % 4];
        let more = ["--hex", "5c5c5c5c5c5c5c5c", "--limit", "1"];
        let more = if command == "search" { &more[..] } else { &[] };
        let path = target.path();
        let answer = answer(&[&[command, "--snapshot", "--json", path.as_str()], more].concat());
        assert!(!has_warning(&answer, "no-snapshot"), "{answer:#}");
        assert!(answer["core"]["stopped_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{}", answer["core"]);
        target.goes_on();
        assert_eq!(children(&target), Vec::<String>::new(), "{command}");
    }
}

#[test]
fn a_killed_coremap_leaves_no_copy() {
    let Some(target) = Target::start() else { return };
    for round in 0..30_u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_coremap"))
            .args(["triage", "--snapshot", "--json", &target.path()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(2 * round));
        let _ = child.kill();
        child.wait().unwrap();
        target.goes_on();
        // The helper ends it, in its own time.
        let left = |_: &u32| !children(&target).is_empty();
        let waited = (0..2000).take_while(left).inspect(|_| std::thread::sleep(Duration::from_millis(5))).count();
        assert!(waited < 2000, "a copy is left: {:?}", children(&target));
    }
}

#[test]
fn memory_of_every_kind_is_of_one_moment() {
    let Some((folder, target)) = compile("changing.c") else { return };
    let file = folder.path().join("file");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let child = Command::new(target).arg(&file).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = running.0.id().to_string();
    let asked = ["search", "beat [a-z]+ [0-9]{12} ", "--regex", "--context", "--json", "--snapshot", "--pid", &pid];
    for _ in 0..3 {
        let found = answer(&asked);
        let mut beats = BTreeMap::new();
        for hit in found["hits"].as_array().unwrap().iter().filter(|hit| hit["kind"] != "Stack") {
            let text = hit["context"].as_str().unwrap();
            let mut words = text.split_once("beat ").unwrap().1.split_whitespace();
            let (name, number) = (words.next().unwrap().to_owned(), words.next().unwrap().parse::<i64>().unwrap());
            assert_eq!(beats.insert(name, number), None, "{found}");
        }
        let beat = |name: &str| beats.get(name).copied().unwrap_or(-1);
        let steps = [beat("own") - beat("changed"), beat("changed") - beat("shared"), beat("own") - beat("shared")];
        assert!(steps.iter().all(|step| (0..=1).contains(step)) && beat("shared") >= 0, "{beats:?}");
    }
}

/// Python has a thread, memory of its own allocator, and no debug information.
#[test]
fn a_runtime_is_read_in_the_same_way() {
    let code = "import time; kept = [str(i) * 20 for i in range(50000)]; print('ready', flush=True); time.sleep(1000)";
    let mut python = Command::new("python3");
    let mut running = match python.args(["-c", code]).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => Running(child),
        Err(e) => return eprintln!("skipped: no python3: {e}"),
    };
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = running.0.id().to_string();
    for command in ["heapstat", "retained"] {
        let ask = |more: &[&str]| without_times(answer(&[&[command, "--json", "--pid", &pid], more].concat()));
        assert_eq!(ask(&[]), ask(&["--snapshot"]), "{command}");
    }
}

#[test]
fn a_dump_is_no_snapshot() {
    let Some(target) = Target::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("core").display().to_string();
    let refused = program(["dump", "--snapshot", "-o", &out, &target.path()]).go();
    refused.exits(2);
    assert!(refused.stderr.contains("--snapshot"), "{}", refused.stderr);
    assert!(number(&answer(&["info", "--json", "--snapshot", &target.path()])["core"]["pid"]) > 0);
    target.goes_on();
}
