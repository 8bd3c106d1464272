//! Runs the program on a pseudo-terminal, driven by keys, and shows the screen as a user sees it.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Time after which a test fails. Long, because the machine may be busy with other tests.
const BLOCKED: Duration = Duration::from_secs(120);

/// A terminal with a program on it.
pub struct Pty {
    master: File,
    /// Kept open: when the last descriptor is closed, the terminal and its settings are gone.
    slave: Option<OwnedFd>,
    child: Child,
    output: Receiver<Vec<u8>>,
    pub screen: vt100::Parser,
    /// All bytes that the program wrote.
    pub raw: Vec<u8>,
    /// Settings of the terminal before the program started.
    before: Termios,
}

/// Whether a program can be started here as the leader of a terminal session. If not, prints a message on stderr.
pub fn there_is_one() -> bool {
    let there = Command::new("setsid").arg("--version").output().is_ok_and(|out| out.status.success());
    if !there {
        eprintln!("skipped: no `setsid` (util-linux) to give a terminal to a program with");
    }
    there
}

fn some(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Pty {
    /// Starts the program on a terminal of that size. `env` is added to a UTF-8 locale.
    pub fn start(columns: u16, rows: u16, args: &[&str], env: &[(&str, &str)]) -> Pty {
        Pty::running(columns, rows, &[&[env!("CARGO_BIN_EXE_coremap")], args].concat(), env)
    }

    /// Starts any program on a terminal.
    pub fn running(columns: u16, rows: u16, words: &[&str], env: &[(&str, &str)]) -> Pty {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&slave, size(columns, rows)).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        // The program gets its own session with this terminal, so that it is notified of a new size. Signals are reset,
        // because some are ignored if the tests run in the background of a shell or under nohup.
        let mut command = Command::new("env");
        command.args(["--default-signal", "setsid", "--ctty", "--wait"]).args(words);
        command.env_clear().env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(env.iter().copied());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (send, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            // The program has closed the terminal, or the receiver is gone.
            while let Ok(n) = reader.read(&mut bytes) {
                if n == 0 || send.send(bytes[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(some(rows), some(columns), 0);
        Pty { master, slave: Some(slave), child, output, screen, raw: Vec::new(), before }
    }

    pub fn keys(&mut self, keys: &str) -> &mut Pty {
        self.master.write_all(keys.as_bytes()).unwrap();
        self
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.screen.screen_mut().set_size(some(rows), some(columns));
        tcsetwinsize(self.slave.as_ref().unwrap(), size(columns, rows)).unwrap();
    }

    /// The text on the screen.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            if wanted(&self.text()) {
                return self.text();
            }
            assert!(began.elapsed() < BLOCKED, "{what} never came:\n{}", self.text());
            match self.output.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("{what} never came, and it has ended:\n{}", self.text()),
            }
        }
    }

    /// Returns the screen once nothing has been written for a while.
    pub fn settled(&mut self) -> String {
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_secs(3)) {
            let before = self.text();
            self.take(&bytes);
            // A picture redrawn each second has settled when it stays the same.
            if self.text() == before {
                break;
            }
        }
        self.text()
    }

    /// Waits until the text is on the screen.
    #[track_caller]
    pub fn shows(&mut self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    fn take(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.raw.extend_from_slice(bytes);
    }

    /// The process id of the program itself.
    pub fn pid(&self) -> u32 {
        // `env` and `setsid` exec the program. `setsid` would fork only as the leader of a process group, which a child
        // of ours is not.
        self.child.id()
    }

    /// Waits for the program's end and takes everything it wrote. The terminal must be restored: no alternate screen, a
    /// visible cursor, and echoed lines.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < BLOCKED, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        };
        let after = tcgetattr(self.slave.take().unwrap()).unwrap();
        // When nobody has the terminal open, it ends, and everything written can be read.
        while let Ok(bytes) = self.output.recv() {
            self.take(&bytes);
        }
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "the other screen was not left");
        assert!(!screen.hide_cursor(), "the cursor is still hidden");
        assert_eq!(after.local_modes, self.before.local_modes, "the terminal's modes");
        assert_eq!(after.input_modes, self.before.input_modes, "the terminal's modes");
        status
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Needed if a test fails before the end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
