//! Identifies a process across reuse of its id.

use std::path::Path;

/// Returns the start time of the process at `path` (`/proc/4711`), in clock ticks since the machine started. The
/// kernel reuses process ids, but no two processes with one id have the same start time. `None` if there is no such
/// process, if it has ended and waits for its parent, or if `path` is no process.
pub fn start_ticks(path: &Path) -> Option<u64> {
    starttime(&std::fs::read(path.join("stat")).ok()?)
}

/// Parses field 22 of /proc/PID/stat (proc(5)). The name before it is in brackets and may contain anything, even
/// brackets.
fn starttime(stat: &[u8]) -> Option<u64> {
    let name_ends = stat.iter().rposition(|&b| b == b')')?;
    let fields = std::str::from_utf8(stat.get(name_ends + 1..)?).ok()?;
    // The first of them is field 3, the state: Z for zombies, and X for a moment.
    let mut fields = fields.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(22 - 4)?.parse().ok().filter(|_| !ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 1 2 2 0 -1 4194560 5 0 0 0 1 2 0 0 20 0 1 0 8812 100 200";
        for name in ["sleep", "a b) S 1 (c", ")))", ""] {
            assert_eq!(starttime(format!("4711 ({name}) {rest}").as_bytes()), Some(8812), "{name}");
        }
        for broken in
            ["", "4711 (sleep", "4711 (sleep) S 1 2", "4711 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 no"]
        {
            assert_eq!(starttime(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn our_own_start_stays_the_same() {
        let own = start_ticks(Path::new("/proc/self"));
        assert!(own.is_some() && own == start_ticks(Path::new("/proc/self")));
        assert_eq!(start_ticks(Path::new("/proc/0")), None);
        assert_eq!(start_ticks(Path::new("Cargo.toml")), None);
    }
}
