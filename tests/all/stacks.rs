//! Stacks that are not plain: signal stacks, fibers, given stacks, Go's, records that
//! lie; and what the map calls mappings of every kind.

use std::collections::BTreeSet;

use crate::support::builder::{CoreBuilder, Load, R, W, X};
use crate::support::elf;
use crate::support::notes;
use crate::support::real::{self, hex};
use crate::support::run::run;
use serde_json::Value;

/// A line of the truth that a program told: its words, numbers read as such.
struct Told {
    what: String,
    name: String,
    numbers: Vec<u64>,
}

fn told(core: &str) -> Vec<Told> {
    let text = real::beside(core, "truth.txt");
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (what, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        let number = |w: String| match w.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => w.parse().unwrap_or_default(),
        };
        Told { what, name, numbers: words.map(number).collect() }
    };
    text.lines().map(line).collect()
}

fn answer(command: &str, core: &str) -> Value {
    run([command, "--json", real::plain(core).to_str().unwrap()]).is_sound().json()
}

fn list<'a>(answer: &'a Value, key: &str) -> &'a Vec<Value> {
    answer[key].as_array().unwrap()
}

/// Kinds that the map may give to memory that the program calls so, by the first word of
/// the row; for gdb's core, which writes memory without access as readable.
fn fitting(what: &str, gdb: bool) -> &'static [&'static str] {
    match what {
        "own" | "signal" => &["Stack", "StackGuard"],
        // Below and above the page that the stack pointer is in nothing tells of a fiber
        // but the mapping: whole where it is alone in it.
        "switched" => &["Stack", "Malloc"],
        "switched_shared" => &["Stack", "AnonRW"],
        "resting" => &["Stack"],
        "anonymous" => &["AnonRW"],
        "memfd" | "shm" => &["SharedMemory", "DoubleMapped"],
        "shared" | "kernel" => &["SharedMemory"],
        "code" => &["AnonRX", "AnonRWX"],
        "file" => &["MappedFile"],
        "reserve" if gdb => &["AnonRO"],
        "reserve" => &["NoAccess"],
        "malloc" => &["Malloc"],
        other => panic!("a row of a kind that this table lacks: {other}"),
    }
}

#[test]
fn every_mapping_of_the_zoo_has_a_fitting_kind() {
    for core in ["zoo-kernel", "zoo-gcore"] {
        let answer = answer("regions", core);
        let mut rows = 0;
        for row in told(core).iter().filter(|t| !matches!(t.what.as_str(), "map" | "thread")) {
            let (start, end) = (row.numbers[0], row.numbers[1]);
            let inside: Vec<&Value> =
                list(&answer, "regions").iter().filter(|r| hex(&r["start"]) < end && start < hex(&r["end"])).collect();
            let covered: u64 = inside.iter().map(|r| hex(&r["end"]).min(end) - hex(&r["start"]).max(start)).sum();
            // gdb leaves out what is not to be dumped, and the kernel's own memory.
            let left_out =
                core == "zoo-gcore" && matches!(row.name.as_str(), "dontdump" | "io_uring" | "io_uring_sqes");
            assert!(covered == end - start || left_out, "{core} {}: {covered:#x} of {start:#x}-{end:#x}", row.name);
            let fits = fitting(&row.what, core == "zoo-gcore");
            for region in inside {
                let kind = region["kind"].as_str().unwrap();
                assert!(fits.contains(&kind), "{core} {} {} is {kind}: {region}", row.what, row.name);
            }
            rows += 1;
        }
        assert!(rows > 40, "{core}: {rows}");
    }
}

#[test]
fn the_last_letter_of_the_permissions_claims_nothing() {
    for core in ["zoo-kernel", "zoo-gcore"] {
        let answer = answer("regions", core);
        let maps: Vec<(u64, char)> = real::beside(core, "truth.txt")
            .lines()
            .filter_map(|l| {
                let mut words = l.strip_prefix("map ")?.split_whitespace();
                let start = words.next()?.split('-').next()?;
                Some((u64::from_str_radix(start, 16).unwrap(), words.next()?.chars().last()?))
            })
            .collect();
        let mut compared = 0;
        for region in list(&answer, "regions") {
            let letter = region["perms"].as_str().unwrap().chars().last().unwrap();
            let truth = maps.iter().find(|(start, _)| *start == hex(&region["start"]));
            if let Some((_, truth)) = truth.filter(|_| letter != '?') {
                assert_eq!(letter, *truth, "{core} {region}");
                compared += 1;
            }
        }
        assert!(compared > 20, "{core}: {compared}");
    }
}

#[test]
fn stacks_of_the_zoo_are_those_that_its_threads_told() {
    for core in ["zoo-kernel", "zoo-gcore"] {
        let (truth, answer) = (told(core), answer("stacks", core));
        let rows = list(&answer, "stacks");
        let bounds = |row: &Value| (hex(&row["low"]), hex(&row["high"]));
        let mut extra = 0;
        for thread in truth.iter().filter(|t| t.what == "thread") {
            let range = |what: &str| {
                let row = truth.iter().find(|t| t.what == what && t.name == thread.name)?;
                Some((row.numbers[0], row.numbers[1]))
            };
            let own = rows.iter().find(|r| r["tid"] == thread.numbers[0]).unwrap();
            let (low, high) = range("own").unwrap();
            // pthread_getattr_np counts the guard to the stack.
            assert!(low <= bounds(own).0 && bounds(own).0 <= low + 4096, "{core} {}: {own}", thread.name);
            assert_eq!((bounds(own).1, &own["confidence"]), (high, &"exact".into()), "{core} {}: {own}", thread.name);
            let others: Vec<&Value> = rows.iter().filter(|r| r["used_by"] == thread.numbers[0]).collect();
            if let Some(signal) = range("signal") {
                let row = others.iter().find(|r| r["state"] == "signal").unwrap();
                assert_eq!((bounds(row), others.len()), (signal, 1), "{core} {}", thread.name);
                assert_eq!((&row["current"], &own["current"]), (&true.into(), &false.into()));
                // Where the signal came, or below the stack where it overflowed.
                let interrupted = hex(&own["sp"]);
                assert!(interrupted < high && low - 4096 <= interrupted, "{core} {}: {own}", thread.name);
                extra += 1;
            } else if let Some(fiber) = range("switched").or_else(|| range("switched_shared")) {
                let [row] = others[..] else { panic!("{core} {}: {others:?}", thread.name) };
                let sp = hex(&row["sp"]);
                assert!(fiber.0 <= sp && sp < fiber.1 && row["confidence"] == "heuristic", "{core}: {row}");
                // No more than its own: malloc may have a word more than was asked for.
                assert!(bounds(row).0 >= fiber.0 && bounds(row).1 <= fiber.1 + 8, "{core}: {row}");
                assert_eq!((&own["sp"], &own["in_use"]), (&Value::Null, &Value::Null), "{core}: {own}");
                extra += 1;
            } else {
                assert!(others.is_empty() && own["current"] == true, "{core} {}", thread.name);
            }
        }
        assert_eq!(extra, 8, "{core}");
        let overflow = list(&answer, "findings").iter().find(|f| f["id"] == "stack-overflow").unwrap();
        let tid = truth.iter().find(|t| t.what == "thread" && t.name == "overflowed").unwrap().numbers[0];
        assert!(overflow["text"].as_str().unwrap().contains(&format!("Thread {tid} overflowed")), "{core}: {overflow}");
    }
}

#[test]
fn the_kinds_add_up_to_the_stacks() {
    for core in ["zoo-kernel", "zoo-gcore", "go-kernel", "go-gcore", "native-glibc-kernel"] {
        let (stacks, summary) = (answer("stacks", core), answer("summary", core));
        let kind = list(&summary, "kinds").iter().find(|k| k["kind"] == "Stack").unwrap();
        assert_eq!(kind["size"], stacks["total"]["reserved"], "{core}");
    }
}

#[test]
fn stacks_of_go_are_those_of_its_scheduler() {
    for core in ["go-kernel", "go-gcore"] {
        let answer = answer("stacks", core);
        let rows = list(&answer, "stacks");
        let ranges: Vec<(u64, u64)> = rows.iter().map(|r| (hex(&r["low"]), hex(&r["high"]))).collect();
        // Each is its own: none shares a byte with another.
        let mut sorted = ranges.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|w| w[0].1 <= w[1].0), "{core}: {sorted:x?}");
        assert!(ranges.iter().all(|(low, high)| high - low <= 1 << 20), "{core}: {ranges:x?}");
        assert!(rows.iter().all(|r| r["confidence"] == "exact"), "{core}");
        // The kernel leaves out the program's constants: its functions have no names.
        let others = answer["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] != "go").count();
        assert_eq!(others, 0, "{core}: {}", answer["warnings"]);
        let check = run(["check", "--json", real::plain(core).to_str().unwrap()]);
        assert_eq!(check.exits(0).json()["conflicts"], Value::Array(Vec::new()), "{core}");
        // The program, its data and the heap are no stacks.
        let regions = self::answer("regions", core);
        for region in list(&regions, "regions").iter().filter(|r| r["kind"] == "Stack") {
            assert!(region["file"].is_null() && region["perms"] == "rw-p", "{core}: {region}");
        }
    }
}

#[test]
fn go_threads_in_handlers_were_interrupted_where_go_says() {
    let truth: BTreeSet<u64> =
        told("go-kernel").iter().filter(|t| t.what == "interrupted" && t.name == "rsp").map(|t| t.numbers[0]).collect();
    let answer = answer("stacks", "go-kernel");
    let rows = list(&answer, "stacks");
    assert!(rows.iter().filter(|r| r["state"] == "signal").count() >= truth.len());
    let interrupted: BTreeSet<u64> =
        rows.iter().filter(|r| r["state"] != "signal" && !r["sp"].is_null()).map(|r| hex(&r["sp"])).collect();
    // Its report raises the signal again at the end, in the thread that made it.
    let missing: Vec<&u64> = truth.difference(&interrupted).collect();
    assert!(missing.len() <= 1 && truth.len() >= 7, "{missing:x?} of {truth:x?}, {interrupted:x?}");
}

// --- made by hand ---

const TEXT: u64 = 0x40_0000;
const HEAP: u64 = 0xc0_0000_0000;
const HEAP_LEN: u64 = 0x40_0000;

/// A heap with these words in it.
fn heap(words: &[(u64, u64)]) -> Load {
    let mut bytes = vec![0u8; HEAP_LEN as usize];
    for &(at, word) in words {
        let at = (at - HEAP) as usize;
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    Load::at(HEAP).flags(R | W).bytes(bytes)
}

/// glibc's four words, at the offset that 2.36 has them.
fn record(pointer: u64, block: u64, size: u64) -> [(u64, u64); 4] {
    let at = pointer + 0x690;
    [(at, block), (at + 8, size), (at + 16, 0), (at + 24, 0)]
}

fn stacks_of(core: &CoreBuilder) -> Vec<Value> {
    let file = core.write();
    list(&run(["stacks", "--json", file.path().to_str().unwrap()]).is_sound().json(), "stacks").clone()
}

#[test]
fn words_that_look_like_a_record_are_none() {
    let pointer = HEAP + 0x3_2090;
    let sp = HEAP + 0x3_b2e0;
    let make = |words: &[(u64, u64)]| {
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(7, 6, sp, TEXT + 0x100, pointer))
            .note(notes::prpsinfo(7, "x", "x"))
            .load(Load::at(TEXT).flags(R | X).bytes(vec![0x90; 0x2000]))
            .load(heap(words))
    };
    let itself = [(pointer, pointer), (pointer + 16, pointer)];
    let [row] = &stacks_of(&make(&[&itself[..], &record(pointer, HEAP, 0x10_0000)].concat()))[..] else { panic!() };
    assert_eq!((row["confidence"].as_str(), hex(&row["high"])), (Some("exact"), HEAP + 0x10_0000), "{row}");
    // The block has no page of its own, begins in the program, or nothing points to itself.
    let odd = record(pointer, HEAP + 0x418, 0x10_0000);
    let wide = record(pointer, TEXT + 0x1000, HEAP + 0x46_1000 - TEXT);
    for words in
        [[&itself[..], &odd].concat(), [&itself[..], &wide].concat(), record(pointer, HEAP, 0x10_0000).to_vec()]
    {
        let [row] = &stacks_of(&make(&words))[..] else { panic!() };
        assert_eq!(row["confidence"], "heuristic", "{row}");
        assert!(hex(&row["low"]) >= HEAP && hex(&row["high"]) <= HEAP + HEAP_LEN, "{row}");
    }
}

#[test]
fn threads_in_one_mapping_do_not_get_it_all() {
    let mut core = CoreBuilder::x86_64().note(notes::prpsinfo(7, "x", "x")).load(heap(&[]));
    for i in 0..4u64 {
        core = core.note(notes::prstatus_x86_64(8 + i as u32, 0, HEAP + 0x1_0100 + i * 0x8000, TEXT, 0));
    }
    let rows = stacks_of(&core);
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!((&row["confidence"], row["reserved"].as_u64()), (&"heuristic".into(), Some(4096)), "{row}");
        assert_eq!(hex(&row["low"]), hex(&row["sp"]) & !0xfff);
    }
}

#[test]
fn two_threads_with_one_record_do_not_share_a_stack() {
    let pointer = HEAP + 0x3_2090;
    let words = [&[(pointer, pointer), (pointer + 16, pointer)][..], &record(pointer, HEAP, 0x10_0000)].concat();
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(7, 0, HEAP + 0x3_0000, TEXT, pointer))
        .note(notes::prstatus_x86_64(8, 0, HEAP + 0x20_0000, TEXT, pointer))
        .load(heap(&words));
    let rows = stacks_of(&core);
    let [first, second] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&first["tid"], &first["confidence"]), (&7.into(), &"exact".into()));
    assert_eq!((&second["tid"], &second["confidence"]), (&8.into(), &"heuristic".into()));
    assert!(hex(&second["low"]) >= hex(&first["high"]), "{second}");
}

/// A thread's stack, and a vdso that is said to begin in the midst of it and to end
/// beyond: one of the two lies.
#[test]
fn a_contradiction_is_exit_status_4() {
    let pointer = HEAP + 0x3_2090;
    let words = [&[(pointer, pointer), (pointer + 16, pointer)][..], &record(pointer, HEAP, 0x10_0000)].concat();
    let core =
        CoreBuilder::x86_64().note(notes::prstatus_x86_64(7, 0, HEAP + 0x3_0000, TEXT, pointer)).load(heap(&words));
    let file = core.write();
    let out = run(["check", file.path().to_str().unwrap()]);
    assert!(out.exits(0).stdout.contains("no two exact claims contradict"), "{}", out.stdout);
    let file = core.note(notes::auxv(&[(33, HEAP + 0x8_0000)])).write();
    let out = run(["check", "--json", file.path().to_str().unwrap()]);
    let answer = out.exits(4).json();
    assert_eq!(list(&answer, "conflicts").len(), 1);
    assert_eq!(answer["warnings"][0]["code"], "contradiction");
}

/// gdb 13 and glibc 2.42: the mapping is there, and all of it is zero.
#[test]
fn stacks_that_gdb_could_not_read_are_told() {
    let core = |bytes: &[(u64, u64)]| {
        CoreBuilder::x86_64()
            .load(heap(bytes))
            .note(notes::prstatus_x86_64(7, 0, HEAP + 0x3_0000, TEXT, HEAP + 0x3_2090))
            .note(notes::gdb())
            .notes_last()
    };
    let file = core(&[]).write();
    let out = run(["stacks", file.path().to_str().unwrap()]);
    assert!(out.exits(0).stderr.contains("stacks-blank: 1 stack is zero"), "{}", out.stderr);
    // Nothing is said of what was ever written to it.
    let answer = run(["stacks", "--zero-fill", "--json", file.path().to_str().unwrap()]).json();
    let stack = list(&answer, "stacks").iter().find(|s| s["tid"] == 7).unwrap();
    assert_eq!(
        (&stack["lost"], &stack["touched"], &stack["written"], &stack["zero"]),
        (&true.into(), &Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(answer["total"]["zero"], 0);
    let file = core(&[(HEAP + 0x3_0008, 1)]).write();
    assert!(!run(["stacks", file.path().to_str().unwrap()]).stderr.contains("stacks-blank"));
    let answer = run(["stacks", "--zero-fill", "--json", file.path().to_str().unwrap()]).json();
    assert_eq!(list(&answer, "stacks")[0]["lost"], false);
}

/// Waiting fibers have their stacks in their contexts. A stack in a block of malloc is malloc's, and the stack that a
/// thread runs on is the thread's.
#[test]
fn stacks_of_fibers_are_stacks() {
    let name = "native-fibers";
    let truth: Value = serde_json::from_str(&real::beside(name, "truth.json")).unwrap();
    let regions = answer("regions", name);
    let at = |at: u64| {
        let inside = |r: &&Value| (hex(&r["start"])..hex(&r["end"])).contains(&at);
        list(&regions, "regions").iter().find(inside).unwrap()
    };
    let size = truth["size"].as_u64().unwrap();
    for stack in list(&truth, "stacks") {
        let low = hex(&stack["low"]);
        let (first, last, below) = (at(low), at(low + size - 1), at(low - 1));
        let kind = &stack["kind"];
        if kind == "allocated" {
            assert_eq!((&first["kind"], &last["kind"]), (&"Malloc".into(), &"Malloc".into()));
            continue;
        }
        assert_eq!((hex(&first["start"]), hex(&first["end"])), (low, low + size));
        assert_eq!((&first["kind"], &first["confidence"]), (&"Stack".into(), &"derived".into()), "{first}");
        let guarded = below["kind"] == "StackGuard";
        assert_eq!(guarded, kind == "guarded", "{below}");
    }
    let own = at(hex(&truth["thread"]));
    assert_eq!(own["kind"], "Stack");
    assert_ne!(own["detail"], "stack of a fiber");
    let findings = answer("triage", name);
    let text = list(&findings, "findings").iter().find(|f| f["id"] == "stacks").unwrap()["text"].to_string();
    // The main thread's, the worker's own, and the one that it runs on.
    assert!(text.contains("3 thread stacks and 45 fiber stacks reserve"), "{text}");
}

/// The core with other contents in its NT_PRSTATUS notes, whose descriptors `change` gets in order.
fn with_status(core: &str, mut change: impl FnMut(usize, &mut [u8])) -> tempfile::NamedTempFile {
    let mut bytes = std::fs::read(real::plain(core)).unwrap();
    let (start, len) = elf::read(&bytes).notes;
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut thread) = (start, 0);
    while at + 12 < start + len {
        let (name, size, kind) = (word(&bytes, at), word(&bytes, at + 4), word(&bytes, at + 8));
        let desc = at + 12 + name.next_multiple_of(4);
        if kind == 1 {
            change(thread, &mut bytes[desc..desc + size]);
            thread += 1;
        }
        at = desc + size.next_multiple_of(4);
    }
    let mut file = tempfile::NamedTempFile::new_in(real::folder()).unwrap();
    real::write_sparse(file.as_file_mut(), &bytes);
    file
}

/// Index of fs_base in `user_regs_struct`, and the number of registers.
const FS_BASE: usize = 21;
const REGISTERS: usize = 27;

fn register(i: usize) -> std::ops::Range<usize> {
    112 + 8 * i..120 + 8 * i
}

/// The threads except the main one have the stacks that pthread_getattr_np said, and one stack is cached: that of the
/// thread that was joined.
#[track_caller]
fn has_the_stacks_of_its_threads(core: &str, rows: &[Value]) {
    let truth = real::truth(core);
    for t in truth.threads.iter().filter(|t| t.tid != truth.pid) {
        let row = rows.iter().find(|s| s["tid"] == t.tid).unwrap();
        assert_eq!((hex(&row["high"]), row["state"].as_str()), (t.low + t.size, Some("thread")), "{core}: {row}");
        assert_eq!(row["confidence"], "exact", "{core}: {row}");
    }
    let high = truth.ended[0].low + truth.ended[0].size;
    let cached: Vec<u64> = rows.iter().filter(|s| s["state"] == "cached").map(|s| hex(&s["high"])).collect();
    assert_eq!(cached, [high], "{core}");
}

/// QEMU's user mode and old gdb write no fs.base.
#[test]
fn threads_without_a_thread_pointer_have_their_stacks() {
    for core in ["native-glibc-kernel", "native-glibc243-kernel"] {
        let file = with_status(core, |_, status| status[register(FS_BASE)].fill(0));
        let out = run(["stacks", "--json", file.path().to_str().unwrap()]);
        let rows = list(&out.is_sound().json(), "stacks").clone();
        has_the_stacks_of_its_threads(core, &rows);
        assert!(!out.stderr.contains("stack-missing"), "{}", out.stderr);
    }
}

/// A thread in the notes is alive, whatever its registers say.
#[test]
fn threads_with_shifted_registers_have_their_stacks() {
    let core = "native-glibc-kernel";
    for by in [1, 2, REGISTERS - 2, REGISTERS - 1] {
        let file = with_status(core, |_, status| status[112..112 + 8 * REGISTERS].rotate_left(8 * by));
        let out = run(["stacks", "--json", file.path().to_str().unwrap()]);
        let answer = out.exits(4).json();
        has_the_stacks_of_its_threads(core, list(&answer, "stacks"));
        let warning = list(&answer, "warnings").iter().find(|w| w["code"] == "registers-astray");
        let text = warning.unwrap_or_else(|| panic!("{}", out.stderr))["message"].as_str().unwrap().to_owned();
        for thread in real::truth(core).threads {
            assert!(text.contains(&thread.tid.to_string()), "{text}");
        }
        assert!(!list(&answer, "findings").iter().any(|f| f["text"].as_str().unwrap().contains("joined")), "{answer}");
    }
}

/// Some producers write 0 or the process's id as the id of each thread.
#[test]
fn threads_with_one_id_are_distinct() {
    let core = "native-glibc-kernel";
    let truth = real::truth(core);
    for id in [0, truth.pid as u32] {
        let mut order = Vec::new();
        let file = with_status(core, |_, status| {
            order.push(u64::from(u32::from_le_bytes(status[32..36].try_into().unwrap())));
            status[32..36].copy_from_slice(&id.to_le_bytes());
        });
        let out = run(["stacks", "--json", file.path().to_str().unwrap()]);
        let answer = out.exits(0).json();
        let rows = list(&answer, "stacks");
        let tids: BTreeSet<u64> = rows.iter().filter_map(|r| r["tid"].as_u64()).collect();
        assert_eq!(tids.len(), truth.threads.len(), "{answer}");
        for (position, tid) in order.into_iter().enumerate() {
            let row = rows.iter().find(|r| r["tid"] == (1u64 << 31) + position as u64).unwrap();
            let t = truth.threads.iter().find(|t| t.tid == tid).unwrap();
            if tid == truth.pid {
                assert_eq!(row["state"], "main", "{row}");
            } else {
                assert_eq!(hex(&row["high"]), t.low + t.size, "{row}");
            }
            // Only the first thread in the notes crashed.
            assert_eq!(row["crashed"], position == 0, "{row}");
        }
        let table = run(["stacks", file.path().to_str().unwrap()]);
        assert!(table.stdout.contains("#6") && !table.stdout.contains("2147483"), "{}", table.stdout);
        let triage = run(["triage", file.path().to_str().unwrap()]).stdout;
        assert!(triage.contains("thread #1") && !triage.contains("2147483"), "{triage}");
    }
}

/// fork copies the stacks of all threads. Only the one that called it runs in the child.
#[test]
fn stacks_that_fork_copied_are_not_of_ended_threads() {
    let core = "forked-kernel";
    let truth = real::own_report(core);
    let answer = answer("stacks", core);
    let rows = list(&answer, "stacks");
    assert_eq!(rows.len(), 4, "{answer}");
    for stack in list(&truth, "stacks") {
        let high = stack["low"].as_u64().unwrap() + stack["size"].as_u64().unwrap();
        let row = rows.iter().find(|r| hex(&r["high"]) == high).unwrap_or_else(|| panic!("{stack}: {answer}"));
        let (state, tid) = match stack["what"].as_str().unwrap() {
            "forking" => ("thread", truth["child"].clone()),
            "joined" => ("cached", Value::Null),
            _ => ("inherited", Value::Null),
        };
        assert_eq!((row["state"].as_str(), &row["tid"]), (Some(state), &tid), "{row}");
        assert_eq!(row["current"], state == "thread", "{row}");
    }
    let about = |id: &str| list(&answer, "findings").iter().filter(|f| f["id"] == id).count();
    assert_eq!((about("inherited-stacks"), about("cached-stacks"), about("other-stacks")), (1, 1, 0), "{answer}");
}

/// A mini dump has a stack from its pointer up. What is below may have been written.
#[test]
fn the_high_water_mark_of_a_stack_without_its_lower_part_is_unknown() {
    let pointer = HEAP + 0x3_2090;
    let words = [&[(pointer, pointer), (pointer + 16, pointer)][..], &record(pointer, HEAP, 0x10_0000)].concat();
    let mut bytes = vec![0u8; 0x10_0000];
    for (at, word) in words {
        bytes[(at - HEAP) as usize..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let lowest = 0x3_0000;
    bytes[lowest..lowest + 8].copy_from_slice(&7u64.to_le_bytes());
    let core = |parts: &[Load]| {
        let core = CoreBuilder::x86_64().note(notes::prstatus_x86_64(7, 0, HEAP + 0x3_1000, TEXT, pointer));
        let file = core.loads(parts.iter().cloned()).write();
        run(["stacks", "--zero-fill", "--json", file.path().to_str().unwrap()]).is_sound().json()
    };
    let whole = core(&[Load::at(HEAP).flags(R | W).bytes(bytes.clone())]);
    let mark = 0x10_0000 - lowest as u64;
    assert_eq!((whole["stacks"][0]["touched"].as_u64(), whole["total"]["touched"].as_u64()), (Some(mark), Some(mark)));
    let cut = core(&[
        Load::at(HEAP).flags(R | W).memsz(lowest as u64),
        Load::at(HEAP + lowest as u64).flags(R | W).bytes(bytes[lowest..].to_vec()),
    ]);
    assert_eq!(cut["stacks"][0]["confidence"], "exact", "{cut}");
    for touched in [&cut["stacks"][0]["touched"], &cut["total"]["touched"], &cut["groups"][0]["touched"]] {
        assert_eq!(*touched, Value::Null, "{cut}");
    }
}
