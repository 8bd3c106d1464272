//! Every command that an answer suggests works when it is pasted, and its answer is about the same subject. Retained
//! sizes in findings are those of `retained`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::run::{program, run};
use crate::support::{cases, real};
use coremap::units::round;

/// Splits a command as a shell does. Suggested commands use single quotes only.
fn words(command: &str) -> Vec<String> {
    let (mut out, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut left = command.chars().peekable();
    while let Some(c) = left.next() {
        match c {
            '\'' => (quoted, word) = (!quoted, Some(word.unwrap_or_default())),
            '\\' if !quoted => word.get_or_insert_default().extend(left.next()),
            ' ' if !quoted => out.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    assert!(!quoted, "{command}");
    out.extend(word);
    out
}

fn is_empty(list: &Value) -> bool {
    list.as_array().unwrap_or_else(|| panic!("{list} is no list")).is_empty()
}

/// The list that a command answers with, and which has the subject.
fn list_of(command: &str) -> &'static str {
    match command {
        "regions" => "regions",
        "heapstat" => "types",
        "stacks" => "stacks",
        "threads" => "threads",
        "retained" => "objects",
        "handles" => "handles",
        "finalizers" => "finalizers",
        "exceptions" => "exceptions",
        "async" => "chains",
        "holders" => "holders",
        "summary" => "kinds",
        "refs" => "refs",
        "leaks" => "clusters",
        "allocations" => "sites",
        "collections" => "types",
        "threadpool" => "pools",
        "timers" => "timers",
        "requests" => "requests",
        other => panic!("no rule for `{other}`"),
    }
}

/// Why an answer does not have the subject of its command. `None` if it has.
fn lacks(args: &[String], answer: &Value, finding: &Value) -> Option<String> {
    let command = args[0].as_str();
    let option = |name: &str| args.iter().position(|a| a == name).map(|at| args[at + 1].as_str());
    let address = args[1..].iter().find(|a| a.starts_with("0x"));
    let whole = answer.to_string();
    if let Some(address) = address.filter(|a| !whole.contains(a.as_str())) {
        return Some(format!("{address} is not in the answer"));
    }
    let fails = match command {
        "gcroot" if address.is_some() => is_empty(&answer["paths"]),
        "gcroot" => {
            let name = option("--type")?.trim_start_matches('^').trim_end_matches('$').replace('\\', "");
            is_empty(&answer["groups"]) || !answer["types"].as_array()?.contains(&Value::from(name))
        }
        "heapstat" if args.iter().any(|a| a == "--strings") => is_empty(&answer["strings"]["duplicates"]),
        "heapstat" if option("--type") == Some("Free") => answer["free"]["size"] == 0,
        "heap" if args.iter().any(|a| a == "--loader") => is_empty(&answer["loader"]),
        "heap" => is_empty(&answer["segments"]),
        "handles" if args.iter().any(|a| a == "--group") => is_empty(&answer["groups"]) && is_empty(&answer["handles"]),
        "threads" if args.iter().any(|a| a == "--group") => is_empty(&answer["groups"]),
        "malloc" => answer["total"]["used"] == 0 && answer["allocators"].as_array().is_none_or(Vec::is_empty),
        "anon" => is_empty(&answer["contents"]) && is_empty(&answer["clusters"]),
        "object" | "whatis" | "info" => false,
        command => is_empty(&answer[list_of(command)]),
    };
    fails.then(|| format!("nothing about its subject: {}", finding["text"]))
}

/// Why the retained size in a finding is not the one that `retained` prints. `None` if it is, or if there is none.
fn retained_differs(core: &str, words: &[String], finding: &Value) -> Option<String> {
    let id = finding["id"].as_str()?;
    let text = finding["text"].as_str()?;
    let address =
        words.iter().find(|word| word.starts_with("0x")).filter(|_| ["retained", "containers"].contains(&id))?;
    let answer = run(["retained", "--json", "--object", address, core]).json();
    let retained = answer["object"]["retained"].as_u64()?;
    // The size is that of the finding, unless a part of it was never written: `(60 MiB, 69 % of live objects)`.
    let share = text.split_once(" % of ")?.0.rsplit_once('(')?.1;
    let own = finding["bytes"].as_u64().map(round);
    let size = share.split_once(", ").map_or(own.as_deref(), |(bytes, _)| Some(bytes))?;
    let freed = text.split_once("Without it, ").and_then(|(_, rest)| rest.split_once(" would be freed"));
    let is_equal = match freed {
        _ if id == "containers" => finding["bytes"] == retained,
        // `retained` counts no memory outside of the heap.
        _ if text.contains("outside of the heap") => true,
        Some((freed, _)) => freed == round(retained) || text.contains(" × "),
        // Several alike objects are below one, or each has its own owner.
        None if text.contains(" × ") => true,
        // Objects that another runtime holds: each is retained by itself.
        None if text.contains(" (.NET ") => true,
        None => {
            size == round(retained) || answer["dominators"][0]["retained"].as_u64().map(round).as_deref() == Some(size)
        }
    };
    (!is_equal).then(|| format!("`retained` says {}: {text}", round(retained)))
}

/// The commands of all findings of a core, with one finding for each.
fn suggested(core: &str) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    for command in ["triage", "summary"] {
        let answer = program([command, "--json", core]).go();
        let findings = answer.is_sound().json()["findings"].take();
        for finding in findings.as_array().unwrap() {
            if let Some(command) = finding["command"].as_str() {
                out.entry(command.to_owned()).or_insert_with(|| finding.clone());
            }
        }
    }
    out
}

#[test]
fn every_suggested_command_finds_its_subject() {
    // A part of the cores, while a change is made.
    let only = std::env::var("COREMAP_CORES").unwrap_or_default();
    let mut wrong = Vec::new();
    for case in cases::all().iter().filter(|case| case.name.contains(&only)) {
        let core = real::plain(&case.name);
        let core = core.to_str().unwrap();
        let all = suggested(core);
        assert!(!all.is_empty(), "{}: no finding suggests a command", case.name);
        for (command, finding) in all {
            let words = words(&command);
            assert_eq!((words[0].as_str(), words.last().map(String::as_str)), ("coremap", Some(core)), "{command}");
            let out = run(words[1..].iter().map(String::as_str).chain(["--json"]));
            out.is_sound();
            let why = match out.code {
                Some(0 | 4) => {
                    lacks(&words[1..], &out.json(), &finding).or_else(|| retained_differs(core, &words, &finding))
                }
                code => Some(format!("status {code:?}: {}", out.stderr.lines().next().unwrap_or_default())),
            };
            wrong.extend(why.map(|why| format!("{}: {}: {why}", case.name, words[1..words.len() - 1].join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{} commands:\n{}", wrong.len(), wrong.join("\n"));
}
