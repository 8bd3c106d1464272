//! The stretches of .NET's heap by generation, with which PerfView tells the generation of an object.

use crate::export::ExportError;
use crate::export::gcdump::stream::Stream;
use crate::runtimes::api::Heap;

/// A stretch of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    start: u64,
    end: u64,
    /// gen0 to gen2 by their numbers, 3 for large objects, 4 for pinned ones.
    generation: usize,
}

/// Those of `heap`; none where it has other generations than .NET's.
pub(super) fn of(heap: &dyn Heap) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    for part in heap.parts() {
        let generation = match part.generation.name {
            "gen0" => 0,
            "gen1" => 1,
            // What is never collected is as old as can be.
            "gen2" | "frozen" => 2,
            "loh" => 3,
            "poh" => 4,
            _ => return Vec::new(),
        };
        let (start, end) = (part.range.start.get(), part.range.end.get());
        // PerfView looks through them one by one: neighbours are one.
        match out.last_mut() {
            Some(last) if last.end == start && last.generation == generation => last.end = end,
            _ => out.push(Segment { start, end, generation }),
        }
    }
    out
}

/// Write them. An address in a stretch is of the first generation that holds of: below the end of gen4, gen3, gen2, gen1, gen0.
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
