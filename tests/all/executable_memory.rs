//! .NET's memory for code where NT_FILE lists no memfd: which blocks it has, where they
//! are in the memfd, and what lies in them that no heap claims.

use serde_json::Value;

use crate::support::dotnet_builder::{CODE, FREE, Fake, IMAGE, LOADER};
use crate::support::dotnet_code::PLAIN;
use crate::support::run::{Output, bounded};

/// Mapped for code that no heap of the fake has.
const BARRIERS: u64 = FREE + (6 << 40);
const STUBS: u64 = FREE + (7 << 40);
/// A second view of the first of them.
const VIEW: u64 = FREE + (15 << 38);

/// Where in the image's data the pointer to the allocator stands.
const INSTANCE: u64 = IMAGE + 0x7f00;

/// The allocator and its nodes.
struct Allocator {
    at: u64,
    /// Of blocks in use: of BARRIERS, CODE, LOADER, STUBS.
    nodes: Vec<u64>,
    /// Of the free block.
    free: u64,
    view: u64,
}

/// (start, size, offset)
const BLOCKS: [(u64, u64, u64); 4] =
    [(BARRIERS, 0x1000, 0), (CODE, 0x10_0000, 0x1000), (LOADER, 0x1_0000, 0x10_1000), (STUBS, 0x2000, 0x11_1000)];
const FREE_BLOCK: (u64, u64) = (0x3000, 0x11_3000);
const GIVEN: u64 = 0x11_6000;

fn fake() -> (Fake, Allocator) {
    let (mut fake, _) = Fake::with_code();
    fake.map_code(BARRIERS, vec![0xc3; 0x1000]);
    let stub = [0x48, 0x8b, 0x05, 0xf9, 0x3f, 0, 0, 0x66, 0xff, 0x08, 0x74, 0x06];
    fake.map_code(STUBS, [stub.to_vec(), vec![0; 0x2000 - stub.len()]].concat());
    fake.map(VIEW, vec![0xc3; 0x1000]);
    let at = fake.make("ExecutableAllocator");
    let nodes: Vec<u64> = BLOCKS.iter().map(|_| fake.make("ExecutableBlockRX")).collect();
    for (i, (start, size, offset)) in BLOCKS.into_iter().enumerate() {
        let next = nodes.get(i + 1).copied().unwrap_or_default();
        block(&mut fake, nodes[i], next, (start, size, offset));
    }
    let free = fake.make("ExecutableBlockRX");
    block(&mut fake, free, 0, (0, FREE_BLOCK.0, FREE_BLOCK.1));
    let view = fake.make("ExecutableBlockRW");
    for (field, value) in [("Next", 0), ("Base", VIEW), ("Of", BARRIERS), ("Size", 0x1000)] {
        fake.set("ExecutableBlockRW", view, field, value);
    }
    let fields = [
        ("FirstBlockRX", nodes[0]),
        ("FirstFreeBlockRX", free),
        ("FirstBlockRW", view),
        ("MaxSize", 1 << 35),
        ("FreeOffset", GIVEN),
    ];
    for (field, value) in fields {
        fake.set("ExecutableAllocator", at, field, value);
    }
    fake.put(INSTANCE, at);
    (fake, Allocator { at, nodes, free, view })
}

fn block(fake: &mut Fake, at: u64, next: u64, (start, size, offset): (u64, u64, u64)) {
    for (field, value) in [("Next", next), ("Base", start), ("Size", size), ("Offset", offset)] {
        fake.set("ExecutableBlockRX", at, field, value);
    }
}

/// What `whatis` says of `at`: the region, and how it is known.
fn region(fake: &Fake, at: u64) -> (Value, String) {
    let file = fake.core().write();
    let out = bounded(&["whatis", "--json", &format!("{at:#x}")], file.path()).go();
    out.is_sound();
    let answer = out.json();
    (answer["region"].clone(), answer["evidence"].to_string())
}

#[track_caller]
fn is((region, how): &(Value, String), kind: &str, confidence: &str, detail: &str, evidence: &str) {
    assert_eq!((region["kind"].as_str(), region["confidence"].as_str()), (Some(kind), Some(confidence)), "{region}");
    assert!(region["detail"].as_str().unwrap().contains(detail), "{region}");
    assert!(how.contains(evidence), "{how}");
}

/// What `symbolicate` says of an offset into the memfd.
fn placed(fake: &Fake, offset: u64) -> (Value, Output) {
    let file = fake.core().write();
    let text = format!("app 1 [000]  1.5: cycles:\n\t{offset:16x} [unknown] (/memfd:doublemapper (deleted))\n\n");
    let out = bounded(&["symbolicate", "--json", "/dev/stdin"], file.path()).input(text.into_bytes()).go();
    out.is_sound();
    let frame = out.json()["frames"].as_array().unwrap()[0].clone();
    (frame, out)
}

#[test]
fn blocks_are_labelled_by_the_allocators_lists() {
    let (fake, allocator) = fake();
    let code = "/memfd:doublemapper (deleted): .NET executable memory";
    let evidence =
        format!("ExecutableAllocator at {:#x}, BlockRX at {:#x}: offset 0x0", allocator.at, allocator.nodes[0]);
    let barriers = region(&fake, BARRIERS);
    is(&barriers, "SharedMemory", "exact", code, &evidence);
    assert_eq!(barriers.0["perms"], "r-xs");
    is(&region(&fake, STUBS), "SharedMemory", "derived", "call counting stubs, by their code", "offset 0x111000");
    let view = format!("second view of {BARRIERS:#x}, /memfd:doublemapper (deleted)");
    is(&region(&fake, VIEW), "DoubleMapped", "exact", &view, &format!("BlockRW at {:#x}", allocator.view));
    // What a heap has of a block stays the heap's.
    is(&region(&fake, CODE), "LoaderCodeHeap", "exact", "", "LoaderCodeHeap at");
    is(&region(&fake, LOADER), "HighFrequencyHeap", "exact", "", "LoaderHeap at");
}

#[test]
fn offsets_of_perf_are_placed_without_a_file_note() {
    let (fake, _) = fake();
    let (frame, _) = placed(&fake, 0x1000 + (PLAIN - CODE));
    assert_eq!(frame["resolved"], format!("{PLAIN:#x}"), "{frame}");
    assert!(frame["symbol"].is_string() && frame["note"].is_null(), "{frame}");
    // In the free block nothing is mapped, and beyond the last nothing was given out.
    for offset in [FREE_BLOCK.1, GIVEN] {
        let (frame, _) = placed(&fake, offset);
        assert!(frame["resolved"].is_null() && frame["note"].is_string(), "{frame}");
    }
}

#[test]
fn a_list_that_is_being_changed_is_less_sure() {
    let (mut fake, allocator) = fake();
    fake.set("ExecutableBlockRX", allocator.nodes[2], "Next", 0);
    is(&region(&fake, BARRIERS), "SharedMemory", "derived", "executable memory", "BlockRX at");
    is(&region(&fake, STUBS), "AnonRX", "exact", "", "");
    let file = fake.core().write();
    let out = bounded(&["summary", "--json"], file.path()).go();
    out.exits(4);
    let why = "8192 of 1138688 allocated bytes are in no block";
    assert!(out.json()["warnings"].to_string().contains(why), "{}", out.stdout);
}

#[test]
fn lists_that_lie_label_nothing() {
    type Bend = fn(&mut Fake, &Allocator);
    let bends: [(&str, Bend); 10] = [
        ("a circle", |f, a| f.set("ExecutableBlockRX", a.nodes[3], "Next", a.nodes[0])),
        ("two blocks at one offset", |f, a| f.set("ExecutableBlockRX", a.nodes[3], "Offset", 0x1000)),
        ("two blocks at one address", |f, a| f.set("ExecutableBlockRX", a.nodes[3], "Base", BARRIERS)),
        ("a block past what was given out", |f, a| f.set("ExecutableBlockRX", a.nodes[3], "Offset", GIVEN)),
        ("a block at the end of all addresses", |f, a| {
            f.set("ExecutableBlockRX", a.nodes[3], "Base", u64::MAX - 0xfff);
        }),
        ("half a page", |f, a| f.set("ExecutableBlockRX", a.nodes[0], "Size", 0x800)),
        ("a free block that is used", |f, a| f.set("ExecutableBlockRX", a.free, "Offset", 0)),
        ("a node that is not there", |f, a| f.set("ExecutableBlockRX", a.nodes[3], "Next", 0x1000)),
        ("much that is missing", |f, a| f.set("ExecutableAllocator", a.at, "FreeOffset", 4 * GIVEN / 0x1000 * 0x1000)),
        ("more than there may be", |f, a| f.set("ExecutableAllocator", a.at, "MaxSize", 0x1000)),
    ];
    for (what, bend) in bends {
        let (mut fake, allocator) = fake();
        bend(&mut fake, &allocator);
        let (region, _) = region(&fake, BARRIERS);
        assert_eq!(region["kind"], "AnonRX", "{what}: {region}");
        assert!(placed(&fake, 0x1000 + (PLAIN - CODE)).0["resolved"].is_null(), "{what}");
    }
    // A view of what is in no block.
    let (mut fake, allocator) = fake();
    fake.set("ExecutableBlockRW", allocator.view, "Of", VIEW);
    assert_eq!(region(&fake, VIEW).0["kind"], "AnonRW");
}
