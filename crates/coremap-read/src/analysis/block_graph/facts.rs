//! The holders of most of malloc's memory, and blocks that are lost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::containers::{Container, Prover};
use crate::analysis::block_graph::kinds::{Kinds, text};
use crate::analysis::block_graph::owners::{Owners, Vertex};
use crate::analysis::block_graph::paths::Paths;
use crate::analysis::block_graph::pins::{self, PinFact};
use crate::analysis::block_graph::roots::{self, RootGroup};
use crate::analysis::block_graph::stacks::UnwoundStacks;
use crate::analysis::reach::{Reach, unread};
use crate::analysis::roots::room;
use crate::bytes::printable;
use crate::session::Session;
use crate::units::exact;

/// Maximum number of holders, and of kinds of lost groups.
const MOST: usize = 4;

/// Minimum size of one in bytes, and its minimum share of the blocks in percent.
const BYTES: u64 = 1 << 20;
const SHARE: u64 = 5;

/// Minimum number of equal blocks that are elements, and how many times as many as their holders they must be.
const ELEMENTS: u64 = 64;
const TIMES: u64 = 8;

/// Bytes of a block that are searched for the header of a container.
const HEADER: u64 = 1024;

/// Maximum number of paths that are searched for classes and texts.
const SEARCHED: usize = 400;

/// Blocks that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Their class or a description: `blocks of 80 bytes`.
    pub what: String,
    /// Number of them.
    pub count: u64,
    /// Bytes of these and of the blocks that they hold.
    pub bytes: u64,
}

/// A container, proven by its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFact {
    /// Its name.
    pub name: &'static str,
    /// Number of elements. `None` if the structure does not show it.
    pub count: Option<u64>,
    /// Bytes in use and bytes of its storage, if that is one block.
    pub room: Option<(u64, u64)>,
}

/// A holder of malloc blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderFact {
    /// Bytes and number of the blocks.
    pub bytes: u64,
    pub blocks: u64,
    /// The variable or other root. `None` if several roots lead to the blocks and none to all.
    pub name: Option<String>,
    /// Number of threads with this variable.
    pub threads: u64,
    /// Whether no other root leads there.
    pub alone: bool,
    pub container: Option<ContainerFact>,
    /// From the holder to the elements.
    pub chain: Vec<Part>,
    pub elements: Option<Part>,
    /// How elements are linked if no container is proven: the offset of the word that leads to the next one, and the
    /// number of words of the table above them.
    pub linked: Option<(u64, u64)>,
    /// Classes of all blocks, with their numbers.
    pub classes: Vec<(String, u64)>,
    /// Text in them.
    pub texts: Vec<String>,
}

/// Groups of lost blocks that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFact {
    pub bytes: u64,
    pub blocks: u64,
    /// Number of groups.
    pub groups: u64,
    /// Description of the first block of each.
    pub head: String,
    /// Usable bytes of that block.
    pub head_bytes: u64,
    /// Whether the blocks of a group lead to each other.
    pub cycle: bool,
    /// Offset of the word that links the blocks of a group, if they are a list.
    pub linked: Option<u64>,
    pub classes: Vec<(String, u64)>,
    pub texts: Vec<String>,
    /// The first block of one group.
    pub example: Addr,
}

/// Holders of malloc's blocks.
#[derive(Clone, Debug, Default)]
pub struct NativeHolders {
    /// Bytes of all used blocks.
    pub used: u64,
    /// Largest first.
    pub holders: Vec<HolderFact>,
    pub lost: Vec<LostFact>,
    /// Whether all memory that may have pointers was read.
    pub complete: bool,
    /// Blocks that keep free memory in pieces. `None` if little memory is free.
    pub pins: Option<PinFact>,
}

/// Finds the holders of malloc's blocks. `None` if there are no blocks, too many, or the time is up.
pub fn native_holders(session: &Session<'_>) -> Option<NativeHolders> {
    if session.malloc().is_empty() {
        return None;
    }
    session.process.target().expect_scan();
    let (_, blocks) = session.blocks();
    let reach = Reach::new(session.process, blocks);
    let graph = BlockGraph::read(session, &reach).filter(|graph| graph.len() > 0)?;
    let budget = room(session);
    let stacks = UnwoundStacks::new(session);
    let prover = Prover::new(session, &graph, is_rust(session, &stacks));
    let groups = roots::find(session, &graph, &prover, &stacks, &budget)?;
    let kinds = Kinds::find(session, &graph, &budget).ok()?;
    let is_typed = |block: u32| kinds.name(block).is_some();
    let owners = Owners::find(&graph, &prover, &groups, &is_typed, &budget).ok()?;
    let paths = Paths::find(&graph, &kinds, &owners, &budget).ok()?;
    let scene = Scene {
        session,
        graph: &graph,
        prover: &prover,
        groups: &groups,
        kinds: &kinds,
        owners: &owners,
        paths: &paths,
        stacks: &stacks,
    };
    let used: u64 = (0..graph.len() as u32).map(|block| graph.size(block)).fold(0, u64::saturating_add);
    let counts = |bytes: u64| bytes >= BYTES && bytes.saturating_mul(100) >= used.saturating_mul(SHARE);
    // Blocks of an allocator that is not walked may lead to these.
    let walked = session.malloc().allocators(session.process).iter().all(|allocator| allocator.walked);
    Some(NativeHolders {
        used,
        holders: scene.holders(&counts),
        lost: scene.lost(&counts),
        complete: unread(session) == 0 && !blocks.capped && walked,
        pins: pins::find(&scene),
    })
}

/// Whether the program is written in Rust, by the first functions of its main thread.
fn is_rust(session: &Session<'_>, stacks: &UnwoundStacks<'_, '_>) -> bool {
    let Some(stack) = session.process.main_tid().and_then(|main| stacks.of(main)) else { return false };
    let outermost = stack.frames.iter().rev().take(FIRST_FRAMES);
    outermost
        .filter_map(|(_, code)| session.symbols().resolve(*code))
        .any(|symbol| symbol.name.contains("lang_start") || symbol.name.contains("__rust_begin_short"))
}

/// Outermost frames that may show the language.
const FIRST_FRAMES: usize = 12;

/// The results that holders are found from.
pub(super) struct Scene<'s, 'p> {
    pub(super) session: &'s Session<'p>,
    pub(super) graph: &'s BlockGraph<'s>,
    pub(super) prover: &'s Prover<'s>,
    pub(super) groups: &'s [RootGroup],
    pub(super) kinds: &'s Kinds,
    pub(super) owners: &'s Owners,
    pub(super) paths: &'s Paths,
    pub(super) stacks: &'s UnwoundStacks<'s, 'p>,
}

/// The key of one variable in several threads: whether it is thread-local, and its position.
pub(super) type SameKey = (bool, String);

impl Scene<'_, '_> {
    /// The largest holders, largest first.
    fn holders(&self, counts: &dyn Fn(u64) -> bool) -> Vec<HolderFact> {
        let is_lost = |path: &u32| self.paths.get(*path).is_some_and(|path| path.first == Vertex::Lost);
        let mut same: BTreeMap<SameKey, Vec<u32>> = BTreeMap::new();
        let mut single: Vec<Vec<u32>> = Vec::new();
        for &path in self.paths.below(0).iter().filter(|path| !is_lost(path)) {
            match self.group_of(path).and_then(|group| self.same_key(group)) {
                Some(key) => same.entry(key).or_default().push(path),
                None => single.push(vec![path]),
            }
        }
        single.extend(same.into_values());
        let bytes = |paths: &[u32]| {
            paths.iter().filter_map(|path| self.paths.get(*path)).map(|path| path.bytes).fold(0, u64::saturating_add)
        };
        single.retain(|paths| counts(bytes(paths)));
        single.sort_by_key(|paths| Reverse(bytes(paths)));
        single.truncate(MOST);
        single.iter().filter_map(|paths| self.holder(paths)).collect()
    }

    fn group_of(&self, path: u32) -> Option<&RootGroup> {
        self.groups.get(self.paths.group.get(path as usize).copied().flatten()? as usize)
    }

    /// The holder at the start of `paths`: one path, or the paths of one variable in several threads.
    fn holder(&self, paths: &[u32]) -> Option<HolderFact> {
        let &first = paths.iter().max_by_key(|path| self.paths.get(**path).map(|path| path.bytes))?;
        let path = self.paths.get(first)?;
        let sum = |of: &dyn Fn(u32) -> u64| paths.iter().map(|path| of(*path)).fold(0, u64::saturating_add);
        let (chain, elements) = self.chain(first);
        let group = self.group_of(first);
        let reached = || match path.first {
            Vertex::Block(block) => {
                self.groups.get(self.owners.first.get(block as usize).copied().unwrap_or(u32::MAX) as usize)
            }
            Vertex::Root | Vertex::Group(_) | Vertex::Lost => None,
        };
        let name = group.or_else(reached).map(|group| self.name_of(group));
        let container = self.container(&chain, elements);
        let part = elements.or(chain.last().copied());
        let below = if group.is_some() { chain.get(1..) } else { chain.get(..) };
        let linked = elements.filter(|_| container.is_none()).and_then(|part| {
            let heads = chain.last().map_or(0, |last| self.heads(*last, part));
            Some((self.linked(part, heads)?, heads))
        });
        let mut elements = elements.and_then(|part| self.part(part));
        if let Some(elements) = elements.as_mut().filter(|_| paths.len() > 1) {
            let counts = paths.iter().filter_map(|path| self.part(self.chain(*path).1?));
            elements.count = counts.map(|part| part.count).fold(0, u64::saturating_add);
        }
        Some(HolderFact {
            bytes: sum(&|path| self.paths.get(path).map_or(0, |path| path.bytes)),
            blocks: sum(&|path| self.paths.get(path).map_or(0, |path| path.blocks)),
            name,
            threads: paths.len() as u64,
            alone: group.is_some(),
            container: container.map(|found| ContainerFact {
                name: found.kind.name(self.prover.rust),
                count: found.count,
                // A hash table is never full.
                room: found.room.filter(|_| found.kind.is_array()),
            }),
            chain: below.unwrap_or_default().iter().filter_map(|path| self.part(*path)).collect(),
            elements,
            linked,
            classes: self.classes(first),
            texts: part.map_or_else(Vec::new, |part| self.texts(part, &chain)),
        })
    }

    /// Goes down from a path while one child has most of its bytes. Returns the paths, and the elements below the last one.
    fn chain(&self, from: u32) -> (Vec<u32>, Option<u32>) {
        let mut chain = vec![from];
        let mut at = from;
        while let Some(&child) = self.paths.below(at).first() {
            let (Some(above), Some(below)) = (self.paths.get(at), self.paths.get(child)) else { break };
            if below.count >= ELEMENTS && below.count >= above.count.saturating_mul(TIMES) {
                return (chain, Some(child));
            }
            if below.bytes.saturating_mul(2) < above.bytes {
                break;
            }
            chain.push(child);
            at = child;
        }
        (chain, None)
    }

    fn part(&self, path: u32) -> Option<Part> {
        let found = self.paths.get(path)?;
        let what = match found.first {
            Vertex::Block(block) => self.what(block),
            Vertex::Group(group) => self.name_of(self.groups.get(group as usize)?),
            Vertex::Root | Vertex::Lost => return None,
        };
        Some(Part { what, count: found.count, bytes: found.bytes })
    }

    /// Describes a block by its class or its size.
    fn what(&self, block: u32) -> String {
        match self.kinds.name(block) {
            Some(class) => printable(class).into_owned(),
            None if self.kinds.of(block).text => format!("blocks of {} bytes with text", exact(self.graph.size(block))),
            None => format!("blocks of {} bytes", exact(self.graph.size(block))),
        }
    }

    /// The container at the end of a chain, whose elements are `elements`.
    fn container(&self, chain: &[u32], elements: Option<u32>) -> Option<Container> {
        let (&last, above) = chain.split_last()?;
        let storage = match self.paths.get(last)?.first {
            Vertex::Block(block) => Some(block),
            Vertex::Group(_) | Vertex::Root | Vertex::Lost => None,
        };
        // A container above, whose storage this block is, comes before one inside of its elements. A container in the
        // first of many equal blocks is not the holder.
        let is_one = |path: u32| self.paths.get(path).is_some_and(|path| path.count == 1);
        let above = above.last().filter(|above| is_one(**above)).and_then(|above| {
            let storage = storage?;
            self.in_path(*above).into_iter().find(|found| self.graph.at(found.storage) == Some(storage))
        });
        let path_of = |block: u32| self.paths.of_block.get(block as usize).copied().unwrap_or(0);
        let fits = |found: &Container| {
            let Some(path) = self.graph.at(found.storage).map(path_of).filter(|path| *path > 0) else { return false };
            let parent = self.paths.get(path).map_or(0, |path| path.parent);
            let bytes = |path: u32| self.paths.get(path).map_or(0, |path| path.bytes);
            let large = match elements.and_then(|part| self.paths.get(part)) {
                Some(part) => chain.contains(&path) || found.count.is_none_or(|found| found >= part.count / 2),
                None => chain.contains(&path) || bytes(path) >= bytes(last) / 2,
            };
            (Some(path) == elements || chain.contains(&path) || parent > 0 && chain.contains(&parent)) && large
        };
        above.or_else(|| {
            let mut all = if is_one(last) { self.in_path(last) } else { Vec::new() };
            all.retain(fits);
            all.into_iter().max_by_key(|found| found.count.unwrap_or_else(|| found.room.map_or(0, |room| room.0 / 8)))
        })
    }

    /// Containers whose headers are in the first holder of a path.
    fn in_path(&self, path: u32) -> Vec<Container> {
        match self.paths.get(path).map(|path| path.first) {
            Some(Vertex::Group(group)) => {
                let Some(group) = self.groups.get(group as usize) else { return Vec::new() };
                let near = || group.words.iter().take(HEADER as usize / 8).filter_map(|word| self.prover.near(word.at));
                group.container.clone().map_or_else(|| near().collect(), |found| vec![found])
            }
            Some(Vertex::Block(block)) => {
                let start = self.graph.start(block);
                let words = (0..self.graph.usable(block).min(HEADER)).step_by(8);
                let mut all: Vec<Container> =
                    words.filter_map(|offset| self.prover.at(start.checked_add(offset)?)).collect();
                all.extend(self.prover.ghash(start));
                all
            }
            Some(Vertex::Root | Vertex::Lost) | None => Vec::new(),
        }
    }

    /// Paths at and below one, most important first.
    pub(super) fn below(&self, path: u32) -> Vec<u32> {
        let mut out = vec![path];
        let mut at = 0;
        while let Some(&path) = out.get(at).filter(|_| out.len() < SEARCHED) {
            out.extend(self.paths.below(path));
            at = at.saturating_add(1);
        }
        out
    }

    /// The largest kinds of lost groups, largest first.
    fn lost(&self, counts: &dyn Fn(u64) -> bool) -> Vec<LostFact> {
        let lost = self
            .paths
            .below(0)
            .iter()
            .find(|path| self.paths.get(**path).is_some_and(|path| path.first == Vertex::Lost));
        let paths = lost.map_or(&[][..], |lost| self.paths.below(*lost));
        let path_of = |block: u32| self.paths.of_block.get(block as usize).copied().unwrap_or(0);
        let fact = |&path: &u32| -> Option<LostFact> {
            let found = self.paths.get(path).filter(|path| counts(path.bytes))?;
            let Vertex::Block(block) = found.first else { return None };
            let heads: Vec<_> = self.owners.heads.iter().filter(|head| path_of(head.block) == path).collect();
            Some(LostFact {
                bytes: found.bytes,
                blocks: found.blocks,
                groups: heads.len() as u64,
                head: self.what(block),
                head_bytes: self.graph.usable(block),
                cycle: heads.iter().filter(|head| head.cycle).count().saturating_mul(2) > heads.len(),
                linked: self.linked(path, heads.len() as u64),
                classes: self.classes(path),
                texts: self.texts(path, &[]),
                example: self.graph.start(block),
            })
        };
        // Children are in the order of bytes.
        paths.iter().filter_map(fact).take(MOST).collect()
    }

    /// The group that holds a block. `None` if several do, or none.
    pub(super) fn root_of(&self, block: u32) -> Option<u32> {
        let path = self.paths.of_block.get(block as usize).copied().filter(|path| *path > 0)?;
        self.paths.group.get(path as usize).copied().flatten()
    }

    /// A text in a block.
    pub(super) fn text(&self, block: u32) -> Option<String> {
        text(&self.session.process.memory, self.graph, block)
    }
}
