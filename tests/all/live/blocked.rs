//! A process is held neither by a terminal or a pipe that takes no text, nor by coremap being suspended or killed.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, tcflow};

use crate::support::commands::COMMANDS;
use crate::support::live::Target;
use crate::support::{Rng, number};

/// Time after which a test fails. Long, because the machine may be busy with other tests.
const TOO_LONG: Duration = Duration::from_secs(100);

/// Commands that read no running process, or draw on the terminal.
const OTHERS: [&str; 10] =
    ["completions", "explore", "man", "mcp", "schema", "shell", "shrink", "symbolicate", "top", "trend"];

/// A core to compare a process with.
const GLIBC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cores/native-glibc-kernel/core.gz");

/// Starts coremap with the default effect of all signals: some are ignored if the tests run in the background.
fn coremap(args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_coremap")]).args(args);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A pipe that is full and that nobody reads.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let flags = fcntl_getfl(writer.as_fd()).expect("flags");
    fcntl_setfl(writer.as_fd(), flags | OFlags::NONBLOCK).expect("flags");
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl_setfl(writer.as_fd(), flags).expect("flags");
    (reader, writer)
}

/// A terminal that is stopped as by Ctrl-S. The file is its other end.
fn stopped_terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).expect("a terminal");
    unlockpt(&master).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("a terminal");
    let slave = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("a terminal");
    tcflow(&slave, Action::OOff).expect("a stopped terminal");
    (File::from(master), File::from(slave))
}

fn is_traced(target: &Target) -> bool {
    target.line("status", "TracerPid:") != "0"
}

fn wait_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + TOO_LONG;
    while !is() {
        assert!(Instant::now() < until, "{what}: never");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// State of a process: the letter in /proc/PID/stat.
fn state(child: &Child) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).unwrap_or('X')
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a signal");
}

/// Ends a child, whatever it waits for.
fn end(mut child: Child) {
    let _ = child.kill();
    child.wait().expect("it ends");
}

/// Every command that reads a running process, with arguments for it.
fn commands(target: &Target, folder: &std::path::Path) -> Vec<Vec<String>> {
    let path = target.path();
    let out = |name: &str| folder.join(name).display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let known = COMMANDS.iter().filter(|command| !OTHERS.contains(&command.name));
    known
        .map(|command| match command.name {
            name @ "diff" => words(&[name, GLIBC, &path]),
            name @ "record" => words(&[name, "--looks", "1", "-o", "-", &path]),
            name @ "dump" => words(&[name, "--for", "threads", "-o", &out("core"), &path]),
            name @ "report" => words(&[name, "-o", "-", &path]),
            name @ "export" => words(&[name, "--to", "folded", "-o", &out("folded"), &path]),
            name => words(&[&[name], command.asked, &[path.as_str()]].concat()),
        })
        .collect()
}

/// Starts a command whose output nobody reads, and waits until it stops the process. A short stop may pass between two
/// looks at the process, and then the command waits for its reader forever, so it is started again.
fn started(args: &[&str], target: &Target) -> (Child, [PipeReader; 2]) {
    for _ in 0..20 {
        let ((out, full_out), (err, full_err)) = (full_pipe(), full_pipe());
        let child = coremap(args).stdout(full_out).stderr(full_err).spawn().expect("coremap starts");
        let until = Instant::now() + TOO_LONG / 20;
        while Instant::now() < until {
            if is_traced(target) {
                return (child, [out, err]);
            }
            assert_ne!(state(&child), 'Z', "{args:?} ended although nobody read what it wrote");
            std::thread::sleep(Duration::from_micros(200));
        }
        end(child);
    }
    panic!("{args:?} stops the process: never");
}

#[test]
fn no_command_holds_a_process_until_its_output_is_read() {
    let Some(target) = Target::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for words in commands(&target, folder.path()) {
        let args: Vec<&str> = words.iter().map(String::as_str).chain(["-vv"]).collect();
        let (child, _pipes) = started(&args, &target);
        wait_for(&format!("{args:?} resumes the process"), || !is_traced(&target));
        target.goes_on();
        // It waits for its reader, so it can't have ended.
        assert_ne!(state(&child), 'Z', "{args:?} ended although nobody read what it wrote");
        end(child);
        target.goes_on();
    }
}

#[test]
fn no_command_stops_a_process_before_its_input_is_read() {
    let Some(target) = Target::start() else { return };
    for words in [&["symbolicate", "-"][..], &["ip2method", "-"], &["whatis", "-"]] {
        let (reader, mut writer) = pipe().expect("a pipe");
        let path = target.path();
        let args = [words, &[path.as_str()]].concat();
        let child = coremap(&args).stdin(reader).spawn().expect("coremap starts");
        writeln!(writer, "{:#x}", target.places[0]).expect("some input");
        // Blocked in read, with its handlers installed: that it has done all it can do without more input.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!is_traced(&target), "{words:?}");
        drop(writer);
        wait_for(&format!("{words:?} stops the process"), || is_traced(&target) || state(&child) == 'Z');
        wait_for(&format!("{words:?} ends"), || state(&child) == 'Z');
        end(child);
        target.goes_on();
    }
}

#[test]
fn a_process_survives_looks_that_are_blocked_suspended_or_killed() {
    let Some(target) = Target::start() else { return };
    let mut rng = Rng(5820);
    for look in 0..number("COREMAP_LOOKS", 8) {
        let command = ["leaks", "triage", "summary", "threads"][rng.below(4) as usize];
        let args = [command, "-vv", &target.path()];
        if look % 4 == 0 {
            let (_master, terminal) = stopped_terminal();
            let child = coremap(&args).stderr(terminal).spawn().expect("coremap starts");
            wait_for("a process that is stopped", || is_traced(&target) || state(&child) == 'Z');
            wait_for("a process that runs, beside a stopped terminal", || !is_traced(&target));
            target.goes_on();
            assert_ne!(state(&child), 'Z', "nothing was written to the terminal");
            end(child);
        } else if look % 4 == 1 {
            let child = coremap(&args).spawn().expect("coremap starts");
            std::thread::sleep(Duration::from_micros(rng.below(60_000)));
            end(child);
        } else {
            let suspends = [Signal::TSTP, Signal::TTIN, Signal::TTOU][rng.below(3) as usize];
            let mut child = coremap(&args).spawn().expect("coremap starts");
            wait_for("a process that is stopped", || is_traced(&target) || state(&child) == 'Z');
            std::thread::sleep(Duration::from_micros(rng.below(20_000)));
            signal(&child, suspends);
            wait_for("coremap that is suspended", || ['T', 'Z'].contains(&state(&child)));
            // At most the end of a stop is being handled.
            wait_for("a process that runs, beside a suspended coremap", || !is_traced(&target));
            target.goes_on();
            if state(&child) != 'Z' {
                assert_eq!(state(&child), 'T', "{suspends:?} suspends");
                signal(&child, Signal::CONT);
            }
            assert!(child.wait().is_ok_and(|status| status.success()), "{command}");
        }
        target.goes_on();
    }
}
