//! Free chunks of fastbins, the unsorted list, small and large bins, and threads' caches.
//!
//! All of them are in one list by address, which the walk follows.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::limits;
use crate::memory::walk::{Broken, Stop, Walks};
use crate::memory::{Memory, ProcessMemory};
use crate::native::malloc::shape::Shape;
use crate::native::malloc::tcache::{self, Linking, Tcache, ThreadWords};
use crate::native::malloc::{Arena, Malloc, State};
use crate::phase::Phase;
use crate::process::Process;

/// All free chunks in malloc's lists.
#[derive(Debug, Default)]
pub struct FreeLists {
    /// Address of each chunk, with its list ([`State`]) in the low bits.
    chunks: Vec<u64>,
    /// The threads' caches.
    pub tcaches: Vec<Tcache>,
    /// Arena index and tid of each thread. Empty if no thread's TLS is in the core.
    pub threads: Vec<(usize, u32)>,
    /// Lists that do not end as they must: the arena's index (`None` for a thread's cache) and a description.
    pub broken: Vec<(Option<usize>, String)>,
    /// Lists that were not found. Their chunks count as used.
    pub unknown: Vec<String>,
    /// Whether chunks are missing because there were more than [`limits::MAX_FREE_CHUNKS`].
    pub capped: bool,
    /// Bytes in each arena's lists, by state.
    pub(super) sums: Vec<[u64; State::COUNT]>,
}

impl FreeLists {
    /// Reads the lists again, with the caches of ended threads. `None` if these caches contain nothing.
    ///
    /// `seen` are chunks that may be such caches. The first walk counted their contents as used.
    pub fn with_caches(&self, process: &Process, malloc: &Malloc, seen: &[Addr]) -> Option<FreeLists> {
        let known: HashSet<Addr> = self.tcaches.iter().map(|t| t.address).collect();
        let others = seen.iter().any(|at| !known.contains(&malloc.block(*at)));
        let lists = others.then(|| FreeLists::read(process, malloc, seen))?;
        (lists.count() > self.count()).then_some(lists)
    }

    /// Reads the lists. `others` are checked as caches too: chunks of a cache's size that no thread points to.
    pub fn read(process: &Process, malloc: &Malloc, others: &[Addr]) -> FreeLists {
        let _phase = process.enter(Phase::Blocks);
        let mut out = FreeLists { sums: vec![[0; State::COUNT]; malloc.arenas.len()], ..FreeLists::default() };
        let Some(shape) = &malloc.shape else { return out };
        let words = ThreadWords::read(process, malloc, shape);
        let (tcaches, unknown) = tcache::find(process, malloc, shape, &words, others);
        out.tcaches = tcaches;
        if let Some(first) = unknown.first() {
            out.unknown.push(format!(
                "the caches of {} (first: thread {first})",
                crate::units::count(unknown.len() as u64, "thread")
            ));
        }
        if process.facts().threads_lost {
            out.unknown.push("the caches of threads whose registers could not be read".to_owned());
        }
        out.threads = words.arenas;
        let votes = |l: Linking| out.tcaches.iter().filter(|t| t.linking == Some(l)).count();
        let linking = match (votes(Linking::Safe), votes(Linking::Plain)) {
            (0, 0) => None,
            (safe, plain) => Some(if safe >= plain { Linking::Safe } else { Linking::Plain }),
        };
        let walks = Walks::new(Phase::Blocks, limits::MAX_FREE_CHUNKS);
        let reader = Reader { memory: &process.memory, shape, walks };
        for i in 0..out.tcaches.len() {
            let (chunks, broken) = (std::mem::take(&mut out.tcaches[i].chunks), out.tcaches[i].broken);
            for &chunk in &chunks {
                let arena = malloc.arena_of(chunk);
                out.add(&reader, arena, chunk, State::Tcache);
            }
            if broken > 0 {
                out.broken.push((None, format!("{broken} lists of the thread cache at {}", out.tcaches[i].address)));
            }
            out.tcaches[i].chunks = chunks;
        }
        for (i, arena) in malloc.arenas.iter().enumerate() {
            reader.fastbins(i, arena, linking, &mut out);
            reader.bins(i, arena, &mut out);
        }
        out.chunks.sort_unstable();
        // A block can be in one list only. If two lists name it, it counts for the first.
        out.chunks.dedup_by_key(|c| *c & !State::MASK);
        out
    }

    fn add(&mut self, reader: &Reader<'_>, arena: Option<usize>, chunk: Addr, state: State) -> bool {
        if self.chunks.len() >= limits::MAX_FREE_CHUNKS {
            self.capped = true;
            return false;
        }
        self.chunks.push(chunk.get() | state as u64);
        let size = reader.size(chunk).unwrap_or_else(|| {
            self.broken.push((arena, format!("the size of the free chunk at {chunk}")));
            0
        });
        if let Some(sum) = arena.and_then(|i| self.sums.get_mut(i)).and_then(|s| s.get_mut(state as usize)) {
            *sum = sum.saturating_add(size);
        }
        true
    }

    /// Warns about lists that were not found.
    pub fn warn_missing_lists(&self, process: &Process) {
        for what in &self.unknown {
            process.diag.partial(
                WarningCode::MallocList,
                format!("{what} can't be found, so blocks free in them count as used"),
            );
        }
    }

    /// Returns the free chunks from address `from` on, by address, each with its list.
    pub(super) fn since(&self, from: u64) -> impl Iterator<Item = (u64, State)> + '_ {
        let i = self.chunks.partition_point(|c| c & !State::MASK < from);
        let rest = self.chunks.get(i..).unwrap_or_default();
        rest.iter().map(|c| (c & !State::MASK, State::of((c & State::MASK) as usize)))
    }

    /// Chunks in all lists.
    pub fn count(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the state of the chunk at `chunk`. `None` if no list has it.
    pub fn state_of(&self, chunk: Addr) -> Option<State> {
        self.since(chunk.get()).next().filter(|(at, _)| *at == chunk.get()).map(|(_, state)| state)
    }
}

struct Reader<'a> {
    memory: &'a ProcessMemory,
    shape: &'a Shape,
    /// Shared by the bins of all arenas. It remembers no nodes, since there may be millions of chunks.
    walks: Walks,
}

impl Reader<'_> {
    fn size(&self, chunk: Addr) -> Option<u64> {
        let head = self.memory.u64(chunk.checked_add(self.shape.chunk.size)?).ok()?;
        Some(self.shape.size_of(head)).filter(|&s| self.shape.is_size(s))
    }

    /// Reads the fastbins: singly linked lists, one per size.
    fn fastbins(&self, index: usize, arena: &Arena, linking: Option<Linking>, out: &mut FreeLists) {
        let Some(first) = arena.fastbins else {
            // If its start is unknown, it is also unknown whether the main arena has fastbins.
            if arena.bins.is_some() && arena.state.is_none() {
                out.unknown.push(format!("the fastbins of the arena with bins at {}", arena.address()));
            }
            return;
        };
        for k in 0..self.shape.bins.fast_count {
            let slot = first.saturating_add(k * self.shape.bins.fast_slot);
            let Ok(head) = self.memory.ptr(slot) else {
                out.broken.push((Some(index), format!("fastbin {k}: not in the core")));
                continue;
            };
            let tries = linking.map_or_else(|| Linking::BOTH.to_vec(), |l| vec![l]);
            let mut lists: Vec<_> = tries.into_iter().map(|l| self.fastbin(arena, head, k, l)).collect();
            lists.sort_by_key(|(chunks, whole)| (!whole, std::cmp::Reverse(chunks.len())));
            let Some((chunks, whole)) = lists.into_iter().next() else { continue };
            for chunk in chunks {
                if !out.add(self, Some(index), chunk, State::Fastbin) {
                    return;
                }
            }
            if !whole {
                out.broken.push((Some(index), format!("fastbin {k}")));
            }
        }
    }

    fn fastbin(&self, arena: &Arena, head: Addr, k: u64, linking: Linking) -> (Vec<Addr>, bool) {
        let c = &self.shape.chunk;
        let size = c.min_size + k * c.alignment;
        let mut chunks = Vec::new();
        // Upper bound: the arena has no room for more blocks of this size.
        let limit = (arena.committed() / size).min(limits::MAX_FREE_CHUNKS as u64) as usize;
        let end = self.walks.begin_cycle_only().at_most(limit).follow(head, |at| {
            if !at.is_aligned(c.alignment) || !arena.holds(at) || self.size(at) != Some(size) {
                return Err("not a chunk of this list");
            }
            chunks.push(at);
            let link = at.saturating_add(c.fd);
            let word = self.memory.u64(link).map_err(|_| "not in the core")?;
            Ok(linking.reveal(self.shape, link, word))
        });
        if let Err(Broken::Stop(Stop::Cycle(_))) = end {
            // The cycle may have been followed more than once.
            let mut seen = HashSet::new();
            chunks.retain(|&chunk| seen.insert(chunk));
        }
        (chunks, end.is_ok())
    }

    /// Reads the unsorted list and the small and large bins. They are doubly linked, and each link must lead back. So
    /// the only possible cycle is the whole list.
    fn bins(&self, index: usize, arena: &Arena, out: &mut FreeLists) {
        let Some(bins) = arena.bins else { return };
        let (b, c) = (self.shape.bins, &self.shape.chunk);
        for k in 0..b.count {
            let state = match k {
                0 => State::Unsorted,
                k if k < b.small => State::Small,
                _ => State::Large,
            };
            let head = bins.saturating_add(k * b.bin).saturating_sub(b.header);
            let mut before = head;
            let mut walk = self.walks.begin_cycle_only();
            let mut at = self.memory.ptr(head.saturating_add(c.fd)).ok();
            loop {
                let Some(chunk) = at else {
                    out.broken.push((Some(index), format!("bin {}: not in the core", k + 1)));
                    break;
                };
                if chunk == head {
                    break;
                }
                let ours = chunk.is_aligned(c.alignment) && arena.holds(chunk) && self.size(chunk).is_some();
                let back = chunk.checked_add(c.bk).filter(|_| ours).and_then(|at| self.memory.ptr(at).ok());
                let stop = walk.step(chunk).err();
                if matches!(stop, Some(Stop::TooMany { .. })) {
                    out.capped = true;
                    return;
                }
                if back != Some(before) || !ours || stop.is_some() {
                    out.broken.push((Some(index), format!("bin {} at {chunk}", k + 1)));
                    break;
                }
                if !out.add(self, Some(index), chunk, state) {
                    return;
                }
                before = chunk;
                at = chunk.checked_add(c.fd).and_then(|a| self.memory.ptr(a).ok());
            }
        }
    }
}
