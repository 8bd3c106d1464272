use super::*;
use crate::memory::{Fault, FaultKind};
use crate::registers::x86_64::{RBP, RBX};
use crate::targets::Arch;

/// Addresses of the image, its code and the stack in these tests.
const BASE: u64 = 0x10_0000;
const CODE: u64 = BASE + 0x1000;
const STACK: u64 = 0x7000_0000;

/// Unwind data at BASE, code at CODE, and a stack whose word at STACK + n is n.
struct Lab {
    data: Vec<u8>,
    code: Vec<u8>,
}

impl Lab {
    fn part(&self, addr: Addr) -> Option<(Addr, Vec<u8>)> {
        let stack = || (0..64u64).flat_map(|i| (i * 8).to_le_bytes()).collect();
        let parts = [(BASE, self.data.clone()), (CODE, self.code.clone()), (STACK, stack())];
        parts
            .into_iter()
            .map(|(at, b)| (Addr::new(at), b))
            .find(|(at, b)| addr >= *at && addr.since(*at) < b.len() as u64)
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

/// Makes an UNWIND_INFO of version 1.
fn info(flags: u8, prolog: u8, frame: u8, codes: &[u16]) -> Vec<u8> {
    let mut out = vec![1 | flags << 3, prolog, codes.len() as u8, frame];
    out.extend(codes.iter().flat_map(|c| c.to_le_bytes()));
    if !codes.len().is_multiple_of(2) {
        out.extend([0, 0]);
    }
    out
}

fn code(offset: u8, op: u8, info: u8) -> u16 {
    u16::from(offset) | u16::from(op) << 8 | u16::from(info) << 12
}

fn lab(data: Vec<u8>, code: &[u8]) -> (Lab, UnwindEntry) {
    let mut code = code.to_vec();
    code.resize(0x100, 0x90);
    let entry = UnwindEntry { base: Addr::new(BASE), begin: Addr::new(CODE), end: Addr::new(CODE + 0x100), data: 0 };
    (Lab { data, code }, entry)
}

/// Registers at `offset` in the code, with the stack pointer at STACK + `sp`.
fn at(offset: u64, sp: u64) -> Regs {
    Regs::new(Arch::X86_64, Addr::new(CODE + offset), Addr::new(STACK + sp))
}

fn caller(found: &Result<Regs, UnwindError>) -> Option<(u64, u64)> {
    found.as_ref().ok().map(|r| (r.ip().get(), r.sp().get() - STACK))
}

/// push rbp; push rbx; sub rsp, 0x18; lea rbp, [rsp+0x10]
fn framed() -> Vec<u8> {
    info(
        0,
        11,
        5 | 1 << 4,
        &[
            code(11, op::SET_FPREG, 0),
            code(6, op::ALLOC_SMALL, 2),
            code(2, op::PUSH_NONVOL, 3),
            code(1, op::PUSH_NONVOL, 5),
        ],
    )
}

#[test]
fn a_frame_after_its_prolog() {
    let (lab, entry) = lab(framed(), &[]);
    let mut regs = at(0x40, 0);
    // The stack pointer has moved since, so only the frame pointer is usable.
    regs.set(RBP, Some(STACK + 0x40 + 0x10));
    let found = unwind(&lab, &entry, &regs, false);
    // rbx at 0x58, rbp at 0x60, the return address at 0x68.
    assert_eq!(caller(&found), Some((0x68, 0x70)));
    assert_eq!(found.as_ref().ok().map(|r| (r.get(RBX), r.get(RBP))), Some((Some(0x58), Some(0x60))));
}

#[test]
fn every_place_in_a_prolog() {
    let (lab, entry) = lab(framed(), &[]);
    // Before the first push; after it; after both; after the allocation; after all.
    for (offset, sp) in [(0, 0x68), (1, 0x60), (2, 0x58), (6, 0x40), (11, 0x40)] {
        let mut regs = at(offset, sp);
        regs.set(RBP, Some(STACK + 0x50));
        let found = unwind(&lab, &entry, &regs, true);
        assert_eq!(caller(&found), Some((0x68, 0x70)), "at {offset}");
    }
}

#[test]
fn large_frames_and_saved_registers() {
    let codes = [
        code(20, op::SET_FPREG_LARGE, 0),
        2,
        0,
        code(12, op::SAVE_NONVOL, 3),
        4,
        code(8, op::SAVE_XMM128, 6),
        1,
        code(7, op::ALLOC_LARGE, 0),
        8,
        code(1, op::PUSH_NONVOL, 5),
    ];
    let (lab, entry) = lab(info(0, 20, 5, &codes), &[]);
    let mut regs = at(0x40, 0);
    regs.set(RBP, Some(STACK + 0x20));
    let found = unwind(&lab, &entry, &regs, false);
    // 0x40 bytes allocated, then rbp, then the return address; rbx at 0x20.
    assert_eq!(caller(&found), Some((0x48, 0x50)));
    assert_eq!(found.as_ref().ok().and_then(|r| r.get(RBX)), Some(0x20));
}

#[test]
fn a_piece_chained_to_its_function() {
    let mut data = info(CHAINED, 0, 0, &[code(4, op::PUSH_NONVOL, 3)]);
    // RUNTIME_FUNCTION of the whole function, whose data follows.
    let after = data.len() as u32 + 12;
    data.extend([0x1000u32, 0x1040, after].iter().flat_map(|w| w.to_le_bytes()));
    data.extend(info(0, 4, 0, &[code(4, op::ALLOC_SMALL, 0)]));
    let (lab, entry) = lab(data, &[]);
    // rbx, 8 bytes allocated, the return address.
    assert_eq!(caller(&unwind(&lab, &entry, &at(0x80, 0), true)), Some((0x10, 0x18)));
}

#[test]
fn a_chain_that_leads_to_itself_ends() {
    let mut data = info(CHAINED, 0, 0, &[]);
    data.extend([0u32; 3].iter().flat_map(|w| w.to_le_bytes()));
    let (lab, entry) = lab(data, &[]);
    assert_eq!(unwind(&lab, &entry, &at(0x10, 0), false), Err(UnwindError::Bad));
}

#[test]
fn epilogs() {
    // add rsp, 0x18; pop rbx; pop rbp; ret
    let body = [0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0xc3];
    let (lab, entry) = lab(framed(), &body);
    for (offset, sp) in [(0, 0x40), (4, 0x58), (5, 0x60), (6, 0x68)] {
        let found = unwind(&lab, &entry, &at(offset, sp), true);
        assert_eq!(caller(&found), Some((0x68, 0x70)), "at {offset}");
    }
}

#[test]
fn a_jump_out_is_an_epilog_and_one_within_is_none() {
    // pop rbp; jmp rel32
    let out = lab(framed(), &[0x5d, 0xe9, 0, 4, 0, 0]);
    assert_eq!(caller(&unwind(&out.0, &out.1, &at(0, 0x60), true)), Some((0x68, 0x70)));
    let within = lab(framed(), &[0x5d, 0xe9, 4, 0, 0, 0]);
    // Treated as offset 0 of the prolog: nothing was pushed.
    assert_eq!(caller(&unwind(&within.0, &within.1, &at(0, 0x60), true)), Some((0x60, 0x68)));
}

#[test]
fn data_that_lies() {
    let (all, entry) = lab(info(0, 4, 0, &[code(4, 13, 0)]), &[]);
    assert_eq!(unwind(&all, &entry, &at(0x40, 0), false), Err(UnwindError::Bad), "no such code");
    let (cut, entry) = lab(vec![1, 4, 200, 0], &[]);
    assert!(matches!(unwind(&cut, &entry, &at(0x40, 0), false), Err(UnwindError::Memory(_))), "codes past the end");
    let (short, entry) = lab(info(0, 4, 0, &[code(4, op::ALLOC_LARGE, 1)]), &[]);
    assert_eq!(unwind(&short, &entry, &at(0x40, 0), false), Err(UnwindError::Bad), "a code without its operand");
    let (framed, entry) = lab(framed(), &[]);
    assert_eq!(unwind(&framed, &entry, &at(0x40, 0), false), Err(UnwindError::Bad), "no frame pointer known");
    let mut far = at(0x40, 0);
    far.set(RBP, Some(u64::MAX - 4));
    assert!(unwind(&framed, &entry, &far, false).is_err(), "a frame pointer to nowhere");
}
