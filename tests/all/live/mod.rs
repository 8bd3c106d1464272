//! A process that runs: the same answers as of a core, and no harm done.

mod blocked;
mod copied;
mod files;
mod resident;
mod states;

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::Rng;
use crate::support::live::Target;
use crate::support::run::program;

const MIB: u64 = 1 << 20;

fn answer(args: &[&str]) -> Value {
    let output = program(args).go();
    output.is_sound().exits(0);
    output.json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn address(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().and_then(|a| a.strip_prefix("0x")).expect("an address"), 16).expect("hex")
}

/// start, end, access and path of each line of /proc/PID/maps.
fn maps(target: &Target) -> Vec<(u64, u64, String, String)> {
    let text = std::fs::read_to_string(format!("{}/maps", target.path())).expect("maps");
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?.to_owned();
        let path = fields.skip(3).collect::<Vec<_>>().join(" ");
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?, access, path))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn the_map_is_that_of_proc_maps() {
    let Some(target) = Target::start() else { return };
    target.stand_still();
    let answer = answer(&["regions", "--json", "--pid", &target.pid().to_string()]);
    assert_eq!(answer["core"]["producer"], "live");
    assert_eq!(number(&answer["core"]["pid"]), u64::from(target.pid()));
    assert!(answer["core"]["stopped_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    let regions = answer["regions"].as_array().expect("regions");
    let size: u64 = maps(&target).iter().map(|(start, end, ..)| end - start).sum();
    assert_eq!(regions.iter().map(|r| number(&r["size"])).sum::<u64>(), size);
    for (start, end, access, path) in maps(&target) {
        let inside = regions.iter().filter(|r| address(&r["start"]) < end && address(&r["end"]) > start);
        for region in inside {
            assert!(
                address(&region["start"]) >= start && address(&region["end"]) <= end,
                "{region} in {access} {path}"
            );
            let letters = region["perms"].as_str().expect("access");
            assert_eq!(letters.get(..3), access.get(..3), "{region}");
            if path.starts_with('/') {
                assert_eq!(region["file"], Value::from(path.as_str()), "{region}");
            }
        }
    }
    // What the program said itself.
    let kind = |at: u64| {
        let region = regions.iter().find(|r| (address(&r["start"])..address(&r["end"])).contains(&at));
        region.map(|r| r["kind"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    let [sparse, shared, closed, untouched] = target.places;
    let kinds = [sparse, shared, closed, untouched].map(kind);
    assert_eq!(kinds, ["AnonRW", "SharedMemory", "NoAccess", "MappedFile"]);
}

#[test]
fn threads_are_where_the_kernel_says() {
    let Some(target) = Target::start() else { return };
    target.stand_still();
    let answer = answer(&["threads", "--json", &target.path()]);
    let threads = answer["threads"].as_array().expect("threads");
    let told: Vec<(u64, &str)> =
        threads.iter().map(|t| (number(&t["tid"]), t["name"].as_str().unwrap_or_default())).collect();
    let mut sorted = told.clone();
    sorted.sort_unstable();
    let known = target.threads();
    let wanted: Vec<(u64, &str)> = known.iter().map(|(tid, _, name)| (u64::from(*tid), name.as_str())).collect();
    assert_eq!(sorted, wanted);
    let mut in_read = 0;
    for thread in threads {
        let tid = number(&thread["tid"]);
        let frames = thread["frames"].as_array().expect("frames");
        // NUMBER ARGS… SP PC, of a thread that waits in the kernel.
        let text = std::fs::read_to_string(format!("{}/task/{tid}/syscall", target.path())).expect("syscall");
        let words: Vec<&str> = text.split_whitespace().collect();
        if let [.., sp, ip] = words.as_slice()
            && words.len() > 2
        {
            assert_eq!(frames[0]["sp"], *sp, "thread {tid}");
            assert_eq!(frames[0]["ip"], *ip, "thread {tid}");
        }
        let methods: Vec<&str> = frames.iter().filter_map(|f| f["method"].as_str()).collect();
        in_read += usize::from(
            methods.iter().any(|m| m.contains("waiting") || m.trim_start_matches("__").starts_with("read")),
        );
        assert!(frames.len() >= 3, "thread {tid}: {methods:?}");
    }
    assert_eq!(in_read, 4, "the workers");
}

#[test]
fn malloc_is_what_the_program_took() {
    let Some(target) = Target::start() else { return };
    target.stand_still();
    let answer = answer(&["malloc", "--json", &target.path()]);
    let clusters = answer["clusters"].as_array().expect("clusters");
    // 1,000 bytes are a chunk of 1,008, and a MiB has a mapping of its own: two pages more at the most.
    let small = clusters.iter().find(|c| number(&c["size"]) == 1008 && c["fill"] == 0x5a).expect("1,008");
    assert_eq!(number(&small["count"]), 1000);
    let large = clusters.iter().filter(|c| number(&c["size"]) > MIB);
    assert_eq!(large.map(|c| number(&c["count"])).sum::<u64>(), 3);
}

/// The kernel brings in what a reader asks for by /proc/PID/mem. So nothing is asked for that is not there.
#[test]
fn a_look_makes_the_process_no_larger() {
    let Some(target) = Target::start() else { return };
    target.stand_still();
    let figures = || ["Rss", "Anonymous", "Swap"].map(|key| target.smaps(key));
    let tables = || target.line("status", "VmPTE:");
    let before = (figures(), tables());
    let summary = answer(&["summary", "--zero-fill", "--json", &target.path()]);
    for args in [&["stacks", "--zero-fill"][..], &["threads"], &["malloc"], &["triage"], &["regions"], &["anon"]] {
        answer(&[args, &["--json", &target.path()]].concat());
    }
    let found = answer(&["search", "--hex", "5c5c5c5c5c5c5c5c", "--limit", "1", "--json", &target.path()]);
    assert_eq!((figures(), tables()), before);
    // All of what was written in 4 GiB was seen, and nothing else: pages of zeros that were read are none.
    let anonymous = summary["kinds"].as_array().and_then(|k| k.iter().find(|k| k["kind"] == "AnonRW")).expect("AnonRW");
    let written = number(&anonymous["written"]);
    assert!((8 * MIB..8 * MIB + 64 * 4096).contains(&written), "{written}");
    assert_eq!(address(&found["hits"][0]["address"]), target.places[0] + 2048 * MIB);
    target.go_on();
    target.goes_on();
}

#[test]
fn a_process_goes_on_whatever_becomes_of_us() {
    let Some(target) = Target::start() else { return };
    let mut rng = Rng(22);
    let program = env!("CARGO_BIN_EXE_coremap");
    for round in 0..20 {
        let command = ["summary", "threads", "triage", "malloc"][round % 4];
        let mut child = Command::new(program)
            .args([command, "--json", &target.path()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("coremap starts");
        std::thread::sleep(Duration::from_micros(rng.below(40_000)));
        let signal = [Signal::KILL, Signal::INT, Signal::TERM][round % 3];
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal);
        child.wait().expect("it ends");
        target.goes_on();
    }
}

#[test]
fn many_looks_lose_no_signal() {
    let Some(target) = Target::start() else { return };
    for _ in 0..40 {
        answer(&["summary", "--json", &target.path()]);
    }
    target.goes_on();
}

#[test]
fn a_process_may_end_meanwhile() {
    for wait in [0, 3, 10, 30] {
        let Some(target) = Target::start() else { return };
        let path = target.path();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(wait));
            target.send(Signal::KILL);
            target
        });
        let output = program(["triage", "--json", &path]).within(Duration::from_secs(60)).go();
        output.is_sound();
        assert!([Some(0), Some(3), Some(4)].contains(&output.code), "{:?}", output.code);
        drop(ends.join());
    }
}

#[test]
fn a_process_can_run_while_it_is_read() {
    let Some(target) = Target::start() else { return };
    let answer = answer(&["threads", "--no-stop", "--json", &target.path()]);
    assert_eq!(answer["core"]["stopped_ms"].as_f64(), Some(0.0));
    assert!(answer["warnings"].as_array().is_some_and(|w| w.iter().any(|w| w["code"] == "not-stopped")), "{answer}");
    // Those that wait in the kernel have a place; nothing is made up of the others' registers.
    let threads = answer["threads"].as_array().expect("threads");
    let workers = threads.iter().filter(|t| t["name"].as_str().is_some_and(|n| n.starts_with("worker")));
    assert_eq!(workers.filter(|t| !t["frames"].as_array().is_none_or(Vec::is_empty)).count(), 4, "{answer}");
    target.goes_on();
}

#[test]
fn it_goes_on_when_its_time_is_up() {
    let Some(target) = Target::start() else { return };
    let output = program(["triage", "--stop-at-most", "1ms", "--json", &target.path()]).go();
    let warnings = output.json()["warnings"].clone();
    assert!(warnings.as_array().is_some_and(|w| w.iter().any(|w| w["code"] == "ran-on")), "{warnings}");
    output.exits(4);
    target.goes_on();
}

#[test]
fn a_process_is_named_in_three_ways() {
    let Some(target) = Target::start() else { return };
    let pid = target.pid().to_string();
    for args in [&["summary", "--json", pid.as_str()][..], &["--json", "summary", "--pid", &pid], &["--json", &pid]] {
        assert_eq!(number(&answer(args)["core"]["pid"]), u64::from(target.pid()), "{args:?}");
    }
}

#[test]
fn who_may_not_be_looked_at_gets_a_sentence() {
    let mut child = Command::new("true").spawn().expect("true");
    let pid = child.id().to_string();
    // Not waited for yet: a zombie, once it has ended.
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let zombie = program(["summary", "--pid", &pid]).go();
    zombie.exits(3);
    assert!(zombie.stderr.contains("zombie"), "{}", zombie.stderr);
    child.wait().expect("true ends");
    let gone = program(["summary", "--pid", &pid]).go();
    gone.exits(3);
    assert!(gone.stderr.contains("no process"), "{}", gone.stderr);
}
