//! `shell` on a pseudo-terminal: completion, history, Ctrl-C, and answers as the single commands print them.

use std::time::{Duration, Instant};

use crate::support::pty::{Pty, there_is_one};
use crate::support::real::argument;
use crate::support::run::{program, run};

const ENTER: &str = "\r";
const TAB: &str = "\t";
const UP: &str = "\x1b[A";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A prompt that waits for a line.
fn at_prompt(pty: &mut Pty) -> String {
    pty.until("the prompt", |screen| screen.lines().last().is_some_and(|line| line.trim_end() == "coremap>"))
}

fn shell(core: &str) -> Pty {
    let mut pty = Pty::start(110, 40, &["shell", core], &[("NO_COLOR", "1")]);
    pty.until("the welcome", |screen| screen.contains("is open; `help`"));
    at_prompt(&mut pty);
    pty
}

#[test]
fn commands_are_completed_and_come_back_from_the_history() {
    if !there_is_one() {
        return;
    }
    let mut pty = shell(&argument("native-leaks"));
    pty.keys("summ").keys(TAB);
    pty.until("the command", |screen| screen.contains("coremap> summary"));
    pty.keys("--ze").keys(TAB);
    pty.until("the option", |screen| screen.contains("coremap> summary --zero-fill"));
    pty.keys(ENTER);
    pty.until("the answer", |screen| screen.contains("Malloc") && screen.contains("Zero"));
    at_prompt(&mut pty);
    pty.keys(UP);
    pty.until("the last line", |screen| screen.trim_end().ends_with("coremap> summary --zero-fill"));
    // Ctrl-C drops the line, and the prompt stays.
    pty.keys(CTRL_C);
    at_prompt(&mut pty);
    pty.keys("nonsense").keys(ENTER);
    pty.until("the mistake", |screen| screen.contains("unrecognized subcommand 'nonsense'"));
    pty.keys("explore").keys(ENTER);
    pty.until("the refusal", |screen| screen.contains("explore does not work at this prompt"));
    at_prompt(&mut pty);
    pty.keys(CTRL_D);
    assert!(pty.end().success());
}

#[test]
fn ctrl_c_ends_a_question_and_not_the_session() {
    if !there_is_one() {
        return;
    }
    let mut pty = shell(&argument("dotnet8-objects"));
    let mut interrupted = false;
    // The first questions about a core take longest; on a fast machine one may be over already.
    for question in ["triage", "scan-secrets", "collections", "holders"] {
        pty.keys(question);
        pty.until("the line", |screen| screen.trim_end().ends_with(&format!("coremap> {question}")));
        pty.keys(ENTER);
        std::thread::sleep(Duration::from_millis(80));
        pty.keys(CTRL_C);
        let screen = pty.until("the prompt again", |screen| {
            screen.contains("interrupted;") || screen.lines().last().is_some_and(|line| line.trim_end() == "coremap>")
        });
        if screen.contains("interrupted;") {
            interrupted = true;
            break;
        }
    }
    assert!(interrupted, "every question was over in 80 ms");
    at_prompt(&mut pty);
    // What was interrupted goes on, and others are answered.
    pty.keys("heapstat --top 3").keys(ENTER);
    pty.until("the answer", |screen| screen.contains("System.Byte[]") && screen.contains("[TOTAL]"));
    at_prompt(&mut pty);
    pty.keys("quit").keys(ENTER);
    assert!(pty.end().success());
}

#[test]
fn answers_are_those_of_the_single_commands() {
    let core = argument("dotnet31-createdump");
    let dir = tempfile::tempdir().unwrap();
    let script = "heapstat --top 5 --csv > types.csv\n\
                  gcroot --type '^app' --csv > paths.csv\n\
                  summary --csv | cat > kinds.csv\n\
                  retained --csv>retained.csv\n\
                  why 0x7f61f606c590 --json > why.json\n\
                  heapstat > types.csv\n";
    let out = program(["shell", &core]).dir(dir.path()).input(script.into()).go();
    out.is_sound();
    // The file that was there is not overwritten.
    assert!(out.stderr.contains("'types.csv' exists already"), "{}", out.stderr);
    assert_eq!(out.code, Some(2), "the status is that of the last line");
    let commands: [(&str, &[&str]); 5] = [
        ("types.csv", &["heapstat", "--top", "5", "--csv"]),
        ("paths.csv", &["gcroot", "--type", "^app", "--csv"]),
        ("kinds.csv", &["summary", "--csv"]),
        ("retained.csv", &["retained", "--csv"]),
        ("why.json", &["why", "0x7f61f606c590", "--json"]),
    ];
    for (file, args) in commands {
        let written = std::fs::read_to_string(dir.path().join(file)).unwrap();
        let single = run([args, &[&core]].concat()).stdout;
        if file.ends_with(".json") {
            // Warnings of earlier questions are in it too.
            let of = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["paths"].clone();
            assert_eq!(of(&written), of(&single));
        } else {
            assert_eq!(written, single, "{args:?}");
        }
    }
}

#[test]
fn a_second_question_is_quick() {
    if !there_is_one() {
        return;
    }
    let mut pty = shell(&argument("dotnet8-objects"));
    let mut took = Vec::new();
    for kind in ["LeakyCache", "HandleTarget", "CacheEntry"] {
        let begun = Instant::now();
        pty.keys(&format!("gcroot --type '{kind}$' | tail -1")).keys(ENTER);
        pty.until("the answer", |screen| screen.matches("conservative").count() > took.len());
        at_prompt(&mut pty);
        took.push(begun.elapsed());
    }
    eprintln!("gcroot --type: {took:?}");
    pty.keys(CTRL_D);
    assert!(pty.end().success());
}

#[test]
fn what_it_cannot_do_is_said() {
    let core = argument("native-leaks");
    assert!(run(["shell", "--json", &core]).exits(2).stderr.contains("has no JSON"));
    run(["shell", "no-such-core"]).exits(3);
    // Without a line, it ends.
    assert_eq!(program(["shell", &core]).go().exits(0).stdout, "");
    let out = program(["shell", &core]).input(b"summary |\nsummary > a b\nsearch 'x\nmcp\nhelp\n".to_vec()).go();
    for said in
        ["give a command after |", "give one file after >", "a quote is not closed", "mcp does not work at this"]
    {
        assert!(out.stderr.contains(said), "{}", out.stderr);
    }
    assert!(out.exits(0).stdout.contains("Ctrl-C ends a question"), "{}", out.stdout);
}
