//! Shrunk real cores of .NET 3.1, 8, 9 and 10 against what the official
//! data-access library answered over the whole cores
//! (testdata/cores/*/official.json), and shrinking itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::cases::{Case, serving};
use crate::support::real::{self, hex};
use crate::support::run::run;
use serde_json::Value;

type Ranges = Vec<(u64, u64)>;

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
fn equals_official(case: &Case) {
    let name = &case.name;
    let (core, want) = (real::argument(name), real::official(name));
    let regions = answer(&["regions"], &core);
    let runtime = &regions["core"]["runtimes"][0];
    assert_eq!(runtime["version"], want["version"]);
    assert_eq!(runtime["gc"], case.runtime.as_ref().unwrap().gc.as_deref().unwrap());
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
fn heaps_are_those_that_the_official_library_told() {
    serving("heaps").into_iter().for_each(equals_official);
}

/// Where the sizes and offsets of a core's runtime came from.
fn layout_source(name: &str) -> String {
    let summary = answer(&["summary"], &real::argument(name));
    summary["core"]["runtimes"][0]["layout_source"].as_str().unwrap().to_owned()
}

#[test]
fn dotnet_10_is_read_by_its_own_descriptor() {
    let source = layout_source("dotnet10-shrunk");
    assert!(source.contains("contract descriptor"), "{source}");
}

#[test]
fn a_kernel_core_without_the_runtimes_symbol_table_is_read_by_its_shape() {
    let source = layout_source("dotnet10-kernel-shrunk");
    assert!(source.contains("by its shape"), "{source}");
}

/// .NET 3.1 exports no offsets of the fields of a heap.
#[test]
fn a_server_gc_of_fixed_layout_has_its_heaps_objects_and_finalizers() {
    let (core, truth) = (real::plain("dotnet31-server"), real::own_report("dotnet31-server"));
    let core = core.to_str().unwrap();
    let heap = answer(&["heap"], core);
    let heaps: BTreeSet<u64> =
        heap["segments"].as_array().unwrap().iter().map(|s| s["heap"].as_u64().unwrap()).collect();
    assert_eq!(heap["gc"]["server"], truth["server"]);
    assert_eq!(Some(heaps.len() as u64), truth["heaps"].as_u64());
    let stat = answer(&["heapstat"], core);
    let types = stat["types"].as_array().unwrap();
    let count = |name: &str| types.iter().find(|t| t["type"] == name).map(|t| t["count"].clone()).unwrap_or_default();
    assert_eq!((&count("Lab.Crate"), &count("Lab.Latch")), (&truth["crates"], &truth["latches"]));
    let large = answer(&["heapstat", "--generation", "loh"], core);
    let least = truth["large"].as_u64().unwrap() * truth["large_bytes"].as_u64().unwrap();
    let blobs = |t: &&Value| t["count"] == truth["large"] && t["size"].as_u64() > Some(least);
    assert_eq!(large["types"].as_array().unwrap().iter().filter(blobs).count(), 1, "{large:#}");
    let finalizers = answer(&["finalizers"], core);
    let latches = finalizers["objects"].as_array().unwrap().iter().filter(|o| o["type"] == "Lab.Latch").count();
    assert_eq!(Some(latches as u64), truth["latches"].as_u64());
}

#[test]
fn server_gc_in_the_middle_of_a_collection_has_two_heaps() {
    let heap = answer(&["heap"], &real::argument("dotnet10-server-ingc-shrunk"));
    assert_eq!(heap["gc"]["heaps"], 2);
}

#[test]
fn cores_of_another_writer_than_the_tables_were_made_from() {
    // Made by this project from another 3.1 program: no official answer, but
    // the parts must fit each other.
    for name in ["dotnet31-kernel", "dotnet31-createdump"] {
        let heap = answer(&["heap", "--loader"], &real::argument(name));
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
    // How much of something the core holds is what shrinking changes, and kinds are in that order.
    if let Some(kinds) = answer.get_mut("kinds").and_then(Value::as_array_mut) {
        kinds.sort_by_key(|k| k["kind"].as_str().unwrap().to_owned());
    }
    if let Some(findings) = answer.get_mut("findings").and_then(Value::as_array_mut) {
        findings.retain(|f| f["severity"] != "info");
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
    for name in ["dotnet31-kernel", "dotnet31-createdump", "native-glibc-kernel", "native-musl-gcore"] {
        let whole = real::plain(name);
        let whole = whole.to_str().unwrap();
        let small = dir.path().join(name);
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
