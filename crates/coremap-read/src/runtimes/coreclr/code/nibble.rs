//! Nibble maps: the start addresses of the code blocks in a code heap.
//!
//! The map has one nibble per 32 bytes of code, eight to a 32-bit word, the first in the highest bits. A nibble n > 0
//! means that a block begins at (n - 1) * 4 bytes into these 32. From version 2 on (.NET 10), a word whose lowest
//! nibble is above 8 is a pointer back to the block that covers all 256 bytes of the word. Such a word has no starts.
//!
//! Sources: docs/design/datacontracts/ExecutionManager.md, "NibbleMap"; src/coreclr/inc/nibblemapmacros.h.

use crate::addr::Addr;

/// Bytes of code per nibble.
const BYTES_PER_NIBBLE: u64 = 32;

/// Nibbles per word.
const NIBBLES: u64 = 8;

/// Bytes of code per word of the map.
pub(super) const BYTES_PER_WORD: u64 = BYTES_PER_NIBBLE * NIBBLES;

/// Bytes of a word of the map.
pub(super) const MAP_WORD: u64 = 4;

/// Alignment of blocks.
const CODE_ALIGN: u64 = 4;

/// Start addresses of up to `limit` blocks, in order. `map` has the words for code from `base` on. `pointers`: whether
/// words may be pointers (version 2).
pub(super) fn starts(map: &[u8], base: Addr, pointers: bool, limit: usize) -> Vec<Addr> {
    let mut out = Vec::new();
    for (i, word) in map.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).enumerate() {
        if word == 0 || (pointers && word & 0xf > 8) {
            continue;
        }
        for nibble in 0..NIBBLES {
            let value = u64::from(word >> (28 - 4 * nibble)) & 0xf;
            if (1..=8).contains(&value) && out.len() < limit {
                let offset = i as u64 * BYTES_PER_WORD + nibble * BYTES_PER_NIBBLE + (value - 1) * CODE_ALIGN;
                out.push(base.saturating_add(offset));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn the_contracts_own_example() {
        // 304 = 9 * 32 + 16: second word, second nibble, value 5.
        assert_eq!(starts(&map(&[0, 0x0500_0000]), Addr::new(0x1000), false, 99), [Addr::new(0x1000 + 304)]);
    }

    #[test]
    fn several_in_a_word_come_in_order() {
        let found = starts(&map(&[0x1000_0008]), Addr::NULL, false, 99);
        assert_eq!(found, [Addr::NULL, Addr::new(7 * 32 + 28)]);
    }

    #[test]
    fn a_pointer_word_holds_no_starts() {
        assert_eq!(starts(&map(&[0x1000_0000, 0x0000_0019]), Addr::NULL, true, 99), [Addr::NULL]);
        // In version 1 the value 9 can't be a start either.
        assert_eq!(starts(&map(&[0x0000_0009]), Addr::NULL, false, 99), []);
    }

    #[test]
    fn no_more_than_asked_for() {
        assert_eq!(starts(&map(&[0x1111_1111; 100]), Addr::NULL, false, 20).len(), 20);
    }

    #[test]
    fn a_cut_map_is_read_as_far_as_it_goes() {
        assert_eq!(starts(&[0, 0, 0, 0x10, 0xff, 0xff], Addr::NULL, false, 99), [Addr::NULL]);
    }
}
