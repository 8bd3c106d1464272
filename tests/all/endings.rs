//! How answers end: what could not be read is warned about by every command in every format.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coremap::commands::{self, Subject};
use coremap::diag::WarningCode;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::render;
use coremap::session::Session;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde_json::Value;

use crate::support::commands::{COMMANDS, FRAMES, NEW, frames};
use crate::support::live::Target;
use crate::support::real;
use crate::support::run::program;

const CORE: &str = "native-glibc-kernel";

/// Represents the core that shrinks, among arguments.
const SHRINKING: &str = "shrinking.core";

/// Stacks as perf prints them.
const PERF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/perf.txt");

/// Represents the same core, which stays as it is.
const OTHER: &str = "other.core";

/// Bytes of the core that are left: its headers and notes.
const LEFT: u64 = 4096;

/// Formats beside `--json`, `--format csv` and the table: arguments that end in a text or a file of another form.
const OTHER_FORMS: &[&[&str]] = &[
    &["threads", "--fold", SHRINKING],
    &["symbolicate", "--fold", PERF, SHRINKING],
    &["maddress", "--summary", SHRINKING],
    &["maddress", "--summary", "--format", "csv", SHRINKING],
    &["report", "-o", "-", SHRINKING],
    &["report", "-o", NEW, OTHER, SHRINKING],
    &["report", "-o", NEW, SHRINKING, OTHER],
    &["record", "-o", "-", SHRINKING],
    &["diff", SHRINKING, OTHER],
    &["shrink", "--scrub", "-o", NEW, SHRINKING],
    &["shrink", "--for", "all", "-o", NEW, SHRINKING],
    &["export", "--to", "speedscope", "-o", NEW, SHRINKING],
    &["export", "--to", "folded", "-o", NEW, SHRINKING],
    &["info", "--show-data", SHRINKING],
];

/// The arguments of every command that reads a core, in every format, and those of [`OTHER_FORMS`].
fn questions() -> Vec<Vec<&'static str>> {
    let mut all: Vec<Vec<&str>> = OTHER_FORMS.iter().map(|args| args.to_vec()).collect();
    for command in COMMANDS.iter() {
        let reads = matches!(command.subject, Subject::Process | Subject::Runtime);
        let core: &[&str] = match command.name {
            // Only what is opened before the log begins can be waited for.
            "trend" => &[SHRINKING, OTHER],
            "diff" => &[OTHER, SHRINKING],
            _ if reads => &[SHRINKING],
            _ => continue,
        };
        let asked = if command.name == "diff" { &[] } else { command.asked };
        for form in [&["--json"][..], &["--format", "csv"], &["--format", "table"]] {
            let no_rows = commands::named(command.name).is_some_and(|c| c.without_rows.is_some());
            if form.last() == Some(&"csv") && no_rows {
                continue;
            }
            all.push([&[command.name], form, asked, core].concat());
        }
    }
    all
}

/// A socket that takes nothing until it is read, and its end for reading.
fn full_socket() -> (UnixStream, OwnedFd) {
    let (read, mut write) = UnixStream::pair().unwrap();
    write.set_nonblocking(true).unwrap();
    for len in [4096, 64, 1] {
        while write.write(&vec![b'\n'; len]).is_ok() {}
    }
    write.set_nonblocking(false).unwrap();
    (read, write.into())
}

/// Wait until the program has mapped the file.
fn is_mapped(child: &mut Child, path: &Path) -> bool {
    let (maps, path) = (format!("/proc/{}/maps", child.id()), path.to_str().unwrap());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains(path)) {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    false
}

/// Status, stdout and stderr of a command whose core is cut after it was opened and before the answer is done.
///
/// The program writes its log to stderr (`-vv`), and stderr takes nothing until the core is cut. So the program waits
/// at the first line of its log.
fn while_its_core_shrinks(args: &[&str]) -> (Option<i32>, String, String) {
    let (dir, text) = (tempfile::tempdir().unwrap(), frames());
    let core = dir.path().join("core");
    std::fs::copy(real::plain(CORE), &core).unwrap();
    let words = args.iter().map(|&arg| match arg {
        SHRINKING => core.clone(),
        OTHER => real::plain(CORE),
        NEW => dir.path().join("new"),
        FRAMES => text.path().to_owned(),
        arg => arg.into(),
    });
    let (mut log, stderr) = full_socket();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coremap"));
    command.arg("-vv").args(words).current_dir(dir.path()).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(stderr));
    let mut child = command.spawn().unwrap();
    // It holds the end of the socket that must be closed for the log to end.
    drop(command);
    assert!(is_mapped(&mut child, &core), "{args:?} did not open its core");
    File::options().write(true).open(&core).unwrap().set_len(LEFT).unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        log.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let out = child.wait_with_output().unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned(), reader.join().unwrap())
}

#[test]
fn a_core_that_shrinks_is_reported_by_every_command_in_every_format() {
    let wrong: Vec<String> = questions()
        .into_par_iter()
        .filter_map(|args| {
            let (code, stdout, stderr) = while_its_core_shrinks(&args);
            let said = |text: &str| text.contains("shrank: the core file became shorter");
            let in_table = args[0] == "info" && !args.contains(&"csv") && !args.contains(&"--json");
            let mut why = Vec::new();
            if code != Some(4) {
                why.push(format!("status {code:?}"));
            }
            // The table of `info` has the warnings, and nothing repeats them.
            if in_table && !stdout.contains("shrank") || !in_table && !said(&stderr) {
                why.push("no warning".to_owned());
            }
            if args.contains(&"--json") {
                let answer: Value = serde_json::from_str(&stdout).unwrap_or_default();
                let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
                if !warnings.iter().any(|w| w["code"] == "shrank") {
                    why.push("no warning in the JSON".to_owned());
                }
            }
            (!why.is_empty()).then(|| format!("{args:?}: {}\n{}", why.join(", "), stderr.trim()))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), questions().len(), wrong.join("\n"));
}

/// Times that a command reads a process until it ran on meanwhile.
const ATTEMPTS: usize = 50;

/// A process that may be stopped for no time at all runs on while it is read.
#[test]
fn a_process_that_ran_on_is_reported_by_every_command_in_every_format() {
    let Some(target) = Target::start() else { return };
    let path = target.path();
    let dir = tempfile::tempdir().unwrap();
    let text = frames();
    for (number, args) in questions().iter().enumerate() {
        // `shrink` is for cores.
        if args.contains(&OTHER) || args[0] == "shrink" {
            continue;
        }
        let limits: &[&str] = if args[0] == "record" { &["--looks", "1"] } else { &[] };
        let ask = |attempt: usize| {
            let new = dir.path().join(format!("{number}-{attempt}"));
            let words = args.iter().map(|&arg| match arg {
                SHRINKING => path.as_str(),
                NEW => new.to_str().unwrap(),
                FRAMES => text.path().to_str().unwrap(),
                arg => arg,
            });
            program(words.chain(["-v", "--stop-at-most", "0.001ms"]).chain(limits.iter().copied())).go()
        };
        // On a busy machine all may be read before the thread that resumes the process runs: it did not run on then.
        let mut attempts = (0..ATTEMPTS).map(ask);
        let first = attempts.next().unwrap();
        let out = if first.code == Some(4) { first } else { attempts.find(|out| out.code == Some(4)).unwrap_or(first) };
        assert_eq!(out.is_sound().code, Some(4), "{args:?}: {}", out.stderr);
        assert!(format!("{}{}", out.stderr, out.stdout).contains("ran-on"), "{args:?}: {}", out.stderr);
    }
    target.goes_on();
}

/// Codes of the warnings about a process, in an answer in JSON.
fn codes(process: &Process) -> Vec<WarningCode> {
    let session = Session::new(process);
    let report = commands::threads(&session, Default::default());
    let answer = commands::envelope("threads", &session, report);
    render::json(&answer, &mut std::io::sink()).unwrap();
    answer.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn a_process_has_its_own_losses_only() {
    let dir = tempfile::tempdir().unwrap();
    let (core, other) = (dir.path().join("core"), dir.path().join("other"));
    for path in [&core, &other] {
        std::fs::copy(real::plain(CORE), path).unwrap();
    }
    let open = |path: &Path| {
        let options = Options { handle_sigbus: true, ..Options::default() };
        Process::open(path, &options, &Progress::silent()).unwrap()
    };
    let (shrinks, stays) = (open(&core), open(&other));
    File::options().write(true).open(&core).unwrap().set_len(LEFT).unwrap();
    assert!(codes(&shrinks).contains(&WarningCode::Shrank));
    assert!(shrinks.diag.is_partial());
    assert!(!codes(&stays).contains(&WarningCode::Shrank));
    assert!(!stays.diag.is_partial(), "{:?}", stays.diag.warnings());
    // A process that is opened later has none either, wherever its file is mapped.
    drop(shrinks);
    assert!(!codes(&open(&other)).contains(&WarningCode::Shrank));
    // A second answer does not repeat a warning.
    let again = stays.diag.warnings().len();
    codes(&stays);
    assert_eq!(stays.diag.warnings().len(), again);
}
