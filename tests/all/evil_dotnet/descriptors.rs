//! Contract descriptors that lie.

use super::*;
use crate::support::dotnet_builder::Fake;

#[track_caller]
fn with_descriptor(json: &[u8], size: u32, pointers: u32) -> (Fake, Answer) {
    let mut fake = Fake::dotnet_8();
    fake.descriptor(json, size, pointers);
    let answer = of(&fake);
    (fake, answer)
}

#[test]
fn a_sane_descriptor_wins_over_the_bundled_table() {
    // It moves a field to where the sane runtime has another's value.
    let fake = Fake::dotnet_8();
    let moved = fake.table.at("dac_heap_segment", "mem");
    let json = format!(r#"{{"version":0,"types":{{"dac_heap_segment":{{"committed":{moved}}}}}}}"#);
    let (fake, answer) = with_descriptor(json.as_bytes(), json.len() as u32, 0);
    answer.keeps(&fake, OUTSIDE_GC);
    // Committed now ends where `mem` begins: 32 bytes of each region.
    answer.labels_exactly("GCHeap", (0..5).map(|i| HEAP + i * REGION..HEAP + i * REGION + 0x20));
}

#[test]
fn descriptors_that_are_refused_leave_the_bundled_table() {
    let deep = "[".repeat(500_000);
    let deep_types = format!(r#"{{"types":{}1{}}}"#, r#"{"T":"#.repeat(100_000), "}".repeat(100_000));
    let long = format!(r#"{{"types":{{"T":{{"{}":1}}}}}}"#, "x".repeat(900_000));
    let far = r#"{"types":{"dac_heap_segment":{"mem":9223372036854775808}}}"#.to_owned();
    let hex = r#"{"types":{"dac_heap_segment":{"mem":"0xffffffffffffffff"}}}"#.to_owned();
    for json in [deep, deep_types, long, far, hex, "{".into(), String::new()] {
        let (fake, answer) = with_descriptor(json.as_bytes(), json.len() as u32, 0);
        answer.keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
    }
}

#[test]
fn descriptors_that_lie_about_their_size_and_count_leave_the_bundled_table() {
    let json = b"{\"version\":0}";
    for (size, count) in [(u32::MAX, 0), (1 << 20, 0), (13, u32::MAX), (13, 4096), (0, 0), (5, 24)] {
        let (fake, answer) = with_descriptor(json, size, count);
        answer.keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
    }
}

#[test]
fn a_descriptor_of_a_hundred_thousand_types_and_globals() {
    let list: Vec<_> = (0..40_000).map(|i| format!(r#""T{i}":{{"a":1}}"#)).collect();
    let globals: Vec<_> = (0..20_000).map(|i| format!(r#""G{i}":[{i}]"#)).collect();
    let json = format!(r#"{{"types":{{{}}},"globals":{{{}}}}}"#, list.join(","), globals.join(","));
    assert!(json.len() < 1 << 20);
    let (fake, answer) = with_descriptor(json.as_bytes(), json.len() as u32, 0);
    answer.tells("more than 4096 types, globals").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

/// A descriptor that gives every field and size of a type this number.
fn overlay(fake: &Fake, kind: &str, value: i64) -> String {
    let fields: Vec<_> = fake.table.fields(kind).into_iter().map(|f| format!(r#""{f}":{value}"#)).collect();
    format!(r#"{{"types":{{"{kind}":{{{}}}}}}}"#, fields.join(","))
}

#[test]
fn a_descriptor_that_moves_all_fields_of_one_type() {
    let sane = Fake::dotnet_8();
    let mut failed = Vec::new();
    for kind in sane.table.kinds() {
        for value in [-1, -65536, 65536, 0] {
            let json = overlay(&sane, &kind, value);
            let mut fake = Fake::dotnet_8();
            fake.descriptor(json.as_bytes(), json.len() as u32, 0);
            let file = fake.core().write();
            let out = bounded(&["summary", "--json"], file.path()).within(MOST).go();
            if out.signal.is_some() || out.stderr.contains("panicked") || !matches!(out.code, Some(0 | 4)) {
                let line = out.stderr.lines().find(|l| l.contains("panicked")).unwrap_or_default();
                failed.push(format!("{kind} = {value}: {:?} {:?} {line}", out.code, out.signal));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn globals_that_lead_past_the_table_of_pointers() {
    let json = r#"{"globals":{"SystemDomain":[4095],"AppDomain":[18446744073709551615],"EEJitManager":["-1"]}}"#;
    let (fake, answer) = with_descriptor(json.as_bytes(), json.len() as u32, 4);
    answer.keeps(&fake, GC).keeps(&fake, &["HandleTable", "HighFrequencyHeap"]);
}
