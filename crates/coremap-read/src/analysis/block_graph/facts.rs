//! The holders of most of malloc's memory, and lost blocks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::analysis::block_graph::containers::Container;
use crate::analysis::block_graph::owners::Vertex;
use crate::analysis::block_graph::pins::{self, PinFact};
use crate::analysis::block_graph::scene::{Scene, with_scene};
use crate::analysis::reach::unread;
use crate::report::NativeRootRow;
use crate::session::Session;
use crate::units::{count, exact};

/// Limits of the lists of holders and of lost groups.
#[derive(Clone, Copy, Debug)]
pub struct HolderLimits {
    /// Maximum number of holders, and of kinds of lost groups.
    pub most: usize,
    /// Minimum size of a holder or group in bytes, and its minimum share of the blocks in percent.
    pub bytes: u64,
    pub share: u64,
}

impl HolderLimits {
    /// The limits that findings use.
    pub const FINDINGS: HolderLimits = HolderLimits { most: 4, bytes: 1 << 20, share: 5 };
}

/// Blocks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Class of the blocks, or a description: `blocks of 80 bytes`.
    pub what: String,
    /// Number of blocks.
    pub count: u64,
    /// Bytes of these blocks and of blocks that they retain.
    pub bytes: u64,
}

impl Part {
    /// Number and description: `a block of 80 bytes`, `60,000 HttpSession`.
    pub fn words(&self) -> String {
        match (self.count, self.what.strip_prefix("blocks ")) {
            (1, Some(of)) => format!("a block {of}"),
            (1, None) => self.what.clone(),
            (count, _) => format!("{} {}", exact(count), self.what),
        }
    }
}

/// A container, proven by its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFact {
    /// Its name.
    pub name: &'static str,
    /// Number of elements. `None` if the structure does not show it.
    pub count: Option<u64>,
    /// Bytes in use and bytes in total of its storage, if that is one block.
    pub room: Option<(u64, u64)>,
}

impl ContainerFact {
    pub(super) fn new(found: &Container, rust: bool) -> ContainerFact {
        // A hash table is never full.
        let room = found.room.filter(|_| found.kind.is_array());
        ContainerFact { name: found.kind.name(rust), count: found.count, room }
    }

    /// Its name with the number of elements.
    pub fn words(&self) -> String {
        let elements = self.count.map_or_else(String::new, |number| format!(" with {}", count(number, "element")));
        format!("{}{elements}", self.name)
    }
}

/// A holder of malloc blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderFact {
    /// Bytes and number of the blocks.
    pub bytes: u64,
    pub blocks: u64,
    /// The variable or other root. `None` if several roots lead to the blocks, and no single root to all of them.
    pub root: Option<NativeRootRow>,
    /// Number of threads with this variable.
    pub threads: u64,
    /// Whether no other root leads to the blocks.
    pub alone: bool,
    pub container: Option<ContainerFact>,
    /// Other containers in the block or variable with `container`, by number of elements.
    pub others: Vec<ContainerFact>,
    /// Blocks on the path from the holder to the elements.
    pub chain: Vec<Part>,
    pub elements: Option<Part>,
    /// Links between elements, if no container is proven: the offset of the word that points at the next element, and
    /// the number of words of the table above them.
    pub linked: Option<(u64, u64)>,
    /// Classes of all blocks, with the blocks' own bytes.
    pub classes: Vec<Part>,
    /// Text in the blocks.
    pub texts: Vec<String>,
}

/// Groups of lost blocks that begin with the same kind of block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFact {
    pub bytes: u64,
    pub blocks: u64,
    /// Number of groups.
    pub groups: u64,
    /// Description of the first block of each group.
    pub head: String,
    /// Usable bytes of that block.
    pub head_bytes: u64,
    /// Whether the blocks of a group point at each other.
    pub cycle: bool,
    /// Offset of the word that links the blocks of a group, if they are a list.
    pub linked: Option<u64>,
    pub classes: Vec<Part>,
    pub texts: Vec<String>,
    /// Reason why the blocks may be in use, although nothing points at them. `None` if there is no sign of it.
    pub hidden: Option<String>,
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
    /// Used blocks that fragment free memory. `None` if little memory is free.
    pub pins: Option<PinFact>,
}

/// Finds the holders of malloc's blocks. `None` if there are no blocks or too many, or the time is up.
pub fn native_holders(session: &Session<'_>, limits: HolderLimits) -> Option<NativeHolders> {
    with_scene(session, |scene| scene.facts(limits))
}

/// Identity of a variable in several threads: whether it is thread-local, and its position.
pub(super) type SameKey = (bool, String);

impl Scene<'_, '_> {
    /// Returns holders and lost groups within `limits`.
    pub(super) fn facts(&self, limits: HolderLimits) -> NativeHolders {
        let used: u64 = (0..self.graph.len() as u32).map(|block| self.graph.size(block)).fold(0, u64::saturating_add);
        let counts = |bytes: u64| {
            bytes > 0 && bytes >= limits.bytes && bytes.saturating_mul(100) >= used.saturating_mul(limits.share)
        };
        // Blocks of an allocator that is not walked may point at malloc's blocks.
        let walked = self.session.malloc().allocators(self.session.process).iter().all(|allocator| allocator.walked);
        NativeHolders {
            used,
            holders: self.holders(&counts, limits.most),
            lost: self.lost(&counts, limits.most),
            complete: unread(self.session) == 0 && !self.graph.blocks.capped && walked,
            pins: pins::find(self),
        }
    }

    /// Returns the largest holders, largest first.
    fn holders(&self, counts: &dyn Fn(u64) -> bool, most: usize) -> Vec<HolderFact> {
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
        single.truncate(most);
        single.iter().filter_map(|paths| self.holder(paths)).collect()
    }

    /// Returns the holder at the start of `paths`: one path, or the paths of one variable in several threads.
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
        let root = group.or_else(reached).map(|group| self.name_of(group));
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
            root,
            threads: paths.len() as u64,
            alone: group.is_some(),
            others: self.others(chain.last().copied(), container.as_ref()),
            container: container.map(|found| ContainerFact::new(&found, self.prover.rust)),
            chain: below.unwrap_or_default().iter().filter_map(|path| self.part(*path)).collect(),
            elements,
            linked,
            classes: self.classes(first),
            texts: part.map_or_else(Vec::new, |part| self.texts(part, &chain)),
        })
    }

    /// Returns the largest kinds of lost groups, largest first.
    fn lost(&self, counts: &dyn Fn(u64) -> bool, most: usize) -> Vec<LostFact> {
        let is_lost = |path: &&u32| self.paths.get(**path).is_some_and(|path| path.first == Vertex::Lost);
        let lost = self.paths.below(0).iter().find(is_lost);
        let mut heads: HashMap<u32, (u64, u64)> = HashMap::new();
        for head in &self.owners.heads {
            let of_path = heads.entry(self.path_of(head.block).unwrap_or(0)).or_default();
            of_path.0 = of_path.0.saturating_add(1);
            of_path.1 = of_path.1.saturating_add(u64::from(head.cycle));
        }
        let fact = |&path: &u32| -> Option<LostFact> {
            let found = self.paths.get(path).filter(|path| counts(path.bytes))?;
            let Vertex::Block(block) = found.first else { return None };
            let (groups, cycles) = heads.get(&path).copied().unwrap_or_default();
            Some(LostFact {
                bytes: found.bytes,
                blocks: found.blocks,
                groups,
                head: self.what(block),
                head_bytes: self.graph.usable(block),
                cycle: cycles.saturating_mul(2) > groups,
                linked: self.linked(path, groups),
                classes: self.classes(path),
                texts: self.texts(path, &[]),
                hidden: self.hidden(path),
                example: self.graph.start(block),
            })
        };
        // Children are sorted by bytes.
        lost.map_or(&[][..], |lost| self.paths.below(*lost)).iter().filter_map(fact).take(most).collect()
    }
}
