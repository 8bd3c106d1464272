//! The walk from chunk to chunk through one range of an arena, and past damage.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::window::Window;
use crate::native::malloc::shape::Shape;
use crate::native::malloc::{Arena, ChunkRange, FreeLists};
use crate::targets::Target;
use crate::words::ChunkPlace;

/// Number of consecutive valid chunks after which an address is accepted as a chunk.
const CHAIN: usize = 8;

/// State of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum State {
    /// In use by the program.
    Used = 0,
    /// In a thread's cache.
    Tcache = 1,
    /// In a fastbin.
    Fastbin = 2,
    /// Freed, not yet sorted into a bin.
    Unsorted = 3,
    /// In a bin of one size.
    Small = 4,
    /// In a bin of a range of sizes.
    Large = 5,
    /// Free by the PREV_INUSE flag of the next chunk, but in no list.
    Unlisted = 6,
    /// The arena's top chunk.
    Top = 7,
    /// The words that would show the state are not in the core.
    Unknown = 8,
}

impl State {
    /// Number of states.
    pub const COUNT: usize = 9;

    /// The bits of an address in a list that have the state. Chunks are at multiples of 16.
    pub(super) const MASK: u64 = 15;

    const ALL: [State; State::COUNT] = [
        State::Used,
        State::Tcache,
        State::Fastbin,
        State::Unsorted,
        State::Small,
        State::Large,
        State::Unlisted,
        State::Top,
        State::Unknown,
    ];

    pub(super) fn of(index: usize) -> State {
        State::ALL.get(index).copied().unwrap_or(State::Unknown)
    }

    /// Returns the name of the state in reports.
    pub fn place(self) -> ChunkPlace {
        match self {
            State::Used => ChunkPlace::Used,
            State::Tcache => ChunkPlace::Tcache,
            State::Fastbin => ChunkPlace::Fastbin,
            State::Unsorted => ChunkPlace::Unsorted,
            State::Small => ChunkPlace::Smallbin,
            State::Large => ChunkPlace::Largebin,
            State::Unlisted => ChunkPlace::Unlisted,
            State::Top => ChunkPlace::Top,
            State::Unknown => ChunkPlace::Unknown,
        }
    }

    /// Whether the program must not use the chunk.
    pub fn is_free(self) -> bool {
        !matches!(self, State::Used | State::Unknown)
    }

    /// Whether malloc joins the chunk with free neighbours when it trims.
    fn joins(self) -> bool {
        matches!(self, State::Fastbin | State::Unsorted | State::Small | State::Large | State::Unlisted)
    }
}

/// A chunk of malloc.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Address of the chunk: 16 bytes before the address that malloc returned.
    pub address: Addr,
    /// Size of the chunk in bytes, with its header.
    pub size: u64,
    /// State of the chunk.
    pub state: State,
    /// The first word of a used block, if it is in the core.
    pub first_word: Option<u64>,
}

/// Why a range contains no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The range is not in the core.
    NotDumped,
    /// The size word is impossible.
    BadSize(u64),
    /// Another caller of sbrk moved the break. The range is between malloc's fenceposts and its next chunk.
    Foreign,
}

/// A range that no chunk covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwalkedRange {
    /// The range.
    pub range: AddrRange,
    /// Why it contains no chunks.
    pub damage: Damage,
}

/// Results of a walk over one range, other than its chunks. Sizes are in bytes.
#[derive(Clone, Debug, Default)]
pub struct WalkSummary {
    /// The first ranges without chunks, by address.
    pub lost: Vec<UnwalkedRange>,
    /// Number of ranges that are damaged or not in the core.
    pub losses: u64,
    /// Bytes of these ranges.
    pub lost_bytes: u64,
    /// The bytes of them that are not in the core.
    pub not_dumped: u64,
    /// Bytes that other callers of sbrk took.
    pub foreign: u64,
    /// Bytes of malloc's fenceposts.
    pub fences: u64,
    /// Whole pages in free chunks, by address. `malloc_trim(0)` returns them as far as they take up memory.
    pub trimmable: Vec<AddrRange>,
    /// Number of free chunks in lists that the walk did not visit.
    pub misplaced_entries: u64,
    /// Size of the largest free chunk, except the top.
    pub largest_free: u64,
}

pub(super) struct Walker<'a> {
    target: &'a dyn Target,
    shape: &'a Shape,
    lists: &'a FreeLists,
    page: u64,
    searched: u64,
}

impl<'a> Walker<'a> {
    pub(super) fn new(target: &'a dyn Target, shape: &'a Shape, lists: &'a FreeLists) -> Walker<'a> {
        Walker { target, shape, lists, page: crate::image::modules::page_size(target.facts()), searched: 0 }
    }

    /// Visits the chunks of `part` by address.
    pub(super) fn walk(&mut self, arena: &Arena, part: &ChunkRange, visit: impl FnMut(&Chunk)) -> WalkSummary {
        let windows = Window::all(self.target, part.chunks);
        let top = arena.top.map_or(u64::MAX, |t| t.get());
        let start = part.chunks.start.get();
        let mut listed = self.lists.since(start);
        let next_listed = listed.next();
        let walk = RangeWalk {
            words: Words { windows: &windows, at: 0 },
            shape: self.shape,
            main: arena.main,
            top,
            end: part.chunks.end.get(),
            listed,
            next_listed,
            run: FreeRun { start: 0, end: 0, page: self.page, whole: self.shape.chunk.whole, pages: Vec::new() },
            out: WalkSummary::default(),
            visit,
        };
        walk.go(start, arena, &mut self.searched)
    }
}

/// Reads words, and remembers the last window.
struct Words<'w, 'c> {
    windows: &'w [Window<'c>],
    at: usize,
}

impl Words<'_, '_> {
    #[inline(always)]
    fn get(&mut self, addr: u64) -> Option<u64> {
        if let Some(w) = self.windows.get(self.at)
            && addr >= w.start
            && addr < w.end
        {
            return w.word(addr);
        }
        self.seek(addr)
    }

    #[cold]
    fn seek(&mut self, addr: u64) -> Option<u64> {
        let i = self.windows.partition_point(|w| w.end <= addr);
        let w = self.windows.get(i).filter(|w| w.start <= addr)?;
        self.at = i;
        w.word(addr)
    }

    /// Returns the first address from `addr` on that is in the core, at most `end`.
    fn readable(&self, addr: u64, end: u64) -> u64 {
        let i = self.windows.partition_point(|w| w.end <= addr);
        self.windows.get(i).map_or(end, |w| w.start.max(addr)).min(end)
    }
}

/// Consecutive free chunks that trimming would join.
struct FreeRun {
    start: u64,
    end: u64,
    page: u64,
    /// sizeof (struct malloc_chunk), which is not trimmed.
    whole: u64,
    /// Whole pages of the runs.
    pages: Vec<AddrRange>,
}

impl FreeRun {
    fn add(&mut self, at: u64, size: u64) {
        if self.end == at && self.start != 0 {
            self.end = at + size;
        } else {
            self.close();
            (self.start, self.end) = (at, at + size);
        }
    }

    fn add_pages(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.pages.push(AddrRange::sized(Addr::new(start), len));
        }
    }

    /// Ends the run as `mtrim` of malloc.c does: the whole pages after the chunk's fields count.
    fn close(&mut self) {
        let first = (self.start + self.whole).next_multiple_of(self.page);
        if self.start != 0 && self.end > first {
            self.add_pages(first, (self.end - first) & !(self.page - 1));
        }
        (self.start, self.end) = (0, 0);
    }

    /// Ends the run at the top chunk, as `systrim` of malloc.c does without pad. A minimal chunk and one byte remain.
    fn close_with_top(&mut self, at: u64, size: u64, gives_back: bool, min: u64) {
        let end = at.saturating_add(size);
        let size = if self.end == at && self.start != 0 { size + (self.end - self.start) } else { size };
        if self.end != at {
            self.close();
        }
        if gives_back {
            let bytes = size.saturating_sub(min + 1) & !(self.page - 1);
            self.add_pages(end.saturating_sub(bytes), bytes);
        }
        (self.start, self.end) = (0, 0);
    }
}

/// The walk over one range.
struct RangeWalk<'w, 'c, L, V> {
    words: Words<'w, 'c>,
    shape: &'w Shape,
    main: bool,
    top: u64,
    end: u64,
    listed: L,
    next_listed: Option<(u64, State)>,
    run: FreeRun,
    out: WalkSummary,
    visit: V,
}

impl<L: Iterator<Item = (u64, State)>, V: FnMut(&Chunk)> RangeWalk<'_, '_, L, V> {
    fn go(mut self, start: u64, arena: &Arena, searched: &mut u64) -> WalkSummary {
        let mut at = start;
        while at < self.end {
            let head = self.words.get(at + self.shape.chunk.size);
            let size = head.map_or(0, |h| self.shape.size_of(h));
            if at == self.top && size > 0 && size <= self.end - at {
                self.run.close_with_top(at, size, arena.main && arena.contiguous, self.shape.chunk.min_size);
                self.emit(at, size, State::Top);
                at += size;
                continue;
            }
            if let Some(head) = head
                && self.is_chunk(at, head)
            {
                self.chunk(at, size, head);
                at += size;
                continue;
            }
            self.run.close();
            at = match head.and_then(|head| self.fence(at, head)) {
                Some(after) => after,
                None => self.skip(at, head, searched),
            };
        }
        self.run.close();
        self.out.trimmable = std::mem::take(&mut self.run.pages);
        while self.next_listed.is_some_and(|(l, _)| l < self.end) {
            self.out.misplaced_entries += 1;
            self.next_listed = self.listed.next();
        }
        self.out
    }

    /// Whether a chunk at `at` can have this size word.
    #[inline(always)]
    fn is_chunk(&self, at: u64, head: u64) -> bool {
        let c = &self.shape.chunk;
        let size = head & !c.flag_bits;
        size >= c.min_size
            && size & (c.alignment - 1) == 0
            && size <= self.end - at
            && head & c.is_mmapped == 0
            && !(self.main && head & c.non_main != 0)
    }

    #[inline(always)]
    fn chunk(&mut self, at: u64, size: u64, head: u64) {
        let c = &self.shape.chunk;
        let next = at + size;
        let mut state = None;
        while let Some((listed, kept)) = self.next_listed.filter(|(l, _)| *l <= at) {
            if listed == at {
                state = Some(kept);
            } else {
                self.out.misplaced_entries += 1;
            }
            self.next_listed = self.listed.next();
        }
        // The next chunk's flag says whether this one is in use.
        let after = if next < self.end { self.words.get(next + c.size) } else { None };
        let state = match (state, after) {
            (Some(kept), _) => kept,
            (None, Some(after)) if after & c.prev_inuse != 0 => {
                // The old top of a heap that was too small for its own fencepost.
                if !self.main && head & c.non_main == 0 && self.shape.size_of(after) == 0 && size <= c.min_size {
                    self.out.fences += size;
                    return;
                }
                State::Used
            }
            // If the next chunk is damaged, its flag means nothing. A chunk in no list counts as used.
            (None, Some(after)) if !self.is_chunk(next, after) && !self.is_fence(after) => State::Used,
            (None, Some(_)) => State::Unlisted,
            // A guessed heap without a top ends with a chunk that has no next one.
            (None, None) if next == self.end && self.top == u64::MAX => State::Top,
            (None, None) => State::Unknown,
        };
        if state.joins() {
            self.run.add(at, size);
        } else if state != State::Top {
            self.run.close();
        }
        if state.is_free() && state != State::Top {
            self.out.largest_free = self.out.largest_free.max(size);
        }
        self.emit(at, size, state);
    }

    #[inline(always)]
    fn emit(&mut self, at: u64, size: u64, state: State) {
        let first_word = if state == State::Used { self.words.get(at + self.shape.chunk.mem) } else { None };
        (self.visit)(&Chunk { address: Addr::new(at), size, state, first_word });
    }

    fn is_fence(&self, head: u64) -> bool {
        let size = self.shape.size_of(head);
        head & self.shape.chunk.prev_inuse != 0 && (size == 0 || size == self.shape.chunk.fencepost)
    }

    /// Skips fenceposts: two chunks below the minimum size. The bytes from them to the next chunk are not malloc's.
    /// `None` if there are no fenceposts at `at`.
    fn fence(&mut self, at: u64, head: u64) -> Option<u64> {
        let mark = self.shape.chunk.fencepost;
        let second = || at.checked_add(mark + self.shape.chunk.size);
        let size = self.shape.size_of(head);
        // The second fencepost may be alone, if the first was made a chunk.
        let alone = size == 0 && self.is_fence(head) && self.end - at <= mark;
        let pair = size == mark && self.words.get(second()?).is_some_and(|h| self.is_fence(h) || self.end - at <= mark);
        if !alone && !pair {
            return None;
        }
        let after = (at + if alone { mark } else { 2 * mark }).min(self.end);
        self.out.fences += after - at;
        if after == self.end {
            return Some(after);
        }
        let next = self.next_chunk(after, &mut u64::MAX.clone());
        self.out.foreign += next - after;
        self.note_loss(after, next, Damage::Foreign);
        Some(next)
    }

    /// Skips bytes that are no chunk. Returns the address of the next chunk.
    fn skip(&mut self, at: u64, head: Option<u64>, searched: &mut u64) -> u64 {
        let (from, damage) = match head {
            None => (self.words.readable(at + self.shape.chunk.size, self.end), Damage::NotDumped),
            Some(head) => (at + self.shape.chunk.alignment, Damage::BadSize(head)),
        };
        let from = from.next_multiple_of(self.shape.chunk.alignment).min(self.end);
        let mut room = limits::MAX_MALLOC_SEARCH.saturating_sub(*searched);
        let had = room;
        let next = self.next_chunk(from, &mut room);
        *searched += had - room;
        if damage == Damage::NotDumped {
            self.out.not_dumped += next - at;
        }
        self.out.losses += 1;
        self.out.lost_bytes += next - at;
        self.note_loss(at, next, damage);
        next
    }

    fn note_loss(&mut self, from: u64, to: u64, damage: Damage) {
        if self.out.lost.len() < limits::MAX_LOSSES {
            self.out.lost.push(UnwalkedRange { range: AddrRange::new(Addr::new(from), Addr::new(to)), damage });
        }
    }

    /// Returns the first address from `from` on where a chunk begins: a chunk in a list, the top, or the first of
    /// several valid chunks. The end of the range if there is none.
    fn next_chunk(&mut self, from: u64, room: &mut u64) -> u64 {
        while self.next_listed.is_some_and(|(l, _)| l < from) {
            self.out.misplaced_entries += 1;
            self.next_listed = self.listed.next();
        }
        let listed = self.next_listed.map_or(u64::MAX, |(l, _)| l);
        let top = if self.top >= from { self.top } else { u64::MAX };
        let sure = listed.min(top).min(self.end);
        let mut at = from;
        while at < sure && *room > 0 {
            match self.words.get(at + self.shape.chunk.size) {
                None => at = self.words.readable(at + self.shape.chunk.size, sure).max(at + 1).next_multiple_of(16),
                Some(0) => at += self.shape.chunk.alignment,
                Some(head) => {
                    if self.is_chunk(at, head) && self.chain(at, sure) {
                        return at;
                    }
                    at += self.shape.chunk.alignment;
                }
            }
            *room = room.saturating_sub(self.shape.chunk.alignment);
        }
        sure
    }

    /// Whether valid chunks follow from `at`: enough of them, or up to the certain chunk at `sure`.
    fn chain(&mut self, at: u64, sure: u64) -> bool {
        let c = self.shape.chunk;
        let mut at = at;
        for _ in 0..CHAIN {
            let Some(head) = self.words.get(at + c.size) else { return false };
            if !self.is_chunk(at, head) {
                return false;
            }
            let next = at + (head & !c.flag_bits);
            if next == sure {
                return true;
            }
            if next > sure {
                return false;
            }
            // A free chunk's size also follows it.
            if let Some(after) = self.words.get(next + c.size)
                && after & c.prev_inuse == 0
                && self.words.get(next) != Some(next - at)
            {
                return false;
            }
            at = next;
        }
        true
    }
}
