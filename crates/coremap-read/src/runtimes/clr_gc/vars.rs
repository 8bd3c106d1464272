//! GcDacVars: the GC's own description, versioned and only ever extended (src/coreclr/gc/gcinterface.dacvars.def).

use crate::addr::Addr;
use crate::layout::{Layout, StructView};
use crate::memory::Memory;

/// Bounds of the first fields. Major versions 1 and 2 are known. Generations have had 0xf0 to 0x108 bytes. There are 4
/// (3.1) or 5 generations.
const MAX_MAJOR: u8 = 9;
const GENERATION_SIZE: std::ops::Range<u64> = 0x20..0x2000;
const GENERATIONS: std::ops::RangeInclusive<u64> = 4..=8;

/// Whether the bytes at `addr` look like GcDacVars: u8 major, u8 minor, six zero bytes, u64 generation size and, if
/// `counted` (from .NET 5 on), u64 number of generations.
pub(crate) fn looks_like(memory: &dyn Memory, addr: Addr, counted: bool) -> bool {
    let [version, size, generations] = [0, 8, 16].map(|offset| addr.checked_add(offset));
    let test = || {
        let head = memory.peek_u64(version?).ok()?;
        let bytes = memory.peek_u64(size?).ok()?;
        let [major, _minor, rest @ ..] = head.to_le_bytes();
        let counted = !counted || GENERATIONS.contains(&memory.peek_u64(generations?).ok()?);
        Some((1..=MAX_MAJOR).contains(&major) && rest == [0; 6] && GENERATION_SIZE.contains(&bytes) && counted)
    };
    let found = test() == Some(true);
    if found {
        // Record the reads only now: a mere guess is no structure that a shrunk core must keep.
        [version, size, generations].into_iter().flatten().for_each(|at| memory.keep(at, 8));
    }
    found
}

/// Whether the GcDacVars at `addr` match the layout's runtime: major, minor and generation size differ between the
/// versions that have a layout. A derived layout may lack minor and size; these then match anything.
pub(crate) fn matches_layout(memory: &dyn Memory, addr: Addr, layout: &Layout) -> bool {
    let vars = StructView::new(memory, layout, "GcDacVars", addr);
    let matches = |field: &str, have: Option<u64>| {
        have.is_some_and(|have| layout.constant("GcDacVars", field).is_ok_and(|wanted| wanted == have))
            || (have.is_some() && field != "major" && layout.constant("GcDacVars", field).is_err())
    };
    matches("major", vars.u8("major").ok().map(u64::from))
        && matches("minor", vars.u8("minor").ok().map(u64::from))
        && matches("generation_size", vars.u64("generation_size").ok())
}
