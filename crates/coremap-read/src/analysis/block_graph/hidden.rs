//! Signs that lost blocks are in use although no word has their address: XORed links, and addresses that only the
//! kernel has.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::analysis::block_graph::owners::Vertex;
use crate::analysis::block_graph::scene::Scene;
use crate::memory::Memory;

/// Maximum number of blocks that are compared, and minimum number for a conclusion.
const BLOCKS: usize = 256;
const FEW: usize = 8;

/// Bytes of a block that are compared.
const BYTES: u64 = 256;

/// Numbers that may be file descriptors. 0 to 2 are the standard streams.
const DESCRIPTORS: std::ops::Range<u32> = 3..1 << 16;

/// Functions that store an address for the kernel to return.
const KERNEL: [&str; 3] = ["epoll_ctl", "io_uring_setup", "io_uring_queue_init"];

/// Prefixes of the names of C libraries, which export these functions.
const LIBC: [&str; 4] = ["libc.so", "libc-", "ld-musl", "libc.musl"];

impl Scene<'_, '_> {
    /// Returns the reason why the blocks at the start of a path may be in use, although nothing points at them. `None`
    /// if there is no sign.
    pub(super) fn hidden(&self, path: u32) -> Option<String> {
        let Vertex::Block(_) = self.paths.get(path)?.first else { return None };
        let blocks: Vec<u32> = self.paths.blocks_of(path).iter().take(BLOCKS).copied().collect();
        let starts: Vec<u64> = blocks.iter().map(|block| self.graph.start(*block).get()).collect();
        let usable = blocks.iter().map(|block| self.graph.usable(*block)).min()?.min(BYTES);
        let word =
            |start: u64, offset: u64| self.session.process.memory.peek_u64(Addr::new(start).checked_add(offset)?).ok();
        let column =
            |offset: u64| -> Vec<u64> { starts.iter().map(|start| word(*start, offset).unwrap_or(0)).collect() };
        let offsets = || (0..usable / 8).map(|i| 8 * i);
        if let Some(offset) = offsets().find(|offset| are_xored(&starts, &column(*offset))) {
            return Some(format!(
                "the word at +{offset} is the XOR of the addresses of two of them, as in a list whose links are encoded"
            ));
        }
        let numbered = offsets().any(|offset| {
            let words = column(offset);
            let low: Vec<u32> = words.iter().map(|word| *word as u32).collect();
            let high: Vec<u32> = words.iter().map(|word| (*word >> 32) as u32).collect();
            are_descriptors(&low) || are_descriptors(&high)
        });
        (numbered && self.registers_addresses())
            .then(|| "each has a number of its own that may be a file descriptor, and the kernel may have their addresses (epoll)".to_owned())
    }

    /// Whether the program calls functions that store an address for the kernel to return.
    fn registers_addresses(&self) -> bool {
        let modules = &self.session.process.modules;
        let is_libc = |at: Addr| {
            let module = modules.iter().find(|module| module.range.contains(at));
            module.is_some_and(|module| LIBC.iter().any(|name| module.name().starts_with(name)))
        };
        let names = self.session.symbols().dynamic_names(|at| !is_libc(at));
        names.iter().any(|name| KERNEL.contains(&name.as_str()))
    }
}

/// Whether most words are the XOR of the addresses before and after their block.
fn are_xored(starts: &[u64], words: &[u64]) -> bool {
    let neighbours = starts.iter().zip(starts.iter().skip(2)).zip(words.iter().skip(1));
    let (mut all, mut xored) = (0_usize, 0_usize);
    for ((before, after), word) in neighbours {
        all += 1;
        xored += usize::from(before ^ after == *word);
    }
    xored >= FEW && xored.saturating_mul(2) > all
}

/// Whether all numbers may be file descriptors, and are all different.
fn are_descriptors(numbers: &[u32]) -> bool {
    let mut seen = HashSet::new();
    numbers.len() >= FEW && numbers.iter().all(|number| DESCRIPTORS.contains(number) && seen.insert(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_are_xored_are_seen_in_neighbours() {
        let starts: Vec<u64> = (0..40).map(|i| 0x5555_0000_1000 + 64 * i).collect();
        let at = |i: usize| starts.get(i).copied().unwrap_or(0);
        let words: Vec<u64> = (0..40).map(|i| if i == 0 { at(1) } else { at(i - 1) ^ at(i + 1) }).collect();
        assert!(are_xored(&starts, &words));
        // Plain links, and words that are all the same.
        let plain: Vec<u64> = (0..40).map(|i| at(i + 1)).collect();
        assert!(!are_xored(&starts, &plain) && !are_xored(&starts, &[0; 40]));
    }

    #[test]
    fn numbers_of_their_own_may_be_descriptors() {
        let own: Vec<u32> = (5..25).collect();
        assert!(are_descriptors(&own) && !are_descriptors(&own[..4]));
        assert!(!are_descriptors(&[7; 20]) && !are_descriptors(&(0..20).collect::<Vec<_>>()));
    }
}
