//! Type, container and holder of single malloc blocks.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::containers::Container;
use crate::analysis::block_graph::facts::{ContainerFact, HolderLimits, NativeHolders};
use crate::analysis::block_graph::owners::{NOBODY, Vertex};
use crate::analysis::block_graph::retained::{NativeRetained, Sums};
use crate::analysis::block_graph::scene::{Scene, with_scene};
use crate::bytes::printable;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::report::{BlockOwnerRow, ClusterRow};
use crate::session::Session;

/// Maximum number of paths between a block and its holder in an answer, nearest to the block.
const SHOWN: usize = 6;

/// Maximum number of blocks between a block and its holder that are searched for a container.
const SEARCHED: usize = 32;

/// Minimum share of a cluster's blocks, in percent, of a holder that is named.
const MOST: u64 = 80;

/// Holders of a cluster's blocks.
#[derive(Clone, Default)]
struct Held {
    /// Number of blocks by the root group that retains them.
    groups: HashMap<Option<u32>, u64>,
    /// Some of the blocks.
    some: Vec<u32>,
    /// Number of all blocks in the cluster.
    all: u64,
}

/// Answers questions about single blocks.
pub struct BlockOwners<'a, 's, 'p> {
    scene: &'a Scene<'s, 'p>,
    sums: OnceCell<Sums>,
}

/// Reads the graph of malloc's blocks and passes it to `with`. `None` if there are no blocks or too many, or the time
/// is up.
pub fn with_block_owners<T>(session: &Session<'_>, with: impl FnOnce(&BlockOwners<'_, '_, '_>) -> T) -> Option<T> {
    with_scene(session, |scene| with(&BlockOwners { scene, sums: OnceCell::new() }))
}

impl<'s, 'p> BlockOwners<'_, 's, 'p> {
    /// Describes the used block that contains `at`.
    pub fn owner(&self, at: Addr) -> Option<BlockOwnerRow> {
        let scene = self.scene;
        let block = scene.graph.at(at)?;
        let path = scene.path_of(block);
        let lost = path.and_then(|path| scene.paths.lost.get(path as usize).copied()).unwrap_or(false);
        let above = path.map(|path| scene.above(path)).unwrap_or_default();
        let named = above.iter().rev().skip(1).take(SHOWN).rev();
        let strong = scene.owners.first.get(block as usize).is_some_and(|group| *group != NOBODY);
        Some(BlockOwnerRow {
            class: scene.kinds.name(block).map(|name| printable(name).into_owned()),
            container: self.container(block),
            holder: path.and_then(|path| scene.group_of(path)).map(|group| scene.name_of(group)),
            path: named.filter_map(|path| scene.in_words(*path)).collect(),
            retained: self.sums().of_block(block),
            lost,
            confidence: if strong { Confidence::Derived } else { Confidence::Heuristic },
        })
    }

    /// Returns the nearest container of a block. The block is one of its nodes, its storage, or below one of these.
    fn container(&self, block: u32) -> Option<String> {
        let scene = self.scene;
        let words = |found: &Container| ContainerFact::new(found, scene.prover.rust).words();
        let mut at = block;
        for _ in 0..SEARCHED {
            if let Some(found) = scene.owners.containers.container(at) {
                return Some(words(found));
            }
            // Returns the container near a word, if its storage is this block.
            let of_word = |word: Addr| {
                let found = scene.prover.near(word)?;
                (scene.graph.at(found.storage) == Some(at)).then(|| words(&found))
            };
            match self.sums().above(scene, at)? {
                Vertex::Block(above) => {
                    let start = scene.graph.start(above);
                    if let Some(table) = scene.prover.ghash(start) {
                        return Some(words(&table));
                    }
                    let mut edges = scene.graph.edges.of(above).filter(|(_, to, _)| *to == at);
                    let found =
                        edges.find_map(|(word, ..)| of_word(start.checked_add(u64::from(word).saturating_mul(8))?));
                    if found.is_some() {
                        return found;
                    }
                    at = above;
                }
                Vertex::Group(group) => {
                    let group = scene.groups.get(group as usize)?;
                    let mut leads = group.words.iter().filter(|word| word.to == at);
                    return group.container.as_ref().map(words).or_else(|| leads.find_map(|word| of_word(word.at)));
                }
                Vertex::Root | Vertex::Lost => return None,
            }
        }
        None
    }

    /// Adds type, container and holder to clusters of used blocks, or of `lost` ones. One pass over all blocks.
    pub fn describe(&self, clusters: &mut [ClusterRow], lost: bool) {
        let scene = self.scene;
        let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, cluster) in clusters.iter().enumerate() {
            by_size.entry(cluster.size).or_default().push(i);
        }
        let mut held: Vec<Held> = vec![Held::default(); clusters.len()];
        for block in 0..scene.graph.len() as u32 {
            let Some(of_size) = by_size.get(&scene.graph.size(block)) else { continue };
            let path = scene.path_of(block).unwrap_or(0);
            if lost && scene.paths.lost.get(path as usize) != Some(&true) {
                continue;
            }
            let word = || scene.session.process.memory.peek_u64(scene.graph.start(block)).ok().map(Addr::new);
            let word = if of_size.len() > 1 { word() } else { None };
            let begins = |i: &&usize| clusters.get(**i).is_some_and(|c| c.first_word.is_some() && c.first_word == word);
            let rest = |i: &&usize| clusters.get(**i).is_some_and(|c| c.first_word.is_none());
            let of = of_size.iter().find(begins).or_else(|| of_size.iter().find(rest)).or(of_size.first());
            if let Some(held) = of.and_then(|i| held.get_mut(*i)) {
                let count = held.groups.entry(scene.paths.group.get(path as usize).copied().flatten()).or_default();
                *count = count.saturating_add(1);
                held.all = held.all.saturating_add(1);
                if held.all.is_power_of_two() {
                    held.some.push(block);
                }
            }
        }
        for (cluster, Held { groups, some, all }) in clusters.iter_mut().zip(held) {
            let is_most = |count: u64| count.saturating_mul(100) >= all.saturating_mul(MOST);
            let holder = groups.into_iter().find(|(_, count)| is_most(*count)).and_then(|(group, _)| group);
            cluster.holder =
                holder.and_then(|group| scene.groups.get(group as usize)).map(|group| scene.name_of(group).name);
            let mut containers = some.iter().map(|block| self.container(*block));
            let first = containers.next().flatten();
            cluster.container = first.filter(|first| containers.all(|other| other.as_ref() == Some(first)));
            let class = scene.graph.at(cluster.example).and_then(|block| scene.kinds.name(block));
            // If a cluster has several first words, its blocks may have several classes.
            let class = class.filter(|_| cluster.symbol.is_some() || cluster.count == 1);
            cluster.class = class.map(|name| printable(name).into_owned());
        }
    }

    /// Returns holders and lost groups within `limits`.
    pub fn holders(&self, limits: HolderLimits) -> NativeHolders {
        self.scene.facts(limits)
    }

    /// Returns the retained bytes of all blocks.
    pub fn retained(&self) -> NativeRetained<'_, 's, 'p> {
        NativeRetained::new(self.scene, self.sums())
    }

    fn sums(&self) -> &Sums {
        self.sums.get_or_init(|| Sums::find(self.scene))
    }
}
