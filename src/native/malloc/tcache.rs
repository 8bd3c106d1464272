//! The threads' caches of freed blocks: found by what a thread's TLS points to,
//! by their place at the start of an arena, and by their shape, and believed
//! only where every list in them is whole.

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

/// How the links of single lists are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// The address itself, up to 2.31.
    Plain,
    /// XORed with the place it is kept at, without its low bits, since 2.32.
    Safe,
}

impl Linking {
    pub(super) const BOTH: [Linking; 2] = [Linking::Safe, Linking::Plain];

    /// The address that `word`, kept at `place`, stands for.
    pub(super) fn reveal(self, shape: &Shape, place: Addr, word: u64) -> Addr {
        match self {
            Linking::Plain => Addr::new(word),
            Linking::Safe => Addr::new((place.get() >> shape.safe_linking) ^ word),
        }
    }
}

/// One thread's cache.
#[derive(Clone, Debug)]
pub struct Tcache {
    /// The struct, as malloc returned it.
    pub address: Addr,
    /// The thread whose TLS points to it.
    pub tid: Option<u32>,
    /// First release of glibc with this form of it.
    pub since: &'static str,
    /// Chunks in it (their own addresses, not those malloc returned).
    pub(super) chunks: Vec<Addr>,
    pub(super) linking: Option<Linking>,
    /// Lists that do not end as they must.
    pub broken: u64,
}

impl Tcache {
    /// Blocks in it.
    pub fn count(&self) -> usize {
        self.chunks.len()
    }
}

/// Threads' TLS as far as malloc's variables are looked for in it, on either side
/// of the thread pointer: libc's is loaded first and so lies near it, unless the
/// program has much of its own. Each page more is one more read in each thread.
const TLS: [u64; 2] = [4 << 10, 64 << 10];

/// Bytes of a variable that has an address.
const POINTER: u64 = 8;

/// What threads' TLS says of malloc.
#[derive(Debug, Default)]
pub(super) struct ThreadWords {
    /// What may be a thread's tcache, and whose.
    tcaches: BTreeMap<Addr, u32>,
    /// Threads whose TLS names an arena (`thread_arena`): index and tid.
    pub(super) arenas: Vec<(usize, u32)>,
    /// Threads whose TLS should be in the core and could not be read.
    unread: Vec<u32>,
}

impl ThreadWords {
    /// Look through the TLS of all threads. A variable has the same distance from
    /// the thread pointer in all of them: of what is found by chance, on the stack
    /// below, nothing is left.
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
        let (distance, arenas) = most_common(arenas);
        for thread in threads.iter().filter(|thread| arenas.iter().any(|(_, tid)| *tid == thread.tid)) {
            thread.thread_pointer.into_iter().for_each(|at| memory.keep(at.wrapping_offset(distance), POINTER));
        }
        ThreadWords { tcaches: most_common(caches).1.into_iter().collect(), arenas, unread }
    }
}

/// Distance from the thread pointer, and what stands there in which thread.
type Hits<T> = BTreeMap<i64, Vec<(T, u32)>>;

/// The distance that most threads have something at, and what stands there.
fn most_common<T>(hits: Hits<T>) -> (i64, Vec<(T, u32)>) {
    hits.into_iter().max_by_key(|(_, hits)| hits.len()).unwrap_or_default()
}

/// The form of cache that a chunk's size stands for, if it has that of one.
fn form<'s>(memory: &dyn Memory, shape: &'s Shape, chunk: Addr) -> Result<Option<&'s TcacheShape>, Fault> {
    let size = shape.size_of(memory.u64(chunk.saturating_add(shape.chunk.size))?);
    Ok(shape.tcaches.iter().find(|t| t.chunk == size))
}

/// The caches among the blocks that threads point to, the first blocks of arenas,
/// and `others` (chunks of a cache's size). Also the threads whose caches are not
/// known, though the core should have them.
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
        // Blocks of that size are many, and lists of what is none lead anywhere.
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
    /// Of all caches, and of what looks like one.
    walks: Walks,
}

/// One list: its chunks, and whether it ends as it must.
struct List {
    chunks: Vec<Addr>,
    whole: bool,
}

impl Reader<'_> {
    /// The cache in `chunk`, if it is one. One of a thread may have a broken list
    /// (a block written to after it was freed); a mere look-alike may not.
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
        // A thread's own pointer is word enough; but a block that only has the
        // size must look like one in all of its lists.
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

    /// Follow one list. The dump may have been taken while it was changed, so its
    /// length is not held against the count here.
    fn list(&self, head: Addr, bin: u64, form: &TcacheShape, linking: Linking) -> List {
        let mut out = List { chunks: Vec::new(), whole: false };
        let mut at = head;
        let mut walk = self.walks.alone().at_most(limits::MAX_TCACHE_LIST);
        let c = &self.shape.chunk;
        while !at.is_null() {
            let chunk = at.saturating_sub(c.mem);
            let expected = c.min_size + bin * c.alignment;
            let fits = |size: u64| if bin < form.small_bins { size == expected } else { self.shape.is_size(size) };
            // Blocks with a mapping of their own may be cached since 2.43.
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

    /// Whether the counts say what the lists hold, one bin that was just changed
    /// excepted; where they count downwards, all have the same sum.
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
