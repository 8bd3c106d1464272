//! Counts of chunks: by state, by size, and by content. Memory use grows with the number of sizes and of large blocks,
//! not with the number of chunks.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange, PAGE, union};
use crate::limits;
use crate::map::kind_facts::Contents;
use crate::memory::{Memory, OVERWRITTEN, ProcessMemory};
use crate::native::malloc::{Chunk, Malloc, MappedChunk, Slot, SlotState, State};
use crate::report::{ChunkPlace, ChunkRow, ChunkState, ChunkSum};
use crate::runtimes::api::{BlockLabel, BlockLabels};
use crate::session::Session;
use crate::sums::SaturatingAdd;

/// Maximum number of different contents per block size.
const WORDS: usize = 16;

/// Bytes at the start of a block that are checked for a fill byte.
pub const FILLED: u64 = 4096;

/// Maximum number of bytes that malloc adds to a request. They contain stale data.
const SLACK: u64 = 15;

/// Content of a block, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// The same byte throughout.
    Fill(u8),
    /// An address in a module.
    Symbol(u64),
    /// Any other word.
    Word(u64),
    /// Not determined, or different in each block.
    Mixed,
}

/// Blocks of one size and content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) content: Content,
    /// Purpose, as a label that the runtime writes into its blocks.
    pub(crate) label: Option<u8>,
    pub(crate) count: u64,
    pub(crate) example: Addr,
}

/// Chunks of one size.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeCounts {
    pub(crate) used: u64,
    pub(crate) free: u64,
    pub(crate) clusters: Vec<Cluster>,
    /// Number of used blocks that begin with a pointer into an allocator's memory.
    pub(crate) pointers: u64,
    /// Used blocks of a page or more, without malloc's headers. Their pages may never have been written.
    pub(crate) blocks: Vec<AddrRange>,
    /// Whether some such blocks are not in `blocks`.
    pub(crate) more_blocks: bool,
}

impl SizeCounts {
    fn add(&mut self, alike: Cluster) {
        let full = self.clusters.len() >= WORDS;
        let rest = Cluster { content: Content::Mixed, label: None, ..alike };
        let same = |of: &Cluster| self.clusters.iter().position(|a| (a.content, a.label) == (of.content, of.label));
        match same(&alike).or_else(|| if full { same(&rest) } else { None }) {
            Some(i) => self.clusters[i].count.add_saturating(alike.count),
            None => self.clusters.push(if full { rest } else { alike }),
        }
    }
}

/// Chunks by size: small ones by index, others in a tree.
#[derive(Clone, Debug, Default)]
pub struct BySize {
    small: Vec<SizeCounts>,
    large: BTreeMap<u64, SizeCounts>,
    /// Whether sizes above the limit were merged.
    pub capped: bool,
    /// Number of blocks listed, of all sizes.
    listed: usize,
}

/// Sizes below this are array elements, others are in a tree.
const SMALL: u64 = 32 << 10;

/// Granularity of chunk sizes in bytes. Only the smallest classes of jemalloc and tcmalloc are no multiple of it.
const STEP: u64 = 16;

impl BySize {
    fn of(&mut self, size: u64) -> &mut SizeCounts {
        let i = (size / STEP) as usize;
        if size < SMALL && size.is_multiple_of(STEP) {
            if i >= self.small.len() {
                self.small.resize_with(i + 1, SizeCounts::default);
            }
            return &mut self.small[i];
        }
        let full = self.large.len() >= limits::MAX_CHUNK_SIZES && !self.large.contains_key(&size);
        self.capped |= full;
        // Above the limit, sizes are rounded up to a power of two.
        self.large.entry(if full { size.checked_next_power_of_two().unwrap_or(size) } else { size }).or_default()
    }

    /// Lists used blocks of a size, up to the limit.
    fn list_blocks(&mut self, size: u64, blocks: &[AddrRange]) {
        let room = limits::MAX_MEASURED_BLOCKS.saturating_sub(self.listed);
        let kept = blocks.get(..room.min(blocks.len())).unwrap_or_default();
        self.listed += kept.len();
        let of = self.of(size);
        of.blocks.extend_from_slice(kept);
        of.more_blocks |= kept.len() < blocks.len();
    }

    /// Returns the sizes with at least one chunk.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SizeCounts)> {
        let small = self.small.iter().enumerate().map(|(i, s)| (i as u64 * STEP, s));
        small.chain(self.large.iter().map(|(size, s)| (*size, s))).filter(|(_, s)| s.used + s.free > 0)
    }

    pub fn merge(&mut self, other: &BySize) {
        self.capped |= other.capped;
        for (size, s) in other.iter() {
            let mine = self.of(size);
            mine.used.add_saturating(s.used);
            mine.free.add_saturating(s.free);
            s.clusters.iter().for_each(|a| mine.add(*a));
            mine.pointers.add_saturating(s.pointers);
            mine.more_blocks |= s.more_blocks;
            self.list_blocks(size, &s.blocks);
        }
    }
}

/// Reads the content and label of blocks while they are counted.
pub struct BlockReader<'a> {
    pub(crate) memory: &'a ProcessMemory,
    pub(crate) malloc: &'a Malloc,
    /// Labels that a runtime writes into its blocks.
    pub(crate) labels: Option<&'a dyn BlockLabels>,
    pub(crate) modules: Vec<AddrRange>,
    /// Memory of all allocators, by address.
    pub(crate) heaps: Vec<AddrRange>,
    /// Maximum number of chunks listed per tally.
    pub(crate) list: usize,
}

impl<'a> BlockReader<'a> {
    /// Creates a reader for blocks of the process's malloc. Each [`Tally`] lists at most `list` chunks.
    pub fn new(session: &'a Session<'_>, list: usize) -> BlockReader<'a> {
        let process = session.process;
        let (memory, malloc, labels) = (&process.memory, session.malloc(), session.block_labels());
        let modules = process.modules.iter().map(|m| m.range).collect();
        let heaps = session.map().regions.iter().filter(|r| r.kind.facts().contents == Contents::Blocks);
        let heaps = union(heaps.map(|r| r.range).collect());
        BlockReader { memory, malloc, labels, modules, heaps, list }
    }

    /// Whether a block's first word may be a link to another block.
    fn is_link(&self, content: Content) -> bool {
        let Content::Word(word) = content else { return false };
        let i = self.heaps.partition_point(|r| r.end.get() <= word);
        self.heaps.get(i).is_some_and(|r| r.start.get() <= word)
    }

    /// Returns the content of a used block after the runtime's header, and the label in that header. `block`: the bytes
    /// that the program may use. `first`: the first word of the block.
    pub(super) fn classify(&self, block: AddrRange, first: Option<u64>) -> (Content, Option<BlockLabel>) {
        let Some((labels, label)) = self.labels.and_then(|l| Some((l, l.label(block)?))) else {
            return (self.content(block.start, first, block.len()), None);
        };
        let start = block.start.saturating_add(labels.header());
        let content = match label.size {
            0..8 => Content::Mixed,
            size => self.content(start, self.memory.u64(start).ok(), size.saturating_add(SLACK)),
        };
        (content, Some(label))
    }

    fn content(&self, block: Addr, first: Option<u64>, usable: u64) -> Content {
        // In a scrubbed core, removed data was replaced by one value, which does not distinguish blocks.
        let Some(word) = first.filter(|word| *word != OVERWRITTEN) else { return Content::Mixed };
        let byte = word as u8;
        if word == u64::from_ne_bytes([byte; 8]) {
            // A request of up to 8 bytes looks the same as a block filled with one word.
            let len = usable.saturating_sub(SLACK).clamp(8, FILLED);
            let all = self.memory.borrow(block, len as usize).is_some_and(|b| b.iter().all(|&b| b == byte));
            if all {
                return Content::Fill(byte);
            }
        }
        let i = self.modules.partition_point(|m| m.end.get() <= word);
        match self.modules.get(i) {
            Some(m) if m.start.get() <= word => Content::Symbol(word),
            _ => Content::Word(word),
        }
    }
}

/// Chunks with the same runtime label.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labelled {
    /// The chunks, including malloc's and the runtime's headers.
    pub chunks: ChunkSum,
    /// Bytes that were requested.
    pub requested: u64,
}

impl Labelled {
    fn add(&mut self, chunk: u64, requested: u64) {
        self.chunks.add(chunk);
        self.requested = self.requested.saturating_add(requested);
    }

    fn merge(&mut self, other: Labelled) {
        self.chunks.merge(other.chunks);
        self.requested = self.requested.saturating_add(other.requested);
    }
}

pub fn merge_labels(into: &mut BTreeMap<u8, Labelled>, other: &BTreeMap<u8, Labelled>) {
    for (label, sum) in other {
        into.entry(*label).or_default().merge(*sum);
    }
}

/// Counts of the chunks of one part of the heap.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub arena: Addr,
    pub states: [ChunkSum; State::COUNT],
    pub sizes: BySize,
    /// Used chunks by runtime label.
    pub labels: BTreeMap<u8, Labelled>,
    pub chunks: Vec<ChunkRow>,
    pub listable: u64,
    /// Used chunks of the size that a thread cache (tcache) has.
    pub caches: Vec<Addr>,
    /// Whether there are more such chunks than `caches` has.
    pub more_caches: bool,
}

impl Tally {
    /// Counts a chunk of an arena.
    pub fn add(&mut self, chunk: &Chunk, reader: &BlockReader<'_>) {
        if let Some(sum) = self.states.get_mut(chunk.state as usize) {
            sum.add(chunk.size);
        }
        let block = reader.malloc.block(chunk.address);
        match chunk.state {
            State::Used => {
                let usable = reader.malloc.usable(chunk.size);
                if reader.malloc.is_cache_size(chunk.size) {
                    self.more_caches |= self.caches.len() >= limits::MAX_TCACHES;
                    if !self.more_caches {
                        self.caches.push(chunk.address);
                    }
                }
                self.used(chunk.size, AddrRange::sized(block, usable), chunk.first_word, reader);
            }
            State::Top | State::Unknown => {}
            _ => self.sizes.of(chunk.size).free += 1,
        }
        self.list(block, chunk.size, chunk.state, Some(self.arena), chunk.state.place(), reader);
    }

    pub fn add_mapped(&mut self, chunk: &MappedChunk, freed: bool, reader: &BlockReader<'_>) {
        let (block, size) = (reader.malloc.block(chunk.chunk), chunk.size);
        let state = if freed { State::Tcache } else { State::Used };
        if let Some(sum) = self.states.get_mut(state as usize) {
            sum.add(size);
        }
        if freed {
            self.sizes.of(size).free += 1;
        } else {
            let first = reader.memory.u64(block).ok();
            self.used(size, AddrRange::sized(block, reader.malloc.usable_of_mapped(chunk)), first, reader);
        }
        self.list(block, size, state, None, ChunkPlace::Mmapped, reader);
    }

    pub fn add_slot(&mut self, slot: &Slot, reader: &BlockReader<'_>) {
        let (size, block) = (slot.range.len(), slot.block);
        let used = slot.state == SlotState::Used;
        let state = if used { State::Used } else { State::Unlisted };
        if let Some(sum) = self.states.get_mut(state as usize) {
            sum.add(size);
        }
        if used {
            // If a block is shorter than a word, other data follow it within the word.
            let first = if block.len() < 8 { None } else { reader.memory.u64(block.start).ok() };
            self.used(size, block, first, reader);
        } else {
            self.sizes.of(size).free += 1;
        }
        let kept = match (used, slot.mapped) {
            (_, true) => ChunkPlace::Mmapped,
            (true, false) => ChunkPlace::Used,
            (false, false) => ChunkPlace::Slot,
        };
        self.list(block.start, size, state, None, kept, reader);
        if let Some(row) = self.chunks.last_mut().filter(|row| row.address == block.start) {
            row.asked = slot.requested;
        }
    }

    fn used(&mut self, size: u64, block: AddrRange, first: Option<u64>, reader: &BlockReader<'_>) {
        let (content, label) = reader.classify(block, first);
        let of = self.sizes.of(size);
        of.used += 1;
        of.pointers += u64::from(reader.is_link(content));
        of.add(Cluster { content, label: label.map(|l| l.label), count: 1, example: block.start });
        if let Some(label) = label {
            self.labels.entry(label.label).or_default().add(size, label.size);
        }
        if size >= PAGE {
            self.sizes.list_blocks(size, &[block]);
        }
    }

    fn list(
        &mut self,
        block: Addr,
        size: u64,
        state: State,
        arena: Option<Addr>,
        kept: ChunkPlace,
        reader: &BlockReader<'_>,
    ) {
        if reader.list == 0 {
            return;
        }
        self.listable += 1;
        if self.chunks.len() < reader.list {
            let word = match state {
                State::Used => ChunkState::Used,
                State::Unknown => ChunkState::Unknown,
                _ => ChunkState::Free,
            };
            self.chunks.push(ChunkRow { address: block, size, asked: None, state: word, arena, r#where: kept });
        }
    }
}
