//! `ip2method` and `perfmap` on shrunk real cores of .NET 3.1, 8, 9 and 10,
//! against what the official data-access library answered over the whole ones
//! (testdata/cores/*-methods/official.json).

use std::collections::BTreeMap;

use crate::support::cases::{Case, names, serving};
use crate::support::methods::{core, ip2method, ips, official, row};
use crate::support::real::{beside, hex};
use crate::support::run::{program, run};
use serde_json::Value;

/// Code and tier of each version that has code, in order.
fn versions(row: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let list = row["versions"].as_array().unwrap().iter();
    list.filter(|v| !v["code"].is_null()).map(|v| (text(&v["code"]), text(&v["tier"]))).collect()
}

/// Every field of every sampled address but the name, and how many of each
/// were compared.
#[track_caller]
fn all_but_names(name: &str, got: &[Value], want: &[Value]) -> BTreeMap<&'static str, usize> {
    const FIELDS: &[&str] = &[
        "ip",
        "method_desc",
        "method_table",
        "token",
        "module",
        "code_start",
        "code_size",
        "tier",
        "il_offset",
        "versions",
    ];
    assert_eq!(got.len(), want.len());
    let mut compared = BTreeMap::new();
    for (got, want) in got.iter().zip(want) {
        let what = format!("{name}: {} {}", want["ip"], want["method"]);
        assert_eq!(got["found"], true, "{what}: {got}");
        assert!(got["reason"].is_null(), "{what}: {got}");
        assert_eq!(got["offset"], hex(&want["ip"]) - hex(&want["code_start"]), "{what}");
        assert_eq!(got["jitted"], want["tier"] != "ReadyToRun", "{what}");
        for &field in FIELDS {
            // The official library gave no tier of dynamic methods on 9 and 10,
            // and was asked for IL offsets of jitted code only.
            let unknown = want[field].is_null() || (field == "versions" && want["tier"].is_null());
            if unknown {
                continue;
            }
            *compared.entry(field).or_default() += 1;
            match field {
                "versions" => assert_eq!(versions(got), versions(want), "{what}: versions"),
                _ => assert_eq!(got[field], want[field], "{what}: {field}"),
            }
        }
        // This code is one of the versions, and has the tier told.
        let own = versions(got).into_iter().find(|v| got["code_start"] == *v.0);
        assert_eq!(own.map(|v| v.1).as_deref(), got["tier"].as_str(), "{what}");
    }
    compared
}

#[track_caller]
fn answers(case: &Case) -> (Vec<Value>, Vec<Value>, Value, String) {
    let name = &case.name;
    let want = official(name);
    let out = ip2method(&["--json"], &ips(&want), &core(name));
    let answer = out.json();
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    (answer["results"].as_array().unwrap().clone(), want, answer, out.stderr)
}

#[track_caller]
fn equals_official(case: &Case) {
    let name = &case.name;
    let (got, want, answer, stderr) = answers(case);
    let compared = all_but_names(name, &got, &want);
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got["method"], want["method"], "{name}: {}", want["ip"]);
        assert!(got["note"].is_null(), "{name}: {got}");
    }
    assert_eq!(answer["warnings"], Value::Array(Vec::new()), "{name}");
    assert_eq!(stderr, "", "{name}");
    assert_eq!(compared["method_desc"], want.len(), "{name}");
    // The official library told no tier of some dynamic methods.
    assert!(compared["versions"] >= want.len() * 9 / 10 && compared["tier"] >= want.len() * 9 / 10, "{compared:?}");
    assert!(compared["il_offset"] > want.len() / 4, "{name}: {compared:?}");
}

/// `Module!0x02000069.(method 0x06000177)`: all that is known of a method where
/// the core has no metadata; dynamic methods have their own name.
#[track_caller]
fn equals_official_but_names(case: &Case) {
    let name = &case.name;
    let (got, want, answer, _) = answers(case);
    let compared = all_but_names(name, &got, &want);
    assert_eq!(compared["token"], want.len());
    let mut tokens = 0;
    for (got, want) in got.iter().zip(&want) {
        let (method, module) = (got["method"].as_str().unwrap(), want["module"].as_str().unwrap());
        if want["token"] == "0x06000000" {
            let official = want["method"].as_str().unwrap();
            let official = official.split_once('(').map_or(official, |(name, _)| name);
            assert!(method.starts_with(official), "{name}: {method} for {official}");
            continue;
        }
        tokens += 1;
        assert!(method.starts_with(&format!("{module}!0x02")), "{name}: {method}");
        let own = format!(".(method {})", want["token"].as_str().unwrap());
        assert!(method.contains(&own), "{name}: {method} lacks {own}");
        let note = got["note"].as_str().unwrap_or_default();
        assert!(note.contains(module) && note.contains("--symbols"), "{name}: {note}");
    }
    assert!(tokens > 50, "{name}: {tokens}");
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{name}: told once: {warnings:?}");
    assert_eq!(warnings[0]["code"], "metadata");
    let message = warnings[0]["message"].as_str().unwrap();
    assert!(message.contains("System.Private.CoreLib.dll") && message.contains("--symbols DIR"), "{message}");
}

#[test]
fn methods_are_those_that_the_official_library_told() {
    for case in serving("methods") {
        if case.metadata { equals_official(case) } else { equals_official_but_names(case) }
    }
}

/// On aarch64: stubs by their instructions and data alone; jitted methods by what their precodes and code headers lead to.
#[test]
fn stubs_and_jitted_code_are_those_that_their_own_words_tell() {
    for case in serving("code") {
        let truth: Value = serde_json::from_str(&beside(&case.name, "code.json")).unwrap();
        let (stubs, methods) = (truth["stubs"].as_object().unwrap(), truth["methods"].as_object().unwrap());
        let ips: Vec<&str> = stubs.keys().chain(methods.keys()).map(String::as_str).collect();
        let out = ip2method(&["--json"], &ips, &core(&case.name));
        let answer = out.json();
        let rows: BTreeMap<_, _> =
            answer["results"].as_array().unwrap().iter().map(|r| (r["ip"].as_str().unwrap(), r)).collect();
        for (ip, want) in stubs {
            let reason = rows[ip.as_str()]["reason"].as_str().unwrap();
            let [kind, start, target] = [0, 1, 2].map(|i| want[i].as_str().unwrap());
            assert!(reason.starts_with(&format!("a {kind} at {start}")), "{ip}: {reason}");
            assert!(reason.contains(&format!("jumps to {target};")), "{ip}: {reason}");
        }
        for (ip, want) in methods {
            let row = rows[ip.as_str()];
            assert_eq!(
                [&row["method_desc"], &row["code_start"], &row["code_size"]],
                [&want[0], &want[1], &want[2]],
                "{ip}"
            );
        }
        assert!(stubs.len() > 20 && methods.len() > 8, "{}", case.name);
    }
}

#[test]
fn the_samples_have_what_makes_names_hard() {
    // Or equal answers would prove little.
    let all: Vec<Value> = names("methods").flat_map(official).collect();
    let methods: Vec<&str> = all.iter().map(|r| r["method"].as_str().unwrap()).collect();
    for part in [
        "ILStubClass.IL_STUB_PInvoke(",
        "DynamicClass.",
        "+<>c.",
        "`1[[System.__Canon, System.Private.CoreLib]]",
        "`1+Inner`1[[",
        "..cctor()",
        "..ctor(",
        " ByRef",
        "Void*",
        "[]",
        "ReadOnlySpan`1<Char>",
    ] {
        assert!(methods.iter().any(|m| m.contains(part)), "no name with {part}");
    }
    for tier in [
        "QuickJitted",
        "QuickJittedInstrumented",
        "OptimizedTier1",
        "OptimizedTier1Instrumented",
        "OptimizedTier1OSR",
        "Optimized",
        "ReadyToRun",
    ] {
        assert!(all.iter().any(|r| r["tier"] == tier), "no {tier}");
    }
    assert!(all.iter().any(|r| r["versions"].as_array().unwrap().len() == 3));
}

#[test]
fn one_block_an_address_in_the_order_of_sos() {
    let want = row("dotnet8-methods", "0x7f8e3e842bec");
    let out = ip2method(&[], &["0x7f8e3e842bec", "0x7f8e3e848470"], &core("dotnet8-methods"));
    out.exits(0);
    let titles: Vec<&str> = out.stdout.lines().filter_map(|l| l.split_once(':')).map(|(t, _)| t.trim()).collect();
    let block = [
        "IP",
        "MethodDesc",
        "Method Name",
        "Class",
        "MethodTable",
        "mdToken",
        "Module",
        "IsJitted",
        "Current CodeAddr",
        "Version History",
        "ILCodeVersion",
        "IL Addr",
        "CodeAddr",
        "CodeAddr",
        "CodeAddr",
        "IL offset",
    ];
    assert!(titles.chunks(block.len()).all(|t| t == block), "{titles:?}");
    assert_eq!(titles.len(), 2 * block.len());
    let line = |title: &str| out.stdout.lines().find(|l| l.starts_with(title)).unwrap().to_owned();
    assert!(line("Method Name:").ends_with(want["method"].as_str().unwrap()));
    assert!(line("MethodTable:").ends_with(&format!("{:016x}", hex(&want["method_table"]))));
    assert!(line("Current CodeAddr:").contains("88 bytes, this address is at +0x2c"));
    assert!(out.stdout.contains("00007f8e3dcc2070  (ReadyToRun)\n"), "{}", out.stdout);
    assert!(out.stdout.contains("00007f8e3e842bc0  (OptimizedTier1)  <- this code\n"), "{}", out.stdout);
}

#[test]
fn short_is_one_line_an_address_in_the_order_given() {
    let (name, want) = ("dotnet8-methods", official("dotnet8-methods"));
    let list: Vec<String> = ips(&want).into_iter().rev().collect();
    let out = ip2method(&["--short"], &list, &core(name));
    let lines: Vec<&str> = out.exits(0).stdout.lines().collect();
    assert_eq!(lines.len(), want.len(), "nothing but the answers");
    for (line, want) in lines.iter().zip(want.iter().rev()) {
        let (ip, start) = (hex(&want["ip"]), hex(&want["code_start"]));
        let (method, module) = (want["method"].as_str().unwrap(), want["module"].as_str().unwrap());
        let text = format!("{ip:#x} {method}+{:#x} [{module}]", ip - start);
        assert!(line.starts_with(&text), "{line}\n{text}");
    }
}

#[test]
fn addresses_on_standard_input() {
    let (name, want) = ("dotnet10-methods", official("dotnet10-methods"));
    let list = ips(&want);
    // Spaces, lines, and the back-ticks of WinDbg.
    let mut text = list.iter().take(40).cloned().collect::<Vec<_>>().join(" ");
    for ip in &list[40..] {
        let hex = format!("{:016x}", u64::from_str_radix(&ip[2..], 16).unwrap());
        text.push_str(&format!("\n  {}`{}\r\n", &hex[..8], &hex[8..]));
    }
    let out = program(["ip2method", "--json", "-", &core(name)]).input(text.into_bytes()).go();
    let got = out.exits(0).json()["results"].clone();
    assert_eq!(got.as_array().unwrap().iter().map(|r| r["ip"].clone()).collect::<Vec<_>>(), list);
    assert!(got.as_array().unwrap().iter().zip(&want).all(|(g, w)| g["method"] == w["method"]));
    let out = program(["ip2method", "-", &core(name)]).input(b"0x1000 nonsense\n".to_vec()).go();
    assert!(out.exits(2).stderr.contains("'nonsense' is not an address"), "{}", out.stderr);
    let out = program(["ip2method", "--json", "-", &core(name)]).input(Vec::new()).go();
    assert_eq!(out.exits(1).json()["results"], Value::Array(Vec::new()));
    let out = program(["ip2method", "-", "-"]).input(Vec::new()).go();
    assert!(out.exits(2).stderr.contains("cannot both come from standard input"), "{}", out.stderr);
}

#[test]
fn the_core_comes_last() {
    let core = core("dotnet8-methods");
    let out = run(["ip2method", &core, "0x7f8e3e842bc0"]);
    assert_eq!(out.exits(2).stderr.lines().count(), 1, "{}", out.stderr);
    assert!(out.stderr.contains("the core comes last: `coremap ip2method ADDR… CORE`"), "{}", out.stderr);
    run(["ip2method", &core]).exits(2);
    // Options may stand anywhere.
    let want = run(["ip2method", "--short", "0x7f8e3e842bc0", "0x7f8e3e848470", &core]).stdout;
    for args in [
        ["0x7f8e3e842bc0", "0x7f8e3e848470", "--short", &core],
        ["0x7f8e3e842bc0", "--short", "0x7f8e3e848470", &core],
        ["0x7f8e3e842bc0", "0x7f8e3e848470", &core, "--short"],
    ] {
        assert_eq!(run(["ip2method"].into_iter().chain(args)).exits(0).stdout, want, "{args:?}");
    }
}

#[test]
fn addresses_that_are_of_no_method_are_explained() {
    // All pages of this core that `explain` needs are not there: the map of
    // memory says so, and the address is still placed.
    let core = core("dotnet8-methods");
    for (text, ip) in [("0", "0x0"), ("ffffffffffffffff", "0xffffffffffffffff")] {
        let out = ip2method(&["--json"], &[text], &core);
        assert!(matches!(out.code, Some(1 | 4)), "{text}: {out:?}");
        let row = out.json()["results"][0].clone();
        assert_eq!((&row["ip"], &row["found"], &row["reason"]), (&ip.into(), &false.into(), &"not mapped".into()));
        for field in ["method", "method_desc", "token", "module", "code_start", "code_size", "tier", "jitted"] {
            assert!(row[field].is_null(), "{field}: {row}");
        }
        assert_eq!(row["versions"], Value::Array(Vec::new()));
    }
    for text in ["nonsense", "0x", "10000000000000000", "-1"] {
        run(["ip2method", "--", text, &core]).exits(2);
    }
    // One that is known among those that are not.
    let out = ip2method(&["--json"], &["0", "0x7f8e3e842bc0", "1"], &core);
    let found: Vec<bool> =
        out.json()["results"].as_array().unwrap().iter().map(|r| r["found"].as_bool().unwrap()).collect();
    assert_eq!(found, [false, true, false]);
    assert_ne!(out.code, Some(1));
}

#[test]
fn an_address_by_module_and_offset() {
    // Precompiled code lies in its module: the same answer either way.
    let name = "dotnet10-methods";
    let info = run(["info", "--json", &core(name)]).json();
    let want =
        official(name).into_iter().find(|r| r["tier"] == "ReadyToRun" && r["module"] == "System.Private.CoreLib.dll");
    let want = want.unwrap();
    let ip = hex(&want["ip"]);
    let modules = info["modules"].as_array().unwrap();
    let module = modules.iter().find(|m| m["path"].as_str().unwrap().ends_with("/System.Private.CoreLib.dll")).unwrap();
    let text = format!("System.Private.CoreLib.dll+{:#x}", ip - hex(&module["base"]));
    let out = ip2method(&["--json"], &[text], &core(name));
    assert_eq!(out.json()["results"][0]["method"], want["method"]);
    assert_eq!(out.json()["results"][0]["ip"], want["ip"]);
    let out = run(["ip2method", "NoSuch.dll+10", &core(name)]);
    assert!(out.exits(2).stderr.contains("no module named 'NoSuch.dll'"), "{}", out.stderr);
}

#[test]
fn csv_has_a_row_an_address() {
    let want = official("dotnet31-methods");
    let out = ip2method(&["--format", "csv"], &ips(&want), &core("dotnet31-methods"));
    let mut reader = csv::Reader::from_reader(out.exits(0).stdout.as_bytes());
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), want.len());
    for (row, want) in rows.iter().zip(&want) {
        for field in ["ip", "method", "method_desc", "method_table", "token", "module", "code_start", "tier"] {
            let at = names.iter().position(|n| n == field).unwrap();
            assert_eq!(row.get(at), want[field].as_str(), "{field}");
        }
    }
}

/// `HEX HEX NAME`, as perf reads it.
fn entry(line: &str) -> (u64, u64, &str) {
    let (start, rest) = line.split_once(' ').unwrap();
    let (size, name) = rest.split_once(' ').unwrap();
    let number = |s| u64::from_str_radix(s, 16).unwrap_or_else(|_| panic!("{line}"));
    (number(start), number(size), name)
}

#[test]
fn perfmap_has_every_sampled_method() {
    for case in serving("methods") {
        let (name, with_metadata) = (case.name.as_str(), case.metadata);
        let out = run(["perfmap", &core(name)]);
        out.is_sound();
        assert!(matches!(out.code, Some(0 | 4)), "{name}: {out:?}");
        let entries: Vec<_> = out.stdout.lines().map(entry).collect();
        assert!(entries.windows(2).all(|w| w[0].0 <= w[1].0), "{name}: not sorted");
        assert!(entries.iter().all(|e| e.1 > 0 && !e.2.is_empty()), "{name}: nothing has no size and no name");
        let by_start: BTreeMap<u64, (u64, &str)> = entries.iter().map(|&(start, size, n)| (start, (size, n))).collect();
        let mut jitted = 0;
        for want in official(name) {
            if want["tier"] == "ReadyToRun" && !with_metadata {
                continue;
            }
            let what = format!("{name}: {} {}", want["code_start"], want["method"]);
            let &(size, text) = by_start.get(&hex(&want["code_start"])).unwrap_or_else(|| panic!("{what}: not there"));
            assert_eq!(want["code_size"], size, "{what}");
            let tier = want["tier"].as_str();
            let method = if with_metadata {
                want["method"].as_str().unwrap().to_owned()
            } else {
                text.rsplit_once('[').unwrap().0.to_owned()
            };
            if let Some(tier) = tier {
                assert_eq!(text, format!("{method}[{tier}]"), "{what}");
            }
            jitted += usize::from(want["tier"] != "ReadyToRun");
        }
        assert!(jitted > 20, "{name}: {jitted}");
        let json = run(["perfmap", "--json", &core(name)]).json();
        assert_eq!(json["entries"].as_array().unwrap().len(), entries.len(), "{name}");
    }
}
