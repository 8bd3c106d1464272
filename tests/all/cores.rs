//! The small real cores against what their processes said of themselves just
//! before the dump (testdata/cores/*/truth.json), and against sums made from
//! the headers by a reader of the tests' own.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::cases::{Case, names, serving};
use crate::support::real::{self, Mapping, hex};
use crate::support::run::run;
use serde_json::Value;

fn answer(command: &str, name: &str) -> Value {
    let out = run([command, "--json", real::plain(name).to_str().unwrap()]);
    out.is_sound();
    assert!(matches!(out.code, Some(0 | 4)), "{name}: {out:?}");
    out.json()
}

fn rows<'a>(answer: &'a Value, key: &str) -> &'a Vec<Value> {
    answer[key].as_array().unwrap_or_else(|| panic!("{key}: {answer}"))
}

/// Bytes of each kind within `[start, end)`.
fn kinds_in(regions: &[Value], start: u64, end: u64) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for r in regions {
        let common = hex(&r["end"]).min(end).saturating_sub(hex(&r["start"]).max(start));
        if common > 0 {
            *out.entry(r["kind"].as_str().unwrap().to_owned()).or_default() += common;
        }
    }
    out
}

/// Every mapping that `which` picks is of these kinds, as far as the core knows
/// it, and there is one at least.
#[track_caller]
fn mappings_are(name: &str, kinds: &[&str], which: impl Fn(&Mapping) -> bool) {
    let answer = answer("regions", name);
    let mut seen = 0;
    for m in real::truth(name).maps.iter().filter(|m| which(m)) {
        let found = kinds_in(rows(&answer, "regions"), m.start, m.end);
        seen += usize::from(!found.is_empty());
        assert!(
            found.keys().all(|k| kinds.contains(&k.as_str())),
            "{name}: {:#x}-{:#x} {} {} should be {kinds:?}, is {found:?}",
            m.start,
            m.end,
            m.perms,
            m.name
        );
    }
    assert!(seen > 0, "{name}: no such mapping in the core");
}

/// Names of those that `which` takes; one at least.
fn some(which: impl Fn(&Case) -> bool) -> Vec<&'static str> {
    let names: Vec<_> = serving("process").into_iter().filter(|c| which(c)).map(|c| c.name.as_str()).collect();
    assert!(!names.is_empty(), "no such core");
    names
}

/// All but those that an emulator wrote of its guest, without a list of files and without the
/// pages that tell libraries and stacks.
fn no_guests() -> Vec<&'static str> {
    some(|c| c.producer != "unknown")
}

fn native() -> Vec<&'static str> {
    some(|c| c.producer != "unknown" && c.runtime.is_none())
}

fn glibc() -> Vec<&'static str> {
    some(|c| c.producer != "unknown" && c.libc.as_deref() == Some("glibc"))
}

#[test]
fn packed_and_plain_give_the_same_sums() {
    for name in names("process") {
        let packed = run(["summary", "--json", real::packed(name).to_str().unwrap()]);
        packed.is_sound();
        let without_path = |mut answer: Value| {
            for finding in answer["findings"].as_array_mut().unwrap() {
                finding["command"].take();
            }
            answer
        };
        let (packed, plain) = (without_path(packed.json()), without_path(answer("summary", name)));
        for key in ["kinds", "total", "base", "findings"] {
            assert_eq!(packed[key], plain[key], "{name}: {key}");
        }
        assert_eq!(packed["core"]["size"], plain["core"]["size"], "{name}");
    }
}

#[test]
fn cores_are_whole_and_of_their_process() {
    for name in names("process") {
        let core = &answer("info", name)["core"];
        assert_eq!(core["truncated"], false, "{name}");
        assert_eq!(core["pid"], real::truth(name).pid, "{name}");
    }
}

#[test]
fn kinds_sum_to_the_headers_own_sums() {
    for name in names("process") {
        let (headers, len) = real::headers(name);
        let sum = answer("summary", name);
        let kinds = |key: &str| rows(&sum, "kinds").iter().map(|k| k[key].as_u64().unwrap()).sum::<u64>();
        for (key, want) in [("size", headers.base()), ("in_core", headers.in_core(len))] {
            assert_eq!(sum["base"][key], want, "{name}: base {key}");
            assert_eq!(sum["total"][key], want, "{name}: total {key}");
            assert_eq!(kinds(key), want, "{name}: kinds {key}");
        }
        let regions = answer("regions", name);
        assert_eq!(sum["total"]["count"], rows(&regions, "regions").len() as u64, "{name}");
        let check = answer("check", name);
        assert!(rows(&check, "invariants").iter().all(|i| i["ok"] == true), "{name}: {check}");
    }
}

#[test]
fn regions_are_sorted_disjoint_and_within_the_headers_ranges() {
    for name in names("process") {
        let (headers, _) = real::headers(name);
        let mut known: Vec<(u64, u64)> = headers.loads.iter().map(|l| (l.vaddr, l.vaddr + l.memsz)).collect();
        known.extend(&headers.files);
        let base = headers.base();
        let answer = answer("regions", name);
        let mut end = 0;
        for r in rows(&answer, "regions") {
            assert!(hex(&r["start"]) >= end, "{name}: {r}");
            end = hex(&r["end"]);
            assert_eq!(r["size"], end - hex(&r["start"]), "{name}: {r}");
        }
        let all = rows(&answer, "regions").iter().map(|r| (hex(&r["start"]), hex(&r["end"])));
        // Together with what the headers know, nothing is added.
        assert_eq!(crate::support::elf::union(all.chain(known)), base, "{name}");
    }
}

#[test]
fn zero_pages_are_those_that_a_plain_loop_finds() {
    for name in ["native-glibc-kernel", "dotnet31-createdump"] {
        let (headers, _) = real::headers(name);
        let bytes = real::bytes(name);
        // createdump cuts mappings into segments, but all at page borders.
        let pages = headers.loads.iter().flat_map(|l| bytes[l.offset as usize..][..l.filesz as usize].chunks(4096));
        let zero: usize = pages.filter(|p| p.len() == 4096 && p.iter().all(|&b| b == 0)).map(<[u8]>::len).sum();
        let out = run(["summary", "--zero-fill", "--json", real::plain(name).to_str().unwrap()]);
        let sum = out.exits(0).json();
        assert_eq!(sum["total"]["zero"], zero, "{name}");
        let written = sum["total"]["in_core"].as_u64().unwrap() - zero as u64;
        assert_eq!(sum["total"]["written"], written, "{name}");
    }
}

#[test]
fn every_thread_is_listed_once() {
    for name in names("process") {
        let truth = real::truth(name);
        let answer = answer("stacks", name);
        let mut tids: Vec<u64> = rows(&answer, "stacks").iter().filter_map(|s| s["tid"].as_u64()).collect();
        tids.sort_unstable();
        let mut want: Vec<u64> = truth.threads.iter().map(|t| t.tid).collect();
        want.sort_unstable();
        assert_eq!(tids, want, "{name}");
        assert_eq!(answer["core"]["threads"], want.len(), "{name}");
    }
}

#[test]
fn stacks_are_what_pthread_getattr_np_said() {
    for name in no_guests() {
        let truth = real::truth(name);
        let answer = answer("stacks", name);
        for t in truth.threads.iter().filter(|t| t.tid != truth.pid) {
            let row = rows(&answer, "stacks").iter().find(|s| s["tid"] == t.tid).unwrap();
            assert_eq!(hex(&row["high"]), t.low + t.size, "{name}: {row}");
            let low = hex(&row["low"]);
            assert!(t.low - t.guard <= low && low <= t.low, "{name}: {row} {t:?}");
            assert_eq!(row["reserved"], hex(&row["high"]) - low, "{name}: {row}");
            assert_eq!(row["state"], "thread", "{name}: {row}");
            assert_eq!(row["confidence"], "exact", "{name}: {row}");
            // Guard and stack touch, and cover what glibc and musl both call guard.
            assert!(row["guard"].as_u64().unwrap() >= t.low - low, "{name}: {row} {t:?}");
        }
    }
}

#[test]
fn guards_have_the_size_that_was_asked_for() {
    for name in native() {
        let truth = real::truth(name);
        let answer = answer("stacks", name);
        for t in truth.threads.iter().filter(|t| t.tid != truth.pid) {
            let row = rows(&answer, "stacks").iter().find(|s| s["tid"] == t.tid).unwrap();
            assert_eq!(row["guard"], t.guard, "{name}: {row}");
        }
    }
}

#[test]
fn the_main_stack_is_the_stack_mapping() {
    for name in names("process") {
        let truth = real::truth(name);
        let answer = answer("stacks", name);
        let main: Vec<_> = rows(&answer, "stacks").iter().filter(|s| s["state"] == "main").collect();
        assert_eq!(main.len(), 1, "{name}");
        assert_eq!(main[0]["tid"], truth.pid, "{name}");
        let mapping = truth.maps.iter().find(|m| m.name == "[stack]").unwrap();
        assert_eq!(hex(&main[0]["high"]), mapping.end, "{name}");
        // It may have grown after the maps were read.
        assert!(hex(&main[0]["low"]) <= mapping.start, "{name}");
    }
}

#[test]
fn without_thread_pointers_stacks_are_a_guess_that_says_so() {
    let name = "native-aarch64-qemu";
    let truth = real::truth(name);
    let answer = answer("stacks", name);
    for t in truth.threads.iter().filter(|t| t.tid != truth.pid) {
        let row = rows(&answer, "stacks").iter().find(|s| s["tid"] == t.tid).unwrap();
        assert_eq!(row["confidence"], "heuristic", "{row}");
        // "w-sig" stands in its signal handler: its own SP says nothing of its stack, the
        // one that was interrupted does.
        assert!(hex(&row["low"]) <= t.low && t.low + t.size <= hex(&row["high"]), "{row} {t:?}");
    }
}

/// The workers of native.c: "w-sig" waits in a signal handler on an alternate stack.
#[test]
fn a_signal_stack_is_shown_beside_the_threads_own() {
    for name in ["native-glibc-kernel", "native-musl-gcore", "native-aarch64-qemu"] {
        let truth = real::truth(name);
        let marker = |key: &str| truth.all["markers"][key].clone();
        let low = hex(&marker("altstack_lo"));
        let answer = answer("stacks", name);
        let row = rows(&answer, "stacks").iter().find(|s| s["state"] == "signal").unwrap();
        assert_eq!((hex(&row["low"]), row["reserved"].as_u64()), (low, marker("altstack_size").as_u64()), "{name}");
        assert_eq!((&row["confidence"], &row["current"]), (&"exact".into(), &true.into()), "{name}");
        let own = rows(&answer, "stacks").iter().find(|s| s["tid"] == row["used_by"]).unwrap();
        let thread = truth.threads.iter().find(|t| own["tid"] == t.tid).unwrap();
        assert_eq!(own["current"], false, "{name}");
        let interrupted = hex(&own["sp"]);
        assert!(thread.low <= interrupted && interrupted < thread.low + thread.size, "{name} {own}");
    }
}

#[test]
fn stacks_of_ended_threads_are_found_in_glibcs_cache() {
    for name in glibc() {
        let truth = real::truth(name);
        let answer = answer("stacks", name);
        let cached: BTreeSet<(u64, u64)> = rows(&answer, "stacks")
            .iter()
            .filter(|s| s["state"] == "cached")
            .inspect(|s| assert!(s["tid"].is_null() && s["sp"].is_null() && s["in_use"].is_null(), "{name}: {s}"))
            .map(|s| (hex(&s["low"]), hex(&s["high"])))
            .collect();
        let ended: BTreeSet<(u64, u64)> = truth.ended.iter().map(|t| (t.low, t.low + t.size)).collect();
        assert_eq!(cached, ended, "{name}");
        assert_eq!(answer["total"]["cached"], cached.len(), "{name}");
    }
}

#[test]
fn a_marker_on_each_workers_stack_is_in_use() {
    for name in native() {
        let truth = real::truth(name);
        let regions = answer("regions", name);
        for w in truth.all["markers"]["workers"].as_array().unwrap() {
            // The last worker is gone; musl has unmapped its stack.
            if w["name"] == "w-gone" {
                continue;
            }
            let at = hex(&w["stack_mark"]);
            let found =
                rows(&regions, "regions").iter().find(|r| (hex(&r["start"])..hex(&r["end"])).contains(&at)).unwrap();
            assert_eq!(found["kind"], "Stack", "{name}: {found}");
            assert!(found["detail"].as_str().unwrap().contains(&w["tid"].to_string()), "{name}: {found}");
        }
    }
}

#[test]
fn guards_below_stacks_are_labelled_so() {
    let name = "native-glibc-kernel";
    let truth = real::truth(name);
    let regions = answer("regions", name);
    for t in truth.threads.iter().filter(|t| t.tid != truth.pid && t.guard > 0) {
        let found = kinds_in(rows(&regions, "regions"), t.low - t.guard, t.low);
        assert_eq!(found, BTreeMap::from([("StackGuard".to_owned(), t.guard)]), "{t:?}");
    }
}

#[test]
fn the_heap_is_malloc() {
    for name in glibc() {
        let regions = answer("regions", name);
        let heap = real::truth(name).maps.into_iter().find(|m| m.name == "[heap]").unwrap();
        let malloc = kinds_in(rows(&regions, "regions"), heap.start, heap.end).get("Malloc").copied().unwrap_or(0);
        assert!(malloc * 10 >= (heap.end - heap.start) * 9, "{name}: {malloc} of {heap:?}");
    }
}

#[test]
fn thread_arenas_are_malloc_and_their_reserve_is_no_access() {
    for name in glibc() {
        let truth = real::truth(name);
        let regions = answer("regions", name);
        // What MALLOC_ARENA_MAX allows beside the main heap: a 64 MiB range,
        // its lower part writable, the rest out of bounds.
        let arenas: Vec<_> = truth
            .maps
            .windows(2)
            .filter(|w| {
                let (low, high) = (&w[0], &w[1]);
                low.start % (64 << 20) == 0
                    && low.perms == "rw-p"
                    && high.perms == "---p"
                    && high.start == low.end
                    && high.end == low.start + (64 << 20)
            })
            .collect();
        assert!(!arenas.is_empty(), "{name}");
        for w in arenas {
            let low = kinds_in(rows(&regions, "regions"), w[0].start, w[0].end);
            assert_eq!(low.keys().collect::<Vec<_>>(), ["Malloc"], "{name}: {:?} {low:?}", w[0]);
            // gdb writes PROT_NONE as readable, createdump leaves it out.
            let high = kinds_in(rows(&regions, "regions"), w[1].start, w[1].end);
            assert!(high.keys().all(|k| k == "NoAccess"), "{name}: {:?} {high:?}", w[1]);
        }
    }
    // Each worker of the C program allocated in an arena of its own.
    let regions = answer("regions", "native-glibc-kernel");
    for w in real::truth("native-glibc-kernel").all["markers"]["workers"].as_array().unwrap() {
        let at = hex(&w["heap_mark"]);
        assert_eq!(kinds_in(rows(&regions, "regions"), at, at + 1).into_keys().collect::<Vec<_>>(), ["Malloc"], "{w}");
    }
}

#[test]
fn the_stack_mapping_is_stack() {
    for name in names("process") {
        mappings_are(name, &["Stack"], |m| m.name == "[stack]");
    }
}

#[test]
fn the_vdso_is_vdso() {
    for name in no_guests() {
        mappings_are(name, &["Vdso"], |m| m.name == "[vdso]");
    }
}

#[test]
fn libraries_are_images() {
    // qemu dumps no page of any program file's headers and no list of files:
    // nothing in that core says what is a library.
    for name in no_guests() {
        // musl gives the rest of a library's last page to malloc (dynlink.c, reclaim_gaps).
        let kinds: &[&str] = if name.contains("musl") { &["Image", "Malloc"] } else { &["Image"] };
        mappings_are(name, kinds, |m| m.name.ends_with(".so") || m.name.contains(".so."));
    }
}

#[test]
fn objects_of_the_managed_heap_are_those_the_program_made() {
    for name in some(Case::is_dotnet) {
        let markers = &real::truth(name).all["markers"];
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let stat = |args: &[&str]| {
            let out = run(["heapstat", "--json"].into_iter().chain(args.iter().copied()).chain([core]));
            out.exits(0);
            out.json()
        };
        let heap = stat(&[]);
        let types = rows(&heap, "types");
        // The program's own class, and the strings that its objects hold.
        assert!(types.iter().any(|t| t["count"] == markers["nodes"]), "{name}");
        // 24 bytes of head.
        let array = markers["big_byte_array_len"].as_u64().unwrap() + 24;
        let large = stat(&["--min", &array.to_string(), "--max", &array.to_string()]);
        assert_eq!(rows(&large, "types").len(), 1, "{name}: {large}");
        assert_eq!((large["total"]["objects"].as_u64(), heap["lost"]["bytes"].as_u64()), (Some(1), Some(0)), "{name}");
    }
}

#[test]
fn managed_assemblies_are_images() {
    for name in some(Case::is_dotnet) {
        mappings_are(name, &["Image"], |m| m.name.ends_with(".dll"));
    }
}

#[test]
fn shared_memory_is_shared_or_a_second_view() {
    for name in native() {
        let kinds = ["SharedMemory", "DoubleMapped"];
        mappings_are(name, &kinds, |m| m.name.starts_with("/dev/shm/"));
        mappings_are(name, &kinds, |m| m.name.starts_with("/memfd:"));
        mappings_are(name, &kinds, |m| m.name.starts_with("/SYSV"));
    }
}

#[test]
fn of_two_views_of_a_memfd_one_is_double_mapped() {
    for name in native() {
        let truth = real::truth(name);
        let regions = answer("regions", name);
        for (a, b, len) in
            [("memfd_rw", "memfd_rx", 0x10000), ("memfd2_rw_off_0x10000", "memfd2_rx_off_0x10000", 0x8000)]
        {
            let mut sum: BTreeMap<String, u64> = BTreeMap::new();
            for marker in [a, b] {
                let at = hex(&truth.all["markers"][marker]);
                for (kind, n) in kinds_in(rows(&regions, "regions"), at, at + len) {
                    *sum.entry(kind).or_default() += n;
                }
            }
            let want = [("DoubleMapped", len), ("SharedMemory", len)].map(|(k, n)| (k.to_owned(), n));
            assert_eq!(sum, BTreeMap::from(want), "{name}: {a} and {b}");
        }
    }
}

/// Who reads a process that runs reads one view before a word is written and the other after it.
#[test]
fn a_view_is_one_although_a_word_was_written_meanwhile_and_none_with_other_bytes() {
    let name = "native-glibc-kernel";
    let markers = &real::truth(name).all["markers"];
    let [first, second] = ["memfd_rw", "memfd_rx"].map(|marker| hex(&markers[marker]));
    let kinds = |words: &[(u64, u64)]| {
        let out = run(["regions", "--json", real::patched(name, words).path().to_str().unwrap()]);
        let regions = out.json();
        let kinds = [first, second].map(|at| kinds_in(rows(&regions, "regions"), at, at + 0x10000));
        kinds.into_iter().flat_map(|kinds| kinds.into_keys()).collect::<BTreeSet<_>>()
    };
    assert_eq!(kinds(&[(second + 0x1008, 0x5ec2e7)]), ["DoubleMapped", "SharedMemory"].map(str::to_owned).into());
    let others: Vec<(u64, u64)> = (0..0x10000 / 8).map(|i| (second + 8 * i, 0x5ec2e7 + i)).collect();
    assert_eq!(kinds(&others), ["SharedMemory".to_owned()].into());
}

#[test]
fn data_files_are_mapped_files() {
    for name in native() {
        mappings_are(name, &["MappedFile"], |m| m.name.contains("/sample.dat") || m.name.contains("/deleted.dat"));
    }
}

#[test]
fn a_reserve_is_no_access_and_what_was_committed_of_it_is_not() {
    let name = "native-glibc-kernel";
    let truth = real::truth(name);
    let regions = answer("regions", name);
    let reserve = hex(&truth.all["markers"]["prot_none_reserve"]);
    let committed = hex(&truth.all["markers"]["prot_none_reserve_committed"]);
    let kinds = |start, end| kinds_in(rows(&regions, "regions"), start, end).into_keys().collect::<Vec<_>>();
    assert_eq!(kinds(reserve, committed), ["NoAccess"]);
    assert_eq!(kinds(committed, committed + 0x10000), ["AnonRW"]);
    assert_eq!(kinds(committed + 0x10000, committed + 0xf0_0000), ["NoAccess"]);
}

#[test]
fn every_mapping_of_the_kernel_core_is_in_the_map() {
    for name in ["native-glibc-kernel", "dotnet31-kernel"] {
        let regions = answer("regions", name);
        for m in real::truth(name).maps.iter().filter(|m| m.name != "[stack]") {
            let known: u64 = kinds_in(rows(&regions, "regions"), m.start, m.end).values().sum();
            assert_eq!(known, m.end - m.start, "{name}: {m:?}");
        }
    }
}

#[test]
fn info_tells_command_line_environment_and_signal() {
    let native = &answer("info", "native-glibc-kernel")["process"];
    assert_eq!((&native["program"], &native["arguments"]), (&"native".into(), &3.into()));
    assert_eq!(native["executable"], "/tmp/lab/native");
    assert_eq!(native["signal"]["number"], 11);
    assert_eq!(native["signal"]["address"], "0x10");
    let truth = real::truth("native-glibc-kernel");
    let crashed = truth.all["markers"]["workers"].as_array().unwrap().iter().find(|w| w["name"] == "w-big").unwrap();
    assert_eq!(native["crash_thread"], crashed["tid"]);
    for name in some(Case::is_dotnet) {
        let process = &answer("info", name)["process"];
        assert_eq!(process["program"], "dotnet", "{name}");
        assert!(process["command_line"].is_null() && process["command_line_withheld"] == true, "{name}");
        let names = process["environment"].as_array().unwrap();
        assert!(names.iter().any(|n| n == "COMPlus_DefaultStackSize"), "{name}: {names:?}");
        // Values are the user's business until asked for.
        assert!(names.iter().all(|n| !n.as_str().unwrap().contains('=')), "{name}: {names:?}");
        let out = run(["info", "--show-data", "--json", real::plain(name).to_str().unwrap()]).json();
        let line = out["process"]["command_line"].as_array().unwrap();
        let line: Vec<_> = line.iter().map(|a| a.as_str().unwrap()).collect();
        assert!(line[0].ends_with("dotnet") && line[1].ends_with(".dll"), "{name}: {line:?}");
        assert_eq!(process["arguments"], line.len() - 1, "{name}");
        let values = out["process"]["environment"].as_array().unwrap();
        assert!(values.iter().any(|n| n == "COMPlus_DefaultStackSize=80000"), "{name}: {values:?}");
    }
}

#[test]
fn info_tells_musl_from_glibc() {
    for (name, libc) in [("native-musl-gcore", "musl"), ("native-glibc-kernel", "glibc")] {
        let answer = answer("info", name);
        let facts = rows(&answer["process"], "os");
        let told: Vec<&str> =
            facts.iter().filter(|f| f["what"] == "libc").map(|f| f["value"].as_str().unwrap()).collect();
        assert_eq!(told, [libc], "{name}");
    }
}

#[test]
fn a_signal_that_was_never_delivered_is_not_told() {
    // createdump was run on a live process; it writes SIGABRT into every
    // thread's pr_cursig, crash or not, so that alone proves no signal.
    let process = &answer("info", "dotnet31-createdump")["process"];
    assert!(process["signal"].is_null(), "{}", process["signal"]);
    assert!(process["crash_thread"].is_null(), "{}", process["crash_thread"]);
    // The kernel's core of the same program did get one, and its NT_SIGINFO says so.
    let process = &answer("info", "dotnet31-kernel")["process"];
    assert_eq!(process["signal"]["name"], "SIGABRT");
    let truth = real::truth("dotnet31-kernel");
    let managed = truth.all["managed_threads"].as_object().unwrap();
    let aborted = managed.iter().find(|(_, name)| *name == "small-event").unwrap().0;
    assert_eq!(process["crash_thread"].to_string(), *aborted);
}
