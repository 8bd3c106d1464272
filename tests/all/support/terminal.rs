//! Runs the program on a terminal of a given width, with `script` of util-linux.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns what the shell shows on a terminal for `line`, run in `folder`. `$coremap` is the program. `None`, with a
/// message on stderr, if there is no `script`.
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
