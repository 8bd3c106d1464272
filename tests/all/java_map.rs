//! The map of a Java VM beside what the VM said of itself just before the dump (Native Memory Tracking), to the byte.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::support::cases::serving;
use crate::support::real;
use crate::support::run::run;

/// truth.json, in KiB as jcmd writes them: reserved and committed by category.
#[derive(Deserialize)]
struct Truth {
    nmt: BTreeMap<String, [u64; 2]>,
}

/// Categories, and kinds with their details that are committed and that are reserved for them.
const CATEGORIES: [(&str, &[&str], &str); 6] = [
    ("Java Heap", &["GCHeap", "GCHeapToBeFreed"], "reserved for the Java heap"),
    ("Class", &["ClassSpace"], "reserved for the class space"),
    ("Metaspace", &["Metaspace"], "reserved for metaspace"),
    ("Shared class space", &["CdsArchive"], "reserved for the CDS archive"),
    ("Code", &["CodeCache"], "reserved for the code cache"),
    ("GC", &["GCBookkeeping"], "reserved for GC bookkeeping"),
];

#[test]
fn each_kind_is_as_large_as_the_vm_says() {
    assert!(!serving("java-map").is_empty());
    for case in serving("java-map") {
        let name = &case.name;
        let truth = std::fs::read_to_string(case.folder.join("truth.json")).unwrap();
        let truth: Truth = serde_json::from_str(&truth).unwrap();
        let answer = run(["regions", "--json", real::plain(name).to_str().unwrap()]).is_sound().json();
        let regions = answer["regions"].as_array().unwrap();
        let sum = |is: &dyn Fn(&str, &str) -> bool| -> u64 {
            let text = |r: &serde_json::Value, field: &str| r[field].as_str().unwrap().to_owned();
            let mine = regions.iter().filter(|r| is(&text(r, "kind"), &text(r, "detail")));
            mine.map(|r| r["size"].as_u64().unwrap()).sum()
        };
        for (category, kinds, reserve) in CATEGORIES {
            let [reserved, committed] = truth.nmt[category].map(|kib| kib << 10);
            let used = sum(&|kind, _| kinds.contains(&kind));
            assert_eq!(used, committed, "{name}: {category}, committed");
            let segment_maps = "reserved for the segment map";
            let kept = sum(&|_, detail| {
                detail.starts_with(reserve) || (category == "Code" && detail.starts_with(segment_maps))
            });
            assert_eq!(used + kept, reserved, "{name}: {category}, reserved");
        }
        let details: Vec<&str> = regions.iter().map(|r| r["detail"].as_str().unwrap()).collect();
        for wanted in ["Serial eden", "Serial survivor", "Serial old", "interpreter", "stub routines", "card table"] {
            assert!(details.contains(&wanted), "{name}: no {wanted}");
        }
        // What nobody claims is next to nothing.
        assert!(sum(&|kind, _| kind.starts_with("Anon")) < 64 << 10, "{name}");
    }
}
