//! `mcp`, by a client that speaks JSON-RPC to the built program: what tools answer, what they refuse, and that neither
//! a hostile core nor a broken call ends the server.

mod canaries;
mod client;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::Client;
use serde_json::{Value, json};

use crate::support::builder::small_core;
use crate::support::run::run;
use crate::support::{Rng, number};

/// The folder of the recorded cores.
fn cores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores")
}

const OBJECTS: &str = "dotnet8-objects/core.zst";
const LEAKS: &str = "native-leaks/core.zst";
const PENDING: &str = "dotnet31-pending/core.xz";

/// A call of each tool, and a JSON pointer to something in the answer of its command.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("info", json!({ "core": OBJECTS }), "/modules/0/path"),
        ("triage", json!({ "core": OBJECTS }), "/findings/0/text"),
        ("summary", json!({ "core": OBJECTS, "zero_fill": true }), "/kinds/0/zero"),
        ("heapstat", json!({ "core": OBJECTS, "type": "^Lab", "top": 40 }), "/types/0/type"),
        ("why", json!({ "core": OBJECTS, "type": "LeakyCache$" }), "/groups/0/chain/0"),
        ("why", json!({ "core": LEAKS, "address": "0x556a4aa6c1a0" }), "/whatis/block/size"),
        ("threads", json!({ "core": OBJECTS }), "/groups/0/frames/0"),
        ("async", json!({ "core": PENDING }), "/chains/0/frames/0"),
        ("search", json!({ "core": LEAKS, "pattern": "leaks" }), "/hits/0/address"),
        ("diff", json!({ "old": "dotnet31-createdump/core.zst", "new": "dotnet31-gcore/core.xz" }), "/kinds/0/kind"),
        ("schema", json!({ "command": "heapstat" }), "/fields/0/at"),
    ]
}

fn listed(client: &mut Client) -> Vec<Value> {
    client.request("tools/list", &json!({}))["result"]["tools"].as_array().unwrap().clone()
}

fn tool<'t>(tools: &'t [Value], name: &str) -> &'t Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

#[track_caller]
fn is_valid(schema: &Value, answer: &Value) {
    let validator = jsonschema::draft202012::new(schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(answer).take(3).map(|e| format!("{}: {e:.300}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{answer:#}");
}

#[test]
fn each_tool_answers_as_its_schema_says() {
    let mut client = Client::start(&cores(), &[]);
    let tools = listed(&mut client);
    assert!((8..=10).contains(&tools.len()));
    let called: std::collections::BTreeSet<&str> = calls().iter().map(|call| call.0).collect();
    assert_eq!(called.len(), tools.len());
    for (name, arguments, there) in calls() {
        let tool = tool(&tools, name);
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
        is_valid(&tool["inputSchema"], &arguments);
        let answer = client.tool(name, &arguments);
        is_valid(&tool["outputSchema"], &answer);
        assert!(answer.to_string().len() <= 8 << 10, "{name}: {}", answer.to_string().len());
        let of = &answer["untrusted"]["answer"];
        assert!(!of.pointer(there).unwrap_or(&Value::Null).is_null(), "{name} has no {there}: {of:#}");
        if name != "schema" {
            is_valid(&run(["schema", name]).json(), of);
        }
        assert_eq!(answer["complete"], answer["incomplete_because"] == json!([]));
        assert!(answer["error"].is_null() && answer["evidence"].is_string() && answer["confidence"].is_string());
    }
    assert!(client.end().success());
}

/// Splits a command as a shell does: single quotes only.
fn words(command: &str) -> Vec<String> {
    let quoted = command.split('\'').enumerate();
    let mut out = vec![String::new()];
    for (i, part) in quoted {
        let mut pieces = if i % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter();
        out.last_mut().unwrap().push_str(pieces.next().unwrap());
        out.extend(pieces.map(str::to_owned));
    }
    out
}

/// Follows the cursor to the end. Returns the rows of a list.
fn all_rows(client: &mut Client, name: &str, arguments: &Value, list: &str) -> Vec<Value> {
    let (mut arguments, mut rows) = (arguments.clone(), Vec::new());
    loop {
        let answer = client.tool(name, &arguments);
        let page = answer["untrusted"]["answer"].pointer(list).unwrap().as_array().unwrap().clone();
        rows.extend(page);
        if answer["cursor"].is_null() {
            return rows;
        }
        assert_eq!(answer["complete"], false, "a page is not the whole answer");
        arguments["cursor"] = answer["cursor"].clone();
    }
}

#[test]
fn the_command_reproduces_the_answer_and_pages_have_all_of_it() {
    let mut client = Client::start(&cores(), &[]);
    for (name, arguments, list, key) in [
        ("heapstat", json!({ "core": "dotnet31-createdump/core.zst" }), "/types", "type"),
        ("info", json!({ "core": OBJECTS }), "/modules", "path"),
        ("summary", json!({ "core": LEAKS, "max_bytes": 2048 }), "/kinds", "kind"),
    ] {
        let command = client.tool(name, &arguments)["command"].as_str().unwrap().to_owned();
        let typed = run(words(&command).into_iter().skip(1)).json();
        let rows = all_rows(&mut client, name, &arguments, list);
        let expected: Vec<&Value> =
            typed.pointer(list).unwrap().as_array().unwrap().iter().map(|row| &row[key]).collect();
        assert_eq!(rows.iter().map(|row| &row[key]).collect::<Vec<_>>(), expected, "{command}");
    }
    let why = client.tool("why", &json!({ "core": LEAKS, "address": "0x556a4aa6c1a0", "max_bytes": 65536 }));
    let typed = run(words(why["command"].as_str().unwrap()).into_iter().skip(1)).json();
    assert_eq!(why["untrusted"]["answer"]["text"], typed["text"]);
    assert_eq!((&why["complete"], &why["cursor"]), (&json!(true), &Value::Null), "{why:#}");
    assert!(client.end().success());
}

#[test]
fn unknown_is_never_none() {
    let mut client = Client::start(&cores(), &[]);
    // Not all of this heap could be read.
    let none = client.tool("why", &json!({ "core": OBJECTS, "type": "^No.Such.Type$" }));
    assert_eq!((&none["status"], &none["complete"]), (&json!("partial"), &json!(false)), "{none:#}");
    assert_eq!(none["untrusted"]["answer"]["kept"], "unknown");
    // All of this one could be read, and there is nothing.
    let none = client.tool("search", &json!({ "core": LEAKS, "pattern": "nothing of that kind" }));
    assert_eq!((&none["status"], &none["complete"]), (&json!("nothing-found"), &json!(true)), "{none:#}");
}

#[test]
fn only_files_in_the_folder_are_read_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let core = cores().join(LEAKS);
    std::fs::copy(&core, root.join("core")).unwrap();
    std::fs::copy(&core, dir.path().join("beside")).unwrap();
    std::os::unix::fs::symlink("../beside", root.join("link")).unwrap();
    std::os::unix::fs::symlink("core", root.join("inside")).unwrap();
    let mut client = Client::start(&root, &[]);
    let pid = std::process::id().to_string();
    let absolute = core.to_str().unwrap();
    let wrong = [
        "link",
        "../beside",
        "/etc/passwd",
        "/proc/self/mem",
        "/proc/self/exe",
        &pid,
        "-",
        "",
        ".",
        absolute,
        "root/core",
    ];
    for core in wrong {
        let answer = client.tool("info", &json!({ "core": core }));
        assert_eq!(answer["error"]["kind"], "arguments", "{core}: {answer}");
        assert!(answer["untrusted"]["answer"].is_null());
    }
    for core in ["core", "inside", "./core", root.join("core").to_str().unwrap()] {
        assert_eq!(client.tool("info", &json!({ "core": core }))["status"], "done", "{core}");
    }
    for uri in ["coremap://triage/../beside", "coremap://report/core", "file:///etc/passwd", "coremap://triage", ""] {
        assert!(client.request("resources/read", &json!({ "uri": uri }))["error"].is_object(), "{uri}");
    }
    let found = client.request("resources/read", &json!({ "uri": "coremap://triage/core" }));
    assert!(found["result"]["contents"][0]["text"].as_str().unwrap().contains("findings"), "{found}");
    assert!(client.end().success());
    let mut names: Vec<_> = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["core", "inside", "link"]);
}

#[test]
fn prompts_and_resources_are_listed() {
    let mut client = Client::start(&cores(), &[]);
    let prompts = client.request("prompts/list", &json!({}));
    for prompt in prompts["result"]["prompts"].as_array().unwrap() {
        let params = json!({ "name": prompt["name"], "arguments": { "core": LEAKS } });
        let got = client.request("prompts/get", &params);
        assert!(got["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains(LEAKS), "{got}");
    }
    let templates = client.request("resources/templates/list", &json!({}));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 2);
    assert!(client.request("prompts/get", &json!({ "name": "nothing" }))["error"].is_object());
    assert!(client.end().success());
}

/// Any JSON value, mostly of the wrong kind.
fn nonsense(rng: &mut Rng, depth: u64) -> Value {
    match rng.below(if depth > 2 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(rng.below(2) == 0),
        2 => json!(rng.next() as i64),
        3 => json!(f64::from_bits(rng.next())),
        4 => json!("x".repeat(rng.below(3000) as usize)),
        5 => json!(
            ["core", "../core", "\u{0}", "--pid=1", "'; ls", "\u{202e}", "-1", "0x", "(((", "99999999999999999999"]
                [rng.below(10) as usize]
        ),
        6 => json!(""),
        7 => (0..rng.below(4)).map(|_| nonsense(rng, depth + 1)).collect(),
        _ => (0..rng.below(4))
            .map(|i| (format!("k{i}"), nonsense(rng, depth + 1)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[test]
fn broken_calls_and_hostile_cores_never_end_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng(number("COREMAP_MCP_SEED", 69));
    let good = small_core().build();
    let mut files = vec!["good".to_owned()];
    std::fs::write(dir.path().join("good"), &good).unwrap();
    for n in 0..12 {
        let mut bad = good.clone();
        for _ in 0..1 << rng.below(9) {
            let at = rng.below(bad.len() as u64) as usize;
            bad[at] = rng.next() as u8;
        }
        bad.truncate(bad.len() - rng.below(bad.len() as u64 / 2) as usize);
        std::fs::write(dir.path().join(format!("bad{n}")), bad).unwrap();
        files.push(format!("bad{n}"));
    }
    let mut client = Client::start(dir.path(), &[]);
    let tools = listed(&mut client);
    let calls = number("COREMAP_MCP_CALLS", 200);
    let mut errors = 0;
    for n in 0..calls {
        let tool = &tools[rng.below(tools.len() as u64) as usize];
        let mut arguments = serde_json::Map::new();
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        for (name, property) in properties {
            let file = json!(files[rng.below(files.len() as u64) as usize]);
            match (name.as_str(), rng.below(4)) {
                ("core" | "old" | "new", 1..) => drop(arguments.insert(name.clone(), file)),
                ("pattern" | "address", 1..) => drop(arguments.insert(name.clone(), json!("0x400000"))),
                (_, 0) if property["type"] == "boolean" => drop(arguments.insert(name.clone(), json!(true))),
                (_, 1) => drop(arguments.insert(name.clone(), nonsense(&mut rng, 0))),
                _ => {}
            }
        }
        let params = match rng.below(12) {
            0 => nonsense(&mut rng, 0),
            1 => json!({ "name": nonsense(&mut rng, 0), "arguments": arguments }),
            2 => json!({ "name": tool["name"], "arguments": nonsense(&mut rng, 0) }),
            _ => json!({ "name": tool["name"], "arguments": arguments }),
        };
        let id = client.ask("tools/call", &params);
        let answer = client.wait_or_error(id);
        let structured = &answer["result"]["structuredContent"];
        errors += usize::from(answer["error"].is_object() || !structured["error"].is_null());
        assert!(answer["error"].is_object() || structured.is_object(), "call {n}: {params} {answer}");
        if structured.is_object() {
            is_valid(&tool_of(&tools, structured)["outputSchema"], structured);
        }
    }
    assert!(errors > calls as usize / 10, "{errors}");
    // Lines that are no message.
    for line in ["", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}"]
    {
        client.line(line);
    }
    let id = client.ask("tools/list", &json!({}));
    assert_eq!(client.wait(id)["result"]["tools"].as_array().unwrap().len(), tools.len());
    assert_eq!(client.tool("info", &json!({ "core": "good" }))["status"], "done");
    assert!(client.end().success());
}

fn tool_of<'t>(tools: &'t [Value], answer: &Value) -> &'t Value {
    tool(tools, answer["tool"].as_str().unwrap())
}

#[test]
fn a_worker_that_dies_is_an_error_and_the_next_call_answers() {
    let mut client = Client::start(&cores(), &[]);
    let arguments = json!({ "core": OBJECTS });
    assert_eq!(client.tool("info", &arguments)["status"], "done");
    let [worker] = client.workers()[..] else { panic!("{:?}", client.workers()) };
    let pid = rustix::process::Pid::from_raw(worker as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // It may answer the first of these by a new process already.
    let answers: Vec<Value> = (0..2).map(|_| client.tool("heapstat", &arguments)).collect();
    assert_eq!(answers[1]["status"], "partial", "{:#}", answers[1]);
    assert!(answers[0]["error"].is_null() || answers[0]["error"]["kind"] == "ended");
    assert!(client.end().success());
}

#[test]
fn a_call_ends_with_its_budget_and_the_same_call_gets_the_answer_later() {
    let mut client = Client::start(&cores(), &["--budget", "1ms"]);
    let arguments = json!({ "core": OBJECTS });
    let first = client.tool("heapstat", &arguments);
    assert_eq!(first["error"]["kind"], "budget", "{first:#}");
    assert_eq!(first["complete"], false);
    let begun = Instant::now();
    loop {
        let again = client.tool("heapstat", &arguments);
        if again["error"].is_null() {
            assert!(!again["untrusted"]["answer"]["types"].as_array().unwrap().is_empty());
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{again:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(client.end().success());
}

#[test]
fn a_cancelled_call_ends_its_work() {
    let mut client = Client::start(&cores(), &[]);
    let call = json!({ "name": "triage", "arguments": { "core": OBJECTS } });
    let id = client.ask("tools/call", &call);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    // Its process is gone, and the server answers others.
    let next = client.ask("tools/call", &json!({ "name": "info", "arguments": { "core": LEAKS } }));
    assert_eq!(client.wait(next)["result"]["structuredContent"]["status"], "done");
    let begun = Instant::now();
    while client.workers().len() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the cancelled work goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(client.end().success());
}

#[test]
fn long_calls_report_progress_and_workers_end_with_the_server() {
    let mut client = Client::start(&cores(), &[]);
    let meta = json!({ "progressToken": "work" });
    let call = json!({ "name": "triage", "arguments": { "core": OBJECTS }, "_meta": meta });
    let begun = Instant::now();
    let answer = client.request("tools/call", &call);
    assert_eq!(answer["result"]["structuredContent"]["status"], "done", "{answer}");
    let reports = client.notifications.iter().filter(|note| note["method"] == "notifications/progress").count();
    assert!(reports > 0 || begun.elapsed() < Duration::from_millis(1200), "no progress in {:?}", begun.elapsed());
    let workers = client.workers();
    assert_eq!(workers.len(), 1);
    assert!(client.end().success());
    let begun = Instant::now();
    while Path::new(&format!("/proc/{}", workers[0])).exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{workers:?} lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_folder_that_is_none_is_an_error() {
    for args in [
        &["mcp", "--root", "/no/such"][..],
        &["mcp"],
        &["mcp", "--root", "/etc/passwd"],
        &["mcp", "--root", ".", "--pid", "1"],
    ] {
        run(args).exits(2);
    }
}
