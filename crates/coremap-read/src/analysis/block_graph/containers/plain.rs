//! Containers of C libraries.

use crate::addr::Addr;
use crate::analysis::block_graph::containers::cxx::of;
use crate::analysis::block_graph::containers::{Container, ContainerKind, Prover};
use crate::bytes;
use crate::memory::Memory;

/// Smallest hash value of a used slot. Smaller ones mark free and deleted slots.
const FIRST_HASH: u32 = 2;

/// Maximum number of slots of a table whose hashes are counted.
const MAX_SLOTS: u64 = 1 << 28;

impl Prover<'_> {
    /// GLib's hash table (glib/ghash.c, 2.74), which is a block of its own: `{size, mod, mask, nnodes, noccupied, …,
    /// keys, hashes, values}`.
    pub(in crate::analysis::block_graph) fn ghash(&self, at: Addr) -> Option<Container> {
        self.starting(at.get())?;
        let [size, mask, nodes, _, keys, hashes] = self.words(at)?;
        let size = size & 0xffff_ffff;
        let is_table = size.is_power_of_two() && (8..=MAX_SLOTS).contains(&size) && mask >> 32 == size - 1;
        let count = nodes & 0xffff_ffff;
        let bytes = size.checked_mul(4)?;
        if !is_table || count == 0 || self.starting(keys).is_none() || self.starting(hashes)? < bytes {
            return None;
        }
        self.spend(at, bytes)?;
        let bytes = self.memory.look(Addr::new(hashes), usize::try_from(bytes).ok()?).ok()?;
        let used = (0..bytes.len()).step_by(4).filter_map(|at| bytes::u32_at(&bytes, at));
        (used.filter(|hash| *hash >= FIRST_HASH).count() as u64 == count)
            .then(|| of(ContainerKind::GHashTable, at, 80, Some(count), Addr::new(keys)))
    }
}
