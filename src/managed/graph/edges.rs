//! References that the depth-first search did not take, by the object they lead
//! to: dominators need them backwards.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::managed::graph::live::{CHUNK, Live, TooMany};

/// References of an object that are read at once.
const AT_ONCE: usize = 256;

/// For each number, the numbers that have a reference to it.
pub(super) struct Edges {
    /// Where those of each number end in `from`; those of the next begin there.
    ends: Vec<u32>,
    from: Vec<u32>,
}

impl Edges {
    /// From pairs of numbers, and how many numbers there are.
    #[cfg(test)]
    pub(super) fn of(len: usize, pairs: &[(u32, u32)]) -> Edges {
        let (mut ends, mut from) = (Vec::new(), Vec::new());
        for to in 0..len as u32 {
            from.extend(pairs.iter().filter(|p| p.1 == to).map(|p| p.0));
            ends.push(from.len() as u32);
        }
        Edges { ends, from }
    }

    /// As they are.
    #[cfg(test)]
    pub(super) fn raw(ends: Vec<u32>, from: Vec<u32>) -> Edges {
        Edges { ends, from }
    }

    /// Read the heap twice: to count them, and to keep them. With them, how many
    /// references lead to no object.
    ///
    /// # Errors
    /// [`TooMany`]
    pub(super) fn read(live: &Live<'_>, parents: &[u32]) -> Result<(Edges, u64), TooMany> {
        let zeros = |n: usize| (0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let mut ends = zeros(parents.len());
        let (count, strays) = each(live, parents, |_, to| {
            if let Some(end) = ends.get(to as usize) {
                end.fetch_add(1, Ordering::Relaxed);
            }
        });
        let sum = u32::try_from(count).map_err(|_| TooMany)?;
        let mut start = 0;
        for end in &mut ends {
            let count = std::mem::replace(end.get_mut(), start);
            start += count;
        }
        let from = zeros(sum as usize);
        // Where each row begins moves on to its end.
        each(live, parents, |v, to| {
            if let Some(end) = ends.get(to as usize)
                && let Some(place) = from.get(end.fetch_add(1, Ordering::Relaxed) as usize)
            {
                place.store(v, Ordering::Relaxed);
            }
        });
        let plain = |all: Vec<AtomicU32>| all.into_iter().map(AtomicU32::into_inner).collect();
        Ok((Edges { ends: plain(ends), from: plain(from) }, strays))
    }

    /// The numbers that have a reference to this one.
    #[inline(always)]
    pub(super) fn to(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let start = at.checked_sub(1).and_then(|i| self.ends.get(i)).map_or(0, |&e| e as usize);
        let end = self.ends.get(at).map_or(0, |&e| e as usize);
        self.from.get(start..end).unwrap_or_default()
    }
}

/// Visit what matters of all references between live objects; their number, and
/// that of references that lead to no object.
fn each(live: &Live<'_>, parents: &[u32], visit: impl Fn(u32, u32) + Sync) -> (u64, u64) {
    let parent = |v: u32| parents.get(v as usize).copied().unwrap_or(0);
    // The tree is known, and what holds itself says nothing. One that leads back up
    // the tree does: its object may be reached by another way than that tree's.
    let matters = |v: u32, to: u32| to != 0 && to != v && parent(to) != v;
    let (graph, len) = (live.graph, live.slots.len());
    let of_chunk = |chunk: usize| {
        let mut reader = graph.reader();
        let from = chunk * CHUNK;
        let (mut count, mut strays) = (0_u64, 0_u64);
        let mut held = Vec::new();
        live.slots.each(graph.space, from..(from + CHUNK).min(len), |v, addr| {
            if v == 0 {
                return;
            }
            let mut from = Some(0);
            while let Some(start) = from {
                from = reader.targets(addr.get(), start, AT_ONCE, &mut held);
                for &(_, value) in &held {
                    match live.slots.find(graph.space, value) {
                        Some((_, to)) if matters(v, to) => {
                            count += 1;
                            visit(v, to);
                        }
                        Some(_) => {}
                        None => strays += 1,
                    }
                }
            }
        });
        (count, strays)
    };
    let sum = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    let mut out = (0..len.div_ceil(CHUNK)).into_par_iter().map(of_chunk).reduce(|| (0, 0), sum);
    for source in &live.sources {
        for to in live.entries(source).filter(|&to| matters(source.number, to)) {
            out.0 = out.0.saturating_add(1);
            visit(source.number, to);
        }
    }
    out
}
