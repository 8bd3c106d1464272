//! Files for other viewers: read by readers of our own that know nothing of the writers, and held against what other commands
//! answer, and what the programs in the cores told. `tests/exports/run` has other people's tools read them.

use std::collections::BTreeMap;

use crate::support::cases::names;
use crate::support::gcdump::{self, GcDump};
use crate::support::real;
use crate::support::run::run;
use serde_json::Value;

#[track_caller]
fn ask(args: &[&str], core: &str) -> Value {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    out.json()
}

/// The file that `core` is exported to, with the answer.
#[track_caller]
fn export(asked: &[&str], core: &str) -> (Vec<u8>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let answer = ask(&[&["export", "-o", out.to_str().unwrap()], asked].concat(), core);
    assert_eq!(answer["refused"], Value::Null);
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!(answer["files"][0]["bytes"].as_u64(), Some(bytes.len() as u64));
    (bytes, answer)
}

fn figure(answer: &Value, name: &str) -> u64 {
    let rows = answer["figures"].as_array().unwrap();
    rows.iter().find(|row| row["figure"] == name).unwrap_or_else(|| panic!("no {name}"))["value"].as_u64().unwrap()
}

/// What `heapstat` counts by name, without the space between objects.
fn counted(heapstat: &Value) -> BTreeMap<&str, (u64, u64)> {
    let mut out: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in heapstat["types"].as_array().unwrap().iter().filter(|row| row["type"] != "Free") {
        let sum = out.entry(row["type"].as_str().unwrap()).or_default();
        *sum = (sum.0 + row["count"].as_u64().unwrap(), sum.1 + row["size"].as_u64().unwrap());
    }
    out
}

fn node_named(dump: &GcDump, below: usize, name: &str) -> usize {
    let children = &dump.nodes[below].children;
    *children.iter().find(|child| dump.name(**child) == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Cores of every runtime, whole and shrunk: what is in the file is what `heapstat` counts, and what its root leads to is what
/// `retained` says lives.
#[test]
fn a_gcdump_has_the_objects_of_heapstat_and_the_life_of_retained() {
    let cores = ["dotnet31-createdump", "dotnet31-pending", "dotnet8-objects", "dotnet10-bundle", "nativeaot9"];
    for name in cores.into_iter().chain(["java17-offheap", "python311"]) {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let (bytes, answer) = export(&["--to", "gcdump"], core);
        let dump = gcdump::read(&bytes);
        let (heapstat, retained) = (ask(&["heapstat"], core), ask(&["retained", "--top", "1"], core));
        assert_eq!(dump.by_type(), counted(&heapstat), "{name}");
        let live = &retained["live"];
        assert_eq!(dump.reached(), (live["objects"].as_u64().unwrap(), live["size"].as_u64().unwrap()), "{name}");
        let roots = dump.nodes.iter().filter(|node| dump.is_root(node)).count() as u64;
        assert_eq!(figure(&answer, "objects") + roots, figure(&answer, "nodes"), "{name}");
        assert_eq!(figure(&answer, "object_bytes"), dump.total, "{name}");
        assert_eq!(
            figure(&answer, "object_bytes") + figure(&answer, "free_bytes"),
            heapstat["total"]["size"],
            "{name}"
        );
        assert!(dump.nodes.windows(2).all(|pair| pair[0].address < pair[1].address || pair[0].address == 0), "{name}");
        let info = ask(&["info"], core);
        assert_eq!(dump.process.as_deref(), info["process"]["name"].as_str(), "{name}");
        assert_eq!(
            (dump.pid.into(), dump.tool.starts_with("coremap ")),
            (answer["core"]["pid"].clone(), true),
            "{name}"
        );
    }
}

/// testdata/sources/app.cs: a static field leads to a list of nodes, each with an array of ints.
#[test]
fn a_gcdump_names_static_variables_and_modules_and_has_the_list_behind_one() {
    for name in ["dotnet31-kernel", "dotnet31-createdump"] {
        let core = real::plain(name);
        let dump = gcdump::read(&export(&["--to", "gcdump"], core.to_str().unwrap()).0);
        assert_eq!(dump.name(dump.root), "[.NET Roots]");
        let statics = node_named(&dump, dump.root, "[static vars]");
        let nodes = real::truth(name).all["markers"]["nodes"].as_u64().unwrap() as usize;
        // The list is the longest chain of one type that a static variable begins.
        let mut longest = 0;
        for &variable in &dump.nodes[statics].children {
            assert!(dump.name(variable).starts_with("[static var "), "{}", dump.name(variable));
            let mut at = dump.nodes[variable].children[0];
            let kind = dump.nodes[at].kind;
            let mut length = 1;
            while let Some(&next) = dump.nodes[at].children.iter().find(|&&c| dump.nodes[c].kind == kind && c != at) {
                (at, length) = (next, length + 1);
                if length > dump.nodes.len() {
                    break;
                }
            }
            if length == nodes {
                assert_eq!(
                    dump.types[kind].module.as_deref().and_then(|path| path.rsplit('/').next()),
                    Some("app.dll")
                );
                longest = length;
            }
        }
        assert_eq!(longest, nodes, "{name}");
        node_named(&dump, node_named(&dump, dump.root, "[other roots]"), "[PinnedHandle]");
        let of_library =
            |t: &&gcdump::Type| t.module.as_deref().is_some_and(|m| m.ends_with("/System.Private.CoreLib.dll"));
        assert!(dump.types.iter().filter(of_library).count() > 10, "{name}");
        assert!(dump.types.iter().all(|t| !t.name.starts_with('[') || t.module.is_none()));
    }
}

/// Collapsed stacks: by stack, the weight.
fn folded(bytes: Vec<u8>) -> BTreeMap<String, u64> {
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    let mut out: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, weight) in lines {
        let before = out.insert(stack.to_owned(), weight.parse().unwrap());
        assert_eq!(before, None, "{stack} twice");
    }
    out
}

/// The sums of each subject are those of the command that tells of it.
#[test]
fn stacks_have_the_sums_of_the_commands() {
    for name in ["dotnet31-createdump", "dotnet8-objects", "java17-offheap", "python311", "native-malloc-gcore"] {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let native = name.starts_with("native");
        let (bytes, answer) = export(&["--to", "folded"], core);
        let threads = answer["core"]["threads"].as_u64().unwrap();
        assert_eq!((folded(bytes).values().sum::<u64>(), figure(&answer, "threads")), (threads, threads), "{name}");
        let stacks = ask(&["stacks", "--zero-fill"], core);
        let rows = stacks["stacks"].as_array().unwrap().iter().filter(|row| row["tid"].is_u64());
        let reserved: u64 = rows.map(|row| row["reserved"].as_u64().unwrap_or(0)).sum();
        assert_eq!(figure(&answer, "reserved"), reserved, "{name}");
        let (bytes, _) = export(&["--to", "folded", "--of", "malloc"], core);
        let malloc = ask(&["malloc"], core);
        assert_eq!(folded(bytes).values().sum::<u64>(), malloc["total"]["used_bytes"].as_u64().unwrap(), "{name}");
        if !native {
            let (bytes, answer) = export(&["--to", "folded", "--of", "retained"], core);
            let live = &ask(&["retained", "--top", "1"], core)["live"];
            let stacks = folded(bytes);
            assert_eq!(stacks.values().sum::<u64>(), live["size"].as_u64().unwrap(), "{name}");
            assert_eq!(figure(&answer, "objects"), live["objects"].as_u64().unwrap(), "{name}");
            assert!(stacks.keys().all(|stack| stack.contains(" heap;[")), "{name}");
        }
    }
}

/// testdata/sources/app.cs: a list whose nodes have an array each. The nodes are one step, and their arrays below it.
#[test]
fn what_a_list_keeps_is_one_path() {
    let core = real::plain("dotnet31-createdump");
    let core = core.to_str().unwrap();
    let nodes = real::truth("dotnet31-createdump").all["markers"]["nodes"].as_u64().unwrap();
    let types = ask(&["retained", "--top", "0"], core);
    let of_list = |t: &&Value| t["count"] == nodes && t["type"].as_str().unwrap().starts_with("app.dll!");
    let node = types["types"].as_array().unwrap().iter().find(of_list).unwrap().clone();
    let (bytes, _) = export(&["--to", "folded", "--of", "retained"], core);
    let stacks = folded(bytes);
    let name = node["type"].as_str().unwrap();
    let (of, held): (Vec<_>, Vec<_>) =
        stacks.iter().filter(|(stack, _)| stack.contains(name)).partition(|(stack, _)| stack.ends_with(name));
    assert_eq!(of.iter().map(|(_, bytes)| **bytes).sum::<u64>(), node["size"].as_u64().unwrap(), "{of:?}");
    // An array of four ints is 40 bytes.
    assert_eq!(held.iter().map(|(_, bytes)| **bytes).sum::<u64>(), 40 * nodes, "{held:?}");
}

/// Speedscope and Firefox get the same as collapsed stacks.
#[test]
fn json_has_the_stacks_and_weights_of_collapsed_ones() {
    let core = real::plain("dotnet8-objects");
    let core = core.to_str().unwrap();
    for of in ["threads", "retained", "malloc"] {
        let (bytes, answer) = export(&["--to", "speedscope", "--of", of], core);
        let (lines, _) = export(&["--to", "folded", "--of", of], core);
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        let frames = file["shared"]["frames"].as_array().unwrap();
        let first = &file["profiles"][0];
        let names = |stack: &Value| {
            let names = stack
                .as_array()
                .unwrap()
                .iter()
                .map(|n| frames[n.as_u64().unwrap() as usize]["name"].as_str().unwrap());
            names.collect::<Vec<_>>().join(";")
        };
        let mut got: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, weight) in first["samples"].as_array().unwrap().iter().zip(first["weights"].as_array().unwrap()) {
            // A frame with a line is another one in another line.
            *got.entry(names(stack)).or_default() += weight.as_u64().unwrap();
        }
        assert_eq!(got, folded(lines), "{of}");
        for (profile, measure) in file["profiles"].as_array().unwrap().iter().zip(answer["figures"].as_array().unwrap())
        {
            assert_eq!(profile["endValue"], measure["value"], "{of}");
        }
    }
}

/// What tells a generation there tells the same as `heapstat`.
#[test]
fn a_gcdump_has_the_generations_of_heapstat() {
    for name in ["dotnet31-createdump", "nativeaot9", "dotnet8-objects"] {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let dump = gcdump::read(&export(&["--to", "gcdump"], core).0);
        let mut counts = [0_u64; 5];
        for node in dump.nodes.iter().filter(|node| !dump.is_root(node)) {
            let of = dump.segments.iter().find(|s| (s.start..s.end).contains(&node.address)).unwrap();
            counts[of.generation(node.address).unwrap()] += 1;
        }
        let heapstat = ask(&["heapstat"], core);
        let mut want = [0_u64; 5];
        for row in heapstat["types"].as_array().unwrap().iter().filter(|row| row["type"] != "Free") {
            for of in row["generations"].as_array().unwrap() {
                let names = ["gen0", "gen1", "gen2", "loh", "poh"];
                // What is never collected is as old as can be.
                let at = names.iter().position(|name| of["generation"] == *name).unwrap_or(2);
                want[at] += of["count"].as_u64().unwrap();
            }
        }
        assert_eq!(counts, want, "{name}");
    }
}

#[test]
fn what_has_no_managed_heap_is_no_gcdump() {
    for name in names("process").filter(|name| name.starts_with("native")) {
        let core = real::plain(name);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.gcdump");
        let out = run(["export", "--to", "gcdump", "-o", path.to_str().unwrap(), core.to_str().unwrap()]);
        out.is_sound();
        assert!([Some(1), Some(4)].contains(&out.code), "{name}: {:?}", out.code);
        assert!(out.stdout.contains("nothing was written: "), "{name}: {}", out.stdout);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{name}");
    }
}

/// Tables have as many rows as commands count, and are there whole or not at all. What is in them is for `tests/exports/run`.
#[cfg(feature = "parquet")]
#[test]
fn tables_have_the_rows_that_commands_count() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::os::unix::fs::PermissionsExt;

    let core = real::plain("dotnet31-createdump");
    let core = core.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("tables");
    let answer = ask(&["export", "--to", "parquet", "-o", out.to_str().unwrap()], core);
    assert_eq!(out.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    for file in answer["files"].as_array().unwrap() {
        let path = std::path::Path::new(file["path"].as_str().unwrap());
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let count = reader.metadata().file_metadata().num_rows() as u64;
        assert_eq!(
            (file["rows"].as_u64(), file["bytes"].as_u64()),
            (Some(count), Some(path.metadata().unwrap().len()))
        );
        rows.insert(path.file_stem().unwrap().to_str().unwrap().to_owned(), count);
        // Each row says which core it is of.
        let first = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
        assert!(first.get_column_iter().any(|(name, field)| name == "core" && field.to_string().contains(core)));
    }
    let heapstat = ask(&["heapstat", "--strings"], core);
    let gcdump = export(&["--to", "gcdump"], core).1;
    let want = [
        ("objects", heapstat["total"]["objects"].as_u64().unwrap()),
        ("types", heapstat["types"].as_array().unwrap().len() as u64),
        ("strings", heapstat["strings"]["total"]["objects"].as_u64().unwrap()),
        ("references", figure(&gcdump, "references")),
        ("regions", ask(&["summary"], core)["total"]["count"].as_u64().unwrap()),
        ("threads", answer["core"]["threads"].as_u64().unwrap()),
        ("handles", ask(&["handles"], core)["handles"].as_array().unwrap().len() as u64),
        ("meta", 1),
    ];
    for (table, count) in want {
        assert_eq!(rows[table], count, "{table}");
    }
    let again = run(["export", "--to", "parquet", "-o", out.to_str().unwrap(), core]);
    again.exits(2);
}
