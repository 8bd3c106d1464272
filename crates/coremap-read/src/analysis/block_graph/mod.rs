//! The graph of malloc's blocks: which block points at which, what retains each of them, and which blocks are lost.
//!
//! Any word whose value is inside a block may be a pointer. A block is lost only if no such word points at it. To find
//! a holder needs more care, because a single stale word would change it. So only two kinds of words count: words that
//! point at the start of a block, and words that point at an inner offset that is common for blocks of that size.
//!
//! [`native_holders`] and [`with_block_owners`] read the graph once, and all results come from it. Every pass is linear
//! in blocks and words, and ends at the time limit. The numbers of blocks and words are limited
//! (`limits::MAX_GRAPH_BLOCKS`), and so are the steps of all proofs of containers. [`ring`] needs no graph: it follows
//! single lists.
//!
//! | file | contents |
//! |---|---|
//! | `edges` | words of blocks that point at blocks |
//! | `slabs` | blocks that GLib cuts into parts |
//! | `roots` | words outside of blocks that point at them, in groups with a name |
//! | `containers` | containers of C++, Rust and C, proven by their own fields |
//! | `owners` | dominators: which block or root retains which blocks |
//! | `paths` | blocks with the same path, merged |
//! | `lost` | blocks that no root reaches |
//! | `scene` | the graph with all of these |
//! | `gobject`, `dyn_tables` | classes of GLib's objects, and of Rust's trait objects |
//! | `hidden` | signs that lost blocks are in use |
//! | `kinds` | classes of blocks, and text in them |
//! | `chain` | the path from a holder to its elements |
//! | `names`, `contents` | names of holders, and descriptions of blocks with the same path |
//! | `stacks` | stacks of threads, each unwound once |
//! | `facts` | the results, and how they are found |
//! | `block_owners` | type, container and holder of single blocks |
//! | `retained` | bytes that each block and root retains |
//! | `rows` | results as rows of reports |
//! | `rings` | rings of blocks that a running thread may follow forever |
//! | `pins` | used blocks that fragment free memory |

mod block_owners;
mod chain;
mod containers;
mod contents;
mod dyn_tables;
mod edges;
mod facts;
mod gobject;
mod hidden;
mod kinds;
mod lost;
mod names;
mod owners;
mod paths;
mod pins;
mod retained;
mod rings;
mod roots;
mod rows;
mod scene;
mod slabs;
mod stacks;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::analysis::reach::Reach;
use crate::diag::WarningCode;
use crate::limits;
use crate::native::malloc::{BlockNumbers, Blocks};
use crate::session::Session;
use crate::units::exact;

pub use block_owners::{BlockOwners, with_block_owners};
pub use facts::{ContainerFact, HolderFact, HolderLimits, LostFact, NativeHolders, Part, native_holders};
pub use pins::PinFact;
pub use retained::{NativeRetained, RetainedBlock, RetainedClass, RetainedRoots};
pub use rings::{Ring, ring};
pub use scene::read_classes;

use edges::Edges;
use slabs::Slabs;

/// Unit of chunk sizes in bytes.
const UNIT: u64 = 8;

/// Notes that a limit is exceeded.
fn too_many(session: &Session<'_>, limit: usize, of: &str) {
    let text = format!("more than {} {of}; the holders of blocks are not computed", exact(limit as u64));
    session.process.diag.note(WarningCode::Limit, text);
}

/// A graph whose nodes are the used blocks, followed by the parts of slabs. Nodes are numbered.
struct BlockGraph<'a> {
    blocks: &'a Blocks,
    numbers: BlockNumbers,
    slabs: Slabs,
    /// Start of each block.
    starts: Vec<Addr>,
    /// Usable bytes of each block.
    lens: Vec<u32>,
    /// Size of each block's chunk in [`UNIT`]s.
    sizes: Vec<u32>,
    edges: Edges,
}

impl<'a> BlockGraph<'a> {
    /// Reads the graph. `None` if there are too many blocks, or the time is up.
    fn read(session: &'a Session<'_>, reach: &Reach<'a>) -> Option<BlockGraph<'a>> {
        let blocks = reach.blocks;
        let Some(numbers) = BlockNumbers::new(blocks).filter(|all| all.len() <= limits::MAX_GRAPH_BLOCKS) else {
            too_many(session, limits::MAX_GRAPH_BLOCKS, "malloc blocks");
            return None;
        };
        let mut starts = Vec::with_capacity(numbers.len());
        let (mut lens, mut sizes) = (Vec::with_capacity(numbers.len()), Vec::with_capacity(numbers.len()));
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        numbers.each(blocks, numbers.all(), |_, block| {
            starts.push(block.range.start);
            lens.push(narrow(block.range.len()));
            sizes.push(narrow(block.size / UNIT));
        });
        let deadline = session.process.target().reads().deadline();
        let tasks = numbers.tasks();
        let words = AtomicUsize::new(0);
        let is_full = || words.load(Ordering::Relaxed) > limits::MAX_GRAPH_WORDS;
        let scan = |task: &Range<usize>| {
            let mut out = edges::Scan::default();
            if is_full() || deadline.has_passed() {
                return out;
            }
            numbers.each(blocks, task.clone(), |part, block| {
                reach.placed_words(part, &block, blocks.hull(), |at, value| {
                    let to = blocks.used_at(value, part).and_then(|id| numbers.of(id));
                    if let Some((to, start)) = to.and_then(|to| Some((to, *starts.get(to as usize)?))) {
                        out.push(at.since(block.range.start) / 8, to, value.checked_since(start));
                    }
                });
                out.end();
            });
            words.fetch_add(out.len(), Ordering::Relaxed);
            out
        };
        let mut scans: Vec<edges::Scan> = tasks.par_iter().map(scan).collect();
        if is_full() {
            too_many(session, limits::MAX_GRAPH_WORDS, "pointers in malloc blocks");
            return None;
        }
        if deadline.has_passed() {
            return None;
        }
        let mut tables = slabs::Tables { starts: &mut starts, lens: &mut lens, sizes: &mut sizes };
        let slabs = Slabs::split(&session.process.memory, &mut tables, &mut scans);
        let edges = Edges::join(scans, &lens)?;
        Some(BlockGraph { blocks, numbers, slabs, starts, lens, sizes, edges })
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns the used block that contains an address.
    fn at(&self, at: Addr) -> Option<u32> {
        let block = self.numbers.of(self.blocks.used_at(at, 0)?)?;
        Some(self.slabs.part(block, at))
    }

    /// Returns the used block that begins at an address.
    fn starting(&self, at: Addr) -> Option<u32> {
        self.at(at).filter(|block| self.start(*block) == at)
    }

    fn start(&self, block: u32) -> Addr {
        self.starts.get(block as usize).copied().unwrap_or(Addr::NULL)
    }

    fn usable(&self, block: u32) -> u64 {
        self.lens.get(block as usize).copied().unwrap_or(0).into()
    }

    /// Returns the size of the block's chunk in bytes.
    fn size(&self, block: u32) -> u64 {
        u64::from(self.sizes.get(block as usize).copied().unwrap_or(0)).saturating_mul(UNIT)
    }

    fn range(&self, block: u32) -> AddrRange {
        AddrRange::sized(self.start(block), self.usable(block))
    }
}
