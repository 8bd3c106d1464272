//! Tables of values by code address (pctab).
//!
//! Source: runtime/symtab.go, `step` and `pcvalue`. A table is a list of pairs of variable-length numbers: the change
//! of the value (zigzag), and the distance in code. A value is valid for addresses below the next one. A change of 0
//! ends the table, except as the first.

/// Returns the value at `distance` bytes from the function's entry, from the table at `offset` of `pctab`. `quantum`:
/// bytes per unit of distance. `None` if the table does not cover it.
pub(super) fn value_at(pctab: &[u8], offset: u32, distance: u64, quantum: u64) -> Option<i32> {
    if offset == 0 {
        return None;
    }
    let mut rest = pctab.get(usize::try_from(offset).ok()?..)?.iter();
    let (mut value, mut at, mut first) = (-1i32, 0u64, true);
    loop {
        let change = number(&mut rest)?;
        if change == 0 && !first {
            return None;
        }
        first = false;
        let delta = (change >> 1) as i32;
        value = value.wrapping_add(if change & 1 != 0 { !delta } else { delta });
        at = at.checked_add(u64::from(number(&mut rest)?).checked_mul(quantum)?)?;
        if distance < at {
            return Some(value);
        }
    }
}

/// Reads a variable-length number: seven bits a byte, lowest first.
fn number<'b>(rest: &mut impl Iterator<Item = &'b u8>) -> Option<u32> {
    let (mut out, mut shift) = (0u32, 0u32);
    for byte in rest {
        out |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(out);
        }
        shift += 7;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value 0 for 4 bytes of code, 8 for the next 130, 0 for the next 1.
    const TABLE: [u8; 9] = [0xff, 2, 4, 16, 0x82, 1, 15, 1, 0];

    #[test]
    fn values_hold_up_to_the_next_address() {
        let at = |distance| value_at(&TABLE, 1, distance, 1);
        assert_eq!([0, 3, 4, 133, 134].map(at), [Some(0), Some(0), Some(8), Some(8), Some(0)]);
        assert_eq!(at(135), None);
        assert_eq!(value_at(&TABLE, 1, 4, 4), Some(0));
    }

    #[test]
    fn a_table_that_is_cut_or_has_no_end_gives_nothing() {
        assert_eq!(value_at(&TABLE, 0, 0, 1), None);
        assert_eq!(value_at(&TABLE[..6], 1, 500, 1), None);
        assert_eq!(value_at(&[0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], 1, 0, 1), None);
        assert_eq!(value_at(&TABLE, 100, 0, 1), None);
    }
}
