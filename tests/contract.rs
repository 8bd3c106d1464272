//! The JSON contract, restated: programs rely on these names and meanings.
//! Fields may be added; none here may go or change its form. And the CSV.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use serde_json::Value;
use support::builder::{CoreBuilder, Load, small_core};
use support::real::{self, CORES};
use support::run::run;
use support::{builder, methods};

/// What may stand in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// `"0x7f42d256e000"`: lower case, no leading zeros
    Address,
    /// Whole number from 0 on
    Number,
    /// Whole number, may be below 0
    Delta,
    Text,
    Bool,
    List,
    Object,
    /// Not filled by this version of any command on these cores
    Null,
}
use Form::*;

fn has_form(v: &Value, form: Form) -> bool {
    match form {
        Address => v.as_str().and_then(|s| s.strip_prefix("0x")).is_some_and(|hex| {
            let number = u64::from_str_radix(hex, 16);
            number.is_ok_and(|n| format!("{n:x}") == hex)
        }),
        Number => v.is_u64(),
        Delta => v.is_i64() || v.is_u64(),
        Text => v.is_string(),
        Bool => v.is_boolean(),
        List => v.is_array(),
        Object => v.is_object(),
        Null => v.is_null(),
    }
}

/// Each field is there and has its form; with `?` before the name it may be
/// null, which says: unknown.
#[track_caller]
fn holds(what: &str, v: &Value, fields: &[(&str, Form)]) {
    for &(name, form) in fields {
        let (name, unknown) = name.strip_prefix('?').map_or((name, false), |n| (n, true));
        let field = v.get(name).unwrap_or_else(|| panic!("{what}: no field {name} in {v}"));
        assert!(has_form(field, form) || (unknown && field.is_null()), "{what}: {name} is {field}, not {form:?}");
    }
}

#[track_caller]
fn all_hold(what: &str, list: &Value, fields: &[(&str, Form)]) {
    let list = list.as_array().unwrap_or_else(|| panic!("{what}: not a list"));
    assert!(!list.is_empty(), "{what}: empty, so nothing was checked");
    for v in list {
        holds(what, v, fields);
    }
}

/// The answer, its envelope checked.
#[track_caller]
fn answer(args: &[&str], core: &str) -> Value {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    let v = out.json();
    let what = args.join(" ");
    let fields =
        [("schema_version", Number), ("coremap", Text), ("command", Text), ("core", Object), ("warnings", List)];
    holds(&what, &v, &fields);
    assert_eq!(v["schema_version"], 1);
    assert_eq!(v["coremap"], env!("CARGO_PKG_VERSION"));
    assert_eq!(v["command"], args[0]);
    let core = [
        ("path", Text),
        ("size", Number),
        ("producer", Text),
        ("arch", Text),
        ("?pid", Number),
        ("truncated", Bool),
        ("threads", Number),
        ("runtimes", List),
    ];
    holds(&what, &v["core"], &core);
    assert!(["kernel", "gcore", "createdump", "unknown"].iter().any(|p| v["core"]["producer"] == *p));
    assert!(["x86_64", "aarch64"].iter().any(|a| v["core"]["arch"] == *a));
    for w in v["warnings"].as_array().unwrap() {
        holds(&what, w, &[("code", Text), ("message", Text)]);
    }
    v
}

/// Every core, so that every unknown is met once.
fn on_each_core(test: impl Fn(&str, &str)) {
    for (name, ..) in CORES {
        test(name, real::plain(name).to_str().unwrap());
    }
    test("synthetic", small_core().write().path().to_str().unwrap());
}

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
            ("?command_line", List),
            ("?executable", Text),
            ("?environment", List),
            ("?signal", Object),
            ("?crash_thread", Number),
            ("os", List),
            ("page_size", Number),
        ];
        holds(name, &v["process"], &process);
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
            assert!(kinds.windows(2).all(|w| w[0]["size"].as_u64() >= w[1]["size"].as_u64()), "{name}: biggest first");
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

const FRAME: &[(&str, Form)] = &[
    ("?ip", Address),
    ("sp", Address),
    ("kind", Text),
    ("?method", Text),
    ("?frame", Text),
    ("?method_desc", Address),
    ("?module", Text),
    ("?token", Text),
    ("?offset", Number),
    ("?il_offset", Delta),
    ("?file", Text),
    ("?line", Number),
    ("trust", Text),
];

#[test]
fn threads() {
    on_each_core(|name, core| {
        let v = answer(&["threads"], core);
        let thread = [
            ("tid", Number),
            ("?name", Text),
            ("?managed_id", Number),
            ("?managed_name", Text),
            ("?role", Text),
            ("?role_confidence", Text),
            ("?state", Text),
            ("?gc_mode", Text),
            ("?exception", Object),
            ("?waits_for", Object),
            ("signal", Number),
            ("frames", List),
            ("?end", Text),
        ];
        all_hold(name, &v["threads"], &thread);
        let threads = v["threads"].as_array().unwrap();
        assert_eq!(threads.len() as u64, v["core"]["threads"].as_u64().unwrap(), "{name}: every thread is there");
        assert!(v.get("groups").is_none(), "{name}: not asked for");
        holds(name, &v, &[("findings", List)]);
        let wait = [
            ("kind", Text),
            ("object", Address),
            ("?type", Text),
            ("?owner_tid", Number),
            ("?owner_managed_id", Number),
            ("how", Text),
            ("confidence", Text),
        ];
        for t in threads {
            if !t["waits_for"].is_null() {
                holds(name, &t["waits_for"], &wait);
            }
            all_hold(name, &t["frames"], FRAME);
            assert_eq!(t["frames"][0]["trust"].as_str().map(|t| t == "context" || t == "frame"), Some(true), "{name}");
            for f in t["frames"].as_array().unwrap() {
                assert!(["managed", "native", "frame"].iter().any(|k| f["kind"] == *k), "{name}: {f}");
            }
        }
        let grouped = answer(&["threads", "--group"], core);
        all_hold(name, &grouped["groups"], &[("count", Number), ("tids", List), ("frames", List)]);
        let groups = grouped["groups"].as_array().unwrap();
        let counted: u64 = groups.iter().map(|g| g["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, threads.len() as u64, "{name}: each thread is in one group");
        let counts: Vec<_> = groups.iter().map(|g| g["count"].as_u64().unwrap()).collect();
        assert!(counts.windows(2).all(|w| w[0] >= w[1]), "{name}: biggest first");
    });
}

#[test]
fn async_methods() {
    let pending = real::packed("dotnet31-kernel").with_file_name("dotnet31-pending.core.xz");
    let v = answer(&["async"], pending.to_str().unwrap());
    holds("async", &v, &[("chains", List), ("total", Number), ("methods", Number), ("ready", Number)]);
    let chain = [
        ("count", Number),
        ("objects", List),
        ("roots", Number),
        ("awaiting", Text),
        ("frames", List),
        ("end", Text),
        ("?end_object", Address),
        ("?end_name", Text),
    ];
    all_hold("async", &v["chains"], &chain);
    let frame = [
        ("object", Address),
        ("kind", Text),
        ("type", Text),
        ("?method", Text),
        ("?module", Text),
        ("?token", Text),
        ("?state", Delta),
        ("?awaiting", Text),
    ];
    for chain in v["chains"].as_array().unwrap() {
        all_hold("async", &chain["frames"], &frame);
        assert!(chain["objects"].as_array().unwrap().iter().all(|o| has_form(o, Address)));
    }
    let counts: Vec<_> = v["chains"].as_array().unwrap().iter().map(|c| c["count"].as_u64().unwrap()).collect();
    assert_eq!(v["total"], counts.iter().sum::<u64>());
    assert!(counts.windows(2).all(|w| w[0] >= w[1]), "biggest first");
    on_each_core(|name, core| holds(name, &answer(&["async"], core), &[("chains", List)]));
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
fn ip2method() {
    for &(name, _) in methods::METHODS {
        let ips = methods::ips(&methods::official(name));
        let args: Vec<&str> = ["ip2method"].into_iter().chain(ips.iter().map(String::as_str)).collect();
        let v = answer(&args, &methods::core(name));
        let row = [
            ("ip", Address),
            ("found", Bool),
            ("method", Text),
            ("offset", Number),
            ("method_desc", Address),
            ("?class", Address),
            ("method_table", Address),
            ("token", Text),
            ("module", Text),
            ("?module_path", Text),
            ("code_start", Address),
            ("code_size", Number),
            ("tier", Text),
            ("jitted", Bool),
            ("?il_offset", Delta),
            ("?file", Text),
            ("?line", Number),
            ("versions", List),
            ("?reason", Text),
        ];
        all_hold(name, &v["results"], &row);
        for r in v["results"].as_array().unwrap() {
            all_hold(name, &r["versions"], &[("?code", Address), ("tier", Text)]);
        }
    }
    let none = answer(&["ip2method", "0x10"], real::plain("native-glibc-kernel").to_str().unwrap());
    let row = &none["results"][0];
    holds("ip2method", row, &[("ip", Address), ("found", Bool), ("reason", Text), ("versions", List)]);
    for unknown in ["method", "method_desc", "token", "module", "code_start", "code_size", "tier", "jitted"] {
        assert!(row[unknown].is_null(), "{unknown}: {row}");
    }
}

#[test]
fn symbolicate() {
    let ips = methods::ips(&methods::official("dotnet8-methods"));
    let text = builder::file_with((ips.join("\n") + "\n0x7f8ebcd9de57\n").as_bytes());
    let v = answer(&["symbolicate", text.path().to_str().unwrap()], &methods::core("dotnet8-methods"));
    let row = [
        ("address", Address),
        ("?resolved", Address),
        ("?symbol", Text),
        ("kind", Text),
        ("?module", Text),
        ("count", Number),
    ];
    all_hold("symbolicate", &v["frames"], &row);
    for f in v["frames"].as_array().unwrap() {
        assert!(["managed", "native", "unknown"].iter().any(|k| f["kind"] == *k), "{f}");
        assert_eq!(f["kind"] == "unknown", f["symbol"].is_null(), "{f}");
    }
}

#[test]
fn perfmap() {
    for &(name, _) in methods::METHODS {
        let v = answer(&["perfmap"], &methods::core(name));
        all_hold(name, &v["entries"], &[("start", Address), ("size", Number), ("name", Text), ("?tier", Text)]);
        let csv = run(["perfmap", "--format", "csv", &methods::core(name)]);
        let head = csv.stdout.lines().next().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(head, v["entries"][0].as_object().unwrap().keys().cloned().collect::<Vec<_>>());
    }
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
fn heapstat() {
    on_each_core(|name, core| {
        let v = answer(&["heapstat", "--strings"], core);
        let sum = [("objects", Number), ("size", Number)];
        holds(name, &v["total"], &sum);
        holds(name, &v["free"], &sum);
        let fields = [("fragmentation", List), ("unused", Number), ("in_progress", Bool), ("lost", Object)];
        holds(name, &v, &fields);
        holds(name, &v["lost"], &[("bytes", Number), ("count", Number), ("places", List)]);
        let strings = [("total", Object), ("distinct", Number), ("wasted", Number), ("unreadable", Number)];
        holds(name, &v["strings"], &strings);
        if !name.starts_with("dotnet") {
            assert_eq!(v["types"], Value::Array(Vec::new()), "{name}");
            return;
        }
        let of_type = [("method_table", Address), ("type", Text), ("count", Number), ("size", Number)];
        all_hold(name, &v["types"], &of_type);
        let types = v["types"].as_array().unwrap();
        let sum = |key: &str| types.iter().map(|t| t[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(
            (sum("count"), sum("size")),
            (v["total"]["objects"].as_u64().unwrap(), v["total"]["size"].as_u64().unwrap())
        );
        for t in types {
            all_hold(name, &t["generations"], &[("generation", Text), ("count", Number), ("size", Number)]);
            let parts = t["generations"].as_array().unwrap().iter().map(|g| g["count"].as_u64().unwrap()).sum::<u64>();
            assert_eq!(t["count"], parts, "{name}: {t}");
        }
        let duplicate = [
            ("count", Number),
            ("length", Number),
            ("wasted", Number),
            ("example", Address),
            ("value", Text),
            ("cut", Bool),
        ];
        all_hold(name, &v["strings"]["duplicates"], &duplicate);
    });
    let v = answer(&["heapstat"], real::plain("dotnet31-kernel").to_str().unwrap());
    assert!(v["strings"].is_null(), "strings are shown where they are asked for");
}

#[test]
fn handles_and_paths_from_roots() {
    on_each_core(|name, core| {
        let v = answer(&["handles"], core);
        if !name.starts_with("dotnet") {
            assert_eq!(v["handles"], Value::Array(Vec::new()), "{name}");
            return;
        }
        let handle =
            [("address", Address), ("kind", Text), ("object", Address), ("?type", Text), ("?secondary", Address)];
        all_hold(name, &v["handles"], &handle);
        all_hold(name, &v["kinds"], &[("kind", Text), ("count", Number)]);
        let strong = v["handles"].as_array().unwrap().iter().find(|h| h["kind"] == "Strong").unwrap();
        let object = strong["object"].as_str().unwrap();
        let v = answer(&["gcroot", object], core);
        holds(name, &v, &[("object", Address), ("type", Text), ("size", Number), ("more", Bool)]);
        let path = [("root_kind", Text), ("root_address", Address), ("?thread", Number), ("chain", List)];
        all_hold(name, &v["paths"], &path);
        for path in v["paths"].as_array().unwrap() {
            all_hold(name, &path["chain"], &[("object", Address), ("?type", Text), ("?field", Text)]);
        }
        assert!(v["paths"].as_array().unwrap().iter().any(|p| p["chain"].as_array().unwrap().len() == 1), "{v}");
        let v = answer(&["object", object], core);
        holds(name, &v, &[("object", Address), ("type", Text), ("method_table", Address), ("size", Number)]);
        holds(
            name,
            &v,
            &[("fields", List), ("statics", List), ("elements", List), ("?value", Text), ("?length", Number)],
        );
    });
}

#[test]
fn what_is_retained() {
    on_each_core(|name, core| {
        let v = answer(&["retained"], core);
        let sum = [("objects", Number), ("size", Number)];
        holds(name, &v["live"], &sum);
        holds(name, &v["unreachable"], &sum);
        holds(name, &v, &[("several", Number), ("more_types", Number), ("?object", Object), ("dominators", List)]);
        let ways = answer(&["gcroot", "--type", "."], core);
        holds(name, &ways["live"], &sum);
        holds(name, &ways["unreachable"], &sum);
        holds(name, &ways, &[("types", List), ("groups", List), ("more", Number), ("roots", Number)]);
        if !name.starts_with("dotnet") {
            assert_eq!(
                (&v["types"], &ways["groups"]),
                (&Value::Array(Vec::new()), &Value::Array(Vec::new())),
                "{name}"
            );
            return;
        }
        all_hold(name, &v["roots"], &[("root_kind", Text), ("count", Number), ("retained", Number)]);
        let of_type =
            [("method_table", Address), ("type", Text), ("count", Number), ("size", Number), ("retained", Number)];
        all_hold(name, &v["types"], &of_type);
        let object = [
            ("object", Address),
            ("?type", Text),
            ("size", Number),
            ("retained", Number),
            ("?dominator", Address),
            ("?dominator_type", Text),
            ("?dominator_field", Text),
            ("?root_kind", Text),
            ("root_kinds", List),
            ("?root_address", Address),
            ("?thread", Number),
        ];
        all_hold(name, &v["objects"], &object);
        let group = [
            ("count", Number),
            ("size", Number),
            ("retained", Number),
            ("root_kind", Text),
            ("?root_name", Text),
            ("chain", List),
            ("longest", Number),
            ("example", Object),
        ];
        all_hold(name, &ways["groups"], &group);
        for group in ways["groups"].as_array().unwrap() {
            let step = [("type", Text), ("?field", Text), ("repeats", Number), ("through", List)];
            all_hold(name, &group["chain"], &step);
            let path = [("root_kind", Text), ("root_address", Address), ("?thread", Number), ("chain", List)];
            holds(name, &group["example"], &path);
            all_hold(name, &group["example"]["chain"], &[("object", Address), ("?type", Text), ("?field", Text)]);
        }
    });
}

#[test]
fn lists_of_objects() {
    on_each_core(|name, core| {
        let v = answer(&["finalizers"], core);
        holds(name, &v, &[("registered", Number), ("ready", Number), ("types", List)]);
        let listed = answer(&["objects", "--type", "."], core);
        holds(name, &listed, &[("objects", List), ("size", Number), ("more", Number)]);
        let exceptions = answer(&["exceptions"], core);
        let blocks = answer(&["syncblocks"], core);
        holds(name, &blocks, &[("blocks", List)]);
        if !name.starts_with("dotnet") {
            return;
        }
        all_hold(name, &v["objects"], &[("object", Address), ("state", Text), ("?type", Text), ("?size", Number)]);
        all_hold(name, &listed["objects"], &[("address", Address), ("type", Text), ("size", Number)]);
        let exception =
            [("object", Address), ("type", Text), ("?message", Text), ("?hresult", Text), ("?inner", Address)];
        for e in exceptions["exceptions"].as_array().unwrap() {
            holds(name, e, &exception);
        }
        let block = [("index", Number), ("object", Address), ("held", Bool), ("waiting", Number), ("?owner", Object)];
        for b in blocks["blocks"].as_array().unwrap() {
            holds(name, b, &block);
        }
    });
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

#[test]
fn csv_has_the_rows_and_names_of_the_json() {
    let core = real::plain("dotnet31-kernel");
    let core = core.to_str().unwrap();
    for (args, rows) in [
        (&["summary", "--zero-fill"][..], "kinds"),
        (&["regions"], "regions"),
        (&["maddress"], "regions"),
        (&["stacks"], "stacks"),
        (&["info"], "modules"),
        (&["check"], "invariants"),
        (&["search", "coremap-marker-managed"], "hits"),
        (&["diff", core], "kinds"),
    ] {
        let out = run(args.iter().copied().chain(["--format", "csv", core]));
        out.exits(0);
        let want = answer(args, core);
        let want = want[rows].as_array().unwrap();
        let mut reader = csv::Reader::from_reader(out.stdout.as_bytes());
        let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert_eq!(names, want[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>(), "{args:?}");
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), want.len(), "{args:?}");
        for (line, row) in lines.iter().zip(want) {
            for (cell, value) in line.iter().zip(row.as_object().unwrap().values()) {
                let text = match value {
                    Value::Null => String::new(),
                    Value::String(s) => s.clone(),
                    other => other.to_string(),
                };
                assert_eq!(cell, text, "{args:?}");
            }
        }
    }
}

#[test]
fn csv_without_rows_still_has_its_header() {
    // A reader by column names must not fail where there is nothing to read.
    let core = real::plain("native-aarch64-qemu");
    for args in [&["regions", "--kind", "GCHeap"][..], &["search", "no such text anywhere in it"]] {
        let out = run(args.iter().copied().chain(["--format", "csv", core.to_str().unwrap()]));
        out.is_sound();
        assert_eq!(out.stdout.lines().count(), 1, "{args:?}: {:?}", out.stdout);
    }
}
