//! What may be missing from the answer of each command.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{equal_or_unknown, no_more};

fn rows<'v>(body: &'v Value, list: &str) -> &'v [Value] {
    body[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn warned(body: &Value, what: &str) -> bool {
    rows(body, "warnings").iter().any(|w| w["message"].as_str().unwrap().contains(what))
}

fn first_number(finding: &Value) -> u64 {
    finding["text"].as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
}

fn by<'v>(rows: &'v [Value], key: &str) -> BTreeMap<String, &'v Value> {
    rows.iter().map(|r| (r[key].to_string(), r)).collect()
}

/// Findings that say how much there is of something, and no more.
const COUNTS: [&str; 12] = [
    "allocator",
    "anonymous",
    "images",
    "malloc",
    "mapped-files",
    "recognised",
    "reserved",
    "runtime",
    "runtime-heap",
    "shared-memory",
    "stacks",
    "system",
];

/// Sizes by kind follow the labels, which are compared elsewhere; the whole stays,
/// and what was read of it is zero or written as it was.
pub(crate) fn summary(a: &Value, b: &Value, wrong: &mut Vec<String>) {
    for field in ["size", "in_core", "zero", "written"] {
        no_more(&a["total"][field], &b["total"][field], &format!("total.{field}"), wrong);
    }
    let split = &a["malloc"];
    if !split.is_null() {
        let kind = rows(a, "kinds").iter().find(|k| k["kind"] == "Malloc").unwrap();
        let sum: u64 = ["used", "free", "overhead", "unknown"].iter().map(|f| split[f].as_u64().unwrap()).sum();
        assert_eq!(kind["size"].as_u64(), Some(sum), "{split}");
        // What unknown lists keep free counts as used, and the warning says so.
        let at_most = warned(a, "count as used");
        for field in ["used", "free", "overhead"].into_iter().filter(|f| *f != "used" || !at_most) {
            // Without a thread whose cache is broken, more may be known than with it.
            let known = b["malloc"][field].as_u64().unwrap() + b["malloc"]["unknown"].as_u64().unwrap();
            no_more(&split[field], &known.into(), &format!("malloc.{field}"), wrong);
        }
    }
    let known = by(rows(b, "findings"), "id");
    // Those that only count sum up the labels too, which are compared elsewhere.
    for finding in rows(a, "findings").iter().filter(|f| !COUNTS.iter().any(|id| f["id"] == *id)) {
        match known.get(&finding["id"].to_string()) {
            None => wrong.push(format!("a finding {}", finding["text"])),
            // Fewer stacks are known, or less of them.
            Some(same) if finding["id"] == "stacks" && first_number(finding) <= first_number(same) => {}
            Some(same) if finding["text"] != same["text"] => {
                wrong.push(format!("a finding says {} and not {}", finding["text"], same["text"]));
            }
            Some(_) => {}
        }
    }
}

/// Objects may be missing, and names; none is counted as another's.
pub(crate) fn heapstat(a: &Value, b: &Value, wrong: &mut Vec<String>) {
    let known = by(rows(b, "types"), "method_table");
    for row in rows(a, "types") {
        let Some(whole) = known.get(&row["method_table"].to_string()) else {
            wrong.push("a type that is none".to_owned());
            continue;
        };
        for field in ["count", "size"] {
            no_more(&row[field], &whole[field], &format!("type.{field}"), wrong);
        }
        type_name(&row["type"], &whole["type"], wrong);
        let generations = by(rows(whole, "generations"), "generation");
        for generation in rows(row, "generations") {
            match generations.get(&generation["generation"].to_string()) {
                // Where the border between gen0 and gen1 could not be read.
                None if generation["generation"] == "ephemeral" => {}
                None => wrong.push(format!("objects in {}", generation["generation"])),
                Some(whole) => no_more(&generation["count"], &whole["count"], "generation.count", wrong),
            }
        }
    }
    for (group, field) in [("total", "objects"), ("total", "size"), ("free", "objects"), ("free", "size")] {
        no_more(&a[group][field], &b[group][field], &format!("{group}.{field}"), wrong);
    }
    no_more(&a["unused"], &b["unused"], "unused", wrong);
    let blocks = by(rows(b, "fragmentation"), "address");
    for block in rows(a, "fragmentation") {
        match blocks.get(&block["address"].to_string()) {
            None => wrong.push("a free block that is none".to_owned()),
            Some(whole) => equal_or_unknown(&block["size"], &whole["size"], "free block's size", wrong),
        }
    }
    if a["in_progress"] != b["in_progress"] {
        wrong.push(format!("in_progress is {}", a["in_progress"]));
    }
}

/// Whether a name, or one in it, is none: a token, an address.
fn stands_for(name: &str) -> bool {
    ["!0x", " 0x0", "(type 0x", "(method 0x", "(no name)", "!!", "**UNKNOWN TYPE**"]
        .iter()
        .any(|none| name.contains(none))
}

/// A name, or what stands for it where it is not known: a token, an address.
fn type_name(a: &Value, b: &Value, wrong: &mut Vec<String>) {
    let (a, b) = (a.as_str().unwrap_or_default(), b.as_str().unwrap_or_default());
    if a != b && !stands_for(a) {
        wrong.push(format!("a type is called {a} and not {b}"));
    }
}

/// Threads, names and frames may be missing; a frame that was not there is a guess
/// and says so.
pub(crate) fn threads(a: &Value, b: &Value, wrong: &mut Vec<String>) {
    let known = by(rows(b, "threads"), "tid");
    for thread in rows(a, "threads") {
        let Some(whole) = known.get(&thread["tid"].to_string()) else {
            wrong.push("a thread that is none".to_owned());
            continue;
        };
        // By its native frames alone, what a thread is for is a guess.
        if thread["role_confidence"] != "heuristic" {
            equal_or_unknown(&thread["role"], &whole["role"], "thread.role", wrong);
        }
        for field in ["name", "managed_id", "managed_name", "state", "gc_mode", "signal"] {
            equal_or_unknown(&thread[field], &whole[field], &format!("thread.{field}"), wrong);
        }
        if !thread["exception"].is_null() {
            let (own, other) = (&thread["exception"], &whole["exception"]);
            equal_or_unknown(&own["address"], &other["address"], "exception.address", wrong);
            type_name(&own["type"], &other["type"], wrong);
        }
        let wait = |t: &Value, field: &str| t["waits_for"].get(field).cloned().unwrap_or_default();
        // Without the runtime's thread, the native lock that it waits in is shown instead.
        let replaced = thread["managed_id"].is_null() && !whole["managed_id"].is_null();
        for field in ["kind", "object", "owner"].into_iter().filter(|_| !replaced) {
            equal_or_unknown(&wait(thread, field), &wait(whole, field), &format!("waits_for.{field}"), wrong);
        }
        frames(rows(thread, "frames"), rows(whole, "frames"), wrong);
    }
    let findings = by(rows(b, "findings"), "id");
    for finding in rows(a, "findings") {
        if !findings.contains_key(&finding["id"].to_string()) {
            wrong.push(format!("a finding {}", finding["text"]));
        }
    }
}

/// A method's name without the assemblies that its type arguments are of: these may
/// be missing where a module's own name could not be read.
fn plain(name: &Value) -> Value {
    static ASSEMBLY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r", [^\[\],]+\]").unwrap());
    let Some(text) = name.as_str() else { return Value::Null };
    ASSEMBLY.replace_all(text, "]").replace(['[', ']'], "").into()
}

/// Whether `a` is the method `b` of a class that is made at run time, without the
/// word that tells which.
fn is_dynamic(a: &str, b: &str) -> bool {
    let method = |name: &str, class: &str| name.strip_prefix(class).map(str::to_owned);
    let own = method(a, "(dynamicClass).");
    own.is_some() && ["ILStubClass.", "DynamicClass."].iter().any(|class| method(b, class) == own)
}

fn frames(a: &[Value], b: &[Value], wrong: &mut Vec<String>) {
    let mut rest = b.iter();
    for frame in a {
        let same = |f: &&Value| f["ip"] == frame["ip"] && f["sp"] == frame["sp"];
        match rest.clone().position(|f| same(&f)) {
            Some(at) => {
                let whole = rest.nth(at).unwrap();
                // Without a method, an offset is that in the module.
                if frame["method"] == whole["method"] {
                    equal_or_unknown(&frame["offset"], &whole["offset"], "frame.offset", wrong);
                }
                let (a, b) = (plain(&frame["method"]), plain(&whole["method"]));
                let what = format!("frame.method of a {} frame", frame["kind"]);
                // Of a stub, its signature may be missing.
                let less = |a: &str| {
                    let named = |b: &str| b.starts_with(&format!("{a}(")) || is_dynamic(a, b);
                    stands_for(a) || b.as_str().is_some_and(named)
                };
                if !less(a.as_str().unwrap_or_default()) {
                    equal_or_unknown(&a, &b, &what, wrong);
                }
                if frame["frame"] != "Frame" {
                    equal_or_unknown(&frame["frame"], &whole["frame"], "frame.frame", wrong);
                }
                // A module whose name could not be read is told by its address.
                if !frame["module"].as_str().is_some_and(|m| m.starts_with("module_0x")) {
                    let what = format!("frame.module of a {} frame", frame["kind"]);
                    equal_or_unknown(&frame["module"], &whole["module"], &what, wrong);
                }
                for field in ["method_desc", "token", "il_offset", "line"] {
                    let what = format!("frame.{field} of a {} frame", frame["kind"]);
                    equal_or_unknown(&frame[field], &whole[field], &what, wrong);
                }
            }
            // Found by lesser means, which it names.
            None if ["scan", "frame pointer", "frame"].contains(&frame["trust"].as_str().unwrap()) => {}
            None => wrong.push(format!(
                "a {} frame by {} that was not there: {} {} at {} with SP {}",
                frame["kind"].as_str().unwrap_or_default(),
                frame["trust"].as_str().unwrap_or_default(),
                frame["module"],
                frame["method"],
                frame["ip"],
                frame["sp"]
            )),
        }
    }
}
