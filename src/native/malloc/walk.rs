//! From chunk to chunk through one part of an arena, and past what is none.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::window::Window;
use crate::native::malloc::shape::Shape;
use crate::native::malloc::{Arena, FreeLists, Part};
use crate::targets::Target;
use crate::words::ChunkPlace;

/// Chunks in a row that make a place believed to be a chunk again.
const CHAIN: usize = 8;

/// What a chunk is.
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
    /// Free by the bit in the chunk behind it, but in no list.
    Unlisted = 6,
    /// The arena's last chunk.
    Top = 7,
    /// What tells is not in the core.
    Unknown = 8,
}

impl State {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// Bits of an address that hold a state in a list: chunks lie at multiples of 16.
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

    /// Where a chunk in this state is kept, as reports say it.
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

    /// Whether the program may not use it.
    pub fn is_free(self) -> bool {
        !matches!(self, State::Used | State::Unknown)
    }

    /// Whether malloc joins it with free neighbours when it trims.
    fn joins(self) -> bool {
        matches!(self, State::Fastbin | State::Unsorted | State::Small | State::Large | State::Unlisted)
    }
}

/// One chunk.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Where it begins: 16 bytes before what malloc returned.
    pub address: Addr,
    /// Its size in bytes, header and all.
    pub size: u64,
    /// What it is.
    pub state: State,
    /// The first word of a used block, as far as that is in the core.
    pub first_word: Option<u64>,
}

/// Why bytes between chunks are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Not in the core.
    NotDumped,
    /// No chunk can have this size word.
    BadSize(u64),
    /// Between malloc's own end marks and its next chunk: somebody else moved the break.
    Foreign,
}

/// Bytes that no chunk covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where.
    pub range: AddrRange,
    /// Why.
    pub damage: Damage,
}

/// What a walk over one part found beside chunks. Sizes in bytes.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// The first places without chunks, by address.
    pub lost: Vec<Lost>,
    /// Number of all of them that are damage or not in the core.
    pub losses: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Of these, not in the core.
    pub not_dumped: u64,
    /// Bytes that others took from the break.
    pub foreign: u64,
    /// malloc's own end marks.
    pub fences: u64,
    /// What `malloc_trim(0)` would give back: whole pages in free chunks.
    pub trimmable: u64,
    /// Free chunks of the lists that the walk did not meet.
    pub off_border: u64,
    /// Largest free chunk but the top.
    pub largest_free: u64,
}

/// Walks the parts of one arena.
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

    /// Visit the chunks of `part` by address.
    pub(super) fn walk(&mut self, arena: &Arena, part: &Part, visit: impl FnMut(&Chunk)) -> Walked {
        let windows = Window::all(self.target, part.chunks);
        let top = arena.top.map_or(u64::MAX, |t| t.get());
        let start = part.chunks.start.get();
        let mut listed = self.lists.since(start);
        let next_listed = listed.next();
        let step = Step {
            words: Words { windows: &windows, at: 0 },
            shape: self.shape,
            main: arena.main,
            top,
            end: part.chunks.end.get(),
            listed,
            next_listed,
            run: Run { start: 0, end: 0, page: self.page, whole: self.shape.chunk.whole, bytes: 0 },
            out: Walked::default(),
            visit,
        };
        step.go(start, arena, &mut self.searched)
    }
}

/// Words of memory, from window to window.
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

    /// The first address from `addr` on that is in the core, up to `end`.
    fn readable(&self, addr: u64, end: u64) -> u64 {
        let i = self.windows.partition_point(|w| w.end <= addr);
        self.windows.get(i).map_or(end, |w| w.start.max(addr)).min(end)
    }
}

/// A row of free chunks that trimming would join.
struct Run {
    start: u64,
    end: u64,
    page: u64,
    /// sizeof (struct malloc_chunk), which stays.
    whole: u64,
    bytes: u64,
}

impl Run {
    fn add(&mut self, at: u64, size: u64) {
        if self.end == at && self.start != 0 {
            self.end = at + size;
        } else {
            self.close();
            (self.start, self.end) = (at, at + size);
        }
    }

    /// malloc.c `mtrim`: the whole pages behind the chunk's own fields.
    fn close(&mut self) {
        let first = (self.start + self.whole).next_multiple_of(self.page);
        if self.start != 0 && self.end > first {
            self.bytes += (self.end - first) & !(self.page - 1);
        }
        (self.start, self.end) = (0, 0);
    }

    /// malloc.c `systrim` with no pad: what is left keeps a smallest chunk and a byte.
    fn close_with_top(&mut self, at: u64, size: u64, gives_back: bool, min: u64) {
        let size = if self.end == at && self.start != 0 { size + (self.end - self.start) } else { size };
        if self.end != at {
            self.close();
        }
        if gives_back {
            self.bytes += size.saturating_sub(min + 1) & !(self.page - 1);
        }
        (self.start, self.end) = (0, 0);
    }
}

/// One part's walk.
struct Step<'w, 'c, L, V> {
    words: Words<'w, 'c>,
    shape: &'w Shape,
    main: bool,
    top: u64,
    end: u64,
    listed: L,
    next_listed: Option<(u64, State)>,
    run: Run,
    out: Walked,
    visit: V,
}

impl<L: Iterator<Item = (u64, State)>, V: FnMut(&Chunk)> Step<'_, '_, L, V> {
    fn go(mut self, start: u64, arena: &Arena, searched: &mut u64) -> Walked {
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
                self.one(at, size, head);
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
        self.out.trimmable = self.run.bytes;
        while self.next_listed.is_some_and(|(l, _)| l < self.end) {
            self.out.off_border += 1;
            self.next_listed = self.listed.next();
        }
        self.out
    }

    /// Whether a chunk can have this size word here.
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
    fn one(&mut self, at: u64, size: u64, head: u64) {
        let c = &self.shape.chunk;
        let next = at + size;
        let mut state = None;
        while let Some((listed, kept)) = self.next_listed.filter(|(l, _)| *l <= at) {
            if listed == at {
                state = Some(kept);
            } else {
                self.out.off_border += 1;
            }
            self.next_listed = self.listed.next();
        }
        // The chunk behind says whether this one is in use.
        let after = if next < self.end { self.words.get(next + c.size) } else { None };
        let state = match (state, after) {
            (Some(kept), _) => kept,
            (None, Some(after)) if after & c.prev_inuse != 0 => {
                // The old top of a heap that was too small for an end mark of its own.
                if !self.main && head & c.non_main == 0 && self.shape.size_of(after) == 0 && size <= c.min_size {
                    self.out.fences += size;
                    return;
                }
                State::Used
            }
            // Where the chunk behind is damaged, its bit says nothing: what is in
            // no list is taken for used.
            (None, Some(after)) if !self.is_chunk(next, after) && !self.is_fence(after) => State::Used,
            (None, Some(_)) => State::Unlisted,
            // A guessed heap without a top ends with a chunk that has none behind it.
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

    /// End marks: two chunks too small to be any. What follows them up to the next
    /// chunk is not malloc's.
    fn fence(&mut self, at: u64, head: u64) -> Option<u64> {
        let mark = self.shape.chunk.fencepost;
        let second = || at.checked_add(mark + self.shape.chunk.size);
        let size = self.shape.size_of(head);
        // The second mark may stand alone where the first was made a chunk.
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
        self.place(after, next, Damage::Foreign);
        Some(next)
    }

    /// Past what is no chunk, to the next that is.
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
        self.place(at, next, damage);
        next
    }

    fn place(&mut self, from: u64, to: u64, damage: Damage) {
        if self.out.lost.len() < limits::MAX_LOSSES {
            self.out.lost.push(Lost { range: AddrRange::new(Addr::new(from), Addr::new(to)), damage });
        }
    }

    /// The first address from `from` on where a chunk begins: one that a list has,
    /// the top, or the first of several in a row. The part's end where there is none.
    fn next_chunk(&mut self, from: u64, room: &mut u64) -> u64 {
        while self.next_listed.is_some_and(|(l, _)| l < from) {
            self.out.off_border += 1;
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

    /// Whether chunks follow from `at` on: enough of them, or up to a place that is
    /// one for sure.
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
            // A free chunk's size stands behind it too.
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
