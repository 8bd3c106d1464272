//! A process of our own to read: `tests/all/live/target.c`, compiled by the system's C compiler.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Compiles a program of `tests/all/live`. `None`, with a message on stderr, if there is no C compiler.
pub fn compile(source: &str) -> Option<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("target");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/live").join(source);
    let cc = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    match cc {
        Ok(status) => assert!(status.success(), "cc: {status}"),
        Err(e) => {
            eprintln!("skipped: no process to look at, as there is no C compiler (cc): {e}");
            return None;
        }
    }
    Some((folder, program))
}

/// The program. `None`, with a message on stderr the first time, if there is no C compiler.
fn compiled() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("target.c")).as_ref().map(|(_, program)| program.as_path())
}

/// A process that runs until this value is dropped.
pub struct Target {
    child: Child,
    counters: File,
    _folder: TempDir,
    /// Addresses of its mappings, as it reports them: 4 GiB of which 8 MiB are written at 2 GiB, 16 MiB of untouched
    /// shared memory, 16 MiB without access, and 1 MiB of an untouched file.
    pub places: [u64; 4],
}

/// Indices of the counters.
const BEATS: u64 = 0;
const SENT: u64 = 1;
const HANDLED: u64 = 2;
const ERRORS: u64 = 3;

impl Target {
    /// Starts the process and waits until all its threads work. `None` if it cannot be compiled here.
    pub fn start() -> Option<Target> {
        let program = compiled()?;
        let folder = tempfile::tempdir().expect("a folder");
        let (counters, file) = (folder.path().join("counters"), folder.path().join("file"));
        std::fs::write(&counters, [0; 4096]).expect("counters");
        std::fs::write(&file, vec![7; 1 << 20]).expect("a file");
        let mut child = Command::new(program)
            .args([&counters, &file])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the target starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let words = line.split_whitespace().skip(1);
        let places: Vec<u64> =
            words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address")).collect();
        let places = places.try_into().unwrap_or_else(|_| panic!("{line}"));
        let counters = File::open(counters).expect("counters");
        Some(Target { child, counters, _folder: folder, places })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn path(&self) -> String {
        format!("/proc/{}", self.pid())
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal");
    }

    /// Stops all threads of the process until [`Target::go_on`].
    pub fn stand_still(&self) {
        self.send(Signal::STOP);
        self.wait_for("state T", || self.threads().iter().all(|(_, state, _)| *state == 'T'));
    }

    pub fn go_on(&self) {
        self.send(Signal::CONT);
    }

    fn counter(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.counters.read_exact_at(&mut bytes, 8 * word).expect("a counter");
        u64::from_ne_bytes(bytes)
    }

    /// Id, state and name of each thread, from /proc.
    pub fn threads(&self) -> Vec<(u32, char, String)> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir(format!("{}/task", self.path())).expect("threads") {
            let folder = entry.expect("a thread").path();
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            let tid = folder.file_name().and_then(|n| n.to_str()?.parse().ok()).expect("a number");
            let state = read("stat").rsplit(')').next().and_then(|s| s.trim_start().chars().next()).unwrap_or('X');
            out.push((tid, state, read("comm").trim_end().to_owned()));
        }
        out.sort();
        out
    }

    /// Rest of the line of /proc/PID/NAME that begins with `key`.
    pub fn line(&self, name: &str, key: &str) -> String {
        let mut text = String::new();
        File::open(format!("{}/{name}", self.path())).expect("a file").read_to_string(&mut text).expect("text");
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned()
    }

    /// Sum of a figure over smaps, in bytes.
    pub fn smaps(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("{}/smaps", self.path())).expect("smaps");
        let kib =
            |line: &str| line.strip_prefix(key)?.strip_prefix(':')?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
        text.lines().filter_map(kib).sum::<u64>() * 1024
    }

    fn wait_for(&self, what: &str, is: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < until, "{what}: {:?}", self.threads());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks that the process runs as before: it is not traced, no thread is stopped, it continues to count, and no
    /// signal was lost.
    pub fn goes_on(&self) {
        assert_eq!(self.line("status", "TracerPid:"), "0");
        let (beats, handled) = (self.counter(BEATS), self.counter(HANDLED));
        self.wait_for("counts", || self.counter(BEATS) > beats + 3 && self.counter(HANDLED) > handled + 3);
        for (tid, state, name) in self.threads() {
            assert!(!['T', 't'].contains(&state), "thread {tid} {name} is left in state {state}");
        }
        // Between the two reads one more signal may be sent and handled.
        self.wait_for("signals", || self.counter(SENT).saturating_sub(self.counter(HANDLED)) <= 1);
        assert_eq!(self.counter(ERRORS), 0, "errors of its own");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
