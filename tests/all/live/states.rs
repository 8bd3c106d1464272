//! States of resident memory that its size does not show: `states.c` has freed, locked and huge pages.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::live::{MIB, answer, number};
use crate::support::live::compile;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn smaps_of(pid: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap()
}

/// Sum of a figure over the mappings of smaps that have `flag`, in bytes.
fn sum(smaps: &str, key: &str, flag: &str) -> u64 {
    let (mut all, mut own) = (0, 0);
    for line in smaps.lines() {
        if let Some(value) = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')) {
            own = value.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10;
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            all += if flag.is_empty() || flags.split_whitespace().any(|f| f == flag) { own } else { 0 };
            own = 0;
        }
    }
    all
}

#[test]
fn freed_locked_and_huge_pages_are_findings() {
    let Some((_folder, program)) = compile("states.c") else { return };
    let child = Command::new(program).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line}");
    let pid = running.0.id().to_string();
    let smaps = smaps_of(&pid);
    let freed = sum(&smaps, "LazyFree", "");
    let huge = sum(&smaps, "AnonHugePages", "");
    let locked = sum(&smaps, "Rss", "lo");
    assert!(!line.contains("locked") || locked >= 20 * MIB, "{smaps}");
    for command in ["triage", "summary"] {
        let answer = answer(&[command, "--json", "--pid", &pid]);
        let findings = answer["findings"].as_array().unwrap();
        for (id, kernel) in [("freed-lazily", freed), ("huge-pages", huge), ("locked-memory", locked)] {
            let finding = findings.iter().find(|f| f["id"] == id);
            if kernel < 16 * MIB {
                eprintln!("skipped: the system gave no such pages: {id}");
                continue;
            }
            let finding = finding.unwrap_or_else(|| panic!("no {id}: {answer:#}"));
            // The kernel counts a page as freed lazily when a batch of them is full, so the figure may still change.
            let later = match id {
                "freed-lazily" => sum(&smaps_of(&pid), "LazyFree", ""),
                _ => kernel,
            };
            let known = kernel.min(later)..=kernel.max(later);
            assert!(known.contains(&number(&finding["bytes"])), "{known:?}: {finding}");
            // It counts in another finding.
            let within = findings.iter().find(|f| f["id"] == finding["within"] && f["within"].is_null());
            assert!(within.is_some(), "{finding}");
            if id == "locked-memory" {
                assert!(finding["text"].as_str().unwrap().contains("stacks 20"), "{finding}");
            }
        }
    }
}
