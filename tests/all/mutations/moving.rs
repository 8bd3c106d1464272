//! Whole cores at other addresses: the first mapping at 0, the last one up to the top of the
//! address space, any other at one of these, so that what lies before it is at the other end.

use std::path::Path;

use super::damage::{Note, notes};
use crate::support::elf::{self, Headers, u64_at};
use crate::support::{Rng, real};

/// What goes with the mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// Nothing: all pointers lead elsewhere.
    Headers,
    /// What notes say: files, registers, the auxiliary vector.
    Notes,
    /// Notes, and the words of memory that lead into a mapping.
    Memory,
}

/// How a core is moved.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    /// What is added to each address, modulo 2^64.
    pub by: u64,
    pub with: With,
}

/// A core that is moved again and again.
pub struct Movable {
    bytes: Vec<u8>,
    headers: Headers,
    notes: Vec<Note>,
    /// What addresses of mappings are: first and end, sorted.
    ranges: Vec<(u64, u64)>,
}

impl Movable {
    pub fn new(name: &str) -> Movable {
        let bytes = real::bytes(name);
        let headers = elf::read(&bytes);
        let notes = notes(&bytes, headers.notes);
        let loads = headers.loads.iter().map(|l| (l.vaddr, l.vaddr.saturating_add(l.memsz)));
        let mut ranges: Vec<(u64, u64)> = loads.chain(headers.files.iter().copied()).collect();
        ranges.sort_unstable();
        Movable { bytes, headers, notes, ranges }
    }

    /// The first mapping at 0 and the last one at the end, and `more` that `rng` picks.
    pub fn moves(&self, more: u64, rng: &mut Rng) -> Vec<Move> {
        let loads: Vec<_> = self.headers.loads.iter().filter(|l| l.memsz > 0).collect();
        let (first, last) =
            (loads.iter().min_by_key(|l| l.vaddr).unwrap(), loads.iter().max_by_key(|l| l.vaddr).unwrap());
        let to_start = |at: u64, to: u64| to.wrapping_sub(at);
        let end = |l: &elf::Segment| l.vaddr.wrapping_add(l.memsz);
        let mut out = vec![
            Move { by: to_start(first.vaddr, 0), with: With::Memory },
            Move { by: to_start(end(last), 0), with: With::Memory },
        ];
        for _ in 0..more {
            let load = loads[rng.below(loads.len() as u64) as usize];
            let by = match rng.below(6) {
                0 | 1 => to_start(load.vaddr, 0),
                2 => to_start(load.vaddr, 8 * (1 + rng.below(4))),
                3 => to_start(end(load), 0),
                4 => to_start(end(load), u64::MAX - rng.below(2 * 4096)),
                // It goes on beyond the top, or would.
                _ => to_start(load.vaddr + rng.below(load.memsz), 0),
            };
            let with = [With::Headers, With::Notes, With::Memory][rng.below(3) as usize];
            out.push(Move { by, with });
        }
        out
    }

    /// Each mapping in turn at 0, a little above it, and up to the top; all pointers stay.
    pub fn each(&self) -> Vec<Move> {
        let loads = self.headers.loads.iter().filter(|l| l.memsz > 0);
        let by = |l: &elf::Segment| [l.vaddr, l.vaddr - 8, l.vaddr + l.memsz].map(|at| 0u64.wrapping_sub(at));
        loads.flat_map(by).map(|by| Move { by, with: With::Headers }).collect()
    }

    /// Write the moved core to `path`.
    pub fn write(&self, how: Move, path: &Path) {
        let mut bytes = self.bytes.clone();
        let headers = u64_at(&bytes, 32) as usize;
        for at in (headers..self.headers.len).step_by(56) {
            if bytes[at..at + 4] == [1, 0, 0, 0] {
                add(&mut bytes, at + 16, how.by);
            }
        }
        if how.with != With::Headers {
            for note in &self.notes {
                let body = note.body as usize;
                self.relocate(&mut bytes, body..body + note.len as usize, how.by);
            }
        }
        if how.with == With::Memory {
            for load in &self.headers.loads {
                let end = (load.offset + load.filesz).min(bytes.len() as u64);
                self.relocate(&mut bytes, load.offset.next_multiple_of(8) as usize..end as usize, how.by);
            }
        }
        let mut file = std::fs::File::create(path).unwrap();
        real::write_sparse(&mut file, &bytes);
    }

    fn relocate(&self, bytes: &mut [u8], part: std::ops::Range<usize>, by: u64) {
        for at in part.step_by(8).filter(|at| at + 8 <= self.bytes.len()) {
            let word = u64_at(&self.bytes, at);
            // An end of a mapping is an address too.
            let i = self.ranges.partition_point(|r| r.0 <= word);
            if word > 0xffff && i.checked_sub(1).is_some_and(|i| word <= self.ranges[i].1) {
                bytes[at..at + 8].copy_from_slice(&word.wrapping_add(by).to_le_bytes());
            }
        }
    }
}

fn add(bytes: &mut [u8], at: usize, by: u64) {
    let sum = u64_at(bytes, at).wrapping_add(by);
    bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
}
