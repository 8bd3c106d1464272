//! The memory operand of an x86_64 instruction.
//!
//! Intel 64 architecture manual, volume 2, chapter 2: prefixes, opcode maps, ModRM, SIB, displacement.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::targets::{Arch, Registers};

/// Maximum length of an instruction in bytes.
const LONGEST: u64 = 15;

/// Names of the general registers by number.
const REGISTERS: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// A memory operand with a base register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Base register.
    pub register: &'static str,
    /// Value of the base register.
    pub value: u64,
    /// Displacement in bytes.
    pub displacement: i64,
    /// Address of the operand: base, index and displacement.
    pub address: Addr,
}

/// Decodes the memory operand of the instruction at `ip`. `None` if its code cannot be read, or it has no such operand.
pub fn operand(memory: &dyn Memory, arch: Arch, ip: Addr, registers: &Registers) -> Option<Operand> {
    if arch != Arch::X86_64 {
        return None;
    }
    let code = memory.bytes(ip, usize::try_from(memory.readable(ip, LONGEST)).ok()?).ok()?;
    decode(&code, &|name| registers.get(name))
}

fn decode(code: &[u8], value_of: &dyn Fn(&str) -> Option<u64>) -> Option<Operand> {
    let prefixes = code.iter().take_while(|b| [0x66, 0xf2, 0xf3, 0xf0, 0x2e].contains(*b)).count();
    let mut rest = code.get(prefixes..)?;
    let mut rex = 0;
    match *rest.first()? {
        // The base of the segment is unknown.
        0x64 | 0x65 => return None,
        first @ 0x40..=0x4f => {
            rex = first;
            rest = rest.get(1..)?;
        }
        _ => {}
    }
    match *rest.first()? {
        // VEX: the bits that replace REX are inverted.
        0xc4 => {
            rex = !rest.get(1)? >> 5 & 7;
            rest = rest.get(4..)?;
        }
        0xc5 => rest = rest.get(3..)?,
        0x0f => {
            let three = [0x38, 0x3a].contains(rest.get(1)?);
            rest = rest.get(if three { 3 } else { 2 }..)?;
        }
        // push and pop of a register, immediate moves, call and jump: no ModRM.
        0x50..=0x5f | 0x68 | 0x6a | 0x70..=0x7f | 0x90..=0x9f | 0xa0..=0xaf | 0xb0..=0xbf | 0xc2 | 0xc3 => return None,
        0xc8..=0xcf | 0xe0..=0xef | 0xf4 => return None,
        _ => rest = rest.get(1..)?,
    }
    let modrm = *rest.first()?;
    let (mode, low) = (modrm >> 6, modrm & 7);
    // The operand is a register, or relative to the instruction pointer.
    if mode == 3 || mode == 0 && low == 5 {
        return None;
    }
    let mut after = rest.get(1..)?;
    let (mut base, mut index) = (low | (rex & 1) << 3, 0);
    if low == 4 {
        let sib = *after.first()?;
        after = after.get(1..)?;
        if mode == 0 && sib & 7 == 5 {
            return None;
        }
        base = (sib & 7) | (rex & 1) << 3;
        let number = (sib >> 3 & 7) | (rex & 2) << 2;
        if number != 4 {
            index = value_of(REGISTERS.get(usize::from(number))?)? << (sib >> 6);
        }
    }
    let displacement = match mode {
        1 => i64::from(*after.first()? as i8),
        2 => i64::from(crate::bytes::i32_at(after, 0)?),
        _ => 0,
    };
    let register = REGISTERS.get(usize::from(base))?;
    let value = value_of(register)?;
    let address = Addr::new(value).wrapping_add(index).wrapping_offset(displacement);
    Some(Operand { register, value, displacement, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assembled by GNU as 2.40. rdi is 0x1000, rax 0x20, r12 0x3000; all others are unknown.
    #[test]
    fn operands_of_instructions() {
        let value = |name: &str| match name {
            "rdi" => Some(0x1000),
            "rax" => Some(0x20),
            "r12" => Some(0x3000),
            _ => None,
        };
        /// Code of an instruction. `Some`: the register and address that it uses.
        type Case<'a> = (&'a [u8], Option<(&'a str, u64)>);
        let cases: [Case<'_>; 9] = [
            (&[0x8b, 0x47, 0x18], Some(("rdi", 0x1018))), // mov eax, [rdi+24]
            (&[0x83, 0x00, 0x01], Some(("rax", 0x20))),   // add dword [rax], 1
            (&[0x49, 0x8b, 0x44, 0x24, 0xf8], Some(("r12", 0x2ff8))), // mov rax, [r12-8]
            (&[0x8b, 0x04, 0x87], Some(("rdi", 0x1080))), // mov eax, [rdi+rax*4]
            (&[0x0f, 0xb6, 0x87, 0x00, 0x01, 0, 0], Some(("rdi", 0x1100))), // movzx eax, byte [rdi+256]
            (&[0xf0, 0x0f, 0xb1, 0x17], Some(("rdi", 0x1000))), // lock cmpxchg [rdi], edx
            (&[0xc5, 0xfd, 0x6f, 0x07], Some(("rdi", 0x1000))), // vmovdqa ymm0, [rdi]
            (&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], None),   // mov rax, [rip+16]
            (&[0x89, 0xc7], None),                        // mov edi, eax
        ];
        for (code, wanted) in cases {
            let found = decode(code, &value).map(|operand| (operand.register, operand.address.get()));
            assert_eq!(found, wanted, "{code:x?}");
            for cut in 0..code.len() {
                let _ = decode(&code[..cut], &value);
            }
        }
    }
}
