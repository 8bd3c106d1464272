//! Pages that are mapped twice: which pairs are found, and that each page counts once.

use std::io::Write;

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load, R, W};
use crate::support::notes;
use crate::support::real::hex;
use crate::support::run::run;

const PAGE: u64 = 0x1000;
const LEN: u64 = 8 * PAGE;
const BASE: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;

/// A mapping: its place (a number), its offset in pages, name, contents.
struct View<'a> {
    at: u64,
    offset: u64,
    name: &'a str,
    bytes: Vec<u8>,
}

fn address(at: u64) -> u64 {
    BASE + at * 0x10_0000
}

/// Contents of file number `seed` from page `offset` on.
fn contents(seed: u64, offset: u64) -> Vec<u8> {
    let word = |i: u64| (seed << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..LEN / 8).flat_map(|i| word(offset * PAGE / 8 + i).to_le_bytes()).collect()
}

fn core(views: &[View<'_>]) -> CoreBuilder {
    let files: Vec<(u64, u64, u64, &str)> =
        views.iter().map(|v| (address(v.at), address(v.at) + v.bytes.len() as u64, v.offset, v.name)).collect();
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(1, 0, STACK + 0x800, BASE, 0))
        .note(notes::prpsinfo(1, "lab", "lab"))
        .note(notes::files(PAGE, &files))
        .loads(views.iter().map(|v| Load::at(address(v.at)).flags(R | W).bytes(v.bytes.clone())))
        .load(Load::at(STACK).bytes(vec![1; 0x1000]))
}

fn view(at: u64, offset: u64, name: &str, bytes: Vec<u8>) -> View<'_> {
    View { at, offset, name, bytes }
}

fn answer(core: &CoreBuilder, command: &str, more: &[&str]) -> Value {
    let file = core.write();
    let words = [command, "--json"].into_iter().chain(more.iter().copied());
    run(words.chain([file.path().to_str().unwrap()])).is_sound().json()
}

/// Ranges of the second views.
fn seconds(regions: &Value) -> Vec<(u64, u64)> {
    let rows = regions["regions"].as_array().unwrap().iter().filter(|r| r["kind"] == "DoubleMapped");
    rows.map(|r| (hex(&r["start"]), hex(&r["end"]))).collect()
}

fn finding<'a>(triage: &'a Value, id: &str) -> &'a Value {
    triage["findings"].as_array().unwrap().iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("{triage}"))
}

/// RabbitMQ has three memfds of one name, each mapped twice with the same access.
#[test]
fn several_files_of_one_name_are_told_apart_by_their_bytes() {
    for name in ["/memfd:vmem (deleted)", "/dev/zero (deleted)", "/SYSV00000000 (deleted)", "/dev/shm/ring"] {
        let views: Vec<View<'_>> = (0..6).map(|i| view(i, 0, name, contents(i % 3 + 1, 0))).collect();
        let core = core(&views);
        let wanted: Vec<(u64, u64)> = (3..6).map(|i| (address(i), address(i) + LEN)).collect();
        assert_eq!(seconds(&answer(&core, "regions", &[])), wanted, "{name}");
        let triage = answer(&core, "triage", &[]);
        assert_eq!(
            (triage["second_views"].as_u64(), triage["written"].as_u64()),
            (Some(3 * LEN), Some(3 * LEN + PAGE))
        );
        let shared = finding(&triage, "shared-memory");
        assert_eq!((shared["bytes"].as_u64(), &shared["confidence"]), (Some(3 * LEN), &"exact".into()), "{shared}");
        // Its command lists what the finding counts.
        let listed = answer(&core, "regions", &["--kind", "SharedMemory"]);
        let sizes = listed["regions"].as_array().unwrap().iter().map(|r| r["size"].as_u64().unwrap());
        assert_eq!(sizes.sum::<u64>(), 3 * LEN, "{listed}");
    }
}

/// Two mappings share a part of the file, and the third is another file.
#[test]
fn a_part_may_be_mapped_twice() {
    let name = "/memfd:ring (deleted)";
    let core =
        core(&[view(0, 0, name, contents(1, 0)), view(1, 0, name, contents(2, 0)), view(2, 5, name, contents(1, 5))]);
    assert_eq!(seconds(&answer(&core, "regions", &[])), [(address(2), address(2) + 3 * PAGE)]);
    assert_eq!(answer(&core, "triage", &[])["second_views"].as_u64(), Some(3 * PAGE));
}

/// Only pages far from each other were written.
#[test]
fn a_single_written_page_is_compared() {
    let name = "/memfd:sparse (deleted)";
    let page = |seed: u64, at: usize| {
        let mut bytes = vec![0; 64 * PAGE as usize];
        bytes[at * PAGE as usize..][..PAGE as usize].copy_from_slice(&contents(seed, 0)[..PAGE as usize]);
        bytes
    };
    let core = core(&[view(0, 0, name, page(1, 43)), view(1, 0, name, page(1, 43)), view(2, 0, name, page(2, 43))]);
    assert_eq!(seconds(&answer(&core, "regions", &[])), [(address(1), address(1) + 64 * PAGE)]);
}

/// One value everywhere does not show whether the pages are the same.
#[test]
fn what_cannot_be_decided_is_not_exact() {
    let name = "/memfd:frames (deleted)";
    let core = core(&[view(0, 0, name, vec![0x33; LEN as usize]), view(1, 0, name, vec![0x33; LEN as usize])]);
    assert_eq!(seconds(&answer(&core, "regions", &[])), []);
    let triage = answer(&core, "triage", &[]);
    let shared = finding(&triage, "shared-memory");
    assert_eq!((shared["bytes"].as_u64(), &shared["confidence"]), (Some(2 * LEN), &"heuristic".into()), "{shared}");
    assert!(shared["text"].as_str().unwrap().contains("Up to 32 KiB of it may be mapped twice"), "{shared}");
}

/// With smaps, inodes decide, whatever the bytes are.
#[test]
fn inodes_decide() {
    let name = "/memfd:frames (deleted)";
    let same = vec![0x33; LEN as usize];
    let other = contents(1, 0);
    let core = core(&[
        view(0, 0, name, same.clone()),
        view(1, 0, name, same.clone()),
        view(2, 0, name, same),
        view(3, 0, name, other.clone()),
        view(4, 0, name, other),
    ]);
    let mut smaps = tempfile::NamedTempFile::new().unwrap();
    let rest = "Rss: 32 kB\nPss: 32 kB\nShared_Clean: 0 kB\nShared_Dirty: 0 kB\nPrivate_Clean: 0 kB\n\
                Private_Dirty: 32 kB\nReferenced: 32 kB\nAnonymous: 0 kB\nSwap: 0 kB\n";
    for (i, inode) in [7, 8, 8, 9, 10].into_iter().enumerate() {
        let start = address(i as u64);
        let end = start + LEN;
        write!(smaps, "{start:x}-{end:x} rw-s 00000000 00:01 {inode}    {name}\n{rest}").unwrap();
    }
    let smaps = smaps.path().to_str().unwrap();
    assert_eq!(seconds(&answer(&core, "regions", &["--smaps", smaps])), [(address(2), address(2) + LEN)]);
    let triage = answer(&core, "triage", &["--smaps", smaps]);
    let shared = finding(&triage, "shared-memory");
    assert_eq!((shared["bytes"].as_u64(), &shared["confidence"]), (Some(4 * LEN), &"exact".into()), "{shared}");
}
