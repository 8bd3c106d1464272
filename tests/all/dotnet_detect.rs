//! What is a .NET runtime, and of which version: its structures decide, and no text.

use serde_json::Value;

use crate::support::dotnet_builder::{FREE, Fake, GLOBALS, IMAGE, SLOTS, VARS};
use crate::support::real;
use crate::support::run::bounded;

/// The runtimes that `summary` lists, its warnings, and its exit status.
fn found(fake: &Fake) -> (Vec<Value>, String, i32) {
    let file = fake.core().write();
    let out = bounded(&["summary", "--json"], file.path()).go();
    let answer = out.json();
    let runtimes = answer["core"]["runtimes"].as_array().unwrap().clone();
    (runtimes, answer["warnings"].to_string(), out.code.unwrap())
}

#[track_caller]
fn is(runtime: &Value, version: &str, layout: &str) {
    assert_eq!(runtime["version"], version, "{runtime}");
    assert!(runtime["layout_source"].as_str().unwrap().starts_with(layout), "{runtime}");
}

#[test]
fn the_host_program_is_no_runtime() {
    // The host may be of any version: 7 has a layout that no core has proven, 8 has one, 42 is nobody's.
    for version in ["7.0.2024.26716", "8.0.3326.52219", "42.42.42.42424", "3.100.2.1"] {
        let mut fake = Fake::dotnet_8();
        let text = format!("@(#)Version {version} @Commit: x");
        fake.program(FREE, "/usr/share/dotnet/dotnet", text.as_bytes());
        let (runtimes, warnings, code) = found(&fake);
        assert_eq!((runtimes.len(), code), (1, 0), "{version}: {warnings}");
        is(&runtimes[0], "8.0.33", "dotnet-8-x64");
    }
}

#[test]
fn a_program_that_has_the_runtime_inside_is_one() {
    // Of 7, whose layout does not fit it: what it is has to be said.
    let mut fake = Fake::dotnet_8();
    let table = 0x1100;
    let mut data = b"@(#)Version 7.0.2024.26716 @Commit: x".to_vec();
    data.resize(0x100, 0);
    data.extend((0..128).flat_map(|i| (FREE + table + 0x700 + 8 * i).to_le_bytes()));
    data.resize(0x800, 0);
    // Each slot leads to a word of its own; GcDacVars hangs off another slot than in 8.
    let vars = FREE + 0x1c00;
    data.resize(0xc00, 0);
    data[0x800 + 8 * 40..][..8].copy_from_slice(&vars.to_le_bytes());
    data.extend([2, 1, 0, 0, 0, 0, 0, 0]);
    data.extend([0x108u64, 5].into_iter().flat_map(u64::to_le_bytes));
    fake.program(FREE, "/srv/app/app", &data);
    let (runtimes, warnings, code) = found(&fake);
    assert_eq!((runtimes.len(), code), (1, 4), "{warnings}");
    let told = "/srv/app/app: .NET 7.0.20: its structures fit no layout";
    assert!(warnings.contains(told), "{warnings}");
}

/// Code of arm64 reaches globals by way of the global offset table, which lies before the runtime's own table of them
/// and leads into the image too: to GcDacVars as well, at the place where that has it.
#[test]
fn the_table_of_globals_is_that_whose_slots_lead_to_what_they_are_named_for() {
    let mut fake = Fake::dotnet_8();
    let source = |fake: &Fake| {
        let (runtimes, warnings, _) = found(fake);
        (runtimes[0]["layout_source"].as_str().unwrap().to_owned(), warnings)
    };
    let plain = source(&fake);
    assert!(plain.0.contains(&format!("by its shape at {:#x}", IMAGE + SLOTS)), "{plain:?}");
    let slot = fake.table.slot("GcDacGlobals");
    for i in 0..=slot {
        fake.put(IMAGE + SLOTS - 8 * (i + 1), IMAGE + GLOBALS + 8 * (slot - i));
    }
    assert_eq!(source(&fake), plain);
}

#[test]
fn structures_are_judged_before_the_text() {
    // A build of one's own calls itself 42, whatever it is of.
    let mut fake = Fake::dotnet_8();
    fake.poke(VARS_AT, &[2, 1]);
    fake.version("@(#)Version 42.42.42.42424 @Commit: x");
    let (runtimes, warnings, code) = found(&fake);
    assert_eq!(code, 0);
    is(&runtimes[0], "42.42.0", "dotnet-8-x64");
    assert!(warnings.contains("coremap uses the layout of .NET 8"), "{warnings}");
    // No text at all.
    fake.version("");
    fake.path = Some("/x/libcoreclr.so");
    let (runtimes, warnings, code) = found(&fake);
    assert_eq!(code, 0);
    is(&runtimes[0], "8.0", "dotnet-8-x64");
    assert!(warnings.contains("its version is not in the core; its structures match .NET 8.0"), "{warnings}");
    // A GC that no known version has.
    fake.put(VARS_AT + 8, 0x118);
    let (runtimes, warnings, _) = found(&fake);
    assert!(runtimes.is_empty());
    assert!(warnings.contains("its structures fit no layout"), "{warnings}");
    // And a table without any.
    for i in 0..128 {
        fake.put(IMAGE + SLOTS + 8 * i, 0);
    }
    assert!(found(&fake).0.is_empty());
}

/// GcDacVars.
const VARS_AT: u64 = IMAGE + VARS;

/// The regions of a kind, without what is told of them: start, size.
fn regions(core: &std::path::Path, kind: &str) -> Vec<(String, u64, String)> {
    let answer = bounded(&["regions", "--json", "--kind", kind], core).go().json();
    let rows = answer["regions"].as_array().unwrap().iter();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    rows.map(|r| (text(&r["start"]), r["size"].as_u64().unwrap(), text(&r["confidence"]))).collect()
}

/// A recorded core whose runtime says that it is of another version.
fn disguised(name: &str, from: &str, to: &str) -> tempfile::NamedTempFile {
    let mut bytes = std::fs::read(real::plain(name)).unwrap();
    let (from, to) = (format!("@(#)Version {from}"), format!("@(#)Version {to}"));
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, &from).collect();
    assert!(!places.is_empty() && from.len() == to.len(), "{name}: {from}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// What .NET's versions 5 to 7 and those to come have in common with 8 is found by shape, and told as derived;
/// the structures that differ by version are not guessed at.
#[test]
fn a_version_that_no_core_has_proven_is_read_by_shape_and_told_as_derived() {
    let whole = real::plain("dotnet8-shrunk");
    let heap = regions(&whole, "GCHeap");
    assert!(heap.len() > 3 && heap.iter().all(|r| r.2 == "exact"), "{heap:?}");
    for (version, layout, told) in [
        ("5.0.3326.52219", "dotnet-7-x64", "(dotnet-7-x64) is derived from public headers"),
        ("6.0.3326.52219", "dotnet-7-x64", "(dotnet-7-x64) is derived from public headers"),
        ("7.0.3326.52219", "dotnet-7-x64", "(dotnet-7-x64) is derived from public headers"),
        ("42.42.42.42424", "dotnet-8-x64", "coremap uses the layout of .NET 8. The GC's structures fit"),
    ] {
        let file = disguised("dotnet8-shrunk", "8.0.3326.52219", version);
        let answer = bounded(&["summary", "--json"], file.path()).go();
        let (text, answer) = (answer.stderr.clone(), answer.json());
        let runtimes = answer["core"]["runtimes"].as_array().unwrap();
        assert_eq!(runtimes.len(), 1, "{version}: {text}");
        assert!(runtimes[0]["layout_source"].as_str().unwrap().contains(layout), "{}", runtimes[0]);
        assert!(answer["warnings"].to_string().contains(told), "{version}: {}", answer["warnings"]);
        let got = regions(file.path(), "GCHeap");
        let want: Vec<_> = heap.iter().map(|(start, size, _)| (start.clone(), *size, "derived".to_owned())).collect();
        assert_eq!(got, want, "{version}");
    }
}

#[test]
fn a_version_whose_structures_fit_no_layout_claims_nothing() {
    // 3.1 neither counts its generations nor describes them by offsets.
    for (name, from, to) in [
        ("dotnet31-shrunk", "4.700.22", "5.000.22"),
        ("dotnet31-shrunk", "4.700.22", "6.000.22"),
        ("dotnet31-shrunk", "4.700.22", "7.000.22"),
    ] {
        let file = disguised(name, from, to);
        let answer = bounded(&["summary", "--json"], file.path()).go().json();
        assert_eq!(answer["core"]["runtimes"].as_array().unwrap().len(), 0, "{name} as {to}");
        assert!(answer["warnings"].to_string().contains("dotnet-unusable"), "{}", answer["warnings"]);
        for kind in ["GCHeap", "GCHeapReserve", "GCBookkeeping", "HandleTable", "LoaderCodeHeap"] {
            assert!(regions(file.path(), kind).is_empty(), "{name} as {to}: {kind}");
        }
    }
}
