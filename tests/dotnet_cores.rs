//! Shrunk real cores of .NET 3.1, 8, 9 and 10 against what the official
//! data-access library answered over the whole cores
//! (testdata/cores/*.official.json), and shrinking itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::real::hex;
use support::run::run;

type Ranges = Vec<(u64, u64)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores")
}

fn core(name: &str) -> String {
    folder().join(format!("{name}.core.zst")).to_str().unwrap().to_owned()
}

fn official(name: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(format!("{name}.official.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn answer(args: &[&str], core: &str) -> Value {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    assert!(matches!(out.code, Some(0 | 4)), "{args:?} {core}: {out:?}");
    out.json()
}

fn joined(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    let mut out: Ranges = Vec::new();
    for (a, b) in ranges {
        match out.last_mut() {
            Some(last) if a <= last.1 => last.1 = last.1.max(b),
            _ => out.push((a, b)),
        }
    }
    out
}

/// Bytes of `a` that are not in `b`; both joined.
fn minus(a: &Ranges, b: &Ranges) -> u64 {
    let common: u64 = a.iter().flat_map(|x| b.iter().map(move |y| x.1.min(y.1).saturating_sub(x.0.max(y.0)))).sum();
    a.iter().map(|(s, e)| e - s).sum::<u64>() - common
}

fn ranges(list: &Value) -> Ranges {
    joined(list.as_array().unwrap().iter().map(|r| (hex(&r[0]), hex(&r[1]))).collect())
}

/// Kinds and segments of a core equal the official library's, to the byte.
#[track_caller]
fn equals_official(name: &str, gc: &str) {
    let (core, want) = (core(name), official(name));
    let regions = answer(&["regions"], &core);
    let runtime = &regions["core"]["runtimes"][0];
    assert_eq!(runtime["version"], want["version"]);
    assert_eq!(runtime["gc"], gc);
    let mut got: BTreeMap<&str, Ranges> = BTreeMap::new();
    for r in regions["regions"].as_array().unwrap() {
        got.entry(r["kind"].as_str().unwrap()).or_default().push((hex(&r["start"]), hex(&r["end"])));
    }
    // Named twice by the official library, or reserved and not committed:
    // either label will do there.
    let either = ranges(&want["either"]);
    for (kind, list) in want["kinds"].as_object().unwrap() {
        let want = ranges(list);
        let got = joined(got.get(kind.as_str()).cloned().unwrap_or_default());
        let missing = minus(&want, &joined([got.clone(), either.clone()].concat()));
        let too_much = minus(&got, &joined([want, either.clone()].concat()));
        assert_eq!((missing, too_much), (0, 0), "{name}: {kind}: bytes missing, bytes too much");
    }
    let heap = answer(&["heap"], &core);
    let segments: BTreeSet<(String, u64, u64, u64)> = heap["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["generation"].as_str().unwrap().into(), hex(&s["start"]), hex(&s["end"]), hex(&s["committed_end"])))
        .collect();
    let official: BTreeSet<(String, u64, u64, u64)> = want["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s[0].as_str().unwrap().into(), hex(&s[1]), hex(&s[2]), hex(&s[3])))
        .collect();
    assert!(!official.is_empty());
    assert_eq!(segments, official, "{name}: segments");
}

#[test]
fn dotnet_3_1_by_segments_without_an_exported_table() {
    equals_official("dotnet31-shrunk", "workstation");
}

#[test]
fn dotnet_8_by_regions() {
    equals_official("dotnet8-shrunk", "workstation");
}

#[test]
fn dotnet_9_in_a_gcore() {
    equals_official("dotnet9-shrunk", "workstation");
}

#[test]
fn dotnet_10_by_its_own_descriptor() {
    equals_official("dotnet10-shrunk", "workstation");
    let source = answer(&["summary"], &core("dotnet10-shrunk"))["core"]["runtimes"][0]["layout_source"].clone();
    assert!(source.as_str().unwrap().contains("contract descriptor"), "{source}");
}

#[test]
fn server_gc_in_the_middle_of_a_collection() {
    equals_official("dotnet10-server-ingc-shrunk", "server");
    let heap = answer(&["heap"], &core("dotnet10-server-ingc-shrunk"));
    assert_eq!(heap["gc"]["heaps"], 2);
}

#[test]
fn a_kernel_core_without_the_runtimes_symbol_table() {
    equals_official("dotnet10-kernel-shrunk", "workstation");
    let source = answer(&["summary"], &core("dotnet10-kernel-shrunk"))["core"]["runtimes"][0]["layout_source"].clone();
    assert!(source.as_str().unwrap().contains("by its shape"), "{source}");
}

#[test]
fn cores_of_another_writer_than_the_tables_were_made_from() {
    // Made by this project from another 3.1 program: no official answer, but
    // the parts must fit each other.
    for name in ["dotnet31-kernel", "dotnet31-createdump"] {
        let core = folder().join(format!("{name}.core.zst"));
        let heap = answer(&["heap", "--loader"], core.to_str().unwrap());
        assert_eq!(heap["gc"]["regions"], false, "{name}");
        let segments = heap["segments"].as_array().unwrap();
        assert_eq!(segments.len(), 2, "{name}: the ephemeral segment and the large object heap");
        for s in segments {
            assert!(hex(&s["start"]) <= hex(&s["end"]) && hex(&s["end"]) <= hex(&s["committed_end"]), "{s}");
        }
        assert!(heap["loader"].as_array().unwrap().iter().any(|l| l["kind"] == "LoaderCodeHeap"), "{name}");
    }
}

/// What a command says, without what shrinking changes by its nature.
fn comparable(mut answer: Value) -> Value {
    answer.as_object_mut().unwrap().remove("core");
    // What threads do is kept by `--for threads` only; that it is missing may be told.
    if answer["command"] == "stacks" {
        answer.as_object_mut().unwrap().remove("groups");
        answer.as_object_mut().unwrap().remove("warnings");
    }
    fn strip(v: &mut Value) {
        match v {
            Value::Object(map) => {
                map.remove("in_core");
                map.remove("does");
                map.remove("managed_id");
                map.values_mut().for_each(strip);
            }
            Value::Array(list) => list.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut answer);
    answer
}

#[test]
fn a_shrunk_core_answers_as_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "dotnet31-kernel.core.zst",
        "dotnet31-createdump.core.zst",
        "native-glibc-kernel.core.gz",
        "native-musl-gcore.core.lz4",
    ] {
        let whole = folder().join(name);
        let whole = whole.to_str().unwrap();
        let small = dir.path().join(name).with_extension("small");
        let small = small.to_str().unwrap();
        let out = run(["shrink", whole, "-o", small]);
        assert!(matches!(out.code, Some(0 | 4)), "{name}: {out:?}");
        for args in [&["summary"][..], &["regions"], &["stacks"], &["heap", "--loader"]] {
            let ours = |core| {
                let out = run(args.iter().copied().chain(["--json", core]));
                out.is_sound();
                comparable(out.json())
            };
            assert_eq!(ours(whole), ours(small), "{name}: {args:?}");
        }
        let size = |v: Value| v["total"]["in_core"].as_u64().unwrap();
        assert!(size(answer(&["summary"], small)) < size(answer(&["summary"], whole)) / 2, "{name} is hardly smaller");
        // It never writes over a file.
        run(["shrink", whole, "-o", small]).exits(2);
    }
}
