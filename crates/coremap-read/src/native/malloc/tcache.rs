//! The threads' caches of freed blocks (tcache).
//!
//! Candidates are blocks that a thread's TLS points to, first blocks of arenas, and blocks of a cache's size. A
//! candidate is accepted only if its lists are intact.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::memory::walk::Walks;
use crate::memory::{Fault, FaultKind, Memory, ProcessMemory};
use crate::native::malloc::Malloc;
use crate::native::malloc::shape::{Shape, TcacheShape};
use crate::phase::Phase;
use crate::process::Process;
use crate::targets::PieceState;

/// Encoding of the links of singly linked lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// The address itself, up to 2.31.
    Plain,
    /// Safe-linking, since 2.32: XORed with the address of the link, shifted right.
    Safe,
}

impl Linking {
    pub(super) const BOTH: [Linking; 2] = [Linking::Safe, Linking::Plain];

    /// Decodes the link `word` at address `link`.
    pub(super) fn reveal(self, shape: &Shape, link: Addr, word: u64) -> Addr {
        match self {
            Linking::Plain => Addr::new(word),
            Linking::Safe => Addr::new((link.get() >> shape.safe_linking) ^ word),
        }
    }
}

/// A thread's cache.
#[derive(Clone, Debug)]
pub struct Tcache {
    /// Address of the struct, as malloc returned it.
    pub address: Addr,
    /// The thread whose TLS points to the cache.
    pub tid: Option<u32>,
    /// First glibc release with this form of the struct.
    pub since: &'static str,
    /// Chunks in the cache, by chunk address.
    pub(super) chunks: Vec<Addr>,
    pub(super) linking: Option<Linking>,
    /// Number of lists that do not end as they must.
    pub broken: u64,
}

impl Tcache {
    /// Blocks in it.
    pub fn count(&self) -> usize {
        self.chunks.len()
    }
}

/// Bytes of TLS searched on either side of the thread pointer, in two attempts. libc is loaded first, so its variables
/// are near it, unless the program has much TLS of its own. Each further page is one more read per thread.
const TLS: [u64; 2] = [4 << 10, 64 << 10];

/// Size of a pointer variable in bytes.
const POINTER: u64 = 8;

/// malloc's variables in the threads' TLS.
#[derive(Debug, Default)]
pub(super) struct ThreadWords {
    /// Possible tcaches, each with the thread whose TLS points to it.
    tcaches: BTreeMap<Addr, u32>,
    /// Threads whose TLS points to an arena (`thread_arena`): the arena's index, and tid.
    pub(super) arenas: Vec<(usize, u32)>,
    /// Threads whose TLS should be in the core but could not be read.
    unread: Vec<u32>,
}

impl ThreadWords {
    /// Searches the TLS of all threads.
    ///
    /// A variable has the same distance from the thread pointer in all threads. That excludes chance hits, such as
    /// words on the stack below.
    pub(super) fn read(process: &Process, malloc: &Malloc, shape: &Shape) -> ThreadWords {
        let mut out = ThreadWords::default();
        for reach in TLS {
            out = ThreadWords::within(process, malloc, shape, reach);
            if !out.arenas.is_empty() || !out.tcaches.is_empty() {
                break;
            }
        }
        out
    }

    fn within(process: &Process, malloc: &Malloc, shape: &Shape, reach: u64) -> ThreadWords {
        let memory = &process.memory;
        let states: BTreeMap<u64, usize> =
            malloc.arenas.iter().enumerate().filter_map(|(i, a)| Some((a.state?.get(), i))).collect();
        let (mut arenas, mut caches): (Hits<usize>, Hits<Addr>) = Default::default();
        let mut unread = Vec::new();
        let threads = process.threads();
        let near = |tp: Addr| AddrRange::new(tp.saturating_sub(reach), tp.saturating_add(reach));
        process.target().expect(threads.iter().filter_map(|t| t.thread_pointer).map(near));
        for thread in threads {
            let Some(tp) = thread.thread_pointer else { continue };
            let Some(piece) = process.space().pieces.at(tp) else { continue };
            let near = near(tp);
            let Some(range) = near.intersect(&piece.range) else { continue };
            let start = range.start.align_up(8);
            let Ok(words) = memory.look(start, range.end.since(start) as usize) else {
                if piece.state != PieceState::NotDumped {
                    unread.push(thread.tid);
                }
                continue;
            };
            for (i, word) in words.as_chunks::<8>().0.iter().enumerate() {
                let word = LittleEndian::read_u64(word);
                let mem = Addr::new(word);
                if word < 4096 || !mem.is_aligned(8) {
                    continue;
                }
                let distance = start.wrapping_add(8 * i as u64).offset_from(tp);
                if let Some(&arena) = states.get(&word) {
                    arenas.entry(distance).or_default().push((arena, thread.tid));
                }
                let chunk = mem.saturating_sub(shape.chunk.mem);
                if !mem.is_aligned(shape.chunk.alignment) || malloc.arena_of(chunk).is_none() {
                    continue;
                }
                match form(memory, shape, chunk) {
                    Ok(Some(_)) => caches.entry(distance).or_default().push((mem, thread.tid)),
                    Ok(None) => {}
                    Err(fault) => {
                        let promised = matches!(fault.kind, FaultKind::Failed | FaultKind::Truncated);
                        unread.extend(promised.then_some(thread.tid));
                    }
                }
            }
        }
        unread.dedup();
        // Each copy of glibc has its own variables.
        let copies = 1 + malloc.more_modules.len();
        let mut out = ThreadWords { unread, ..ThreadWords::default() };
        for (distance, arenas) in most_common(arenas, copies) {
            for thread in threads.iter().filter(|thread| arenas.iter().any(|(_, tid)| *tid == thread.tid)) {
                thread.thread_pointer.into_iter().for_each(|at| memory.keep(at.wrapping_offset(distance), POINTER));
            }
            out.arenas.extend(arenas);
        }
        out.tcaches = most_common(caches, copies).into_iter().flat_map(|(_, caches)| caches).collect();
        out
    }
}

/// Hits by distance from the thread pointer: the value found, and the thread.
type Hits<T> = BTreeMap<i64, Vec<(T, u32)>>;

/// Returns the `limit` distances with hits in most threads, and those hits.
fn most_common<T>(hits: Hits<T>, limit: usize) -> Vec<(i64, Vec<(T, u32)>)> {
    let mut all: Vec<_> = hits.into_iter().collect();
    all.sort_by_key(|(distance, hits)| Reverse((hits.len(), *distance)));
    all.truncate(limit);
    all
}

/// Returns the form of cache whose chunk size `chunk` has, if any.
fn form<'s>(memory: &dyn Memory, shape: &'s Shape, chunk: Addr) -> Result<Option<&'s TcacheShape>, Fault> {
    let size = shape.size_of(memory.u64(chunk.saturating_add(shape.chunk.size))?);
    Ok(shape.tcaches.iter().find(|t| t.chunk == size))
}

/// Finds the caches among the blocks that threads point to, the first blocks of arenas, and `others` (chunks of a
/// cache's size).
///
/// Also returns the threads whose cache is not known, though it should be in the core.
pub(super) fn find(
    process: &Process,
    malloc: &Malloc,
    shape: &Shape,
    words: &ThreadWords,
    others: &[Addr],
) -> (Vec<Tcache>, Vec<u32>) {
    let memory = &process.memory;
    let firsts = malloc.arenas.iter().filter_map(|a| Some(a.parts.first()?.chunks.start));
    let mut chunks: BTreeMap<Addr, Option<u32>> = firsts.chain(others.iter().copied()).map(|c| (c, None)).collect();
    chunks.extend(words.tcaches.iter().map(|(mem, tid)| (mem.saturating_sub(shape.chunk.mem), Some(*tid))));
    let reader = Reader { memory, malloc, shape, walks: Walks::new(Phase::Blocks, limits::MAX_TCACHE_STEPS) };
    let mut found = Vec::new();
    let mut unknown = words.unread.clone();
    for (chunk, tid) in chunks {
        // Many blocks have this size, and lists of a false candidate lead anywhere.
        let cache = process.reads().attempt(|| reader.read(chunk, form(memory, shape, chunk).ok()??, tid));
        if cache.is_none() {
            unknown.extend(tid);
        }
        found.extend(cache);
    }
    (found, unknown)
}

struct Reader<'a> {
    memory: &'a ProcessMemory,
    malloc: &'a Malloc,
    shape: &'a Shape,
    /// Shared by all caches and false candidates.
    walks: Walks,
}

/// The chunks of one list, and whether the list ends as it must.
struct List {
    chunks: Vec<Addr>,
    whole: bool,
}

impl Reader<'_> {
    /// Returns the cache in `chunk`, if it is one.
    ///
    /// A thread's own cache may have a broken list (a block written to after it was freed). A candidate without a
    /// thread may not.
    fn read(&self, chunk: Addr, form: &TcacheShape, tid: Option<u32>) -> Option<Tcache> {
        let address = chunk.checked_add(self.shape.chunk.mem)?;
        let len = form.entries.checked_add(form.bins.checked_mul(8)?)?;
        let data = self.memory.bytes(address, len as usize).ok()?;
        let attempts = Linking::BOTH.map(|linking| (linking, self.lists(&data, form, linking)));
        let best = attempts.into_iter().min_by_key(|(_, lists)| lists.iter().filter(|l| !l.whole).count());
        let (linking, lists) = best?;
        let broken = lists.iter().filter(|l| !l.whole).count() as u64;
        let counts_fit = self.counts_fit(&data, form, &lists);
        let chunks: Vec<Addr> = lists.into_iter().flat_map(|l| l.chunks).collect();
        // A thread's own pointer is enough evidence. A block that only has the right size must have only intact lists.
        let believed = if tid.is_some() { counts_fit || broken == 0 } else { counts_fit && broken == 0 };
        if !believed || (chunks.is_empty() && tid.is_none()) {
            return None;
        }
        let linking = (!chunks.is_empty()).then_some(linking);
        Some(Tcache { address, tid, since: form.since, chunks, linking, broken })
    }

    fn lists(&self, data: &[u8], form: &TcacheShape, linking: Linking) -> Vec<List> {
        let head = |bin: u64| bytes::u64_at(data, (form.entries + bin * 8) as usize).unwrap_or(0);
        (0..form.bins).map(|bin| self.list(Addr::new(head(bin)), bin, form, linking)).collect()
    }

    /// Follows one list. The dump may have been taken while the list was being changed, so its length is not compared
    /// with the count here.
    fn list(&self, head: Addr, bin: u64, form: &TcacheShape, linking: Linking) -> List {
        let mut out = List { chunks: Vec::new(), whole: false };
        let mut at = head;
        let mut walk = self.walks.begin_own_set().at_most(limits::MAX_TCACHE_LIST);
        let c = &self.shape.chunk;
        while !at.is_null() {
            let chunk = at.saturating_sub(c.mem);
            let expected = c.min_size + bin * c.alignment;
            let fits = |size: u64| if bin < form.small_bins { size == expected } else { self.shape.is_size(size) };
            // Since 2.43, blocks with their own mappings may be cached.
            let ours = at.is_aligned(c.alignment) && (self.malloc.arena_of(chunk).is_some() || bin >= form.small_bins);
            let size_at = chunk.checked_add(c.size).filter(|_| ours);
            let is_sized = |at| self.memory.peek_u64(at).is_ok_and(|head| fits(self.shape.size_of(head)));
            if !size_at.is_some_and(is_sized) || walk.step(at).is_err() {
                return out;
            }
            size_at.into_iter().for_each(|at| self.memory.keep(at, POINTER));
            out.chunks.push(chunk);
            let Ok(word) = self.memory.u64(at) else { return out };
            at = linking.reveal(self.shape, at, word);
        }
        out.whole = true;
        out
    }

    /// Whether the counts equal the lengths of the lists. One bin may differ, since it may just have been changed. If
    /// the counts go downwards, count and length have the same sum in all bins.
    fn counts_fit(&self, data: &[u8], form: &TcacheShape, lists: &[List]) -> bool {
        let count = |bin: u64| {
            let at = (bin * form.count_size) as usize;
            if form.count_size == 1 {
                data.get(at).map(|&b| u64::from(b))
            } else {
                bytes::u16_at(data, at).map(u64::from)
            }
        };
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        let mut off = 0;
        for (bin, list) in lists.iter().enumerate() {
            let (Some(count), len) = (count(bin as u64), list.chunks.len() as u64) else { return false };
            if form.downwards {
                *sums.entry(count + len).or_default() += 1;
            } else if count != len {
                off += 1;
            }
        }
        if form.downwards {
            off = form.bins - sums.values().copied().max().unwrap_or(0);
        }
        off <= 1
    }
}
