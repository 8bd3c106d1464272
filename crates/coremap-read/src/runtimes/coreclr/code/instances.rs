//! The table of a ReadyToRun image with the instantiations of generic methods: a native hashtable of method signatures
//! with entry points.
//!
//! Sources: src/coreclr/vm/nativeformatreader.h (NativeHashtable), readytoruninfo.cpp (SigMatchesMethodDesc);
//! docs/design/coreclr/botr/readytorun-format.md, "Method signatures" and "Type encoding".

use crate::bytes::{u16_at, u32_at};
use crate::image::metadata::sig::Reader;
use crate::limits;
use crate::runtimes::coreclr::code::native_format::unsigned;

/// ENCODE_METHOD_SIG_* flags (inc/corcompile.h, readytorun.h).
mod flags {
    pub(super) const METHOD_INSTANTIATION: u32 = 0x04;
    pub(super) const OWNER_TYPE: u32 = 0x40;
    pub(super) const UPDATE_CONTEXT: u32 = 0x80;
}

/// Element types with operands (ECMA-335 II.23.1.16, and those of images above 0x3a, inc/corhdr.h).
mod element {
    pub(super) const PTR: u8 = 0x0f;
    pub(super) const BYREF: u8 = 0x10;
    pub(super) const VALUE_TYPE: u8 = 0x11;
    pub(super) const CLASS: u8 = 0x12;
    pub(super) const VAR: u8 = 0x13;
    pub(super) const ARRAY: u8 = 0x14;
    pub(super) const GENERIC_INST: u8 = 0x15;
    pub(super) const FN_PTR: u8 = 0x1b;
    pub(super) const SZ_ARRAY: u8 = 0x1d;
    pub(super) const MVAR: u8 = 0x1e;
    pub(super) const VAR_ZAPSIG: u8 = 0x3b;
    pub(super) const NATIVE_VALUE_TYPE: u8 = 0x3d;
    pub(super) const MODULE: u8 = 0x3f;
}

/// Returns the first runtime function of each instantiation. `table` starts with the hashtable.
pub(super) fn entry_points(table: &[u8]) -> Vec<u32> {
    let mut out = Vec::new();
    let mut left = table.len().saturating_mul(8);
    let Some(&header) = table.first() else { return out };
    let width = 1usize << (header & 3).min(2);
    let buckets = 1usize << u32::from(header >> 2).min(limits::MAX_INSTANCE_BUCKET_BITS);
    let base = 1usize;
    let offset = |bucket: usize| {
        let at = base.checked_add(bucket.checked_mul(width)?)?;
        Some(match width {
            1 => usize::from(*table.get(at)?),
            2 => usize::from(u16_at(table, at)?),
            _ => u32_at(table, at)? as usize,
        })
    };
    for bucket in 0..buckets {
        let (Some(start), Some(end)) = (offset(bucket), offset(bucket + 1)) else { break };
        let (mut at, end) = (base.saturating_add(start), base.saturating_add(end).min(table.len()));
        while at < end && out.len() < limits::MAX_RUNTIME_FUNCTIONS as usize {
            // One byte of the hash, then the distance to the entry.
            let Some((delta, next)) = signed(table, at + 1) else { break };
            let target = (at + 1).checked_add_signed(delta as isize);
            let (function, used) = target.map_or((None, 0), |t| entry(table, t));
            out.extend(function);
            at = next;
            // Bounds the bytes read: entries may overlap, and each may be as long as the table.
            let Some(rest) = left.checked_sub(used + 1) else { return out };
            left = rest;
        }
    }
    out
}

/// Reads a signed number. It is encoded like unsigned ones, but the highest bit is the sign.
fn signed(data: &[u8], at: usize) -> Option<(i32, usize)> {
    let (value, next) = unsigned(data, at)?;
    let bits = match next - at {
        1 => 7,
        2 => 14,
        3 => 21,
        4 => 28,
        _ => 32,
    };
    let shift = 32 - bits;
    Some((((value << shift) as i32) >> shift, next))
}

/// Runtime function after the signature at `at`, and the number of bytes read.
fn entry(table: &[u8], at: usize) -> (Option<u32>, usize) {
    let Some(blob) = table.get(at..) else { return (None, 0) };
    let mut reader = Reader::new(blob);
    let whole = skip_method(&mut reader).is_some();
    let used = blob.len() - reader.rest().len();
    let id = unsigned(table, at + used).filter(|_| whole).map(|(id, _)| id);
    (id.map(|id| if id & 1 != 0 { id >> 2 } else { id >> 1 }), used)
}

fn skip_method(reader: &mut Reader<'_>) -> Option<()> {
    let flags = reader.unsigned().ok()?;
    if flags & flags::UPDATE_CONTEXT != 0 {
        reader.unsigned().ok()?;
    }
    if flags & flags::OWNER_TYPE != 0 {
        skip_type(reader, 0)?;
    }
    reader.unsigned().ok()?;
    if flags & flags::METHOD_INSTANTIATION != 0 {
        for _ in 0..reader.unsigned().ok()?.min(limits::MAX_GENERIC_ARGS) {
            skip_type(reader, 0)?;
        }
    }
    Some(())
}

fn skip_type(reader: &mut Reader<'_>, depth: u32) -> Option<()> {
    if depth > limits::MAX_TYPE_DEPTH {
        return None;
    }
    let deeper = depth + 1;
    match reader.byte().ok()? {
        element::PTR | element::BYREF | element::SZ_ARRAY | element::NATIVE_VALUE_TYPE => skip_type(reader, deeper)?,
        element::VALUE_TYPE | element::CLASS | element::VAR | element::MVAR | element::VAR_ZAPSIG => {
            reader.unsigned().ok()?;
        }
        element::MODULE => {
            reader.unsigned().ok()?;
            skip_type(reader, deeper)?;
        }
        element::GENERIC_INST => {
            skip_type(reader, deeper)?;
            for _ in 0..reader.unsigned().ok()?.min(limits::MAX_GENERIC_ARGS) {
                skip_type(reader, deeper)?;
            }
        }
        element::ARRAY => {
            skip_type(reader, deeper)?;
            reader.unsigned().ok()?;
            // Sizes, then lower bounds.
            for _ in 0..2 {
                for _ in 0..reader.unsigned().ok()?.min(limits::MAX_GENERIC_ARGS) {
                    reader.unsigned().ok()?;
                }
            }
        }
        element::FN_PTR => {
            reader.unsigned().ok()?;
            for _ in 0..reader.unsigned().ok()?.min(limits::MAX_GENERIC_ARGS).saturating_add(1) {
                skip_type(reader, deeper)?;
            }
        }
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers() {
        assert_eq!(signed(&[0xfe], 0), Some((-1, 1)));
        assert_eq!(signed(&[0x02], 0), Some((1, 1)));
        assert_eq!(signed(&[0xf9, 0xff], 0), Some((-2, 2)));
    }

    #[test]
    fn one_entry() {
        // One bucket (mask 0, one-byte offsets) from 2 to 4: hash 0x77, distance 2 to the entry. The entry: flags
        // OwnerType | MethodInstantiation, class 1:5, rid 7, one argument int32; id of function 9 without fixups.
        let table = [0, 2, 4, 0x77, 2 << 1, 0xff, 0x44, 0x12, 0x05, 0x07, 0x01, 0x08, 9 << 2];
        assert_eq!(entry_points(&table), [9]);
    }

    #[test]
    fn lies_are_bounded() {
        assert_eq!(entry_points(&[]), Vec::<u32>::new());
        assert_eq!(entry_points(&[0xff; 64]), Vec::<u32>::new());
        let nested: Vec<u8> = [0, 2, 4, 0, 2 << 1, 0, 0x44].into_iter().chain([0x0f; 10_000]).collect();
        assert_eq!(entry_points(&nested), Vec::<u32>::new());
    }
}
