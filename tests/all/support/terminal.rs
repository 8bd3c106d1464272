//! The program on a terminal of so many columns, by `script` of util-linux.

use std::path::Path;
use std::process::{Command, Stdio};

/// What the shell's `line`, run in `folder`, shows on a terminal; `$coremap` in it is
/// the program. `None`, with a word on stderr, where there is no `script`.
pub fn shows(columns: u32, folder: &Path, line: &str) -> Option<String> {
    if !Command::new("script").arg("--version").output().is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: no `script` (util-linux) to make a terminal with");
        return None;
    }
    let line = format!("stty rows 50 cols {columns}; {line}");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(folder).stdin(Stdio::null());
    command.env("coremap", env!("CARGO_BIN_EXE_coremap")).env_remove("NO_COLOR").env_remove("COLUMNS");
    let out = command.output().unwrap();
    Some(String::from_utf8_lossy(&out.stdout).replace('\r', ""))
}
