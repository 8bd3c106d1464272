//! The graph of malloc's blocks: which block leads to which, who holds them, and which nobody does.
//!
//! Any word whose value is inside a block may be a pointer. Nothing is lost as long as such a word leads to it. To name
//! a holder needs more care, because one word that is left over would take it away: only words that lead to the start
//! of a block count there, and inner addresses that many blocks of one size are reached at.
//!
//! | file | contents |
//! |---|---|
//! | `edges` | words of blocks that lead to blocks |
//! | `roots` | words outside of blocks that lead to them, in groups with a name |
//! | `containers` | containers of C++, Rust and C, proven by their own fields |
//! | `owners` | dominators: who holds what |
//! | `paths` | blocks that are reached alike, as one |
//! | `lost` | blocks that no root leads to |
//! | `kinds` | classes of blocks, and text in them |
//! | `names`, `contents` | names of holders, and what blocks that are reached alike consist of |
//! | `facts` | the results, and how they are found |
//! | `rings` | rings of blocks that a running thread may follow for ever |
//! | `pins` | blocks in use that keep free memory in pieces |

mod containers;
mod contents;
mod edges;
mod facts;
mod kinds;
mod lost;
mod names;
mod owners;
mod paths;
mod pins;
mod rings;
mod roots;

use std::ops::Range;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::analysis::reach::Reach;
use crate::native::malloc::{BlockNumbers, Blocks};
use crate::session::Session;

pub use facts::{ContainerFact, HolderFact, LostFact, NativeHolders, Part, native_holders};
pub use pins::PinFact;
pub use rings::{Ring, ring};

use edges::Edges;

/// Unit of chunk sizes in bytes.
const UNIT: u64 = 8;

/// A graph whose nodes are the used blocks, by number.
struct BlockGraph<'a> {
    blocks: &'a Blocks,
    numbers: BlockNumbers,
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
        let numbers = BlockNumbers::new(blocks)?;
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
        let scan = |task: &Range<usize>| {
            let mut out = edges::Scan::default();
            if deadline.has_passed() {
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
            out
        };
        let scans: Vec<edges::Scan> = tasks.par_iter().map(scan).collect();
        if deadline.has_passed() {
            return None;
        }
        let edges = Edges::join(scans, &lens)?;
        Some(BlockGraph { blocks, numbers, starts, lens, sizes, edges })
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    /// The used block that contains an address.
    fn at(&self, at: Addr) -> Option<u32> {
        self.numbers.of(self.blocks.used_at(at, 0)?)
    }

    /// The used block that begins at an address.
    fn starting(&self, at: Addr) -> Option<u32> {
        self.at(at).filter(|block| self.start(*block) == at)
    }

    fn start(&self, block: u32) -> Addr {
        self.starts.get(block as usize).copied().unwrap_or(Addr::NULL)
    }

    fn usable(&self, block: u32) -> u64 {
        self.lens.get(block as usize).copied().unwrap_or(0).into()
    }

    /// Size of the block's chunk in bytes.
    fn size(&self, block: u32) -> u64 {
        u64::from(self.sizes.get(block as usize).copied().unwrap_or(0)).saturating_mul(UNIT)
    }

    fn range(&self, block: u32) -> AddrRange {
        AddrRange::sized(self.start(block), self.usable(block))
    }
}
