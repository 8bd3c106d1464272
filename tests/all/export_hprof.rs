//! Heap dumps: read by a reader that knows nothing of the writer, and held against what the programs did, and what other commands
//! answer. `tests/exports/run` has VisualVM's library and hprof-slurp read them.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::hprof::{self, HeapDump, Object};
use crate::support::real;
use crate::support::run::run;
use serde_json::Value;

const JAVA_FRAME: u8 = 0x03;

#[track_caller]
fn ask(args: &[&str], core: &str) -> Value {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    out.json()
}

#[track_caller]
fn export(core: &str) -> (HeapDump, Vec<u8>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.hprof");
    let answer = ask(&["export", "--to", "hprof", "-o", out.to_str().unwrap()], core);
    assert_eq!(answer["refused"], Value::Null);
    let bytes = std::fs::read(&out).unwrap();
    (hprof::read(&bytes), bytes, answer)
}

fn figure(answer: &Value, name: &str) -> u64 {
    let rows = answer["figures"].as_array().unwrap();
    rows.iter().find(|row| row["figure"] == name).unwrap()["value"].as_u64().unwrap()
}

/// As class files have the name of a type.
fn of_class_file(name: &str) -> String {
    let Some(element) = name.strip_suffix("[]") else { return name.replace('.', "/") };
    let numbers = [
        ("boolean", "Z"),
        ("char", "C"),
        ("float", "F"),
        ("double", "D"),
        ("byte", "B"),
        ("short", "S"),
        ("int", "I"),
        ("long", "J"),
    ];
    match numbers.iter().find(|(number, _)| *number == element) {
        Some((_, letter)) => format!("[{letter}"),
        None if element.ends_with("[]") => format!("[{}", of_class_file(element)),
        None => format!("[L{};", of_class_file(element)),
    }
}

/// testdata/sources/OffHeap.java.
#[test]
fn a_java_heap_has_the_objects_fields_and_roots_of_the_program() {
    let core = real::plain("java17-offheap");
    let core = core.to_str().unwrap();
    let (dump, bytes, answer) = export(core);
    let (object, string) = (dump.class("java/lang/Object"), dump.class("java/lang/String"));
    let session = dump.class("OffHeap$Session");
    assert_eq!(dump.classes[&session].above, object);
    let mut names = BTreeSet::new();
    for (_, fields) in dump.instances(session) {
        names.insert(dump.text(fields["name"]));
        let Object::Instance { class, fields } = &dump.objects[&fields["buffer"]] else { panic!("no buffer") };
        assert_eq!((dump.classes[class].name.as_str(), fields["capacity"]), ("java/nio/DirectByteBuffer", 64 << 10));
    }
    assert_eq!(names, (0..150).map(|i| format!("session-{i}")).collect());
    let entries: Vec<_> = dump.instances(dump.class("OffHeap$Entry")).collect();
    assert_eq!(entries.len(), 500);
    for (_, fields) in entries {
        let Object::Values { kind, bytes } = &dump.objects[&fields["data"]] else { panic!("no data") };
        assert_eq!((*kind, bytes.len(), fields["used"]), (8, 256, 0));
    }
    let program = &dump.classes[&dump.class("OffHeap")];
    let (sessions, _) = dump.instances(dump.class("OffHeap$Sessions")).next().unwrap();
    assert_eq!((program.statics["SESSIONS_OF_ALL"], program.statics["LOADERS"]), (sessions, 20));
    let Object::Instance { fields, .. } = &dump.objects[&program.statics["CACHE"]] else { panic!("no list") };
    let Object::Objects { elements, .. } = &dump.objects[&fields["elementData"]] else { panic!("no array") };
    let cached: BTreeSet<u64> = elements.iter().copied().filter(|element| *element != 0).collect();
    assert_eq!(cached, dump.instances(dump.class("OffHeap$Entry")).map(|(id, _)| id).collect());
    let (soft, fields) = dump.instances(dump.class("OffHeap$Softly")).next().unwrap();
    assert_eq!(fields["value"], 3);
    let Object::Instance { fields, .. } = &dump.objects[&program.statics["soft"]] else { panic!("no reference") };
    assert_eq!(fields["referent"], soft);
    // Each plugin has a class of its own, of a loader of its own.
    let plugins: Vec<_> = dump.classes.values().filter(|class| class.name == "Plugin").collect();
    let loaders: BTreeSet<u64> = plugins.iter().map(|class| class.loader).collect();
    let made: BTreeSet<u64> = dump.instances(dump.class("OffHeap$PluginLoader")).map(|(id, _)| id).collect();
    assert_eq!((plugins.len(), loaders), (20, made));
    // The local variable of main, held by it or what it called.
    let (local, fields) = dump.instances(dump.class("OffHeap$OnStack")).next().unwrap();
    assert_eq!((fields["one"], fields["two"]), (1, 2));
    let of_local: Vec<_> = dump.roots.iter().filter(|root| root.0 == local && root.1 == JAVA_FRAME).collect();
    let holders = of_local.iter().map(|root| dump.threads[&root.2].frames[root.3 as usize].1.as_str());
    assert!(holders.clone().any(|method| method == "main"), "{:?}", holders.collect::<Vec<_>>());
    // Counts are heapstat's; what stands for a class is that class here.
    let heapstat = ask(&["heapstat"], core);
    let mut want: BTreeMap<String, u64> = BTreeMap::new();
    for row in heapstat["types"].as_array().unwrap().iter().filter(|row| row["type"] != "Free") {
        *want.entry(of_class_file(row["type"].as_str().unwrap())).or_default() += row["count"].as_u64().unwrap();
    }
    *want.get_mut("java/lang/Class").unwrap() -= figure(&answer, "class_objects");
    let got: BTreeMap<String, u64> = dump.counts().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
    assert_eq!(got, want);
    let size = |name: &str| u64::from(dump.classes[&dump.class(name)].size);
    let row =
        |name: &str| heapstat["types"].as_array().unwrap().iter().find(|row| row["type"] == name).unwrap().clone();
    let entries = row("OffHeap$Entry");
    assert_eq!(size("OffHeap$Entry"), entries["size"].as_u64().unwrap() / 500);
    assert!(dump.classes.contains_key(&string));
    // The same core gives the same file.
    assert!(export(core).1 == bytes);
}

/// Frames are those of `threads`, which is held against jstack.
#[test]
fn threads_have_their_frames() {
    let core = real::plain("java17-threads");
    let core = core.to_str().unwrap();
    let (dump, ..) = export(core);
    let threads = ask(&["threads"], core);
    let mut want: Vec<Vec<(String, Option<u64>)>> = Vec::new();
    for thread in threads["threads"].as_array().unwrap() {
        let frames = thread["frames"].as_array().unwrap().iter().filter(|frame| frame["runtime"].is_string());
        let name = |frame: &Value| frame["method"].as_str().unwrap().split('(').next().unwrap().to_owned();
        want.push(frames.map(|frame| (name(frame), frame["line"].as_u64())).collect());
    }
    let mut got = Vec::new();
    for thread in dump.threads.values() {
        assert!(thread.object == 0 || dump.objects.contains_key(&thread.object));
        let frames = thread.frames.iter().map(|(class, method, signature, line)| {
            assert!(signature.starts_with('(') && signature.contains(')'), "{signature}");
            // Of a hidden class the VM's own name has a `+`.
            let class = class.replace('/', ".").replace("+0x", "/0x").replace(".0x", "/0x");
            (format!("{class}.{method}"), u64::try_from(*line).ok())
        });
        got.push(frames.collect::<Vec<_>>());
    }
    want.retain(|frames| !frames.is_empty());
    got.retain(|frames| !frames.is_empty());
    assert!(want.len() > 3);
    want.sort();
    got.sort();
    assert_eq!(got, want);
}

/// testdata/sources/app.cs: a list of nodes, each with its number, an array of four ints and, one in eight, a name.
#[test]
fn a_dotnet_heap_is_told_in_the_terms_of_java() {
    let core = real::plain("dotnet31-createdump");
    let core = core.to_str().unwrap();
    let truth = real::truth("dotnet31-createdump").all;
    let nodes = truth["markers"]["nodes"].as_u64().unwrap();
    let (dump, bytes, answer) = export(core);
    let counts = dump.counts();
    let (name, _) = counts.iter().find(|(name, count)| **count == nodes && name.starts_with("app.dll!")).unwrap();
    let node = dump.class(name);
    // Of the core's fields there are no names; there is one number, three references.
    let number = &dump.classes[&node].fields.iter().find(|(_, kind)| *kind == 11).unwrap().0;
    let references: Vec<&String> =
        dump.classes[&node].fields.iter().filter(|(_, kind)| *kind == 2).map(|(name, _)| name).collect();
    assert_eq!(references.len(), 3);
    let mut numbers = BTreeSet::new();
    let mut last = 0;
    for (id, fields) in dump.instances(node) {
        let this = fields[number];
        assert!(numbers.insert(this));
        if this == nodes - 1 {
            last = id;
        }
        for held in references.iter().map(|name| fields[*name]).filter(|held| *held != 0) {
            match &dump.objects[&held] {
                Object::Values { kind, bytes } => assert_eq!((*kind, bytes.len()), (10, 16)),
                Object::Instance { class, fields } if *class == node => assert_eq!(fields[number] + 1, this),
                Object::Instance { .. } => assert_eq!((dump.text(held), this % 8), (format!("node-{this}"), 0)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(numbers, (0..nodes).collect());
    // A static field has the head, and its class is a root.
    let (class, _) = dump.classes.iter().find(|(_, class)| class.statics.values().any(|at| *at == last)).unwrap();
    assert!(dump.roots.iter().any(|root| (root.0, root.1) == (*class, 0x05)));
    let marker = truth["markers"]["marker_text"].as_str().unwrap();
    let texts = dump.instances(dump.class("java/lang/String")).map(|(id, _)| dump.text(id));
    assert_eq!(texts.filter(|text| text == marker).count(), 1);
    let bytes_of_big = dump.objects.values().filter_map(|object| match object {
        Object::Values { kind: 8, bytes } if bytes.len() == 300_000 => Some(bytes),
        _ => None,
    });
    let expected = |i: usize| if i.is_multiple_of(251) { 0xb1 } else { 0x6b };
    assert!(bytes_of_big.into_iter().any(|bytes| bytes.iter().enumerate().all(|(i, byte)| *byte == expected(i))));
    // What heapstat counts, and a row of characters for each text.
    let heapstat = ask(&["heapstat", "--strings"], core);
    let objects: u64 = heapstat["types"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["type"] != "Free")
        .map(|row| row["count"].as_u64().unwrap())
        .sum();
    let strings = heapstat["strings"]["total"]["objects"].as_u64().unwrap();
    assert_eq!((figure(&answer, "objects"), figure(&answer, "texts")), (objects, strings));
    assert_eq!(dump.objects.len() as u64, objects + strings);
    assert!(export(core).1 == bytes);
}

#[test]
fn what_has_no_heap_of_these_gets_a_sentence_and_no_file() {
    for (name, sentence) in [
        ("native-glibc-kernel", "an .hprof is a heap of Java or .NET"),
        ("python311", "an .hprof is a heap of Java or .NET"),
    ] {
        let core = real::plain(name);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.hprof");
        let out = run(["export", "--to", "hprof", "-o", path.to_str().unwrap(), core.to_str().unwrap()]);
        out.is_sound();
        assert!([Some(1), Some(4)].contains(&out.code), "{name}: {:?}", out.code);
        assert!(out.stdout.contains(sentence), "{name}: {}", out.stdout);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{name}");
    }
}
