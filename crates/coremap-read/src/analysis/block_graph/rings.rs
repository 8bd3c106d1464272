//! Rings of blocks that a running thread may follow forever.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::memory::walk::{Stop, Walks};
use crate::phase::Phase;
use crate::session::Session;
use crate::targets::Thread;

/// Number of bytes of a block that are searched for a link.
const LINKS: u64 = 64;

/// Maximum number of blocks that are followed per link, and per thread.
const BLOCKS: usize = 100_000;
const ALL_BLOCKS: usize = 16 * BLOCKS;

/// A ring of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of blocks in it.
    pub blocks: u64,
    /// Usable bytes of each block.
    pub size: u64,
    /// Offset of the word that points at the next block.
    pub link: u64,
}

/// Finds a ring to which a register of the thread points. Every word of a block may be the link.
pub fn ring(session: &Session<'_>, thread: &Thread) -> Option<Ring> {
    let (_, blocks) = session.blocks();
    let memory = &session.process.memory;
    let arch = session.process.arch();
    let starting = |at: Addr| blocks.at(at).filter(|block| block.used && block.range.start == at);
    let mut values: Vec<u64> = thread.registers.iter().map(|(_, value)| arch.address_in(value)).collect();
    values.sort_unstable();
    values.dedup();
    let walks = Walks::new(Phase::Pointers, ALL_BLOCKS);
    values.into_iter().map(Addr::new).filter_map(starting).find_map(|first| {
        let size = first.range.len();
        (0..LINKS.min(size)).step_by(8).find_map(|link| {
            // Only follow pointers to equal blocks: a pointer to something else and back is no list.
            let after = |at: Addr| {
                let next = Addr::new(arch.address_in(memory.peek_u64(at.checked_add(link)?).ok()?));
                starting(next).filter(|block| block.range.len() == size).map(|_| next)
            };
            let mut at = first.range.start;
            let mut walk = walks.begin_own_set().at_most(BLOCKS);
            let met = loop {
                match walk.step(at) {
                    Ok(()) => at = after(at)?,
                    Err(Stop::Cycle(met)) => break met,
                    Err(_) => return None,
                }
            };
            let ring = std::iter::successors(after(met), |at| after(*at).filter(|_| *at != met));
            Some(Ring { blocks: ring.take(BLOCKS).count() as u64, size, link })
        })
    })
}
