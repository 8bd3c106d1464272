//! `mp_`, malloc's parameters and counts.
//!
//! `mp_` is in the same writable data as the main arena. It is found by conditions that its fields must satisfy.

use crate::addr::Addr;
use crate::bytes;
use crate::limits;
use crate::native::malloc::MallocHeap;
use crate::native::malloc::find::{Finder, MainArena};
use crate::native::malloc::shape::ParShape;

/// The fields of `mp_`. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Address of `mp_`.
    pub address: Addr,
    /// Number of chunks with their own mappings.
    pub n_mmaps: u64,
    /// Maximum of `n_mmaps` so far.
    pub max_n_mmaps: u64,
    /// Bytes of these mappings.
    pub mmapped_mem: u64,
    /// Maximum of `mmapped_mem` so far.
    pub max_mmapped_mem: u64,
    /// Requests of at least this size get their own mapping.
    pub mmap_threshold: u64,
    /// A larger top chunk is returned to the system.
    pub trim_threshold: u64,
    /// First address that sbrk returned.
    pub sbrk_base: Addr,
}

/// Bytes searched on either side of the main arena. Both are initialized data of one source file, and libc's data is 8
/// KiB in all.
const NEAR: u64 = 256 << 10;

/// Finds `mp_`. `None` if no address satisfies all conditions, or more than one.
pub(super) fn find(finder: &Finder<'_>, main: &MainArena, heap: Option<&MallocHeap>, fastbins: bool) -> Option<Params> {
    let low = main.bins.saturating_sub(NEAR).max(main.data.start);
    let high = main.bins.saturating_add(NEAR).min(main.data.end);
    let mut found: Vec<(Params, &ParShape)> = Vec::new();
    for part in finder.memory.readable_parts(crate::addr::AddrRange::new(low, high), 2 * NEAR) {
        let Ok(data) = finder.memory.look(part.start, part.len() as usize) else { continue };
        for at in (0..data.len()).step_by(8) {
            for shape in finder.shape.params.iter().filter(|s| s.fastbins == fastbins) {
                let params =
                    read(&data, at, shape).map(|p| Params { address: part.start.saturating_add(at as u64), ..p });
                found.extend(params.filter(|p| fits(finder, heap, p)).map(|p| (p, shape)));
            }
        }
    }
    let exact = found.iter().filter(|(p, _)| heap.is_some_and(|h| h.range.start == p.sbrk_base));
    let (params, shape) = match (exact.collect::<Vec<_>>().as_slice(), found.as_slice()) {
        ([one], _) => **one,
        ([], [one]) => *one,
        _ => return None,
    };
    shape.fields().for_each(|(field, len)| finder.memory.keep(params.address.saturating_add(field), len));
    Some(params)
}

/// Reads the fields at `at`, if their values are plausible.
fn read(data: &[u8], at: usize, shape: &ParShape) -> Option<Params> {
    let int = |field: u64| bytes::u32_at(data, at.checked_add(field as usize)?);
    let long = |field: u64| bytes::u64_at(data, at.checked_add(field as usize)?);
    let (now, allowed, peak) = (int(shape.n_mmaps)?, int(shape.n_mmaps_max)?, int(shape.max_n_mmaps)?);
    if now > peak || allowed > limits::MAX_MMAPS || peak > limits::MAX_MMAPS || int(shape.no_dyn_threshold)? > 1 {
        return None;
    }
    let (bytes_now, bytes_peak) = (long(shape.mmapped_mem)?, long(shape.max_mmapped_mem)?);
    let pages = (bytes_now | bytes_peak) & 4095 == 0 && bytes_peak < 1 << 47;
    if !pages || bytes_now > bytes_peak || (now == 0) != (bytes_now == 0) || (peak == 0) != (bytes_peak == 0) {
        return None;
    }
    if u64::from(now).saturating_mul(4096) > bytes_now {
        return None;
    }
    // Fields that are zero prove nothing.
    if allowed == 0 || long(shape.mmap_threshold)? == 0 || long(shape.trim_threshold)? == 0 {
        return None;
    }
    Some(Params {
        address: Addr::NULL,
        n_mmaps: now.into(),
        max_n_mmaps: peak.into(),
        mmapped_mem: bytes_now,
        max_mmapped_mem: bytes_peak,
        mmap_threshold: long(shape.mmap_threshold)?,
        trim_threshold: long(shape.trim_threshold)?,
        sbrk_base: Addr::new(long(shape.sbrk_base)?),
    })
}

/// Whether `sbrk_base` is the start of the main heap. If that heap is not exact, any address in writable anonymous
/// memory with a chunk will do.
fn fits(finder: &Finder<'_>, heap: Option<&MallocHeap>, params: &Params) -> bool {
    let base = params.sbrk_base;
    let anonymous = || finder.base.at(base).is_some_and(|e| e.file.is_none() && e.perms.is_some_and(|p| p.write));
    !base.is_null()
        && anonymous()
        && heap.is_none_or(|h| {
            let near = h.range.start.align_up(finder.shape.chunk.alignment);
            near == base.align_up(finder.shape.chunk.alignment) || h.confidence != crate::map::Confidence::Exact
        })
        && finder.chunk_size(base.align_up(finder.shape.chunk.alignment)).is_some()
}
