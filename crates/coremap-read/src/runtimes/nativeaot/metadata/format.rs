//! Numbers and hash tables in NativeAOT's native format.

use crate::limits;

/// Decodes the unsigned number at `at`. Returns it and the offset after it. The lowest bits of the first byte give the
/// length.
pub(in crate::runtimes::nativeaot) fn unsigned(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let byte = |i: usize| bytes.get(at.checked_add(i)?).map(|b| u32::from(*b));
    let first = byte(0)?;
    Some(match first {
        _ if first & 1 == 0 => (first >> 1, at + 1),
        _ if first & 2 == 0 => (first >> 2 | byte(1)? << 6, at + 2),
        _ if first & 4 == 0 => (first >> 3 | byte(1)? << 5 | byte(2)? << 13, at + 3),
        _ if first & 8 == 0 => (first >> 4 | byte(1)? << 4 | byte(2)? << 12 | byte(3)? << 20, at + 4),
        _ => (byte(1)? | byte(2)? << 8 | byte(3)? << 16 | byte(4)? << 24, at + 5),
    })
}

/// Decodes the signed number at `at`. Returns it and the offset after it.
pub(in crate::runtimes::nativeaot) fn signed(bytes: &[u8], at: usize) -> Option<(i32, usize)> {
    let (value, next) = unsigned(bytes, at)?;
    let bits = match next - at {
        5 => 32,
        bytes => 7 * bytes as u32,
    };
    let unused = 32 - bits;
    Some((((value << unused) as i32) >> unused, next))
}

/// Returns the offsets of a hash table's entries. A header has the number of buckets and the width of their offsets. A
/// bucket has, for each entry, a byte of its hash and the distance to it.
pub(in crate::runtimes::nativeaot) fn entries(table: &[u8]) -> Vec<usize> {
    let mut out = Vec::new();
    let Some(&head) = table.first() else { return out };
    let (buckets, width) = (1_usize.checked_shl(u32::from(head >> 2)).unwrap_or(0), 1_usize << (head & 3));
    if width > 4 || buckets > table.len() {
        return out;
    }
    let place = |i: usize| {
        let at = 1 + i * width;
        let bytes = table.get(at..at + width)?;
        Some(1 + bytes.iter().rev().fold(0_usize, |value, byte| value << 8 | usize::from(*byte)))
    };
    let mut left = limits::MAX_AOT_TYPES;
    for bucket in 0..buckets {
        let (Some(mut at), Some(end)) = (place(bucket), place(bucket + 1)) else { break };
        while at < end && left > 0 {
            left -= 1;
            let from = at + 1;
            let Some((distance, next)) = signed(table, from) else { break };
            out.extend(from.checked_add_signed(distance as isize).filter(|entry| *entry < table.len()));
            at = next;
        }
    }
    out
}
