//! OpenBLAS: a working buffer for each of its threads, which is never unmapped.
//!
//! `memory[]` in its data has the buffers' addresses. The size of a buffer depends on the build (BUFFER_SIZE): 32 MiB
//! to 1 GiB. Source: driver/others/memory.c; measured on 0.3.21, where it is 128 MiB.

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::map::Kind;

/// BUFFER_SIZE on x86_64, and the minimum size of a range that is taken for a buffer.
const BUFFER: u64 = 128 << 20;
const MIN_BUFFER: u64 = 16 << 20;

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let starts = |name: &str| name.starts_with("libopenblas") || name.starts_with("libscipy_openblas");
    let Some(image) = scene.images.iter().find(|i| starts(&i.name)) else { return };
    let mut starts: Vec<Addr> = scene.pointers(image, 4096).into_iter().map(|p| p.to).collect();
    starts.sort_unstable();
    starts.dedup();
    let buffer = |(i, &start): (usize, &Addr)| {
        let open = scene.unclaimed_at(start)?;
        let next = starts.get(i + 1).copied().unwrap_or(open.end);
        let range = AddrRange::new(start, open.end.min(next).min(start.saturating_add(BUFFER)));
        (range.len() >= MIN_BUFFER).then_some(range)
    };
    let buffers: Vec<AddrRange> = starts.iter().enumerate().filter_map(buffer).collect();
    let evidence = "a pointer in OpenBLAS's data to the start of a range of buffer size; the length is a guess";
    found.add(buffers, &Label::heuristic(Kind::LibraryBuffer, image.owner, "OpenBLAS: working buffers", evidence));
}
