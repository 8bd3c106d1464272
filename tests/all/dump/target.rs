//! A process of our own to look at while it runs: `target.c`, compiled here.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The program; `None`, with a word on it: there is no C compiler.
pub fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let folder = tempfile::Builder::new().prefix("coremap-target-").tempdir().unwrap().keep();
        let out = folder.join("target");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/dump/target.c");
        let run = Command::new("cc").args(["-g", "-O1", "-pthread", "-o"]).arg(&out).arg(source).output().ok()?;
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        Some(out)
    };
    let built = BUILT.get_or_init(build).as_deref();
    if built.is_none() {
        eprintln!("skipped: no cc to compile a process with that is looked at");
    }
    built
}

/// It runs, and is killed in the end.
pub struct Running {
    child: Child,
    /// Where its mappings are.
    pub places: Value,
}

impl Running {
    /// One whose largest mapping has so many MiB, with an empty environment.
    pub fn start(mib: u32) -> Option<Running> {
        let mut command = Command::new(program()?);
        let mut child = command.arg(mib.to_string()).env_clear().stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let places = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        Some(Running { child, places })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An address of `places`.
    pub fn place(&self, name: &str) -> u64 {
        self.places[name].as_u64().unwrap()
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stop it as a shell does, so that it stays the same from one look to the next.
    pub fn stop(&self) {
        self.send(Signal::STOP);
        self.wait(|state| state == 'T');
    }

    /// Each thread: the letter of its state, and who traces it.
    pub fn threads(&self) -> Vec<(char, u32)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let of = |text: &str, key: &str| text.lines().find_map(|l| l.strip_prefix(key)).unwrap().trim().to_owned();
        let tasks = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
        tasks
            .map(|text| (of(&text, "State:").chars().next().unwrap(), of(&text, "TracerPid:").parse().unwrap()))
            .collect()
    }

    /// Wait until no thread is traced and all are in such a state.
    pub fn wait(&self, is: impl Fn(char) -> bool) {
        let begun = Instant::now();
        while !self.threads().iter().all(|&(state, tracer)| is(state) && tracer == 0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.threads());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// It waits for signals, as it did before anybody looked.
    pub fn goes_on(&self) {
        self.wait(|state| state == 'S');
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
