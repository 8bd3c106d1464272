//! Objects and blocks of CPython beside what the process said of itself just before the dump: `gc.get_objects()` by type
//! (census.txt), `sys._debugmallocstats()` (obmalloc.txt), and what was planted (truth.json). The program is
//! testdata/sources/caches.py; none of its files is here, so that names of static types are those that modules tell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

fn cores(purpose: &str) -> Vec<(&'static str, PathBuf)> {
    names(purpose).map(|name| (name, real::plain(name))).collect()
}

fn ask(core: &Path, args: &[&str]) -> Value {
    let answer = run(args.iter().copied().chain(["--json", core.to_str().unwrap()]));
    // Stacks end where the program's files would be wanted.
    assert!(matches!(answer.is_sound().code, Some(0 | PARTIAL)), "{args:?}: {}", answer.stderr);
    answer.json()
}

/// Exit status of an answer that is not whole.
const PARTIAL: i32 = 4;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// An address as the process told it, as it is written on a command line.
fn hex(value: &Value) -> String {
    format!("{:#x}", number(value))
}

/// The name of a type in the words that modules have for static types without the program's file: what
/// `weakref` and `collections` export, for one.
fn as_modules_say(name: &str) -> String {
    match name {
        "weakref" | "weakref.ReferenceType" => "weakref.ref".to_owned(),
        _ => name.strip_prefix('_').unwrap_or(name).to_owned(),
    }
}

#[test]
fn the_collector_tracks_what_it_said_it_does() {
    for (name, core) in cores("census") {
        let told = real::beside(name, "census.txt");
        let rows = told.lines().map(|line| line.split_once('\t').unwrap());
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        rows.for_each(|(count, kind)| {
            *wanted.entry(as_modules_say(kind)).or_default() += count.parse::<u64>().unwrap()
        });
        let answer = ask(&core, &["heapstat"]);
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for kind in list(&answer["types"]).iter().filter(|t| t["tracked"].as_u64() > Some(0)) {
            *found.entry(as_modules_say(text(&kind["type"]))).or_default() += number(&kind["tracked"]);
        }
        assert!(wanted.len() > 50, "{name}");
        assert_eq!(found.values().sum::<u64>(), wanted.values().sum::<u64>(), "{name}");
        let known = wanted.keys().filter(|kind| found.contains_key(*kind)).count();
        assert!(known * 100 >= wanted.len() * 95, "{name}: {known} of {}", wanted.len());
        // Those that nobody names have their numbers all the same.
        let same = |(kind, count): (&String, &u64)| (found.get(kind) == Some(count)).then(|| kind.clone());
        for kind in wanted.iter().filter_map(same).collect::<Vec<_>>() {
            wanted.remove(&kind);
            found.remove(&kind);
        }
        assert!(wanted.keys().all(|kind| !found.contains_key(kind)), "{name}: {wanted:?} {found:?}");
        assert!(found.keys().all(|kind| kind.starts_with('<') || !kind.contains("__main__")), "{name}: {found:?}");
        let counts = |of: &BTreeMap<String, u64>| {
            let mut counts: Vec<u64> = of.values().copied().collect();
            counts.sort_unstable();
            counts
        };
        assert_eq!(counts(&found), counts(&wanted), "{name}: {found:?} {wanted:?}");
        assert_eq!((&answer["lost"]["bytes"], list(&answer["warnings"]).len()), (&Value::from(0), 0), "{name}");
    }
}

#[test]
fn what_was_planted_is_counted() {
    for (name, core) in cores("python") {
        let truth = real::own_report(name);
        for (kind, count) in truth["planted"].as_object().unwrap() {
            let pattern = format!("^__main__\\.{kind}$");
            let heapstat = ask(&core, &["heapstat", "--type", &pattern]);
            let [only] = list(&heapstat["types"]) else { panic!("{name}: one type {kind}") };
            // Threads add one: `secret`, in each of the two that wait for the lock.
            let expected = number(count) + u64::from(kind == "Order");
            assert_eq!(
                (text(&only["type"]), number(&only["count"])),
                (&*format!("__main__.{kind}"), expected),
                "{name}"
            );
            let objects = ask(&core, &["objects", "--type", &pattern, "--top", "0"]);
            let listed = list(&objects["objects"]);
            assert_eq!(listed.len() as u64, expected, "{name}: {kind}");
            assert_eq!(listed.iter().map(|o| number(&o["size"])).sum::<u64>(), number(&only["size"]), "{name}: {kind}");
        }
    }
}

#[test]
fn blocks_of_each_size_are_those_of_obmalloc() {
    for (name, core) in cores("obmalloc") {
        let told = real::beside(name, "obmalloc.txt");
        // class, size, pools, blocks in use, blocks available
        let numbers = |line: &str| line.split_whitespace().map(|w| w.parse::<u64>().ok()).collect::<Option<Vec<u64>>>();
        let wanted: Vec<Vec<u64>> = told.lines().filter_map(numbers).filter(|row| row.len() == 5).collect();
        assert!(wanted.len() > 20, "{name}");
        let answer = ask(&core, &["malloc"]);
        let blocks = &answer["pymalloc"];
        let of = |row: &Value| ["size", "pools", "blocks_used", "blocks_free"].map(|field| number(&row[field]));
        let found: Vec<[u64; 4]> = list(&blocks["classes"]).iter().map(of).collect();
        let wanted: Vec<[u64; 4]> = wanted.iter().map(|r| [r[1], r[2], r[3], r[4]]).collect();
        assert_eq!(found, wanted, "{name}");
        let sum = |what: &str| {
            let line = told.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{name}: {what}"));
            line.rsplit('=').next().unwrap().trim().replace(',', "").parse::<u64>().unwrap()
        };
        assert_eq!(number(&blocks["arenas"]), sum("# arenas allocated current"), "{name}");
        assert_eq!(number(&blocks["bytes_used"]), sum("# bytes in allocated blocks"), "{name}");
        assert_eq!(number(&blocks["bytes_free"]), sum("# bytes in available blocks"), "{name}");
        assert_eq!(number(&blocks["bytes_headers"]), sum("# bytes lost to pool headers"), "{name}");
        assert_eq!(number(&blocks["bytes_free_pools"]), sum(" unused pools * "), "{name}");
        assert_eq!(number(&blocks["lost_pools"]), 0, "{name}");
        let parts = ["bytes_used", "bytes_free", "bytes_free_pools", "bytes_headers", "bytes_lost"];
        let parts: u64 = parts.iter().map(|part| number(&blocks[part])).sum();
        assert_eq!(parts, number(&blocks["committed"]), "{name}");
    }
}

/// The arenas are told as such, and nothing else is.
#[test]
fn the_map_has_the_arenas_and_stacks_of_frames() {
    for (name, core) in cores("obmalloc") {
        let answer = ask(&core, &["summary"]);
        let kinds = list(&answer["kinds"]);
        let bytes = |kind: &str| kinds.iter().find(|k| k["kind"] == kind).map_or(0, |k| number(&k["size"]));
        let malloc = ask(&core, &["malloc"]);
        assert_eq!(bytes("PyMalloc"), number(&malloc["pymalloc"]["committed"]), "{name}");
        let threads = list(&real::own_report(name)["threads"]).len() as u64;
        // 3.9 has its frames among the objects; since 3.11 each thread has a chunk at least.
        let frames = bytes("PyFrames");
        assert!(if name == "python39" { frames == 0 } else { frames >= threads * (16 << 10) }, "{name}: {frames}");
    }
}

#[test]
fn buffers_are_told_with_the_object_that_owns_them() {
    for (name, core) in cores("python") {
        let truth = real::own_report(name);
        for buffer in list(&truth["buffers"]) {
            let object = hex(&buffer["object"]);
            let kind = text(&buffer["type"]);
            let shown = ask(&core, &["object", &object]);
            let length = number(&buffer["bytes"]) / if kind == "str" { 2 } else { 1 };
            assert_eq!(
                (&shown["type"], number(&shown["length"])),
                (&buffer["type"], length),
                "{name}: {}",
                buffer["name"]
            );
            // Somewhere inside: of a str right behind its head, of a bytearray where its field leads.
            if kind == "str" {
                let inside = format!("{:#x}", number(&buffer["object"]) + 5000);
                let whatis = ask(&core, &["whatis", &inside]);
                assert_eq!(
                    (&whatis["object"]["address"], text(&whatis["object"]["type"])),
                    (&Value::from(object), kind)
                );
                continue;
            }
            let held = word(name, number(&buffer["object"]) + START_OF_BYTEARRAY);
            let whatis = ask(&core, &["whatis", &format!("{:#x}", held + 5000)]);
            assert_eq!(whatis["owner"]["type"], "bytearray", "{name}: {}", buffer["name"]);
            assert_eq!(whatis["owner"]["address"], Value::from(object), "{name}: {}", buffer["name"]);
        }
        let page = ask(&core, &["object", &hex(&truth["cache"]["object"])]);
        assert_eq!(
            (text(&page["type"]), number(&page["length"])),
            ("dict", number(&truth["cache"]["entries"])),
            "{name}"
        );
        let entries = list(&page["collection"]["entries"]);
        assert_eq!(entries.len(), 32, "{name}: the first ones");
        assert_eq!(entries[3]["key"]["value"], "\"page 3\"", "{name}");
        let page = text(&entries[3]["value"]["object"]);
        let inside = format!("{:#x}", u64::from_str_radix(&page[2..], 16).unwrap() + 10_000);
        let whatis = ask(&core, &["whatis", &inside]);
        assert_eq!((&whatis["object"]["type"], text(&whatis["object"]["address"])), (&"bytes".into(), page), "{name}");
    }
}

/// `ob_start` of PyByteArrayObject (Include/cpython/bytearrayobject.h), the same in all versions that are here.
const START_OF_BYTEARRAY: u64 = 40;

/// A word of the process's memory.
fn word(name: &str, at: u64) -> u64 {
    let bytes = std::fs::read(real::plain(name)).unwrap();
    let loads = crate::support::elf::read(&bytes).loads;
    let load = loads.iter().find(|l| l.vaddr <= at && at < l.vaddr + l.filesz).unwrap();
    crate::support::elf::u64_at(&bytes, (load.offset + (at - load.vaddr)) as usize)
}

#[test]
fn instances_are_shown_with_their_attributes() {
    for (name, core) in cores("python") {
        let truth = real::own_report(name);
        let fields = |key: &str| {
            let shown = ask(&core, &["object", &hex(&truth[key])]);
            // In 3.9 no module has the type of None, which is a static one: it has no name without the program's file.
            let value = |f: &Value| f["value"].as_str().unwrap_or("None").to_owned();
            let of = |f: &Value| (text(&f["name"]).to_owned(), value(f));
            (text(&shown["type"]).to_owned(), list(&shown["fields"]).iter().map(of).collect::<BTreeMap<_, _>>())
        };
        let of = |all: &[(&str, &str)]| {
            all.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect::<BTreeMap<String, String>>()
        };
        let (kind, order) = fields("order");
        assert_eq!((&*kind, order), ("__main__.Order", of(&[("number", "7"), ("label", "\"order 7\"")])), "{name}");
        let (kind, point) = fields("point");
        assert_eq!((&*kind, point), ("__main__.Point", of(&[("x", "7.0"), ("y", "None")])), "{name}");
    }
}

#[test]
fn what_keeps_the_cache_is_named() {
    for (name, core) in cores("python") {
        let truth = real::own_report(name);
        let answer = ask(&core, &["gcroot", &hex(&truth["cache"]["object"])]);
        let first = list(&answer["paths"]).first().unwrap_or_else(|| panic!("{name}: nothing keeps it"));
        let fields: Vec<&str> = list(&first["chain"]).iter().filter_map(|step| step["field"].as_str()).collect();
        assert_eq!(first["root_kind"], "module", "{name}");
        assert!(matches!(fields[..], [only] if only.ends_with("__main__.CACHE")), "{name}: {fields:?}");
        // The first node of the chain keeps all others.
        let answer = ask(&core, &["retained", "--type", "^__main__\\.Node$", "--top", "1"]);
        let first = &list(&answer["objects"])[0];
        let chain = number(&first["retained"]);
        assert!(chain >= 77 * number(&first["size"]) && chain < 77 * 1000, "{name}: {first}");
        assert!(text(&first["dominator_field"]).ends_with("__main__.CHAIN"), "{name}: {first}");
    }
}

#[test]
fn what_points_at_an_object_is_found() {
    for (name, core) in cores("python") {
        let truth = real::own_report(name);
        let answer = ask(&core, &["refs", &hex(&truth["cache"]["object"])]);
        // The table of the module's dict holds it.
        let from: Vec<&str> = list(&answer["refs"]).iter().filter_map(|r| r["type"].as_str()).collect();
        assert!(from.contains(&"(dict keys)"), "{name}: {from:?}");
    }
}

#[test]
fn only_cycles_are_unreachable() {
    for (name, core) in cores("python") {
        let answer = ask(&core, &["retained", "--top", "0"]);
        let planted = real::own_report(name);
        let of = |rows: &str, kind: &str| {
            let rows = list(&answer[rows]).iter().filter(|row| row["type"] == format!("__main__.{kind}"));
            rows.map(|row| number(&row["count"])).sum::<u64>()
        };
        for (kind, count) in planted["planted"].as_object().unwrap() {
            let expected = number(count) + u64::from(kind == "Order");
            let (live, dead) = (of("types", kind), of("unreachable_types", kind));
            assert_eq!(live + dead, expected, "{name}: {kind}");
            // Native stacks may have a word that is left of the last one.
            let wanted = if kind == "Orphan" { expected - 1..=expected } else { 0..=0 };
            assert!(wanted.contains(&dead), "{name}: {kind}: {dead} of {expected}");
        }
        // With each goes its dict, where it has one; little else.
        assert!(number(&answer["unreachable"]["objects"]) < 3 * 55 + 20, "{name}: {}", answer["unreachable"]);
        // The cache keeps its pages.
        let cache = ask(&core, &["retained", "--object", &hex(&planted["cache"]["object"])]);
        let kept = number(&cache["object"]["retained"]);
        assert!((800_000..900_000).contains(&kept), "{name}: {kept}");
    }
}

/// Frame objects of functions that returned are found, with their variables: the program says how many there are, and
/// where some are. From 3.11 on the word where other objects have their number of items is the caller's frame.
#[test]
fn frame_objects_keep_their_variables() {
    for (name, core) in cores("frame-objects") {
        let truth = real::own_report(name);
        let stat = ask(&core, &["heapstat"]);
        let row = list(&stat["types"]).iter().find(|row| row["type"] == "frame").unwrap();
        let frames = number(&truth["tracked_frames"]);
        assert_eq!(number(&row["tracked"]), frames, "{name}");
        // The module's own frame, which runs, has an object too.
        assert!((frames..frames + 8).contains(&number(&row["count"])), "{name}: {row}");
        // What only variables keep is not held from C.
        for frame in ["first_frame", "last_frame"] {
            let kept = ask(&core, &["retained", "--object", &hex(&truth[frame])]);
            let keeper = kept["object"]["dominator_type"].as_str();
            assert_eq!(keeper, Some("traceback"), "{name}: {frame}: {}", kept["object"]);
        }
        // 80 variables, in a block of malloc.
        let wide = ask(&core, &["object", &hex(&truth["wide_frame"])]);
        assert_eq!(wide["type"], "frame", "{name}");
        let kept = ask(&core, &["retained", "--object", &hex(&truth["wide_frame"])]);
        let parcels = list(&kept["types"]).iter().find(|row| row["type"] == "__main__.Parcel").unwrap();
        assert_eq!(number(&parcels["count"]), 80, "{name}");
        for object in ["first_frame", "wide_frame", "generator", "coroutine"] {
            let shown = ask(&core, &["object", &hex(&truth[object])]);
            assert_eq!(shown["length"], Value::Null, "{name}: {object}");
            let text = shown.to_string();
            assert!(!text.contains("elements\":1"), "{name}: {object}: {text}");
        }
    }
}

#[test]
fn triage_adds_up_and_tells_of_the_interpreter() {
    for (name, core) in cores("python") {
        let answer = ask(&core, &["triage"]);
        let findings = list(&answer["findings"]);
        let of = |id: &str| {
            let found = findings.iter().find(|f| f["id"] == id);
            found.unwrap_or_else(|| {
                panic!("{name}: no {id}: {:?}", findings.iter().map(|f| &f["id"]).collect::<Vec<_>>())
            })
        };
        let whole = |f: &&Value| f["within"].is_null() && f["bytes"].is_u64() && f["share"].is_number();
        let sum: u64 = findings.iter().filter(whole).map(|f| number(&f["bytes"])).sum();
        assert!(sum <= number(&answer["written"]), "{name}: {sum} of {}", answer["written"]);
        assert!(answer["named"]["share"].as_f64() > Some(0.99), "{name}: {}", answer["named"]);
        assert!(text(&of("managed-heap")["text"]).contains("CPython"), "{name}");
        assert!(text(&of("small-blocks")["text"]).contains("obmalloc"), "{name}");
        assert!(text(&of("collector-off")["text"]).contains("gc.disable()"), "{name}");
        let buffers = number(&of("native-buffers")["bytes"]);
        assert!(buffers > 570_000, "{name}: {buffers}");
    }
}

/// Findings about containers and caches have the retained sizes of `retained`: parts that have several referrers, such
/// as frames of tracebacks and links of a cache, count once. The program summed up `sys.getsizeof`.
#[test]
fn containers_retain_what_the_program_counted() {
    for (name, core) in cores("holdings") {
        let truth = real::own_report(name);
        let answer = ask(&core, &["triage"]);
        let live = number(&ask(&core, &["retained", "--top", "0"])["live"]["size"]);
        let of = |id: &'static str, what: &str| {
            let found = list(&answer["findings"]).iter().find(|f| f["id"] == id && text(&f["text"]).contains(what));
            found.unwrap_or_else(|| panic!("{name}: no {id} with {what}"))
        };
        // The objects of the containers themselves are a few percent more.
        for (global, object, told, percent) in [
            ("`__main__.FAULTS` is a dict of 100 __main__.Fault", "faults", "scratch", 10),
            ("`__main__.VIEWS` is a dict of 80 memoryview", "views", "buffers", 3),
            ("`__main__.ORDERS` is a dict of 3,000 __main__.Order", "orders", "in_orders", 4),
            ("__main__.page 300 entries (limit 400)", "cache", "pages", 4),
        ] {
            let finding = of(if object == "cache" { "caches" } else { "containers" }, global);
            let (bytes, told) = (number(&finding["bytes"]), number(&truth[told]));
            assert!(
                (told * (100 - percent) / 100..=told * (100 + percent) / 100).contains(&bytes),
                "{global}: {bytes} of {told}"
            );
            let retained = ask(&core, &["retained", "--object", &hex(&truth[object])]);
            assert_eq!(number(&retained["object"]["retained"]), bytes, "{name}: {global}");
            if object != "cache" {
                let share = format!("{} % of live objects", bytes * 100 / live);
                assert!(text(&finding["text"]).contains(&share), "{name}: {share}: {finding}");
            }
        }
        // Namespaces are no containers.
        let containers = list(&answer["findings"]).iter().filter(|f| f["id"] == "containers");
        assert!(containers.clone().count() <= 3, "{name}");
    }
}

/// Names of asyncio tasks are names: `async` prints them, and docs/sharing.md says that they stay with `--scrub` and go
/// with `--scrub=names`.
#[test]
fn names_of_tasks_go_with_the_other_names() {
    let name = "python313-tasks";
    let core = real::plain(name);
    let folder = tempfile::tempdir().unwrap();
    let scrubbed = |level: &str| {
        let out = folder.path().join(level);
        run(["shrink", &format!("--scrub={level}"), "-o", out.to_str().unwrap(), core.to_str().unwrap()]).is_sound();
        std::fs::read(out).unwrap()
    };
    let count = |bytes: &[u8], text: &str| bytes.windows(text.len()).filter(|part| *part == text.as_bytes()).count();
    let (before, values, without) = (std::fs::read(&core).unwrap(), scrubbed("values"), scrubbed("names"));
    for task in ["gate 1", "gate 4"] {
        assert!(count(&before, task) > 0, "{task}");
        assert!(count(&values, task) > 0, "{task}");
        assert_eq!(count(&without, task), 0, "{task}");
    }
}

/// Without the program's file, static types are named by a member in their dict, and that name decides how objects are
/// read. So members that name types are no texts of the program.
#[test]
fn a_scrubbed_core_has_the_same_types() {
    for name in names("frame-objects") {
        let core = real::plain(name);
        let folder = tempfile::tempdir().unwrap();
        let scrubbed = folder.path().join("core");
        run(["shrink", "--scrub", "-o", scrubbed.to_str().unwrap(), core.to_str().unwrap()]).is_sound();
        let counts = |core: &Path| -> BTreeMap<String, u64> {
            let answer = ask(core, &["heapstat"]);
            list(&answer["types"]).iter().map(|row| (text(&row["type"]).to_owned(), number(&row["count"]))).collect()
        };
        assert_eq!(counts(&scrubbed), counts(&core), "{name}");
    }
}
