//! The bytes of a process that runs, by place: mapping behind mapping, without the gaps between them.
//!
//! They are read by /proc/PID/mem. But a page that the process does not have in its memory is not asked for
//! there: the kernel would bring it in, and a look at a process would make it larger (createdump did that to the stacks of
//! whole clusters: dotnet/runtime issue 71472). /proc/PID/pagemap tells which pages are there. One that is not is zero in anonymous memory, and
//! is read from the file where it is of one, if that can be opened and is the very file (device and inode).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::live::ptrace;
use crate::targets::extents::Extents;
use crate::targets::residence::PageRuns;

/// Pages are told in this size: /proc/PID/pagemap has a word for each page of the machine.
fn page() -> u64 {
    crate::machine::page_size() as u64
}

/// The number of the page that holds an address: its word in pagemap.
fn number(addr: Addr) -> u64 {
    addr.since(Addr::NULL) / page()
}

/// Bits of a word of pagemap (Documentation/admin-guide/mm/pagemap.rst).
mod bit {
    /// In memory.
    pub(super) const PRESENT: u64 = 1 << 63;
    /// Swapped out; also entries that stand for something else: a page that is being moved, a guard.
    pub(super) const SWAPPED: u64 = 1 << 62;
    /// Mapped once, by this process. Not so the page of zeros that the kernel maps where untouched memory is read only, and
    /// which is in no count of what is resident.
    pub(super) const EXCLUSIVE: u64 = 1 << 56;
    /// A guard page (MADV_GUARD_INSTALL), on kernels that tell it (6.15).
    pub(super) const GUARD: u64 = 1 << 58;
}

/// Pages asked for at once: their words fit on a small stack.
const AT_ONCE: usize = 256;

/// Pages of a stretch, from a multiple of so many on.
const STRETCH: usize = 64;

/// Stretches that are kept.
const STRETCHES: usize = 1024;

/// Pages that are kept once read: structures are read word by word, and a word costs a system call otherwise.
const KEPT: usize = 2048;

/// Where the bytes of a mapping are that the process has not in its memory.
pub(super) enum Rest {
    /// Nowhere: they are zero.
    Zero,
    /// In this file, from this offset on. Opened when it is first needed.
    InFile(Box<dyn Fn() -> Option<File> + Send + Sync>, OnceLock<Option<File>>, u64),
    /// With the kernel alone: shared memory without a file that can be opened.
    Kernel,
}

/// A mapping in the row of places.
pub(super) struct Part {
    /// Place of its first byte.
    pub(super) place: u64,
    /// Its addresses.
    pub(super) range: AddrRange,
    /// Where that is what is not in memory.
    pub(super) rest: Rest,
    /// Bytes of it that are in memory or swapped (smaps), where that is known: what spares a look at each page.
    pub(super) held: Option<u64>,
    /// Whether no other process maps a page of it (smaps has nothing shared).
    pub(super) is_private: bool,
}

/// The bytes of a process.
pub(super) struct Bytes {
    pid: u32,
    mem: File,
    pagemap: Option<File>,
    parts: Vec<Part>,
    kept: Vec<Mutex<Option<Kept>>>,
    looked: Vec<Mutex<Option<Looked>>>,
    fetched: AtomicU64,
}

/// What pagemap said of the pages of a stretch: single pages are asked for by the ten thousand, and most lie close to one
/// that was asked for before.
struct Looked {
    /// Number of the stretch.
    stretch: u64,
    states: [State; STRETCH],
}

/// A page that was read.
struct Kept {
    place: u64,
    bytes: Vec<u8>,
}

impl Part {
    /// Whether nothing of it is in memory.
    fn is_empty(&self) -> bool {
        self.held == Some(0)
    }

    /// Whether all of it is.
    fn is_full(&self) -> bool {
        self.held.is_some_and(|held| held >= self.range.len())
    }

    /// Whether so little of it is in memory that a scan is better told where.
    fn is_sparse(&self) -> bool {
        self.held.is_none_or(|held| held < self.range.len() / 2)
    }
}

/// What pagemap says of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    There,
    Absent,
    /// To be had by /proc/PID/mem, whatever it is: pagemap can't be read.
    Unknown,
}

impl Bytes {
    /// `mem` and `pagemap` of process `pid`, and its mappings one behind the other.
    pub(super) fn new(pid: u32, mem: File, pagemap: Option<File>, parts: Vec<Part>) -> Bytes {
        let kept = (0..KEPT).map(|_| Mutex::new(None)).collect();
        let looked = (0..STRETCHES).map(|_| Mutex::new(None)).collect();
        Bytes { pid, mem, pagemap, parts, kept, looked, fetched: AtomicU64::new(0) }
    }

    /// Places in all.
    pub(super) fn len(&self) -> u64 {
        self.parts.last().map_or(0, |last| last.place + last.range.len())
    }

    /// Bytes that were read of its memory so far.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    fn index_of(&self, place: u64) -> Option<usize> {
        let after = self.parts.partition_point(|part| part.place <= place);
        let part = self.parts.get(after.checked_sub(1)?)?;
        (place - part.place < part.range.len()).then(|| after - 1)
    }

    /// Up to the end of the page that holds `place`, from the pages that are kept.
    pub(super) fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        let page = page();
        let (first, skip) = (place / page * page, (place % page) as usize);
        if skip == 0 && out.len() as u64 >= page {
            let whole = out.len() / page as usize * page as usize;
            let out = out.get_mut(..whole).unwrap_or_default();
            return if self.fill(place, out) { Ok(out.len()) } else { Err(io::ErrorKind::InvalidData.into()) };
        }
        let slot = self.kept.get((first / page) as usize % KEPT).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|kept| kept.place != first) {
            let mut bytes = slot.take().map_or_else(|| vec![0; page as usize], |kept| kept.bytes);
            bytes.fill(0);
            if !self.fill(first, &mut bytes) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            *slot = Some(Kept { place: first, bytes });
        }
        let bytes = slot.as_ref().and_then(|kept| kept.bytes.get(skip..)).unwrap_or_default();
        let n = bytes.len().min(out.len());
        out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(n)
    }

    /// The words at places far apart, none of which crosses a page.
    pub(super) fn gather(&self, places: &[u64]) -> Vec<Option<u64>> {
        let mut out = vec![None; places.len()];
        let there: Vec<(usize, Addr)> =
            places.iter().enumerate().filter_map(|(i, place)| Some((i, self.there(*place)?))).collect();
        for some in there.chunks(ptrace::MOST_PLACES) {
            let addrs: Vec<Addr> = some.iter().map(|&(_, addr)| addr).collect();
            let words = ptrace::words(self.pid, &addrs);
            self.fetched.fetch_add(size_of_val(words.as_slice()) as u64, Ordering::Relaxed);
            for (&(i, _), word) in some.iter().zip(words) {
                if let Some(slot) = out.get_mut(i) {
                    *slot = Some(word);
                }
            }
        }
        // What is not in memory, and what lies behind the first that such a call can't read.
        for (slot, &place) in out.iter_mut().zip(places).filter(|(slot, _)| slot.is_none()) {
            let mut word = [0; 8];
            *slot = self.copy(place, &mut word).ok().filter(|&n| n == word.len()).map(|_| u64::from_le_bytes(word));
        }
        out
    }

    /// The address of a place whose page is in memory.
    fn there(&self, place: u64) -> Option<Addr> {
        let part = self.parts.get(self.index_of(place)?)?;
        let addr = part.range.start.saturating_add(place - part.place);
        (part.is_full() || self.state(addr) == State::There).then_some(addr)
    }

    /// Read whole pages from `place` on into `out`, which is zero before; what lies behind the last mapping stays so. `false`: some
    /// could not be read, and are zero. System calls only, but for the first look at a file.
    pub(super) fn fill(&self, place: u64, out: &mut [u8]) -> bool {
        let mut whole = true;
        let mut at = place;
        let mut rest = out;
        while !rest.is_empty() {
            let Some(part) = self.index_of(at).and_then(|index| self.parts.get(index)) else { break };
            let skip = at - part.place;
            let len = (part.range.len() - skip).min(rest.len() as u64);
            let (now, later) = rest.split_at_mut(len as usize);
            if !part.is_empty() || !matches!(part.rest, Rest::Zero) {
                whole &= self.fill_part(part, skip, now);
            }
            at += len;
            rest = later;
        }
        whole
    }

    /// The pages of one mapping, from `skip` on.
    fn fill_part(&self, part: &Part, skip: u64, out: &mut [u8]) -> bool {
        let page = page() as usize;
        let mut whole = true;
        let mut done = 0;
        let mut states = [State::Unknown; AT_ONCE];
        for pages in out.chunks_mut(AT_ONCE * page) {
            let start = part.range.start.saturating_add(skip + done);
            let count = pages.len().div_ceil(page);
            let states = states.get_mut(..count).unwrap_or_default();
            match states.first_mut() {
                _ if part.is_full() => {}
                Some(state) if count == 1 => *state = self.state(start),
                _ => self.look(start, states),
            }
            let mut from = 0;
            while from < count {
                let same = states.iter().skip(from).take_while(|state| Some(*state) == states.get(from)).count();
                let bytes = pages.get_mut(from * page..pages.len().min((from + same) * page)).unwrap_or_default();
                let at = skip + done + (from * page) as u64;
                whole &= match (states.get(from), &part.rest) {
                    (Some(State::Absent), Rest::Zero) => true,
                    (Some(State::Absent), Rest::InFile(open, file, offset)) => match file.get_or_init(open) {
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
        read_all(&self.mem, addr.get(), out).is_ok_and(|n| n == out.len())
    }

    /// What pagemap says of one page.
    fn state(&self, addr: Addr) -> State {
        let number = number(addr);
        let (stretch, at) = (number / STRETCH as u64, number as usize % STRETCH);
        let Some(slot) = self.looked.get(stretch as usize % STRETCHES) else { return State::Unknown };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|looked| looked.stretch != stretch) {
            let mut states = [State::Unknown; STRETCH];
            self.look(Addr::new(stretch * STRETCH as u64 * page()), &mut states);
            *slot = Some(Looked { stretch, states });
        }
        slot.as_ref().and_then(|looked| looked.states.get(at)).copied().unwrap_or(State::Unknown)
    }

    /// What pagemap says of the pages from `start` on.
    fn look(&self, start: Addr, out: &mut [State]) {
        let mut words = [0; AT_ONCE * 8];
        let words = words.get_mut(..out.len() * 8).unwrap_or_default();
        let read = self.pagemap.as_ref().and_then(|file| read_all(file, number(start) * 8, words).ok());
        let known = words.get(..read.unwrap_or(0)).unwrap_or_default().as_chunks::<8>().0;
        for (i, state) in out.iter_mut().enumerate() {
            *state = known.get(i).map_or(State::Unknown, |word| state_of(u64::from_ne_bytes(*word)));
        }
    }

    /// Runs of pages of `range`, which lies in one mapping, that are in memory, in memory of this process alone, and swapped.
    /// `None` where pagemap can't be read.
    pub(super) fn pages(&self, range: AddrRange) -> Option<PageRuns> {
        let file = self.pagemap.as_ref()?;
        let after = self.parts.partition_point(|part| part.range.start <= range.start);
        let part = after.checked_sub(1).and_then(|index| self.parts.get(index));
        // Of memory that nobody shares, a page that is not this process's alone is the page of zeros.
        let wanted = if part.is_some_and(|part| part.is_private) { bit::EXCLUSIVE } else { 0 };
        let (mut there, mut private, mut swapped) = (Vec::new(), Vec::new(), Vec::new());
        let mut words = vec![0; (64 << 10).min(range.len().div_ceil(page()) * 8) as usize];
        let mut at = range.start.align_down(page());
        while at < range.end {
            let left = range.end.since(at).div_ceil(page()) as usize * 8;
            let len = words.len().min(left);
            let words = words.get_mut(..len)?;
            if read_all(file, number(at) * 8, words).ok()? < words.len() {
                return None;
            }
            for word in words.as_chunks::<8>().0 {
                let word = u64::from_ne_bytes(*word);
                let this = AddrRange::sized(at, page());
                if word & bit::PRESENT != 0 && word & wanted == wanted {
                    push(&mut there, this);
                    if word & bit::EXCLUSIVE != 0 {
                        push(&mut private, this);
                    }
                } else if word & bit::PRESENT == 0 && word & bit::SWAPPED != 0 && word & bit::GUARD == 0 {
                    push(&mut swapped, this);
                }
                at = this.end;
            }
        }
        let within = |runs: Vec<AddrRange>| runs.iter().filter_map(|run| run.intersect(&range)).collect();
        Some(PageRuns { resident: within(there), private: Some(within(private)), swapped: within(swapped) })
    }

    /// Places that may hold something: of anonymous memory of which little is in memory those pages, of all else every one.
    pub(super) fn extents(&self) -> Extents {
        let mut data: Vec<std::ops::Range<u64>> = Vec::new();
        let mut add = |from: u64, to: u64| match data.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => data.push(from..to),
        };
        for part in &self.parts {
            let known = match part.rest {
                Rest::Zero if part.is_empty() => continue,
                Rest::Zero if part.is_sparse() => self.pages(part.range),
                _ => None,
            };
            let Some(PageRuns { resident, swapped, .. }) = known else {
                add(part.place, part.place + part.range.len());
                continue;
            };
            for run in crate::addr::union(resident.into_iter().chain(swapped).collect()) {
                let from = part.place + run.start.since(part.range.start);
                add(from, from + run.len());
            }
        }
        Extents::new(data)
    }
}

fn push(runs: &mut Vec<AddrRange>, page: AddrRange) {
    match runs.last_mut() {
        Some(last) if last.end == page.start => last.end = page.end,
        _ => runs.push(page),
    }
}

fn state_of(word: u64) -> State {
    if word & bit::PRESENT == 0 && (word & bit::SWAPPED == 0 || word & bit::GUARD != 0) {
        State::Absent
    } else {
        State::There
    }
}

/// Pages of a mapped file. Behind its end there is nothing, which a process would die of: zeros.
fn read_file(file: &File, offset: u64, out: &mut [u8]) -> bool {
    read_all(file, offset, out).is_ok()
}

/// Read until `out` is full or nothing more comes; how many bytes there were.
///
/// # Errors
/// Those of pread(2) where not even the first byte can be read.
fn read_all(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
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
