//! Metadata of .NET's modules (ECMA-335): names and signatures stay, and no literal of the program's.

use crate::image::metadata::{Metadata, find_root};
use crate::image::pe;
use crate::process::Process;
use crate::targets::byte_set::ByteSet;

/// The bytes that stay, of all modules.
pub(super) fn all(process: &Process) -> ByteSet {
    let mut out = ByteSet::default();
    let memory = &process.memory;
    for module in process.modules.iter() {
        let base = module.range.start;
        let Some(image) = pe::read(memory, base) else { continue };
        // Mapped as the file is, or by section: one of them leads to a root.
        let found = [false, true].into_iter().find_map(|flat| {
            let (at, len) = find_root(memory, base, &image, flat).ok()?;
            Some((at, Metadata::at(memory, at, len).ok()?))
        });
        let Some((at, metadata)) = found else { continue };
        let mut from = 0;
        for literal in metadata.literals() {
            out.add(at.saturating_add(from), (literal.start as u64).saturating_sub(from));
            from = from.max(literal.end as u64);
        }
        out.add(at.saturating_add(from), (metadata.len() as u64).saturating_sub(from));
    }
    out
}
