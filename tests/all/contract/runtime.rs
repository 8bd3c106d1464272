//! What is said of the runtime: threads, code, objects.

use std::cell::Cell;

use serde_json::Value;

use super::forms::*;
use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;
use crate::support::{builder, methods};

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
            ("?signal", Number),
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
            ("?class", Text),
            ("?owner_managed_id", Number),
            ("owner_virtual", Bool),
            ("owner_ended", Bool),
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
    let v = answer(&["async"], real::plain("dotnet31-pending").to_str().unwrap());
    holds(
        "async",
        &v,
        &[("chains", List), ("total", Number), ("methods", Number), ("ready", Number), ("nameless", Bool)],
    );
    let chain = [
        ("count", Number),
        ("objects", List),
        ("roots", Number),
        ("state", Text),
        ("?tid", Number),
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
fn ip2method() {
    for name in names("methods") {
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
    for name in names("methods") {
        let v = answer(&["perfmap"], &methods::core(name));
        all_hold(name, &v["entries"], &[("start", Address), ("size", Number), ("name", Text), ("?tier", Text)]);
        let csv = run(["perfmap", "--format", "csv", &methods::core(name)]);
        let head = csv.stdout.lines().next().unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(head, v["entries"][0].as_object().unwrap().keys().cloned().collect::<Vec<_>>());
    }
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
        let why = answer(&["why", object], core);
        let head = [("address", Address), ("kept", Text), ("text", Text), ("evidence", Text), ("?confidence", Text)];
        holds(name, &why, &head);
        holds(name, &why, &[("not_read", List), ("whatis", Object), ("?object", Address), ("more_paths", Bool)]);
        holds(name, &why, &[("paths", List), ("?retained", Object), ("dominators", List)]);
        assert_eq!((&why["paths"], &why["kept"]), (&v["paths"], &Value::from("reached")), "{name}");
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
        let why = answer(&["why", "--type", "."], core);
        holds(name, &why, &[("text", Text), ("evidence", Text), ("kept", Text), ("?confidence", Text)]);
        assert_eq!(why["groups"], ways["groups"], "{name}");
        holds(name, &ways["live"], &sum);
        holds(name, &ways["unreachable"], &sum);
        holds(name, &ways, &[("types", List), ("groups", List), ("more", Number), ("roots", Number)]);
        if !name.starts_with("dotnet") {
            assert_eq!(ways["groups"], Value::Array(Vec::new()), "{name}");
            // Without a managed runtime, types are those of malloc blocks.
            assert!(v["native"] == true || v["types"] == Value::Array(Vec::new()), "{name}");
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
    let locks = Cell::new(0);
    on_each_core(|name, core| {
        let v = answer(&["finalizers"], core);
        holds(name, &v, &[("registered", Number), ("ready", Number), ("types", List)]);
        let listed = answer(&["objects", "--type", "."], core);
        holds(name, &listed, &[("objects", List), ("size", Number), ("more", Number)]);
        let exceptions = answer(&["exceptions"], core);
        let blocks = answer(&["syncblocks"], core);
        holds(name, &blocks, &[("blocks", List), ("locks", List)]);
        let lock = [
            ("kind", Text),
            ("?object", Address),
            ("?type", Text),
            ("?owner", Object),
            ("owner_ended", Bool),
            ("times", Number),
            ("waiters", List),
            ("unknown_waiters", Number),
            ("readers", List),
            ("async_waiters", Number),
            ("confidence", Text),
        ];
        // Most cores have no lock that is held or waited for.
        for row in blocks["locks"].as_array().unwrap() {
            holds(name, row, &lock);
            locks.set(locks.get() + 1);
        }
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
    assert!(locks.get() > 0, "no core has a lock, so nothing was checked");
}
