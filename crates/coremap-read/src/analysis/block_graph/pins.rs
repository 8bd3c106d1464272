//! Used blocks that fragment malloc's free memory.

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::analysis::block_graph::scene::Scene;
use crate::native::malloc::{Chunk, State, split};

/// Minimum number of free bytes for a search, and their minimum share of malloc's memory in percent.
const FREE: u64 = 8 << 20;
const SHARE: u64 = 40;

/// Minimum size of a free range in bytes.
const PIECE: u64 = 256;

/// Minimum number of blocks directly after such ranges for a result.
const PINS: u64 = 16;

/// Maximum number of blocks whose holder is searched.
const ASKED: usize = 200;

/// Maximum number of candidate blocks, per part of the heap.
const KEPT: usize = 1 << 16;

/// Maximum number of different sizes that are counted, per part of the heap.
const SIZES: usize = 1024;

/// Used blocks directly after free ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinFact {
    /// Free bytes in these ranges, and number of ranges.
    pub free: u64,
    pub pieces: u64,
    /// Number of the blocks, their most frequent size in bytes, and how many have it.
    pub blocks: u64,
    pub size: u64,
    pub alike: u64,
    /// The most frequent holder in a sample of the blocks, with its share of the sample in percent.
    pub holder: Option<(String, u64)>,
    /// Text in one of the blocks.
    pub text: Option<String>,
}

/// Counts of one part of the heap.
#[derive(Default)]
struct Share {
    behind_piece: bool,
    free: u64,
    pieces: u64,
    blocks: u64,
    top: u64,
    sizes: BTreeMap<u64, u64>,
    kept: Vec<Addr>,
}

/// Finds the blocks. `None` if malloc has little free memory, or most of it at the end.
pub(super) fn find(scene: &Scene<'_, '_>) -> Option<PinFact> {
    let session = scene.session;
    let malloc = session.malloc();
    let usage = split(session.process, session.map(), malloc);
    let all = usage.free.saturating_add(usage.used);
    if usage.free < FREE || usage.free.saturating_mul(100) < all.saturating_mul(SHARE) {
        return None;
    }
    let (lists, _) = session.blocks();
    let visit = |share: &mut Share, chunk: &Chunk| {
        let was_piece = std::mem::take(&mut share.behind_piece);
        match chunk.state {
            State::Used if was_piece => {
                share.blocks = share.blocks.saturating_add(1);
                let room = share.sizes.len() < SIZES || share.sizes.contains_key(&chunk.size);
                if room {
                    let count = share.sizes.entry(chunk.size).or_default();
                    *count = count.saturating_add(1);
                }
                if share.kept.len() < KEPT {
                    share.kept.push(malloc.block(chunk.address));
                }
            }
            State::Used | State::Unknown => {}
            State::Top => share.top = share.top.saturating_add(chunk.size),
            _ if chunk.size >= PIECE => {
                share.behind_piece = true;
                share.free = share.free.saturating_add(chunk.size);
                share.pieces = share.pieces.saturating_add(1);
            }
            _ => {}
        }
    };
    let mut out = PinFact::default();
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut kept, mut top) = (Vec::new(), 0_u64);
    for (_, _, share, _) in malloc.walk(session.process, lists, |_| Share::default(), visit) {
        out.free = out.free.saturating_add(share.free);
        out.pieces = out.pieces.saturating_add(share.pieces);
        out.blocks = out.blocks.saturating_add(share.blocks);
        top = top.saturating_add(share.top);
        kept.extend(share.kept);
        for (size, count) in share.sizes {
            let sum = sizes.entry(size).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    if out.blocks < PINS || top.saturating_mul(2) >= usage.free {
        return None;
    }
    (out.size, out.alike) = sizes.into_iter().max_by_key(|(_, count)| *count)?;
    let step = kept.len().div_ceil(ASKED).max(1);
    let asked: Vec<u32> = kept.iter().step_by(step).filter_map(|at| scene.graph.at(*at)).collect();
    let mut groups: BTreeMap<u32, u64> = BTreeMap::new();
    for group in asked.iter().filter_map(|block| scene.root_of(*block)) {
        let count = groups.entry(group).or_default();
        *count = count.saturating_add(1);
    }
    let mut holders: BTreeMap<String, u64> = BTreeMap::new();
    for (group, of_group) in groups {
        let Some(group) = scene.groups.get(group as usize) else { continue };
        let count = holders.entry(scene.name_of(group).name).or_default();
        *count = count.saturating_add(of_group);
    }
    let most = holders.into_iter().max_by_key(|(_, count)| *count);
    out.holder = most.map(|(name, count)| (name, count.saturating_mul(100) / (asked.len() as u64).max(1)));
    let middle = asked.len() / 2;
    let alike = |block: &&u32| scene.graph.size(**block) == out.size;
    let example = asked.iter().skip(middle).chain(&asked).find(alike);
    out.text = example.and_then(|block| scene.text(*block));
    Some(out)
}
