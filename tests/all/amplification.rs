//! Small files that ask for much: headers, lists and tables that are shared,
//! repeated or nested, so that naive reading costs their product. Each must
//! end in bounded time and memory.

use std::path::Path;
use std::time::Duration;

use crate::support::builder::{CoreBuilder, Count, Load, R, W, X, image};
use crate::support::notes;
use crate::support::run::bounded;

const COMMANDS: &[&[&str]] =
    &[&["summary"], &["check"], &["info"], &["stacks"], &["threads"], &["regions"], &["whatis", "0x400000"]];

/// Every command ends within twenty seconds of a processor and 600 MiB, in release builds
/// far below.
#[track_caller]
fn bounded_everywhere(core: &Path, commands: &[&[&str]]) {
    for args in commands {
        let out = bounded(args, core).within(Duration::from_secs(20)).keep(1 << 20).go();
        out.is_sound();
        assert!(matches!(out.code, Some(0 | 1 | 4)), "{args:?}: {:?} {}", out.code, out.stderr);
    }
}

fn one_thread() -> CoreBuilder {
    CoreBuilder::x86_64().note(notes::prstatus_x86_64(1, 0, 0, 0, 0))
}

#[test]
fn many_note_headers_over_the_same_notes() {
    let list: Vec<_> = (0..1000u64).map(|i| (0x1000 * i, 0x1000 * i + 0x1000, 0, "/a")).collect();
    let mut core = CoreBuilder::x86_64().note(notes::files(4096, &list));
    for tid in 1..100 {
        core = core.note(notes::prstatus_x86_64(tid, 0, 0, 0, 0));
    }
    bounded_everywhere(core.note_headers(60_000).write().path(), COMMANDS);
}

#[test]
fn a_hundred_thousand_threads_without_a_stack() {
    let mut all = Vec::new();
    for tid in 1..=100_000 {
        all.extend(notes::prstatus_x86_64(tid, 0, 0, 0, 0));
    }
    let core = CoreBuilder::x86_64().note(notes::prpsinfo(100_001, "p", "p")).note(all);
    bounded_everywhere(core.load(Load::at(0x1000).bytes(vec![1; 64])).write().path(), COMMANDS);
}

#[test]
fn an_image_of_many_segments_at_many_addresses() {
    // 4,096 program headers, mapped 10,000 times from the same bytes.
    let headers: Vec<_> = (0..4096u64).map(|i| (i << 12, 0x1000, R | X)).collect();
    let bytes = image(&headers, 0);
    let len = bytes.len() as u64;
    let n = 10_000u64;
    let at = |i: u64| 0x1000_0000 + (i << 25);
    let core = one_thread().load(Load::at(at(0)).bytes(bytes).flags(R));
    let offset = core.clone().loads((1..n).map(|i| Load::at(at(i)))).data_offset() as u64;
    let core = core.loads((1..n).map(|i| Load::at(at(i)).offset(offset).filesz(len).memsz(len).flags(R)));
    bounded_everywhere(core.count(Count::Extended).write().path(), COMMANDS);
}

#[test]
fn an_image_of_many_segments_over_many_file_mappings() {
    // 4,000 program headers that each span all of 10,000 listed mappings.
    let headers: Vec<_> = (0..4000u64).map(|_| (0, 10_000 << 12, R)).collect();
    let bytes = image(&headers, 0);
    let list: Vec<_> =
        (0..10_000u64).map(|i| (0x40_0000 + (i << 12), 0x40_1000 + (i << 12), i, "/lib/liba.so")).collect();
    let core = one_thread().note(notes::files(4096, &list)).load(Load::at(0x40_0000).bytes(bytes).flags(R));
    bounded_everywhere(core.write().path(), COMMANDS);
}

#[test]
fn writable_segments_that_all_span_the_same_data() {
    // Each is looked through for malloc's arena.
    let headers: Vec<_> = (0..4000u64).map(|_| (0, 16 << 20, R | W)).collect();
    let core = one_thread().load(Load::at(0x40_0000).bytes(image(&headers, 16 << 20)));
    bounded_everywhere(core.write().path(), &[&["summary"]]);
}

#[test]
fn one_library_listed_sixty_thousand_times() {
    let list: Vec<_> = (0..60_000u64).map(|_| (0x40_0000, 0xc0_0000, 0, "/lib/libc.so.6")).collect();
    let core = one_thread().note(notes::files(4096, &list)).load(Load::at(0x40_0000).bytes(vec![1; 8 << 20]).flags(R));
    bounded_everywhere(core.write().path(), COMMANDS);
}

#[test]
fn a_hundred_thousand_libraries() {
    let names: Vec<String> = (0..100_000).map(|i| format!("/l/{i}.so")).collect();
    let list: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (0x40_0000 + 0x2000 * i as u64, 0x40_1000 + 0x2000 * i as u64, 0, name.as_str()))
        .collect();
    let core = one_thread().note(notes::files(4096, &list)).load(Load::at(0x1000).bytes(vec![1; 64]));
    bounded_everywhere(core.write().path(), COMMANDS);
}

#[test]
fn a_long_file_name_over_many_regions() {
    // 50,000 regions of one mapped file: its name is 4,000 bytes, once.
    let name = format!("/{}", "x".repeat(4000));
    let n = 50_000u64;
    let loads = (0..n).map(|i| Load::at(0x40_0000 + (i << 12)).memsz(0x1000).flags(if i % 2 == 0 { R } else { R | W }));
    let list = [(0x40_0000, 0x40_0000 + (n << 12), 0, name.as_str())];
    let core = one_thread().note(notes::files(4096, &list)).loads(loads).count(Count::Extended);
    bounded_everywhere(core.write().path(), COMMANDS);
    bounded_everywhere(core.write().path(), &[&["maddress"], &["regions", "--json"], &["regions", "--format", "csv"]]);
}

/// Commands that look through all memory.
const SCANS: &[&[&str]] = &[
    &["summary", "--zero-fill"],
    &["search", "zzzz"],
    &["search", "--regex", "[a-z]{3,9}ing"],
    &["anon"],
    &["leaks"],
    &["malloc"],
    &["refs", "0x7ffe00000000"],
    &["stacks", "--zero-fill"],
];

#[test]
fn many_segments_over_the_same_bytes() {
    let bytes: Vec<u8> = (0..8u64 << 20).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 7) as u8).collect();
    let (len, n) = (bytes.len() as u64, 60_000u64);
    let at = |i: u64| 0x1000_0000 + i * len;
    let core = one_thread().load(Load::at(at(0)).bytes(bytes));
    let offset = core.clone().loads((1..n).map(|i| Load::at(at(i)))).data_offset() as u64;
    let core = core.loads((1..n).map(|i| Load::at(at(i)).offset(offset).filesz(len).memsz(len)));
    let file = core.write();
    bounded_everywhere(file.path(), COMMANDS);
    bounded_everywhere(file.path(), SCANS);
    // Reads don't mind; a scan tells where else it would have had to look.
    let out = bounded(&["search", "zzzz"], file.path()).go();
    assert!(out.stderr.contains("segments-share-bytes"), "{}", out.stderr);
    let out = bounded(&["whatis", &format!("{:#x}", at(n - 1)), "--bytes", "4"], file.path()).go();
    assert!(out.stdout.contains("00 f2 e5 d7") || out.code == Some(4), "{}", out.stdout);
}

#[test]
fn stacks_of_many_threads_that_are_one() {
    // 600 threads with the same 400 frames, in code whose file name is 4,000 bytes.
    let (code, stack) = (0x40_0000u64, 0x7000_0000_0000u64);
    let (threads, frames) = (600u32, 400u64);
    let mut words = vec![0u8; (frames * 16 + 64) as usize];
    for i in 0..frames {
        let at = (i * 16) as usize;
        let up = if i + 1 == frames { 0 } else { stack + (i + 1) * 16 };
        words[at..at + 8].copy_from_slice(&up.to_le_bytes());
        words[at + 8..at + 16].copy_from_slice(&(code + 0x105 + 16 * i).to_le_bytes());
    }
    // A call before each return address.
    let name = format!("/{}", "x".repeat(4000));
    let call: Vec<u8> = [0xe8, 0, 0, 0, 0, 0xc3].into_iter().chain([0x90; 10]).collect();
    let mut text = image(&[(0, 0x3000, R | X)], 0x3000);
    text[0x100..0x100 + 16 * frames as usize].copy_from_slice(&call.repeat(frames as usize));
    let mut all = Vec::new();
    for tid in 1..=threads {
        // rbp, rip, rsp
        all.extend(notes::prstatus_with(tid, &[(4, stack), (16, code + 0x100), (19, stack)]));
    }
    let core = CoreBuilder::x86_64()
        .note(all)
        .note(notes::files(4096, &[(code, code + 0x3000, 0, &name)]))
        .load(Load::at(code).bytes(text).flags(R | X))
        .load(Load::at(stack).bytes(words));
    let file = core.write();
    bounded_everywhere(file.path(), &[&["threads"], &["threads", "--group"], &["threads", "--fold"], &["stacks"]]);
    bounded_everywhere(
        file.path(),
        &[&["threads", "--json"], &["threads", "--format", "csv"], &["threads", "--group", "--format", "csv"]],
    );
    let out = bounded(&["threads"], file.path()).keep(1 << 20).go();
    assert!(out.stdout.matches("xxx").count() > 100, "no frames: the test lost its power");
}

#[test]
fn a_ring_of_list_nodes_that_never_closes() {
    // Many control blocks whose `list` leads into one long chain with a loop at
    // its end: each must not be followed anew to the last node.
    let base = 0x7000_0000_0000u64;
    let (threads, nodes) = (256u64, 500_000u64);
    let chain = base + threads * 0x1000;
    let word = |bytes: &mut Vec<u8>, at: u64, v: u64| {
        let i = (at - base) as usize;
        bytes[i..i + 8].copy_from_slice(&v.to_le_bytes());
    };
    let mut bytes = vec![0u8; (threads * 0x1000 + nodes * 16) as usize];
    let mut core = CoreBuilder::x86_64();
    for t in 0..threads {
        let block = base + t * 0x1000;
        let tp = block + 0x800;
        core = core.note(notes::prstatus_x86_64(t as u32 + 1, 0, block + 0x100, 0, tp));
        // The block points to itself, or nothing in it is believed.
        word(&mut bytes, tp, tp);
        word(&mut bytes, tp + 16, tp);
        // stackblock, size, guard, reported guard; and a link that looks sound.
        for (i, v) in [block, 0x1000, 0, 0].into_iter().enumerate() {
            word(&mut bytes, tp + 0x400 + 8 * i as u64, v);
        }
        // A control block points to itself, else it is not believed.
        word(&mut bytes, tp, tp);
        word(&mut bytes, tp + 0x10, tp);
        let link = tp + 0x2c0;
        let (next, prev) = (tp + 0x300, tp + 0x320);
        for (at, v) in [(link, next), (link + 8, prev), (next, chain), (next + 8, link), (prev, link)] {
            word(&mut bytes, at, v);
        }
    }
    for i in 0..nodes {
        let next = if i + 1 == nodes { chain + 16 } else { chain + 16 * (i + 1) };
        word(&mut bytes, chain + 16 * i, next);
    }
    let file = core.load(Load::at(base).bytes(bytes)).write();
    let out = bounded(&["stacks", "--json"], file.path()).within(Duration::from_secs(10)).go();
    out.is_sound();
    assert_eq!(out.json()["stacks"].as_array().unwrap().len() as u64, threads, "{}", out.stderr);
}
