//! Memory of a process that pages with data do not show: `resident.c` has pages of zeros, files and shared memory, and
//! pages that are mapped twice.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::live::{MIB, answer, number};
use crate::support::live::compile;

pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sum of a figure over smaps, in bytes.
fn sum(smaps: &str, key: &str) -> u64 {
    let values = smaps.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    values.map(|value| value.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10).sum()
}

#[test]
fn what_is_resident_is_in_a_finding() {
    // Shared memory needs a file system of its own.
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        eprintln!("skipped: there is no /dev/shm");
        return;
    }
    let Some((folder, program)) = compile("resident.c") else { return };
    let shared = tempfile::tempdir_in(shm).unwrap();
    let file = folder.path().join("index");
    std::fs::write(&file, vec![7; 24 << 20]).unwrap();
    let child = Command::new(program)
        .args([&file, &shared.path().join("shared")])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");

    let pid = running.0.id().to_string();
    let smaps = || std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let kernel = || {
        let text = smaps();
        sum(&text, "Rss") + sum(&text, "Private_Hugetlb") + sum(&text, "Shared_Hugetlb")
    };
    let before = kernel();
    let triage = answer(&["triage", "--json", "--pid", &pid]);
    // 4 MiB are resident at two addresses. RSS counts them twice.
    assert_eq!(number(&triage["second_views"]), 4 * MIB, "{triage:#}");
    // The process may touch a few more pages of code before it sleeps.
    let counted = number(&triage["resident"]) + 4 * MIB;
    assert!((before..=kernel()).contains(&counted), "{counted}");
    assert_eq!(number(&triage["swapped"]), sum(&smaps(), "Swap"));
    let findings = triage["findings"].as_array().unwrap();
    let outer: u64 = findings.iter().filter(|f| f["within"].is_null()).filter_map(|f| f["bytes"].as_u64()).sum();
    assert_eq!(outer, number(&triage["resident"]) + number(&triage["swapped"]));

    let of = |id: &str| findings.iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("no {id}: {triage:#}"));
    assert_eq!(number(&of("shared-memory")["bytes"]), (20 + 12) * MIB);
    assert_eq!(number(&of("file-pages")["bytes"]), 24 * MIB);
    let anonymous = of("anonymous");
    assert!((80 * MIB..81 * MIB).contains(&number(&anonymous["bytes"])), "{anonymous}");
    let text = anonymous["text"].as_str().unwrap();
    assert!(text.contains("48 MiB are zeros; of the rest, 99 % one byte value, 0x07"), "{text}");
    assert_eq!((&findings[0]["id"], &findings[0]["severity"]), (&Value::from("anonymous"), &Value::from("info")));
}
