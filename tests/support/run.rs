//! Running the program as a user would, with bounds on its time and memory.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What came of a run.
#[derive(Debug)]
pub struct Output {
    /// Exit status; `None` where a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Output {
    /// Its JSON answer.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("not JSON: {e}\n{}\n{}", self.stdout, self.stderr))
    }

    /// It ended by itself, without a panic.
    #[track_caller]
    pub fn is_sound(&self) -> &Output {
        let why = format!("code {:?}, signal {:?}: {}", self.code, self.signal, head(&self.stderr));
        assert!(self.signal.is_none(), "ended by a signal: {why}");
        assert!(!self.stderr.contains("panicked"), "panicked: {why}");
        self
    }

    #[track_caller]
    pub fn exits(&self, code: i32) -> &Output {
        self.is_sound();
        assert_eq!(self.code, Some(code), "stderr: {}", head(&self.stderr));
        self
    }
}

fn head(text: &str) -> String {
    text.chars().take(2000).collect()
}

/// A run to be set up.
pub struct Run {
    command: Command,
    input: Option<Vec<u8>>,
    deadline: Duration,
}

/// The program with these arguments; nothing of the user's environment that
/// changes its looks.
pub fn program<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coremap"));
    command.args(args);
    Run::of(command)
}

/// Run with arguments and no more ado.
pub fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    program(args).go()
}

/// The program under `ulimit -v`: it may map the file and this much more.
pub fn bounded(args: &[&str], core: &Path) -> Run {
    let file = std::fs::metadata(core).map_or(0, |m| m.len());
    let kib = (ADDRESS_SPACE + file) >> 10;
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {kib}; exec \"$@\"")).arg("sh");
    command.arg(env!("CARGO_BIN_EXE_coremap")).args(args).arg(core);
    // Threads and arenas reserve address space by the number of processors.
    command.env("RAYON_NUM_THREADS", "2").env("MALLOC_ARENA_MAX", "2");
    Run::of(command)
}

/// What a bounded run may map beside the core.
const ADDRESS_SPACE: u64 = 600 << 20;

impl Run {
    fn of(mut command: Command) -> Run {
        for name in ["NO_COLOR", "COLUMNS", "RUST_LOG", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        Run { command, input: None, deadline: Duration::from_secs(60) }
    }

    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.command.env(name, value);
        self
    }

    pub fn dir(mut self, dir: &Path) -> Run {
        self.command.current_dir(dir);
        self
    }

    /// What it reads on standard input.
    pub fn input(mut self, bytes: Vec<u8>) -> Run {
        self.input = Some(bytes);
        self
    }

    pub fn within(mut self, deadline: Duration) -> Run {
        self.deadline = deadline;
        self
    }

    /// Run to the end, or fail when the deadline has passed.
    #[track_caller]
    pub fn go(mut self) -> Output {
        let begun = Instant::now();
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = self.command.spawn().unwrap();
        if let (Some(bytes), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            // The program may stop reading early; that is its right.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        let collect = |mut pipe: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let stdout = collect(Box::new(child.stdout.take().unwrap()));
        let stderr = collect(Box::new(child.stderr.take().unwrap()));
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > self.deadline {
                let _ = child.kill();
                let _ = child.wait();
                panic!("still running after {:?}: {:?}", self.deadline, self.command);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Output {
            code: status.code(),
            signal: status.signal(),
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
            took: begun.elapsed(),
        }
    }
}
