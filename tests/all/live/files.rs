//! Names from the process's own files, and threads that can't be stopped: `orders.c` waits in functions that only
//! .symtab names.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::live::{answer, number};
use crate::support::live::compile;
use crate::support::run::program;

struct Running(Child);

impl Running {
    fn start(program: &Path, args: &[&str]) -> Running {
        let child =
            Command::new(program).args(args).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut running = Running(child);
        let mut line = String::new();
        BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        running
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names of functions of the program itself, on all stacks.
fn own_functions(threads: &Value) -> Vec<&str> {
    let frames = threads["threads"].as_array().unwrap().iter().flat_map(|t| t["frames"].as_array().unwrap());
    let own = frames.filter(|f| f["module"].as_str().is_some_and(|m| m.starts_with("target")));
    own.filter_map(|f| f["method"].as_str()).collect()
}

/// `--symbols` adds places to look for names. A file of another build there does not hide the process's own.
#[test]
fn symbols_take_no_names_away() {
    let Some((_folder, orders)) = compile("orders.c") else { return };
    let Some((other, _)) = compile("target.c") else { return };
    let running = Running::start(&orders, &[]);
    let without = answer(&["threads", "--json", "--pid", &running.pid()]);
    assert!(own_functions(&without).contains(&"wait_for_orders"), "{without:#}");
    let folder = other.path().to_str().unwrap();
    let with = answer(&["threads", "--json", "--symbols", folder, "--pid", &running.pid()]);
    assert_eq!(own_functions(&with), own_functions(&without));
}

/// A stripped file of the same build does not hide the unstripped one.
#[test]
fn a_stripped_file_takes_no_names_away() {
    let Some((_folder, orders)) = compile("orders.c") else { return };
    let stripped = tempfile::tempdir().unwrap();
    let status = Command::new("strip").arg("-o").arg(stripped.path().join("target")).arg(&orders).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no strip");
        return;
    }
    let running = Running::start(&orders, &[]);
    let folder = stripped.path().to_str().unwrap();
    let with = answer(&["threads", "--json", "--symbols", folder, "--pid", &running.pid()]);
    assert!(own_functions(&with).contains(&"wait_for_orders"), "{with:#}");
}

#[test]
fn a_deleted_program_has_names() {
    let Some((_folder, orders)) = compile("orders.c") else { return };
    let running = Running::start(&orders, &[]);
    std::fs::remove_file(&orders).unwrap();
    // Another build at the same path, as after an update.
    let Some((other, _)) = compile("target.c") else { return };
    std::fs::copy(other.path().join("target"), &orders).unwrap();
    let threads = answer(&["threads", "--json", "--pid", &running.pid()]);
    assert!(own_functions(&threads).contains(&"wait_for_orders"), "{threads:#}");
}

/// A thread in vfork waits in state D, so it does not stop. The kernel shows where it is.
#[test]
fn a_thread_in_vfork_is_a_thread() {
    let Some((_folder, orders)) = compile("orders.c") else { return };
    let running = Running::start(&orders, &["vfork"]);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap();
    let mut tids: Vec<u64> = tasks.map(|t| t.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    tids.sort_unstable();
    assert_eq!(tids.len(), 2);
    let in_vfork = *tids.iter().find(|tid| **tid != u64::from(running.0.id())).unwrap();
    let text = std::fs::read_to_string(format!("/proc/{}/task/{in_vfork}/syscall", running.pid())).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let [.., sp, ip] = words.as_slice() else { panic!("{text}") };

    let output = program(["threads", "--json", "--pid", &running.pid()]).go();
    output.is_sound();
    let threads = output.json();
    let mut listed: Vec<u64> =
        threads["threads"].as_array().unwrap().iter().map(|thread| number(&thread["tid"])).collect();
    listed.sort_unstable();
    assert_eq!(listed, tids, "{threads:#}");
    let thread = threads["threads"].as_array().unwrap().iter().find(|t| t["tid"] == in_vfork).unwrap();
    assert_eq!((thread["frames"][0]["sp"].as_str(), thread["frames"][0]["ip"].as_str()), (Some(*sp), Some(*ip)));
    // The caller's address is in an argument register then (x86_64), or in the link register, which is not known.
    if cfg!(target_arch = "x86_64") {
        assert!(own_functions(&threads).contains(&"launch_child"), "{threads:#}");
    }
    let warnings = threads["warnings"].as_array().unwrap();
    let text = warnings.iter().find(|w| w["code"] == "not-stopped").unwrap()["message"].as_str().unwrap();
    assert!(text.contains(&format!("thread {in_vfork} waits in vfork")), "{text}");
    // Each stack has its thread.
    let stacks = program(["stacks", "--json", "--pid", &running.pid()]).go().json();
    let mut owners: Vec<Option<u64>> =
        stacks["stacks"].as_array().unwrap().iter().map(|stack| stack["tid"].as_u64()).collect();
    owners.sort_unstable();
    assert_eq!(owners, tids.iter().copied().map(Some).collect::<Vec<_>>(), "{stacks:#}");
}
