//! glibc's malloc: heaps made by hand in the form of each release, damaged and
//! hostile ones, and a recorded core with what its own program said.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::support::builder::{small_core, small_core_with};
use crate::support::malloc_builder::{ARENA, Fake, HEAP, TID, VERSIONS};
use crate::support::run::{program, run};
use crate::support::{elf, real};
use serde_json::Value;

fn malloc(fake: &Fake, status: i32) -> Value {
    let core = fake.core().write();
    let out =
        program(["malloc", "--chunks", "--json", core.path().to_str().unwrap()]).within(Duration::from_secs(20)).go();
    out.exits(status);
    let v = out.json();
    adds_up(&v);
    v
}

/// What every answer must satisfy: each arena's bytes are all accounted for.
#[track_caller]
fn adds_up(v: &Value) {
    for a in v["arenas"].as_array().unwrap() {
        let parts = ["used_bytes", "free_bytes", "top", "trimmed", "overhead", "foreign", "unknown"];
        let sum: u64 = parts.iter().map(|p| a[p].as_u64().unwrap()).sum();
        assert_eq!(a["committed"], sum, "{a}");
    }
    let t = &v["total"];
    let parts = ["used_bytes", "free_bytes", "top", "trimmed", "overhead", "foreign", "unknown"];
    assert_eq!(t["committed"], parts.iter().map(|p| t[p].as_u64().unwrap()).sum::<u64>());
}

fn chunks(v: &Value) -> Vec<(u64, u64, String, String)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let rows = v["chunks"].as_array().unwrap().iter();
    rows.map(|c| (real::hex(&c["address"]), c["size"].as_u64().unwrap(), text(&c["state"]), text(&c["where"])))
        .collect()
}

#[test]
fn each_release_has_its_form() {
    for version in VERSIONS {
        let fake = Fake::new(version);
        let v = malloc(&fake, 0);
        let expected: Vec<_> = fake.expected.iter().map(|&(a, n, s, w)| (a, n, s.to_owned(), w.to_owned())).collect();
        assert_eq!(chunks(&v), expected, "{}", version.name);
        assert_eq!(v["mmapped"]["complete"], true, "{}", version.name);
        assert_eq!(v["params"]["mmapped_mem"], 0x31000, "{}", version.name);
        let arena = &v["arenas"][0];
        assert_eq!(real::hex(&arena["address"]), ARENA, "{}", version.name);
        assert_eq!(arena["attached_threads"], if version.threads { 1.into() } else { Value::Null });
        if version.tcache.0 > 0 {
            assert_eq!(v["tcaches"][0]["tid"], TID, "{}", version.name);
            assert_eq!(v["tcaches"][0]["count"], 3);
        }
    }
}

#[test]
fn the_summary_divides_malloc_alike() {
    for version in VERSIONS {
        let fake = Fake::new(version);
        let total = &malloc(&fake, 0)["total"];
        let core = fake.core().write();
        let v = run(["summary", "--json", core.path().to_str().unwrap()]).json();
        let kind = v["kinds"].as_array().unwrap().iter().find(|k| k["kind"] == "Malloc").unwrap();
        let n = |v: &Value| v.as_u64().unwrap();
        let split = &v["malloc"];
        let parts = ["used", "free", "overhead", "unknown"].map(|p| n(&split[p]));
        assert_eq!(parts.iter().sum::<u64>(), n(&kind["size"]), "{}", version.name);
        assert_eq!(parts[0], n(&total["used_bytes"]), "{}", version.name);
        assert_eq!(parts[1], n(&total["free_bytes"]) + n(&total["top"]), "{}", version.name);
        assert_eq!(parts[3], 0, "{}", version.name);
    }
}

#[test]
fn past_a_damaged_chunk_the_walk_goes_on() {
    for version in VERSIONS {
        for size in [0x4141_4141_4141_4141u64, 0, 7, !15, 0x21000 << 20, 0x18] {
            let mut fake = Fake::new(version);
            let (at, lost) = (fake.damaged, fake.expected.iter().find(|e| e.0 == fake.damaged + 16).unwrap().1);
            fake.put(at + 8, size);
            let v = malloc(&fake, 4);
            let got = chunks(&v);
            let rest = fake.expected.iter().filter(|e| e.0 != at + 16);
            for &(a, n, s, w) in rest {
                assert!(got.contains(&(a, n, s.into(), w.into())), "{}: {a:#x} {w} after size {size:#x}", version.name);
            }
            assert_eq!(v["lost"]["bytes"], lost, "{} {size:#x}", version.name);
            assert_eq!(v["lost"]["places"][0]["start"], format!("{at:#x}"));
        }
    }
}

#[test]
fn circles_end() {
    for version in VERSIONS {
        // The thread's cache: the second block leads back to the first.
        if version.tcache.0 > 0 {
            let mut fake = Fake::new(version);
            let (first, second) = (fake.cached[0] + 16, fake.cached[1] + 16);
            let link = if version.safe { (second >> 12) ^ first } else { first };
            fake.put(second, link);
            malloc(&fake, 4);
        }
        if version.fastbins {
            let mut fake = Fake::new(version);
            let (first, place) = (fake.fast[0], fake.fast[1] + 16);
            fake.put(place, if version.safe { (place >> 12) ^ first } else { first });
            let v = malloc(&fake, 4);
            assert!(v["warnings"].to_string().contains("fastbin 2"), "{}: {}", version.name, v["warnings"]);
        }
        // A bin's chunk that leads to itself.
        let mut fake = Fake::new(version);
        let binned = fake.binned;
        fake.put(binned + 16, binned);
        let core = fake.core().write();
        let out = program(["malloc", "--json", core.path().to_str().unwrap()]).within(Duration::from_secs(20)).go();
        out.is_sound();
        // The ring of arenas: into the heap, and back to itself.
        let mut fake = Fake::new(version);
        fake.put(ARENA + version.start + 2048, HEAP + 0x100);
        fake.put(HEAP + 0x100 + version.start + 2048, HEAP + 0x100);
        let core = fake.core().write();
        program(["malloc", "--json", core.path().to_str().unwrap()]).within(Duration::from_secs(20)).go().is_sound();
    }
}

#[test]
fn lying_sizes_of_the_arena_are_no_panic() {
    for version in VERSIONS {
        for value in [0u64, 1, 0x10, 0x1000, HEAP, u64::MAX, !15, 1 << 63, HEAP + 0x20ff0] {
            for field in [-16i64, -8, -96, 2048, 2064, 2072, 2080] {
                let mut fake = Fake::new(version);
                fake.put((ARENA + version.start).wrapping_add_signed(field), value);
                for command in ["malloc", "summary"] {
                    let core = fake.core().write();
                    let out = program([command, "--json", core.path().to_str().unwrap()])
                        .within(Duration::from_secs(20))
                        .go();
                    out.is_sound();
                    if command == "malloc" {
                        adds_up(&out.json());
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_not_dumped_is_unknown() {
    // Only the heap's first page is there, and its chunks go on behind it.
    let fake = Fake::new(VERSIONS[3]);
    let mut cut = fake.core().build();
    // p_filesz of the heap's PT_LOAD.
    let at = (0..64).map(|i| 64 + 56 * i).find(|&p| cut[p + 16..p + 24] == HEAP.to_le_bytes()).unwrap();
    cut[at + 32..at + 40].copy_from_slice(&0x1000u64.to_le_bytes());
    let file = crate::support::builder::file_with(&cut);
    let out = program(["malloc", "--chunks", "--json", file.path().to_str().unwrap()]).go();
    let v = out.json();
    adds_up(&v);
    let a = &v["arenas"][0];
    let last = fake.expected.iter().rfind(|e| e.3 != "mmapped" && e.0 - 16 < HEAP + 0x1000).unwrap();
    let behind = HEAP + 0x21000 - (last.0 - 16 + last.1);
    assert_eq!(a["unknown"].as_u64().unwrap(), behind + last.1, "{a}");
}

#[test]
fn without_an_allocator_that_is_said() {
    let core = small_core().write();
    let out = run(["malloc", core.path().to_str().unwrap()]);
    out.exits(1);
    assert!(out.stderr.contains("no known allocator found"), "{}", out.stderr);
    let other = small_core_with("/usr/lib/libtcmalloc.so.4").write();
    let out = run(["malloc", other.path().to_str().unwrap()]);
    out.exits(1);
    assert!(out.stderr.contains("the blocks of tcmalloc are not read"), "{}", out.stderr);
}

/// Names that programs rely on; the sums of the two lists are those of the total.
#[test]
fn the_contract() {
    let core = real::plain("native-malloc-gcore");
    let v = run(["malloc", "--json", core.to_str().unwrap()]).json();
    assert!(v["chunks"].is_null(), "chunks are listed where they are asked for");
    let n = |v: &Value| v.as_u64().unwrap();
    let sum = |list: &str, field: &str| v[list].as_array().unwrap().iter().map(|r| n(&r[field])).sum::<u64>();
    assert_eq!(sum("sizes", "used"), n(&v["total"]["used"]));
    assert_eq!(sum("sizes", "used_bytes"), n(&v["total"]["used_bytes"]));
    assert_eq!(sum("sizes", "free"), n(&v["total"]["free"]));
    assert_eq!(sum("sizes", "free_bytes"), n(&v["total"]["free_bytes"]));
    assert_eq!(sum("clusters", "count"), n(&v["total"]["used"]));
    assert_eq!(sum("clusters", "bytes"), n(&v["total"]["used_bytes"]));
    for s in v["sizes"].as_array().unwrap() {
        assert!(n(&s["size_class"]).is_power_of_two());
    }
    for c in v["clusters"].as_array().unwrap() {
        for field in ["size", "count", "bytes", "first_word", "fill", "example", "kind"] {
            assert!(c.get(field).is_some(), "{field} in {c}");
        }
    }
    // 80 blocks of 2,500 bytes that begin with 0x06.
    let blocks = v["clusters"].as_array().unwrap().iter().find(|c| c["size"] == 2512).unwrap();
    assert_eq!((&blocks["count"], &blocks["first_word"]), (&80.into(), &"0x606060606060606".into()));
    let few = run(["malloc", "--json", "--limit", "2", core.to_str().unwrap()]).json();
    assert_eq!(few["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(few["clusters_total"].as_u64().unwrap() as usize, v["clusters"].as_array().unwrap().len());
}

/// A kernel that is told so leaves the headers of libraries out (coredump_filter without
/// bit 4), and libc's data is all there is of it.
#[test]
fn the_main_arena_is_found_without_libcs_headers() {
    for name in ["native-malloc-gcore", "native-malloc-glibc243", "native-glibc-kernel", "native-leaks"] {
        let ask = |command: &str, core: &Path| run([command, "--json", core.to_str().unwrap()]).json();
        let libc = |info: &Value| {
            let modules = info["modules"].as_array().unwrap();
            modules.iter().find(|m| m["path"].as_str().unwrap().ends_with("/libc.so.6")).unwrap().clone()
        };
        let whole = real::plain(name);
        let base = real::hex(&libc(&ask("info", &whole))["base"]);
        let mut bytes = real::bytes(name);
        let load = *elf::read(&bytes).loads.iter().find(|l| base.wrapping_sub(l.vaddr) < l.filesz).unwrap();
        let at = (load.offset + base - load.vaddr) as usize;
        bytes[at..at + 4096].fill(0);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        real::write_sparse(file.as_file_mut(), &bytes);
        assert!(libc(&ask("info", file.path()))["kind"].is_null(), "{name}: its headers are still there");
        let (whole, without) = (ask("malloc", &whole), ask("malloc", file.path()));
        adds_up(&without);
        for part in ["arenas", "total", "mmapped", "params"] {
            assert_eq!(without[part], whole[part], "{name}: {part}");
        }
    }
}

/// The recorded program's own list of blocks, and glibc's counts of it.
#[test]
fn a_real_heap_as_its_program_knew_it() {
    for name in ["native-malloc-gcore", "native-malloc-glibc243"] {
        is_as_its_program_knew_it(name);
    }
}

fn is_as_its_program_knew_it(name: &str) {
    let core = real::plain(name);
    let truth = real::own_report(name);
    let out = run(["malloc", "--chunks", "--json", core.to_str().unwrap()]);
    out.exits(0);
    let v = out.json();
    adds_up(&v);
    let got: BTreeMap<u64, (u64, String, String)> = chunks(&v).into_iter().map(|(a, n, s, w)| (a, (n, s, w))).collect();
    let blocks = truth["blocks"].as_array().unwrap();
    let live: Vec<u64> = blocks.iter().filter(|b| b[2] == true).map(|b| real::hex(&b[0])).collect();
    assert!(live.len() > 250);
    for b in blocks {
        let at = real::hex(&b[0]);
        if b[2] == true {
            let (size, state, kept) = &got[&at];
            // From 2.43 on a chunk with a mapping of its own has room behind it, as all others.
            let header = if kept == "mmapped" && name != "native-malloc-glibc243" { 16 } else { 8 };
            assert_eq!((size - header, state.as_str()), (b[1].as_u64().unwrap(), "used"), "{b}");
        } else if !live.contains(&at) {
            // Joined with a neighbour, or free under its own address; or given
            // out again to the C library, which is in no list of the program's.
            let used = got.get(&at).filter(|(_, state, _)| state == "used");
            assert!(used.is_none_or(|(size, ..)| *size == 288), "{b} is called used: {used:?}");
        }
    }
    // mallinfo2 counts caches as used, and all of the break.
    let n = |v: &Value| v.as_u64().unwrap();
    let arenas = v["arenas"].as_array().unwrap();
    let sum = |f: &dyn Fn(&Value) -> u64| arenas.iter().map(f).sum::<u64>();
    let cached = sum(&|a| n(&a["free_by"]["tcache"]["bytes"]));
    let info = &truth["mallinfo2"];
    assert_eq!(n(&info["fordblks"]), sum(&|a| n(&a["free_bytes"]) + n(&a["top"])) - cached);
    assert_eq!(n(&info["uordblks"]), sum(&|a| n(&a["used_bytes"]) + n(&a["overhead"]) + n(&a["foreign"])) + cached);
    assert_eq!((&info["hblks"], &info["hblkhd"]), (&v["mmapped"]["count"], &v["mmapped"]["bytes"]));
    assert_eq!(arenas.len(), 3);
    assert!(n(&v["total"]["foreign"]) >= 1000);
}

fn find<'v>(v: &'v Value, id: &str) -> Option<&'v Value> {
    v["findings"].as_array().unwrap().iter().find(|f| f["id"] == id)
}

fn ask(command: &str, fake: &Fake) -> Value {
    let core = fake.core().write();
    run([command, "--json", core.path().to_str().unwrap()]).json()
}

/// The kernel returns zeros for pages that `malloc_trim` gave back, so a second call would return nothing.
#[test]
fn free_pages_that_the_kernel_took_back_are_free_no_more() {
    for written in [0, 80 << 20] {
        let mut fake = Fake::new(VERSIONS[3]);
        // The heap ends at a page, as every real one does.
        let free = (96 << 20) - (fake.top + 0x400) % 0x1000;
        let block = fake.add_blocks(1, 0x400, free)[0];
        let first = (block + 0x2000).next_multiple_of(0x1000);
        fake.poke(first, &vec![0x5a; written]);
        let v = malloc(&fake, 0);
        assert_eq!(v["total"]["trimmable"], written, "{}", v["total"]);
        assert_eq!(v["total"]["top"], free);
        let v = ask("summary", &fake);
        let told = find(&v, "malloc-mostly-free").map(|f| f["bytes"].as_u64().unwrap());
        // The first page of the top chunk has its header.
        let expected = (written > 0).then_some(written as u64);
        assert_eq!(told.map(|bytes| bytes >> 20), expected.map(|bytes| bytes >> 20), "{v}");
    }
}

#[test]
fn blocks_that_were_never_written_are_no_finding() {
    let (count, size) = (128, 256 << 10);
    let mut fake = Fake::new(VERSIONS[3]);
    let blocks = fake.add_blocks(count, size, 0x2000);
    let cluster = |v: &Value| v["clusters"].as_array().unwrap().iter().find(|c| c["size"] == size).unwrap().clone();
    let v = ask("malloc", &fake);
    assert_eq!(cluster(&v)["bytes"], count * size);
    // The pages with the headers, of which each block has one or two.
    let written = cluster(&v)["written"].as_u64().unwrap();
    assert!(written > 0 && written <= 2 * count * 0x1000, "{written}");
    assert_eq!(find(&v, "malloc-equal-blocks"), None);
    for &block in &blocks {
        fake.poke(block, &vec![0x07; 20_000]);
    }
    let v = ask("malloc", &fake);
    assert_eq!(find(&v, "malloc-equal-blocks"), None, "2.5 MiB are written");
    for &block in &blocks {
        fake.poke(block + 20_000, &vec![0x08; 200_000]);
    }
    let v = ask("malloc", &fake);
    let text = find(&v, "malloc-equal-blocks").unwrap()["text"].as_str().unwrap();
    assert!(text.starts_with("128 malloc blocks of 262,144 bytes (32 MiB in all, 27"), "{text}");
    assert!(text.contains(", each beginning with 4 KiB of byte 0x07"), "only their first bytes are alike: {text}");
}

/// Nodes of lists: the last one of each begins with null.
#[test]
fn the_last_nodes_of_lists_are_counted_with_the_others() {
    let (count, size) = (20_000, 0x400);
    let mut fake = Fake::new(VERSIONS[3]);
    let nodes = fake.add_blocks(count, size, 0x2000);
    for (i, &node) in nodes.iter().enumerate() {
        // Lists of two to five nodes.
        let next = if i % 7 < 4 { 0 } else { nodes[i - 1] };
        fake.put(node, next);
        fake.put(node + 8, i as u64 + 1);
    }
    let v = ask("malloc", &fake);
    let rows: Vec<u64> = v["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["size"] == size)
        .map(|c| c["count"].as_u64().unwrap())
        .collect();
    assert_eq!(rows, [count]);
    let text = find(&v, "malloc-equal-blocks").unwrap()["text"].as_str().unwrap();
    assert!(text.starts_with("20,000 malloc blocks of 1,024 bytes (19.53 MiB in all): "), "{text}");
}

/// two-libcs.c: the program has 2,000 blocks of 400 bytes and an array of 16,000, its plug-in 3,000 blocks of 700 and an
/// array of 24,000, each from a C library of its own.
#[test]
fn each_copy_of_the_c_library_has_a_heap() {
    let core = real::plain("two-libcs");
    let out = run(["malloc", "--chunks", "--json", core.to_str().unwrap()]);
    out.exits(0);
    let v = out.json();
    adds_up(&v);
    let names: Vec<&str> = v["allocators"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["glibc", "glibc"]);
    let arenas: Vec<u64> = v["arenas"].as_array().unwrap().iter().map(|a| real::hex(&a["address"])).collect();
    assert_eq!(arenas.len(), 2);
    assert_eq!(v["arenas"][0]["main"], true);
    let used = |arena: u64, sizes: [u64; 2]| {
        let chunks = v["chunks"].as_array().unwrap().iter();
        let of = chunks.filter(|c| c["state"] == "used" && real::hex(&c["arena"]) == arena);
        of.filter(|c| sizes.contains(&c["size"].as_u64().unwrap())).count()
    };
    // A chunk has 8 bytes of header and is a multiple of 16.
    assert_eq!((used(arenas[0], [416, 416]), used(arenas[0], [16_016, 16_016])), (2_000, 1));
    assert_eq!((used(arenas[1], [720, 720]), used(arenas[1], [24_016, 24_016])), (3_000, 1));
    let v = run(["summary", "--json", core.to_str().unwrap()]).json();
    let split = ["used", "free", "overhead", "unknown"].map(|part| v["malloc"][part].as_u64().unwrap());
    assert!(split[0] > 2_000 * 400 + 3_000 * 700 && split[3] == 0, "{split:?}");
    let regions = run(["regions", "--json", core.to_str().unwrap()]).json();
    let brk = regions["regions"].as_array().unwrap().iter().find(|r| r["detail"] == "main heap (brk)").unwrap();
    assert_eq!((&brk["start"], &brk["end"]), (&"0x55970a337000".into(), &"0x55970a41e000".into()));
}

/// leaks.c with jemalloc preloaded: glibc serves nothing.
#[test]
fn each_allocator_has_its_own_sum() {
    let core = real::plain("jemalloc-leaks");
    let v = run(["malloc", "--json", core.to_str().unwrap()]).json();
    let n = |v: &Value| v.as_u64().unwrap();
    assert_eq!(n(&v["libc"]["used"]), 0);
    assert_eq!(v["others"][0]["used"]["bytes"], v["total"]["used_bytes"]);
    assert!(v["clusters"].as_array().unwrap().iter().all(|c| c["allocator"] == "jemalloc"));
    let v = run(["triage", "--json", core.to_str().unwrap()]).json();
    assert!(find(&v, "allocator").is_some());
    if let Some(malloc) = find(&v, "malloc") {
        assert!(malloc["text"].as_str().unwrap().starts_with("glibc's malloc: 0 B used in 0 blocks"), "{malloc}");
    }
}

/// Producers join neighbouring mappings, and then other memory may precede a chunk's mapping.
#[test]
fn a_chunk_behind_another_mapping_is_found_without_malloc_s_count() {
    let mut fake = Fake::new(VERSIONS[3]);
    fake.forget_counts();
    // The first mapping is no chunk any more.
    let (first, second) = (fake.expected[fake.expected.len() - 2].0, fake.expected[fake.expected.len() - 1]);
    fake.put(first - 8, 0x1234_5678);
    let v = malloc(&fake, 0);
    assert_eq!(v["params"], Value::Null);
    let mapped: Vec<_> = chunks(&v).into_iter().filter(|c| c.3 == "mmapped").collect();
    assert_eq!(mapped, [(second.0, second.1, second.2.to_owned(), second.3.to_owned())]);
}

/// createdump joined a thread's heap of 64 MiB with what precedes it, and its chunks were in no list.
#[test]
fn the_heap_of_an_arena_may_begin_inside_a_segment() {
    for version in VERSIONS {
        for before in [0, 0x1000, 0x8000] {
            let mut fake = Fake::new(version);
            let blocks = fake.add_thread_arena(before);
            let v = malloc(&fake, 0);
            let all = chunks(&v);
            for (at, size) in blocks {
                let expected = (at, size, "used".to_owned(), "used".to_owned());
                assert!(all.contains(&expected), "{}, {before:#x}: {at:#x}", version.name);
            }
            assert_eq!(v["arenas"].as_array().unwrap().len(), 2, "{}", version.name);
            assert_eq!(v["total"]["unknown"], 0, "{}", version.name);
        }
    }
}
