//! What fills memory that nobody claims: made cores whose pages are known, and real ones.

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load};
use crate::support::{notes, real, run::run};

const PAGE: usize = 4096;
const STACK: u64 = 0x7000_0000_0000;
const SP: u64 = STACK + 0x1f00;
const MERGED: u64 = 0x7100_0000_0000;
const LINKED: u64 = 0x7200_0000_0000;

fn answer(args: &[&str], core: &str) -> Value {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    out.json()
}

fn hex(v: u64) -> String {
    format!("{v:#x}")
}

fn list<'v>(v: &'v Value, field: &str) -> &'v Vec<Value> {
    v[field].as_array().unwrap_or_else(|| panic!("no {field} in {v}"))
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// Numbers that look random, the same each time (xorshift).
fn random(bytes: usize) -> Vec<u8> {
    let numbers = std::iter::successors(Some(0x2545_f491_4f6c_dd1du64), |&x| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        Some(x ^ (x << 17))
    });
    numbers.flat_map(u64::to_le_bytes).take(bytes).collect()
}

fn text(pages: usize) -> Vec<u8> {
    b"GET /orders/17 HTTP/1.1\r\n".iter().copied().cycle().take(pages * PAGE).collect()
}

/// Pages whose words all lead to `at` or shortly behind.
fn pointers(pages: usize, at: u64) -> Vec<u8> {
    (0..pages * PAGE / 8).flat_map(|i| (at + 8 * (i as u64 % 64)).to_le_bytes()).collect()
}

/// A core with mappings of the bytes given.
fn core(mappings: &[(u64, Vec<u8>)]) -> CoreBuilder {
    let loads = mappings.iter().map(|(at, bytes)| Load::at(*at).bytes(bytes.clone()));
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(77, 0, SP, 0x40_0100, 0))
        .load(Load::at(STACK).bytes(vec![0; 2 * PAGE]))
        .loads(loads)
}

/// Four mappings that the kernel made one: 48 pages of 0x14, 30 of text of which the last is written in part and 10
/// never were, 40 random, 20 of 0x16.
fn merged() -> Vec<u8> {
    let mut bytes = vec![0x14; 48 * PAGE];
    bytes.extend(text(30));
    bytes[78 * PAGE - 100..].fill(0);
    bytes.resize(88 * PAGE, 0);
    bytes.extend(random(40 * PAGE));
    bytes.resize(148 * PAGE, 0x16);
    bytes
}

#[test]
fn merged_mappings_are_cut_where_what_fills_them_changes() {
    let file = core(&[(MERGED, merged())]).write();
    let path = file.path().to_str().unwrap();
    let v = answer(&["anon", "--sort", "example"], path);
    let clusters = list(&v, "clusters");
    let told: Vec<(String, u64, &str, &str)> = clusters
        .iter()
        .map(|c| {
            let example = c["example"].as_str().unwrap().to_owned();
            (example, number(&c["size"]) / PAGE as u64, c["content"].as_str().unwrap(), c["borders"].as_str().unwrap())
        })
        .collect();
    let at = |page: u64| hex(MERGED + page * PAGE as u64);
    assert_eq!(
        told,
        [
            (at(0), 48, "fill", "content"),
            (at(48), 40, "text", "content"),
            (at(88), 40, "random", "content"),
            (at(128), 20, "fill", "content")
        ]
    );
    assert_eq!((&clusters[0]["fill"], &clusters[3]["fill"]), (&"0x14".into(), &"0x16".into()));
    // Of the text, ten pages were never written.
    assert_eq!(number(&clusters[1]["written"]), 30 * PAGE as u64);
    let sum: u64 = list(&v, "contents").iter().map(|c| number(&c["bytes"])).sum();
    assert_eq!(sum, 138 * PAGE as u64);
    // The map is cut where it is asked for, and only there.
    let whole = answer(&["regions", "--kind", "AnonRW"], path);
    let cut = answer(&["regions", "--kind", "AnonRW", "--contents"], path);
    assert_eq!((list(&whole, "regions").len(), &whole["regions"][0]["content"]), (1, &Value::Null));
    let told: Vec<_> = list(&cut, "regions").iter().map(|r| (&r["start"], r["content"].as_str().unwrap())).collect();
    let want = ["one byte value, 0x14", "text", "compressed or random", "one byte value, 0x16"];
    assert_eq!(told.iter().map(|(_, content)| *content).collect::<Vec<_>>(), want);
    assert_eq!(told.iter().map(|(start, _)| start.as_str().unwrap()).collect::<Vec<_>>(), [0, 48, 88, 128].map(at));
}

#[test]
fn whatis_tells_what_fills_memory_around_an_address() {
    let mut bytes = merged();
    bytes.extend(vec![0x33; 2000 * PAGE]);
    let file = core(&[(MERGED, bytes)]).write();
    let at = |page: u64| hex(MERGED + page * PAGE as u64);
    let v = answer(&["whatis", &at(50), &at(85), &at(1000), &hex(SP)], file.path().to_str().unwrap());
    let content = |i: usize| &v["results"][i]["content"];
    assert_eq!((&content(0)["content"], &content(0)["page"]), (&"text".into(), &"text".into()));
    assert_eq!((&content(0)["start"], &content(0)["end"]), (&at(48).into(), &at(88).into()));
    assert_eq!((&content(1)["content"], &content(1)["page"]), (&"text".into(), &"zero".into()));
    assert_eq!((&content(0)["whole"], &content(2)["whole"]), (&true.into(), &false.into()));
    assert_eq!(content(2)["content"], "one byte value, 0x33");
    // A stack is claimed.
    assert!(content(3).is_null(), "{}", content(3));
}

#[test]
fn pointers_are_told_by_what_they_lead_into() {
    let several: Vec<u8> = (0..64 * PAGE / 8)
        .flat_map(|i| (if i % 2 == 0 { SP } else { MERGED }).saturating_add(8 * (i as u64 % 64)).to_le_bytes())
        .collect();
    let all = [pointers(64, SP), pointers(64, MERGED), several].concat();
    let file = core(&[(MERGED, merged()), (LINKED, all)]).write();
    let path = file.path().to_str().unwrap();
    let v = answer(&["anon"], path);
    let of = |at: u64| list(&v, "clusters").iter().find(|c| c["example"] == hex(at)).unwrap();
    let bytes = 64 * PAGE as u64;
    let told = [0, 1, 2].map(|i| of(LINKED + i * bytes));
    assert!(told.iter().all(|c| c["content"] == "pointers" && c["size"] == bytes && c["pointer_percent"] == 100));
    let words = told.map(|c| c["filled_with"].as_str().unwrap());
    assert_eq!(words, ["pointers (into stacks)", "pointers (into anonymous memory)", "pointers (mixed)"]);
    assert_eq!(told.map(|c| c["into"].as_str()), [Some("stacks"), Some("anonymous memory"), None]);
    let v = answer(&["triage"], path);
    let text = list(&v, "findings").iter().find(|f| f["id"] == "anonymous").unwrap()["text"].as_str().unwrap();
    assert!(text.contains(" % pointers (into stacks)"), "{text}");
}

/// With contents the map is the same map: each region is covered by its pieces, and none but those that nobody claims
/// is told of.
#[test]
fn with_contents_the_map_of_real_cores_covers_the_same() {
    for name in ["shape-mmap", "shape-vector", "dotnet8-objects", "native-glibc-kernel", "go-kernel", "zoo-kernel"] {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let (whole, cut) = (answer(&["regions"], core), answer(&["regions", "--contents"], core));
        let mut pieces = list(&cut, "regions").iter().peekable();
        for region in list(&whole, "regions") {
            let (mut at, mut in_core) = (region["start"].clone(), 0);
            while at != region["end"] {
                let piece = pieces.next().unwrap_or_else(|| panic!("{name}: {region} ends at {at}"));
                assert_eq!((&piece["start"], &piece["kind"]), (&at, &region["kind"]), "{name}");
                let anonymous = region["kind"].as_str().unwrap().starts_with("Anon");
                assert!(anonymous || piece["content"].is_null(), "{name}: {piece}");
                assert_eq!(piece["content"].is_string(), anonymous && number(&piece["in_core"]) > 0, "{name}: {piece}");
                in_core += number(&piece["in_core"]);
                at = piece["end"].clone();
            }
            assert_eq!(region["in_core"], in_core, "{name}: {region}");
        }
        assert!(pieces.next().is_none(), "{name}");
    }
}

#[test]
fn what_a_program_keeps_in_mappings_is_text_to_the_byte() {
    let kept = number(&real::own_report("shape-mmap")["bytes"]);
    let core = real::plain("shape-mmap");
    let v = answer(&["anon"], core.to_str().unwrap());
    let first = &v["contents"][0];
    assert_eq!(first["content"], "text");
    // Mappings end at pages.
    assert!(number(&first["bytes"]).abs_diff(kept) < kept / 100, "{first} of {kept}");
    let first = &v["clusters"][0];
    assert_eq!((&first["content"], &first["text_percent"]), (&"text".into(), &100.into()));
}

/// Nine equal blocks, half written, beside 2 MiB of random bytes and 1 MiB that is known by nothing.
fn equal_blocks() -> CoreBuilder {
    let (size, count) = (8 << 20, 9);
    let mut blocks = vec![0; size * count];
    let mut stack = vec![0; 2 * PAGE];
    for i in 0..count {
        blocks[size * i..size * i + size / 2].fill(0x5a);
        stack[8 * i..8 * i + 8].copy_from_slice(&(MERGED + (size * i) as u64).to_le_bytes());
    }
    let unknown: Vec<u8> = (0u32..(1 << 20) / 4).flat_map(u32::to_le_bytes).collect();
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(77, 0, STACK, 0x40_0100, 0))
        .load(Load::at(STACK).bytes(stack))
        .load(Load::at(MERGED).bytes(blocks))
        .load(Load::at(LINKED).bytes([random(2 << 20), unknown].concat()))
}

#[test]
fn equal_blocks_and_what_has_no_name_share_no_byte() {
    let file = equal_blocks().write();
    let path = file.path().to_str().unwrap();
    let blocks = 9 * (4 << 20);
    for (budget, described, nameless) in [("60s", blocks + (2 << 20), 1 << 20), ("0s", 9 * (4 << 20), 3 << 20)] {
        let v = answer(&["triage", "--budget", budget], path);
        let findings = list(&v, "findings");
        let of = |id: &str| findings.iter().find(|f| f["id"] == id).map(|f| number(&f["bytes"]));
        assert_eq!(of("anonymous-blocks"), Some(blocks), "{budget}");
        assert_eq!(of("unnamed"), Some(nameless), "{budget}");
        let unnamed: Vec<(&str, u64)> =
            list(&v, "unnamed").iter().map(|u| (u["start"].as_str().unwrap(), number(&u["bytes"]))).collect();
        let start = if budget == "0s" { LINKED } else { LINKED + (2 << 20) };
        assert_eq!(unnamed, [(hex(start).as_str(), nameless)], "{budget}");
        let sum: u64 = findings.iter().filter(|f| f["within"].is_null()).filter_map(|f| f["bytes"].as_u64()).sum();
        assert_eq!(sum, number(&v["written"]), "{budget}");
        let stack = number(&v["written"]) - blocks - (3 << 20);
        let parts = ["named", "described", "unknown"].map(|part| number(&v[part]["bytes"]));
        assert_eq!(parts, [stack, described, nameless], "{budget}");
    }
}

/// Nine blocks of 8 MiB, in each of which `written` bytes were written, and then nothing.
fn reserved(written: usize) -> CoreBuilder {
    let (size, count) = (8 << 20, 9);
    let mut blocks = vec![0; size * count];
    let mut stack = vec![0; 2 * PAGE];
    for i in 0..count {
        blocks[size * i..size * i + written].fill(0x5a);
        stack[8 * i..8 * i + 8].copy_from_slice(&(MERGED + (size * i) as u64).to_le_bytes());
    }
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(77, 0, STACK, 0x40_0100, 0))
        .load(Load::at(STACK).bytes(stack))
        .load(Load::at(MERGED).bytes(blocks))
}

#[test]
fn blocks_that_were_reserved_and_hardly_written_are_no_problem() {
    let written = 10 * PAGE;
    let file = reserved(written).write();
    let path = file.path().to_str().unwrap();
    let v = answer(&["triage"], path);
    let findings = list(&v, "findings");
    let blocks = findings.iter().find(|f| f["id"] == "anonymous-blocks").unwrap();
    assert_eq!((&blocks["severity"], number(&blocks["bytes"])), (&"info".into(), 9 * written as u64));
    let text = blocks["text"].as_str().unwrap();
    assert!(text.starts_with("9 equal blocks of 8 MiB (72 MiB in all, 360 KiB written)"), "{text}");
    // Among the sampled pages is the first of each block, which was written.
    let v = answer(&["summary"], path);
    let text = list(&v, "findings").iter().find(|f| f["id"] == "anonymous-blocks").unwrap()["text"].clone();
    assert!(text.as_str().unwrap().contains("of the sampled pages written"), "{text}");
}
