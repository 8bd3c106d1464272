//! Warnings: one line for all of them on stderr, the status that they give, and docs/warnings.md.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use coremap::diag::{Effect, WarningCode};

use crate::support::builder::{file_with, small_core};
use crate::support::pty::{Pty, there_is_one};
use crate::support::run::{Output, run};

const README: &str = "testdata/cores/dotnet8-objects/core.zst";
const HEALTHY: &str = "testdata/cores/zoo-kernel/core.zst";

const ABOUT: &str = "\
# Warnings

A warning says what an answer lacks, or what its reader must know. This page explains every code.
It is generated from the program.

A command prints one line for all its warnings on stderr: the most important one, and how many there are.
`-v` prints each of them. `coremap info` ends with a section of all warnings about the core itself.
JSON has all of them in `warnings`, each with its `code` and its `message`. Codes are stable.

Only damaged or lost data makes the exit status 4: a file that is cut off or unreadable, a list that breaks
off or runs in a cycle, figures that contradict each other, work that was cut short. A core that is as its
producer writes it ends with status 0, and what it lacks is a note: file pages, memory without access, memory
that `coredump_filter` excludes, names.

Cores that `coremap shrink`, `coremap dump --for` or createdump wrote lack memory on purpose. `triage`,
`summary`, `info` and `report` describe what such a core contains and end with status 0. Any other command
ends with 4 if it needs memory that was left out.
";

fn table(title: &str, effect: Effect) -> String {
    let mut out = format!("\n## {title}\n\n| code | meaning, and what to do |\n|---|---|\n");
    for code in WarningCode::ALL.iter().filter(|code| code.effect() == effect) {
        writeln!(out, "| `{code}` | {} |", code.meaning()).unwrap();
    }
    out
}

#[test]
fn the_document_has_every_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/warnings.md");
    let text = [
        ABOUT.to_owned(),
        table("Data is damaged or lost: status 4", Effect::Lost),
        table("Status 4 or 0", Effect::Either),
        table("Notes: status 0", Effect::Note),
    ]
    .concat();
    if std::env::var_os("COREMAP_UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "COREMAP_UPDATE_DOCS=1 writes it so");
}

fn warned(out: &Output) -> Vec<&str> {
    out.stderr.lines().filter(|line| line.starts_with("coremap: ")).collect()
}

#[test]
fn one_line_stands_for_all_warnings() {
    for core in [README, HEALTHY] {
        let out = run(["triage", core]);
        out.exits(0);
        assert!(warned(&out).len() <= 1 && out.stderr.lines().count() <= 1, "{}", out.stderr);
    }
    let out = run(["triage", README]);
    assert!(out.stderr.contains(" warnings: ") && out.stderr.ends_with("-v lists them\n"), "{}", out.stderr);
}

#[test]
fn each_is_listed_where_that_is_asked_for() {
    let all = run(["triage", "-v", README]);
    let json = run(["triage", "--json", README]).json();
    let codes = json["warnings"].as_array().unwrap();
    let listed: Vec<&str> = all.stderr.lines().filter(|line| line.starts_with("coremap: warning: ")).collect();
    assert_eq!(listed.len(), codes.len(), "{}", all.stderr);
    assert!(codes.len() > 1, "{json}");
    for (line, warning) in listed.iter().zip(codes) {
        let (code, message) = (warning["code"].as_str().unwrap(), warning["message"].as_str().unwrap());
        assert_eq!(*line, format!("coremap: warning: {code}: {message}"));
    }
    assert!(!all.stderr.contains("DEBUG"), "the log takes -vv");
    assert!(run(["triage", "-vv", README]).stderr.contains("DEBUG"));
}

#[test]
fn info_has_a_section_of_them() {
    let info = run(["info", README]);
    info.exits(0);
    assert_eq!(info.stderr, "");
    let (_, section) = info.stdout.split_once("\nWarnings\n").unwrap_or_else(|| panic!("{}", info.stdout));
    let json = run(["info", "--json", README]).json();
    for warning in json["warnings"].as_array().unwrap() {
        assert!(section.contains(warning["code"].as_str().unwrap()), "{section}");
    }
    assert!(section.contains("· metadata: "), "{section}");
}

#[test]
fn damage_is_status_4_and_the_line_says_what() {
    let cut = file_with(&small_core().build()[..12_000]);
    let path = cut.path().to_str().unwrap();
    for command in ["triage", "summary", "info", "regions"] {
        let out = run([command, path]);
        out.exits(4);
        let said = if command == "info" { &out.stdout } else { &out.stderr };
        assert!(said.contains("cut off"), "{command}: {said}");
        assert!(out.stderr.lines().count() <= 1, "{command}: {}", out.stderr);
    }
}

#[test]
fn a_shrunk_core_lacks_what_was_removed_for_commands_that_ask_for_it() {
    run(["summary", README]).exits(0);
    let out = run(["malloc", README]);
    out.exits(4);
    assert!(out.stderr.contains("the answer is incomplete") && out.stderr.contains("this core was shrunk"), "{out:?}");
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
}

#[test]
fn an_answer_needs_no_stderr() {
    let whole = run(["triage", README]).stdout;
    for line in ["2>&-", "2>/dev/full", "-v 2>/dev/full", "-vv 2>&-", "-v 2>&1 >&3 3>&- | true"] {
        let script = format!("exec 3>&1; \"$coremap\" triage {README} {line}");
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-c", &script]).current_dir(env!("CARGO_MANIFEST_DIR"));
        let out = command.env("coremap", env!("CARGO_BIN_EXE_coremap")).output().unwrap();
        assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stdout).as_ref()), (Some(0), &*whole), "{line}");
    }
}

#[test]
fn a_progress_line_is_gone_when_the_answer_comes() {
    if !there_is_one() {
        return;
    }
    // The core comes late, so the line is drawn; the end waits, so that anything drawn after the answer is seen.
    let script = format!("(sleep 2; cat {HEALTHY}) | {} regions -; sleep 1; echo END", env!("CARGO_BIN_EXE_coremap"));
    let mut pty = Pty::running(100, 50, &["sh", "-c", &script], &[]);
    pty.until("the line", |screen| screen.contains("opening") || screen.contains("unpacking"));
    let screen = pty.shows("END");
    let raw = String::from_utf8_lossy(&pty.raw).into_owned();
    for word in ["opening", "unpacking", "reading"] {
        assert!(!screen.contains(&format!(" {word}")), "{screen}");
    }
    let answer = raw.find(" kernel").unwrap_or_else(|| panic!("{raw}"));
    for drawn in ["opening", "unpacking"] {
        assert!(!raw[answer..].contains(drawn), "drawn again after the answer: {raw:?}");
    }
}
