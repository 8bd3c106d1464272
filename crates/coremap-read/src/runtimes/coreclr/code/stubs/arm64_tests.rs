//! Stubs from thunktemplates.S, assembled by hand, with their data one page after the code.

use super::*;
use crate::memory::{Fault, FaultKind};
use crate::runtimes::coreclr::code::stubs::decode;
use crate::targets::Arch;

const CODE: u64 = 0xaaaa_0000_0000;
/// Size of a stub page in the test process. Others have 32 or 64 KiB.
const PAGE: u64 = 0x4000;

/// Words at CODE, then a page later a page whose word at n is n.
struct Lab(Vec<u32>);

impl Lab {
    fn byte(&self, addr: Addr) -> Option<u8> {
        let offset = addr.checked_since(Addr::new(CODE))?;
        let code = self.0.get(offset as usize / 4).map(|w| w.to_le_bytes()[offset as usize % 4]);
        let data = || offset.checked_sub(PAGE).filter(|n| *n < 0x100).map(|n| (n & !7).to_le_bytes()[n as usize % 8]);
        code.or_else(data)
    }
}

impl Memory for Lab {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        for (i, slot) in buf.iter_mut().enumerate() {
            let at = addr.saturating_add(i as u64);
            *slot = self.byte(at).ok_or(Fault { addr: at, kind: FaultKind::Unmapped })?;
        }
        Ok(())
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        (0..max).take_while(|i| self.byte(addr.saturating_add(*i)).is_some()).count() as u64
    }
}

/// `ldr x, label`, with the label `distance` bytes ahead.
fn ldr(register: u32, distance: i64) -> u32 {
    0x5800_0000 | ((distance / 4) as u32 & 0x7_ffff) << 5 | register
}

fn br(register: u32) -> u32 {
    0xd61f_0000 | register << 5
}

const BRK: u32 = 0xd43e_0000;

/// Decodes the stub from each of its bytes.
fn found(code: &[u32], len: u64) -> Option<(StubKind, Option<u64>, Option<u64>)> {
    let lab = Lab(code.to_vec());
    let at = |ip: u64| decode(&lab, Arch::Aarch64, Addr::new(CODE + ip));
    let stub = at(0)?;
    assert_eq!(stub.start, Addr::new(CODE));
    assert!((0..len).all(|ip| at(ip) == Some(stub)), "from everywhere within it");
    assert_ne!(at(len), Some(stub));
    Some((stub.kind, stub.parameter.map(Addr::get), stub.target.map(Addr::get)))
}

#[test]
fn precodes() {
    let page = PAGE as i64;
    // ldr x10, Target; ldr x12, SecretParam; br x10
    let stub = [ldr(10, page + 8), ldr(12, page - 4), br(10), BRK, BRK, BRK];
    assert_eq!(found(&stub, 24), Some((StubKind::StubPrecode, Some(0), Some(8))));
    // ldr x11, Target; br x11; dmb ishld; ldr x12, MethodDesc; ldr x11, PrecodeFixupThunk; br x11
    let fixup = [ldr(11, page), br(11), 0xd503_39bf, ldr(12, page + 8 - 12), ldr(11, page + 16 - 16), br(11)];
    assert_eq!(found(&fixup, 24), Some((StubKind::FixupPrecode, Some(8), Some(0))));
    // The same without a barrier, as up to .NET 8.
    let old = [ldr(11, page), br(11), ldr(12, page + 8 - 8), ldr(11, page + 16 - 12), br(11), BRK];
    assert_eq!(found(&old, 24), Some((StubKind::FixupPrecode, Some(8), Some(0))));
    // mov x16, x0; mov x0, x1; mov x1, x16; ldr x16, target; br x16; its data
    let exchange = [0x9100_0010, 0x9100_0020, 0x9100_0201, ldr(16, 12), br(16), 0, 0x70, 0, 0x90, 0];
    assert_eq!(found(&exchange, 40), Some((StubKind::ThisPtrRetBufPrecode, Some(0x90), Some(0x70))));
}

#[test]
fn stubs_that_jump_on() {
    assert_eq!(found(&[ldr(16, 8), br(16), 0x50, 0], 16), Some((StubKind::Jump, None, Some(0x50))));
    let page = PAGE as i64;
    let count = [
        ldr(9, page),
        0x7940_012a,
        0x7100_054a,
        0x7900_012a,
        0x5400_0060,
        ldr(9, page + 8 - 20),
        br(9),
        ldr(10, page + 16 - 28),
        br(10),
        BRK,
    ];
    assert_eq!(found(&count, 40), Some((StubKind::CallCounting, None, Some(8))));
    let dispatch = [0xf940_000d, 0x1000_00e9, 0xa940_312a, 0xeb0a_01bf, 0x5400_0041, br(12), ldr(9, 24), br(9)];
    let data = [0x30, 0, 0x40, 0, 0x50, 0];
    assert_eq!(found(&[&dispatch[..], &data].concat(), 56), Some((StubKind::Dispatch, None, Some(0x40))));
}

#[test]
fn what_is_no_stub() {
    let page = PAGE as i64;
    for code in [
        // Other registers; a load from unmapped memory; a jump to another register.
        [ldr(10, page + 8), ldr(11, page), br(10), BRK, BRK, BRK],
        [ldr(10, page + 8), ldr(12, -8), br(10), BRK, BRK, BRK],
        [ldr(11, page), br(10), 0xd503_39bf, ldr(12, page), ldr(11, page), br(11)],
        [0x9100_0010, 0x9100_0020, 0x9100_0201, ldr(17, 12), br(16), 0],
        [ldr(9, page), 0x7940_012a, BRK, BRK, BRK, BRK],
    ] {
        assert_eq!(found(&code, 24), None, "{code:x?}");
    }
    assert_eq!(found(&[ldr(16, 8)], 4), None, "cut off");
}
