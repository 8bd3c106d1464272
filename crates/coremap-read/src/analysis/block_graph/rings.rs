//! Rings of blocks that a running thread may follow for ever.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::memory::Memory;
use crate::session::Session;
use crate::targets::Thread;

/// Bytes of a block in which a link is looked for, and most blocks that are followed.
const LINKS: u64 = 64;
const BLOCKS: u64 = 100_000;

/// A ring of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of blocks in it.
    pub blocks: u64,
    /// Usable bytes of one.
    pub size: u64,
    /// Offset of the word that leads to the next one.
    pub link: u64,
}

/// A ring that a register of the thread leads into. Every word of a block may be the link.
pub fn ring(session: &Session<'_>, thread: &Thread) -> Option<Ring> {
    let (_, blocks) = session.blocks();
    let memory = &session.process.memory;
    let starting = |at: Addr| blocks.at(at).filter(|block| block.used && block.range.start == at);
    let mut values: Vec<u64> = thread.registers.iter().map(|(_, value)| value).collect();
    values.sort_unstable();
    values.dedup();
    let firsts = values.into_iter().map(Addr::new).filter_map(starting);
    firsts.into_iter().find_map(|first| {
        let links = (0..LINKS.min(first.range.len())).step_by(8);
        links.into_iter().find_map(|link| {
            let mut seen: HashMap<Addr, u64> = HashMap::new();
            let mut at = first.range.start;
            for number in 0..BLOCKS {
                if let Some(before) = seen.insert(at, number) {
                    let blocks = number.saturating_sub(before);
                    return Some(Ring { blocks, size: first.range.len(), link });
                }
                // Equal blocks: a pointer to something else and back is no list.
                let next = Addr::new(memory.peek_u64(at.checked_add(link)?).ok()?);
                starting(next).filter(|block| block.range.len() == first.range.len())?;
                at = next;
            }
            None
        })
    })
}
