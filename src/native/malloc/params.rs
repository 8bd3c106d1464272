//! `mp_`, malloc's parameters and counts: in the same writable data as the main
//! arena, found by what its fields must satisfy.

use crate::addr::Addr;
use crate::bytes;
use crate::limits;
use crate::native::malloc::MallocHeap;
use crate::native::malloc::find::{Finder, MainArena};
use crate::native::malloc::shape::ParShape;

/// What `mp_` says. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Where it is.
    pub address: Addr,
    /// Chunks with a mapping of their own.
    pub n_mmaps: u64,
    /// The most there were at a time.
    pub max_n_mmaps: u64,
    /// Bytes of these mappings.
    pub mmapped_mem: u64,
    /// The most there were at a time.
    pub max_mmapped_mem: u64,
    /// Requests from this size on get a mapping of their own.
    pub mmap_threshold: u64,
    /// A free top larger than this is given back.
    pub trim_threshold: u64,
    /// First address that sbrk gave.
    pub sbrk_base: Addr,
}

/// Bytes of writable data looked through on either side of the main arena: both
/// are initialized data of one source file, and the libc's is 8 KiB in all.
const NEAR: u64 = 256 << 10;

/// Find `mp_`; `None` where no place, or more than one, satisfies all.
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

/// The fields from `at` on, if their numbers can be so.
fn read(data: &[u8], at: usize, shape: &ParShape) -> Option<Params> {
    let int = |field: u64| bytes::u32_at(data, at.checked_add(field as usize)?);
    let long = |field: u64| bytes::u64_at(data, at.checked_add(field as usize)?);
    let (now, allowed, most) = (int(shape.n_mmaps)?, int(shape.n_mmaps_max)?, int(shape.max_n_mmaps)?);
    if now > most || allowed > limits::MAX_MMAPS || most > limits::MAX_MMAPS || int(shape.no_dyn_threshold)? > 1 {
        return None;
    }
    let (bytes_now, bytes_most) = (long(shape.mmapped_mem)?, long(shape.max_mmapped_mem)?);
    let pages = (bytes_now | bytes_most) & 4095 == 0 && bytes_most < 1 << 47;
    if !pages || bytes_now > bytes_most || (now == 0) != (bytes_now == 0) || (most == 0) != (bytes_most == 0) {
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
        max_n_mmaps: most.into(),
        mmapped_mem: bytes_now,
        max_mmapped_mem: bytes_most,
        mmap_threshold: long(shape.mmap_threshold)?,
        trim_threshold: long(shape.trim_threshold)?,
        sbrk_base: Addr::new(long(shape.sbrk_base)?),
    })
}

/// Whether `sbrk_base` is where the main heap begins, or at least in anonymous
/// memory above it all.
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
