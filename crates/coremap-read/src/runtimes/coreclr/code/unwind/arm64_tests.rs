//! Expected values follow from each prolog's instructions, which the tests list. Codes of documented examples are from
//! "ARM64 exception handling".

use super::*;
use crate::memory::FaultKind;
use crate::targets::Arch;

/// Addresses of the image, its code and the stack in these tests.
const BASE: u64 = 0x10_0000;
const CODE: u64 = BASE + 0x1000;
const STACK: u64 = 0x7000_0000;

/// Unwind data at BASE, and a stack whose word at STACK + n is n, with a signature in the upper bits.
struct Lab {
    data: Vec<u8>,
}

const SIGNATURE: u64 = 0x2a << 48;

impl Lab {
    fn part(&self, addr: Addr) -> Option<(Addr, Vec<u8>)> {
        let stack = || (0..0x200u64).flat_map(|i| ((i * 8) | SIGNATURE).to_le_bytes()).collect();
        let parts = [(BASE, self.data.clone()), (STACK, stack())];
        let mut parts = parts.into_iter().map(|(at, b)| (Addr::new(at), b));
        parts.find(|(at, b)| addr >= *at && addr.since(*at) < b.len() as u64)
    }
}

impl Memory for Lab {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        let fault = Fault { addr, kind: FaultKind::Unmapped };
        let (start, bytes) = self.part(addr).ok_or(fault)?;
        let from = addr.since(start) as usize;
        buf.copy_from_slice(bytes.get(from..from + buf.len()).ok_or(fault)?);
        Ok(())
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        self.part(addr).map_or(0, |(start, bytes)| (bytes.len() as u64 - addr.since(start)).min(max))
    }
}

/// Makes an .xdata record from length in instructions, epilogs (first instruction, first code) and codes.
fn record(length: u32, epilogs: &[(u32, u32)], codes: &[u8]) -> Vec<u8> {
    let mut codes = codes.to_vec();
    codes.resize(codes.len().next_multiple_of(4), 0xe4);
    let words = codes.len() as u32 / 4;
    let mut out = Vec::new();
    if words < 32 && epilogs.len() < 32 {
        out.extend((length | (epilogs.len() as u32) << 22 | words << 27).to_le_bytes());
    } else {
        out.extend(length.to_le_bytes());
        out.extend((epilogs.len() as u32 | words << 16).to_le_bytes());
    }
    out.extend(epilogs.iter().flat_map(|(at, index)| (at | index << 22).to_le_bytes()));
    out.extend(codes);
    out
}

/// Unwinds a frame at instruction `at` with the stack pointer at STACK + `sp`.
fn leave(data: &[u8], packed: u32, at: u64, sp: u64, exact: bool) -> Result<Regs, UnwindError> {
    let base = Addr::new(BASE);
    let begin = Addr::new(CODE);
    let lab = Lab { data: data.to_vec() };
    let length = function_length(&lab, base, packed)?;
    let entry = UnwindEntry { base, begin, end: begin.saturating_add(u64::from(length)), data: packed };
    let mut regs = Regs::new(Arch::Aarch64, Addr::new(CODE + 4 * at), Addr::new(STACK + sp));
    regs.set(LR, Some(0xbeef));
    regs.set(FP, Some(STACK + FRAME));
    unwind(&lab, &entry, &regs, exact)
}

/// Offset of the frame pointer from STACK in these tests.
const FRAME: u64 = 0x100;

fn caller(found: &Result<Regs, UnwindError>) -> Option<(u64, u64)> {
    found.as_ref().ok().map(|r| (r.ip().get(), r.sp().get() - STACK))
}

fn saved(found: &Result<Regs, UnwindError>, number: u16) -> Option<u64> {
    found.as_ref().ok().and_then(|r| Some(r.without_signature(r.get(number)?)))
}

/// stp x19,x20,[sp,#-0x10]!; stp fp,lr,[sp,#-0x90]!; mov fp,sp: the second documented example.
const BAR: [u8; 4] = [0xe1, 0x91, 0x22, 0xe4];

#[test]
fn a_frame_after_its_prolog() {
    let bar = record(100, &[(97, 1)], &BAR);
    // Whatever the stack pointer is by then, the frame pointer decides. x29 and the return address are there.
    let found = leave(&bar, 0, 50, 0x40, false);
    assert_eq!(caller(&found), Some((FRAME + 8, FRAME + 0xa0)));
    assert_eq!((saved(&found, FP), saved(&found, 19), saved(&found, 20)), {
        (Some(FRAME), Some(FRAME + 0x90), Some(FRAME + 0x98))
    });
    assert_eq!(saved(&found, 0), None, "a caller's scratch registers are lost");
    // The call before the first instruction of the epilog; then a call that is the function's last instruction.
    assert_eq!(caller(&leave(&bar, 0, 97, 0x40, false)), Some((FRAME + 8, FRAME + 0xa0)));
    let noreturn = record(60, &[], &BAR);
    assert_eq!(caller(&leave(&noreturn, 0, 60, 0x40, false)), Some((FRAME + 8, FRAME + 0xa0)));
}

#[test]
fn every_place_in_a_prolog_and_in_an_epilog() {
    let bar = record(100, &[(97, 1)], &BAR);
    let up = FRAME + 0xa0;
    // Nothing run yet; x19 and x20 stored; fp and lr stored; fp set.
    let prolog = [(0, up, 0xbeef), (1, up - 0x10, 0xbeef), (2, FRAME, FRAME + 8), (3, FRAME, FRAME + 8)];
    // ldp fp,lr,[sp],#0x90; ldp x19,x20,[sp],#0x10; ret
    let epilog = [(97, FRAME, FRAME + 8), (98, up - 0x10, 0xbeef), (99, up, 0xbeef)];
    for (at, sp, back) in prolog.into_iter().chain(epilog) {
        assert_eq!(caller(&leave(&bar, 0, at, sp, true)), Some((back, up)), "at {at}");
    }
}

/// sub sp,sp,#0x50; stp x19,lr,[sp]; four stores of arguments: the third documented example, by its words.
#[test]
fn the_documented_example_of_a_function_without_a_frame_pointer() {
    let words = [0x1840_0012u32, 0x0200_000f, 0xe3e3_e3e3, 0xe405_00d6, 0xe405_00d6];
    let data: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let lab = Lab { data: data.clone() };
    assert_eq!(function_length(&lab, Addr::new(BASE), 0), Ok(18 * 4));
    for (at, sp, back) in
        [(0, 0x50, 0xbeef), (1, 0, 0xbeef), (2, 0, 8), (6, 0, 8), (14, 0, 8), (15, 0, 8), (16, 0, 0xbeef)]
    {
        assert_eq!(caller(&leave(&data, 0, at, sp, true)), Some((back, 0x50)), "at {at}");
    }
    assert_eq!(caller(&leave(&data, 0, 17, 0x50, true)), Some((0xbeef, 0x50)), "at its return");
    assert_eq!(saved(&leave(&data, 0, 8, 0, false), 19), Some(0));
}

/// str x19,[sp,#-0x10]!; sub sp,sp,#0x810; stp fp,lr,[sp]; mov fp,sp: the first documented example, 0x416101ed.
#[test]
fn the_documented_example_of_packed_data() {
    let packed = 0x4161_01ed;
    assert_eq!(packed::length(packed) * 4, 492);
    let found = leave(&[], packed, 60, 0x40, false);
    assert_eq!(caller(&found), Some((FRAME + 8, FRAME + 0x820)));
    assert_eq!((saved(&found, FP), saved(&found, 19)), (Some(FRAME), Some(FRAME + 0x810)));
    let up = FRAME + 0x820;
    for (at, sp, back) in [(0, up, 0xbeef), (1, up - 0x10, 0xbeef), (2, FRAME, 0xbeef), (3, FRAME, FRAME + 8)] {
        assert_eq!(caller(&leave(&[], packed, at, sp, true)), Some((back, up)), "at {at}");
    }
    // ldp fp,lr,[sp]; add sp,sp,#0x810; ldr x19,[sp],#0x10; ret
    for (at, sp, back) in [(119, FRAME, FRAME + 8), (120, FRAME, 0xbeef), (121, up - 0x10, 0xbeef), (122, up, 0xbeef)] {
        assert_eq!(caller(&leave(&[], packed, at, sp, true)), Some((back, up)), "at {at}");
    }
}

/// Packed data with these fields.
fn packed(kind: u32, floats: u32, integers: u32, homes: u32, link: u32, frame: u32) -> u32 {
    kind | 100 << 2 | floats << 13 | integers << 16 | homes << 20 | link << 21 | (frame / 16) << 23
}

#[test]
fn packed_data_of_every_form() {
    // stp x19,x20,[sp,#-0x20]!; stp x21,lr,[sp,#0x10]; sub sp,sp,#0x30
    let found = leave(&[], packed(1, 0, 3, 0, 1, 0x50), 50, 0, false);
    assert_eq!((caller(&found), saved(&found, 20), saved(&found, 21)), (Some((0x48, 0x50)), Some(0x38), Some(0x40)));
    // stp x19,x20,[sp,#-0x30]!; str lr,[sp,#0x10]; stp d8,d9,[sp,#0x18]; stp d10,… ; sub sp,sp,#0x10
    let found = leave(&[], packed(1, 2, 2, 0, 1, 0x40), 50, 0, false);
    assert_eq!((caller(&found), saved(&found, 19)), (Some((0x20, 0x40)), Some(0x10)));
    // str lr,[sp,#-0x10]!
    assert_eq!(caller(&leave(&[], packed(1, 0, 0, 0, 1, 0x10), 50, 0, false)), Some((0, 0x10)));
    // stp d8,d9,[sp,#-0x10]!; a leaf function, so the return address is still in lr
    assert_eq!(caller(&leave(&[], packed(1, 1, 0, 0, 0, 0x10), 50, 0, true)), Some((0xbeef, 0x10)));
    // pacibsp; stp x19,x20,[sp,#-0x50]!; four stores of arguments; stp fp,lr,[sp,#-0x20]!; mov fp,sp
    let signed = packed(1, 0, 2, 1, 2, 0x70);
    assert_eq!(caller(&leave(&[], signed, 50, 0, false)), Some((FRAME + 8, FRAME + 0x70)));
    for (at, sp, back) in
        [(1, FRAME + 0x70, 0xbeef), (2, FRAME + 0x20, 0xbeef), (6, FRAME + 0x20, 0xbeef), (7, FRAME, FRAME + 8)]
    {
        assert_eq!(caller(&leave(&[], signed, at, sp, true)), Some((back, FRAME + 0x70)), "at {at}");
    }
    // sub sp,sp,#4080; sub sp,sp,#0x10
    assert_eq!(caller(&leave(&[], packed(1, 0, 0, 0, 0, 4096), 2, 0, true)), Some((0xbeef, 4096)));
    assert_eq!(caller(&leave(&[], packed(1, 0, 0, 0, 0, 4096), 1, 0x10, true)), Some((0xbeef, 4096)));
    // A part of a function: its prolog is elsewhere and has run completely.
    assert_eq!(caller(&leave(&[], packed(2, 0, 2, 0, 3, 0x20), 0, 0, true)), Some((FRAME + 8, FRAME + 0x20)));
    for bad in [packed(3, 0, 0, 0, 0, 0x10), packed(1, 0, 12, 0, 0, 0x100), packed(1, 7, 10, 1, 3, 0x10)] {
        assert_eq!(leave(&[], bad, 50, 0, true), Err(UnwindError::Bad), "{bad:#x}");
    }
}

#[test]
fn pairs_that_follow_a_pair() {
    // stp x19,x20,[sp,#-0x40]!; stp x21,x22,[sp,#0x10]; stp x23,x24,[sp,#0x20]; stp fp,lr,[sp,#0x30]
    let found = leave(&record(50, &[], &[0x46, 0xe6, 0xe6, 0x28, 0xe4]), 0, 20, 0, false);
    assert_eq!(caller(&found), Some((0x38, 0x40)));
    let all: Vec<_> = (19..=24).map(|n| saved(&found, n)).collect();
    assert_eq!(all, [0, 8, 0x10, 0x18, 0x20, 0x28].map(Some));
    // save_regp_x of x21 and a save_next, at the end of a longer prolog.
    let found = leave(&record(50, &[], &[0x44, 0xe6, 0xcc, 0x83 | 0x04, 0xe4]), 0, 20, 0, false);
    assert_eq!((caller(&found), saved(&found, 24)), (Some((0x28, 0x40)), Some(0x18)));
}

#[test]
fn single_registers_and_large_frames() {
    // str x21,[sp,#-0x20]!; str lr,[sp,#0x10]; sub sp,sp,#0x100; sub sp,sp,#0x400; sub of 24 bits
    let codes = [0xe0, 0, 0, 2, 0xc0, 0x40, 0x10, 0xd2, 0xc2, 0xd4, 0x43, 0xe4];
    let found = leave(&record(50, &[], &codes), 0, 20, 0, false);
    // 0x20 + 0x400 + 0x100, then lr at 0x10 in the 0x20 bytes that start with x21.
    assert_eq!((caller(&found), saved(&found, 21)), (Some((0x530, 0x540)), Some(0x520)));
    // add fp,sp,#0x10 instead of mov fp,sp; floats that allocate: stp d8,d9,[sp,#-0x30]!, str d10,[sp,#-0x10]!
    let codes = [0xe2, 2, 0x42, 0xde, 0x41, 0xda, 0x05, 0xd8, 0x02, 0xdc, 0x04, 0xe3, 0xe4];
    assert_eq!(caller(&leave(&record(50, &[], &codes), 0, 20, 0, false)), Some((FRAME + 8, FRAME - 0x10 + 0x40)));
    // save_any_reg: lr alone at 0x18; a pair with writeback
    let found = leave(&record(50, &[], &[0xe7, 30, 3, 0x02, 0xe4]), 0, 20, 0, false);
    assert_eq!(caller(&found), Some((0x18, 0x20)));
    let found = leave(&record(50, &[], &[0xe7, 0x60 | 29, 1, 0xe4]), 0, 20, 0, false);
    assert_eq!((caller(&found), saved(&found, FP)), (Some((8, 0x20)), Some(0)));
}

#[test]
fn a_part_whose_prolog_is_elsewhere_has_all_of_it_done() {
    let part = record(50, &[], &[0xe5, 0xe1, 0x91, 0x22, 0xe4]);
    assert_eq!(caller(&leave(&part, 0, 0, 0, true)), Some((FRAME + 8, FRAME + 0xa0)));
}

#[test]
fn one_epilog_at_the_end_in_the_header_and_counts_in_a_second_word() {
    let mut one = record(100, &[], &BAR);
    let first = u32::from_le_bytes([one[0], one[1], one[2], one[3]]) | header::ONE_EPILOG | 1 << 22;
    one.splice(..4, first.to_le_bytes());
    assert_eq!(caller(&leave(&one, 0, 98, FRAME + 0x90, true)), Some((0xbeef, FRAME + 0xa0)));
    assert_eq!(caller(&leave(&one, 0, 96, 0, true)), Some((FRAME + 8, FRAME + 0xa0)));
    let many: Vec<(u32, u32)> = (0..40).map(|i| (10 + 4 * i, 1)).collect();
    let many = record(200, &many, &BAR);
    assert_eq!(caller(&leave(&many, 0, 10 + 4 * 20 + 1, FRAME + 0x90, true)), Some((0xbeef, FRAME + 0xa0)));
    for (data, codes_at, words) in [(&one, 4, 1), (&many, 8 + 160, 1)] {
        let lab = Lab { data: data.clone() };
        let entry = UnwindEntry { base: Addr::new(BASE), begin: Addr::new(CODE), end: Addr::new(CODE), data: 0 };
        assert_eq!(gc_info_address(&lab, &entry), Ok(Addr::new(BASE + codes_at + 4 * words + 4)));
    }
}

#[test]
fn data_that_lies() {
    let refused = |codes: &[u8]| leave(&record(50, &[], codes), 0, 20, 0, true);
    for codes in [&[0xf8, 0xe4][..], &[0xe8], &[0xff, 0xff, 0xff, 0xff], &[0xe3, 0xe3, 0xe3, 0xe0], &[0xe7, 0x9e, 0]] {
        assert_eq!(refused(codes).err(), Some(UnwindError::Bad), "{codes:x?}");
    }
    assert_eq!(
        leave(&record(50, &[(10, 500)], &BAR), 0, 20, 0, true),
        Err(UnwindError::Bad),
        "an epilog without codes"
    );
    assert!(matches!(leave(&record(50, &[], &BAR)[..5], 0, 20, 0, true), Err(UnwindError::Memory(_))), "cut off");
    let mut version = record(50, &[], &BAR);
    version[2] |= 4;
    assert_eq!(leave(&version, 0, 20, 0, true), Err(UnwindError::Bad), "a version that is not known");
    let far = record(50, &[], &[0xe6; 40]);
    assert_eq!(leave(&far, 0, 45, 0, true), Err(UnwindError::Bad), "more pairs than there are registers");
    let mut regs = Regs::new(Arch::Aarch64, Addr::new(CODE + 80), Addr::new(STACK));
    regs.set(FP, Some(u64::MAX - 4));
    let lab = Lab { data: record(50, &[], &BAR) };
    let entry = UnwindEntry { base: Addr::new(BASE), begin: Addr::new(CODE), end: Addr::new(CODE + 200), data: 0 };
    assert!(unwind(&lab, &entry, &regs, false).is_err(), "a frame pointer to nowhere");
}
