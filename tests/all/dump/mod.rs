//! `coremap dump`: cores of a process that runs. They are compared with the process itself, which stands still meanwhile, and with
//! gdb's gcore of it.

mod target;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::targets::residence::Figure;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::builder::small_core;
use crate::support::elf;
use crate::support::run::{Output, program, run, shell};
use target::Running;

/// `coremap dump --pid`, with more arguments.
fn dump(of: &Running, out: &Path, more: &[&str]) -> Output {
    let pid = of.pid().to_string();
    run([&["dump", "--json", "--pid", &pid, "-o", out.to_str().unwrap()], more].concat())
}

/// What a command says of the process, or of a core of it.
fn ask(command: &str, subject: &[&str]) -> Value {
    let out = run([&[command, "--json"], subject].concat());
    assert!(matches!(out.is_sound().code, Some(0 | 1)), "{command} {subject:?}: {}", out.stderr);
    out.json()
}

/// What was resident is in no core of gdb's.
fn without_residence(v: &mut Value) {
    match v {
        Value::Object(map) => {
            map.retain(|key, _| !["rss", "rss_estimated", "others_estimated", "swap", "huge"].contains(&key.as_str()));
            map.values_mut().for_each(without_residence);
        }
        Value::Array(list) => list.iter_mut().for_each(without_residence),
        _ => {}
    }
}

/// `ask` without what names the file, and what is only how much of memory the file holds.
fn comparable(mut answer: Value) -> Value {
    fn strip(v: &mut Value) {
        match v {
            Value::Object(map) => {
                // Where figures come from, and what other processes that run the same program change, too.
                for key in [
                    "core",
                    "in_core",
                    "warnings",
                    "evidence",
                    "findings",
                    "completeness",
                    "source",
                    "cgroup",
                    "pss",
                    "private_dirty",
                    // With the time of threads that have ended, which a core has no place for.
                    "process_cpu_ms",
                    "shared",
                ] {
                    map.remove(key);
                }
                map.values_mut().for_each(strip);
            }
            Value::Array(list) => list.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut answer);
    if let Some(kinds) = answer.get_mut("kinds").and_then(Value::as_array_mut) {
        kinds.sort_by_key(|kind| kind["kind"].as_str().unwrap().to_owned());
    }
    answer
}

/// Removes resident bytes that the dump's answer marks as an estimate: glibc 2.43 has stacks and their guards in one
/// mapping, whose figures smaps has as a whole. The process's own answer divides them by page.
fn leave_out_estimates(of_dump: &mut Value, of_process: &mut Value) {
    match (of_dump, of_process) {
        (Value::Object(dump), Value::Object(process)) => {
            let estimated = [
                ("rss_estimated", &["rss", "rss_estimated"] as &[&str]),
                ("others_estimated", &["pss", "private_dirty", "shared", "swap", "huge", "others_estimated"]),
            ];
            for (mark, figures) in estimated {
                if dump.get(mark).and_then(Value::as_u64).is_some_and(|bytes| bytes > 0) {
                    for key in figures {
                        dump.remove(*key);
                        process.remove(*key);
                    }
                }
            }
            for (key, inner) in dump.iter_mut() {
                if let Some(other) = process.get_mut(key) {
                    leave_out_estimates(inner, other);
                }
            }
        }
        (Value::Array(dump), Value::Array(process)) => {
            dump.iter_mut().zip(process).for_each(|(a, b)| leave_out_estimates(a, b));
        }
        _ => {}
    }
}

#[test]
fn a_dump_answers_as_the_process() {
    let Some(process) = Running::start(1) else { return };
    process.stop();
    let folder = tempfile::tempdir().unwrap();
    let pid = process.pid().to_string();
    // The program's own names of functions are in its file alone; a process has its files at hand.
    let symbols = target::program().unwrap().parent().unwrap().to_str().unwrap();
    let commands = ["summary", "regions", "stacks", "threads", "malloc"];
    let live: Vec<Value> = commands.iter().map(|command| ask(command, &["--pid", &pid])).collect();
    assert_eq!(live[3]["threads"].as_array().unwrap().len(), 4);
    assert!(live[3]["threads"][1]["frames"].as_array().unwrap().len() > 7, "{}", live[3]["threads"][1]);
    for purpose in [None, Some("all"), Some("info,summary,regions,stacks,threads,malloc")] {
        let core = folder.path().join(purpose.unwrap_or("full"));
        let more = purpose.map(|p| vec!["--for", p]).unwrap_or_default();
        let out = dump(&process, &core, &more);
        let report = out.exits(0).json();
        assert_eq!(core.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(report["size"], core.metadata().unwrap().len());
        assert!(report["core"]["stopped_ms"].as_f64().unwrap() > 0.0, "{report}");
        assert_eq!(report["kept_for"].is_null(), purpose.is_none(), "{report}");
        let core = core.to_str().unwrap();
        run(["check", core]).exits(0);
        for (command, live) in commands.iter().zip(&live) {
            let told = ask(command, &[core, "--symbols", symbols, "--symbols", "/"]);
            assert_eq!(told["core"]["producer"], "coremap");
            let mut live = live.clone();
            if *command == "malloc" {
                // Where in a section something lies is known by the file's table of sections.
                live["clusters"].take();
            }
            let mut told = comparable(told);
            if *command == "malloc" {
                told["clusters"].take();
            }
            let mut live = comparable(live);
            leave_out_estimates(&mut told, &mut live);
            assert_eq!(told, live, "{command} of {core}");
        }
        process.wait(|state| state == 'T');
    }
    // With no file of the program at hand the stacks are the same, but for names.
    let core = folder.path().join("full");
    let ips = |answer: &Value| {
        let threads = answer["threads"].as_array().unwrap().iter();
        let frames = threads.flat_map(|t| t["frames"].as_array().unwrap());
        frames.map(|f| (f["ip"].clone(), f["sp"].clone(), f["trust"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(ips(&ask("threads", &[core.to_str().unwrap()])), ips(&live[3]));
    process.send(Signal::CONT);
    process.goes_on();
}

#[test]
fn a_full_dump_holds_what_a_core_of_the_kernel_would() {
    let Some(process) = Running::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    dump(&process, &core, &[]).exits(0);
    process.goes_on();
    let bytes = std::fs::read(&core).unwrap();
    let told = elf::read(&bytes);
    let load = |name: &str| *told.loads.iter().find(|load| load.vaddr == process.place(name)).unwrap();
    let lens = |name: &str| (load(name).filesz, load(name).memsz, load(name).flags);
    // The kernel may have joined it with a mapping behind it.
    let (file_size, size, flags) = lens("full");
    assert!(file_size == size && size >= 1 << 20 && flags == 6, "{file_size} {size} {flags}");
    assert_eq!(lens("sparse"), (64 << 20, 64 << 20, 6));
    assert_eq!(lens("read_only"), (1 << 20, 1 << 20, 4));
    assert_eq!(lens("shared"), (65536, 65536, 6));
    // The program does not want this one in any dump, and nobody can have touched the other.
    assert_eq!(lens("secret"), (0, 1 << 20, 6));
    assert_eq!(lens("none"), (0, 16 << 20, 0));
    assert_eq!(memchr::memmem::find(&bytes, b"SECRET-DONT-DUMP"), None);
    assert!(memchr::memmem::find(&bytes, b"shared by name").is_some());
    let at = load("full").offset as usize;
    for i in [0, 8, 4096, (1 << 20) - 8] {
        let word = u64::from_le_bytes(bytes[at + i..at + i + 8].try_into().unwrap());
        assert_eq!(word, (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), "at {i}");
    }
    // Of 64 MiB one page in ten was written.
    let meta = core.metadata().unwrap();
    assert!(std::os::unix::fs::MetadataExt::blocks(&meta) * 512 < 24 << 20 || meta.len() < 64 << 20, "no holes");
    // A small one has none of it either.
    let small = folder.path().join("small");
    dump(&process, &small, &["--for", "all"]).exits(0);
    assert_eq!(memchr::memmem::find(&std::fs::read(&small).unwrap(), b"SECRET-DONT-DUMP"), None);
    assert!(small.metadata().unwrap().len() < meta.len() / 4);
}

#[test]
fn notes_of_its_own_come_back() {
    let Some(process) = Running::start(1) else { return };
    process.stop();
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    let report = dump(&process, &core, &["--for", "threads,info"]).exits(0).json();
    assert_eq!(report["kept_for"], "threads,info");
    let opened = Process::open(&core, &Options::default(), &Progress::silent()).unwrap();
    let facts = opened.facts();
    let dumped = facts.dumped.as_ref().unwrap();
    assert_eq!((dumped.kept.join(","), dumped.version.as_str()), ("threads,info".into(), env!("CARGO_PKG_VERSION")));
    let stop = dumped.stop.unwrap();
    assert!(!stop.timed_out && !stop.lost && stop.lasted > Duration::ZERO);
    let mut names: Vec<&str> = facts.thread_names.values().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["alpha", "beta b", "gamma", "target"]);
    // What was resident, as /proc tells it of the process that stands still.
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", process.pid())).unwrap();
    let resident = facts.residence.as_ref().unwrap();
    let rss = |line: &str| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    let sum: u64 = smaps.lines().filter_map(rss).sum();
    assert_eq!(resident.total().get(Figure::Rss), sum << 10);
    assert_eq!(resident.status.pid, Some(process.pid()));
    let sparse = resident.mapping_at(coremap::addr::Addr::new(process.place("sparse"))).unwrap();
    let pages = resident.pages.as_ref().unwrap().pages(sparse.range).unwrap();
    assert_eq!(pages.resident.iter().map(|run| run.len()).sum::<u64>(), sparse.figures.get(Figure::Rss));
    assert_eq!(pages.resident[0].start.get(), process.place("sparse"));
    // Threads are shown by their names, as of no other core.
    let threads = ask("threads", &[core.to_str().unwrap()]);
    let mut told: Vec<&str> =
        threads["threads"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, names);
    let info = ask("info", &[core.to_str().unwrap()]);
    let note = info["completeness"]["notes"][0].as_str().unwrap();
    assert!(note.contains("for threads, info") && note.contains("was stopped for"), "{note}");
    // What it was not made for is told from damage.
    let out = run(["malloc", core.to_str().unwrap()]);
    assert!(out.exits(4).stderr.contains("this core was written with `dump --for`"), "{}", out.stderr);
}

#[test]
fn a_compressed_dump_is_the_same_core() {
    let Some(process) = Running::start(3) else { return };
    process.stop();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("core");
    dump(&process, &plain, &[]).exits(0);
    let summary = ask("summary", &[plain.to_str().unwrap()]);
    for (name, more, form) in [
        ("core.zst", &[][..], "zst"),
        ("core.gz", &[], "gz"),
        ("core.xz", &[], "xz"),
        ("core.lz4", &[], "lz4"),
        ("packed", &["--compress", "zstd"], "zst"),
        ("small.zst", &["--for", "summary,threads"], "zst"),
    ] {
        let packed = folder.path().join(name);
        let report = dump(&process, &packed, more).exits(0).json();
        let len = packed.metadata().unwrap().len();
        assert_eq!((&report["packed"], &report["size"]), (&json!(form), &json!(len)));
        let told = ask("summary", &[packed.to_str().unwrap()]);
        assert_eq!(told["core"]["packed"], form);
        assert_eq!(told["core"]["size"], report["unpacked"]);
        assert_eq!(comparable(told), comparable(summary.clone()), "{name}");
        // 64 MiB of which one page in ten has one byte, beside 3 MiB that no compression makes smaller.
        assert!(len < 6 << 20, "{name}: {len}");
        run(["check", packed.to_str().unwrap()]).exits(0);
    }
    let not = folder.path().join("no.zst");
    assert!(dump(&process, &not, &["--compress", "none"]).exits(0).json()["packed"].is_null());
    assert!(std::fs::read(&not).unwrap().starts_with(b"\x7fELF"));
}

#[test]
fn what_cant_be_dumped_is_said() {
    let Some(process) = Running::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "mine").unwrap();
    std::os::unix::fs::symlink("nothing", folder.path().join("link")).unwrap();
    for name in ["there", "link"] {
        let out = dump(&process, &folder.path().join(name), &[]);
        assert!(out.exits(2).stderr.contains("exists already"), "{}", out.stderr);
    }
    assert_eq!(std::fs::read(&there).unwrap(), b"mine");
    let new = folder.path().join("new");
    let out = dump(&process, &new, &["--no-stop"]);
    assert!(out.exits(2).stderr.contains("--stop-at-most"), "{}", out.stderr);
    let core = small_core().write();
    let out = run(["dump", "-o", new.to_str().unwrap(), core.path().to_str().unwrap()]);
    assert!(out.exits(2).stderr.contains("is a core") && out.stderr.contains("coremap shrink"), "{}", out.stderr);
    let out = run(["dump", "-o", new.to_str().unwrap(), "--pid", "999999999"]);
    assert!(out.exits(3).stderr.contains("no process 999999999"), "{}", out.stderr);
    let out = dump(&process, Path::new("/no/such/folder/core"), &[]);
    assert!(out.exits(2).stderr.contains("/no/such/folder/core"), "{}", out.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    process.goes_on();
}

#[test]
fn a_disk_that_is_too_small_gets_nothing() {
    let Some(process) = Running::start(32) else { return };
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root can mount a small tmpfs and look at a process outside of it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let can = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: unshare can't make a mount namespace here");
        return;
    }
    for (name, more) in
        [("core", ""), ("core.zst", ""), ("core", "--for all --compress none"), ("core.xz", "--for all")]
    {
        let script = format!(
            "mount -t tmpfs -o size=$3 none \"$2\" && cd \"$2\" && \"$0\" dump --pid \"$1\" -o {name} {more}; status=$?; ls -A; \
             df --output=used . | tail -1; exit $status"
        );
        // Full before anything is written, in the midst of it, and where another has taken the room since.
        let size = if more.is_empty() { "16m" } else { "64k" };
        let inside = format!("unshare -m sh -c '{}' \"$0\" \"$1\" \"$2\" {size}", script.replace('\'', "'\\''"));
        let out = shell(&inside, [process.pid().to_string().as_str(), folder.path().to_str().unwrap()]).go();
        assert!(out.exits(3).stderr.contains("the incomplete file was removed"), "{name} {more}: {}", out.stderr);
        assert_eq!(out.stdout.split_whitespace().collect::<Vec<_>>(), ["0"], "{name} {more}");
        process.goes_on();
    }
}

#[test]
fn a_file_may_be_too_large() {
    let Some(process) = Running::start(32) else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" dump --pid \"$1\" -o \"$2/core\"";
    let out = shell(script, [process.pid().to_string().as_str(), folder.path().to_str().unwrap()]).go();
    assert!(out.exits(3).stderr.contains("ulimit -f"), "{}", out.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    process.goes_on();
}

#[test]
fn signals_leave_nothing_and_the_process_goes_on() {
    let Some(process) = Running::start(128) else { return };
    let mut ended = 0;
    for round in 0..40u64 {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("core");
        let mut command = Command::new(env!("CARGO_BIN_EXE_coremap"));
        command.args(["dump", "--pid", &process.pid().to_string(), "-o"]).arg(&out);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        // Every other time while the process stands still for sure.
        while begun.elapsed() < Duration::from_millis(round * 5) {
            if round % 2 == 0 && process.threads().iter().any(|&(state, _)| state == 't') {
                break;
            }
        }
        let signal = [Signal::INT, Signal::TERM, Signal::KILL][round as usize % 3];
        let _ = kill_process(Pid::from_child(&child), signal);
        let whole = child.wait().unwrap().success();
        process.goes_on();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        // A signal that came when the file had its name already leaves a whole one.
        assert!(left == usize::from(whole) || left == 1, "round {round}: {left}");
        if left == 1 {
            ask("check", &[out.to_str().unwrap()]);
        }
        ended += usize::from(!whole);
    }
    assert!(ended > 0, "all were faster than their signal");
}

#[test]
fn a_process_that_ends_meanwhile_gives_no_core() {
    let folder = tempfile::tempdir().unwrap();
    let mut cut = 0;
    for round in 0..20u64 {
        let Some(process) = Running::start(64) else { return };
        let out = folder.path().join(round.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_coremap"));
        command.args(["dump", "--pid", &process.pid().to_string(), "-o"]).arg(&out);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 5));
        process.send(Signal::KILL);
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!said.contains("panicked"), "{said}");
        // It was whole before, or there is none: never one of zeros.
        match done.status.code() {
            Some(0 | 4) => {
                let core = ask("info", &[out.to_str().unwrap()]);
                assert_eq!(core["core"]["pid"], process.pid());
                let bytes = std::fs::read(&out).unwrap();
                let told = elf::read(&bytes);
                // The kernel may have joined it with its neighbours.
                let last = process.place("full") + (1 << 20) - 8;
                let load = told.loads.iter().find(|l| (l.vaddr..l.vaddr + l.memsz).contains(&last)).unwrap();
                let at = (load.offset + last - load.vaddr) as usize;
                assert_ne!(bytes[at..at + 8], [0; 8], "round {round}: {said}");
            }
            Some(3) => {
                cut += 1;
                assert!(!out.exists(), "round {round}");
            }
            code => panic!("round {round}: {code:?}: {said}"),
        }
    }
    assert!(cut > 0, "none was looked at as it ended");
}

#[test]
fn a_bounded_stop_is_kept_and_told() {
    let Some(process) = Running::start(64) else { return };
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    let out = dump(&process, &core, &["--stop-at-most", "1ms"]);
    assert!(out.exits(4).stderr.contains("resumed before all was read"), "{}", out.stderr);
    process.goes_on();
    // Whoever reads it later hears of it too.
    let out = run(["info", core.to_str().unwrap()]);
    assert!(out.exits(4).stdout.contains("ran-on"), "{}", out.stdout);
}

/// Functions on the stacks of a core, by thread, as gdb tells them.
fn gdb_stacks(core: &Path) -> Vec<(u32, Vec<String>)> {
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-ex", "thread apply all bt"]).arg(target::program().unwrap()).arg(core);
    let out = command.env("LC_ALL", "C").output().unwrap();
    let mut stacks: Vec<(u32, Vec<String>)> = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        if let Some((_, rest)) = line.strip_prefix("Thread ").and_then(|line| line.split_once("(LWP ")) {
            stacks.push((rest.split(')').next().unwrap().parse().unwrap(), Vec::new()));
        } else if let (true, Some((_, frames))) = (line.starts_with('#'), stacks.last_mut()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = if words.get(2) == Some(&"in") { 3 } else { 1 };
            frames.push(words[at].to_owned());
        }
    }
    stacks.sort();
    stacks
}

fn has(name: &str) -> bool {
    let there = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: no {name} to compare with");
    }
    there
}

#[test]
fn gdb_reads_a_dump_as_its_own_core() {
    if !has("gdb") || !has("gcore") {
        return;
    }
    let Some(process) = Running::start(1) else { return };
    process.stop();
    let folder = tempfile::tempdir().unwrap();
    let (full, small) = (folder.path().join("full"), folder.path().join("small"));
    dump(&process, &full, &[]).exits(0);
    dump(&process, &small, &["--for", "all"]).exits(0);
    let prefix = folder.path().join("gdb");
    let out = Command::new("gcore").arg("-o").arg(&prefix).arg(process.pid().to_string()).output().unwrap();
    let theirs = folder.path().join(format!("gdb.{}", process.pid()));
    if !theirs.exists() {
        eprintln!("skipped: gcore wrote nothing: {}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    let wanted = gdb_stacks(&theirs);
    assert_eq!(wanted.len(), 4, "{wanted:?}");
    let deep = wanted.iter().filter(|(_, frames)| frames.iter().filter(|f| *f == "deep").count() == 6).count();
    assert_eq!(deep, 3, "{wanted:?}");
    for core in [&full, &small] {
        assert_eq!(gdb_stacks(core), wanted, "{}", core.display());
    }
    // Every byte that both hold is the same.
    let (our_bytes, their_bytes) = (std::fs::read(&full).unwrap(), std::fs::read(&theirs).unwrap());
    let (ours, told) = (elf::read(&our_bytes), elf::read(&their_bytes));
    let mut same = 0;
    for load in told.loads.iter().filter(|load| load.filesz > 0) {
        let Some(own) = ours.loads.iter().find(|own| own.vaddr == load.vaddr && own.filesz == load.filesz) else {
            continue;
        };
        let bytes = |file: &[u8], at: u64| file[at as usize..(at + load.filesz) as usize].to_vec();
        assert!(bytes(&our_bytes, own.offset) == bytes(&their_bytes, load.offset), "{:#x}", load.vaddr);
        same += load.filesz;
    }
    assert!(same > 60 << 20, "{same}");
    // And so are our answers, but for what gdb does not tell: names of threads, and memory that nobody may touch.
    for command in ["stacks", "malloc", "threads"] {
        let without_names = |answer: Value| {
            let mut answer = comparable(answer);
            for list in ["threads", "stacks"] {
                for row in answer.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    row["name"].take();
                    // gdb records no times, and an idle process has used none.
                    row["cpu_ms"].take();
                }
            }
            without_residence(&mut answer);
            answer
        };
        let symbols = ["--symbols", "/"];
        let answer = |core: &Path| without_names(ask(command, &[&[core.to_str().unwrap()], &symbols[..]].concat()));
        assert_eq!(answer(&full), answer(&theirs), "{command}");
    }
}

#[test]
fn what_is_written_of_a_process_is_asked_for_by_its_number_too() {
    let Some(process) = Running::start(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let pid = process.pid().to_string();
    for (name, args) in [("a", vec!["dump", &pid, "-o", "a"]), ("b", vec!["dump", "-o", "b", "--for=heap", &pid])] {
        program(args).dir(folder.path()).go().exits(0);
        assert!(folder.path().join(name).exists());
    }
    let out = program(["dump", "-o", "c", "--format", "csv", "--pid", &pid]).dir(folder.path()).go();
    let lines: Vec<&str> = out.exits(0).stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("file,size,") && lines[1].starts_with("c,"), "{lines:?}");
}
