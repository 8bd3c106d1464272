//! A version's field offsets as structs, looked up once, in bytes.

use crate::layout::{Layout, LayoutError};

/// Defines a struct of offsets of one type of the layout: required fields, then optional ones.
macro_rules! offsets {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($field:ident: $text:literal),* } $({ $($maybe:ident: $other:literal),* })?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name {
            $(pub(super) $field: u64,)*
            $($(pub(super) $maybe: Option<u64>,)*)?
        }

        impl $name {
            fn of(layout: &Layout) -> Result<$name, LayoutError> {
                Ok($name {
                    $($field: layout.positive($kind, $text)?,)*
                    $($($maybe: layout.positive($kind, $other).ok(),)*)?
                })
            }
        }
    };
}

offsets! {
    /// Offsets in `moduledata`, the linker's description of the program. For a range, the offset of its start.
    ModuleShape = "moduledata" {
        size: "!", noptrdata: "noptrdata", data: "data", edata: "edata", bss: "bss",
        ebss: "ebss", noptrbss: "noptrbss", enoptrbss: "enoptrbss", types: "types", etypes: "etypes", gofunc: "gofunc",
        gcdatamask: "gcdatamask", gcbssmask: "gcbssmask"
    }
}

offsets! {
    /// Offsets in `_func`, the head of a function's tables.
    FuncShape = "_func" {
        size: "!", npcdata: "npcdata", cu_offset: "cuOffset", func_id: "funcID", flag: "flag", nfuncdata: "nfuncdata"
    }
}

offsets! {
    /// Offsets in `inlinedCall`, a row of the inlining tree.
    InlineShape = "inlinedCall" { size: "!", func_id: "funcID", name: "nameOff", parent_pc: "parentPc" }
}

offsets! {
    /// Offsets in `g`, a goroutine.
    GShape = "g" {
        size: "!", m: "m", sched: "sched", syscallsp: "syscallsp", syscallpc: "syscallpc", atomicstatus: "atomicstatus",
        goid: "goid", waitreason: "waitreason", gopc: "gopc", startpc: "startpc",
        waiting: "waiting", panic: "_panic"
    }
}

offsets! {
    /// Offsets in `gobuf`, the registers of a goroutine that does not run.
    GobufShape = "gobuf" { sp: "sp", pc: "pc", g: "g", bp: "bp" }
}

offsets! {
    /// Offsets in `sudog`, a goroutine in a queue.
    SudogShape = "sudog" {
        size: "!", g: "g", next: "next", prev: "prev", elem: "elem", waitlink: "waitlink", c: "c"
    }
}

offsets! {
    /// Offsets in `hchan`, a channel.
    ChanShape = "hchan" {
        size: "!", qcount: "qcount", dataqsiz: "dataqsiz", buf: "buf", closed: "closed", elemtype: "elemtype",
        recvq: "recvq", sendq: "sendq"
    }
}

/// Offsets in `special` and `specialfinalizer`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpecialShape {
    /// Bytes that contain all fields.
    pub(super) size: u64,
    pub(super) next: u64,
    pub(super) offset: u64,
    pub(super) kind: u64,
    /// Offset of the type of a finalizer's argument.
    pub(super) ot: u64,
    /// Bytes of `offset`.
    pub(super) offset_bytes: u64,
    /// Kind of a finalizer.
    pub(super) finalizer: u8,
}

impl SpecialShape {
    fn of(layout: &Layout) -> Result<SpecialShape, LayoutError> {
        let ot = layout.positive("specialfinalizer", "ot")?;
        Ok(SpecialShape {
            size: ot.saturating_add(8),
            next: layout.positive("special", "next")?,
            offset: layout.positive("special", "offset")?,
            kind: layout.positive("special", "kind")?,
            ot,
            offset_bytes: layout.constant("specialField", "offsetBytes")?,
            finalizer: u8::try_from(layout.constant("specialKind", "finalizer")?).unwrap_or(u8::MAX),
        })
    }
}

/// Offsets in a map since 1.24.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapShape {
    /// Offset of the pointer to its tables, or to its only group.
    pub(super) directory: u64,
    /// Offset of the number of tables. 0 if it has one group.
    pub(super) length: u64,
    /// Offset in a table of the pointer to its groups.
    pub(super) groups: u64,
}

impl MapShape {
    fn of(layout: &Layout) -> Option<MapShape> {
        Some(MapShape {
            directory: layout.positive("Map", "dirPtr").ok()?,
            length: layout.positive("Map", "dirLen").ok()?,
            groups: layout.positive("table", "groups").ok()?,
        })
    }
}

offsets! {
    /// Offsets in `semaRoot`.
    SemaShape = "semaRoot" { treap: "treap" }
}

offsets! {
    /// Offsets in `m`, a thread.
    MShape = "m" {
        size: "!", g0: "g0", gsignal: "gsignal", procid: "procid", curg: "curg", alllink: "alllink", id: "id"
    }
}

offsets! {
    /// Offsets in `mspan`, a run of pages of the heap.
    SpanShape = "mspan" {
        size: "!", start: "startAddr", npages: "npages", freeindex: "freeindex", nelems: "nelems", alloc_bits: "allocBits",
        mark_bits: "gcmarkBits", sweepgen: "sweepgen", class: "spanclass", state: "state", elemsize: "elemsize",
        specials: "specials"
    } { large_type: "largeType" }
}

offsets! {
    /// Offsets in `mheap`.
    HeapShape = "mheap" {
        sweepgen: "sweepgen", allspans: "allspans", arenas: "arenas", central: "central", spanalloc: "spanalloc"
    }
}

offsets! {
    /// Offsets in `heapArena`, the description of an arena of 64 MiB.
    ArenaShape = "heapArena" {} { bitmap: "bitmap", inline_marks: "pageUseSpanInlineMarkBits" }
}

offsets! {
    /// Offsets in `gcControllerState`.
    ControllerShape = "gcControllerState" {
        size: "!", percent: "gcPercent", limit: "memoryLimit", goal: "gcPercentHeapGoal",
        marked: "heapMarked", in_use: "heapInUse", released: "heapReleased", free: "heapFree", total_alloc: "totalAlloc",
        total_free: "totalFree", mapped: "mappedReady"
    }
}

offsets! {
    /// Offsets in `mstats`, statistics of past collections.
    StatsShape = "mstats" {
        last_nanotime: "last_gc_nanotime", last_unix: "last_gc_unix", pause_total: "pause_total_ns", pause_end: "pause_end",
        numgc: "numgc", numforced: "numforcedgc"
    }
}

offsets! {
    /// Offsets in `bucket`, a record of a profile.
    BucketShape = "bucket" {
        allnext: "allnext", typ: "typ", hash: "hash", size: "size", nstk: "nstk"
    }
}

offsets! {
    /// Offsets in `memRecordCycle`, the counts of a record of the heap profile. Since 1.27 without bytes.
    RecordShape = "memRecordCycle" { size: "!", allocs: "allocs", frees: "frees" } {
        alloc_bytes: "alloc_bytes", free_bytes: "free_bytes"
    }
}

/// All offsets of a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) module: ModuleShape,
    pub(super) func: FuncShape,
    pub(super) inline: InlineShape,
    pub(super) g: GShape,
    pub(super) gobuf: GobufShape,
    pub(super) m: MShape,
    pub(super) sudog: SudogShape,
    pub(super) chan: ChanShape,
    pub(super) sema: SemaShape,
    pub(super) special: SpecialShape,
    /// Maps since 1.24. `None` before.
    pub(super) map: Option<MapShape>,
    /// Offsets in a map up to 1.23: its buckets, and its buckets before it grew. The second constant is the size of its
    /// head.
    pub(super) hmap_buckets: [u64; 2],
    pub(super) hmap_end: u64,
    /// Whether one byte of the pointer bitmap covers four words.
    pub(super) nibbles: bool,
    pub(super) span: SpanShape,
    pub(super) heap: HeapShape,
    pub(super) arena: ArenaShape,
    pub(super) controller: ControllerShape,
    pub(super) stats: StatsShape,
    pub(super) bucket: BucketShape,
    pub(super) record: RecordShape,
    /// Whether an interface's direct value is marked by a bit of `tflag`, instead of a bit of the kind.
    pub(super) direct_by_tflag: bool,
    /// Size in bytes of the fields `freeindex` and `nelems` of an `mspan`.
    pub(super) span_count_bytes: u64,
    /// `funcID` of wrappers that the compiler generated. Go's own traces leave wrappers out.
    pub(super) wrapper: u8,
}

impl Shape {
    /// The offsets in a table.
    ///
    /// # Errors
    /// The table lacks a field that every version has.
    pub(super) fn of(layout: &Layout) -> Result<Shape, LayoutError> {
        Ok(Shape {
            module: ModuleShape::of(layout)?,
            func: FuncShape::of(layout)?,
            inline: InlineShape::of(layout)?,
            g: GShape::of(layout)?,
            gobuf: GobufShape::of(layout)?,
            m: MShape::of(layout)?,
            sudog: SudogShape::of(layout)?,
            chan: ChanShape::of(layout)?,
            sema: SemaShape::of(layout)?,
            special: SpecialShape::of(layout)?,
            map: MapShape::of(layout),
            hmap_buckets: ["buckets", "oldbuckets"].map(|field| layout.positive("hmap", field).unwrap_or(0)),
            hmap_end: layout.positive("hmap", "oldbuckets").map_or(0, |at| at.saturating_add(8)),
            nibbles: layout.constant("heapBitmap", "wordsPerByte").is_ok_and(|words| words == 4),
            span: SpanShape::of(layout)?,
            heap: HeapShape::of(layout)?,
            arena: ArenaShape::of(layout)?,
            controller: ControllerShape::of(layout)?,
            stats: StatsShape::of(layout)?,
            bucket: BucketShape::of(layout)?,
            record: RecordShape::of(layout)?,
            direct_by_tflag: layout.constant("abiType", "directByTflag")? != 0,
            span_count_bytes: layout.constant("mspanField", "countBytes")?,
            wrapper: u8::try_from(layout.constant("FuncID", "wrapper")?).unwrap_or(u8::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::GO_X64;

    /// Every version has all fields that are required, within the sizes of their structs.
    #[test]
    fn all_tables_have_the_required_fields() {
        for (minor, table) in &GO_X64 {
            let shape = table.layout().and_then(Shape::of).map_err(|e| format!("1.{minor}: {e}"));
            assert!(shape.as_ref().is_ok_and(|s| s.g.size > s.g.waiting && s.span.size > s.span.specials), "{shape:?}");
        }
    }
}
