//! Scenes of a few hand-made pages, for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::findings::{Findings, Label};
use super::scene::{Image, Scene};
use crate::addr::{Addr, AddrRange};
use crate::map::Owner;
use crate::memory::{Fault, FaultKind, Memory};

/// Memory of hand-made blocks, by address.
#[derive(Default)]
pub(in crate::native) struct Lab {
    blocks: BTreeMap<Addr, Vec<u8>>,
    /// Number of reads so far.
    pub(super) reads: AtomicU64,
}

impl Lab {
    /// Maps `len` zero bytes at `at`.
    pub(in crate::native) fn map(&mut self, at: u64, len: usize) -> &mut Lab {
        self.blocks.insert(Addr::new(at), vec![0; len]);
        self
    }

    pub(in crate::native) fn put(&mut self, at: u64, words: &[u64]) -> &mut Lab {
        let at = Addr::new(at);
        let Some((start, block)) = self.blocks.range_mut(..=at).next_back() else { return self };
        let from = at.since(*start) as usize;
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        block[from..from + bytes.len()].copy_from_slice(&bytes);
        self
    }

    pub(in crate::native) fn readable(&self, at: u64) -> Vec<AddrRange> {
        self.readable_parts(range(at, 1 << 20), u64::MAX)
    }

    pub(in crate::native) fn block(&self, at: Addr) -> Option<&[u8]> {
        let (start, block) = self.blocks.range(..=at).next_back()?;
        block.get(at.since(*start) as usize..).filter(|rest| !rest.is_empty())
    }

    /// Runs a recogniser. `open` is unclaimed, and `image` is the name and data of an image.
    pub(super) fn recognise(
        &self,
        find: fn(&Scene<'_>, &mut Findings),
        image: (&str, AddrRange),
        open: &[AddrRange],
    ) -> Vec<(AddrRange, Label)> {
        let (name, data) = image;
        let writable = self.readable_parts(data, u64::MAX);
        let image = Image { name: name.into(), owner: Owner::None, writable, elf: None, is_program: true };
        let mut found = Findings::default();
        find(&Scene::new(self, vec![image], open.to_vec()), &mut found);
        found.into_list()
    }
}

pub(in crate::native) fn range(start: u64, len: u64) -> AddrRange {
    AddrRange::sized(Addr::new(start), len)
}

impl Memory for Lab {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.block(addr).and_then(|b| b.get(..buf.len()));
        buf.copy_from_slice(bytes.ok_or(Fault { addr, kind: FaultKind::Unmapped })?);
        Ok(())
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        self.block(addr).map_or(0, |b| b.len() as u64).min(max)
    }

    fn past_gap(&self, addr: Addr) -> Addr {
        self.blocks.range(addr..).next().map_or(Addr::MAX, |(start, _)| *start)
    }
}
