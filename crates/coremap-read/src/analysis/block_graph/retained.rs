//! Bytes that each malloc block and each root retains: the sum of all blocks below it in the dominator tree.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::kinds::Kind;
use crate::analysis::block_graph::owners::Vertex;
use crate::analysis::block_graph::roots::RootPlace;
use crate::analysis::block_graph::scene::Scene;
use crate::analysis::roots::room;
use crate::bytes::printable;
use crate::report::{ChunkSum, NativeRootRow};
use crate::runtimes::graph::GraphError;
use crate::units::exact;

/// Marks a block without a vertex.
const NONE: u32 = u32::MAX;

/// Retained bytes by vertex of the dominator tree.
pub(super) struct Sums {
    /// Bytes by index of the preorder.
    retained: Vec<u64>,
    /// Index of each block in the preorder.
    index: Vec<u32>,
}

impl Sums {
    pub(super) fn find(scene: &Scene<'_, '_>) -> Sums {
        let owners = scene.owners;
        let mut retained = vec![0_u64; owners.len()];
        let mut index = vec![NONE; scene.graph.len()];
        // In this order, a vertex comes before its dominator.
        for at in (1..owners.len()).rev() {
            let (vertex, up) = owners.at(at);
            if let Vertex::Block(block) = vertex {
                if let Some(place) = index.get_mut(block as usize) {
                    *place = u32::try_from(at).unwrap_or(NONE);
                }
                if let Some(sum) = retained.get_mut(at) {
                    *sum = sum.saturating_add(scene.graph.size(block));
                }
            }
            let sum = retained.get(at).copied().unwrap_or(0);
            if let Some(above) = retained.get_mut(up) {
                *above = above.saturating_add(sum);
            }
        }
        Sums { retained, index }
    }

    fn at(&self, index: usize) -> u64 {
        self.retained.get(index).copied().unwrap_or(0)
    }

    fn index_of(&self, block: u32) -> Option<usize> {
        self.index.get(block as usize).copied().filter(|at| *at != NONE).map(|at| at as usize)
    }

    /// Returns the vertex directly above a block in the dominator tree. `None` if the block has no vertex.
    pub(super) fn above(&self, scene: &Scene<'_, '_>, block: u32) -> Option<Vertex> {
        let (_, up) = scene.owners.at(self.index_of(block)?);
        Some(scene.owners.at(up).0)
    }

    pub(super) fn of_block(&self, block: u32) -> u64 {
        self.index_of(block).map_or(0, |at| self.at(at))
    }
}

/// Retained bytes of malloc blocks.
pub struct NativeRetained<'a, 's, 'p> {
    scene: &'a Scene<'s, 'p>,
    sums: &'a Sums,
}

/// Roots of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedRoots {
    /// Kind, in words.
    pub kind: String,
    /// Number of roots that retain blocks.
    pub count: u64,
    /// Bytes that single roots of this kind retain alone.
    pub retained: u64,
}

/// Blocks of one class or size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedClass {
    /// Class or size.
    pub name: String,
    /// Address of the class's virtual table. Null if there is none.
    pub table: Addr,
    /// The blocks.
    pub own: ChunkSum,
    /// Bytes that the blocks retain. If blocks of the class retain each other, only the outermost counts.
    pub retained: u64,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedBlock {
    pub start: Addr,
    pub name: String,
    /// Bytes of the chunk.
    pub size: u64,
    pub retained: u64,
    /// Whether no root reaches it.
    pub lost: bool,
    /// The block that directly retains it.
    pub dominator: Option<Addr>,
    /// Offset of the word in the dominator that points at the block. `None` if other blocks are between them.
    pub word: Option<u64>,
    /// The root that directly retains it, if no block does, and the root's address.
    pub root: Option<(NativeRootRow, Addr)>,
}

impl<'a, 's, 'p> NativeRetained<'a, 's, 'p> {
    pub(super) fn new(scene: &'a Scene<'s, 'p>, sums: &'a Sums) -> NativeRetained<'a, 's, 'p> {
        NativeRetained { scene, sums }
    }

    /// Returns the sums of blocks that roots reach, and of blocks that no root reaches.
    pub fn totals(&self) -> (ChunkSum, ChunkSum) {
        let (mut held, mut lost) = (ChunkSum::default(), ChunkSum::default());
        for block in 0..self.scene.graph.len() as u32 {
            let sum = if self.is_lost(block) { &mut lost } else { &mut held };
            sum.add(self.scene.graph.size(block));
        }
        (held, lost)
    }

    fn is_lost(&self, block: u32) -> bool {
        let path = self.scene.paths.of_block.get(block as usize).copied().unwrap_or(0);
        self.scene.paths.lost.get(path as usize).copied().unwrap_or(false)
    }

    /// Returns the roots by kind, in the order of precedence.
    pub fn roots(&self) -> Vec<RetainedRoots> {
        let mut sums: HashMap<&str, RetainedRoots> = HashMap::new();
        let order = ["Variables", "Thread-local variables", "Other memory", "Stacks", "Registers"];
        for index in 1..self.scene.owners.len() {
            let (Vertex::Group(group), retained) = (self.scene.owners.at(index).0, self.sums.at(index)) else {
                continue;
            };
            let Some(group) = self.scene.groups.get(group as usize).filter(|_| retained > 0) else { continue };
            let kind = match group.place {
                RootPlace::Data(_) => order[0],
                RootPlace::Tls(_) => order[1],
                RootPlace::Mapping(_) => order[2],
                RootPlace::Stack(_) => order[3],
                RootPlace::Registers(_) => order[4],
            };
            let sum =
                sums.entry(kind).or_insert_with(|| RetainedRoots { kind: kind.to_owned(), count: 0, retained: 0 });
            sum.count = sum.count.saturating_add(1);
            sum.retained = sum.retained.saturating_add(retained);
        }
        order.iter().filter_map(|kind| sums.remove(kind)).collect()
    }

    /// Returns the class of a block, or its size.
    fn name(&self, block: u32) -> String {
        match self.scene.kinds.name(block) {
            Some(class) => printable(class).into_owned(),
            None if self.scene.kinds.of(block).text => format!("{} bytes, text", exact(self.scene.graph.size(block))),
            None => format!("{} bytes", exact(self.scene.graph.size(block))),
        }
    }

    fn key(&self, block: u32) -> (Kind, u64) {
        let kind = self.scene.kinds.of(block);
        // A class may have blocks of several sizes.
        (kind, if self.scene.kinds.name(block).is_some() { 0 } else { self.scene.graph.size(block) })
    }

    /// Returns the block at an index of the preorder, if its dominator is a block too.
    fn block_at(&self, index: usize) -> Option<u32> {
        match self.scene.owners.at(index).0 {
            Vertex::Block(block) => Some(block),
            Vertex::Root | Vertex::Group(_) | Vertex::Lost => None,
        }
    }

    /// Returns classes by retained bytes, largest first. `within`: only blocks that this block retains. Retained bytes
    /// count once per class, even if several blocks of the class are above each other.
    ///
    /// # Errors
    /// [`GraphError`]
    pub fn classes(&self, within: Option<Addr>) -> Result<Vec<RetainedClass>, GraphError> {
        let from = within.and_then(|at| self.sums.index_of(self.scene.graph.at(at)?));
        if within.is_some() && from.is_none() {
            return Ok(Vec::new());
        }
        let below = self.scene.owners.below(&room(self.scene.session))?;
        let mut ids: HashMap<(Kind, u64), usize> = HashMap::new();
        let mut classes: Vec<OpenClass> = Vec::new();
        // Steps: vertices to enter, and classes to close after everything below a vertex was visited.
        let mut steps: Vec<Step> = below.at(from.unwrap_or(0)).iter().map(|to| Step::Enter(*to)).collect();
        while let Some(step) = steps.pop() {
            let index = match step {
                Step::Close(id) => {
                    classes.get_mut(id).into_iter().for_each(|class| class.open = class.open.saturating_sub(1));
                    continue;
                }
                Step::Enter(index) => index as usize,
            };
            if let Some(block) = self.block_at(index).filter(|block| from.is_some() || !self.is_lost(*block)) {
                let id = *ids.entry(self.key(block)).or_insert_with(|| {
                    classes.push(OpenClass { block, own: ChunkSum::default(), retained: 0, open: 0 });
                    classes.len() - 1
                });
                if let Some(class) = classes.get_mut(id) {
                    class.own.add(self.scene.graph.size(block));
                    if class.open == 0 {
                        class.retained = class.retained.saturating_add(self.sums.at(index));
                    }
                    class.open = class.open.saturating_add(1);
                    steps.push(Step::Close(id));
                }
            }
            steps.extend(below.at(index).iter().map(|to| Step::Enter(*to)));
        }
        let row = |class: OpenClass| {
            let OpenClass { block, own, retained, .. } = class;
            let table = self.scene.kinds.name(block).and_then(|_| self.scene.first_word(block)).unwrap_or_default();
            RetainedClass { name: self.name(block), table, own, retained }
        };
        let mut out: Vec<RetainedClass> = classes.into_iter().map(row).collect();
        out.sort_by(|a, b| b.retained.cmp(&a.retained).then_with(|| a.name.cmp(&b.name)));
        Ok(out)
    }

    /// Returns the blocks that retain most, largest first. A block that another one of its kind retains is left out.
    /// `within`: only blocks that this block directly retains.
    pub fn blocks(&self, most: usize, within: Option<Addr>) -> Vec<RetainedBlock> {
        let within = within.and_then(|at| self.sums.index_of(self.scene.graph.at(at)?));
        let mut top: Vec<(u64, usize)> = Vec::new();
        for index in 1..self.scene.owners.len() {
            let (vertex, up) = self.scene.owners.at(index);
            let Vertex::Block(block) = vertex else { continue };
            let wanted = match within {
                Some(within) => up == within,
                None => {
                    !self.is_lost(block) && self.block_at(up).is_none_or(|above| self.key(above) != self.key(block))
                }
            };
            if wanted {
                top.push((self.sums.at(index), index));
                if top.len() > most.saturating_mul(4).saturating_add(1024) {
                    cut(&mut top, most);
                }
            }
        }
        cut(&mut top, most);
        top.into_iter().filter_map(|(_, index)| Some(self.row(self.block_at(index)?))).collect()
    }

    /// Returns a block with what retains it.
    pub fn block(&self, at: Addr) -> Option<RetainedBlock> {
        Some(self.row(self.scene.graph.at(at)?))
    }

    fn row(&self, block: u32) -> RetainedBlock {
        let scene = self.scene;
        let index = self.sums.index_of(block);
        let up = index.map(|at| scene.owners.at(at).1);
        let above = up.and_then(|up| self.block_at(up));
        let word = above.and_then(|above| {
            let found = scene.graph.edges.of(above).find(|(_, to, _)| *to == block)?;
            Some(u64::from(found.0).saturating_mul(8))
        });
        let root = up.and_then(|up| match scene.owners.at(up).0 {
            Vertex::Group(group) => scene.groups.get(group as usize),
            Vertex::Root | Vertex::Block(_) | Vertex::Lost => None,
        });
        RetainedBlock {
            start: scene.graph.start(block),
            name: self.name(block),
            size: scene.graph.size(block),
            retained: self.sums.of_block(block),
            lost: self.is_lost(block),
            dominator: above.map(|above| scene.graph.start(above)),
            word,
            root: root.map(|group| (scene.name_of(group), group.at)),
        }
    }
}

/// Cuts a list to its largest entries, in order.
fn cut(top: &mut Vec<(u64, usize)>, most: usize) {
    top.sort_unstable_by_key(|(bytes, index)| (Reverse(*bytes), *index));
    top.truncate(most);
}

/// Sums of a class while the tree is visited.
struct OpenClass {
    /// One of the class's blocks.
    block: u32,
    own: ChunkSum,
    retained: u64,
    /// Number of the class's blocks on the path to the current vertex.
    open: u32,
}

enum Step {
    Enter(u32),
    Close(usize),
}
