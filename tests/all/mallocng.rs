//! musl's malloc: recorded programs with what they said of their blocks, and the same with damaged metas and headers.
//! Offsets are restated here from musl's sources (src/malloc/mallocng/meta.h), not taken from the program's table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::support::real;
use crate::support::run::{Output, program, run};

const SLOTS: &str = "musl-slots";

fn n(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v}"))
}

/// What every answer must satisfy: all bytes are told once.
#[track_caller]
fn adds_up(v: &Value) {
    let t = &v["total"];
    let parts = ["used_bytes", "free_bytes", "overhead"].map(|p| n(&t[p]));
    assert_eq!(n(&t["committed"]), parts.iter().sum::<u64>(), "{t}");
    let sum = |list: &str, field: &str| v[list].as_array().unwrap().iter().map(|r| n(&r[field])).sum::<u64>();
    for field in ["used", "used_bytes", "free", "free_bytes"] {
        assert_eq!(sum("sizes", field), n(&t[field]), "{field}");
    }
    let classes = v["mallocng"]["classes"].as_array().unwrap();
    let of = |field: &str| classes.iter().map(|c| n(&c[field])).sum::<u64>();
    let mapped = n(&v["mmapped"]["count"]) - n(&v["mmapped"]["free"]);
    assert_eq!(of("used") + mapped, n(&t["used"]));
    for class in classes {
        assert_eq!(n(&class["used_bytes"]), n(&class["used"]) * n(&class["slot"]), "{class}");
        assert!(n(&class["asked"]) <= n(&class["used_bytes"]), "{class}");
    }
}

fn malloc(core: &std::path::Path) -> Output {
    program(["malloc", "--chunks", "--json", core.to_str().unwrap()]).within(Duration::from_secs(20)).go()
}

/// Blocks of an answer: address to state, and how many bytes were asked for.
fn chunks(v: &Value) -> BTreeMap<u64, (String, Option<u64>)> {
    let rows = v["chunks"].as_array().unwrap().iter();
    rows.map(|c| (real::hex(&c["address"]), (c["state"].as_str().unwrap().to_owned(), c["asked"].as_u64()))).collect()
}

/// All blocks that the program of `musl-slots` told, live and freed, with the size asked for.
fn told() -> (BTreeMap<u64, u64>, BTreeSet<u64>) {
    let truth = real::own_report(SLOTS);
    let rows = truth["blocks"].as_array().unwrap();
    let live: BTreeMap<u64, u64> = rows.iter().filter(|b| b[2] == true).map(|b| (real::hex(&b[0]), n(&b[1]))).collect();
    let freed = rows.iter().filter(|b| b[2] == false).map(|b| real::hex(&b[0]));
    let freed = freed.filter(|a| !live.contains_key(a)).collect();
    (live, freed)
}

#[test]
fn every_live_block_with_the_size_asked_for_and_no_freed_one() {
    let out = malloc(&real::plain(SLOTS));
    let v = out.exits(0).json();
    adds_up(&v);
    let (live, freed) = told();
    assert!(live.len() > 700 && freed.len() > 100, "{} {}", live.len(), freed.len());
    let used: BTreeMap<u64, u64> =
        chunks(&v).into_iter().filter(|(_, (s, _))| s == "used").map(|(at, (_, asked))| (at, asked.unwrap())).collect();
    // The program itself has no other block.
    assert_eq!(used, live);
    assert!(freed.iter().all(|at| !used.contains_key(at)));
    assert_eq!(n(&v["total"]["asked"]), live.values().sum::<u64>());
    assert_eq!((&v["mallocng"]["complete"], &v["mallocng"]["damaged"]), (&true.into(), &0.into()));
    assert!(n(&v["mallocng"]["nested"]) > 0, "groups in slots of others");
    assert_eq!(v["arenas"], Value::Array(Vec::new()));
    let allocators = v["allocators"].as_array().unwrap();
    assert_eq!(allocators.len(), 1, "{allocators:?}");
    assert_eq!((&allocators[0]["name"], &allocators[0]["walked"]), (&"musl".into(), &true.into()));
}

#[test]
fn the_summary_and_the_map_have_the_same_bytes() {
    for name in [SLOTS, "musl-leaks", "native-musl-gcore"] {
        let core = real::plain(name);
        let total = malloc(&core).json()["total"].clone();
        let v = run(["summary", "--json", core.to_str().unwrap()]).json();
        let kind = v["kinds"].as_array().unwrap().iter().find(|k| k["kind"] == "Malloc").unwrap();
        assert_eq!(kind["size"], total["committed"], "{name}");
        let split = &v["malloc"];
        assert_eq!((&split["used"], &split["free"]), (&total["used_bytes"], &total["free_bytes"]), "{name}");
        assert_eq!((&split["overhead"], &split["unknown"]), (&total["overhead"], &0.into()), "{name}");
    }
}

/// `malloc` and `info` name one C library, also where it is linked into the program.
#[test]
fn both_say_musl() {
    for name in [SLOTS, "musl-leaks", "native-musl-gcore"] {
        let core = real::plain(name);
        let info = run(["info", "--json", core.to_str().unwrap()]).json();
        let libcs: Vec<&Value> =
            info["process"]["os"].as_array().unwrap().iter().filter(|f| f["what"] == "libc").collect();
        assert_eq!(libcs.len(), 1, "{name}: {libcs:?}");
        assert_eq!(libcs[0]["value"], "musl", "{name}");
        let v = run(["malloc", "--json", core.to_str().unwrap()]).exits(0).json();
        assert_eq!(v["allocators"][0]["name"], "musl", "{name}");
    }
}

/// Any address in what was asked for leads to the block, and its slot's other bytes to none.
#[test]
fn a_block_is_found_by_its_first_and_last_byte() {
    let core = real::plain(SLOTS);
    let core = core.to_str().unwrap();
    let (live, _) = told();
    for (&at, &asked) in live.iter().filter(|(_, asked)| **asked > 0).step_by(61) {
        for byte in [at, at + asked - 1] {
            let v = run(["whatis", "--json", &format!("{byte:#x}"), core]).json();
            assert_eq!(real::hex(&v["block"]["start"]), at, "{byte:#x}");
            assert_eq!((&v["block"]["size"], &v["block"]["used"]), (&asked.into(), &true.into()), "{byte:#x}");
        }
    }
}

/// Bytes of the core as it lies in memory.
struct Memory {
    loads: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    fn of(name: &str) -> Memory {
        let bytes = std::fs::read(real::plain(name)).unwrap();
        let loads = crate::support::elf::read(&bytes).loads;
        let part = |at: u64, len: u64| bytes[at as usize..(at + len) as usize].to_vec();
        Memory { loads: loads.iter().map(|l| (l.vaddr, part(l.offset, l.filesz))).collect() }
    }

    fn u64(&self, at: u64) -> u64 {
        let (start, bytes) = self.loads.iter().find(|(s, b)| *s <= at && at < s + b.len() as u64).unwrap();
        let from = (at - start) as usize;
        u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap())
    }
}

/// The first area of metas, and the metas in it that are in use.
fn metas(memory: &Memory) -> (u64, Vec<u64>) {
    let v = run(["malloc", "--json", real::plain(SLOTS).to_str().unwrap()]).json();
    // x86_64 has no page size in the context.
    let area = memory.u64(real::hex(&v["mallocng"]["context"]) + 56);
    (area, (0..101).map(|i| area + 24 + 40 * i).filter(|m| memory.u64(m + 16) != 0).collect())
}

#[test]
fn damaged_metas_cost_their_group_and_no_more() {
    let memory = Memory::of(SLOTS);
    let (area, metas) = metas(&memory);
    assert!(metas.len() > 50);
    let whole = n(&malloc(&real::plain(SLOTS)).json()["mallocng"]["groups"]);
    let (first, other) = (metas[0], metas[1]);
    let bits = memory.u64(first + 32);
    let cases = [
        ("elsewhere", first + 16, memory.u64(other + 16)),
        ("nowhere", first + 16, 0x7fff_ffff_f000),
        ("no class", first + 32, bits & !(63 << 6) | 50 << 6),
        ("all pages", first + 32, bits | !0 << 12),
        ("most slots", first + 32, bits | 31),
        ("a cycle of areas", area + 8, area),
        ("an area elsewhere", area + 8, 0x1000),
        ("all of them", first + 32, u64::MAX),
    ];
    for (what, at, word) in cases {
        let core = real::patched(SLOTS, &[(at, word)]);
        let out = malloc(core.path());
        out.is_sound();
        let v = out.json();
        adds_up(&v);
        assert!(n(&v["mallocng"]["groups"]) <= whole, "{what}");
        assert_eq!(out.code, Some(4), "{what} is told: {}", out.stderr);
    }
    // Without the secret there is no area, and nothing is claimed.
    let core = real::patched(SLOTS, &[(area, 1)]);
    let v = malloc(core.path()).exits(1).json();
    assert!(v["mallocng"].is_null() && v["total"]["committed"] == 0, "{}", v["total"]);
}

#[test]
fn a_block_that_was_written_past_is_told() {
    let (live, _) = told();
    let memory = Memory::of(SLOTS);
    // The header is in the 4 bytes before a block: its slot's number is made another one.
    let (at, _) = live.iter().find(|(_, asked)| **asked == 700).unwrap();
    let core = real::patched(SLOTS, &[(at - 8, memory.u64(at - 8) ^ 0x1f << 40)]);
    let out = malloc(core.path());
    let v = out.exits(4).json();
    adds_up(&v);
    assert_eq!(v["mallocng"]["damaged"], 1);
    assert!(out.stderr.contains("damaged header"), "{}", out.stderr);
    // It is in use all the same.
    assert_eq!(n(&v["total"]["used"]), live.len() as u64);
}
