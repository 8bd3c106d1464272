//! The references of all objects, by number: read from the heap once, and looked up from
//! then on. Four bytes for each object and four for each reference.

use rayon::prelude::*;

use crate::managed::graph::bits::Bits;
use crate::managed::graph::ids::Ids;
use crate::managed::graph::{Graph, TooMany};

/// Objects of a chunk, which is what a thread takes at once.
pub(super) const CHUNK: u32 = 1 << 16;

/// References of an object that are read at once.
const AT_ONCE: usize = 256;

/// In the place of a reference that leads to no object.
pub(super) const STRAY: u32 = u32::MAX;

/// What objects refer to.
pub(super) struct Rows {
    chunks: Vec<Chunk>,
}

/// That of some objects.
struct Chunk {
    /// Where the references of each end; those of the next begin there.
    ends: Vec<u32>,
    targets: Vec<u32>,
}

impl Rows {
    /// Read all references; an object's number is its id and `base`. With them, which numbers have any.
    ///
    /// # Errors
    /// [`TooMany`]
    pub(super) fn read(graph: Graph<'_>, ids: &Ids, base: u32) -> Result<(Rows, Bits), TooMany> {
        let holders = Bits::new((base + ids.len()) as usize);
        let of_chunk = |chunk: u32| {
            let mut reader = graph.reader();
            let mut held = Vec::new();
            let from = chunk * CHUNK;
            let mut out = Chunk { ends: Vec::with_capacity(CHUNK as usize), targets: Vec::new() };
            ids.each(graph.space, from..(from + CHUNK).min(ids.len()), |id, addr| {
                let before = out.targets.len();
                out.ends.resize((id - from) as usize, before as u32);
                let mut more = Some(0);
                while let Some(start) = more {
                    more = reader.targets(addr, start, AT_ONCE, &mut held);
                    let numbers = held.iter().map(|&(_, value)| ids.find(graph.space, value));
                    out.targets.extend(numbers.map(|id| id.map_or(STRAY, |id| base + id)));
                }
                if out.targets.len() > before {
                    holders.set(base + id);
                }
                out.ends.push(out.targets.len() as u32);
            });
            out.targets.shrink_to_fit();
            u32::try_from(out.targets.len()).map(|_| out).map_err(|_| TooMany)
        };
        let chunks = (0..ids.len().div_ceil(CHUNK)).into_par_iter().map(of_chunk).collect::<Result<_, _>>()?;
        Ok((Rows { chunks }, holders))
    }

    /// Those of some lists, by id.
    #[cfg(test)]
    pub(super) fn of_lists(lists: &[Vec<u32>]) -> Rows {
        let of_chunk = |lists: &[Vec<u32>]| {
            let ends = lists.iter().scan(0, |end, list| {
                *end += list.len() as u32;
                Some(*end)
            });
            Chunk { ends: ends.collect(), targets: lists.concat() }
        };
        Rows { chunks: lists.chunks(CHUNK as usize).map(of_chunk).collect() }
    }

    /// Numbers that the object of that id refers to, in the order of its fields.
    #[inline(always)]
    pub(super) fn of(&self, id: u32) -> &[u32] {
        let Some(chunk) = self.chunks.get((id / CHUNK) as usize) else { return &[] };
        let at = (id % CHUNK) as usize;
        let start = at.checked_sub(1).and_then(|i| chunk.ends.get(i)).map_or(0, |&end| end as usize);
        let end = chunk.ends.get(at).map_or(0, |&end| end as usize);
        chunk.targets.get(start..end).unwrap_or_default()
    }

    /// Visit all objects, chunks of them on all threads: id, and numbers that it refers to.
    pub(super) fn each(&self, visit: impl Fn(u32, &[u32]) + Sync) {
        self.sum(|id, targets| {
            visit(id, targets);
            0
        });
    }

    /// The same, and the sum of what is said of each.
    pub(super) fn sum(&self, visit: impl Fn(u32, &[u32]) -> u64 + Sync) -> u64 {
        let of_chunk = |number: usize, chunk: &Chunk| {
            let (mut start, mut sum) = (0, 0_u64);
            for (id, &end) in (number as u32 * CHUNK..).zip(&chunk.ends) {
                sum += visit(id, chunk.targets.get(start..end as usize).unwrap_or_default());
                start = end as usize;
            }
            sum
        };
        self.chunks.par_iter().enumerate().map(|(number, chunk)| of_chunk(number, chunk)).sum()
    }
}
