//! What objects keep: sums that must hold, and facts that the sources of the
//! programs in the cores tell.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::{bounded, program, run};
use serde_json::Value;

/// Cores of testdata with a whole heap.
const WHOLE: [&str; 2] = ["dotnet31-kernel", "dotnet31-createdump"];

#[track_caller]
fn answer(args: &[&str], core: &str) -> (Value, i32) {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    (out.json(), out.code.unwrap())
}

fn sum(v: &Value) -> (u64, u64) {
    (v["objects"].as_u64().unwrap(), v["size"].as_u64().unwrap())
}

fn added<'v>(rows: &'v Value, keys: [&str; 2]) -> (u64, u64) {
    let rows: &'v Vec<Value> = rows.as_array().unwrap();
    let of = |key: &str| rows.iter().map(|r| r[key].as_u64().unwrap()).sum();
    (of(keys[0]), of(keys[1]))
}

#[test]
fn live_and_unreachable_are_all_there_is() {
    for name in names("process") {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let (v, _) = answer(&["retained", "--top", "60000"], core);
        let (heap, _) = answer(&["heapstat"], core);
        let free = heap["types"].as_array().unwrap().iter().find(|t| t["type"] == "Free");
        let free = free.map_or((0, 0), |t| (t["count"].as_u64().unwrap(), t["size"].as_u64().unwrap()));
        let (all, live, dead) = (sum(&heap["total"]), sum(&v["live"]), sum(&v["unreachable"]));
        let roots = added(&v["roots"], ["count", "retained"]).1;
        if v["native"] == true {
            // Malloc blocks, which heapstat does not count. No class retains more than all.
            let types = v["types"].as_array().unwrap();
            assert_eq!((added(&v["types"], ["count", "size"]), all), (live, (0, 0)), "{name}");
            assert!(types.iter().all(|t| t["retained"].as_u64().unwrap() <= live.1), "{name}: {types:?}");
            assert_eq!(roots + v["several"].as_u64().unwrap(), live.1, "{name}");
            continue;
        }
        assert_eq!((live.0 + dead.0 + free.0, live.1 + dead.1 + free.1), all, "{name}");
        // The sums of the parts: types, and kinds of roots.
        assert_eq!(added(&v["types"], ["count", "size"]), live, "{name}");
        assert_eq!(added(&v["unreachable_types"], ["count", "size"]), dead, "{name}");
        assert_eq!(roots + v["several"].as_u64().unwrap(), live.1, "{name}");
        // By type, both together are what is counted.
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for t in v["types"].as_array().unwrap().iter().chain(v["unreachable_types"].as_array().unwrap()) {
            *counts.entry(t["method_table"].as_str().unwrap()).or_default() += t["count"].as_u64().unwrap();
        }
        for t in heap["types"].as_array().unwrap().iter().filter(|t| t["type"] != "Free") {
            assert_eq!(counts.get(t["method_table"].as_str().unwrap()), t["count"].as_u64().as_ref(), "{name}: {t}");
        }
        if WHOLE.contains(&name) {
            assert!(live.0 > 8000 && dead.0 < 1000, "{name}: {live:?} {dead:?}");
        }
    }
}

/// testdata/sources/app.cs: a static field leads to a list of 4,000 nodes, each
/// with an array of its own.
#[test]
fn a_list_goes_with_its_first_node() {
    for name in WHOLE {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let truth = real::truth(name);
        let nodes = truth.all["markers"]["nodes"].as_u64().unwrap();
        let (v, code) = answer(&["retained", "--top", "60000"], core);
        assert_eq!(code, 0, "{name}");
        let types = v["types"].as_array().unwrap();
        let own = |t: &&Value| t["count"] == nodes && t["type"].as_str().unwrap().starts_with("app.dll!");
        let node = types.iter().find(own).unwrap();
        // new int[4] is 40 bytes: header, MethodTable, length, content.
        let (size, bytes) = (node["size"].as_u64().unwrap(), node["retained"].as_u64().unwrap());
        assert_eq!(bytes, size + nodes * 40, "{name}");
        let objects = v["objects"].as_array().unwrap();
        let listed: Vec<&Value> = objects.iter().filter(|o| o["type"] == node["type"]).collect();
        assert_eq!(listed.len(), 1, "{name}: the first node is enough");
        assert_eq!(listed[0]["retained"], bytes, "{name}");
        // One by one: each node keeps the rest of the list.
        let head = listed[0]["object"].as_str().unwrap();
        let (inside, _) = answer(&["retained", "--object", head], core);
        assert_eq!(inside["object"]["retained"], bytes);
        let below = inside["objects"].as_array().unwrap();
        let kept: Vec<u64> = below.iter().map(|o| o["retained"].as_u64().unwrap()).collect();
        assert_eq!(kept, [bytes - size / nodes - 40, 40], "{name}");
        assert!(below.iter().all(|o| o["dominator"] == head && !o["dominator_field"].is_null()), "{below:?}");
        // All of them are held in one way.
        let named = regex_of(node["type"].as_str().unwrap());
        let (ways, code) = answer(&["gcroot", "--type", &named], core);
        assert_eq!((code, sum(&ways["live"])), (0, (nodes, size)), "{name}");
        let groups = ways["groups"].as_array().unwrap();
        assert_eq!(groups.iter().map(|g| g["count"].as_u64().unwrap()).sum::<u64>(), nodes, "{name}");
        // A word on a stack may lead to another node: then the list is cut there.
        assert!(groups.len() <= 3, "{name}: {groups:?}");
        assert_eq!(groups.iter().map(|g| g["retained"].as_u64().unwrap()).sum::<u64>(), bytes, "{name}");
        let last = groups[0]["chain"].as_array().unwrap().last().unwrap();
        assert!(last["repeats"].as_u64().unwrap() + 1 == groups[0]["count"].as_u64().unwrap(), "{last}");
        assert_eq!(last["through"].as_array().unwrap().len(), 1, "{last}");
    }
}

fn regex_of(name: &str) -> String {
    format!("^{}$", name.replace('.', "[.]"))
}

/// What keeps an object is on the paths to it that a search for it alone finds.
#[test]
fn a_dominator_is_on_all_paths() {
    let core = real::plain("dotnet31-kernel");
    let core = core.to_str().unwrap();
    let (v, _) = answer(&["retained", "--top", "40"], core);
    let mut compared = 0;
    for object in v["objects"].as_array().unwrap() {
        let (paths, _) = answer(&["gcroot", "--all", object["object"].as_str().unwrap()], core);
        let paths = paths["paths"].as_array().unwrap();
        assert!(!paths.is_empty(), "{object}");
        // Words on stacks retain only what nothing else does.
        let is_word = |path: &&Value| path["root_kind"] == "Stack (conservative)";
        let only_words = paths.iter().all(|path| is_word(&path));
        let paths: Vec<&Value> = paths.iter().filter(|path| only_words || !is_word(path)).collect();
        if object["dominator"].is_null() {
            let kinds: Vec<&Value> = paths.iter().map(|p| &p["root_kind"]).collect();
            let alone = kinds.windows(2).all(|w| w[0] == w[1]);
            assert!(alone || object["root_kind"] == "several", "{object}: {kinds:?}");
            continue;
        }
        for path in paths {
            let chain = path["chain"].as_array().unwrap();
            assert!(chain.iter().any(|c| c["object"] == object["dominator"]), "{object}: {path}");
        }
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn what_is_not_asked_right() {
    let core = real::plain("dotnet31-kernel");
    let core = core.to_str().unwrap();
    run(["gcroot", "0x1000", "--type", "x", core]).exits(2);
    run(["gcroot", core]).exits(2);
    run(["gcroot", "--all", "--type", "x", core]).exits(2);
    run(["gcroot", "--type", "(", core]).exits(2);
    run(["retained", "--type", "(", core]).exits(2);
    run(["retained", "--object", "zz", core]).exits(2);
    run(["gcroot", "--type", "no such type", core]).exits(1);
    run(["retained", "--type", "no such type", core]).exits(1);
    let (v, code) = answer(&["retained", "--object", "0x10"], core);
    assert!(code == 1 && v["object"]["type"].is_null() && v["object"]["retained"].is_null(), "{v}");
}

/// Found by the mutation run (COREMAP_SEED=41000145 of dotnet9-methods): pages taken
/// for 61,440 program headers put other memory where tables of types were, and all
/// their fields were looked at for statics, for 91 s.
#[test]
fn types_with_two_billion_fields_are_not_all_looked_at() {
    const E_PHNUM: usize = 56;
    let mut bytes = real::bytes("dotnet9-methods");
    bytes[E_PHNUM + 1] |= 0xf0;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    real::write_sparse(file.as_file_mut(), &bytes);
    let out = bounded(&["retained", "-v"], file.path()).within(Duration::from_secs(40)).go();
    out.is_sound().exits(4);
    assert!(out.stderr.contains("types have more fields than the limit"), "{}", out.stderr);
}

/// With memory for no table at all, the answers are the same; where no file can be made either, that is said.
#[test]
fn what_finds_no_memory_goes_to_files() {
    for name in ["dotnet8-objects", "python313-tasks", "java17-offheap"] {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let top = run(["retained", "--json", core]).json();
        let object = top["objects"][0]["object"].as_str().unwrap().to_owned();
        for args in [
            vec!["retained", "--top", "1000", "--json", core],
            vec!["gcroot", "--type", ".", "--json", core],
            vec!["gcroot", &object, "--json", core],
        ] {
            let usual = run(args.clone());
            let log = run(args.iter().copied().chain(["-vv"])).stderr;
            assert_eq!(figure(&log, "files").unwrap_or(0), 0, "{log}");
            let little = args.iter().copied().chain(["--memory", "1MiB", "-vv"]);
            let bounded = program(little.clone()).go();
            assert_eq!((&bounded.stdout, bounded.code), (&usual.stdout, usual.code), "{args:?}");
            if args[1] != object {
                let needed = figure(&bounded.stderr, "bytes").unwrap();
                let (memory, files) = (figure(&bounded.stderr, "memory"), figure(&bounded.stderr, "files").unwrap());
                // Told before: all but what several refer to, which comes on top.
                assert!(needed > 0 && files > needed / 2, "{needed} {memory:?} {files}");
            }
            let nowhere = program(little).env("TMPDIR", "/nowhere/at/all").go();
            nowhere.exits(4);
            assert!(nowhere.stdout.contains("nor in a file under /nowhere/at/all: "), "{}", nowhere.stdout);
        }
    }
}

/// A figure of the log's lines on tables.
fn figure(log: &str, name: &str) -> Option<u64> {
    let mut words = log.lines().filter(|line| line.contains("tables of the graph")).flat_map(str::split_whitespace);
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}
