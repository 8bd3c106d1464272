//! Containers of Rust's library, and hashbrown's tables in any program.
//!
//! Sources: hashbrown 0.14 and 0.15 src/raw (control bytes), library/alloc/src/raw_vec.rs, collections/btree/node.rs
//! and library/std/src/sync/mpmc/list.rs of rustc 1.66 to 1.95. The compiler chooses the order of fields. The orders
//! here are the same in all these versions.

use crate::addr::Addr;
use crate::analysis::block_graph::containers::cxx::of;
use crate::analysis::block_graph::containers::{Container, ContainerKind, Prover, slack};
use crate::bytes;
use crate::memory::Memory;

/// Number of control bytes after the table. They repeat the first group.
const GROUP: u64 = 16;

/// Maximum number of control bytes that are counted.
const MAX_BUCKETS: u64 = 1 << 28;

/// Number of low bits of a channel's index that are not the number of its block. The last slot of a block is not used.
const LAP: u32 = 6;
/// Distance in bytes from a channel's head to its tail.
const TAIL: u64 = 128;

/// Maximum number of edges, and of keys, of a B-tree's node.
const EDGES: u64 = 12;
const KEYS: u64 = 11;

/// Maximum size of a B-tree's node in bytes, and minimum number of nodes for a proof.
const MAX_NODE: u64 = 64 << 10;
const FEW_NODES: usize = 4;

/// Minimum number of nodes in which the offset of the length is searched. At most twice as many are used.
const SAMPLE: usize = 64;

impl Prover<'_> {
    /// `{control bytes, mask, room for growth, items}`. The proof: `items` is the number of control bytes of used
    /// slots. The slots precede the control bytes.
    pub(super) fn hashbrown(&self, at: Addr) -> Option<Container> {
        let [control, mask, growth, items] = self.words(at)?;
        let buckets = mask.checked_add(1).filter(|n| n.is_power_of_two() && (4..=MAX_BUCKETS).contains(n))?;
        let block = self.graph.at(Addr::new(control))?;
        let range = self.graph.range(block);
        let end = Addr::new(control).checked_add(buckets)?.checked_add(GROUP)?;
        let fits = items > 0 && items.checked_add(growth)? <= buckets && end <= range.end.saturating_add(8);
        let slots = Addr::new(control).checked_since(range.start)?;
        if !fits || slots < buckets {
            return None;
        }
        self.spend(at, buckets)?;
        let bytes = self.memory.look(Addr::new(control), usize::try_from(buckets).ok()?).ok()?;
        let used = bytes.iter().filter(|byte| **byte < 0x80).count() as u64;
        let each = slots.checked_div(buckets)?;
        (used == items).then(|| Container {
            room: Some((each.saturating_mul(items), slots)),
            ..of(ContainerKind::HashMap, at, 32, Some(items), range.start)
        })
    }

    /// `{capacity, address, length}`; a ring buffer has `{capacity, address, head, length}`.
    pub(super) fn vec(&self, at: Addr) -> Option<Container> {
        let [capacity, data, len] = self.words(at)?;
        let usable = self.starting(data)?;
        if capacity == 0 || len > capacity || capacity > usable {
            return None;
        }
        // Most elements consist of words. After the last element, malloc leaves no more than its slack.
        let most = usable.checked_div(capacity)?;
        let waste = |each: u64| usable.checked_sub(capacity.checked_mul(each)?);
        let each =
            [most & !7, most].into_iter().find(|each| *each > 0 && waste(*each).is_some_and(|w| w < slack(usable)))?;
        let ring = self.word(at.checked_add(24)?).filter(|_| self.rust);
        let ring = ring.filter(|ring| len < capacity && (16..=capacity).contains(ring) && *ring > len);
        let (kind, header, len) = match ring {
            Some(ring) => (ContainerKind::VecDeque, 32, ring),
            None => (ContainerKind::Vec, 24, len),
        };
        (len > 0).then(|| Container {
            room: Some((each.saturating_mul(len), each.saturating_mul(capacity))),
            ..of(kind, at, header, Some(len), Addr::new(data))
        })
    }

    /// `head {index, block}`, and two cache lines later `tail {index, block}`. The proof: the difference of the indices
    /// is the number of blocks from head to tail.
    pub(super) fn channel(&self, at: Addr) -> Option<Container> {
        if !self.rust {
            return None;
        }
        let [head, first] = self.words(at)?;
        let [tail, last] = self.words(at.checked_add(TAIL)?)?;
        let laps = (tail >> LAP).checked_sub(head >> LAP).filter(|laps| *laps > 0)?;
        let size = self.starting(first)?;
        if self.starting(last)? != size || laps > self.graph.len() as u64 {
            return None;
        }
        let link = self.channel_link(Addr::new(first), size)?;
        let (mut block, mut passed) = (Addr::new(first), 0_u64);
        let mut walk = self.walks.begin_cycle_only();
        while block.get() != last && passed <= laps {
            block = self.at_offset(block, link).filter(|next| !next.is_null() && walk.step(*next).is_ok())?;
            passed += 1;
        }
        let count = (tail >> 1).checked_sub(head >> 1)?.checked_sub(laps)?;
        (passed == laps).then(|| of(ContainerKind::Channel, at, 2 * TAIL, Some(count), Addr::new(first)))
    }

    /// Returns the offset of the word in a channel's block that points at the next block of the same size.
    fn channel_link(&self, block: Addr, size: u64) -> Option<u64> {
        self.spend(block, size)?;
        let is_block = |next: Addr| next != block && self.starting(next.get()) == Some(size);
        (0..size).step_by(8).find(|offset| self.at_offset(block, *offset).is_some_and(is_block))
    }

    /// Visits the blocks of a channel.
    pub(super) fn each_of_channel(&self, first: Addr, visit: &mut dyn FnMut(Addr)) {
        let link = self.starting(first.get()).and_then(|size| self.channel_link(first, size));
        if let Some(link) = link {
            self.each_linked(first, link, Addr::NULL, visit);
        }
    }

    /// `{root, height, length}`.
    pub(super) fn btree(&self, at: Addr) -> Option<Container> {
        let [root, height, len] = self.words(at)?;
        if !self.rust
            || !(1..EDGES).contains(&height)
            || len <= KEYS
            || len > (self.graph.len() as u64).saturating_mul(KEYS)
        {
            return None;
        }
        let nodes = self.btree_nodes(Addr::new(root));
        let counted = self.btree_len(&nodes)? == len;
        counted.then(|| of(ContainerKind::BTreeMap, at, 24, Some(len), Addr::new(root)))
    }

    /// Returns the offset of the parent in a node, and of the first edge in an inner node. The root has no parent.
    fn btree_form(&self, root: Addr) -> Option<(u64, u64)> {
        let usable = self.starting(root.get()).filter(|usable| *usable <= MAX_NODE)?;
        let edges = (0..usable / 8).find_map(|word| {
            let child = self.at_offset(root, 8 * word)?;
            let size = self.starting(child.get()).filter(|size| child != root && *size <= usable + 8)?;
            self.spend(child, size)?;
            let parent = (0..size / 8).find(|word| self.at_offset(child, 8 * word) == Some(root))?;
            Some((8 * parent, 8 * word))
        })?;
        self.at_offset(root, edges.0).filter(|parent| parent.is_null()).map(|_| edges)
    }

    /// Returns the nodes of a B-tree from its root, level by level. Empty if it is no B-tree.
    pub(super) fn btree_nodes(&self, root: Addr) -> Vec<Addr> {
        let Some((parent, edges)) = self.btree_form(root) else { return Vec::new() };
        let mut nodes = vec![root];
        let mut walk = self.walks.begin_cycle_only();
        let (mut from, mut at) = (0, 1);
        while from < at {
            for i in from..at {
                let Some(&node) = nodes.get(i) else { break };
                for edge in 0..EDGES {
                    let child =
                        self.at_offset(node, edges + 8 * edge).filter(|child| self.starting(child.get()).is_some());
                    let Some(child) = child.filter(|child| self.at_offset(*child, parent) == Some(node)) else { break };
                    if walk.step(child).is_err() {
                        return Vec::new();
                    }
                    nodes.push(child);
                }
            }
            (from, at) = (at, nodes.len());
        }
        nodes
    }

    /// Returns the sum of the lengths in the nodes. The length is at a two-byte offset with plausible values in all
    /// nodes.
    fn btree_len(&self, nodes: &[Addr]) -> Option<u64> {
        let leaf = nodes.last().filter(|_| nodes.len() >= FEW_NODES)?;
        let size = self.starting(leaf.get()).filter(|size| *size <= MAX_NODE)?;
        let number = |node: Addr, offset: usize| {
            let bytes = self.memory.look(node.checked_add(offset as u64)?, 2).ok()?;
            bytes::u16_at(&bytes, 0).map(u64::from)
        };
        let step = (nodes.len() / SAMPLE).max(1);
        self.spend(*leaf, size.saturating_mul(2 * SAMPLE as u64))?;
        let fits = |offset: &usize| {
            let inner = nodes.iter().skip(1).step_by(step);
            inner.filter_map(|node| number(*node, *offset)).all(|len| (1..=KEYS).contains(&len))
        };
        let offsets = (0..usize::try_from(size).ok()?.saturating_sub(1)).step_by(2);
        let plausible: Vec<usize> = offsets.filter(fits).collect();
        self.spend(*leaf, (nodes.len() as u64).saturating_mul(2 * plausible.len() as u64))?;
        let sum =
            |offset: usize| nodes.iter().filter_map(|node| number(*node, offset)).fold(0_u64, u64::saturating_add);
        // Each node except the root has at least five keys.
        plausible.into_iter().map(sum).max()
    }
}
