//! Who points at memory: synthetic cores in which every pointer is known, and
//! a real one whose blocks its process told.

use std::collections::BTreeMap;

use crate::support::builder::{CoreBuilder, Load, small_core_with};
use crate::support::notes;
use crate::support::real;
use crate::support::run::run;
use serde_json::Value;

const STACK: u64 = 0x7000_0000_0000;
const SP: u64 = STACK + 0x1f00;
const BLOCKS: u64 = 0x7100_0000_0000;
const OWNER: u64 = 0x7200_0000_0000;
const PAGE: u64 = 4096;

/// Eight blocks of two pages in one mapping, all filled with 0x14 but the last;
/// a table of their starts; a stack with one live pointer and one left over.
fn leak() -> CoreBuilder {
    let mut blocks = vec![0x14; 16 * PAGE as usize];
    blocks[15 * PAGE as usize..].iter_mut().zip(b"letters in lines\n".iter().cycle()).for_each(|(to, b)| *to = *b);
    let mut owner = vec![0; PAGE as usize];
    for i in 0..8 {
        put(&mut owner, 0x100 + 8 * i, BLOCKS + 2 * PAGE * i as u64);
    }
    let mut stack = vec![0; 2 * PAGE as usize];
    put(&mut stack, 0x1f10, BLOCKS + 0x10);
    put(&mut stack, 0x1000, BLOCKS + 0x20);
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(77, 0, SP, 0x40_0100, 0))
        .load(Load::at(STACK).bytes(stack))
        .load(Load::at(BLOCKS).bytes(blocks))
        .load(Load::at(OWNER).bytes(owner))
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn answer(args: &[&str], core: &CoreBuilder) -> Value {
    let file = core.write();
    let mut all = args.to_vec();
    all.push(file.path().to_str().unwrap());
    let out = run(all);
    out.is_sound();
    out.json()
}

fn hex(v: u64) -> String {
    format!("{v:#x}")
}

#[test]
fn each_pointer_is_listed_once_with_what_it_is_of() {
    let v = answer(&["refs", "--json", "--length", "4096", &hex(BLOCKS)], &leak());
    let rows: Vec<(&str, &str, u64)> = v["refs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["from"].as_str().unwrap(), r["address"].as_str().unwrap(), r["offset"].as_u64().unwrap()))
        .collect();
    let (live, table, dead) = (hex(STACK + 0x1f10), hex(OWNER + 0x100), hex(STACK + 0x1000));
    assert_eq!(rows, [("stack", &*live, 0x10), ("AnonRW", &*table, 0), ("stack (left over)", &*dead, 0x20)]);
    assert_eq!((&v["total"], &v["inside"]), (&3.into(), &0.into()));
    assert_eq!(v["refs"][0]["thread"], 77);
}

#[test]
fn a_register_that_points_there_is_told() {
    let v = answer(&["refs", "--json", "0x400100"], &leak());
    assert_eq!(v["refs"][0]["from"], "register");
    assert_eq!(v["refs"][0]["register"], "rip");
    assert_eq!(v["total"], 1);
}

#[test]
fn nobody_points_there() {
    let file = leak().write();
    let out = run(["refs", &hex(BLOCKS + 0x30), file.path().to_str().unwrap()]);
    out.is_sound();
    assert_eq!(out.code, Some(1));
    assert!(out.stdout.contains("none found"), "{}", out.stdout);
}

#[test]
fn words_within_the_target_are_not_counted_as_its_owners() {
    let mut blocks = vec![0; PAGE as usize];
    put(&mut blocks, 0x40, BLOCKS + 0x80);
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(77, 0, SP, 0x40_0100, 0))
        .load(Load::at(STACK).bytes(vec![0; 2 * PAGE as usize]))
        .load(Load::at(BLOCKS).bytes(blocks));
    let v = answer(&["refs", "--json", "--region", &hex(BLOCKS)], &core);
    assert_eq!((&v["total"], &v["inside"]), (&0.into(), &1.into()));
    assert_eq!((&v["target"]["what"], &v["target"]["end"]), (&"region".into(), &hex(BLOCKS + PAGE).into()));
}

#[test]
fn blocks_in_one_mapping_are_told_apart_by_the_pointers_to_them() {
    let v = answer(&["anon", "--json"], &leak());
    let first = &v["clusters"][0];
    assert_eq!((&first["size"], &first["count"]), (&8192.into(), &7.into()));
    assert_eq!((&first["content"], &first["fill"]), (&"fill".into(), &"0x14".into()));
    assert_eq!((&first["example"], &first["borders"]), (&hex(BLOCKS).into(), &"pointers".into()));
    let owner = &first["owners"][0];
    assert_eq!((&owner["from"], &owner["blocks"]), (&"AnonRW".into(), &7.into()));
    assert_eq!(owner["example"], hex(OWNER + 0x100));
    // Half of the last one is letters.
    let mixed = v["clusters"].as_array().unwrap().iter().find(|c| c["size"] == 8192 && c["count"] == 1).unwrap();
    assert_eq!((&mixed["fill"], &mixed["text_percent"]), (&Value::Null, &50.into()));
}

#[test]
fn a_large_pattern_is_the_first_finding_of_summary() {
    let (size, count) = (8 << 20, 9);
    let mut owner = vec![0; PAGE as usize];
    for i in 0..count {
        put(&mut owner, 8 * i, BLOCKS + (size * i) as u64);
    }
    // Pointers that summary looks at stand in stacks, heaps and module data.
    let mut stack = owner;
    stack.resize(2 * PAGE as usize, 0);
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(77, 0, STACK, 0x40_0100, 0))
        .load(Load::at(STACK).bytes(stack))
        .load(Load::at(BLOCKS).bytes(vec![0x5a; size * count]));
    let v = answer(&["summary", "--json"], &core);
    assert_eq!(v["findings"][0]["id"], "anonymous-blocks");
    let text = v["findings"][0]["text"].as_str().unwrap();
    // They are one mapping, so what parts them is said.
    // Of 2,048 pages of each block, 64 are read.
    let told = "9 equal blocks of 8 MiB (72 MiB in all), byte 0x5a in the 64 sampled pages of each, delimited by the \
                pointers to them: ";
    assert!(text.starts_with(told), "{text}");
}

/// The same program with glibc, with musl and with jemalloc.
const LEAKS: [&str; 3] = ["native-leaks", "musl-leaks", "jemalloc-leaks"];

/// The same with tcmalloc. What the second thread did last leaves a pointer to one of the lost blocks right below its stack
/// pointer, where a function that calls none may keep what it needs.
const TCMALLOC: &str = "tcmalloc-leaks";

/// Address and usable size of the blocks that the process told to be `what`.
fn told(name: &str, what: &[&str]) -> BTreeMap<String, u64> {
    let truth = real::own_report(name);
    let blocks = truth["blocks"].as_array().unwrap().iter();
    let these = blocks.filter(|b| what.contains(&b["what"].as_str().unwrap()));
    these.map(|b| (b["address"].as_str().unwrap().to_owned(), b["usable"].as_u64().unwrap())).collect()
}

const LOST: &str = "lost";
const HELD: &str = "lost, held by a lost one";

#[test]
fn leaked_blocks_are_those_that_the_process_lost_and_no_others() {
    for name in LEAKS {
        let core = real::plain(name);
        let v = run(["leaks", "--json", "--blocks", core.to_str().unwrap()]).json();
        let rows = v["blocks"].as_array().unwrap();
        let found = |direct: bool| -> BTreeMap<String, u64> {
            let these = rows.iter().filter(|r| r["direct"] == direct);
            these.map(|r| (r["address"].as_str().unwrap().to_owned(), r["size"].as_u64().unwrap())).collect()
        };
        let chunk = |(a, usable): (String, u64)| match name {
            // A chunk is what can be used of it, and a word or, with a mapping of its own, two.
            "native-leaks" => (a, usable + if usable > 128 << 10 { 16 } else { 8 }),
            // All of a block can be used.
            "jemalloc-leaks" => (a, usable),
            // Slots are of the next size class, and mappings of whole pages.
            _ => (a, [(5000, 5440), (400_000, 401_392), (200, 240)].into_iter().find(|s| s.0 == usable).unwrap().1),
        };
        assert_eq!(found(true), told(name, &[LOST]).into_iter().map(chunk).collect(), "{name}");
        assert_eq!(found(false), told(name, &[HELD]).into_iter().map(chunk).collect(), "{name}");
        let lost: u64 = told(name, &[LOST, HELD]).into_iter().map(|b| chunk(b).1).sum();
        assert_eq!((&v["leaked"]["bytes"], &v["complete"]), (&lost.into(), &true.into()), "{name}");
        let sum = |key: &str| v["leaked"][key].as_u64().unwrap() + v["reachable"][key].as_u64().unwrap();
        let used = (v["used"]["count"].as_u64(), v["used"]["bytes"].as_u64());
        assert_eq!(used, (Some(sum("count")), Some(sum("bytes"))), "{name}");
    }
}

#[test]
fn every_block_is_found_by_any_address_within_it() {
    for name in LEAKS.into_iter().chain([TCMALLOC]) {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        for (address, usable) in told(name, &["kept", LOST, HELD]).into_iter().step_by(17) {
            let start = real::hex(&address.clone().into());
            for at in [start, start + usable / 2, start + usable - 1] {
                let v = run(["whatis", "--json", &hex(at), core]).json();
                assert_eq!(v["block"]["start"], address, "{name} {at:#x}");
                assert_eq!((&v["block"]["size"], &v["block"]["used"]), (&usable.into(), &true.into()), "{at:#x}");
            }
        }
    }
}

#[test]
fn blocks_of_tcmalloc_are_those_that_the_process_knows() {
    let core = real::plain(TCMALLOC);
    let v = run(["malloc", "--json", "--chunks", core.to_str().unwrap()]).exits(0).json();
    let chunks = v["chunks"].as_array().unwrap().iter().filter(|c| c["state"] == "used");
    let used: BTreeMap<&str, u64> =
        chunks.map(|c| (c["address"].as_str().unwrap(), c["size"].as_u64().unwrap())).collect();
    let told = told(TCMALLOC, &["kept", LOST, HELD]);
    for (address, usable) in &told {
        assert_eq!(used.get(address.as_str()), Some(usable), "{address}");
    }
    // Beside them the C library has some of its own.
    assert!(used.len() < told.len() + 10, "{}", used.len());
    let heap = &v["others"][0];
    assert_eq!((&heap["name"], &heap["used"]["count"]), (&"tcmalloc".into(), &used.len().into()));
    let leaked = run(["leaks", "--json", "--blocks", core.to_str().unwrap()]).json();
    let leaked: Vec<&str> =
        leaked["blocks"].as_array().unwrap().iter().map(|b| b["address"].as_str().unwrap()).collect();
    assert!(self::told(TCMALLOC, &[LOST]).keys().all(|lost| leaked.contains(&lost.as_str())));
    assert!(self::told(TCMALLOC, &["kept"]).keys().all(|kept| !leaked.contains(&kept.as_str())));
}

#[test]
fn who_keeps_a_block_is_told_and_a_lost_one_has_nobody() {
    for name in LEAKS {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let (kept, lost) = (told(name, &["kept"]), told(name, &[LOST]));
        for address in kept.keys() {
            let v = run(["refs", "--json", address, core]).json();
            let from: Vec<&str> = v["refs"].as_array().unwrap().iter().map(|r| r["from"].as_str().unwrap()).collect();
            let known = ["Image", "Malloc", "Allocator"];
            assert!(known.iter().any(|k| from.contains(k)), "{name} {address}: {from:?}");
        }
        // The stacks of jemalloc's caches still hold what they gave out.
        let lost = lost.keys().filter(|_| name != "jemalloc-leaks");
        for address in lost.step_by(11) {
            let out = run(["refs", address, core]);
            assert_eq!(out.code, Some(1), "{name} {address}: {}", out.stdout);
        }
    }
}

#[test]
fn leaks_says_where_it_looked_at_nothing() {
    let other = small_core_with("/usr/lib/libtcmalloc.so.4").write();
    let cores =
        [(other.path().to_owned(), "tcmalloc"), (real::plain("go-kernel"), "no heap of the C library's malloc")];
    for (core, allocator) in cores {
        let out = run(["leaks", "--json", core.to_str().unwrap()]);
        let answer = out.exits(1).json();
        assert_eq!(answer["complete"], false, "{allocator}");
        assert!(out.stderr.contains("no blocks were checked") && out.stderr.contains(allocator), "{}", out.stderr);
    }
}
