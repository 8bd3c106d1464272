//! References that lie: circles, objects that hold themselves, series of
//! references longer than their objects, handles to nothing. Each search ends,
//! and finds the paths there are.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use serde_json::Value;

use support::dotnet_builder::{FREE, Fake, HANDLES};
use support::run::bounded;

const DEADLINE: Duration = Duration::from_secs(60);

/// MTFlags: has references; array of references.
const REFERENCES: u32 = 0x0100_0000;
const ARRAY: u32 = 0x8108_0008;

const STRONG: u8 = 2;
const DEPENDENT: u8 = 6;

/// A heap of objects of three words: MethodTable, two references.
struct Graph {
    fake: Fake,
    pair: u64,
    array: u64,
    words: Vec<u64>,
    handles: u64,
}

impl Graph {
    fn new() -> Graph {
        let mut fake = Fake::dotnet_8();
        let store = fake.make("ThreadStore");
        fake.set_global("ThreadStore", store);
        for i in 0..fake.segments.len() {
            place(&mut fake, i, FREE, FREE);
        }
        // 16 bytes from 8 on, of 32; and all of an array behind its count.
        let pair = method_table(&mut fake, REFERENCES, 32, &[16 - 32, 8, 1]);
        let array = method_table(&mut fake, ARRAY, 24, &[-24, 16, 1]);
        for block in 0..fake.table.at("constants_TableSegment", "BlocksPerSegment") {
            fake.poke(HANDLES + fake.table.at("TableSegment", "rgBlockType") + block, &[0xff]);
            fake.poke(HANDLES + fake.table.at("TableSegment", "rgUserData") + block, &[0xff]);
        }
        Graph { fake, pair, array, words: Vec::new(), handles: 0 }
    }

    /// Address of the object of that number, where all are pairs.
    fn nth(n: u64) -> u64 {
        FREE + 32 * n
    }

    fn pair(&mut self, a: u64, b: u64) -> u64 {
        let at = FREE + 8 * self.words.len() as u64;
        self.words.extend([self.pair, a, b, 0]);
        at
    }

    /// A handle in a block of its own; a dependent one has its data in the next.
    fn handle(&mut self, kind: u8, object: u64, secondary: u64) -> u64 {
        let (block, table) = (self.handles, &self.fake.table);
        let at = |block| HANDLES + table.at("TableSegment", "rgValue") + 512 * block;
        let (place, extra) = (at(block), at(block + 1));
        let (types, data) = (table.at("TableSegment", "rgBlockType"), table.at("TableSegment", "rgUserData"));
        self.fake.poke(HANDLES + types + block, &[kind]);
        self.fake.put(place, object);
        self.handles += 1;
        if kind == DEPENDENT {
            self.fake.poke(HANDLES + types + block + 1, &[11]);
            self.fake.poke(HANDLES + data + block, &[(block + 1) as u8]);
            self.fake.put(extra, secondary);
            self.handles += 1;
        }
        place
    }

    fn close(mut self) -> Fake {
        let end = FREE + 8 * self.words.len() as u64;
        place(&mut self.fake, 2, FREE, end);
        let bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.fake.map(FREE, bytes);
        self.fake
    }
}

/// A MethodTable whose class leads back to it, with a GCDesc in front.
fn method_table(fake: &mut Fake, flags: u32, base_size: u32, gc_desc: &[i64]) -> u64 {
    let front = fake.room_for(8 * gc_desc.len() as u64 + 16);
    let (table, class) = (fake.make("MethodTable"), fake.make("EEClass"));
    assert!(table - front >= 8 * gc_desc.len() as u64);
    for (i, word) in gc_desc.iter().rev().enumerate() {
        fake.put(table - 8 * (i as u64 + 1), *word as u64);
    }
    fake.poke(table + fake.table.at("MethodTable", "MTFlags"), &flags.to_le_bytes());
    fake.poke(table + fake.table.at("MethodTable", "BaseSize"), &base_size.to_le_bytes());
    fake.set("MethodTable", table, "EEClassOrCanonMT", class);
    fake.set("EEClass", class, "MethodTable", table);
    table
}

fn place(fake: &mut Fake, segment: usize, start: u64, end: u64) {
    let at = fake.segments[segment];
    for (field, value) in [("mem", start), ("allocated", end), ("committed", end), ("reserved", end)] {
        fake.set("dac_heap_segment", at, field, value);
    }
}

#[track_caller]
fn ask(fake: &Fake, args: &[&str]) -> Value {
    let file = fake.core().write();
    let args: Vec<&str> = args.iter().chain(&["--json"]).copied().collect();
    let out = bounded(&args, file.path()).within(DEADLINE).go();
    out.is_sound();
    assert!(matches!(out.code.unwrap(), 0 | 1 | 4), "{}", out.stderr);
    out.json()
}

fn number(v: &Value) -> u64 {
    u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Objects of each path, by length.
#[track_caller]
fn paths(fake: &Fake, target: u64) -> Vec<Vec<u64>> {
    let json = ask(fake, &["gcroot", &format!("{target:#x}")]);
    let chain = |p: &Value| p["chain"].as_array().unwrap().iter().map(|c| number(&c["object"])).collect();
    json["paths"].as_array().unwrap().iter().map(chain).collect()
}

#[test]
fn a_path_through_circles() {
    let n = Graph::nth;
    let mut graph = Graph::new();
    graph.pair(n(0), n(1));
    graph.pair(n(0), n(2));
    graph.pair(n(1), n(3));
    graph.pair(n(3), n(0));
    graph.pair(n(4), n(0));
    graph.handle(STRONG, n(0), 0);
    let fake = graph.close();
    assert_eq!(paths(&fake, n(3)), [vec![n(0), n(1), n(2), n(3)]]);
    // It holds itself and others, but nobody holds it.
    assert_eq!(paths(&fake, n(4)), Vec::<Vec<u64>>::new());
}

#[test]
fn each_root_has_its_shortest_path() {
    let n = Graph::nth;
    let mut graph = Graph::new();
    for (a, b) in [(1, 2), (2, 0), (3, 0), (0, 0), (5, 0), (3, 0), (6, 6)] {
        graph.pair(n(a), n(b));
    }
    graph.handle(STRONG, n(0), 0);
    graph.handle(STRONG, n(4), 0);
    graph.handle(STRONG, n(4), 0);
    graph.handle(STRONG, n(6), 0);
    graph.handle(1, n(3), 0);
    let fake = graph.close();
    // The one from 0 goes by 2 and not by 1 and 2; 4 is told once, weak handles not at all.
    assert_eq!(paths(&fake, n(3)), [vec![n(0), n(2), n(3)], vec![n(4), n(5), n(3)]]);
}

#[test]
fn a_dependent_handle_keeps_its_secondary() {
    let n = Graph::nth;
    let mut graph = Graph::new();
    for _ in 0..3 {
        graph.pair(0, 0);
    }
    graph.handle(STRONG, n(0), 0);
    let dependent = graph.handle(DEPENDENT, n(0), n(2));
    let fake = graph.close();
    assert_eq!(paths(&fake, n(2)), [vec![n(0), n(2)]]);
    let json = ask(&fake, &["handles"]);
    let found = json["handles"].as_array().unwrap().iter().find(|h| h["kind"] == "Dependent").unwrap();
    assert_eq!((number(&found["address"]), number(&found["secondary"])), (dependent, n(2)));
}

#[test]
fn an_array_that_claims_more_than_there_is() {
    let mut graph = Graph::new();
    let pair = graph.pair(0, 0);
    // Longer than its segment: it is no object for the walk, and its elements
    // end where the memory does.
    let array = FREE + 8 * graph.words.len() as u64;
    graph.words.extend([graph.array, u64::from(u32::MAX), pair, array, 1, u64::MAX, 0]);
    graph.handle(STRONG, array, 0);
    let fake = graph.close();
    assert_eq!(paths(&fake, pair), [vec![array, pair]]);
}

#[test]
fn series_that_reach_out_of_their_objects() {
    let mut graph = Graph::new();
    let liar = method_table(&mut graph.fake, REFERENCES, 32, &[i64::MAX, 8, i64::MIN, 16, -8, 1 << 40, 3]);
    let endless = method_table(&mut graph.fake, REFERENCES, 32, &[0, 8, -1]);
    let many = method_table(&mut graph.fake, REFERENCES, 32, &[i64::MIN]);
    let target = graph.pair(0, 0);
    let first = FREE + 8 * graph.words.len() as u64;
    graph.words.extend([liar, first + 32, 0, 0]);
    graph.words.extend([endless, target, target, 0]);
    graph.words.extend([many, target, target, 0]);
    graph.words.extend([liar, target, 0, 0]);
    graph.handle(STRONG, first, 0);
    graph.handle(STRONG, first + 96, 0);
    let fake = graph.close();
    assert_eq!(paths(&fake, target), [vec![first + 96, target]]);
}

#[test]
fn a_list_of_many_objects() {
    const LEN: u64 = 300_000;
    let n = Graph::nth;
    let mut graph = Graph::new();
    for i in 0..LEN {
        graph.pair(n((i + 1) % LEN), n(i / 2));
    }
    graph.handle(STRONG, n(0), 0);
    let fake = graph.close();
    let found = paths(&fake, n(LEN - 1));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].len() as u64, LEN);
    assert!(found[0].iter().enumerate().all(|(i, &at)| at == n(i as u64)));
}

#[test]
fn handles_to_nothing() {
    let mut graph = Graph::new();
    let target = graph.pair(0, 0);
    for object in [1, 0x1234, u64::MAX, target + 8, HANDLES, target] {
        graph.handle(STRONG, object, 0);
    }
    let fake = graph.close();
    assert_eq!(paths(&fake, target), [vec![target]]);
    let json = ask(&fake, &["handles"]);
    assert_eq!(json["handles"].as_array().unwrap().len(), 6);
    assert!(json["warnings"].to_string().contains("objects of 5 of 6 handles"), "{}", json["warnings"]);
}

#[test]
fn fields_of_a_class_that_lies() {
    let mut graph = Graph::new();
    let target = graph.pair(0, 0);
    let (pair, fake) = (graph.pair, &mut graph.fake);
    let class = pair + fake.table.at("MethodTable", "EEClassOrCanonMT");
    let _ = class;
    // A parent that is its own child, and counts of fields behind the end.
    fake.set("MethodTable", pair, "ParentMethodTable", pair);
    let json = ask(&graph.close(), &["object", &format!("{target:#x}")]);
    assert_eq!(number(&json["object"]), target);
    assert_eq!(json["size"], 32);
}
