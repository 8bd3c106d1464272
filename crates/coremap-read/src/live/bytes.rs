//! The bytes of a running process, addressed by target offset: the mappings follow each other without gaps.
//!
//! They are read through /proc/PID/mem, except pages that are not in the process's memory. The kernel would fault those
//! in, and the process would grow from being read. (createdump did that to the stacks of whole clusters: dotnet/runtime
//! issue 71472.) /proc/PID/pagemap shows which pages are present. An absent page of anonymous memory is zero. An absent
//! page of a file is read from the file, if that can be opened and is the same file (see `open::file`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::live::ptrace;
use crate::live::snapshot::PagesAtCopy;

/// Length of a page of this machine in bytes. /proc/PID/pagemap has one word per page.
pub(super) fn page() -> u64 {
    crate::machine::page_size() as u64
}

/// Returns the index of the page that contains an address, which is also the index of its word in pagemap.
pub(super) fn number(addr: Addr) -> u64 {
    addr.since(Addr::NULL) / page()
}

/// Bits of a pagemap word (Documentation/admin-guide/mm/pagemap.rst).
pub(super) mod bit {
    /// The page is in memory.
    pub(in crate::live) const PRESENT: u64 = 1 << 63;
    /// The page is swapped out. Also set for other non-present entries: a page under migration, a guard.
    pub(in crate::live) const SWAPPED: u64 = 1 << 62;
    /// The page is mapped once, by this process. Clear for the kernel's zero page. That page is mapped where untouched
    /// memory is only read, and no resident figure counts it.
    pub(in crate::live) const EXCLUSIVE: u64 = 1 << 56;
    /// The page belongs to a file or to shared memory. Clear for a page of a private mapping that the process changed.
    pub(in crate::live) const FILE: u64 = 1 << 61;
    /// A guard page (MADV_GUARD_INSTALL), on kernels that report it (6.15).
    pub(in crate::live) const GUARD: u64 = 1 << 58;
}

/// Number of pages queried in one read of pagemap. Their words fit on a small stack.
pub(super) const QUERY_PAGES: usize = 256;

/// Number of pages in a stretch. A stretch starts at a multiple of this number.
pub(super) const STRETCH_PAGES: usize = 64;

/// Number of stretches whose page states are cached.
const CACHED_STRETCHES: usize = 1024;

/// Number of pages whose bytes are cached after a read. Structures are read word by word, which would otherwise cost a
/// system call per word.
const CACHED_PAGES: usize = 2048;

/// Source of a mapping's absent pages.
pub(super) enum AbsentSource {
    /// Absent pages are zero.
    Zero,
    /// The file, and the file offset of the mapping's start.
    InFile(Arc<LazyFile>, u64),
    /// Only the kernel has them: shared memory without a file that can be opened.
    Kernel,
}

/// A file that is opened on first use. All mappings of the file share it.
pub(super) struct LazyFile {
    open: Box<dyn Fn() -> Option<File> + Send + Sync>,
    file: OnceLock<Option<File>>,
}

impl LazyFile {
    pub(super) fn new(open: impl Fn() -> Option<File> + Send + Sync + 'static) -> LazyFile {
        LazyFile { open: Box::new(open), file: OnceLock::new() }
    }

    /// Returns the open file. `None` if it can't be opened.
    pub(super) fn get(&self) -> Option<&File> {
        self.file.get_or_init(&self.open).as_ref()
    }
}

/// A mapping in the sequence of target offsets.
pub(super) struct MappedPart {
    /// Target offset of its first byte.
    pub(super) place: u64,
    pub(super) range: AddrRange,
    pub(super) absent_source: AbsentSource,
    /// Bytes in memory or swap (from smaps). `None` if unknown. Saves queries of single pages.
    pub(super) populated: Option<u64>,
    /// Whether no other process maps a page of it (smaps reports nothing shared).
    pub(super) is_private: bool,
    /// Whether it is mapped MAP_SHARED.
    pub(super) is_shared: bool,
    /// Whether a core would contain it. If not, its bytes are in its file.
    pub(super) is_dumped: bool,
}

pub(super) struct Bytes {
    pid: u32,
    mem: File,
    pagemap: Option<File>,
    parts: Vec<MappedPart>,
    cached: Vec<Mutex<Option<CachedPage>>>,
    states_cache: Vec<Mutex<Option<PageStates>>>,
    fetched: AtomicU64,
    /// Pages that were in memory when all memory that can change was copied. Empty if it was not copied.
    at_copy: OnceLock<PagesAtCopy>,
}

/// Cached page states of a stretch. Single pages are queried by the ten thousand, mostly near an earlier one.
struct PageStates {
    stretch: u64,
    states: [State; STRETCH_PAGES],
}

struct CachedPage {
    place: u64,
    bytes: Vec<u8>,
}

impl MappedPart {
    /// Whether no page is in memory.
    pub(super) fn is_empty(&self) -> bool {
        self.populated == Some(0)
    }

    /// Whether all pages are in memory.
    pub(super) fn is_full(&self) -> bool {
        self.populated.is_some_and(|populated| populated >= self.range.len())
    }

    /// Whether so few pages are in memory that a scan should visit only those.
    pub(super) fn is_sparse(&self) -> bool {
        self.populated.is_none_or(|populated| populated < self.range.len() / 2)
    }
}

/// State of a page, from pagemap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Present,
    Absent,
    /// pagemap can't be read; the page is read through /proc/PID/mem.
    Unknown,
}

impl Bytes {
    /// Creates the bytes of process `pid` from its open `mem` and `pagemap` files and its mappings by target offset.
    pub(super) fn new(pid: u32, mem: File, pagemap: Option<File>, parts: Vec<MappedPart>) -> Bytes {
        let cached = (0..CACHED_PAGES).map(|_| Mutex::new(None)).collect();
        let states_cache = (0..CACHED_STRETCHES).map(|_| Mutex::new(None)).collect();
        Bytes { pid, mem, pagemap, parts, cached, states_cache, fetched: AtomicU64::new(0), at_copy: OnceLock::new() }
    }

    /// Total length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.parts.last().map_or(0, |last| last.place + last.range.len())
    }

    /// Bytes read from the process's memory so far.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    pub(super) fn parts(&self) -> &[MappedPart] {
        &self.parts
    }

    pub(super) fn pagemap(&self) -> Option<&File> {
        self.pagemap.as_ref()
    }

    /// Returns the pages that were in memory when the process was copied. `None` if it was not.
    pub(super) fn at_copy(&self) -> Option<&PagesAtCopy> {
        self.at_copy.get()
    }

    /// Records that all memory that can change was copied. From now on, only files and memory that only the kernel has
    /// are read.
    pub(super) fn set_copied(&self, pages: PagesAtCopy) {
        let _ = self.at_copy.set(pages);
    }

    /// Returns the index of the mapping that contains `addr`, or of the last one before it.
    pub(super) fn index_at(&self, addr: Addr) -> Option<usize> {
        self.parts.partition_point(|part| part.range.start <= addr).checked_sub(1)
    }

    fn index_of(&self, place: u64) -> Option<usize> {
        let after = self.parts.partition_point(|part| part.place <= place);
        let part = self.parts.get(after.checked_sub(1)?)?;
        (place - part.place < part.range.len()).then(|| after - 1)
    }

    /// Copies bytes up to the end of the page that contains `place`, through the page cache. Whole pages bypass the
    /// cache.
    pub(super) fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        let page = page();
        let (first, skip) = (place / page * page, (place % page) as usize);
        if skip == 0 && out.len() as u64 >= page {
            let whole = out.len() / page as usize * page as usize;
            let out = out.get_mut(..whole).unwrap_or_default();
            return if self.fill(place, out) { Ok(out.len()) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        let slot = self.cached.get((first / page) as usize % CACHED_PAGES).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|cached| cached.place != first) {
            let mut bytes = slot.take().map_or_else(|| vec![0; page as usize], |cached| cached.bytes);
            bytes.fill(0);
            if !self.fill(first, &mut bytes) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            *slot = Some(CachedPage { place: first, bytes });
        }
        let bytes = slot.as_ref().and_then(|cached| cached.bytes.get(skip..)).unwrap_or_default();
        let n = bytes.len().min(out.len());
        out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(n)
    }

    /// Reads words at scattered offsets, none of which crosses a page.
    pub(super) fn gather(&self, places: &[u64]) -> Vec<Option<u64>> {
        let mut out = vec![None; places.len()];
        let there: Vec<(usize, Addr)> =
            places.iter().enumerate().filter_map(|(i, place)| Some((i, self.resident_addr(*place)?))).collect();
        for some in there.chunks(ptrace::MAX_ADDRESSES) {
            let addrs: Vec<Addr> = some.iter().map(|&(_, addr)| addr).collect();
            let words = ptrace::words(self.pid, &addrs);
            self.fetched.fetch_add(size_of_val(words.as_slice()) as u64, Ordering::Relaxed);
            for (&(i, _), word) in some.iter().zip(words) {
                if let Some(slot) = out.get_mut(i) {
                    *slot = Some(word);
                }
            }
        }
        // Absent pages, and the words after the first one that the call could not read.
        for (slot, &place) in out.iter_mut().zip(places).filter(|(slot, _)| slot.is_none()) {
            let mut word = [0; 8];
            *slot = self.copy(place, &mut word).ok().filter(|&n| n == word.len()).map(|_| u64::from_le_bytes(word));
        }
        out
    }

    /// Returns the address of an offset, if its page is in memory.
    fn resident_addr(&self, place: u64) -> Option<Addr> {
        let part = self.parts.get(self.index_of(place)?)?;
        let addr = part.range.start.saturating_add(place - part.place);
        (part.is_full() || self.state(addr) == State::Present).then_some(addr)
    }

    /// Reads whole pages from `place` on into `out`, which must be zero. Bytes after the last mapping stay zero.
    /// Returns `false` if some pages could not be read; they stay zero. After a file's first opening, this only makes
    /// system calls.
    pub(super) fn fill(&self, place: u64, out: &mut [u8]) -> bool {
        let mut whole = true;
        let mut at = place;
        let mut rest = out;
        while !rest.is_empty() {
            let Some(part) = self.index_of(at).and_then(|index| self.parts.get(index)) else { break };
            let skip = at - part.place;
            let len = (part.range.len() - skip).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(len as usize);
            if !part.is_empty() || !matches!(part.absent_source, AbsentSource::Zero) {
                whole &= self.fill_part(part, skip, now);
            }
            at += len;
            rest = later;
        }
        whole
    }

    /// Reads pages of one mapping, from byte `skip` on.
    fn fill_part(&self, part: &MappedPart, skip: u64, out: &mut [u8]) -> bool {
        let page = page() as usize;
        let mut whole = true;
        let mut done = 0;
        let mut states = [State::Unknown; QUERY_PAGES];
        for pages in out.chunks_mut(QUERY_PAGES * page) {
            let start = part.range.start.saturating_add(skip + done);
            let count = pages.len().div_ceil(page);
            let states = states.get_mut(..count).unwrap_or_default();
            match states.first_mut() {
                _ if self.at_copy().is_some() => states.fill(State::Absent),
                _ if part.is_full() => {}
                Some(state) if count == 1 => *state = self.state(start),
                _ => self.read_states(start, states),
            }
            let mut from = 0;
            while from < count {
                let same = states.iter().skip(from).take_while(|state| Some(*state) == states.get(from)).count();
                let bytes = pages.get_mut(from * page..pages.len().min((from + same) * page)).unwrap_or_default();
                let at = skip + done + (from * page) as u64;
                whole &= match (states.get(from), &part.absent_source) {
                    (Some(State::Absent), AbsentSource::Zero) => true,
                    (Some(State::Absent), AbsentSource::InFile(file, offset)) => match file.get() {
                        Some(file) => read_file(file, offset.saturating_add(at), bytes),
                        None => self.read_memory(part.range.start.saturating_add(at), bytes),
                    },
                    _ => self.read_memory(part.range.start.saturating_add(at), bytes),
                };
                from += same.max(1);
            }
            done += (count * page) as u64;
        }
        whole
    }

    fn read_memory(&self, addr: Addr, out: &mut [u8]) -> bool {
        self.fetched.fetch_add(out.len() as u64, Ordering::Relaxed);
        // Twice as fast as /proc/PID/mem, but it can't read memory without read access.
        let done = ptrace::read(self.pid, addr, out);
        let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) else { return true };
        read_all(&self.mem, addr.saturating_add(done as u64).get(), rest).is_ok_and(|n| n == rest.len())
    }

    /// Returns the state of a page, through the cache.
    fn state(&self, addr: Addr) -> State {
        let number = number(addr);
        let (stretch, at) = (number / STRETCH_PAGES as u64, number as usize % STRETCH_PAGES);
        let Some(slot) = self.states_cache.get(stretch as usize % CACHED_STRETCHES) else { return State::Unknown };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|cached| cached.stretch != stretch) {
            let mut states = [State::Unknown; STRETCH_PAGES];
            self.read_states(Addr::new(stretch * STRETCH_PAGES as u64 * page()), &mut states);
            *slot = Some(PageStates { stretch, states });
        }
        slot.as_ref().and_then(|cached| cached.states.get(at)).copied().unwrap_or(State::Unknown)
    }

    /// Reads the states of the pages from `start` on from pagemap.
    fn read_states(&self, start: Addr, out: &mut [State]) {
        let mut words = [0; QUERY_PAGES * 8];
        let words = words.get_mut(..out.len() * 8).unwrap_or_default();
        let read = self.pagemap.as_ref().and_then(|file| read_all(file, number(start) * 8, words).ok());
        let known = words.get(..read.unwrap_or(0)).unwrap_or_default().as_chunks::<8>().0;
        for (i, state) in out.iter_mut().enumerate() {
            *state = known.get(i).map_or(State::Unknown, |word| state_of(u64::from_ne_bytes(*word)));
        }
    }
}

fn state_of(word: u64) -> State {
    if word & bit::PRESENT == 0 && (word & bit::SWAPPED == 0 || word & bit::GUARD != 0) {
        State::Absent
    } else {
        State::Present
    }
}

/// Reads pages of a mapped file. Pages beyond its end read as zero (an access would kill the process).
fn read_file(file: &File, offset: u64, out: &mut [u8]) -> bool {
    read_all(file, offset, out).is_ok()
}

/// Reads until `out` is full or the file ends. Returns the number of bytes read.
///
/// # Errors
/// Errors of pread(2), if no byte could be read.
pub(super) fn read_all(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if done == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(done)
}
