//! Type, container and holder of single malloc blocks.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::facts::{ContainerFact, HolderLimits, NativeHolders};
use crate::analysis::block_graph::owners::NOBODY;
use crate::analysis::block_graph::retained::{NativeRetained, Sums};
use crate::analysis::block_graph::scene::{Scene, with_scene};
use crate::bytes::printable;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::report::{BlockOwnerRow, ClusterRow};
use crate::session::Session;

/// Maximum number of paths between a block and its holder in an answer, nearest to the block.
const SHOWN: usize = 6;

/// Maximum number of paths between a block and its holder that are searched for a container, nearest to the block.
const SEARCHED: usize = 16;

/// Share of a cluster's blocks in percent that one holder must have to be named.
const MOST: u64 = 80;

/// Answers questions about single blocks.
pub struct BlockOwners<'a, 's, 'p> {
    scene: &'a Scene<'s, 'p>,
    /// The container of each path that was asked for.
    containers: RefCell<HashMap<u32, Option<String>>>,
    sums: OnceCell<Sums>,
}

/// Reads the graph of malloc's blocks and passes it to `with`. `None` if there are no blocks, too many, or the time is up.
pub fn with_block_owners<T>(session: &Session<'_>, with: impl FnOnce(&BlockOwners<'_, '_, '_>) -> T) -> Option<T> {
    with_scene(session, |scene| with(&BlockOwners { scene, containers: RefCell::default(), sums: OnceCell::new() }))
}

impl<'s, 'p> BlockOwners<'_, 's, 'p> {
    /// What is known of the used block that contains `at`.
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
            container: path.and_then(|path| self.container(path)),
            holder: path.and_then(|path| scene.group_of(path)).map(|group| scene.name_of(group)),
            path: named.filter_map(|path| scene.in_words(*path)).collect(),
            retained: self.sums().of_block(block),
            lost,
            confidence: if strong { Confidence::Derived } else { Confidence::Heuristic },
        })
    }

    /// The nearest container that the blocks of a path belong to.
    fn container(&self, path: u32) -> Option<String> {
        if let Some(known) = self.containers.borrow().get(&path) {
            return known.clone();
        }
        let scene = self.scene;
        let above = scene.above(path);
        let ends = (1..above.len()).rev().take(SEARCHED);
        let found = ends.filter_map(|end| scene.container(above.get(..end)?, above.get(end).copied())).next();
        let found = found.map(|found| ContainerFact::new(&found, scene.prover.rust).words());
        self.containers.borrow_mut().insert(path, found.clone());
        found
    }

    /// Adds type, container and holder to clusters of used blocks, or of `lost` ones. One pass over all blocks.
    pub fn describe(&self, clusters: &mut [ClusterRow], lost: bool) {
        let scene = self.scene;
        let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, cluster) in clusters.iter().enumerate() {
            by_size.entry(cluster.size).or_default().push(i);
        }
        // Blocks of each cluster by path.
        let mut paths: Vec<HashMap<u32, u64>> = vec![HashMap::new(); clusters.len()];
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
            if let Some(counts) = of.and_then(|i| paths.get_mut(*i)) {
                let count = counts.entry(path).or_default();
                *count = count.saturating_add(1);
            }
        }
        for (cluster, counts) in clusters.iter_mut().zip(paths) {
            let all = counts.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
            let is_most = |count: u64| count.saturating_mul(100) >= all.saturating_mul(MOST);
            let mut groups: HashMap<Option<u32>, u64> = HashMap::new();
            for (path, count) in &counts {
                let sum = groups.entry(scene.paths.group.get(*path as usize).copied().flatten()).or_default();
                *sum = sum.saturating_add(*count);
            }
            let holder = groups.into_iter().find(|(_, count)| is_most(*count)).and_then(|(group, _)| group);
            cluster.holder =
                holder.and_then(|group| scene.groups.get(group as usize)).map(|group| scene.name_of(group).name);
            let path = counts.into_iter().find(|(path, count)| *path > 0 && is_most(*count));
            cluster.container = path.and_then(|(path, _)| self.container(path));
            let class = scene.graph.at(cluster.example).and_then(|block| scene.kinds.name(block));
            // A cluster of several first words may have several classes.
            let class = class.filter(|_| cluster.symbol.is_some() || cluster.count == 1);
            cluster.class = class.map(|name| printable(name).into_owned());
        }
    }

    /// Holders and lost groups within `limits`.
    pub fn holders(&self, limits: HolderLimits) -> NativeHolders {
        self.scene.facts(limits)
    }

    /// Retained bytes of all blocks.
    pub fn retained(&self) -> NativeRetained<'_, 's, 'p> {
        NativeRetained::new(self.scene, self.sums())
    }

    fn sums(&self) -> &Sums {
        self.sums.get_or_init(|| Sums::find(self.scene))
    }
}
