//! Containers of libstdc++ and libc++.
//!
//! Sources: bits/stl_tree.h, stl_list.h, hashtable.h, stl_vector.h, stl_deque.h of GCC 12; of LLVM 14, __tree and
//! __hash_table. A list of libc++ has the same layout as in libstdc++.

use crate::addr::Addr;
use crate::analysis::block_graph::containers::{Container, ContainerKind, Prover, slack};

/// Offsets of the links in a node of a tree.
pub(super) struct TreeForm {
    left: u64,
    right: u64,
    parent: u64,
}

/// `_Rb_tree_node_base`: colour, parent, left, right.
pub(super) const STD_TREE: TreeForm = TreeForm { parent: 8, left: 16, right: 24 };
/// `__tree_node_base`: left, right, parent.
pub(super) const LIBCXX_TREE: TreeForm = TreeForm { left: 0, right: 8, parent: 16 };

/// Load factors that programs use, as f32.
const LOADS: [f32; 6] = [1.0, 0.5, 0.75, 0.8, 0.7, 2.0];

/// Maximum number of nodes of a libc++ hash table whose bucket is checked.
const CHECKED: u64 = 64;

/// Returns the load factor in the low half of a word.
fn load(word: u64) -> Option<f32> {
    let load = f32::from_bits(word as u32);
    LOADS.contains(&load).then_some(load)
}

impl Prover<'_> {
    /// Returns the node that follows `at` in order. `end`: the node in the header.
    pub(super) fn after(&self, at: Addr, end: Addr, form: &TreeForm) -> Option<Addr> {
        let right = self.at_offset(at, form.right)?;
        if !right.is_null() {
            let mut at = right;
            let mut walk = self.walks.begin_cycle_only();
            while walk.step(at).is_ok() {
                let left = self.at_offset(at, form.left)?;
                if left.is_null() {
                    return Some(at);
                }
                at = left;
            }
            return None;
        }
        let mut at = at;
        let mut walk = self.walks.begin_cycle_only();
        while walk.step(at).is_ok() {
            let up = self.at_offset(at, form.parent)?;
            // The root is the header's only child, so nothing follows the rightmost node.
            if up == end || self.at_offset(up, form.right)? != at {
                return Some(up);
            }
            at = up;
        }
        None
    }

    fn count_tree(&self, first: Addr, end: Addr, count: u64, form: &TreeForm) -> bool {
        let (mut at, mut nodes) = (first, 0_u64);
        let mut walk = self.walks.begin_cycle_only();
        while at != end && nodes <= count {
            nodes += 1;
            let Some(next) = self.after(at, end, form).filter(|_| walk.step(at).is_ok()) else { return false };
            at = next;
        }
        nodes == count
    }

    /// `{comparator, colour, root, leftmost, rightmost, count}`.
    pub(super) fn std_map(&self, at: Addr) -> Option<Container> {
        let [_, colour, root, leftmost, rightmost, count] = self.words(at)?;
        let end = at.checked_add(8)?;
        let fits = colour as u32 == 0 && count > 0 && count <= self.graph.len() as u64 && self.starting(root).is_some();
        if !fits || self.at_offset(Addr::new(root), STD_TREE.parent)? != end {
            return None;
        }
        let ends = self.at_offset(Addr::new(leftmost), STD_TREE.left)?.is_null()
            && self.at_offset(Addr::new(rightmost), STD_TREE.right)?.is_null();
        let first = Addr::new(leftmost);
        (ends && self.count_tree(first, end, count, &STD_TREE))
            .then(|| of(ContainerKind::StdMap, at, 48, Some(count), first))
    }

    /// `{leftmost, root, count}`; the root's parent is the header's second word.
    pub(super) fn libcxx_map(&self, at: Addr) -> Option<Container> {
        let [leftmost, root, count] = self.words(at)?;
        let end = at.checked_add(8)?;
        let fits = count > 0 && count <= self.graph.len() as u64 && self.starting(root).is_some();
        if !fits || self.at_offset(Addr::new(root), LIBCXX_TREE.parent)? != end {
            return None;
        }
        let first = Addr::new(leftmost);
        let ends = self.at_offset(first, LIBCXX_TREE.left)?.is_null();
        (ends && self.count_tree(first, end, count, &LIBCXX_TREE))
            .then(|| of(ContainerKind::LibcxxMap, at, 24, Some(count), first))
    }

    /// `{next, previous, count}`, or without a count.
    pub(super) fn list(&self, at: Addr) -> Option<Container> {
        let [first, last] = self.words(at)?;
        let is_block = |node: u64| self.graph.at(Addr::new(node)).is_some();
        if first == at.get() || !is_block(first) || !is_block(last) {
            return None;
        }
        if self.at_offset(Addr::new(first), 8)? != at || self.at_offset(Addr::new(last), 0)? != at {
            return None;
        }
        let (mut node, mut count) = (Addr::new(first), 0_u64);
        let mut walk = self.walks.begin_cycle_only();
        while node != at {
            let next = self.at_offset(node, 0).filter(|_| walk.step(node).is_ok())?;
            if self.at_offset(next, 8)? != node {
                return None;
            }
            count += 1;
            node = next;
        }
        let counted = self.at_offset(at, 16).is_some_and(|stored| stored.get() == count);
        let (kind, len) = if counted { (ContainerKind::StdList, 24) } else { (ContainerKind::Ring, 16) };
        Some(of(kind, at, len, Some(count), Addr::new(first)))
    }

    fn count_linked(&self, first: u64, count: u64) -> bool {
        let (mut at, mut nodes) = (Addr::new(first), 0_u64);
        let mut walk = self.walks.begin_cycle_only();
        while !at.is_null() && nodes <= count {
            nodes += 1;
            let Some(next) = self.at_offset(at, 0).filter(|_| walk.step(at).is_ok()) else { return false };
            at = next;
        }
        nodes == count
    }

    /// `{buckets, number of buckets, first, count, load, next resize, single bucket}`.
    pub(super) fn std_unordered(&self, at: Addr) -> Option<Container> {
        let [buckets, number, first, count, load_word, resize] = self.words(at)?;
        let load = load(load_word)?;
        if number == 0 || count == 0 || count > self.graph.len() as u64 || first == 0 {
            return None;
        }
        let single = buckets == at.checked_add(48)?.get();
        let fits = single || self.starting(buckets).is_some_and(|usable| number.saturating_mul(8) <= usable);
        // The first words of libstdc++'s and libc++'s tables are the same. The next resize is only in libstdc++'s.
        let limit = (number as f64 * f64::from(load)) as u64;
        let resizes = resize == limit || number == 1 && resize == 0;
        (fits && resizes && self.count_linked(first, count))
            .then(|| of(ContainerKind::StdUnordered, at, 56, Some(count), Addr::new(first)))
    }

    /// `{buckets, number of buckets, first, count, load}`; a node begins with the next one and its hash.
    pub(super) fn libcxx_unordered(&self, at: Addr) -> Option<Container> {
        let [buckets, number, first, count, load_word] = self.words(at)?;
        load(load_word)?;
        let usable = self.starting(buckets)?;
        if number == 0 || count == 0 || count > self.graph.len() as u64 || number.saturating_mul(8) > usable {
            return None;
        }
        let (mut node, mut nodes) = (Addr::new(first), 0_u64);
        let mut walk = self.walks.begin_cycle_only();
        while !node.is_null() && nodes <= count {
            let [next, hash] = self.words(node).filter(|_| walk.step(node).is_ok())?;
            let bucket = if number.is_power_of_two() { hash & (number - 1) } else { hash.checked_rem(number)? };
            if nodes < CHECKED && self.at_offset(Addr::new(buckets), bucket.checked_mul(8)?)?.is_null() {
                return None;
            }
            nodes += 1;
            node = Addr::new(next);
        }
        (nodes == count).then(|| of(ContainerKind::LibcxxUnordered, at, 40, Some(count), Addr::new(first)))
    }

    /// `{begin, end, end of the storage}`.
    pub(super) fn vector(&self, at: Addr) -> Option<Container> {
        let [begin, end, limit] = self.words(at)?;
        let usable = self.starting(begin)?;
        let last = begin.checked_add(usable)?;
        let fits = begin < end && end <= limit && limit <= last && limit.saturating_add(slack(usable)) > last;
        fits.then(|| Container {
            room: Some((end.saturating_sub(begin), limit.saturating_sub(begin))),
            ..of(ContainerKind::StdVector, at, 24, None, Addr::new(begin))
        })
    }

    /// `{map, its length, start {current, first, last, node}, finish {…}}`.
    pub(super) fn deque(&self, at: Addr) -> Option<Container> {
        let [map, number, _, first, last, node, _, end_first, end_last, end_node] = self.words(at)?;
        let usable = self.starting(map)?;
        let inside = map <= node && node <= end_node && end_node < map.checked_add(number.checked_mul(8)?)?;
        let piece = last.checked_sub(first)?;
        let fits =
            number.saturating_mul(8) <= usable && inside && end_last.checked_sub(end_first)? == piece && piece > 0;
        if !fits || self.word(Addr::new(node))? != first || self.word(Addr::new(end_node))? != end_first {
            return None;
        }
        Some(of(ContainerKind::StdDeque, at, 80, None, Addr::new(map)))
    }
}

/// Creates a container whose capacity is unknown.
pub(super) fn of(kind: ContainerKind, header: Addr, len: u64, count: Option<u64>, storage: Addr) -> Container {
    Container { kind, header, len, count, storage, room: None }
}
