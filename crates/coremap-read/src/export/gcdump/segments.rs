//! Ranges of .NET's heap by generation, from which PerfView derives an object's generation.

use crate::export::ExportError;
use crate::export::gcdump::stream::Stream;
use crate::runtimes::api::Heap;

/// A range with one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    start: u64,
    end: u64,
    /// Generation: 0 to 2, 3 for large objects, 4 for pinned ones.
    generation: usize,
}

/// Returns the ranges of `heap`. None if its generations are not those of .NET.
pub(super) fn of(heap: &dyn Heap) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    for part in heap.ranges() {
        let generation = match part.generation.name {
            "gen0" => 0,
            "gen1" => 1,
            // Frozen objects are never collected, so they count as oldest.
            "gen2" | "frozen" => 2,
            "loh" => 3,
            "poh" => 4,
            _ => return Vec::new(),
        };
        let (start, end) = (part.range.start.get(), part.range.end.get());
        // PerfView searches them one by one, so join neighbours.
        match out.last_mut() {
            Some(last) if last.end == start && last.generation == generation => last.end = end,
            _ => out.push(Segment { start, end, generation }),
        }
    }
    out
}

/// Writes the ranges. The reader assigns an address in a range to the first generation whose end is above it: gen4,
/// gen3, gen2, gen1, gen0.
pub(super) fn write(stream: &mut Stream<'_>, segments: &[Segment]) -> Result<(), ExportError> {
    stream.object("DotNetHeapInfo", 0, 0)?;
    let size: u64 =
        segments.iter().map(|segment| segment.end.saturating_sub(segment.start)).fold(0, u64::saturating_add);
    stream.i64(i64::try_from(size).unwrap_or(i64::MAX))?;
    stream.i32(segments.len() as i32)?;
    for segment in segments {
        stream.object("GCHeapDumpSegment", 1, 1)?;
        stream.u64(segment.start)?;
        stream.u64(segment.end)?;
        for generation in 0..=4 {
            stream.u64(if generation <= segment.generation { segment.end } else { segment.start })?;
        }
        stream.end()?;
    }
    Ok(stream.end()?)
}
