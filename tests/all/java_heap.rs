//! Objects of a Java heap beside what the VM counted just before the dump, what keeps them, and who owns memory
//! outside: the program is testdata/sources/OffHeap.java, which says how many of each there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::runtimes::api::{Link, UnwalkedRanges};
use coremap::session::Session;
use coremap::units::round;
use serde_json::Value;

use crate::support::cases::{names, serving};
use crate::support::real;
use crate::support::run::run;

/// Sessions with a buffer each, its bytes, entries of the cache, loaders with a class each.
const SESSIONS: u64 = 150;
const BUFFER: u64 = 64 << 10;
const ENTRIES: u64 = 500;
const LOADERS: u64 = 20;

fn cores() -> Vec<(PathBuf, PathBuf)> {
    let all: Vec<_> = serving("java-heap").iter().map(|case| (real::plain(&case.name), case.folder.clone())).collect();
    assert!(!all.is_empty());
    all
}

fn ask(core: &Path, args: &[&str]) -> Value {
    let core = core.to_str().unwrap();
    run(args.iter().copied().chain(["--json", core])).is_sound().json()
}

/// A class as jcmd writes it (`[I`, `[Ljava.lang.String;`) in the words of our listings.
fn named(class: &str) -> String {
    let element = class.trim_start_matches('[');
    let dimensions = class.len() - element.len();
    let name = match element {
        _ if dimensions == 0 => element,
        "B" => "byte",
        "C" => "char",
        "D" => "double",
        "F" => "float",
        "I" => "int",
        "J" => "long",
        "S" => "short",
        "Z" => "boolean",
        object => object.trim_start_matches('L').trim_end_matches(';'),
    };
    name.to_owned() + &"[]".repeat(dimensions)
}

#[test]
fn every_class_has_the_objects_and_bytes_that_the_vm_counted() {
    for (core, folder) in cores() {
        let text = std::fs::read_to_string(folder.join("histogram.txt")).unwrap();
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let (_, count, size, class) = (words.next()?, words.next()?, words.next()?, words.next()?);
            Some((named(class), (count.parse::<u64>().ok()?, size.parse::<u64>().ok()?)))
        };
        let mut wanted: BTreeMap<String, (u64, u64)> = text.lines().filter_map(row).collect();
        assert!(wanted.len() > 200);
        let answer = ask(&core, &["heapstat"]);
        let number = |t: &Value, field: &str| t[field].as_u64().unwrap();
        let types = answer["types"].as_array().unwrap();
        let mut found: BTreeMap<String, (u64, u64)> = types
            .iter()
            .map(|t| (t["type"].as_str().unwrap().to_owned(), (number(t, "count"), number(t, "size"))))
            .collect();
        // jcmd fills what threads have taken and not used with arrays of int, and counts them.
        wanted.remove("int[]");
        found.remove("int[]");
        assert_eq!(found, wanted);
        assert_eq!(found["OffHeap$Entry"].0, ENTRIES);
        assert_eq!((answer["lost"]["bytes"].as_u64(), answer["warnings"].as_array().unwrap().len()), (Some(0), 0));
    }
}

/// The only object of a class.
fn only(core: &Path, class: &str) -> String {
    let answer = ask(core, &["objects", "--type", class]);
    let objects = answer["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 1, "{class}");
    objects[0]["address"].as_str().unwrap().to_owned()
}

/// The first path from a root to the only object of a class: the kind of root, and how each step holds the next.
fn path(core: &Path, class: &str) -> Option<(String, Vec<String>)> {
    let object = only(core, class);
    let core = core.to_str().unwrap();
    let answer = run(["gcroot", &object, "--json", core]).json();
    let path = answer["paths"].as_array().unwrap().first()?.clone();
    let fields = path["chain"].as_array().unwrap().iter().filter_map(|step| step["field"].as_str());
    Some((path["root_kind"].as_str().unwrap().to_owned(), fields.map(str::to_owned).collect()))
}

#[test]
fn what_keeps_objects_is_told() {
    for (core, _) in cores() {
        let fields = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let sticky = "sticky class".to_owned();
        assert_eq!(
            path(&core, r"^OffHeap\$Sessions$"),
            Some((sticky.clone(), fields(&["static OffHeap.SESSIONS_OF_ALL"])))
        );
        assert_eq!(path(&core, r"^OffHeap\$Softly$"), Some((sticky, fields(&["static OffHeap.soft", "referent"]))));
        assert_eq!(path(&core, r"^OffHeap\$OnStack$"), Some(("Stack (conservative)".to_owned(), Vec::new())));
        // What only a weak reference leads to was taken by the collection; what was made since is on the heap still.
        let retained = ask(&core, &["retained", "--top", "0"]);
        let of = |list: &str, class: &str| {
            let rows = retained[list].as_array().unwrap().iter();
            rows.filter(|row| row["type"] == class).map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(of("types", "OffHeap$Weakly") + of("unreachable_types", "OffHeap$Weakly"), 0);
        assert_eq!((of("types", "OffHeap$Entry"), of("types", "OffHeap$Garbage")), (ENTRIES, 0));
        assert_eq!((of("types", "OffHeap$PluginLoader"), of("types", "Plugin")), (LOADERS, LOADERS));
    }
}

/// Searches stop at an object and go on where they were: what it holds must be the same then.
#[test]
fn what_an_object_holds_is_the_same_piece_by_piece() {
    for (core, _) in cores() {
        let process = Process::open(&core, &Options::default(), &Progress::silent()).unwrap();
        let session = Session::new(&process);
        let runtimes = session.runtimes();
        let heap = runtimes[0].heap().unwrap();
        let (mut reader, mut walker) = (heap.reader(), heap.walker());
        let (mut whole, mut piece, mut constants) = (Vec::new(), Vec::new(), 0);
        for part in heap.ranges() {
            walker.walk(part, &mut UnwalkedRanges::default(), &mut |object| {
                let at = object.addr.get();
                assert_eq!(reader.targets(at, 0, usize::MAX, &mut whole), None);
                let (mut pieces, mut next) = (Vec::new(), Some(0));
                while let Some(from) = next {
                    next = reader.targets(at, from, 1, &mut piece);
                    pieces.append(&mut piece);
                }
                assert_eq!(pieces, whole, "{}", object.addr);
                reader.each(at, |link, _| {
                    constants += u32::from(matches!(link, Link::NoField(_)));
                    true
                });
            });
        }
        // What is in no field is held too: constants of classes, and classes of loaders that may go.
        assert!(constants > 100);
    }
}

#[test]
fn an_object_is_shown_with_its_fields() {
    for (core, _) in cores() {
        let answer = ask(&core, &["objects", "--type", r"^OffHeap\$Session$"]);
        let sessions = answer["objects"].as_array().unwrap();
        assert_eq!(sessions.len() as u64, SESSIONS);
        let session = ask(&core, &["object", sessions[0]["address"].as_str().unwrap()]);
        let fields = session["fields"].as_array().unwrap();
        let of = |name: &str| fields.iter().find(|f| f["name"] == name).unwrap();
        assert!(of("name")["value"].as_str().unwrap().starts_with("session-"));
        assert_eq!(of("name")["type"], "java.lang.String");
        assert_eq!(of("buffer")["object_type"], "java.nio.DirectByteBuffer");
        let buffer = ask(&core, &["object", of("buffer")["object"].as_str().unwrap()]);
        let fields = buffer["fields"].as_array().unwrap();
        let capacity = fields.iter().find(|f| f["name"] == "capacity").unwrap();
        assert_eq!(capacity["value"], BUFFER.to_string());

        // The memory that it owns is told as its own.
        let address = fields.iter().find(|f| f["name"] == "address").unwrap()["value"].as_str().unwrap();
        let address = format!("{:#x}", address.parse::<u64>().unwrap());
        let whatis = ask(&core, &["whatis", &address]);
        assert_eq!(whatis["owner"]["type"], "java.nio.DirectByteBuffer");
        assert_eq!(whatis["owner"]["address"], of("buffer")["object"]);
    }
}

#[test]
fn triage_names_the_buffers_and_who_keeps_them() {
    for (core, _) in cores() {
        let answer = ask(&core, &["triage"]);
        let findings = answer["findings"].as_array().unwrap();
        let buffers = findings.iter().find(|f| f["id"] == "native-buffers").unwrap();
        assert_eq!(buffers["bytes"].as_u64(), Some(SESSIONS * BUFFER));
        assert!(buffers["text"].as_str().unwrap().contains("OffHeap$Session"), "{}", buffers["text"]);
        let loaders = findings.iter().find(|f| f["id"] == "class-loaders").unwrap();
        assert!(loaders["text"].as_str().unwrap().contains("Plugin"), "{}", loaders["text"]);
    }
}

/// A String's characters are in a byte[] beside it. jcmd counted both kinds of objects; the arrays of the cache are no
/// strings.
#[test]
fn strings_have_their_contents() {
    for (core, folder) in cores() {
        let text = std::fs::read_to_string(folder.join("histogram.txt")).unwrap();
        let bytes = |class: &str| -> u64 {
            let line = text.lines().find(|line| line.split_whitespace().nth(3) == Some(class)).unwrap();
            line.split_whitespace().nth(2).unwrap().parse().unwrap()
        };
        let (strings, arrays) = (bytes("java.lang.String"), bytes("[B"));
        // 256 bytes and a header of 16.
        let others = ENTRIES * 272;
        let all = ask(&core, &["heapstat", "--strings"]);
        let total = all["strings"]["total"]["size"].as_u64().unwrap();
        // Some arrays are of neither: classes' bytes, the VM's own. An array has at least 24 bytes, and few are shared.
        let most = strings + arrays - others;
        assert!((strings * 7 / 4..=most).contains(&total), "{total} of {most}");
        assert!(all["strings"]["wasted"].as_u64().unwrap() <= total);
    }
}

/// Hidden classes have ClassLoaderData of their own, but no loader: there are the program's 20 and the VM's three.
#[test]
fn class_loaders_are_counted_by_object() {
    for (core, _) in cores() {
        let answer = ask(&core, &["triage"]);
        let findings = answer["findings"].as_array().unwrap();
        let text = |id: &str| findings.iter().find(|f| f["id"] == id).unwrap()["text"].as_str().unwrap().to_owned();
        let wanted = format!("{} class loaders", LOADERS + 3);
        for id in ["metaspace", "class-loaders"] {
            assert!(text(id).contains(&wanted), "{}", text(id));
        }
    }
}

/// Humongous.java: each array of 1.38 MiB has two regions of 1 MiB, and nothing else may use their end. Each string has
/// a byte[] of its own: sharing it saves the array, too.
#[test]
fn ends_of_humongous_regions_and_arrays_of_strings_are_counted() {
    for name in names("humongous") {
        let (core, truth) = (real::plain(name), real::own_report(name));
        let of = |key: &str| truth[key].as_u64().unwrap();
        let answer = ask(&core, &["triage", "--all"]);
        let findings = answer["findings"].as_array().unwrap();
        let heap = findings.iter().find(|f| f["id"] == "managed-heap").unwrap();
        let text = heap["text"].as_str().unwrap();
        // The header has 16 bytes.
        let array = (of("length") + 16).next_multiple_of(8);
        let lost = of("arrays") * (array.next_multiple_of(of("region")) - array);
        let wanted = format!("{} lost at the ends of humongous objects", round(lost));
        assert!(text.contains(&wanted), "{wanted}: {text}");
        assert!(text.contains(" in free regions"), "{text}");
        // No part is a larger share than the whole has.
        for finding in findings.iter().filter(|f| f["within"] == "managed-heap") {
            let (bytes, share) = (finding["bytes"].as_f64().unwrap_or(0.0), finding["share"].as_f64().unwrap_or(0.0));
            let all = answer["written"].as_f64().unwrap() + of("committed") as f64;
            assert!(share >= bytes / all - 0.001, "{share}: {finding}");
            assert!(share < 1.0, "{finding}");
        }
        let strings = &ask(&core, &["heapstat", "--strings"])["strings"];
        let (copies, letters) = (of("strings") / of("texts"), of("letters"));
        let rows = strings["duplicates"].as_array().unwrap();
        let rows: Vec<&Value> = rows.iter().filter(|row| row["count"] == copies && row["length"] == letters).collect();
        assert_eq!(rows.len() as u64, of("texts"), "{strings}");
        // A String has 24 bytes, its array a header and the letters.
        let each = 24 + (16 + letters).next_multiple_of(8);
        assert!(rows.iter().all(|row| row["wasted"] == (copies - 1) * each), "{rows:?}");
    }
}
