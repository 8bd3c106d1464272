//! References that lie: circles, objects that hold themselves, series of
//! references longer than their objects, handles to nothing. Each search ends,
//! and finds the paths there are.

use std::time::Duration;

use serde_json::Value;

use crate::support::dotnet_builder::{FREE, Fake, HANDLES};
use crate::support::run::bounded;

/// Processor time, far above what any of them needs, also in a debug build.
const MOST: Duration = Duration::from_secs(60);

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
            fake.place(i, FREE, FREE);
        }
        // 16 bytes from 8 on, of 32; and all of an array behind its count.
        let pair = fake.method_table(REFERENCES, 32, &[16 - 32, 8, 1]);
        let array = fake.method_table(ARRAY, 24, &[-24, 16, 1]);
        for block in 0..fake.table.at("TableSegment", "BlocksPerSegment") {
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
        self.fake.place(2, FREE, end);
        let bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.fake.map(FREE, bytes);
        self.fake
    }
}

#[track_caller]
fn ask(fake: &Fake, args: &[&str]) -> Value {
    let file = fake.core().write();
    let args: Vec<&str> = args.iter().chain(&["--json"]).copied().collect();
    let out = bounded(&args, file.path()).within(MOST).go();
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
    let liar = graph.fake.method_table(REFERENCES, 32, &[i64::MAX, 8, i64::MIN, 16, -8, 1 << 40, 3]);
    let endless = graph.fake.method_table(REFERENCES, 32, &[0, 8, -1]);
    let many = graph.fake.method_table(REFERENCES, 32, &[i64::MIN]);
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
    assert!(json["warnings"].to_string().contains("5 of 6 handles point outside the core"), "{}", json["warnings"]);
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

/// `retained` over all objects: who dominates whom, and what each keeps.
fn kept(fake: &Fake) -> (Value, std::collections::HashMap<u64, (u64, Option<u64>)>) {
    let json = ask(fake, &["retained", "--top", "60000"]);
    let mut out = std::collections::HashMap::new();
    let Some(objects) = json["objects"].as_array() else { return (json, out) };
    // Nodes that one of their own type dominates are not listed: asked for one by one.
    let mut open: Vec<Value> = objects.clone();
    while let Some(o) = open.pop() {
        let at = number(&o["object"]);
        if out.contains_key(&at) {
            continue;
        }
        let dominator = o["dominator"].as_str().is_some().then(|| number(&o["dominator"]));
        out.insert(at, (o["retained"].as_u64().unwrap(), dominator));
        let inside = ask(fake, &["retained", "--object", &format!("{at:#x}"), "--top", "60000"]);
        open.extend(inside["objects"].as_array().unwrap().iter().cloned());
    }
    (json, out)
}

/// What `from` leads to without going through `without`.
fn reached(edges: &[[usize; 2]], from: &[usize], without: Option<usize>) -> Vec<bool> {
    let mut seen = vec![false; edges.len()];
    let mut stack: Vec<usize> = from.iter().copied().filter(|&f| Some(f) != without).collect();
    while let Some(at) = stack.pop() {
        if !std::mem::replace(&mut seen[at], true) {
            stack.extend(edges[at].iter().copied().filter(|&to| to < edges.len() && Some(to) != without));
        }
    }
    seen
}

#[test]
fn what_goes_with_an_object_is_what_nothing_else_leads_to() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..12 {
        let len = 3 + random(12);
        // Beyond the last: null.
        let edges: Vec<[usize; 2]> = (0..len).map(|_| [random(len + 2), random(len + 2)]).collect();
        let roots: Vec<usize> = (0..1 + random(3)).map(|_| random(len)).collect();
        let mut graph = Graph::new();
        let at = |n: usize| if n < len { Graph::nth(n as u64) } else { 0 };
        for [a, b] in &edges {
            graph.pair(at(*a), at(*b));
        }
        for &root in &roots {
            graph.handle(STRONG, at(root), 0);
        }
        let (json, found) = kept(&graph.close());
        let live = reached(&edges, &roots, None);
        let count = |seen: &[bool]| seen.iter().filter(|&&s| s).count() as u64;
        assert_eq!(json["live"]["objects"], count(&live), "{edges:?} {roots:?}");
        assert_eq!(json["unreachable"]["objects"], len as u64 - count(&live));
        assert_eq!(json["roots"][0]["retained"], 32 * count(&live));
        assert_eq!(json["roots"][0]["count"], roots.len() as u64);
        assert_eq!(found.len() as u64, count(&live), "{edges:?} {roots:?}");
        for n in (0..len).filter(|&n| live[n]) {
            // It keeps what is lost without it.
            let lost = count(&live) - count(&reached(&edges, &roots, Some(n)));
            assert_eq!(found[&at(n)].0, 32 * lost, "{n} of {edges:?} {roots:?}: {found:x?}");
            if let Some(dominator) = found[&at(n)].1 {
                let without = (0..len).find(|&d| at(d) == dominator);
                assert!(!reached(&edges, &roots, without)[n], "{n} of {edges:?} {roots:?}");
            }
        }
    }
}

#[test]
fn a_wide_array_and_a_long_list_that_share_an_object() {
    const LEN: u64 = 200_000;
    let n = Graph::nth;
    let mut graph = Graph::new();
    let shared = n(LEN);
    for i in 0..LEN {
        graph.pair(n((i + 1) % LEN), shared);
    }
    // It leads back to the far end, and to itself.
    graph.pair(n(LEN - 1), shared);
    let array = FREE + 8 * graph.words.len() as u64;
    graph.words.extend([graph.array, LEN + 2]);
    graph.words.extend((0..LEN).map(n).chain([array, 0x1234]));
    graph.words.push(0);
    graph.handle(STRONG, array, 0);
    let fake = graph.close();
    let json = ask(&fake, &["retained"]);
    let size = 24 + 8 * (LEN + 2);
    assert_eq!(json["live"]["size"], 32 * (LEN + 1) + size);
    assert_eq!(json["unreachable"]["objects"], 0);
    // The array leads to each: none of them keeps another.
    assert_eq!(json["objects"][0]["retained"], 32 * (LEN + 1) + size);
    assert_eq!(json["objects"][1]["retained"], 32);
    assert!(json["warnings"].to_string().contains("1 references point to no object"), "{}", json["warnings"]);
    let ways = ask(&fake, &["gcroot", "--type", "."]);
    let counts: Vec<u64> = ways["groups"].as_array().unwrap().iter().map(|g| g["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, LEN + 1], "{}", ways["groups"]);
}

#[test]
fn a_list_is_one_way() {
    const LEN: u64 = 60_000;
    let n = Graph::nth;
    let mut graph = Graph::new();
    for i in 0..LEN {
        graph.pair(if i + 1 < LEN { n(i + 1) } else { 0 }, if i > 0 { n(i - 1) } else { 0 });
    }
    graph.handle(STRONG, n(0), 0);
    let fake = graph.close();
    let ways = ask(&fake, &["gcroot", "--type", "."]);
    let groups = ways["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1);
    let chain = groups[0]["chain"].as_array().unwrap();
    assert_eq!((chain.len(), &groups[0]["count"], &groups[0]["retained"]), (1, &LEN.into(), &(32 * LEN).into()));
    assert_eq!((&chain[0]["repeats"], &groups[0]["longest"]), (&(LEN - 1).into(), &LEN.into()));
    assert_eq!(groups[0]["example"]["chain"].as_array().unwrap().len(), 1);
    let json = ask(&fake, &["retained", "--object", &format!("{:#x}", n(LEN - 2))]);
    assert_eq!(json["object"]["retained"], 64);
    assert_eq!(json["dominators"].as_array().unwrap().len(), 32);
}

/// A server GC has a table for each processor, and may have fewer heaps: what their handles hold lives.
#[test]
fn handles_of_processors_without_a_heap() {
    let mut graph = Graph::new();
    graph.pair(0, 0);
    graph.pair(0, 0);
    let fake = &mut graph.fake;
    let second = HANDLES + fake.table.size("TableSegment");
    fake.variable("n_heaps", 1);
    let table = fake.make("HandleTable");
    fake.set("TableSegment", HANDLES, "NextSegment", 0);
    fake.set("HandleTable", table, "SegmentList", second);
    fake.put(fake.handle_tables + 8, table);
    // Behind the last is what is no table.
    fake.put(fake.handle_tables + 16, 0x21);
    let types = second + fake.table.at("TableSegment", "rgBlockType");
    for block in 1..fake.table.at("TableSegment", "BlocksPerSegment") {
        fake.poke(types + block, &[0xff]);
    }
    fake.poke(types, &[STRONG]);
    fake.put(second + fake.table.at("TableSegment", "rgValue"), Graph::nth(1));
    let json = ask(&graph.close(), &["retained"]);
    assert_eq!((&json["live"]["objects"], &json["unreachable"]["objects"]), (&1.into(), &1.into()));
}

#[test]
fn handles_that_keep_and_those_that_do_not() {
    let n = Graph::nth;
    let mut graph = Graph::new();
    for _ in 0..5 {
        graph.pair(0, 0);
    }
    graph.handle(STRONG, n(0), 0);
    graph.handle(DEPENDENT, n(0), n(1));
    // The primary is dead, so is what goes with it; weak ones keep nothing.
    graph.handle(DEPENDENT, n(2), n(3));
    graph.handle(1, n(4), 0);
    let fake = graph.close();
    let json = ask(&fake, &["retained"]);
    assert_eq!((&json["live"]["objects"], &json["unreachable"]["objects"]), (&2.into(), &3.into()));
    let inside = ask(&fake, &["retained", "--object", &format!("{:#x}", n(0))]);
    assert_eq!(inside["objects"][0]["dominator_field"], "(dependent handle)");
    let dead = ask(&fake, &["retained", "--object", &format!("{:#x}", n(3))]);
    assert!(dead["object"]["retained"].is_null() && dead["object"]["size"] == 32, "{}", dead["object"]);
}

/// 20,000 equal strings of 500 characters, in an array that a handle keeps alive or that nothing does.
#[test]
fn equal_strings_are_worth_sharing_only_while_they_live() {
    for live in [true, false] {
        let mut graph = Graph::new();
        let string = graph.fake.method_table(0x8000_0002, 22, &[]);
        let here = |graph: &Graph| FREE + 8 * graph.words.len() as u64;
        let mut all = Vec::new();
        for _ in 0..20_000 {
            all.push(here(&graph));
            // The length, and the first two of 500 times `x`: 22 + 1,000 bytes, padded to 1,024.
            let x = 0x0078_0078_0078_0078;
            graph.words.extend([string, 0x0078_0078_0000_01f4]);
            graph.words.extend([x; 124]);
            graph.words.extend([0x0078_0078, 0]);
        }
        let array = here(&graph);
        graph.words.extend([graph.array, all.len() as u64]);
        graph.words.extend(&all);
        graph.words.push(0);
        if live {
            graph.handle(STRONG, array, 0);
        }
        let answer = ask(&graph.close(), &["triage"]);
        let findings = answer["findings"].as_array().unwrap();
        let of = |id: &str| findings.iter().find(|finding| finding["id"] == id);
        assert_eq!(of("equal-strings").is_some(), live, "{answer:#}");
        // This core lacks stacks, so what nothing reaches may be alive.
        assert!(of("unreachable").is_none(), "{answer:#}");
        assert_eq!(of("roots-not-read").is_some(), !live, "{answer:#}");
        match live {
            true => {
                let finding = of("equal-strings").unwrap();
                assert_eq!(finding["bytes"], 19_999 * 1022);
                assert!(finding["text"].as_str().unwrap().contains("20,000 live strings"), "{finding}");
            }
            false => {
                let text = of("roots-not-read").unwrap()["text"].as_str().unwrap();
                assert!(text.contains("are not reached from the roots that were read, and may be alive"), "{text}");
            }
        }
    }
}

/// `triage` on an array of `len` references, all but the first `written` of them null.
fn array_of(len: u64, written: u64) -> Value {
    let mut graph = Graph::new();
    let pair = graph.pair(0, 0);
    let array = FREE + 8 * graph.words.len() as u64;
    graph.words.extend([graph.array, len]);
    graph.words.extend((0..len).map(|i| if i < written { pair } else { 0 }));
    graph.words.push(0);
    graph.handle(STRONG, array, 0);
    let json = ask(&graph.close(), &["triage"]);
    json["findings"].as_array().unwrap().iter().find(|f| f["id"] == "retained").cloned().unwrap_or_default()
}

#[test]
fn an_array_that_was_hardly_written_is_no_warning() {
    // 24 MiB: a holder of less than 16 MiB is no warning.
    const LEN: u64 = 3 << 20;
    let full = array_of(LEN, LEN);
    assert_eq!(full["severity"], "warning");
    assert!(full["bytes"].as_u64().unwrap() >= 8 * LEN, "{full}");
    let empty = array_of(LEN, 200);
    assert_eq!(empty["severity"], "info");
    assert!(empty["bytes"].as_u64().unwrap() <= 2 * 4096 + 64, "two pages have words: {empty}");
    assert!(empty["text"].as_str().unwrap().contains(" 24 MiB of it is pages of zeros"), "{empty}");
}
