//! The handle table: lists of 64 KiB segments, one list per table, and the handles in them.
//!
//! Source: src/coreclr/gc: objecthandle.h (HandleTableMap, HandleTableBucket), handletablepriv.h (HandleTable,
//! TableSegment: blocks of 64 handles of one type each), gcinterface.h (HandleType).

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::diag::was_read;
use crate::layout::{Layout, LayoutError, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{Handle, RootKind, Roots, Structure};
use crate::runtimes::clr_gc::{Gc, GcError};
use crate::words::HandleKind;

/// Finds the segments of all handle tables.
pub(crate) fn segments(process: &Process, gc: Gc<'_>) -> SegmentList {
    let _phase = process.enter(Phase::Handles);
    was_read("handle table");
    let mut out = Vec::new();
    let broken = walk(gc, &mut out).err();
    (out, broken)
}

/// Address ranges of segments, and the error that ended the walk early, if any.
pub(crate) type SegmentList = (Vec<AddrRange>, Option<GcError>);

/// Handles sorted by address, and messages about what could not be read.
pub(crate) type HandleList = (Vec<Handle>, Vec<String>);

fn walk(gc: Gc<'_>, out: &mut Vec<AddrRange>) -> Result<(), GcError> {
    let Gc { memory, layout, .. } = gc;
    let vars = StructView::new(memory, layout, "GcDacVars", gc.vars.ok_or(GcError::NoVars)?);
    let (tables, most) = tables(memory, &vars);
    let size = layout.size("TableSegment")?;
    let walks = Walks::new(Phase::Handles, limits::MAX_HANDLE_STEPS);
    // Start to end of the segments found so far. They must not overlap.
    let mut taken: BTreeMap<Addr, Addr> = BTreeMap::new();
    let first = vars.ptr("handle_table_map")?;
    let end = walks.begin().follow(first, |map| {
        let view = StructView::new(memory, layout, "HandleTableMap", map);
        let buckets = view.ptr("pBuckets")?;
        for i in 0..limits::MAX_HANDLE_BUCKETS {
            let Ok(bucket) = memory.ptr(buckets.saturating_add(8 * i)) else { break };
            if bucket.is_null() {
                continue;
            }
            let array = StructView::new(memory, layout, "HandleTableBucket", bucket).ptr("pTable")?;
            for t in 0..most {
                walks.spend(array, 1)?;
                let slot = array.saturating_add(8 * t);
                let list = |table| StructView::new(memory, layout, "HandleTable", table).ptr("SegmentList");
                // The number of tables beyond the number of heaps is not recorded. The first slot without a table ends
                // them.
                let is_table = |table: &Addr| {
                    let first = table.is_aligned(8).then(|| list(*table).ok()).flatten();
                    first.is_some_and(|first| !first.is_null() && first.is_aligned(size))
                };
                if t >= tables && memory.ptr(slot).ok().filter(is_table).is_none() {
                    break;
                }
                let table = memory.ptr(slot)?;
                if table.is_null() {
                    continue;
                }
                let segments = list(table)?;
                let end = walks.begin().follow(segments, |segment| {
                    let range = AddrRange::sized(segment, size);
                    // A segment has thousands of handles. A list of segments that overlap by a few bytes would yield
                    // them again and again.
                    if taken.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start) {
                        return Err(GcError::Overlap(segment));
                    }
                    taken.insert(range.start, range.end);
                    out.push(range);
                    Ok(StructView::new(memory, layout, "TableSegment", segment).ptr("NextSegment")?)
                });
                end.map_err(GcError::from)?;
            }
        }
        Ok::<_, GcError>(view.ptr("pNext")?)
    });
    end.map_err(GcError::from)
}

/// Minimum and maximum number of tables in a bucket. A workstation GC has one. A server GC makes one per processor
/// (objecthandle.cpp, getNumberOfSlots), because no heaps exist yet when the tables are made. It may have fewer heaps
/// later. Since .NET 9 it starts with one heap per processor and drops some again.
fn tables(memory: &dyn Memory, vars: &StructView<'_>) -> (u64, u64) {
    let count = vars.ptr("n_heaps").ok().filter(|a| *a != Addr::NULL).and_then(|a| memory.u32(a).ok());
    count.map_or((1, 1), |n| (u64::from(n).clamp(1, limits::MAX_HANDLE_TABLES), limits::MAX_HANDLE_TABLES))
}

impl HandleKind {
    fn of(number: u8) -> HandleKind {
        use HandleKind as K;
        match number {
            0 => K::WeakShort,
            1 => K::WeakLong,
            2 => K::Strong,
            3 => K::Pinned,
            4 => K::Variable,
            5 => K::RefCounted,
            6 => K::Dependent,
            7 => K::AsyncPinned,
            8 => K::SizedRef,
            9 => K::WeakNativeCom,
            10 => K::WeakInteriorPointer,
            11 => K::CrossReference,
            _ => K::Unknown,
        }
    }

    /// Kind of root for a handle that keeps its object alive.
    pub(crate) fn root_kind(self) -> RootKind {
        use HandleKind as K;
        match self {
            K::Strong => RootKind::Of(0, "StrongHandle"),
            K::Pinned => RootKind::Of(1, "PinnedHandle"),
            K::Variable => RootKind::Of(2, "VariableHandle"),
            K::RefCounted => RootKind::Of(3, "RefCountedHandle"),
            K::AsyncPinned => RootKind::Of(4, "AsyncPinnedHandle"),
            K::SizedRef => RootKind::Of(5, "SizedRefHandle"),
            K::CrossReference => RootKind::Of(6, "CrossReferenceHandle"),
            _ => RootKind::Of(7, "UnknownHandle"),
        }
    }

    /// Whether a handle of this kind keeps its object alive. Counted as yes if a reference count or the user's choice
    /// decides it.
    pub fn keeps(self) -> bool {
        use HandleKind as K;
        matches!(
            self,
            K::Strong | K::Pinned | K::Variable | K::RefCounted | K::AsyncPinned | K::SizedRef | K::CrossReference
        )
    }
}

/// Offsets and sizes within a TableSegment.
struct SegmentLayout {
    block_type: u64,
    user_data: u64,
    values: u64,
    blocks: u64,
    per_block: u64,
    data_block: u8,
}

impl SegmentLayout {
    fn new(layout: &Layout) -> Result<SegmentLayout, LayoutError> {
        let field = |name| layout.positive("TableSegment", name);
        let constant = |name| layout.constant("TableSegment", name);
        Ok(SegmentLayout {
            block_type: field("rgBlockType")?,
            user_data: field("rgUserData")?,
            values: field("rgValue")?,
            blocks: constant("BlocksPerSegment")?.min(limits::MAX_HANDLE_BLOCKS),
            per_block: constant("HandlesPerBlock")?.min(limits::MAX_BLOCK_HANDLES),
            data_block: u8::try_from(constant("DataBlockType")?).unwrap_or(FREE_BLOCK),
        })
    }
}

/// Type of a block that is not in use. As user data: no data block (handletablepriv.h, TYPE_INVALID and BLOCK_INVALID).
const FREE_BLOCK: u8 = 0xff;

/// Returns the handle that contains `addr`. `handles` are sorted by address.
pub(crate) fn handle_at(handles: &[Handle], addr: Addr) -> Option<Structure> {
    let start = addr.align_down(8);
    let found = handles.get(handles.binary_search_by_key(&start, |h| h.address).ok()?)?;
    let (address, object, secondary) = (found.address, found.object, found.secondary);
    Some(Structure::Handle { address, kind: found.kind.name(), object, secondary })
}

/// Reads the handles in these segments that refer to an object, sorted by address.
pub(crate) fn handles_in(process: &Process, gc: Gc<'_>, (segments, broken): &SegmentList) -> HandleList {
    was_read("handles");
    let _phase = process.enter(Phase::Handles);
    let mut notes: Vec<String> = broken.iter().map(ToString::to_string).collect();
    let mut out = Vec::new();
    match SegmentLayout::new(gc.layout) {
        Ok(layout) => {
            for segment in segments {
                of_segment(gc.memory, &layout, segment.start, &mut out, &mut notes);
            }
        }
        Err(e) => notes.push(e.to_string()),
    }
    out.sort_by_key(|h| h.address);
    (out, notes)
}

/// Records that handles are missing among the roots. `none`: none were found. Each runtime has some, since a handle
/// keeps the static variables alive. `broken`: some could not be read.
pub(crate) fn lacks_handles(roots: &mut Roots, none: bool, broken: bool) {
    if none {
        roots.lacks("GC handles");
    } else if broken {
        roots.lacks("some GC handles");
    }
}

/// Reads the handles of one segment. Free handles are null: the runtime clears them.
fn of_segment(memory: &dyn Memory, layout: &SegmentLayout, at: Addr, out: &mut Vec<Handle>, notes: &mut Vec<String>) {
    let head = |offset| memory.bytes(at.saturating_add(offset), layout.blocks as usize);
    let (types, user) = match (head(layout.block_type), head(layout.user_data)) {
        (Ok(types), Ok(user)) => (types, user),
        (Err(fault), _) | (_, Err(fault)) => {
            notes.push(format!("segment at {at}: {fault}"));
            return;
        }
    };
    let block_at = |block: u64| at.saturating_add(layout.values + block * layout.per_block * 8);
    let mut missing = 0_u64;
    for (block, (&kind, &data)) in types.iter().zip(&user).enumerate() {
        if kind == FREE_BLOCK || kind == layout.data_block {
            continue;
        }
        let (kind, start) = (HandleKind::of(kind), block_at(block as u64));
        let Ok(values) = memory.bytes(start, (layout.per_block * 8) as usize) else {
            missing += 1;
            continue;
        };
        let extra =
            if kind == HandleKind::Dependent && data != FREE_BLOCK { Some(block_at(u64::from(data))) } else { None };
        for (i, value) in values.as_chunks::<8>().0.iter().enumerate() {
            let object = Addr::new(u64::from_le_bytes(*value));
            if object.is_null() {
                continue;
            }
            let offset = 8 * i as u64;
            let secondary = extra.and_then(|extra| memory.ptr(extra.saturating_add(offset)).ok());
            out.push(Handle {
                address: start.saturating_add(offset),
                kind,
                object,
                secondary: secondary.filter(|s| !s.is_null()),
            });
        }
    }
    if missing > 0 {
        notes.push(format!("segment at {at}: {missing} handle blocks are not in the core"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, FaultKind};

    struct Bytes(u64, Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let fault = Fault { addr, kind: FaultKind::Unmapped };
            let from = addr.get().checked_sub(self.0).ok_or(fault)? as usize;
            buf.copy_from_slice(self.1.get(from..from.saturating_add(buf.len())).ok_or(fault)?);
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            let end = self.0.saturating_add(self.1.len() as u64);
            if addr.get() < self.0 { 0 } else { end.saturating_sub(addr.get()).min(max) }
        }
    }

    fn layout() -> SegmentLayout {
        SegmentLayout { block_type: 0, user_data: 4, values: 8, blocks: 4, per_block: 2, data_block: 11 }
    }

    #[test]
    fn handles_of_blocks_in_use() {
        // Four blocks: dependent handles (data in block 2), strong handles, data, free.
        let mut bytes = vec![6, 2, 11, 0xff, 2, 0xff, 0xff, 0xff];
        for value in [0x10_u64, 0, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70] {
            bytes.extend(value.to_le_bytes());
        }
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        of_segment(&Bytes(0x1000, bytes), &layout(), Addr::new(0x1000), &mut out, &mut notes);
        let got: Vec<_> =
            out.iter().map(|h| (h.address.get(), h.kind, h.object.get(), h.secondary.map(|s| s.get()))).collect();
        assert_eq!(
            got,
            [
                (0x1008, HandleKind::Dependent, 0x10, Some(0x40)),
                (0x1018, HandleKind::Strong, 0x20, None),
                (0x1020, HandleKind::Strong, 0x30, None),
            ]
        );
        assert!(notes.is_empty());
    }

    #[test]
    fn a_segment_that_is_cut_off_is_told() {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        of_segment(
            &Bytes(0x1000, vec![2, 3, 0xff, 0xff, 200, 255, 255, 255, 1]),
            &layout(),
            Addr::new(0x1000),
            &mut out,
            &mut notes,
        );
        assert!(out.is_empty());
        assert_eq!(notes, ["segment at 0x1000: 2 handle blocks are not in the core"]);
    }
}
