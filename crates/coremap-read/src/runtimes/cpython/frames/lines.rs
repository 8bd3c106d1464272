//! Maps instructions to lines, in three formats.
//!
//! - Up to 3.9, `co_lnotab` (Objects/lnotab_notes.txt): pairs of a byte increment and a signed line increment.
//! - In 3.10, `co_linetable` (same file): the line applies to the bytes of its own pair, and -128 means no line.
//! - Since 3.11, the location table (Objects/locations.md; later InternalDocs/code_objects.md).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFormat {
    /// `co_lnotab`.
    Lnotab,
    /// `co_linetable` of 3.10.
    LineTable,
    /// The location table, since 3.11.
    Locations,
}

impl LineFormat {
    pub(super) fn of(minor: u32) -> LineFormat {
        match minor {
            ..=9 => LineFormat::Lnotab,
            10 => LineFormat::LineTable,
            _ => LineFormat::Locations,
        }
    }

    /// Line of the instruction at `offset` bytes. `None` if the table has no line for it. `first`: `co_firstlineno`.
    pub(super) fn line(self, table: &[u8], first: i64, offset: u64) -> Option<u32> {
        let line = match self {
            LineFormat::Lnotab => lnotab(table, first, offset),
            LineFormat::LineTable => line_table(table, first, offset),
            LineFormat::Locations => locations(table, first, offset),
        };
        line.and_then(|line| u32::try_from(line).ok())
    }
}

fn lnotab(table: &[u8], first: i64, offset: u64) -> Option<i64> {
    let (mut at, mut line) = (0_u64, first);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        at += u64::from(*bytes);
        if at > offset {
            break;
        }
        line += i64::from(*lines as i8);
    }
    Some(line)
}

/// Line increment of a pair whose bytes have no line.
const NO_LINE: i8 = -128;

fn line_table(table: &[u8], first: i64, offset: u64) -> Option<i64> {
    let (mut at, mut line) = (0_u64, first);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        let lines = *lines as i8;
        let end = at + u64::from(*bytes);
        if lines != NO_LINE {
            line += i64::from(lines);
        }
        if (at..end).contains(&offset) {
            return (lines != NO_LINE).then_some(line);
        }
        at = end;
    }
    None
}

/// Size of a code unit in bytes. The table counts code units.
const UNIT: u64 = 2;

mod kind {
    pub(super) const ONE_LINE: u8 = 10;
    pub(super) const NO_COLUMNS: u8 = 13;
    pub(super) const LONG: u8 = 14;
    pub(super) const NONE: u8 = 15;
}

fn locations(table: &[u8], first: i64, offset: u64) -> Option<i64> {
    let mut bytes = table.iter().copied();
    let (mut at, mut line) = (0_u64, first);
    while let Some(head) = bytes.next() {
        let kind = head >> 3 & 15;
        let end = at + UNIT * (u64::from(head & 7) + 1);
        match kind {
            kind::NONE => {}
            kind::LONG => {
                line = line.checked_add(signed(&mut bytes)?)?;
                // End line, column, end column.
                for _ in 0..3 {
                    number(&mut bytes)?;
                }
            }
            kind::NO_COLUMNS => line = line.checked_add(signed(&mut bytes)?)?,
            kind::ONE_LINE.. => {
                line = line.checked_add(i64::from(kind - kind::ONE_LINE))?;
                bytes.nth(1)?;
            }
            _ => {
                bytes.next()?;
            }
        }
        if (at..end).contains(&offset) {
            return (kind != kind::NONE).then_some(line);
        }
        at = end;
    }
    None
}

/// Reads a number in groups of six bits, lowest first. Bit 6 means that more follow.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            return Some(value);
        }
        shift += 6;
    }
}

/// Reads a number whose lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = number(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 != 0 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::LineFormat::{self, LineTable, Lnotab, Locations};

    fn lines(format: LineFormat, table: &[u8], first: i64, offsets: &[u64]) -> Vec<Option<u32>> {
        offsets.iter().map(|&offset| format.line(table, first, offset)).collect()
    }

    #[test]
    fn formats_of_versions() {
        assert_eq!([9, 10, 11, 14].map(LineFormat::of), [Lnotab, LineTable, Locations, Locations]);
    }

    #[test]
    fn lnotab_counts_from_pair_to_pair() {
        // Objects/lnotab_notes.txt: offsets 0, 6, 50, 350, 361 at lines 1, 2, 7, 207, 208.
        let table = [6, 1, 44, 5, 255, 0, 45, 127, 0, 73, 11, 1];
        let found = lines(Lnotab, &table, 1, &[0, 5, 6, 49, 50, 349, 350, 360, 361, 4000]);
        assert_eq!(found, [1, 1, 2, 2, 7, 7, 207, 207, 208, 208].map(Some));
        // Line increments are negative at the end of a loop.
        assert_eq!(lines(Lnotab, &[2, 5, 2, 0xfd], 10, &[0, 2, 4]), [10, 15, 12].map(Some));
        assert_eq!(Lnotab.line(&[], 7, 100), Some(7));
    }

    #[test]
    fn a_pair_of_3_10_tells_its_own_bytes() {
        // 0..6 at line 101, 6..10 none, 10..12 at line 100.
        let table = [6, 1, 4, 0x80, 2, 0xff];
        assert_eq!(
            lines(LineTable, &table, 100, &[0, 4, 6, 8, 10, 12]),
            [Some(101), Some(101), None, None, Some(100), None]
        );
        // A line increment that exceeds one pair is preceded by a pair with zero bytes.
        assert_eq!(lines(LineTable, &[0, 127, 2, 3], 1, &[0]), [Some(131)]);
    }

    #[test]
    fn all_kinds_of_locations() {
        let entry = |kind: u8, units: u8| 0x80 | kind << 3 | (units - 1);
        let table = [
            &[entry(11, 2), 4, 9][..],         // 0..4: one line down
            &[entry(3, 1), 0x21],              // 4..6: the same line
            &[entry(15, 1)],                   // 6..8: none
            &[entry(14, 1), 0x4a, 1, 0, 1, 2], // 8..10: +37, in two pieces
            &[entry(13, 3), 0x05],             // 10..16: -2
            &[entry(10, 8), 1, 2],             // 16..32
        ]
        .concat();
        let found = lines(Locations, &table, 10, &[0, 2, 4, 6, 8, 10, 14, 16, 30, 32]);
        let expected = [Some(11), Some(11), Some(11), None, Some(48), Some(46), Some(46), Some(46), Some(46), None];
        assert_eq!(found, expected);
    }

    #[test]
    fn tables_that_break_off_or_go_too_far() {
        assert_eq!(Locations.line(&[0x80 | 14 << 3, 0x7f, 0x7f], 1, 0), None);
        assert_eq!(Locations.line(&[0x80 | 13 << 3; 4], i64::MAX, 0), None);
        let endless = [&[0x80 | 13 << 3][..], &[0x7f; 40]].concat();
        assert_eq!(Locations.line(&endless, 1, 0), None);
        assert_eq!(LineTable.line(&[9], 1, 0), None);
        // Line numbers below 0 are invalid.
        assert_eq!(Lnotab.line(&[0, 0x80], 1, 0), None);
    }
}
