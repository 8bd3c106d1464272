//! Recognises calls and signal returns in machine code.
//!
//! Intel 64 architecture manual, volume 2, CALL; Arm architecture reference manual, BL and BLR.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::targets::Arch;

/// Opcode of `call rel32`.
const CALL_NEAR: u8 = 0xe8;
/// Opcode of group 5. Its extension 2 is `call r/m64`.
const GROUP_5: u8 = 0xff;

/// Size in bytes of the longest indirect call: opcode, ModRM, SIB, 32 bits of displacement.
const LONGEST: usize = 7;

/// Whether the instruction directly before `addr` is a call. `None` if its bytes cannot be read.
pub fn follows_call(memory: &dyn Memory, arch: Arch, addr: Addr) -> Option<bool> {
    match arch {
        Arch::X86_64 => {
            let mut code = [0; LONGEST];
            memory.read(addr.checked_sub(LONGEST as u64)?, &mut code).ok()?;
            Some(ends_in_call(&code))
        }
        Arch::Aarch64 => {
            let word = memory.u32(addr.checked_sub(4)?).ok()?;
            Some(addr.is_aligned(4) && is_branch_with_link(word))
        }
    }
}

/// Whether `addr` is a signal return: code that only makes the system call rt_sigreturn (glibc's __restore_rt, musl's,
/// and the kernel's own).
pub fn is_signal_return(memory: &dyn Memory, arch: Arch, addr: Addr) -> bool {
    let mut code = [0; 9];
    let forms: &[&[u8]] = match arch {
        // mov rax, 15 or mov eax, 15; syscall
        Arch::X86_64 => &[&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]],
        // mov x8, 139; svc 0
        Arch::Aarch64 => &[&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]],
    };
    let len = memory.readable(addr, code.len() as u64) as usize;
    let Some(part) = code.get_mut(..len) else { return false };
    memory.read(addr, part).is_ok() && forms.iter().any(|form| part.starts_with(form))
}

fn ends_in_call(code: &[u8; LONGEST]) -> bool {
    let [.., a, _, _, _, _] = code;
    if *a == CALL_NEAR {
        return true;
    }
    (2..=LONGEST).any(|len| {
        let instruction = code.get(LONGEST - len..).unwrap_or_default();
        matches!(instruction, [GROUP_5, modrm, rest @ ..] if modrm >> 3 & 7 == 2 && operand(*modrm, rest) == Some(rest.len()))
    })
}

/// Returns the bytes of SIB and displacement after a ModRM byte.
fn operand(modrm: u8, rest: &[u8]) -> Option<usize> {
    let (mode, rm) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(0);
    }
    let sib = rm == 4;
    let base = if sib { *rest.first()? & 7 } else { rm };
    let displacement = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(usize::from(sib) + displacement)
}

fn is_branch_with_link(word: u32) -> bool {
    // BL; BLR, also with pointer authentication.
    word >> 26 == 0b10_0101 || word & 0xfefff000 == 0xd63f0000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> bool {
        let mut all = [0x90; LONGEST];
        all[LONGEST - bytes.len()..].copy_from_slice(bytes);
        ends_in_call(&all)
    }

    #[test]
    fn calls_of_every_form() {
        assert!(code(&[0xe8, 1, 2, 3, 4]));
        assert!(code(&[0xff, 0xd0]), "call rax");
        assert!(code(&[0x41, 0xff, 0xd3]), "call r11");
        assert!(code(&[0xff, 0x50, 0x18]), "call [rax+0x18]");
        assert!(code(&[0xff, 0x15, 1, 2, 3, 4]), "call [rip+d]");
        assert!(code(&[0xff, 0x14, 0xc8]), "call [rax+rcx*8]");
        assert!(code(&[0xff, 0x94, 0xc8, 1, 2, 3, 4]), "call [rax+rcx*8+d]");
    }

    #[test]
    fn what_is_no_call() {
        assert!(!code(&[0xff, 0xe0]), "jmp rax");
        assert!(!code(&[0x0f, 0x05]), "syscall");
        assert!(!code(&[0xc3]));
        assert!(!code(&[0xe9, 1, 2, 3, 4]), "jmp");
        assert!(is_branch_with_link(0x9400_0001) && is_branch_with_link(0xd63f_0100));
        assert!(!is_branch_with_link(0xd65f_03c0), "ret");
    }
}
