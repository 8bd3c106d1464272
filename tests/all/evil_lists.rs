//! Lists that many others share, that run in circles or go on for ever: what one walk saw is
//! not walked anew by the next, and each answer says which list it left, and why.

use std::time::Duration;

use serde_json::Value;

use crate::support::dotnet_builder::{FREE, Fake, HANDLES};
use crate::support::run::{Output, bounded};

/// Processor time; each takes less than a second.
const MOST: Duration = Duration::from_secs(10);

/// Sync blocks whose waiters begin at the links of `first`. Links are words from FREE on, of
/// which each holds where the next one is.
fn blocks(first: impl Iterator<Item = u64>, links: &[u64]) -> Fake {
    let mut fake = Fake::dotnet_8();
    let store = fake.make("ThreadStore");
    fake.set_global("ThreadStore", store);
    // What a link's event is of lies before it.
    let words = std::iter::repeat_n(0u64, 8).chain(links.iter().copied());
    fake.map(FREE - 64, words.flat_map(u64::to_le_bytes).collect());
    let table = fake.table.size("SyncTableEntry");
    let room = fake.table.at("SyncBlock", "Link") + 8;
    let first: Vec<u64> = first.collect();
    let (entries, blocks) = (FREE + (1 << 32), FREE + (2 << 32));
    let mut bytes =
        (vec![0; (table * (first.len() as u64 + 1)) as usize], vec![0; (room * first.len() as u64) as usize]);
    let put = |to: &mut Vec<u8>, at: u64, value: &[u8]| to[at as usize..][..value.len()].copy_from_slice(value);
    for (i, link) in first.iter().enumerate() {
        let (entry, block) = (table * (i as u64 + 1), room * i as u64);
        put(&mut bytes.0, entry + fake.table.at("SyncTableEntry", "SyncBlock"), &(blocks + block).to_le_bytes());
        put(&mut bytes.0, entry + fake.table.at("SyncTableEntry", "Object"), &(FREE + 8 * i as u64).to_le_bytes());
        put(&mut bytes.1, block + fake.table.at("SyncBlock", "SyncIndex"), &(i as u32 + 1).to_le_bytes());
        put(&mut bytes.1, block + fake.table.at("SyncBlock", "Link"), &link.to_le_bytes());
    }
    fake.map(entries, bytes.0);
    fake.map(blocks, bytes.1);
    let cache = fake.make("SyncBlockCache");
    let next = fake.table.at("SyncBlockCache", "FreeSyncTableIndex");
    fake.poke(cache + next, &(first.len() as u32 + 1).to_le_bytes());
    fake.set_global("SyncBlockCache", cache);
    fake.set_global("SyncTableEntries", entries);
    fake
}

/// How many wait at each block, and the warnings.
#[track_caller]
fn waiting(fake: &Fake) -> (Vec<usize>, String, Output) {
    let file = fake.core().write();
    let out = bounded(&["syncblocks", "--json"], file.path()).within(MOST).go();
    out.is_sound();
    let json: Value = out.json();
    let pulse = |b: &Value| b["pulse"].as_array().unwrap().len();
    (json["blocks"].as_array().unwrap().iter().map(pulse).collect(), json["warnings"].to_string(), out)
}

fn chain(n: u64, last: u64) -> Vec<u64> {
    (1..=n).map(|i| if i == n { last } else { FREE + 8 * i }).collect()
}

#[test]
fn waiters_of_sane_blocks_are_all_told() {
    let mut links = chain(3, 0);
    links.extend([FREE + 32, 0]);
    let (pulse, warnings, out) = waiting(&blocks([FREE, 0, FREE + 24].into_iter(), &links));
    assert_eq!(pulse, [3, 0, 2], "{warnings}");
    // The made core has no code, which stacks of native locks lack.
    assert!(!warnings.contains("sync block"), "{warnings}");
    out.exits(4);
}

#[test]
fn ten_thousand_blocks_that_share_one_list_of_waiters() {
    let (n, nodes) = (10_000, 60_000);
    let (pulse, warnings, out) = waiting(&blocks(std::iter::repeat_n(FREE, n), &chain(nodes, 0)));
    assert_eq!((pulse.len(), pulse[0], pulse[1]), (n, nodes as usize, 0));
    assert!(warnings.contains("the list of sync block 2 runs into another list at 0x700000000000"), "{warnings}");
    out.exits(4);
}

#[test]
fn a_list_of_waiters_that_runs_in_a_circle() {
    let (pulse, warnings, out) = waiting(&blocks([FREE].into_iter(), &chain(10, FREE + 16)));
    assert_eq!(pulse, [10]);
    assert!(warnings.contains("has a cycle at 0x700000000010"), "{warnings}");
    out.exits(4);
}

#[test]
fn a_thousand_lists_of_waiters_that_have_a_million_nodes_together() {
    let (n, nodes) = (1000, 2000);
    let links: Vec<u64> = (0..n * nodes).map(|i| if (i + 1) % nodes == 0 { 0 } else { FREE + 8 * (i + 1) }).collect();
    let (pulse, warnings, out) = waiting(&blocks((0..n).map(|i| FREE + 8 * i * nodes), &links));
    assert_eq!(pulse[0], nodes as usize);
    assert!(pulse.iter().sum::<usize>() <= 1 << 18);
    assert!(warnings.contains("steps of reading locks"), "{warnings}");
    out.exits(4);
}

#[test]
fn handle_segments_a_word_apart() {
    let mut fake = Fake::dotnet_8();
    let next = fake.table.at("TableSegment", "NextSegment");
    // As long as a segment, and a hundred thousand more.
    let words = 108_192u64;
    let links = (0..words).map(|j| (FREE + 8 * (j + 1)).saturating_sub(next));
    fake.map(FREE, links.flat_map(u64::to_le_bytes).collect());
    let first = HANDLES + fake.table.size("TableSegment");
    fake.set("TableSegment", first, "NextSegment", FREE);
    let file = fake.core().write();
    let out = bounded(&["handles", "--json"], file.path()).within(MOST).go();
    out.exits(4);
    assert!(out.json()["warnings"].to_string().contains("is inside another one"), "{}", out.stderr);
}
