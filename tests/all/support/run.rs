//! Runs the program as a user would, with limits on its processor time and memory.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, prlimit, waitid};
use serde_json::Value;

use super::cpu;

#[derive(Debug)]
pub struct Output {
    /// Exit status. `None` if a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Processor time of all its threads.
    pub took: Duration,
}

impl Output {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("not JSON: {e}\n{}\n{}", self.stdout, self.stderr))
    }

    /// Checks that it ended by itself and did not panic.
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

pub struct Run {
    command: Command,
    input: Option<Vec<u8>>,
    most: Duration,
    kept: usize,
}

/// Default limit on the processor time of a run.
const MOST: Duration = Duration::from_secs(60);

/// Limit on the wall-clock time. A run that takes longer is blocked, however busy the machine is.
const BLOCKED: Duration = Duration::from_secs(20 * 60);

/// The program with these arguments, without environment variables of the user that change its output.
pub fn program<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coremap"));
    command.args(args);
    Run::of(command)
}

pub fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    program(args).go()
}

/// A shell script in which `$0` is the program.
pub fn shell<S: AsRef<std::ffi::OsStr>>(script: &str, args: impl IntoIterator<Item = S>) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_coremap")]).args(args);
    Run::of(command)
}

/// A shell script as a reader of the documents would type it in the repository's root. `coremap` is the program, the
/// user's environment is empty, and `tmp` is `$TMPDIR`.
pub fn console(script: &str, tmp: &Path) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_coremap")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(program).chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).env_clear().env("PATH", path).env("TMPDIR", tmp);
    Run::of(command).dir(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// The program under `ulimit -v`: it may map the file and `ADDRESS_SPACE` more.
pub fn bounded(args: &[&str], core: &Path) -> Run {
    let file = std::fs::metadata(core).map_or(0, |m| m.len());
    let kib = (ADDRESS_SPACE + file) >> 10;
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {kib}; exec \"$@\"")).arg("sh");
    command.arg(env!("CARGO_BIN_EXE_coremap")).args(args).arg(core);
    // Threads and arenas reserve address space in proportion to the number of processors.
    command.env("RAYON_NUM_THREADS", "2").env("MALLOC_ARENA_MAX", "2");
    Run::of(command)
}

/// Runs the body of the test `name` in its own process, because it changes state that all threads share. The test must
/// call only this.
#[track_caller]
pub fn in_own_process(name: &str, body: impl FnOnce()) {
    const ALONE: &str = "COREMAP_TEST_ALONE";
    if std::env::var(ALONE).is_ok_and(|alone| alone == name) {
        return body();
    }
    let this = std::env::current_exe().unwrap();
    let out = Command::new(this).args(["--exact", name, "--nocapture"]).env(ALONE, name).output().unwrap();
    let told = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&out.stderr));
}

/// Bytes that a bounded run may map in addition to the core.
const ADDRESS_SPACE: u64 = 600 << 20;

impl Run {
    fn of(mut command: Command) -> Run {
        for name in ["NO_COLOR", "COLUMNS", "RUST_LOG", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        Run { command, input: None, most: MOST, kept: usize::MAX }
    }

    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.command.env(name, value);
        self
    }

    pub fn dir(mut self, dir: &Path) -> Run {
        self.command.current_dir(dir);
        self
    }

    pub fn input(mut self, bytes: Vec<u8>) -> Run {
        self.input = Some(bytes);
        self
    }

    /// Limits its processor time, in whole seconds. The kernel enforces it, so other work on the machine does not
    /// count.
    pub fn within(mut self, most: Duration) -> Run {
        self.most = most;
        self
    }

    /// Keeps only the first bytes of each stream; all of it is read.
    pub fn keep(mut self, bytes: usize) -> Run {
        self.kept = bytes;
        self
    }

    /// Runs to the end. Fails if it exceeds its processor time.
    #[track_caller]
    pub fn go(mut self) -> Output {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = self.command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let limit = |soft, hard| Rlimit { current: Some(soft), maximum: Some(hard) };
        let most = self.most.as_secs();
        // The kernel's signal would write a core.
        for (what, limit) in [(Resource::Cpu, limit(most, most + 5)), (Resource::Core, limit(0, 0))] {
            match prlimit(Some(pid), what, limit) {
                // The process may already belong to another user; a script that does that sets its own limits.
                Ok(_) | Err(rustix::io::Errno::PERM) => {}
                Err(e) => panic!("{e}: {:?}", self.command),
            }
        }
        if let (Some(bytes), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            // The program may stop reading early.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        let kept = self.kept as u64;
        let collect = |mut pipe: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = pipe.by_ref().take(kept).read_to_end(&mut bytes);
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let stdout = collect(Box::new(child.stdout.take().unwrap()));
        let stderr = collect(Box::new(child.stderr.take().unwrap()));
        let took = ended(&mut child, pid);
        let status = child.wait().unwrap();
        assert!(
            status.signal() != Some(Signal::XCPU.as_raw()),
            "{took:?} of processor time, of at most {:?}: {:?}",
            self.most,
            self.command
        );
        Output {
            code: status.code(),
            signal: status.signal(),
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
            took,
        }
    }
}

/// Waits for its end and returns its processor time.
#[track_caller]
fn ended(child: &mut Child, pid: Pid) -> Duration {
    let begun = Instant::now();
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(pid), look).unwrap().is_none() {
        if begun.elapsed() > BLOCKED {
            let took = cpu::of_process(pid);
            let _ = child.kill();
            let _ = child.wait();
            panic!("still running after {BLOCKED:?}, {took:?} of them on a processor");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    cpu::of_process(pid)
}
