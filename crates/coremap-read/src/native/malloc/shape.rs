//! Offsets and constants of glibc's layout table as one struct. They are read once, since the walk needs them at every
//! chunk.

use crate::layout::{self, Layout, LayoutError};

/// `struct malloc_chunk`, and the bits in its size field.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkShape {
    pub(super) prev_size: u64,
    pub(super) size: u64,
    pub(super) fd: u64,
    pub(super) bk: u64,
    /// Offset in a chunk of the address that malloc returns.
    pub(super) mem: u64,
    pub(super) flag_bits: u64,
    pub(super) prev_inuse: u64,
    pub(super) is_mmapped: u64,
    pub(super) non_main: u64,
    pub(super) min_size: u64,
    pub(super) alignment: u64,
    pub(super) fencepost: u64,
    pub(super) mmapped_tail: u64,
    pub(super) mmap_hp: u64,
    /// Size in bytes of the struct itself, which `mtrim` uses.
    pub(super) whole: u64,
}

/// The arrays of bins and fastbins.
#[derive(Clone, Copy, Debug)]
pub(super) struct BinShape {
    pub(super) count: u64,
    pub(super) bin: u64,
    pub(super) header: u64,
    /// Index of the first bin with a range of sizes.
    pub(super) small: u64,
    pub(super) fast_count: u64,
    pub(super) fast_slot: u64,
}

/// Fields of `malloc_state`, as offsets from its bins.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateShape {
    pub(super) fastbins: i64,
    pub(super) top: i64,
    pub(super) last_remainder: i64,
    pub(super) next: i64,
    /// `None` before 2.23.
    pub(super) attached_threads: Option<i64>,
    pub(super) system_mem: i64,
    pub(super) max_system_mem: i64,
    /// Bytes from the bins to the end of the struct.
    pub(super) end: i64,
}

/// `struct malloc_par`, as offsets from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParShape {
    /// Whether the arenas of these releases have fastbins. 2.43 moved only the fields before them.
    pub(super) fastbins: bool,
    pub(super) n_mmaps: u64,
    pub(super) n_mmaps_max: u64,
    pub(super) max_n_mmaps: u64,
    pub(super) no_dyn_threshold: u64,
    pub(super) mmapped_mem: u64,
    pub(super) max_mmapped_mem: u64,
    pub(super) sbrk_base: u64,
    pub(super) mmap_threshold: u64,
    pub(super) trim_threshold: u64,
}

impl ParShape {
    /// Returns offset and length of each field.
    pub(super) fn fields(&self) -> impl Iterator<Item = (u64, u64)> {
        let ints = [self.n_mmaps, self.n_mmaps_max, self.max_n_mmaps, self.no_dyn_threshold].map(|at| (at, 4));
        let longs = [self.mmapped_mem, self.max_mmapped_mem, self.sbrk_base, self.mmap_threshold, self.trim_threshold];
        ints.into_iter().chain(longs.map(|at| (at, 8)))
    }
}

/// `tcache_perthread_struct` of some releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcacheShape {
    /// First release that has this form.
    pub(super) since: &'static str,
    /// Size in bytes of the chunk that contains the struct.
    pub(super) chunk: u64,
    /// Bytes per count. The array of counts comes first.
    pub(super) count_size: u64,
    pub(super) entries: u64,
    pub(super) bins: u64,
    /// Number of bins with a single size.
    pub(super) small_bins: u64,
    /// Whether the counts say how many blocks may still be added.
    pub(super) downwards: bool,
}

/// `struct _heap_info`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeapShape {
    pub(super) ar_ptr: u64,
    pub(super) prev: u64,
    pub(super) size: u64,
    pub(super) mprotect_size: u64,
    pub(super) min_size: u64,
    pub(super) max_size: u64,
    pub(super) heap_max: u64,
}

/// Offsets and constants of all of malloc's structs.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) chunk: ChunkShape,
    pub(super) bins: BinShape,
    /// Newest first.
    pub(super) states: Vec<StateShape>,
    /// Distances from the start of `malloc_state` to its bins, with fastbins between them.
    pub(super) starts_with_fastbins: Vec<u64>,
    /// The distance without fastbins.
    pub(super) start_without_fastbins: u64,
    pub(super) flags: u64,
    pub(super) noncontiguous: u64,
    pub(super) heap: HeapShape,
    pub(super) params: Vec<ParShape>,
    pub(super) tcaches: Vec<TcacheShape>,
    /// Number of bits by which safe-linking shifts a pointer's address.
    pub(super) safe_linking: u64,
}

impl Shape {
    /// Reads the bundled table.
    ///
    /// # Errors
    /// If the table lacks a field.
    pub(super) fn bundled() -> Result<Shape, LayoutError> {
        Shape::of(layout::GLIBC_MALLOC.layout()?)
    }

    fn of(table: &Layout) -> Result<Shape, LayoutError> {
        let chunk = |field| table.positive("malloc_chunk", field);
        let bins = |field| table.constant("malloc_bins", field);
        let heap = |field| table.positive("heap_info", field);
        let start = |field| table.positive("malloc_state_start", field);
        Ok(Shape {
            chunk: ChunkShape {
                prev_size: chunk("mchunk_prev_size")?,
                size: chunk("mchunk_size")?,
                fd: chunk("fd")?,
                bk: chunk("bk")?,
                mem: chunk("mem")?,
                flag_bits: chunk("flag_bits")?,
                prev_inuse: chunk("PREV_INUSE")?,
                is_mmapped: chunk("IS_MMAPPED")?,
                non_main: chunk("NON_MAIN_ARENA")?,
                min_size: chunk("min_size")?,
                alignment: chunk("alignment")?,
                fencepost: chunk("fencepost")?,
                mmapped_tail: chunk("mmapped_tail")?,
                mmap_hp: chunk("MMAP_HP")?,
                whole: table.size("malloc_chunk")?,
            },
            bins: BinShape {
                count: bins("count")?,
                bin: bins("bin")?,
                header: bins("header")?,
                small: bins("small")?,
                fast_count: table.constant("malloc_fastbins", "count")?,
                fast_slot: table.constant("malloc_fastbins", "slot")?,
            },
            states: vec![state(table, "malloc_state", true)?, state(table, "malloc_state_before_2.23", false)?],
            starts_with_fastbins: vec![start("have_fastchunks")?, start("fastbins")?],
            start_without_fastbins: start("no_fastbins")?,
            flags: table.positive("malloc_flags", "flags")?,
            noncontiguous: table.constant("malloc_flags", "NONCONTIGUOUS_BIT")?,
            heap: HeapShape {
                ar_ptr: heap("ar_ptr")?,
                prev: heap("prev")?,
                size: heap("size")?,
                mprotect_size: heap("mprotect_size")?,
                min_size: heap("min_size")?,
                max_size: heap("max_size")?,
                heap_max: table.constant("heap", "HEAP_MAX_SIZE")?,
            },
            params: [
                ("malloc_par_2.43", false),
                ("malloc_par_2.35", true),
                ("malloc_par_2.24", true),
                ("malloc_par_2.17", true),
            ]
            .into_iter()
            .map(|(name, fastbins)| par(table, name, fastbins))
            .collect::<Result<_, _>>()?,
            tcaches: [("2.42", "tcache_2.42"), ("2.30", "tcache_2.30"), ("2.26", "tcache_2.26")]
                .into_iter()
                .map(|(since, name)| tcache(table, since, name))
                .collect::<Result<_, _>>()?,
            safe_linking: table.constant("heap", "safe_linking_shift")?,
        })
    }

    /// Returns all distances from the start of `malloc_state` to its bins. The newest is last.
    pub(super) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.starts_with_fastbins.iter().copied().chain([self.start_without_fastbins])
    }

    /// Returns the size in a chunk's size word, without flags.
    pub(super) fn size_of(&self, head: u64) -> u64 {
        head & !self.chunk.flag_bits
    }

    pub(super) fn is_size(&self, size: u64) -> bool {
        size >= self.chunk.min_size && size.is_multiple_of(self.chunk.alignment)
    }
}

fn state(table: &Layout, name: &str, counts_threads: bool) -> Result<StateShape, LayoutError> {
    let field = |field| table.field(name, field);
    Ok(StateShape {
        fastbins: field("fastbinsY")?,
        top: field("top")?,
        last_remainder: field("last_remainder")?,
        next: field("next")?,
        attached_threads: if counts_threads { Some(field("attached_threads")?) } else { None },
        system_mem: field("system_mem")?,
        max_system_mem: field("max_system_mem")?,
        end: field("!")?,
    })
}

fn par(table: &Layout, name: &str, fastbins: bool) -> Result<ParShape, LayoutError> {
    let field = |field| table.positive(name, field);
    Ok(ParShape {
        fastbins,
        n_mmaps: field("n_mmaps")?,
        n_mmaps_max: field("n_mmaps_max")?,
        max_n_mmaps: field("max_n_mmaps")?,
        no_dyn_threshold: field("no_dyn_threshold")?,
        mmapped_mem: field("mmapped_mem")?,
        max_mmapped_mem: field("max_mmapped_mem")?,
        sbrk_base: field("sbrk_base")?,
        mmap_threshold: field("mmap_threshold")?,
        trim_threshold: field("trim_threshold")?,
    })
}

fn tcache(table: &Layout, since: &'static str, name: &str) -> Result<TcacheShape, LayoutError> {
    let field = |field| table.positive(name, field);
    Ok(TcacheShape {
        since,
        chunk: field("chunk")?,
        count_size: field("count_size")?,
        entries: field("entries")?,
        bins: field("bins")?,
        small_bins: field("small_bins")?,
        downwards: field("downwards")? != 0,
    })
}
