//! Text that an attacker may put into a process: instructions as names and values, planted into recorded cores in place
//! of words of the same length. No answer may have one outside of `untrusted`, and contents of memory nowhere.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::client::Client;
use crate::support::real;
use crate::support::run::run;

/// A word of a core, what replaces it, and where the process has it.
struct Planted {
    word: &'static str,
    canary: &'static str,
    kind: &'static str,
    /// Whether it is a name, which answers may have in `untrusted`. Otherwise it is content, and no answer has it.
    is_name: bool,
}

const fn name(word: &'static str, canary: &'static str, kind: &'static str) -> Planted {
    Planted { word, canary, kind, is_name: true }
}

const fn content(word: &'static str, canary: &'static str, kind: &'static str) -> Planted {
    Planted { word, canary, kind, is_name: false }
}

/// Cores with what is planted in each.
const CORES: &[(&str, &[Planted])] = &[
    (
        "python313-caught",
        &[
            name("ValueError", "OBEYme_001", "type"),
            name("/tmp/own/t/caught.py", "/tmp/OBEYme_002/c.py", "file of code"),
            name("bin/python3.13", "bin/OBEYme_003", "path of the program"),
            content("PATH=/usr/bin:/bin", "PATH=OBEYme_004:/x", "environment"),
            name("FAILED", "OBEYm5", "variable"),
        ],
    ),
    (
        "dotnet8-objects",
        &[
            name("LeakyCache", "OBEYme_006", "type"),
            name("_entries", "OBEYm_07", "field"),
            name("HandleTarget", "OBEYme_00008", "type of a lock"),
            content("inner stored", "OBEYme_00009", "message of an exception"),
            content("Value cannot be null.", "OBEYme_00010 run this", "text of a string"),
        ],
    ),
    (
        "java17-threads",
        &[name("Common-Cleaner", "OBEYme_0000011", "name of a thread"), name("JavaThreads", "OBEYme_0012", "class")],
    ),
    ("go124-pie", &[name("main.", "OBEY.", "function")]),
];

/// Replaces a word wherever it is, as UTF-8 and as UTF-16. Returns how often.
fn plant(bytes: &mut [u8], word: &str, canary: &str) -> usize {
    assert_eq!(word.len(), canary.len(), "{word}");
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut count = 0;
    for (from, to) in [(word.as_bytes().to_vec(), canary.as_bytes().to_vec()), (wide(word), wide(canary))] {
        let found: Vec<usize> = memchr_all(bytes, &from);
        count += found.len();
        for at in found {
            bytes[at..at + to.len()].copy_from_slice(&to);
        }
    }
    count
}

fn memchr_all(bytes: &[u8], word: &[u8]) -> Vec<usize> {
    let first = word[0];
    let at = bytes.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(at, _)| at);
    at.filter(|&at| bytes[at..].starts_with(word)).collect()
}

/// Calls that show as much as tools can.
fn calls(core: &str) -> Vec<(&'static str, Value)> {
    let all = |mut arguments: Value| {
        arguments["core"] = json!(core);
        arguments["max_bytes"] = json!(65536);
        arguments
    };
    vec![
        ("info", all(json!({}))),
        ("triage", all(json!({ "all": true }))),
        ("summary", all(json!({ "zero_fill": true }))),
        ("heapstat", all(json!({}))),
        ("why", all(json!({ "type": "." }))),
        ("why", all(json!({ "type": "[" }))),
        ("why", all(json!({ "address": "libc.so.6+zz" }))),
        ("why", all(json!({ "address": "nothing+0x10" }))),
        ("threads", all(json!({}))),
        ("threads", all(json!({ "virtual": true }))),
        ("async", all(json!({ "all": true }))),
        ("search", all(json!({ "pattern": "OBEY", "top": 200 }))),
        ("heapstat", all(json!({ "sort": "nothing" }))),
    ]
}

#[test]
fn planted_instructions_stay_in_untrusted_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (mut planted, mut answers) = (0, 0);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (core, plants) in CORES {
        let mut bytes = real::bytes(core);
        for plant_it in *plants {
            let count = plant(&mut bytes, plant_it.word, plant_it.canary);
            assert!(count > 0, "{core}: {}", plant_it.word);
            planted += count;
        }
        std::fs::write(dir.path().join(core), bytes).unwrap();
        let mut client = Client::start(dir.path(), &[]);
        let mut asked = calls(core);
        asked.push(("diff", json!({ "old": core, "new": core, "max_bytes": 65536 })));
        let mut strings: Vec<String> = Vec::new();
        for (tool, mut arguments) in asked {
            // All pages.
            for _ in 0..40 {
                let mut answer = client.tool(tool, &arguments);
                answers += 1;
                let cursor = answer["cursor"].take();
                let untrusted = answer["untrusted"].take();
                // The command repeats what the client asked for.
                answer["command"] = Value::Null;
                assert!(!answer.to_string().contains("OBEY"), "{core} {tool}: {answer:#}");
                strings.push(untrusted.to_string());
                if cursor.is_null() {
                    break;
                }
                arguments["cursor"] = cursor;
            }
        }
        for notification in &client.notifications {
            assert!(!notification.to_string().contains("OBEY"), "{notification}");
        }
        let all = strings.concat();
        for plant in *plants {
            let shown = all.contains(plant.canary);
            assert!(plant.is_name || !shown, "{core}: {} is in an answer: {}", plant.kind, plant.canary);
            if shown {
                seen.insert(plant.kind);
            }
        }
        assert!(client.end().success());
    }
    eprintln!("{planted} places with instructions, {answers} answers, shown as data: {seen:?}");
    // Else nothing was checked.
    for kind in ["type", "field", "path of the program", "variable", "name of a thread", "class"] {
        assert!(seen.contains(kind), "{kind} is in no answer: {seen:?}");
    }
}

#[test]
fn contents_are_shown_only_if_the_server_was_told() {
    let cores = super::cores();
    // An exception with a message, on the stack of a thread; and a string.
    for (options, shows) in [(&[][..], false), (&["--show-data"][..], true)] {
        let mut client = Client::start(&cores, options);
        let core = real::argument("dotnet8-objects");
        let objects = run(["objects", "--type", "^System.String$", "--json", core.as_str()]).json();
        let short = |row: &&Value| (40..60).contains(&row["size"].as_u64().unwrap());
        let string = objects["objects"].as_array().unwrap().iter().find(short).unwrap();
        let address = string["address"].as_str().unwrap();
        let answer = client.tool("why", &json!({ "core": "dotnet8-objects/core.zst", "address": address }));
        let value = &answer["untrusted"]["answer"]["whatis"]["object"]["value"];
        assert_eq!(!value.as_str().unwrap().contains("hidden"), shows, "{value}");
        assert!(client.end().success());
    }
}
