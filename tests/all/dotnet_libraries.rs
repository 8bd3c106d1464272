//! .NET programs with the libraries people use. The expected figures are from the programs, from the runtime's own
//! counters and from /proc.

use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

fn ask(name: &str, args: &[&str]) -> Value {
    let core = real::plain(name);
    let answer = run(args.iter().copied().chain(["--json", core.to_str().unwrap()]));
    assert!(matches!(answer.is_sound().code, Some(0 | 4)), "{args:?}: {}", answer.stderr);
    answer.json()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key}: {value}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn in_core(summary: &Value, kind: &str) -> u64 {
    list(summary, "kinds").iter().filter(|row| row["kind"] == kind).map(|row| number(&row["in_core"])).sum()
}

/// What GC.GetGCMemoryInfo().TotalCommittedBytes was just before the dump: the heap, its free regions, and the
/// bookkeeping that is committed. The program wrote 51.75 MiB of lines, and collected them.
const GC_COMMITTED: u64 = 63_201_280;

#[test]
fn free_regions_of_nativeaot_are_committed_memory_of_the_heap() {
    for name in names("free-regions") {
        let summary = ask(name, &["summary"]);
        let free = in_core(&summary, "GCHeapToBeFreed");
        assert!((50 << 20..60 << 20).contains(&free), "{summary}");
        assert_eq!(in_core(&summary, "GCHeapReserve") + in_core(&summary, "NoAccess"), 0, "{summary}");
        let heap = ask(name, &["heap"]);
        let committed = number(&heap["committed"]) + number(&heap["free_committed"]);
        assert!(committed.abs_diff(GC_COMMITTED) < 1 << 20, "{heap}");
        let regions = ask(name, &["regions", "--kind", "GCHeapReserve"]);
        assert!(list(&regions, "regions").iter().all(|r| !r["perms"].as_str().unwrap().contains('w')), "{regions}");
    }
}

#[test]
fn nothing_that_can_be_written_is_called_reserved() {
    for name in names("process").chain(names("free-regions")).chain(names("java-map")) {
        let check = ask(name, &["check"]);
        let rule = list(&check, "invariants").iter().find(|rule| rule["name"] == "reserved");
        assert_eq!(rule.map(|rule| &rule["ok"]), Some(&true.into()), "{name}: {check}");
    }
}

/// The session had 12 MB; one thread (the main one, 14269) wrote events until it was full.
#[test]
fn buffers_of_an_event_session_are_named_with_their_limit_and_writer() {
    for name in names("eventpipe") {
        let regions = ask(name, &["regions", "--kind", "EventPipeBuffer"]);
        let size: u64 = list(&regions, "regions").iter().map(|r| number(&r["size"])).sum();
        assert_eq!(size, 0x00b4_0000, "the runtime's own count of them (size_of_all_buffers)");
        let triage = ask(name, &["triage"]);
        let finding = list(&triage, "findings").iter().find(|f| f["id"] == "event-buffers").unwrap();
        let text = finding["text"].as_str().unwrap();
        assert!(text.contains("15 buffers of 1 open session") && text.contains("limit 12 MiB"), "{text}");
        assert!(text.contains("(14269)") && text.contains("does not read it"), "{text}");
        assert_eq!((&finding["severity"], number(&finding["bytes"])), (&"warning".into(), size));
    }
}

/// Where the thread was when its stack overflowed, by the runtime's context record: 32 bytes below the stack.
const OVERFLOWED: (u64, u64) = (0x7f4c_b4e7_9e0c, 0x7f40_baf3_3fe0);

/// The thread "importer", its stack, and the function of libcoreclr.so that frame pointers alone skip: its file's unwind
/// data lead from write() to 0x63a1e1.
const IMPORTER: u64 = 26_992;
const IMPORTERS_STACK: (u64, u64) = (0x7f40_baf3_4000, 0x7f40_baf7_4000);

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// The handler of an overflow runs on a stack of its own, which is higher than the thread's. The runtime's first Frame is
/// there, the next one on the thread's own stack.
#[test]
fn an_overflow_is_found_from_the_handlers_stack() {
    for name in names("overflow") {
        let stacks = ask(name, &["stacks"]);
        let own = list(&stacks, "stacks").iter().find(|row| row["tid"] == IMPORTER).unwrap();
        assert_eq!((hex(&own["low"]), hex(&own["high"])), IMPORTERS_STACK);
        assert_eq!((hex(&own["sp"]), &own["overflowed"]), (OVERFLOWED.1, &true.into()), "{own}");
        let finding = list(&stacks, "findings").iter().find(|finding| finding["id"] == "stack-overflow").unwrap();
        assert!(finding["text"].as_str().unwrap().contains("Thread 26992 overflowed its 256 KiB stack"), "{finding}");

        let threads = ask(name, &["threads", "--tid", "26992"]);
        let frames = list(&list(&threads, "threads")[0], "frames");
        let at = frames.iter().position(|f| (hex(&f["ip"]), hex(&f["sp"])) == OVERFLOWED).unwrap();
        let above = frames[at + 1..].iter().filter(|f| f["kind"] != "frame").map(|f| hex(&f["sp"]));
        assert!(above.clone().count() > 50 && above.clone().is_sorted(), "{frames:?}");
        assert!(above.into_iter().all(|sp| (IMPORTERS_STACK.0..IMPORTERS_STACK.1).contains(&sp)), "{frames:?}");
        let warnings = list(&threads, "warnings");
        assert!(!warnings.iter().any(|w| w["message"].as_str().unwrap().contains("explicit Frames")), "{warnings:?}");
        let findings = ask(name, &["triage"]);
        let text =
            list(&findings, "findings").iter().map(|f| f["text"].as_str().unwrap()).collect::<Vec<_>>().join(" ");
        assert!(!text.contains("coroutine"), "{text}");
        // This core lacks the unwind data of libcoreclr.so.
        assert_eq!(frames[1]["trust"], "frame pointer, a frame may be missing", "{}", frames[1]);
    }
}

/// The handle of a Thread object is that thread. The program wrote its threads' names and ids (truth.json).
#[test]
fn a_root_that_references_a_thread_object_has_its_name() {
    let locks = ask("dotnet11-heap", &["syncblocks"]);
    let join = list(&locks, "locks").iter().find(|lock| lock["kind"] == "join").unwrap();
    let answer = ask("dotnet11-heap", &["gcroot", join["object"].as_str().unwrap()]);
    // Other roots lead to it through other objects.
    let own: Vec<&Value> = list(&answer, "paths").iter().filter(|path| list(path, "chain").len() == 1).collect();
    let handle = own.iter().find(|path| path["root_kind"] == "StrongHandle").unwrap();
    assert_eq!(handle["root_name"], "thread 3152 \"ring 3\"", "{answer}");
    let others = list(&answer, "paths").iter().filter(|path| path["root_name"] == handle["root_name"]);
    assert!(others.clone().count() > 0 && others.clone().all(|path| list(path, "chain").len() == 1), "{answer}");
}

/// twice.cs. The library's metadata is not in the dump: System.Exception is known by a global of the runtime. Each class
/// has a field `_message` of its own, which is not the exception's.
#[test]
fn exceptions_have_their_own_message_without_metadata() {
    for name in names("twice") {
        let answer = ask(name, &["exceptions"]);
        assert_eq!(answer["unread"], serde_json::json!([]), "{name}");
        let rows = list(&answer, "exceptions").iter().filter(|row| row["thrown"] == true);
        let thrown: Vec<(&str, &str)> =
            rows.map(|row| (row["type"].as_str().unwrap(), row["message"].as_str().unwrap())).collect();
        let own = [("Own", "base of first"), ("Empty", "base of second"), ("Hidden", "base of third")];
        assert_eq!(&thrown[..3], own, "{name}");
        assert_eq!(thrown[3].1, "fourth", "{name}");
    }
}

/// twice.cs loads System.Linq.dll by path and from bytes. The code of a mapped image is 64 KiB further than in the file,
/// so an offset of one copy is not an offset of the other.
#[test]
fn an_assembly_loaded_from_bytes_is_flat_and_the_mapped_one_is_not() {
    for name in names("twice") {
        let answer = ask(name, &["regions", "--kind", "Image"]);
        let details = |suffix: &str| {
            let of = format!("System.Linq.dll {suffix}");
            list(&answer, "regions").iter().filter(|r| r["detail"] == of.as_str()).collect::<Vec<_>>()
        };
        let (flat, headers, text) = (details("flat"), details("headers"), details(".text"));
        assert_eq!((flat.len(), headers.len(), text.len()), (1, 1, 1), "{name}: {answer}");
        // 3 pages of data precede the code in the file, and in memory 64 KiB precede each.
        assert_eq!(hex(&text[0]["start"]) - hex(&headers[0]["start"]), 0x23000, "{name}");
        for (region, suffix) in [(flat[0], "flat"), (text[0], ".text")] {
            let at = region["start"].as_str().unwrap();
            let whatis = ask(name, &["whatis", at]).to_string();
            assert!(whatis.contains(&format!("System.Linq.dll {suffix}")), "{name}: {at}: {whatis}");
        }
    }
}

/// Addresses of the objects of a type.
fn objects_of(name: &str, kind: &str) -> Vec<String> {
    let answer = ask(name, &["objects", "--type", kind]);
    list(&answer, "objects").iter().map(|row| row["address"].as_str().unwrap().to_owned()).collect()
}

/// The first path of `gcroot`, as one line: the root, then each object's type and field.
fn path(answer: &Value) -> String {
    let first = list(answer, "paths").first().unwrap_or_else(|| panic!("no path: {answer}"));
    let frame = first["frame"]["method"].as_str().unwrap_or_default();
    let steps = list(first, "chain").iter().map(|step| {
        format!("{} {}", step["type"].as_str().unwrap_or_default(), step["field"].as_str().unwrap_or_default())
    });
    format!("{} {frame}: {}", first["root_kind"].as_str().unwrap(), steps.collect::<Vec<_>>().join(" -> "))
}

/// The program unloaded five contexts. A static variable, a thread-local one, a variable of a method and an event keep
/// four of them; the fifth is gone. The handle that Unload made keeps none.
#[test]
fn an_unloading_context_is_kept_by_what_references_its_types() {
    for name in names("unloading") {
        let keepers = ["static Kiosk.Host.lastOrder", "thread static Kiosk.Host.current", "static Kiosk.Host.Changed"];
        let contexts = objects_of(name, "^Kiosk.PluginContext$");
        assert_eq!(contexts.len(), keepers.len() + 1);
        let paths: Vec<String> = contexts.iter().map(|at| path(&ask(name, &["gcroot", at]))).collect();
        for keeper in keepers {
            let of_it: Vec<&String> = paths.iter().filter(|path| path.contains(keeper)).collect();
            assert_eq!(of_it.len(), 1, "{keeper}: {paths:#?}");
            assert!(of_it[0].contains("System.Reflection.LoaderAllocator (unloading context)"), "{}", of_it[0]);
        }
        // Code that is not optimised keeps the variable of the method that called Unload and Hold.
        let local = |path: &&String| path.starts_with("Stack Kiosk.Host.") && path.ends_with(": Kiosk.PluginContext ");
        assert_eq!(paths.iter().filter(local).count(), 1, "{paths:#?}");
        let by_type = ask(name, &["gcroot", "--type", "^Kiosk.PluginContext$"]);
        let text = by_type.to_string();
        assert!(keepers.iter().all(|keeper| text.contains(keeper)), "{by_type:#}");

        let triage = ask(name, &["triage"]);
        let finding = list(&triage, "findings").iter().find(|f| f["id"] == "collectible-assemblies").unwrap();
        let text = finding["text"].as_str().unwrap();
        assert!(text.contains("4 load contexts are unloading") && text.contains("They are kept loaded by "), "{text}");
        let all = keepers.iter().chain(&["a variable of Kiosk.Host.Hold"]);
        assert!(all.clone().all(|keeper| text.contains(keeper)), "{text}");
    }
}

/// C# keeps 2,000 results of a Python function by handles: a dict each, with a list of 30 numbers and a text. The
/// Python program has a list of 100 such dicts.
#[test]
fn objects_of_python_are_held_by_the_handles_of_dotnet() {
    for name in names("two-runtimes") {
        let holders = ask(name, &["holders"]);
        let row = list(&holders, "across").iter().max_by_key(|row| number(&row["retained"])).unwrap();
        let text = |key: &str| row[key].as_str().unwrap();
        assert_eq!((text("type"), text("field"), text("held_type")), ("Grades.PyHandle", "raw", "dict"), "{row}");
        assert!(text("owner").contains("static Grades.Scores.Results"), "{row}");
        assert!(text("runtime").starts_with(".NET") && text("held_runtime").starts_with("CPython"), "{row}");
        // A word on the stack has the address of the last one, too, so that its count of references is explained.
        assert_eq!((number(&row["objects"]), number(&row["held"])), (1999, 1999), "{row}");
        assert_eq!(objects_of(name, "^Grades.PyHandle$").len(), 2000);

        let retained = ask(name, &["retained"]);
        let kind = list(&retained, "roots").iter().find(|row| row["root_kind"] == "another runtime").unwrap();
        assert!(number(&kind["retained"]) >= number(&row["retained"]) * 99 / 100, "{kind} {row}");

        let dict = path(&ask(name, &["gcroot", text("held_object")]));
        for step in
            ["static Grades.Scores.Results", "Grades.PyHandle[]", "Grades.PyHandle raw (object of another", "dict"]
        {
            assert!(dict.contains(step), "{step}: {dict}");
        }
        let triage = ask(name, &["triage"]);
        let first = list(&triage, "findings").iter().find(|f| f["id"] == "retained").unwrap();
        let text = first["text"].as_str().unwrap();
        assert!(text.starts_with("static Grades.Scores.Results → Grades.PyHandle.raw (.NET 11.0.0) retains"), "{text}");
        assert!(text.contains("1,999 dict"), "{text}");
    }
}

/// Dumps of a crash as people upload them: createdump's types 1 and 3. stderr of the program had the exception and the
/// one inside it. There are no other exceptions; in the second dump, the first one's message is not there.
#[test]
fn small_dumps_of_a_crash_have_its_exceptions() {
    for name in names("exceptions") {
        let answer = ask(name, &["exceptions"]);
        let found: Vec<(&str, &Value)> =
            list(&answer, "exceptions").iter().map(|row| (row["type"].as_str().unwrap(), &row["message"])).collect();
        assert_eq!(found.len(), 2, "{answer:#}");
        let of = |kind: &str| *found.iter().find(|(of, _)| *of == kind).unwrap();
        let inner = "Could not convert string to decimal: twelve. Path 'Sum', line 1, position 32.";
        assert_eq!(of("Newtonsoft.Json.JsonReaderException").1, inner);
        let outer = of("System.InvalidOperationException").1;
        assert!(outer.is_null() || outer == "order 4711 of partner 'north' cannot be read", "{outer}");

        let triage = ask(name, &["triage"]);
        let crash =
            list(&triage, "findings").iter().find(|f| f["id"] == "crash").unwrap_or_else(|| panic!("{triage:#}"));
        let text = crash["text"].as_str().unwrap();
        assert_eq!(crash["severity"], "critical");
        assert!(text.starts_with("Unhandled System.InvalidOperationException"), "{text}");
        assert!(text.contains("LabelService.Import") && text.contains("JsonReaderException"), "{text}");
        let info = ask(name, &["info"]);
        assert_ne!(info["last_words"]["kind"], "requested", "{info:#}");
    }
}
