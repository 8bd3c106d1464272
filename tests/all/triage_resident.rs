//! `triage` with `--smaps`: what was resident counts, in the core or not.

use std::io::Write;

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load, R, W};
use crate::support::notes;
use crate::support::run::run;

const PAGE: u64 = 0x1000;
const MIB: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;

const ZEROS: u64 = BASE;
const EXCLUDED: u64 = BASE + 0x1000_0000;
const UNLISTED: u64 = BASE + 0x2000_0000;
const FILE: u64 = BASE + 0x3000_0000;
const HUGE: u64 = BASE + 0x5000_0000;
const SWAPPED: u64 = BASE + 0x6000_0000;

/// A mapping of smaps: RSS, hugetlbfs pages and swap in bytes.
struct Row {
    start: u64,
    len: u64,
    what: &'static str,
    rss: u64,
    huge: u64,
    swap: u64,
    flags: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |start, len, rss, flags| Row { start, len, what: "rw-p 00000000 00:00 0", rss, huge: 0, swap: 0, flags };
    vec![
        row(ZEROS, 2 * MIB, MIB, "rd wr"),
        row(EXCLUDED, 64 * MIB, 40 * MIB, "rd wr dd"),
        row(UNLISTED, 8 * MIB, 4 * MIB, "rd wr"),
        Row { what: "r--p 00000000 08:01 77   /data/index", ..row(FILE, 128 * MIB, 100 * MIB, "rd") },
        Row { huge: 2 * MIB, ..row(HUGE, 2 * MIB, 0, "rd wr ht") },
        Row { swap: MIB, ..row(SWAPPED, MIB, 0, "rd wr") },
        row(STACK, PAGE, PAGE, "rd wr"),
    ]
}

fn smaps() -> String {
    let mut text = String::new();
    for Row { start, len, what, rss, huge, swap, flags } in rows() {
        let kib = |bytes: u64| bytes >> 10;
        text.push_str(&format!("{start:x}-{:x} {what}\nRss: {} kB\nPss: {} kB\n", start + len, kib(rss), kib(rss)));
        for key in ["Shared_Clean", "Shared_Dirty", "Private_Clean", "Anonymous", "Shared_Hugetlb"] {
            text.push_str(&format!("{key}: 0 kB\n"));
        }
        text.push_str(&format!("Private_Dirty: {} kB\nPrivate_Hugetlb: {} kB\n", kib(rss), kib(huge)));
        text.push_str(&format!("Swap: {} kB\nVmFlags: {flags}\n", kib(swap)));
    }
    text
}

/// A core without the mapping at `UNLISTED`, and without the bytes of `EXCLUDED` and of the file.
fn core() -> CoreBuilder {
    let mut huge = vec![0; 2 * MIB as usize];
    huge[..PAGE as usize].fill(0x17);
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(1, 0, STACK + 0x800, BASE, 0))
        .note(notes::prpsinfo(1, "lab", "lab"))
        .note(notes::files(PAGE, &[(FILE, FILE + 128 * MIB, 0, "/data/index")]))
        .load(Load::at(ZEROS).flags(R | W).bytes(vec![0; 2 * MIB as usize]))
        .load(Load::at(EXCLUDED).flags(R | W).memsz(64 * MIB))
        .load(Load::at(FILE).flags(R).memsz(128 * MIB))
        .load(Load::at(HUGE).flags(R | W).bytes(huge))
        .load(Load::at(SWAPPED).flags(R | W).bytes(vec![0x29; MIB as usize]))
        .load(Load::at(STACK).bytes(vec![1; 0x1000]))
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number"))
}

fn answer(command: &str, with_smaps: bool) -> Value {
    let file = core().write();
    let mut smaps_file = tempfile::NamedTempFile::new().unwrap();
    smaps_file.write_all(smaps().as_bytes()).unwrap();
    let mut words = vec![command, "--json"];
    if with_smaps {
        words.extend(["--smaps", smaps_file.path().to_str().unwrap()]);
    }
    words.push(file.path().to_str().unwrap());
    run(words).is_sound().json()
}

fn finding<'a>(answer: &'a Value, id: &str) -> &'a Value {
    answer["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["id"] == id)
        .unwrap_or_else(|| panic!("no {id}: {answer:#}"))
}

#[test]
fn resident_memory_is_in_findings_whether_the_core_has_it_or_not() {
    let triage = answer("triage", true);
    let all = (1 + 40 + 4 + 100 + 2) * MIB + PAGE;
    assert_eq!((number(&triage["resident"]), number(&triage["swapped"])), (all, MIB), "{triage:#}");
    assert_eq!(number(&triage["written"]), MIB + 2 * PAGE);
    // What the core lacks has no name. A mapping that it does not list is among it.
    let absent = finding(&triage, "not-in-core");
    assert_eq!((number(&absent["bytes"]), &absent["severity"]), (44 * MIB, &"info".into()), "{absent}");
    let text = absent["text"].as_str().unwrap();
    assert!(text.contains("excluded 40 MiB of it from dumps (MADV_DONTDUMP)"), "{text}");
    assert!(text.contains("does not list the mappings of 4 MiB of it"), "{text}");
    let unnamed: Vec<(&str, u64)> = triage["unnamed"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["content"] == "not in the core")
        .map(|row| (row["start"].as_str().unwrap(), number(&row["bytes"])))
        .collect();
    assert_eq!(unnamed, [(format!("{EXCLUDED:#x}").as_str(), 40 * MIB), (format!("{UNLISTED:#x}").as_str(), 4 * MIB)]);
    // Pages of zeros, hugetlbfs pages and swapped pages.
    let anonymous = finding(&triage, "anonymous");
    assert_eq!(number(&anonymous["bytes"]), 4 * MIB, "{anonymous}");
    let findings = triage["findings"].as_array().unwrap();
    let outer: u64 = findings.iter().filter(|f| f["within"].is_null()).filter_map(|f| f["bytes"].as_u64()).sum();
    assert_eq!(outer, all + MIB);
    // A file that has most of the memory comes before what has less.
    let place = |id: &str| findings.iter().position(|f| f["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    assert_eq!(number(&findings[place("file-pages")]["bytes"]), 100 * MIB);
    assert!(place("file-pages") < place("anonymous"), "{triage:#}");
    let share = findings[place("file-pages")]["share"].as_f64().unwrap();
    assert!((share - 100.0 * MIB as f64 / (all + MIB) as f64).abs() < 1e-4, "{share}");
    // The quick findings count the same.
    let summary = answer("summary", true);
    for id in ["not-in-core", "file-pages"] {
        assert_eq!(finding(&summary, id)["bytes"], finding(&triage, id)["bytes"], "{id}");
    }
}

#[test]
fn without_smaps_written_bytes_count() {
    let triage = answer("triage", false);
    assert!(triage["resident"].is_null() && triage["swapped"].is_null());
    assert_eq!(number(&triage["written"]), MIB + 2 * PAGE);
    let findings = triage["findings"].as_array().unwrap();
    let outer: u64 = findings.iter().filter(|f| f["within"].is_null()).filter_map(|f| f["bytes"].as_u64()).sum();
    assert_eq!(outer, MIB + 2 * PAGE, "{triage:#}");
    assert!(findings.iter().all(|f| f["id"] != "not-in-core"));
}
