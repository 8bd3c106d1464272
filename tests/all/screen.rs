//! `explore` and `top` on a pseudo-terminal: keys in, and what is on the screen out. Figures are compared with those of
//! the commands' JSON.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use coremap::units::human;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load, R, X, image};
use crate::support::commands::{GLIBC, OBJECTS, THREADS, unpacked};
use crate::support::notes;
use crate::support::pty::{Pty, there_is_one};
use crate::support::run::run;

const ENTER: &str = "\r";
const ESC: &str = "\u{1b}";
const BACKSPACE: &str = "\u{7f}";
const DOWN: &str = "\u{1b}[B";

fn core(name: &str) -> String {
    unpacked(&[name]).join(name).to_str().unwrap().to_owned()
}

fn explore(columns: u16, rows: u16, core: &str) -> Pty {
    Pty::start(columns, rows, &["explore", core], &[])
}

/// The rows of a list of a command's JSON.
fn rows(args: &[&str], list: &str) -> Vec<Value> {
    run(args.iter().copied().chain(["--json"])).json()[list].as_array().unwrap().clone()
}

fn size(value: &Value) -> String {
    human(value.as_u64().unwrap())
}

/// The line of the screen that ends in that name.
fn line<'a>(screen: &'a str, name: &str) -> &'a str {
    let ends = |line: &&str| line.trim_end().ends_with(name);
    // Below the tabs, which have names of kinds.
    screen.lines().skip(4).find(ends).unwrap_or_else(|| panic!("no line ends in {name}:\n{screen}"))
}

#[test]
fn kinds_and_their_regions_have_the_figures_of_the_reports() {
    if !there_is_one() {
        return;
    }
    let core = core(GLIBC);
    let mut pty = explore(110, 40, &core);
    pty.keys("2");
    // Zero pages are counted after the first picture.
    let screen = pty.shows(" written\n");
    let kinds = rows(&["summary", "--zero-fill", &core], "kinds");
    assert!(kinds.len() > 5);
    for kind in &kinds {
        let line = line(&screen, kind["kind"].as_str().unwrap());
        let cells: Vec<&str> = line.split("  ").map(str::trim).collect();
        for column in ["written", "in_core", "size"] {
            assert!(line.contains(&size(&kind[column])), "{column} of {kind}: {line}");
        }
        assert!(cells.contains(&kind["count"].to_string().as_str()), "{kind}: {line}");
    }
    // The bars are of the sum.
    let all: u64 = kinds.iter().map(|kind| kind["written"].as_u64().unwrap()).sum();
    let most = kinds.iter().max_by_key(|kind| kind["written"].as_u64().unwrap()).unwrap();
    let share = most["written"].as_u64().unwrap() as f64 * 100.0 / all as f64;
    assert!(line(&screen, most["kind"].as_str().unwrap()).contains(&format!("{share:.1} %")), "{screen}");
    // Into the stacks, and out again.
    pty.keys("/stack").keys(ENTER);
    let found = pty.until("the filter", |screen| screen.contains("2 of ") || screen.contains("1 of "));
    assert!(!found.lines().skip(3).any(|l| l.contains("Malloc")) && line(&found, "Stack").contains('>'), "{found}");
    pty.keys(ENTER);
    let inside = pty.shows("Memory › Stack");
    let stacks = rows(&["regions", "--zero-fill", "--kind", "Stack", &core], "regions");
    assert!(stacks.len() > 2);
    for stack in &stacks {
        let start = stack["start"].as_str().unwrap();
        let line = inside.lines().find(|line| line.contains(start)).unwrap_or_else(|| panic!("{start}: {inside}"));
        assert!(line.contains(&size(&stack["written"])) && line.contains(&size(&stack["size"])), "{line}");
    }
    // What it shows of a region is what the command prints.
    pty.keys(ENTER);
    let page = pty.shows("evidence");
    assert!(page.contains("coremap whatis 0x") && page.contains("is Stack"), "{page}");
    pty.keys(BACKSPACE);
    pty.shows("Memory › Stack");
    pty.keys(ESC);
    pty.until("the kinds", |screen| !screen.contains('›') && screen.contains("2 of"));
    // Another measure.
    pty.keys("m");
    pty.shows(" in core ·");
    pty.keys("mq");
    assert!(pty.end().success());
}

#[test]
fn types_are_found_and_what_keeps_them_is_asked() {
    if !there_is_one() {
        return;
    }
    let core = core(OBJECTS);
    let mut pty = explore(120, 40, &core);
    pty.shows("findings");
    // By Tab, and not by a number.
    pty.keys("\t\t");
    pty.shows("Types  ");
    let mut types = rows(&["heapstat", &core], "types");
    // Free blocks are no objects.
    types.retain(|row| row["type"] != "Free");
    // A picture comes in pieces, the heading first.
    let first: Vec<&str> = types.iter().take(10).filter_map(|t| t["type"].as_str()).filter(|n| n.len() < 40).collect();
    let drawn = |screen: &str| first.iter().all(|name| screen.lines().any(|l| l.trim_end().ends_with(name)));
    let screen = pty.until("types", |s| s.contains(&format!("{} types", types.len())) && drawn(s));
    for kind in types.iter().take(10) {
        let name = kind["type"].as_str().unwrap();
        if name.len() < 40 {
            assert!(line(&screen, name).contains(&size(&kind["size"])), "{kind}: {screen}");
        }
    }
    pty.keys("/system.string").keys(ENTER);
    let wanted = types.iter().filter(|t| t["type"].as_str().unwrap().to_lowercase().contains("system.string")).count();
    let found = pty.shows(&format!("{wanted} of "));
    assert!(found.contains("/system.string"), "{found}");
    pty.keys(ENTER);
    pty.shows("Paths from roots to these objects");
    pty.keys(ENTER);
    let page = pty.until("the answer", |screen| screen.contains("live objects"));
    assert!(page.contains("coremap gcroot --type '^System\\.String"), "{page}");
    pty.keys(ESC);
    pty.shows("Paths from roots to these objects");
    pty.keys("q");
    assert!(pty.end().success());
}

#[test]
fn threads_and_their_stacks_are_those_of_the_report() {
    if !there_is_one() {
        return;
    }
    let core = core(THREADS);
    let mut pty = explore(160, 50, &core);
    pty.keys("4");
    let threads = rows(&["threads", &core], "threads");
    pty.until("threads", |screen| screen.contains(&format!("{} threads, ", threads.len())));
    // One by its number.
    let thread = threads.iter().find(|t| t["frames"].as_array().unwrap().len() > 3).unwrap();
    let tid = thread["tid"].to_string();
    pty.keys(&format!("/{tid}")).keys(ENTER);
    pty.shows("1 of ");
    pty.keys(ENTER);
    pty.shows(&format!("Thread {tid}"));
    pty.shows(&format!("coremap threads --tid {tid}"));
    let names: Vec<&str> =
        thread["frames"].as_array().unwrap().iter().filter_map(|f| f["method"].as_str()).take(3).collect();
    assert!(!names.is_empty());
    // The terminal shows a page in parts.
    for name in names {
        pty.shows(name);
    }
    // Equal stacks together.
    pty.keys(ESC).keys(ESC).keys("v");
    let groups = run(["threads", "--group", "--json", &core]).json()["groups"].as_array().unwrap().len();
    pty.shows("by stack");
    pty.shows(&format!("{groups} stacks"));
    pty.keys("q");
    assert!(pty.end().success());
}

#[test]
fn what_triage_finds_is_the_first_that_is_seen() {
    if !there_is_one() {
        return;
    }
    let core = core(THREADS);
    let mut pty = explore(100, 30, &core);
    let findings = rows(&["triage", &core], "findings");
    let screen =
        pty.until("all findings", |s| s.contains(&format!("{} findings", findings.len())) && s.contains("Owner known"));
    let first = findings[0]["text"].as_str().unwrap().split(' ').take(3).collect::<Vec<_>>().join(" ");
    let at = screen.lines().find(|line| line.starts_with('>')).unwrap();
    assert!(at.contains(&first), "{first}: {screen}");
    // The next row says more of itself than it did.
    pty.keys(DOWN);
    let command = findings[1]["command"].as_str().unwrap();
    let start: String = command.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let shown = pty.until("its command", |screen| screen.contains(&format!("more: {start}")));
    assert!(shown.contains("evidence: "), "{shown}");
    pty.keys(ENTER);
    pty.until("the answer", |screen| {
        screen.lines().nth(3).is_some_and(|l| l.contains(&start)) && screen.contains("Esc back")
    });
    pty.keys("q");
    assert!(pty.end().success());
}

#[test]
fn the_help_has_every_key_and_goes_away() {
    if !there_is_one() {
        return;
    }
    let mut pty = explore(80, 24, &core(GLIBC));
    pty.keys("?");
    let help = pty.shows("show this help");
    for key in ["Enter", "Esc", "Tab", "Ctrl-C", "PgUp"] {
        assert!(help.contains(key), "{key}: {help}");
    }
    pty.keys("x");
    pty.until("the list", |screen| !screen.contains("show this help"));
    // What could not be read, in words: nothing, until the stacks are walked, which lack a file of the core's machine. They may be by now.
    pty.keys("w");
    pty.until("what could not be read", |screen| screen.contains("No warnings so far") || screen.contains("unwind"));
    pty.keys("q");
    assert!(pty.end().success());
}

#[test]
fn it_is_left_at_once_whatever_it_does() {
    if !there_is_one() {
        return;
    }
    // By Ctrl-C also while a filter is typed.
    for before in ["", "2/stack", "?"] {
        let mut pty = explore(80, 24, &core(GLIBC));
        pty.shows("Findings");
        pty.keys(before).keys("\u{3}");
        assert!(pty.end().success(), "{before}");
    }
}

#[test]
fn a_signal_ends_it_with_the_terminal_as_it_was() {
    if !there_is_one() {
        return;
    }
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut pty = explore(80, 24, &core(GLIBC));
        pty.shows("Findings");
        kill_process(Pid::from_raw(pty.pid() as i32).unwrap(), signal).unwrap();
        assert_eq!(pty.end().signal(), Some(signal.as_raw()));
    }
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    if !there_is_one() {
        return;
    }
    let mut pty = explore(80, 24, &core(THREADS));
    pty.shows("findings");
    for (columns, rows) in [(40, 12), (20, 6), (10, 3), (2, 1), (1, 2), (200, 60), (80, 24)] {
        pty.resize(columns, rows);
        for tab in ["1", "2", "3", "4", "5", "?", "x", "w", ESC] {
            pty.keys(tab);
        }
        pty.until("a picture", |screen| !screen.trim().is_empty());
    }
    // All of it is there again, whatever the terminal had kept of it.
    let screen = pty.until("the whole screen", is_whole);
    assert!(screen.contains("5 Malloc"), "{screen}");
    pty.keys("q");
    assert!(pty.end().success());
}

/// Whether the first and the last line of a list are complete.
fn is_whole(screen: &str) -> bool {
    screen.starts_with("coremap explore  ") && screen.trim_end().ends_with("q quit") && screen.contains("v view")
}

/// The terminal has the same size as before, but lost its text. The key and SIGWINCH arrive together.
#[test]
fn a_new_size_and_a_key_at_the_same_time_are_both_handled() {
    if !there_is_one() {
        return;
    }
    let mut pty = explore(80, 24, &core(THREADS));
    pty.shows("\nFindings  ");
    let program = Pid::from_raw(pty.pid() as i32).unwrap();
    for (tab, heading) in [("2", "\nMemory  "), ("1", "\nFindings  "), ("2", "\nMemory  ")] {
        kill_process(program, Signal::STOP).unwrap();
        let stopped = || std::fs::read_to_string(format!("/proc/{}/stat", pty.pid())).unwrap().contains(") T ");
        while !stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
        pty.keys(tab);
        pty.resize(2, 1);
        pty.resize(80, 24);
        kill_process(program, Signal::CONT).unwrap();
        pty.until("the whole screen", |screen| is_whole(screen) && screen.contains(heading));
    }
    pty.keys("q");
    assert!(pty.end().success());
}

#[test]
fn no_colour_and_no_character_that_the_terminal_lacks() {
    if !there_is_one() {
        return;
    }
    let colours = |raw: &[u8]| {
        let text = String::from_utf8_lossy(raw).into_owned();
        regex::Regex::new("\u{1b}\\[[0-9;]*3[0-9](;[0-9;]*)?m|\u{1b}\\[38;").unwrap().is_match(&text)
    };
    let core = core(THREADS);
    let seen = |env: &[(&str, &str)], args: &[&str]| {
        let mut pty = Pty::start(100, 30, &[&["explore"], args, &[&core]].concat(), env);
        pty.shows("deadlock");
        pty.keys("2");
        let screen = pty.shows("GCHeap");
        pty.keys("q");
        assert!(pty.end().success());
        (screen, pty.raw.clone())
    };
    let (screen, raw) = seen(&[], &[]);
    assert!(screen.contains('█') && colours(&raw));
    let (screen, raw) = seen(&[("NO_COLOR", "1")], &[]);
    assert!(screen.contains('█') && !colours(&raw));
    let (screen, raw) = seen(&[], &["--color", "never"]);
    assert!(!screen.contains('█') && !colours(&raw));
    let (_, raw) = seen(&[("NO_COLOR", "1")], &["--color", "always"]);
    assert!(colours(&raw));
    let (screen, raw) = seen(&[("LC_ALL", "C")], &[]);
    assert!(raw.is_ascii() && screen.contains("###"), "{screen}");
}

#[test]
fn names_of_a_hostile_core_do_not_reach_the_terminal() {
    if !there_is_one() {
        return;
    }
    let evil = "e\u{1b}[31m\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{200b}\u{e0041}\r\nil";
    let stack = 0x7fff_0000_0000u64;
    let file = format!("/lib/{evil}.so");
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(7, 11, stack + 0x80, 0, 0))
        .note(notes::prpsinfo(7, evil, evil))
        .note(notes::auxv(&[(6, 4096), (3, 0x40_0040)]))
        .note(notes::files(4096, &[(0x40_0000, 0x40_2000, 0, &file), (0x60_0000, 0x60_1000, 0, &format!("/d/{evil}"))]))
        .load(Load::at(0x40_0000).flags(R | X).bytes(image(&[(0, 0x2000, R | X)], 0x2000)))
        .load(Load::at(0x60_0000).bytes(vec![1; 0x1000]))
        .load(Load::at(stack).bytes(vec![2; 0x1000]))
        .write();
    let mut pty = explore(120, 40, core.path().to_str().unwrap());
    pty.shows("findings");
    pty.keys("2v");
    // The bait was taken: the name is there, with what would harm made visible.
    let screen = pty.shows("il.so");
    assert!(screen.contains("e\\x1b[31m"), "{screen}");
    for keys in ["\r", "\u{1b}", "v\r", "\r", "1", "4", "\r", "w", "?", "x"] {
        pty.keys(keys);
    }
    pty.keys("2");
    pty.shows("Memory");
    pty.keys("q");
    assert!(pty.end().success());
    let raw = String::from_utf8_lossy(&pty.raw);
    for harm in ["\u{1b}]0;", "\u{7}", "\u{9b}", "\u{202e}", "\u{200b}", "\u{e0041}"] {
        assert!(!raw.contains(harm), "{harm:?}");
    }
    assert_eq!(pty.screen.screen().contents().lines().count(), 0, "something was written behind the screen");
}

#[test]
fn without_a_terminal_it_says_what_to_ask_instead() {
    let core = core(GLIBC);
    for (args, words) in [
        (&["explore", &core][..], "stdout is not a terminal; `coremap triage CORE`"),
        (&["explore", "--json", &core], "explore is interactive and has no JSON"),
        (&["explore", "--format", "csv", &core], "explore has no CSV"),
        (&["top", &core], "top needs a running process"),
    ] {
        let out = run(args.iter().copied());
        assert!(out.exits(2).stderr.contains(words), "{args:?}: {}", out.stderr);
        assert_eq!(out.stdout, "");
    }
    if there_is_one() {
        let mut pty = Pty::start(80, 24, &["explore", "no-such-core"], &[]);
        assert_eq!(pty.end().code(), Some(3));
        assert!(pty.text().contains("No such file"), "{}", pty.text());
        let mut dumb = Pty::start(80, 24, &["explore", &core], &[("TERM", "dumb")]);
        assert_eq!(dumb.end().code(), Some(2));
        assert!(dumb.text().contains("TERM=dumb"), "{}", dumb.text());
    }
}

#[test]
fn a_core_from_standard_input_is_shown_and_keys_come_from_the_terminal() {
    if !there_is_one() {
        return;
    }
    // The shell has the terminal; the program's standard input is the file.
    let core = core(GLIBC);
    let script = format!("exec {} explore - < {core}", env!("CARGO_BIN_EXE_coremap"));
    let mut pty = Pty::running(80, 24, &["sh", "-c", &script], &[]);
    pty.shows("findings");
    pty.keys("2").keys(ENTER);
    pty.shows("Memory ›");
    pty.keys("v").keys(ENTER);
    // The open core answers: no program is started that would have to read it again.
    pty.shows("mchunk_size");
    pty.keys("q");
    assert!(pty.end().success());
}

/// A process to look at; `None`, with a word on stderr, where none may be looked at here.
fn process() -> Option<std::process::Child> {
    let mut child = Command::new("sleep").arg("10000").stdin(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    let out = run(["info", "--pid", &pid]);
    if out.code == Some(0) || out.code == Some(4) {
        return Some(child);
    }
    eprintln!("skipped: no process may be looked at here: {}", out.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_process_that_runs_is_looked_at_again_and_again() {
    if !there_is_one() {
        return;
    }
    let Some(mut child) = process() else { return };
    let pid = child.id().to_string();
    let mut pty = Pty::start(120, 30, &["top", "--every", "200ms", "--pid", &pid], &[]);
    let screen = pty.shows("3 samples in");
    assert!(screen.contains(&format!("pid {pid}")) && screen.contains("stopped"), "{screen}");
    assert!(screen.contains("Since first"), "{screen}");
    let kinds = rows(&["summary", "--pid", &pid], "kinds");
    for kind in ["Image", "Stack"] {
        let told = kinds.iter().find(|k| k["kind"] == kind).unwrap();
        assert!(line(&screen, kind).contains(&size(&told["size"])), "{told}: {screen}");
    }
    // Paused it stays as it is, and goes on.
    pty.keys(" ");
    pty.shows("paused");
    pty.keys(" ");
    pty.until("the clock", |screen| !screen.contains("paused"));
    // A question is asked of the process as it is now.
    pty.keys("v").keys(ENTER);
    pty.shows("evidence");
    pty.keys(ESC);
    // It ends: what was seen stays, and it is said.
    child.kill().unwrap();
    child.wait().unwrap();
    let screen = pty.shows("SAMPLE FAILED");
    assert!(screen.contains("no process") && screen.contains("Memory"), "{screen}");
    pty.keys("q");
    assert!(pty.end().success());
}

#[test]
fn a_process_is_looked_at_once_and_runs_on() {
    if !there_is_one() {
        return;
    }
    let Some(mut child) = process() else { return };
    let pid = child.id().to_string();
    let mut pty = Pty::start(120, 30, &["explore", "--pid", &pid], &[]);
    let screen = pty.until("the map", |screen| screen.contains("Stack") && screen.contains("sample again"));
    assert!(screen.contains(&format!("pid {pid}")), "{screen}");
    pty.keys("4");
    pty.shows("1 thread, ");
    pty.keys(ENTER);
    pty.shows(&format!("Thread {pid}"));
    pty.keys("q");
    assert!(pty.end().success());
    let status = std::fs::read_to_string(Path::new("/proc").join(&pid).join("status")).unwrap();
    assert!(status.contains("TracerPid:\t0"), "{status}");
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// `<!-- screen 80x24: explore CORE KEYS -->` before a block of a document.
const SCREEN: &str = "<!-- screen ";

/// What stands on the screen once those keys were typed; `wanted`: what it must come to.
fn pictured(mark: &str, wanted: Option<&str>) -> String {
    let (size, words) = mark.split_once(": ").unwrap();
    let (columns, rows) = size.split_once('x').unwrap();
    let mut words: Vec<&str> = words.split(' ').collect();
    let keys = words.pop().unwrap();
    let mut pty = Pty::start(columns.parse().unwrap(), rows.parse().unwrap(), &words, &[]);
    // What was found decides what the other pages can show: bytes that were written, and warnings.
    pty.until("what triage finds", |screen| screen.contains("Owner known"));
    pty.keys(keys);
    let lines = |screen: &str| screen.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>();
    let seen = match wanted {
        Some(wanted) => pty.until(&format!("the screen of the document\n{wanted}\n"), |screen| lines(screen) == wanted),
        None => pty.settled(),
    };
    pty.keys("q");
    assert!(pty.end().success());
    lines(&seen)
}

#[test]
fn the_document_shows_what_is_on_the_screen() {
    if !there_is_one() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/explore.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let update = std::env::var_os("COREMAP_UPDATE_DOCS").is_some();
    let mut written = text.clone();
    let mut count = 0;
    for (at, _) in text.match_indices(SCREEN) {
        let after = &text[at + SCREEN.len()..];
        let (mark, after) = after.split_once(" -->\n```text\n").unwrap();
        let shown = after.split("```\n").next().unwrap();
        if update {
            let block = |shown: &str| format!("{SCREEN}{mark} -->\n```text\n{shown}```\n");
            written = written.replace(&block(shown), &block(&pictured(mark, None)));
        } else {
            pictured(mark, Some(shown));
        }
        count += 1;
    }
    assert!(count > 1, "{count} screens");
    if update && written != text {
        std::fs::write(path, written).unwrap();
    }
}
