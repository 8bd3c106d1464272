//! Functions of aarch64 that replace their frame pointer: helpers of a runtime that call code with another function's
//! frame pointer. Their unwind data still says that the frame is found by it.
//!
//! NativeAOT's RhpCallCatchFunclet, RhpCallFinallyFunclet and RhpCallFilterFunclet do this (Runtime/arm64/
//! ExceptionHandling.S). The stack pointer is as it was, so it leads to the frame.

/// Number of the frame pointer and of the stack pointer in instructions.
const FP: u32 = 29;
const SP: u32 = 31;

/// Longest code that is decoded, in instructions. The helpers have fewer than 100.
pub(super) const MAX_CODE: usize = 256;

/// Returns the distance from the stack pointer after `code` to the frame pointer that the function had set up. `code`
/// begins at a function's start. `None` if the function still has that frame pointer, or had none.
pub(super) fn distance(code: &[u32]) -> Option<u64> {
    // From the stack pointer to the frame pointer.
    let mut set_up: Option<i64> = None;
    let mut replaced = false;
    for &word in code {
        let (to, from) = (word & 31, word >> 5 & 31);
        if let Some(bytes) = immediate(word) {
            if to == FP && from == SP {
                (set_up, replaced) = (Some(bytes), false);
            } else if to == SP && from == SP {
                // add sp, sp, #n: the frame pointer is nearer.
                set_up = set_up.map(|distance| distance.saturating_sub(bytes));
            }
            continue;
        }
        if let Some(bytes) = writes_back(word).filter(|_| from == SP) {
            set_up = set_up.map(|distance| distance.saturating_sub(bytes));
        }
        // A load through the stack pointer restores a saved value.
        if loads(word, FP) && from != SP && set_up.is_some() {
            replaced = true;
        }
    }
    set_up.filter(|_| replaced).and_then(|distance| u64::try_from(distance).ok())
}

/// The number that `add` or `sub` of 64 bits adds to a register.
fn immediate(word: u32) -> Option<i64> {
    let bytes = i64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
    match word >> 23 {
        0x122 => Some(bytes),
        0x1a2 => Some(-bytes),
        _ => None,
    }
}

/// What a load or store of a pair or of one register adds to its base register.
fn writes_back(word: u32) -> Option<i64> {
    match word >> 22 {
        // stp and ldp of 64 bits: behind and before the access. Also of vector registers, with 8 or 16 bytes each.
        0x2a2 | 0x2a3 | 0x2a6 | 0x2a7 => Some(signed(word >> 15, 7) * 8),
        0x1b2 | 0x1b3 | 0x1b6 | 0x1b7 => Some(signed(word >> 15, 7) * 8),
        0x2b2 | 0x2b3 | 0x2b6 | 0x2b7 => Some(signed(word >> 15, 7) * 16),
        // str and ldr of 64 bits.
        0x3e0 | 0x3e1 if word >> 21 & 1 == 0 && word >> 10 & 1 == 1 => Some(signed(word >> 12, 9)),
        _ => None,
    }
}

/// Whether the instruction loads the register of 64 bits from memory.
fn loads(word: u32, register: u32) -> bool {
    let (first, second) = (word & 31, word >> 10 & 31);
    match word >> 22 {
        // ldr with an offset; ldr and ldur with a signed offset or a register.
        0x3e5 | 0x3e1 => first == register,
        0x2a3 | 0x2a5 | 0x2a7 => first == register || second == register,
        _ => false,
    }
}

/// The lowest bits of a word as a signed number.
fn signed(word: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from((word << unused) as i32 >> unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// stp x29, x30, [sp, #-96]!; stp x19, x20, [sp, #16]; mov x29, sp; sub sp, sp, #0x70
    const HEAD: [u32; 4] = [0xa9ba_7bfd, 0xa901_53f3, 0x9100_03fd, 0xd101_c3ff];
    /// ldr x12, [x2, #8]; ldr x29, [x12]; blr x1
    const CALL: [u32; 3] = [0xf940_044c, 0xf940_019d, 0xd63f_0020];

    #[test]
    fn the_stack_pointer_leads_to_a_replaced_frame() {
        assert_eq!(distance(&[&HEAD[..], &CALL].concat()), Some(0x70));
        // stp d8, d9, [sp, #-16]! and str x4, [sp, #-16]! behind it.
        let more = [0x6dbf_27e8, 0xf81f_0fe4];
        assert_eq!(distance(&[&HEAD[..], &more, &CALL].concat()), Some(0x90));
        // ldp x29, x30, [sp], #96 restores it; a function that sets it up only.
        assert_eq!(distance(&[&HEAD[..], &[0xa8c6_7bfd]].concat()), None);
        assert_eq!(distance(&HEAD), None);
        assert_eq!(distance(&CALL), None);
    }
}
