//! Notes as producers write them (linux/elfcore.h, fs/binfmt_elf.c), and notes
//! with false sizes.

/// A note of any owner, type and content.
pub fn note(owner: &str, kind: u32, desc: &[u8]) -> Vec<u8> {
    sized(owner.len() as u32 + 1, desc.len() as u32, owner, kind, desc)
}

/// A note whose header states other sizes than it has.
pub fn sized(name_size: u32, desc_size: u32, owner: &str, kind: u32, desc: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for v in [name_size, desc_size, kind] {
        out.extend(v.to_le_bytes());
    }
    out.extend(owner.bytes());
    out.resize(12 + (owner.len() + 1).next_multiple_of(4), 0);
    out.extend(desc);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// NT_PRSTATUS of x86_64: 336 bytes, registers from byte 112.
pub fn prstatus_x86_64(tid: u32, signal: u16, sp: u64, ip: u64, fs_base: u64) -> Vec<u8> {
    note("CORE", 1, &status(336, tid, signal, &[(19, sp), (16, ip), (21, fs_base)]))
}

/// NT_PRSTATUS of x86_64 with these registers, by index in `user_regs_struct`.
pub fn prstatus_with(tid: u32, registers: &[(usize, u64)]) -> Vec<u8> {
    note("CORE", 1, &status(336, tid, 0, registers))
}

/// NT_PRSTATUS of aarch64: 392 bytes, x0..x30, sp, pc from byte 112.
#[allow(dead_code, reason = "no test makes such a core at present")]
pub fn prstatus_aarch64(tid: u32, signal: u16, sp: u64, pc: u64) -> Vec<u8> {
    note("CORE", 1, &status(392, tid, signal, &[(31, sp), (32, pc)]))
}

/// NT_PRSTATUS of aarch64 with these registers: x0..x30, sp, pc.
pub fn prstatus_aarch64_with(tid: u32, registers: &[(usize, u64)]) -> Vec<u8> {
    note("CORE", 1, &status(392, tid, 0, registers))
}

/// NT_ARM_PAC_MASK: the bits of the signature in addresses of data and of code.
pub fn pac_mask(mask: u64) -> Vec<u8> {
    note("LINUX", 0x406, &[mask.to_le_bytes(), mask.to_le_bytes()].concat())
}

fn status(len: usize, tid: u32, signal: u16, registers: &[(usize, u64)]) -> Vec<u8> {
    let mut desc = vec![0u8; len];
    desc[12..14].copy_from_slice(&signal.to_le_bytes());
    desc[32..36].copy_from_slice(&tid.to_le_bytes());
    for &(i, value) in registers {
        desc[112 + 8 * i..120 + 8 * i].copy_from_slice(&value.to_le_bytes());
    }
    desc
}

/// NT_ARM_TLS: tpidr_el0 of the thread in the preceding NT_PRSTATUS.
#[allow(dead_code, reason = "no test makes such a core at present")]
pub fn arm_tls(tpidr: u64) -> Vec<u8> {
    note("LINUX", 0x401, &tpidr.to_le_bytes())
}

/// NT_PRPSINFO: 136 bytes. Name and arguments are cut to fit.
pub fn prpsinfo(pid: u32, name: &str, args: &str) -> Vec<u8> {
    let mut desc = [0u8; 136];
    desc[24..28].copy_from_slice(&pid.to_le_bytes());
    desc[28..32].copy_from_slice(&1u32.to_le_bytes());
    for (at, room, text) in [(40, 16, name), (56, 80, args)] {
        let n = text.len().min(room);
        desc[at..at + n].copy_from_slice(&text.as_bytes()[..n]);
    }
    note("CORE", 3, &desc)
}

/// NT_SIGINFO: 128 bytes.
pub fn siginfo(signo: i32, code: i32, addr: u64) -> Vec<u8> {
    let mut desc = [0u8; 128];
    desc[0..4].copy_from_slice(&signo.to_le_bytes());
    desc[8..12].copy_from_slice(&code.to_le_bytes());
    desc[16..24].copy_from_slice(&addr.to_le_bytes());
    note("CORE", 0x5349_4749, &desc)
}

/// NT_AUXV, terminated by AT_NULL.
pub fn auxv(entries: &[(u64, u64)]) -> Vec<u8> {
    let all = entries.iter().chain(&[(0, 0)]);
    let desc: Vec<u8> = all.flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()]).flatten().collect();
    note("CORE", 6, &desc)
}

/// NT_FILE: (start, end, offset in pages of `page`, path).
pub fn files(page: u64, list: &[(u64, u64, u64, &str)]) -> Vec<u8> {
    files_counted(list.len() as u64, page, list)
}

/// NT_FILE that claims to have `count` entries.
pub fn files_counted(count: u64, page: u64, list: &[(u64, u64, u64, &str)]) -> Vec<u8> {
    let mut desc: Vec<u8> = [count, page].into_iter().flat_map(u64::to_le_bytes).collect();
    for &(start, end, offset, _) in list {
        desc.extend([start, end, offset].into_iter().flat_map(u64::to_le_bytes));
    }
    for (.., path) in list {
        desc.extend(path.bytes());
        desc.push(0);
    }
    note("CORE", 0x4649_4c45, &desc)
}

/// The note by which gdb 13 and later can be recognised.
pub fn gdb() -> Vec<u8> {
    note("GDB", 0xff00_0000, b"x86_64\0")
}
