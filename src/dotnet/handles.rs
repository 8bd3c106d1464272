//! The handle table's memory: segments of 64 KiB, in a list for each table.
//!
//! src/coreclr/gc: objecthandle.h (HandleTableMap, HandleTableBucket),
//! handletablepriv.h (HandleTable, TableSegment).

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::dotnet::detect::Runtime;
use crate::dotnet::gc::GcError;
use crate::layout::StructView;
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;

/// Buckets in one map (INITIAL_HANDLE_TABLE_ARRAY_SIZE), and tables in one
/// bucket at most (one for each GC heap).
const MAX_BUCKETS: u64 = 10;
const MAX_TABLES: u64 = 1024;

/// Ranges of all segments of all handle tables, and what broke the walk off, if
/// anything did.
pub(super) fn read(process: &Process, runtime: &Runtime) -> (Vec<AddrRange>, Option<GcError>) {
    let mut out = Vec::new();
    let broken = walk(process, runtime, &mut out).err();
    (out, broken)
}

fn walk(process: &Process, runtime: &Runtime, out: &mut Vec<AddrRange>) -> Result<(), GcError> {
    let memory: &dyn Memory = &process.memory;
    let layout = &runtime.layout;
    let vars = runtime.roots.gc_dac_vars.ok_or(GcError::NoVars)?;
    let vars = StructView::new(memory, layout, "GcDacVars", vars);
    let tables = heaps(memory, &vars);
    let size = layout.size("TableSegment")?;
    let mut seen = HashSet::new();
    let mut steps = 0;
    let mut map = vars.ptr("handle_table_map")?;
    while map.0 != 0 {
        if !seen.insert(map) {
            return Err(GcError::Circle(map));
        }
        let view = StructView::new(memory, layout, "HandleTableMap", map);
        let buckets = view.ptr("pBuckets")?;
        for i in 0..MAX_BUCKETS {
            let Ok(bucket) = memory.ptr(buckets.saturating_add(8 * i)) else { break };
            if bucket.0 == 0 {
                continue;
            }
            let array = StructView::new(memory, layout, "HandleTableBucket", bucket).ptr("pTable")?;
            for t in 0..tables {
                steps += 1;
                if steps > limits::MAX_HANDLE_STEPS {
                    return Err(GcError::Steps(steps));
                }
                let table = memory.ptr(array.saturating_add(8 * t))?;
                if table.0 == 0 {
                    continue;
                }
                let mut segment = StructView::new(memory, layout, "HandleTable", table).ptr("SegmentList")?;
                while segment.0 != 0 {
                    steps += 1;
                    if !seen.insert(segment) {
                        return Err(GcError::Circle(segment));
                    }
                    if steps > limits::MAX_HANDLE_STEPS {
                        return Err(GcError::Steps(steps));
                    }
                    out.push(AddrRange::sized(segment, size));
                    segment = StructView::new(memory, layout, "TableSegment", segment).ptr("NextSegment")?;
                }
            }
        }
        map = view.ptr("pNext")?;
    }
    Ok(())
}

/// Tables in a bucket: one, or one for each heap of a server GC.
fn heaps(memory: &dyn Memory, vars: &StructView<'_>) -> u64 {
    let count = vars.ptr("n_heaps").ok().filter(|a| *a != Addr(0)).and_then(|a| memory.u32(a).ok());
    count.map_or(1, |n| u64::from(n).clamp(1, MAX_TABLES))
}
