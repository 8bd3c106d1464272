//! Looks at a process that are kept, and what grows in them: recordings, rows of cores, and a process that runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::builder::{Load, small_core};
use crate::support::commands::recording;
use crate::support::real;
use crate::support::run::{Output, program, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The rows of a trend that are of `of` and called `name`.
fn row<'v>(trend: &'v Value, of: &str, name: &str) -> &'v Value {
    let mut rows = trend["series"].as_array().unwrap().iter().filter(|r| r["of"] == of && r["name"] == name);
    rows.next().unwrap_or_else(|| panic!("no {of} {name}"))
}

/// `slow-leak.c` loses 1 MiB a minute, as pairs of a block of 120 bytes and one of 1,000: chunks of glibc of 128 and 1,008.
#[test]
fn a_leak_of_1_mb_a_minute_is_named_within_ten_minutes() {
    let out = run(["trend", "--json", recording()]);
    let trend = out.exits(0).json();
    assert!(trend["seconds"].as_f64().unwrap() <= 605.0);
    let pairs_a_minute = 1_048_576.0 / (120.0 + 1000.0 + 16.0);
    for (size, bytes) in [("128", 128.0), ("1008", 1008.0)] {
        let leak = row(&trend, "malloc size", size);
        assert_eq!(leak["verdict"], "grows", "{leak}");
        let rate = leak["per_minute"].as_f64().unwrap();
        // Some of the larger ones have 16 bytes more: what a free chunk had left was too small for another.
        let want = pairs_a_minute * bytes;
        assert!((0.8 * want..1.05 * want).contains(&rate), "{rate} a minute, {want} were lost");
        assert!(leak["confidence"].as_f64().unwrap() > 0.999);
        assert!(leak["command"].as_str().unwrap().starts_with("coremap leaks /proc/"));
    }
    // All of it is 1 MiB a minute.
    let rate = row(&trend, "kind", "Malloc")["per_minute"].as_f64().unwrap() / 1_048_576.0;
    assert!((0.8..1.2).contains(&rate), "{rate}");
    // Nothing else: of 20,000 slots of blocks of 16 to 3,015 bytes one in fifty is another with each step, and a cache fills
    // and is emptied.
    let leaks = |size: &str| ["128", "1008", "1024"].contains(&size);
    let rows = trend["series"].as_array().unwrap().iter();
    let wrong: Vec<_> = rows
        .filter(|r| r["of"] == "malloc size" && r["verdict"] == "grows" && !leaks(r["name"].as_str().unwrap()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(row(&trend, "threads", "threads")["verdict"], "steady");
}

#[test]
fn a_look_at_a_core_has_what_the_core_has() {
    let dir = tempfile::tempdir().unwrap();
    for (name, types) in [("dotnet31-createdump", true), ("native-malloc-gcore", false)] {
        let core = real::plain(name);
        let file = dir.path().join(format!("{name}.jsonl"));
        let out = run(["record", "--with", "types,malloc,written", "-o", text(&file), text(&core)]);
        out.exits(0);
        let lines = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "a core is looked at once");
        assert_eq!((&lines[0]["coremap_recording"], &lines[0]["every_s"]), (&Value::from(1), &Value::Null));
        let look = &lines[1];
        let summary = run(["summary", "--zero-fill", "--json", text(&core)]).json();
        for kind in summary["kinds"].as_array().unwrap() {
            let have = &look["kinds"][kind["kind"].as_str().unwrap()];
            let want = ["count", "size", "in_core", "written"].map(|field| kind[field].clone());
            assert_eq!(have.as_array().unwrap()[..4], want, "{kind}");
        }
        assert_eq!(look["kinds"].as_object().unwrap().len(), summary["kinds"].as_array().unwrap().len());
        assert_eq!(look["threads"], summary["core"]["threads"]);
        let heap = run(["heapstat", "--json", text(&core)]).json();
        assert_eq!(!look["types"].is_null(), types, "{name}");
        if types {
            let total = [heap["total"]["objects"].clone(), heap["total"]["size"].clone()];
            assert_eq!(look["types"]["total"].as_array().unwrap()[..], total);
        }
        let malloc = run(["malloc", "--json", text(&core)]).json();
        let used = [malloc["total"]["used"].clone(), malloc["total"]["used_bytes"].clone()];
        assert_eq!(look["malloc"]["used"].as_array().unwrap()[..], used, "{name}");
    }
}

/// Cores of a process whose anonymous memory has so many pages.
fn cores(dir: &TempDir, pages: &[usize]) -> Vec<PathBuf> {
    let one = |(i, pages): (usize, &usize)| {
        let path = dir.path().join(format!("core.{i}"));
        let built = small_core().load(Load::at(0x10_0000_0000).bytes(vec![7; pages * 4096])).write();
        std::fs::copy(built.path(), &path).unwrap();
        path
    };
    pages.iter().enumerate().map(one).collect()
}

fn trend(args: &[&str], cores: &[PathBuf]) -> Output {
    run([&["trend", "--json"], args].concat().into_iter().chain(cores.iter().map(|p| text(p))))
}

#[test]
fn a_row_of_cores_has_a_trend() {
    let dir = tempfile::tempdir().unwrap();
    let rising = cores(&dir, &[1024, 1280, 1536, 1792, 2048, 2304]);
    let out = trend(&["--every", "10m"], &rising);
    let v = out.exits(0).json();
    let grows = row(&v, "kind", "AnonRW");
    // 1 MiB in ten minutes.
    assert_eq!((&grows["verdict"], &grows["per_hour"]), (&Value::from("grows"), &Value::from(6.0 * 1_048_576.0)));
    assert_eq!((&grows["measure"], &grows["change"]), (&Value::from("written"), &Value::from(5 << 20)));
    assert_eq!(grows["gib_more_in"], Value::from(1024.0 * 600.0));
    let command = grows["command"].as_str().unwrap();
    assert!(command.ends_with(text(&rising[5])));
    let shown = run(command.split(' ').skip(1)).exits(0).stdout.clone();
    assert!(shown.contains("9.00 MiB"), "{command}: {shown}");
    assert_eq!((&v["clock"], &v["looks"], &v["seconds"]), (&"given".into(), &6.into(), &3000.0.into()));
    // Up, and down again: nothing grows, and status 1 says so.
    let v = trend(&["--every", "10m"], &cores(&dir, &[1024, 1280, 1024, 1300, 1024, 1290])).exits(1).json();
    assert_ne!(row(&v, "kind", "AnonRW")["verdict"], "grows");
}

/// A figure that rose, but not certainly, is never called no growth.
#[test]
fn a_rise_that_is_not_certain_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let out = run(["trend", "--every", "10m"]
        .into_iter()
        .map(String::from)
        .chain(cores(&dir, &[1024, 1280, 1536]).iter().map(|p| text(p).to_owned())));
    let text = &out.exits(1).stdout;
    assert!(text.contains("No growth is certain, but ") && text.contains(" by 2.00 MiB. "), "{text}");
    assert!(!text.contains("No growth found"), "{text}");
    let out = run(["trend", "--every", "10m"]
        .into_iter()
        .map(String::from)
        .chain(cores(&dir, &[1024, 1024, 1024]).iter().map(|p| self::text(p).to_owned())));
    assert!(out.exits(1).stdout.contains("No growth found in these samples."), "{}", out.stdout);
}

#[test]
fn cores_have_the_times_of_their_files_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let rising = cores(&dir, &[1024, 1280, 1536, 1792, 2048]);
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let set = |seconds: [u64; 5]| {
        for (path, after) in rising.iter().zip(seconds) {
            File::options().write(true).open(path).unwrap().set_modified(began + Duration::from_secs(after)).unwrap();
        }
    };
    set([0, 3600, 7200, 10_800, 14_400]);
    let v = trend(&[], &rising).exits(0).json();
    assert_eq!((&v["clock"], &row(&v, "kind", "AnonRW")["per_hour"]), (&"modified".into(), &1_048_576.0.into()));
    // Copied in one go, or in another order: only the order given is known.
    set([5, 3, 4, 4, 9]);
    let v = trend(&[], &rising).exits(0).json();
    let grows = row(&v, "kind", "AnonRW");
    assert_eq!((&v["clock"], &v["seconds"], &grows["per_hour"]), (&"order".into(), &Value::Null, &Value::Null));
    assert_eq!((&grows["verdict"], &grows["change"]), (&"grows".into(), &(4 << 20).into()));
}

#[test]
fn a_recording_that_was_cut_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(recording()).unwrap();
    let cut = dir.path().join("cut.jsonl");
    std::fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    let out = run(["trend", text(&cut)]);
    out.exits(4);
    assert!(out.stderr.contains("recording-cut") && out.stderr.contains("59 samples"), "{}", out.stderr);
    assert!(out.stdout.contains("1,008 bytes"), "{}", out.stdout);
}

#[test]
fn looks_of_a_recording_are_put_side_by_side() {
    let at = |look: &str| format!("{}@{look}", recording());
    let diff = |old: &str, new: &str| run(["diff", "--json", old, new]).exits(0).json();
    let v = diff(&at("first"), &at("last"));
    assert_eq!((&v["old"]["path"], &v["new"]["path"]), (&at("1").into(), &at("60").into()));
    assert_eq!(v["core"]["producer"], "live");
    let leak = v["malloc"].as_array().unwrap().iter().find(|r| r["size"] == 1008).unwrap();
    let trend = run(["trend", "--json", recording()]).json();
    let series = row(&trend, "malloc size", "1008");
    assert_eq!((&leak["delta"], &leak["new_count"]), (&series["change"], &series["last_count"]));
    // Nothing named is the first on the left and the last on the right.
    assert_eq!(diff(recording(), recording())["malloc"], v["malloc"]);
    let same = diff(&at("7"), &at("7"));
    assert_eq!((&same["malloc"], &same["total"]["delta"]), (&Value::Array(Vec::new()), &0.into()));
    // A core beside a look: of another process, but that is the reader's affair.
    let core = real::plain("native-glibc-kernel");
    let v = diff(text(&core), &at("last"));
    assert!(v["malloc"].as_array().is_some_and(|rows| !rows.is_empty()), "{v}");
    assert!(v["types"].is_null());
    run(["diff", "--fail-if", "malloc.delta>1MiB", &at("1"), &at("last")]).exits(1);
}

#[test]
fn what_is_no_recording_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let first = std::fs::read_to_string(recording()).unwrap();
    let header = first.lines().next().unwrap();
    let newer = file("newer.jsonl", &header.replace("\"coremap_recording\":1", "\"coremap_recording\":2"));
    let other = file("other.jsonl", &first.replacen("\"start_ticks\":", "\"start_ticks\":1", 1));
    let empty = file("empty.jsonl", &format!("{header}\n"));
    let json = file("json", "{}");
    for (args, code, words) in [
        (vec!["trend", text(&newer)], 3, "truncated"),
        (vec!["trend", text(&empty)], 3, "contains no samples"),
        (vec!["trend", text(&json)], 3, "not an ELF"),
        (vec!["trend", recording(), text(&other)], 2, "of one process"),
        (vec!["trend", recording(), recording()], 2, "out of order by file time"),
        (vec!["diff", recording(), text(&json)], 2, "a baseline must be the older side"),
        (vec!["diff", text(&empty), recording()], 2, "the recording has none"),
    ] {
        let out = run(&args);
        out.exits(code);
        assert!(out.stderr.contains(words) && out.stdout.is_empty(), "{args:?}: {}", out.stderr);
    }
    let newer = file("whole-newer.jsonl", &first.replacen("\"coremap_recording\":1", "\"coremap_recording\":2", 1));
    assert!(run(["trend", text(&newer)]).exits(3).stderr.contains("use a newer coremap"));
    let at = format!("{}@99", recording());
    assert!(run(["diff", &at, recording()]).exits(2).stderr.contains("looks 1 to 60"));
}

/// A process of ours that does nothing for a minute, and is ended with the test.
struct Target(Child);

impl Target {
    /// `None`, with a word on stderr, where coremap may not look at it.
    fn new() -> Option<Target> {
        let child =
            Command::new("sleep").arg("60").env_clear().stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let target = Target(child);
        let out = run(["summary", "--json", &target.path()]);
        if out.code == Some(3) {
            eprintln!("skipped: processes may not be looked at here: {}", out.stderr);
            return None;
        }
        out.is_sound();
        Some(target)
    }

    fn path(&self) -> String {
        format!("/proc/{}", self.0.id())
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a recording behind its first.
fn looks(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_process_that_runs_is_recorded_and_goes_on() {
    let Some(mut target) = Target::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("three.jsonl");
    let pid = target.0.id();
    let pid_text = pid.to_string();
    let args = ["record", "--json", "--pid", &pid_text, "--every", "100ms", "--looks", "3", "-o", text(&file)];
    let v = run(args).exits(0).json();
    assert_eq!((&v["looks"], &v["ended"], &v["core"]["pid"]), (&3.into(), &"done".into(), &pid.into()));
    assert!(v["cost"]["stopped_ms"]["total"].as_f64().unwrap() > 0.0);
    assert!(target.is_running());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let looks = looks(&file);
    assert_eq!(looks.len(), 3);
    for (i, look) in looks.iter().enumerate() {
        assert_eq!(look["look"], i + 1);
        assert_eq!(look["threads"], 1);
        assert!(look["s"].as_f64().unwrap() >= 0.1 * i as f64);
        assert!(look["kernel"]["rss"].as_u64().unwrap() > 0);
        assert!(look["kinds"]["Stack"][1].as_u64().unwrap() > 0);
        assert!(look["cost"]["stopped_ms"].as_f64().unwrap() >= 0.0);
    }
    // A sleep has nothing that grows, and three looks would not tell.
    run(["trend", text(&file)]).exits(1);
    // Never over a file that is there.
    let again = run(["record", "--pid", &pid_text, "--looks", "1", "-o", text(&file)]);
    assert!(again.exits(2).stderr.contains("exists"), "{}", again.stderr);
}

#[test]
fn without_a_name_the_file_has_the_process_and_the_time_in_it() {
    let Some(target) = Target::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = program(["record", "--json", &target.path(), "--every", "50ms", "--looks", "2"]).dir(dir.path()).go();
    let v = out.exits(0).json();
    let name = v["file"].as_str().unwrap();
    let form = regex::Regex::new(r"^coremap-(\d+)-\d{8}T\d{6}Z\.jsonl$").unwrap();
    assert_eq!(form.captures(name).map(|c| c[1].to_owned()), Some(target.0.id().to_string()), "{name}");
    assert_eq!(looks(&dir.path().join(name)).len(), 2);
}

#[test]
fn a_recording_goes_to_standard_output_too() {
    let Some(target) = Target::new() else { return };
    let out = run(["record", &target.path(), "--every", "50ms", "--looks", "2", "-o", "-"]);
    let lines: Vec<Value> = out.exits(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["coremap_recording"], 1);
}

/// Wait until a recording has so many looks.
fn until_there_are(file: &Path, count: usize, recorder: &mut Child) {
    let begun = Instant::now();
    while std::fs::read_to_string(file).unwrap_or_default().lines().count() <= count {
        assert!(recorder.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(begun.elapsed() < Duration::from_secs(600), "no looks come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn recorder(target: &Target, file: &Path) -> Child {
    // What starts the tests may have SIGINT ignored.
    let mut command = Command::new("env");
    command.args([
        "--default-signal",
        env!("CARGO_BIN_EXE_coremap"),
        "record",
        "--json",
        &target.path(),
        "--every",
        "50ms",
        "-o",
        text(file),
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What it said, and its status.
fn end(recorder: Child) -> (Option<i32>, String, Value) {
    let out = recorder.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    (out.status.code(), said, serde_json::from_slice(&out.stdout).unwrap_or_default())
}

#[test]
fn a_signal_ends_it_with_all_looks_kept() {
    let Some(mut target) = Target::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (signal, name) in [(Signal::INT, "int"), (Signal::TERM, "term")] {
        let file = dir.path().join(name);
        let mut recorder = recorder(&target, &file);
        until_there_are(&file, 2, &mut recorder);
        kill_process(Pid::from_child(&recorder), signal).unwrap();
        let (code, said, v) = end(recorder);
        assert_eq!((code, &v["ended"]), (Some(0), &Value::from("interrupted")), "{said}");
        assert_eq!(v["looks"], looks(&file).len());
        assert!(target.is_running());
    }
}

#[test]
fn the_end_of_the_process_ends_it_with_a_sentence() {
    let Some(mut target) = Target::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("until.jsonl");
    let mut recorder = recorder(&target, &file);
    until_there_are(&file, 1, &mut recorder);
    target.0.kill().unwrap();
    target.0.wait().unwrap();
    let (code, said, v) = end(recorder);
    assert_eq!((code, &v["ended"]), (Some(0), &Value::from("process ended")), "{said}");
    assert!(said.contains("the process ended after"), "{said}");
    assert_eq!(v["looks"], looks(&file).len());
}
