//! A synthetic process with a heap of glibc's malloc, in the form of any release. Offsets are restated here from
//! glibc's sources, not taken from the program's table.

use std::collections::BTreeMap;

use super::builder::{self, CoreBuilder, Load, R, W, X};
use super::notes;

/// Addresses: libc.so, its data, the heap, one thread's TLS.
pub const LIBC: u64 = 0x7f00_0000_0000;
pub const ARENA: u64 = LIBC + 0x1100;
pub const HEAP: u64 = 0x5555_0000_0000;
const HEAP_LEN: usize = 0x21000;
const TLS: u64 = 0x7e00_0000_0000;
const TP: u64 = TLS + 0x800;
pub const MAPPED: u64 = 0x7d00_0000_0000;
/// Start of a thread's heap, a multiple of HEAP_MAX_SIZE.
const THREAD_HEAP: u64 = 0x7f20_1000_0000;
pub const TID: u32 = 77;

#[derive(Clone, Copy)]
pub struct Version {
    pub name: &'static str,
    /// Offset of the bins in malloc_state.
    pub start: u64,
    /// Whether malloc_state has attached_threads.
    pub threads: bool,
    /// Thread cache: size of its chunk (0 if there is none), bytes of a count, offset of the entries, number of bins.
    pub tcache: (u64, u64, u64, u64),
    /// Whether counts are the number of further entries that fit.
    pub down: bool,
    pub safe: bool,
    pub fastbins: bool,
    /// Bytes of an mmapped chunk's mapping that its size does not include.
    pub tail: u64,
    /// Distances from n_mmaps: back to the start of `mp_`, and on to mmapped_mem and sbrk_base.
    pub mp: (u64, u64, u64),
}

pub const VERSIONS: [Version; 6] = [
    Version {
        name: "2.17",
        start: 104,
        threads: false,
        tcache: (0, 0, 0, 0),
        down: false,
        safe: false,
        fastbins: true,
        tail: 0,
        mp: (40, 56, 80),
    },
    Version {
        name: "2.26",
        start: 104,
        threads: true,
        tcache: (0x250, 1, 64, 64),
        down: false,
        safe: false,
        fastbins: true,
        tail: 0,
        mp: (40, 56, 72),
    },
    Version {
        name: "2.31",
        start: 112,
        threads: true,
        tcache: (0x290, 2, 128, 64),
        down: false,
        safe: false,
        fastbins: true,
        tail: 0,
        mp: (40, 56, 72),
    },
    Version {
        name: "2.36",
        start: 112,
        threads: true,
        tcache: (0x290, 2, 128, 64),
        down: false,
        safe: true,
        fastbins: true,
        tail: 0,
        mp: (60, 80, 96),
    },
    Version {
        name: "2.42",
        start: 112,
        threads: true,
        tcache: (0x300, 2, 152, 76),
        down: true,
        safe: true,
        fastbins: true,
        tail: 0,
        mp: (60, 80, 96),
    },
    Version {
        name: "2.43",
        start: 24,
        threads: true,
        tcache: (0x300, 2, 152, 76),
        down: true,
        safe: true,
        fastbins: false,
        tail: 16,
        mp: (68, 88, 104),
    },
];

/// Memory of the process, written word by word.
pub struct Fake {
    pub version: Version,
    areas: BTreeMap<u64, Vec<u8>>,
    /// Chunks in order: address, size, state and location as in `malloc --chunks`.
    pub expected: Vec<(u64, u64, &'static str, &'static str)>,
    pub top: u64,
    pub tcache: u64,
    pub fast: Vec<u64>,
    pub cached: Vec<u64>,
    pub binned: u64,
    pub damaged: u64,
}

impl Fake {
    pub fn put(&mut self, at: u64, value: u64) {
        self.poke(at, &value.to_le_bytes());
    }

    pub fn poke(&mut self, at: u64, bytes: &[u8]) {
        let (start, area) = self.areas.range_mut(..=at).next_back().unwrap();
        let from = (at - start) as usize;
        area[from..from + bytes.len()].copy_from_slice(bytes);
    }

    fn bins(&self) -> u64 {
        ARENA + self.version.start
    }

    fn link(&self, place: u64, to: u64) -> u64 {
        if self.version.safe { (place >> 12) ^ to } else { to }
    }

    /// A heap with chunks of each kind. Used chunks separate all others, so that none would be merged.
    pub fn new(version: Version) -> Fake {
        let mut areas = BTreeMap::new();
        let mut libc = builder::image(&[(0, 0x1000, R | X), (0x1000, 0x3000, R | W)], 0x1000);
        // p_offset of the second segment.
        libc[64 + 56 + 8..][..8].copy_from_slice(&0x1000u64.to_le_bytes());
        libc.resize(0x4000, 0);
        areas.insert(LIBC, libc);
        areas.insert(HEAP, vec![0; HEAP_LEN]);
        areas.insert(TLS, vec![0; 0x2000]);
        areas.insert(MAPPED, vec![0; 0x31000]);
        let mut f = Fake {
            version,
            areas,
            expected: Vec::new(),
            top: 0,
            tcache: 0,
            fast: Vec::new(),
            cached: Vec::new(),
            binned: 0,
            damaged: 0,
        };
        f.chunks();
        f.arena();
        f.mapped();
        f
    }

    fn chunks(&mut self) {
        let v = self.version;
        let mut at = HEAP;
        let mut free_before = false;
        let mut add = |f: &mut Fake, size: u64, state, kept| {
            let here = at;
            f.put(here + 8, size | u64::from(!free_before));
            if free_before {
                let before = f.expected.last().unwrap().1;
                f.put(here, before);
            }
            f.expected.push((here + 16, size, state, kept));
            free_before = matches!(kept, "unsorted" | "smallbin" | "largebin");
            at += size;
            here
        };
        if v.tcache.0 > 0 {
            self.tcache = add(self, v.tcache.0, "used", "used") + 16;
        }
        for i in 0..3 {
            let c = add(
                self,
                0x30,
                if v.tcache.0 > 0 { "free" } else { "used" },
                if v.tcache.0 > 0 { "tcache" } else { "used" },
            );
            self.cached.push(c);
            let used = add(self, 0x50 + 16 * i, "used", "used");
            self.put(used + 16, 0x1111_1111_1111_1111);
        }
        for _ in 0..3 {
            let (state, kept) = if v.fastbins { ("free", "fastbin") } else { ("used", "used") };
            let c = add(self, 0x40, state, kept);
            self.fast.push(c);
            self.damaged = add(self, 0x60, "used", "used");
        }
        self.binned = add(self, 0x420, "free", "largebin");
        for _ in 0..12 {
            add(self, 0x90, "used", "used");
        }
        let taken: u64 = self.expected.iter().map(|e| e.1).sum();
        self.top = add(self, HEAP_LEN as u64 - taken, "free", "top");
        if v.tcache.0 > 0 {
            self.fill_tcache();
        }
    }

    fn fill_tcache(&mut self) {
        let (_, width, entries, bins) = self.version.tcache;
        let full: u64 = if self.version.down { 7 } else { 0 };
        for bin in 0..bins {
            // 0x30 is the second size class.
            let n = if bin == 1 { 3 } else { 0 };
            let count = if self.version.down { full - n } else { n };
            self.poke(self.tcache + bin * width, &count.to_le_bytes()[..width as usize]);
        }
        self.put(self.tcache + entries + 8, self.cached[0] + 16);
        for i in 0..3 {
            let here = self.cached[i] + 16;
            let next = self.cached.get(i + 1).map_or(0, |c| c + 16);
            self.put(here, self.link(here, next));
        }
        self.put(TP - 0x40, self.tcache);
    }

    fn arena(&mut self) {
        let bins = self.bins();
        for k in 0..127 {
            let head = bins + 16 * k - 16;
            self.put(bins + 16 * k, head);
            self.put(bins + 16 * k + 8, head);
        }
        // 0x420 is in the second large bin: 64 plus (size - 0x400) / 64, counted from bin 1.
        let k = 63;
        let head = bins + 16 * k - 16;
        self.put(bins + 16 * k, self.binned);
        self.put(bins + 16 * k + 8, self.binned);
        self.put(self.binned + 16, head);
        self.put(self.binned + 24, head);
        self.put(bins - 16, self.top);
        if self.version.fastbins {
            // 0x40 is the third size class.
            self.put(bins - 96 + 16, self.fast[0]);
            for i in 0..3 {
                let place = self.fast[i] + 16;
                let next = self.fast.get(i + 1).copied().unwrap_or(0);
                self.put(place, self.link(place, next));
            }
        }
        self.put(bins + 2048, ARENA);
        let after = if self.version.threads { 2072 } else { 2064 };
        if self.version.threads {
            self.put(bins + 2064, 1);
        }
        self.put(bins + after, HEAP_LEN as u64);
        self.put(bins + after + 8, HEAP_LEN as u64);
    }

    /// Adds two mappings merged by the kernel: a plain chunk, and one after padding.
    fn mapped(&mut self) {
        let tail = self.version.tail;
        self.put(MAPPED + 8, (0x11000 - tail) | 2);
        self.put(MAPPED + 0x11000 + 8, (0x20000 - tail) | 2);
        let padded = MAPPED + 0x11000 + 0xff0;
        self.put(padded, 0xff0);
        self.put(padded + 8, (0x20000 - 0xff0 - tail) | 2);
        self.expected.push((MAPPED + 16, 0x11000 - tail, "used", "mmapped"));
        self.expected.push((padded + 16, 0x20000 - 0xff0 - tail, "used", "mmapped"));
        let (n_mmaps, mem, base) = self.version.mp;
        let mp = LIBC + 0x2400;
        self.put(mp, 0x20000);
        self.put(mp + 16, 0x20000);
        for (i, n) in [2u32, 65536, 2].into_iter().enumerate() {
            self.poke(mp + n_mmaps + 4 * i as u64, &n.to_le_bytes());
        }
        self.put(mp + mem, 0x31000);
        self.put(mp + mem + 8, 0x31000);
        self.put(mp + base, HEAP);
    }

    /// Extends the heap to `len` bytes with chunks of 32 to 1,040 bytes, one in eight of them free. Returns the number
    /// of chunks added.
    pub fn grow(&mut self, len: u64) -> u64 {
        let from = self.top;
        let heap = self.areas.get_mut(&HEAP).unwrap();
        heap.resize(len as usize, 0);
        let (bins, end) = (self.bins(), HEAP + len);
        let head = bins - 16;
        let (mut at, mut last, mut count, mut seed) = (from, head, 0u64, 1u64);
        let mut free_before = 0;
        while at + 0x1000 < end {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let size = 32 + 16 * (seed % 64);
            self.put(at, free_before);
            self.put(at + 8, size | u64::from(free_before == 0));
            let free = count % 8 == 7;
            if free {
                self.put(last + 16, at);
                self.put(at + 24, last);
                last = at;
            } else {
                self.put(at + 16, seed);
            }
            free_before = if free { size } else { 0 };
            (at, count) = (at + size, count + 1);
        }
        self.put(last + 16, head);
        self.put(head + 24, last);
        self.put(at, free_before);
        self.put(at + 8, (end - at) | u64::from(free_before == 0));
        self.put(bins - 16, at);
        self.put(bins + 2072, len);
        self.put(bins + 2080, len);
        self.top = at;
        count
    }

    /// Adds an arena of a thread with seven used chunks. Its heap is in one segment with `before` bytes of another
    /// mapping, as producers join them. Returns the blocks and their sizes.
    pub fn add_thread_arena(&mut self, before: u64) -> Vec<(u64, u64)> {
        const LEN: u64 = 0x21000;
        const SIZE: u64 = 0x500;
        // PREV_INUSE and NON_MAIN_ARENA.
        const FLAGS: u64 = 1 | 4;
        let mut bytes = vec![0x5a; before as usize];
        bytes.resize((before + LEN) as usize, 0);
        self.areas.insert(THREAD_HEAP - before, bytes);
        // heap_info has the page size from 2.35 on.
        let info = if self.version.tail > 0 { 48 } else { 32 };
        let arena = THREAD_HEAP + info;
        for (i, word) in [arena, 0, LEN, LEN].into_iter().enumerate() {
            self.put(THREAD_HEAP + 8 * i as u64, word);
        }
        if info == 48 {
            self.put(THREAD_HEAP + 32, 4096);
        }
        let bins = arena + self.version.start;
        for k in 0..127 {
            let head = bins + 16 * k - 16;
            self.put(bins + 16 * k, head);
            self.put(bins + 16 * k + 8, head);
        }
        let main = self.bins();
        self.put(main + 2048, arena);
        self.put(bins + 2048, ARENA);
        let after = if self.version.threads { 2072 } else { 2064 };
        if self.version.threads {
            self.put(bins + 2064, 1);
        }
        self.put(bins + after, LEN);
        self.put(bins + after + 8, LEN);
        let mut at = (bins + after + 16).next_multiple_of(16);
        let mut blocks = Vec::new();
        for _ in 0..7 {
            self.put(at + 8, SIZE | FLAGS);
            blocks.push((at + 16, SIZE));
            at += SIZE;
        }
        self.put(at + 8, (THREAD_HEAP + LEN - at) | FLAGS);
        self.put(bins - 16, at);
        blocks
    }

    /// Removes `mp_`, as if libc's data were not in the core.
    pub fn forget_counts(&mut self) {
        self.poke(LIBC + 0x2400, &[0; 256]);
    }

    /// Extends the heap by `count` used chunks of `size` bytes and by `free` bytes of the top chunk, all zero. Returns
    /// the addresses of the blocks.
    pub fn add_blocks(&mut self, count: u64, size: u64, free: u64) -> Vec<u64> {
        let from = self.top;
        let len = from - HEAP + count * size + free;
        self.areas.get_mut(&HEAP).unwrap().resize(len as usize, 0);
        self.expected.retain(|chunk| chunk.3 != "top");
        for i in 0..count {
            self.put(from + i * size + 8, size | 1);
            self.expected.push((from + i * size + 16, size, "used", "used"));
        }
        self.top = from + count * size;
        self.put(self.top + 8, free | 1);
        self.expected.push((self.top + 16, free, "free", "top"));
        self.expected.sort_unstable();
        let (bins, after) = (self.bins(), if self.version.threads { 2072 } else { 2064 });
        self.put(bins - 16, self.top);
        self.put(bins + after, len);
        self.put(bins + after + 8, len);
        (0..count).map(|i| from + i * size + 16).collect()
    }

    /// Fills all used chunks of an extended heap with pointers to each other, near and far.
    pub fn tangle(&mut self) {
        let top = (self.top - HEAP) as usize;
        let is_cache = |size: usize| VERSIONS.iter().any(|v| v.tcache.0 == size as u64);
        let area = self.areas.get_mut(&HEAP).unwrap();
        let word = |area: &[u8], at: usize| u64::from_le_bytes(area[at..at + 8].try_into().unwrap());
        let (mut at, mut used) = (0, Vec::new());
        while at < top {
            let size = (word(area, at + 8) & !7) as usize;
            if word(area, at + size + 8) & 1 != 0 {
                used.push((at, size));
            }
            at += size;
        }
        let mut random = super::Rng(7);
        // The first chunks are the thread cache and its entries. Other chunks of a cache's size would be tried as
        // caches.
        for &(at, size) in used[16..].iter().filter(|u| !is_cache(u.1)) {
            for place in (at + 16..at + size).step_by(8) {
                let to = used[16 + random.below(used.len() as u64 - 16) as usize].0;
                area[place..place + 8].copy_from_slice(&(HEAP + to as u64 + 16).to_le_bytes());
            }
        }
        // All are reachable from one chunk that outside memory points to.
        let first = used[16].0 as u64 + HEAP + 16;
        self.put(TLS + 0x1f80, first);
    }

    /// Returns a core like gdb's, except for the order of its parts.
    pub fn core(&self) -> CoreBuilder {
        let loads = self.areas.iter().flat_map(|(&start, bytes)| {
            if start == LIBC {
                let (head, data) = bytes.split_at(0x1000);
                return vec![Load::at(start).flags(R | X).bytes(head), Load::at(start + 0x1000).bytes(data)];
            }
            vec![Load::at(start).bytes(bytes.clone())]
        });
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(TID, 6, TLS + 0x1f00, LIBC + 0x100, TP))
            .note(notes::prpsinfo(TID, "heap", "heap"))
            .note(notes::auxv(&[(6, 4096)]))
            .note(notes::files(4096, &[(LIBC, LIBC + 0x4000, 0, "/lib/libc.so.6")]))
            .loads(loads)
    }
}
