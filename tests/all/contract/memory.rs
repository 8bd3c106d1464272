//! What is said of memory: the core, its map, its bytes.

use std::cmp::Reverse;

use serde_json::Value;

use super::forms::*;
use crate::support::builder::{CoreBuilder, Load};
use crate::support::real;

const REGION: &[(&str, Form)] = &[
    ("start", Address),
    ("end", Address),
    ("size", Number),
    ("kind", Text),
    ("detail", Text),
    ("perms", Text),
    ("?file", Text),
    ("in_core", Number),
    ("confidence", Text),
];

const FINDING: &[(&str, Form)] = &[("id", Text), ("severity", Text), ("text", Text), ("evidence", Text)];

#[test]
fn info() {
    on_each_core(|name, core| {
        let v = answer(&["info"], core);
        let process = [
            ("?pid", Number),
            ("?program", Text),
            ("?arguments", Number),
            ("command_line", Null),
            ("command_line_withheld", Bool),
            ("environment_withheld", Number),
            ("?executable", Text),
            ("?environment", List),
            ("?signal", Object),
            ("?crash_thread", Number),
            ("os", List),
            ("page_size", Number),
        ];
        holds(name, &v["process"], &process);
        let all = answer(&["info", "--show-data"], core);
        holds(name, &all["process"], &[("?command_line", List), ("?environment", List)]);
        let module = [("path", Text), ("base", Address), ("size", Number), ("?build_id", Text), ("?kind", Text)];
        if name != "native-aarch64-qemu" {
            all_hold(name, &v["modules"], &module);
        }
        for m in v["modules"].as_array().unwrap() {
            assert!(m["kind"].is_null() || m["kind"] == "elf" || m["kind"] == "pe", "{name}: {m}");
            let id = m["build_id"].as_str().unwrap_or_default();
            assert!(id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{name}: {m}");
        }
        holds(name, &v, &[("completeness", Object)]);
    });
}

#[test]
fn summary() {
    on_each_core(|name, core| {
        for zero_fill in [false, true] {
            let v = answer(if zero_fill { &["summary", "--zero-fill"] } else { &["summary"] }, core);
            let scanned = if zero_fill { Number } else { Null };
            let kind = [
                ("kind", Text),
                ("count", Number),
                ("size", Number),
                ("in_core", Number),
                ("largest", Number),
                ("zero", scanned),
                ("written", scanned),
            ];
            all_hold(name, &v["kinds"], &kind);
            let kinds = v["kinds"].as_array().unwrap();
            // Biggest first by what is in the core, and what was only reserved below all that.
            let place = |k: &Value| {
                let reserved = matches!(k["kind"].as_str(), Some("NoAccess" | "GCHeapReserve" | "StackGuard"));
                (reserved, Reverse((k["in_core"].as_u64(), k["size"].as_u64())))
            };
            assert!(kinds.is_sorted_by_key(place), "{name}: {kinds:?}");
            for k in kinds.iter().chain([&v["total"]]).filter(|_| zero_fill) {
                let sum = k["zero"].as_u64().unwrap() + k["written"].as_u64().unwrap();
                assert_eq!(k["in_core"], sum, "{name}: written = in_core - zero");
            }
            let total =
                [("count", Number), ("size", Number), ("in_core", Number), ("zero", scanned), ("written", scanned)];
            holds(name, &v["total"], &total);
            holds(name, &v["base"], &[("size", Number), ("in_core", Number)]);
            assert!(v["conditions"].as_array().unwrap().is_empty(), "{name}: none was asked for");
            for f in v["findings"].as_array().unwrap() {
                holds(name, f, FINDING);
            }
        }
    });
}

#[test]
fn regions_and_maddress_are_the_same_list() {
    on_each_core(|name, core| {
        let v = answer(&["regions"], core);
        all_hold(name, &v["regions"], REGION);
        for r in v["regions"].as_array().unwrap() {
            let perms: Vec<char> = r["perms"].as_str().unwrap().chars().collect();
            let letters = ["r-?", "w-?", "x-?", "ps?"];
            assert!(perms.len() == 4 && perms.iter().zip(letters).all(|(c, of)| of.contains(*c)), "{name}: {r}");
            assert!(["exact", "derived", "heuristic"].iter().any(|c| r["confidence"] == *c), "{name}: {r}");
            assert!(r["in_core"].as_u64() <= r["size"].as_u64(), "{name}: {r}");
        }
        assert_eq!(answer(&["maddress"], core)["regions"], v["regions"], "{name}");
        // A kind in any case of letters; a sort by size.
        let stacks = answer(&["regions", "--kind", "sTACK"], core);
        let want: Vec<_> = v["regions"].as_array().unwrap().iter().filter(|r| r["kind"] == "Stack").cloned().collect();
        assert_eq!(stacks["regions"], Value::Array(want), "{name}");
        let sorted = answer(&["regions", "--sort", "size"], core);
        let sizes: Vec<_> = sorted["regions"].as_array().unwrap().iter().map(|r| r["size"].as_u64()).collect();
        assert!(sizes.windows(2).all(|w| w[0] >= w[1]), "{name}");
        assert_eq!(sizes.len(), v["regions"].as_array().unwrap().len());
    });
}

#[test]
fn stacks() {
    on_each_core(|name, core| {
        for zero_fill in [false, true] {
            let v = answer(if zero_fill { &["stacks", "--zero-fill"] } else { &["stacks"] }, core);
            let scanned = if zero_fill { Number } else { Null };
            let stack = [
                ("?tid", Number),
                ("?name", Text),
                ("?managed_id", Number),
                ("?low", Address),
                ("?high", Address),
                ("?reserved", Number),
                ("?guard", Number),
                ("?sp", Address),
                ("?in_use", Number),
                ("?touched", scanned),
                ("in_core", Number),
                ("?zero", scanned),
                ("?written", scanned),
                ("?does", Text),
                ("source", Text),
            ];
            all_hold(name, &v["stacks"], &stack);
            holds(name, &v, &[("groups", List), ("total", Object), ("findings", List)]);
            let group = [
                ("?does", Text),
                ("count", Number),
                ("tids", List),
                ("reserved", Number),
                ("in_use", Number),
                ("?touched", scanned),
                ("?written", scanned),
            ];
            all_hold(name, &v["groups"], &group);
            for f in v["findings"].as_array().unwrap() {
                holds(name, f, FINDING);
            }
            for s in v["stacks"].as_array().unwrap().iter().filter(|s| !s["in_use"].is_null()) {
                let in_use = real::hex(&s["high"]) - real::hex(&s["sp"]);
                assert_eq!(s["in_use"], in_use, "{name}: {s}");
            }
        }
    });
}

#[test]
fn search() {
    let core = real::plain("native-glibc-kernel");
    let v = answer(&["search", "coremap-", "--context", "--limit", "5"], core.to_str().unwrap());
    holds("search", &v, &[("hits", List), ("total", Number), ("scanned", Number)]);
    let hit = [("address", Address), ("encoding", Text), ("kind", Text), ("detail", Text), ("context", Text)];
    all_hold("search", &v["hits"], &hit);
    assert_eq!(v["hits"].as_array().unwrap().len(), 5);
    assert!(v["total"].as_u64() > Some(5));
    let none = answer(&["search", "no such text anywhere in it"], core.to_str().unwrap());
    assert_eq!((none["total"].clone(), none["hits"].clone()), (0.into(), Value::Array(Vec::new())));
}

#[test]
fn search_finds_what_the_process_put_there() {
    // Addresses that the process printed of its own strings.
    for (name, pattern, marker, encoding) in [
        ("native-glibc-kernel", "coremap", "heap_utf8", "utf8"),
        ("native-glibc-kernel", "coremap", "anon_utf16le", "utf16"),
        ("dotnet31-kernel", "coremap-marker-managed", "marker_utf16_chars", "utf16"),
        ("dotnet31-gcore", "coremap-marker-managed", "marker_utf16_chars", "utf16"),
        ("dotnet31-createdump", "coremap-marker-managed", "marker_utf16_chars", "utf16"),
    ] {
        let v = answer(&["search", pattern], real::plain(name).to_str().unwrap());
        let want = &real::truth(name).all["markers"][marker];
        let near = |h: &&Value| real::hex(&h["address"]).abs_diff(real::hex(want)) < 64 && h["encoding"] == encoding;
        let hits = v["hits"].as_array().unwrap();
        assert!(hits.iter().any(|h| near(&h)), "{name}: {marker} at {want}: {hits:?}");
    }
}

#[test]
fn whatis() {
    let core = real::plain("native-glibc-kernel");
    let v = answer(&["whatis", "0x7fe744a0fdd0", "--bytes", "16"], core.to_str().unwrap());
    holds("whatis", &v, &[("address", Address), ("region", Object), ("evidence", Text), ("bytes", Text)]);
    holds("whatis", &v["region"], REGION);
    assert_eq!(v["bytes"].as_str().unwrap().len(), 32);
    let v = answer(&["whatis", "0x10"], core.to_str().unwrap());
    assert!(v["region"].is_null());
}

#[test]
fn refs() {
    let core = real::plain("native-glibc-kernel");
    let v = answer(&["refs", "--region", "0x7fe744a0fdd0"], core.to_str().unwrap());
    holds("refs", &v, &[("target", Object), ("counts", List), ("refs", List), ("total", Number), ("scanned", Number)]);
    all_hold("refs", &v["refs"], &[("value", Address), ("from", Text), ("detail", Text), ("offset", Number)]);
    let counted: u64 = v["counts"].as_array().unwrap().iter().map(|c| c["count"].as_u64().unwrap()).sum();
    assert_eq!(Some(counted), v["total"].as_u64());
}

#[test]
fn anon() {
    let core = real::plain("native-glibc-kernel");
    let v = answer(&["anon"], core.to_str().unwrap());
    holds("anon", &v, &[("clusters", List), ("size", Number), ("regions", Number), ("scanned", Number)]);
    let cluster = [("size", Number), ("count", Number), ("bytes", Number), ("content", Text), ("example", Address)];
    all_hold("anon", &v["clusters"], &cluster);
}

#[test]
fn diff() {
    let (old, new) = (real::plain("native-glibc-kernel"), real::plain("native-musl-gcore"));
    let v = answer(&["diff", old.to_str().unwrap()], new.to_str().unwrap());
    let row = [("kind", Text), ("old", Number), ("new", Number), ("delta", Delta)];
    all_hold("diff", &v["kinds"], &row);
    for r in v["kinds"].as_array().unwrap().iter().chain([&v["threads"]]) {
        let delta = r["new"].as_i64().unwrap() - r["old"].as_i64().unwrap();
        assert_eq!(r["delta"], delta, "{r}");
    }
    // Not compared by this version: unknown, not nothing.
    assert!(v["types"].is_null() && v["malloc"].is_null(), "{v}");
    let same = answer(&["diff", old.to_str().unwrap()], old.to_str().unwrap());
    assert!(same["kinds"].as_array().unwrap().iter().all(|k| k["delta"] == 0));
}

#[test]
fn trend() {
    let v = answer(&["trend"], crate::support::commands::recording());
    let fields = [("files", List), ("looks", Number), ("clock", Text), ("?collections", Number), ("?limit", Number)];
    holds("trend", &v, &fields);
    all_hold("trend", &v["files"], &[("path", Text), ("recording", Bool), ("looks", Number), ("?pid", Number)]);
    let row = [
        ("verdict", Text),
        ("of", Text),
        ("name", Text),
        ("measure", Text),
        ("first", Number),
        ("last", Number),
        ("least", Number),
        ("most", Number),
        ("change", Delta),
        ("?first_count", Number),
        ("?last_count", Number),
        ("looks", Number),
        ("why", Text),
        ("?command", Text),
    ];
    all_hold("trend", &v["series"], &row);
    for row in v["series"].as_array().unwrap() {
        // A rate is a number, whole or not.
        for name in ["per_hour", "per_hour_low", "per_hour_high", "per_minute", "confidence", "gib_more_in", "limit_in"]
        {
            assert!(row[name].is_number() || row[name].is_null(), "{name} in {row}");
        }
        assert_eq!(row["confidence"].is_null(), row["verdict"] != "grows" && row["verdict"] != "shrinks", "{row}");
    }
    assert!(v["seconds"].as_f64().is_some_and(|s| (590.0..610.0).contains(&s)));
}

#[test]
fn record() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.jsonl");
    let v = answer(&["record", "-o", file.to_str().unwrap()], real::plain("native-glibc-kernel").to_str().unwrap());
    holds("record", &v, &[("file", Text), ("bytes", Number), ("looks", Number), ("ended", Text), ("cost", Object)]);
    all_hold("record", &v["parts"], &[("part", Text), ("looks", Number)]);
    assert_eq!((&v["looks"], &v["ended"]), (&Value::from(1), &Value::from("one look")));
}

#[test]
fn scan_secrets() {
    let core = real::plain("python311");
    let v = answer(&["scan-secrets"], core.to_str().unwrap());
    holds("scan-secrets", &v, &[("secrets", List), ("total", Number), ("scanned", Number), ("start_known", Bool)]);
    let row = [
        ("kind", Text),
        ("severity", Text),
        ("confidence", Text),
        ("count", Number),
        ("checked", Number),
        ("?distinct", Number),
        ("regions", List),
        ("examples", List),
        ("command", Text),
    ];
    all_hold("scan-secrets", &v["secrets"], &row);
    // Authors of the standard library have their addresses in it.
    let mail = v["secrets"].as_array().unwrap().iter().find(|row| row["kind"] == "email-address").unwrap();
    all_hold("scan-secrets", &mail["regions"], &[("?kind", Text), ("count", Number)]);
    let example = [("?address", Address), ("?kind", Text), ("detail", Text), ("encoding", Text)];
    all_hold("scan-secrets", &mail["examples"], &example);
}

#[test]
fn check() {
    on_each_core(|name, core| {
        let v = answer(&["check"], core);
        all_hold(name, &v["invariants"], &[("name", Text), ("ok", Bool), ("detail", Text)]);
        assert!(v["invariants"].as_array().unwrap().iter().all(|i| i["ok"] == true), "{name}: {v}");
        assert_eq!(v["conflicts"], Value::Array(Vec::new()), "{name}");
    });
}

#[test]
fn what_a_core_does_not_say_is_null_and_not_zero() {
    // No notes at all: no pid, no threads, no process.
    let core = CoreBuilder::x86_64().load(Load::at(0x1000).bytes(vec![1; 64])).write();
    let v = answer(&["info"], core.path().to_str().unwrap());
    assert!(v["core"]["pid"].is_null());
    let unknown = ["pid", "command_line", "executable", "environment", "signal", "crash_thread"];
    for field in unknown {
        assert!(v["process"][field].is_null(), "{field}: {}", v["process"][field]);
    }
}
