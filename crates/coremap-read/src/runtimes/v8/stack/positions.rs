//! Tables of source positions: from a bytecode offset to a position in the source (source-position-table.cc).

/// An entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// First bytecode offset for which the entry is valid. -1 in the first entry, which is for the function's start.
    pub offset: i64,
    /// Position in the source.
    pub position: i64,
}

/// Reads an unsigned number: seven bits a byte, lowest first.
pub(super) fn unsigned(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut out = 0_u64;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.next()?;
        out |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(out);
        }
    }
    None
}

/// Reads a signed number. Its sign is the lowest bit.
fn signed(bytes: &mut std::slice::Iter<'_, u8>) -> Option<i64> {
    let raw = unsigned(bytes)?;
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// Reads all entries. `flagged`: the first number of an entry is unsigned and has two flags (V8 14 and later).
/// Otherwise, a negative first number marks an expression.
pub(super) fn entries(table: &[u8], flagged: bool) -> Vec<Entry> {
    let (mut out, mut offset, mut position) = (Vec::new(), -1_i64, 0_i64);
    let mut bytes = table.iter();
    while !bytes.as_slice().is_empty() {
        let step = if flagged {
            unsigned(&mut bytes).map(|raw| (raw >> 2).cast_signed())
        } else {
            signed(&mut bytes).map(|delta| if delta >= 0 { delta } else { -(delta + 1) })
        };
        let (Some(step), Some(delta)) = (step, signed(&mut bytes)) else { break };
        offset = offset.saturating_add(step);
        position = position.saturating_add(delta);
        // Bit 0 is a flag. The position is stored plus one, and higher bits are the number of an inlined function.
        out.push(Entry { offset, position: (position >> 1 & 0x3fff_ffff) - 1 });
    }
    out
}

/// Returns the source position that is valid at a bytecode offset.
pub(super) fn at(table: &[Entry], offset: i64) -> Option<u64> {
    let before = table.iter().take_while(|entry| entry.offset <= offset);
    u64::try_from(before.last()?.position).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zig-zag numbers by hand: offsets 0, then 5 on; raw positions 22 (10 in the source) and 42 (20).
    #[test]
    fn a_table_of_v8_13_has_signed_steps() {
        // +1 = 2; 22 = 44; -6 (an expression 5 on) = 11; +20 = 40.
        let table = entries(&[2, 44, 11, 40], false);
        assert_eq!(table, [Entry { offset: 0, position: 10 }, Entry { offset: 5, position: 20 }]);
        assert_eq!(
            [at(&table, -1), at(&table, 0), at(&table, 4), at(&table, 99)],
            [None, Some(10), Some(10), Some(20)]
        );
    }

    #[test]
    fn a_table_of_v8_14_has_flags_below_its_steps() {
        let table = entries(&[1 << 2 | 3, 44, 5 << 2, 40], true);
        assert_eq!(table, [Entry { offset: 0, position: 10 }, Entry { offset: 5, position: 20 }]);
    }

    #[test]
    fn a_table_that_breaks_off_or_never_ends_gives_what_precedes() {
        assert_eq!(entries(&[2, 44, 0x80], false).len(), 1);
        assert_eq!(entries(&[0xff; 64], false), []);
    }
}
