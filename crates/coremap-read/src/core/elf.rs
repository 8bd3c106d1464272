//! ELF header and program headers of a core, and the state of each address's bytes.
//!
//! Structures follow the System V ABI, "ELF-64 Object File Format". PN_XNUM is described in elf(5): `e_phnum == 0xffff`
//! moves the count to `sh_info` of section header 0. The kernel and createdump write this for more than 65,534
//! segments.

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header as eh;
use goblin::elf::program_header as ph;
use goblin::elf::section_header::SectionHeader;
use std::cmp::Reverse;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::core::written;
use crate::diag::{Diagnostics, WarningCode};
use crate::limits;
use crate::range_map::RangeMap;
use crate::targets::{Arch, Perms, Piece, PieceState, Reads, Truncation};
use crate::units::exact;

/// Value of `e_phnum` that refers to section header 0.
const PN_XNUM: u16 = 0xffff;

/// A PT_LOAD, cut to the limits of the address space.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Address range (`p_vaddr`, `p_memsz`).
    pub range: AddrRange,
    /// File offset of its bytes.
    pub offset: u64,
    /// Bytes in the file according to the header (`p_filesz`), at most the length of the range.
    pub file_size: u64,
    /// Bytes of these that are really in the file.
    pub present: u64,
    /// Access.
    pub perms: Perms,
    /// `p_flags`
    pub flags: u32,
    /// Start of the mapping that it is a part of. This is its own start, unless `p_paddr` of a shrunk core says
    /// otherwise.
    pub mapping: Addr,
}

/// Why a file is not a supported core.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file does not begin with `\x7fELF`.
    #[error("not an ELF file{}", hint(.0))]
    NotElf(String),
    /// The read of the ELF header failed.
    #[error("the ELF header could not be read")]
    Unreadable,
    /// The file is shorter than an ELF header.
    #[error("cut off: the file has only {0} bytes, fewer than an ELF header (64)")]
    Short(usize),
    /// EI_CLASS is not ELFCLASS64.
    #[error("a 32-bit ELF file; coremap reads 64-bit cores")]
    Not64,
    /// EI_DATA is not ELFDATA2LSB.
    #[error("a big-endian ELF file; coremap reads little-endian cores")]
    BigEndian,
    /// `e_type` is not ET_CORE.
    #[error("an ELF {0}, not a core dump")]
    NotCore(&'static str),
    /// The machine is neither x86_64 nor aarch64.
    #[error("a core of {}; coremap reads x86_64 and aarch64", machine_name(*.0))]
    Machine(u16),
    /// A core of another system, or of no process.
    #[error("{0}; coremap reads cores of Linux processes")]
    Foreign(&'static str),
    /// `e_phentsize` is not the size of an ELF64 program header.
    #[error("its program headers have {0} bytes each; those of ELF64 have 56")]
    EntrySize(u16),
}

fn hint(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!(": it looks like {what}") }
}

/// Name of a 64-bit little-endian machine, as `uname -m` prints it. Other classes are refused before.
fn machine_name(machine: u16) -> String {
    let name = match machine {
        eh::EM_PPC64 => "ppc64le",
        eh::EM_RISCV => "riscv64",
        eh::EM_LOONGARCH => "loongarch64",
        eh::EM_MIPS => "mips64",
        eh::EM_IA_64 => "ia64",
        other => return format!("an unknown machine (ELF e_machine {other})"),
    };
    name.to_owned()
}

/// Returns the system of a core from another system than Linux, by EI_OSABI (System V ABI, "ELF Header").
fn system_by_abi(abi: u8) -> Option<&'static str> {
    Some(match abi {
        eh::ELFOSABI_FREEBSD => "a core of FreeBSD",
        eh::ELFOSABI_NETBSD => "a core of NetBSD",
        eh::ELFOSABI_OPENBSD => "a core of OpenBSD",
        eh::ELFOSABI_SOLARIS => "a core of Solaris or illumos",
        eh::ELFOSABI_HPUX => "a core of HP-UX",
        _ => return None,
    })
}

/// Returns the source of a core that is not from a Linux process, by the owner of a note.
///
/// FreeBSD: sys/kern/imgact_elf.c. NetBSD: sys/kern/core_elf32.c, which appends the thread's number to the name.
/// OpenBSD: sys/kern/exec_elf.c. Linux kernels: VMCOREINFO (kernel/crash_core.c). QEMU: target/*/arch_dump.c.
pub(super) fn system_by_owner(owner: &[u8]) -> Option<&'static str> {
    Some(match owner {
        b"FreeBSD" => "a core of FreeBSD",
        [b'N', b'e', b't', b'B', b'S', b'D', b'-', b'C', b'O', b'R', b'E', ..] => "a core of NetBSD",
        [b'O', b'p', b'e', b'n', b'B', b'S', b'D', ..] => "a core of OpenBSD",
        b"QEMU" => "memory of a virtual machine, written by QEMU (dump-guest-memory)",
        b"VMCOREINFO" => "memory of a Linux kernel (vmcore)",
        b"Xen" => "memory of a Xen domain",
        _ => return None,
    })
}

/// Describes a minidump by its system (MINIDUMP_SYSTEM_INFO.PlatformId; Breakpad's minidump_format.h). Breakpad and
/// Crashpad write minidumps on all systems.
fn minidump(file: &[u8]) -> &'static str {
    /// MINIDUMP_HEADER: number of streams, offset of their directory. An entry: type, size, offset.
    const STREAMS: usize = 8;
    const DIRECTORY: usize = 12;
    const ENTRY: usize = 12;
    const SYSTEM_INFO: u32 = 7;
    const PLATFORM: usize = 20;
    let platform = || {
        let count = (bytes::u32_at(file, STREAMS)? as usize).min(limits::MAX_MINIDUMP_STREAMS);
        let at = bytes::u32_at(file, DIRECTORY)? as usize;
        let entry = |i: usize| file.get(at.checked_add(i * ENTRY)?..);
        let system = (0..count).map_while(entry).find(|e| bytes::u32_at(e, 0) == Some(SYSTEM_INFO))?;
        bytes::u32_at(file, (bytes::u32_at(system, 8)? as usize).checked_add(PLATFORM)?)
    };
    match platform() {
        Some(0..=3) => "a Windows minidump; coremap reads Linux cores",
        Some(0x8201) => "a Breakpad or Crashpad minidump of Linux, not a core; minidump-2-core converts it",
        Some(0x8203) => "a Breakpad or Crashpad minidump of Android, not a core",
        Some(0x8101 | 0x8102) => "a Breakpad or Crashpad minidump of macOS or iOS; coremap reads Linux cores",
        _ => "a minidump (Windows, Breakpad or Crashpad), not a core",
    }
}

/// Guesses the format of a file that is not ELF, for the error message.
fn looks_like(head: &[u8]) -> &'static str {
    match head {
        [b'M', b'D', b'M', b'P', ..] => minidump(head),
        [b'P', b'A', b'G', b'E', b'D', b'U', ..] => "a Windows kernel dump; coremap reads Linux cores",
        [b'M', b'Z', ..] => "a Windows program",
        [0xcf, 0xfa, 0xed, 0xfe, ..] => "a macOS Mach-O file; coremap reads Linux cores",
        [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..] => "perf's own data (perf.data), not a core",
        [b'N', b'e', b't', b't', b'r', b'a', b'c', b'e', ..] => "a dotnet-trace recording (.nettrace), not a core",
        [b'J', b'A', b'V', b'A', b' ', b'P', ..] => "a Java heap dump (HPROF), not a core",
        [b'K', b'D', b'U', b'M', b'P', ..] | [b'D', b'I', b'S', b'K', b'D', b'U', b'M', b'P', ..] => {
            "memory of a Linux kernel, compressed by makedumpfile (kdump), not a process's core"
        }
        [b'm', b'a', b'k', b'e', b'd', b'u', b'm', b'p', b'f', b'i', b'l', b'e', ..] => {
            "memory of a Linux kernel in makedumpfile's flattened format, not a process's core"
        }
        // IMG_COMMON_MAGIC and IMG_SERVICE_MAGIC (criu/include/magic.h).
        [0x19, 0x43, 0x56, 0x54, ..] | [0x40, 0x59, 0x10, 0x55, ..] => "an image of CRIU (a checkpoint), not a core",
        [b'Q', b'E', b'V', b'M', ..] => "the saved state of a QEMU machine, not a process's core",
        [b'B', b'Z', b'h', ..] => "bzip2; decompress it first",
        [b'P', b'K', 3, 4, ..] => "a zip archive; extract the core first",
        [b'{', ..] | [b'[', ..] => "JSON",
        // dotnet-gcdump writes its graph with FastSerialization.
        _ if head.get(4..5) == Some(b"!") && head.get(5..22) == Some(b"FastSerialization") => {
            "a dotnet-gcdump file (.gcdump), not a core"
        }
        // A text may precede NUL or control characters.
        _ if is_text(head) => "text",
        _ if head.get(257..262) == Some(b"ustar") => "a tar archive; extract the core first",
        _ => "",
    }
}

/// Whether a file begins with text.
fn is_text(head: &[u8]) -> bool {
    let head = head.get(..head.len().min(512)).unwrap_or_default();
    let odd = |b: &u8| b.is_ascii_control() && !b.is_ascii_whitespace() && *b != 0x1b;
    !head.is_empty()
        && !head.iter().any(odd)
        && String::from_utf8_lossy(head).chars().filter(|&c| c == '\u{fffd}').count() <= 1
}

/// The headers of a core.
pub struct Headers {
    /// Machine type.
    pub arch: Arch,
    /// EI_OSABI. createdump writes 3, kernel and gcore 0.
    pub os_abi: u8,
    /// Whether the file has section headers (gcore writes them).
    pub has_sections: bool,
    /// PT_LOADs, in header order.
    pub segments: Vec<Segment>,
    /// File ranges of PT_NOTE segments: offset and size.
    pub notes: Vec<(u64, u64)>,
    /// Bytes missing at the end of the file, if any.
    pub truncation: Option<Truncation>,
}

/// Whether a file that begins with these bytes may be a core that coremap reads.
pub(super) fn begins_as_core(head: &[u8]) -> bool {
    elf_header(head).is_ok()
}

/// Reads the ELF header. Fails if the file is not a core of a supported machine.
fn elf_header(file: &[u8]) -> Result<(eh::Header, Arch), HeaderError> {
    if file.get(..4) != Some(eh::ELFMAG) {
        return Err(HeaderError::NotElf(looks_like(file).to_owned()));
    }
    if file.len() < eh::header64::SIZEOF_EHDR {
        return Err(HeaderError::Short(file.len()));
    }
    if file[eh::EI_CLASS] != eh::ELFCLASS64 {
        return Err(HeaderError::Not64);
    }
    if file[eh::EI_DATA] != eh::ELFDATA2LSB {
        return Err(HeaderError::BigEndian);
    }
    let mut raw = [0u8; eh::header64::SIZEOF_EHDR];
    raw.copy_from_slice(&file[..eh::header64::SIZEOF_EHDR]);
    let header: eh::Header = goblin::elf::Elf::parse_header(&raw).map_err(|_| HeaderError::Short(file.len()))?;
    if header.e_type != eh::ET_CORE {
        return Err(HeaderError::NotCore(match header.e_type {
            eh::ET_REL => "object file",
            eh::ET_EXEC | eh::ET_DYN => "program or library",
            _ => "file of another type",
        }));
    }
    if let Some(system) = system_by_abi(file[eh::EI_OSABI]) {
        return Err(HeaderError::Foreign(system));
    }
    let arch = match header.e_machine {
        eh::EM_X86_64 => Arch::X86_64,
        eh::EM_AARCH64 => Arch::Aarch64,
        other => return Err(HeaderError::Machine(other)),
    };
    Ok((header, arch))
}

/// Reads the ELF header and the program headers. Errors after the ELF header become diagnostics, so that a truncated
/// core still opens.
///
/// # Errors
/// [`HeaderError`], if the file is not a supported core.
pub fn read_headers(file: &[u8], reads: &Reads, diag: &Diagnostics) -> Result<Headers, HeaderError> {
    if reads.fails() {
        return Err(HeaderError::Unreadable);
    }
    let (header, arch) = elf_header(file)?;
    let entry = ph::program_header64::SIZEOF_PHDR as u64;
    if header.e_phnum > 0 && u64::from(header.e_phentsize) != entry {
        return Err(HeaderError::EntrySize(header.e_phentsize));
    }
    let ctx = Ctx::new(Container::Big, Endian::Little);
    let promised = segment_count(file, &header, ctx, reads, diag);
    let room = (file.len() as u64).saturating_sub(header.e_phoff) / entry;
    let count = promised.min(room).min(limits::MAX_SEGMENTS as u64) as usize;
    if (count as u64) < promised {
        let table = header.e_phoff.saturating_add(promised.saturating_mul(entry));
        diag.partial(
            WarningCode::HeadersCut,
            format!(
                "the core is cut off in its table of program headers: {count} of {promised} are in the file. The table alone \
                 needs {} bytes, and the file has {} bytes. All other segments and notes are missing",
                exact(table),
                exact(file.len() as u64)
            ),
        );
    }
    let parsed = match usize::try_from(header.e_phoff) {
        Ok(_) if count > 0 && reads.fails() => {
            diag.partial(
                WarningCode::Headers,
                format!("the program headers could not be read: all {promised} segments and notes are missing"),
            );
            Vec::new()
        }
        Ok(off) if count > 0 => ph::ProgramHeader::parse(file, off, count, ctx).unwrap_or_else(|e| {
            diag.partial(WarningCode::Headers, format!("the program headers can't be parsed: {e}"));
            Vec::new()
        }),
        _ => Vec::new(),
    };
    let mut headers = Headers {
        arch,
        os_abi: file[eh::EI_OSABI],
        has_sections: header.e_shoff != 0 && header.e_shnum > 1,
        segments: Vec::new(),
        notes: Vec::new(),
        truncation: None,
    };
    let has_kernel_flags = has_kernel_flags(&parsed);
    if has_kernel_flags {
        diag.note(
            WarningCode::KernelFlags,
            "the flags of the segments are the kernel's VM_* bits in place of PF_*; they were read as such",
        );
    }
    let size = file.len() as u64;
    let mut expected = header.e_phoff.saturating_add(promised.saturating_mul(entry));
    let mut missing = 0u64;
    for p in &parsed {
        match p.p_type {
            ph::PT_LOAD => {
                let mut segment = to_segment(p, size, diag);
                if has_kernel_flags && p.p_flags & vm::MAY != 0 {
                    segment.perms = kernel_perms(p.p_flags);
                    segment.flags = written::flags(segment.perms);
                }
                missing = missing.saturating_add(segment.file_size - segment.present);
                expected = expected.max(segment.offset.saturating_add(segment.file_size));
                headers.segments.push(segment);
            }
            ph::PT_NOTE => {
                expected = expected.max(p.p_offset.saturating_add(p.p_filesz));
                headers.notes.push((p.p_offset, p.p_filesz));
            }
            _ => {}
        }
    }
    if expected > size {
        headers.truncation = Some(Truncation { expected, actual: size, missing });
    }
    Ok(headers)
}

fn segment_count(file: &[u8], header: &eh::Header, ctx: Ctx, reads: &Reads, diag: &Diagnostics) -> u64 {
    if header.e_phnum != PN_XNUM {
        return u64::from(header.e_phnum);
    }
    let first = usize::try_from(header.e_shoff)
        .ok()
        .filter(|&off| off != 0 && off < file.len() && !reads.fails())
        .and_then(|off| SectionHeader::parse(file, off, 1, ctx).ok())
        .and_then(|sections| sections.first().map(|s| u64::from(s.sh_info)));
    first.unwrap_or_else(|| {
        diag.partial(
            WarningCode::HeadersCut,
            "the section header with the number of segments (more than 65,534) is missing",
        );
        u64::from(PN_XNUM)
    })
}

/// `vm_flags` of a mapping (include/linux/mm.h). READ and EXEC are swapped in `p_flags`.
mod vm {
    pub(super) const READ: u32 = 1;
    pub(super) const WRITE: u32 = 2;
    pub(super) const EXEC: u32 = 4;
    /// VM_MAYREAD, VM_MAYWRITE and VM_MAYEXEC. Every mapping has one of them, and ELF gives these bits no meaning.
    pub(super) const MAY: u32 = 0x70;
}

/// Whether the producer wrote `vm_flags` instead of `p_flags`. If only a few segments have such bits, they are damaged.
fn has_kernel_flags(headers: &[ph::ProgramHeader]) -> bool {
    let loads = || headers.iter().filter(|p| p.p_type == ph::PT_LOAD);
    loads().filter(|p| p.p_flags & vm::MAY != 0).count() > loads().count() / 2
}

fn kernel_perms(flags: u32) -> Perms {
    Perms { read: flags & vm::READ != 0, write: flags & vm::WRITE != 0, exec: flags & vm::EXEC != 0 }
}

fn to_segment(p: &ph::ProgramHeader, size: u64, diag: &Diagnostics) -> Segment {
    let range = AddrRange::sized(Addr::new(p.p_vaddr), p.p_memsz);
    if range.len() < p.p_memsz {
        diag.partial(
            WarningCode::SegmentOverflow,
            format!(
                "the segment at {} extends past the end of the address space; the \
                                                  excess is ignored",
                range.start
            ),
        );
    }
    if p.p_filesz > p.p_memsz {
        diag.partial(
            WarningCode::SegmentFilesz,
            format!("the segment at {} has more bytes in the file than in memory; the excess is ignored", range.start),
        );
    }
    let file_size = p.p_filesz.min(range.len());
    Segment {
        range,
        offset: p.p_offset,
        file_size,
        present: file_size.min(size.saturating_sub(p.p_offset)),
        perms: Perms::from_flags(p.p_flags),
        flags: p.p_flags,
        mapping: if p.p_paddr == 0 { range.start } else { Addr::new(p.p_paddr) },
    }
}

/// Disjoint, sorted pieces of the segments. Where segments overlap, one with bytes wins, then the earlier header.
pub fn pieces(segments: &[Segment], diag: &Diagnostics) -> RangeMap<Piece> {
    let mut parts: Vec<Piece> = Vec::with_capacity(segments.len());
    for (i, s) in segments.iter().enumerate() {
        let start = s.range.start;
        let bounds = [
            (0, s.present, PieceState::Dumped(s.offset)),
            (s.present, s.file_size, PieceState::Truncated),
            (s.file_size, s.range.len(), PieceState::NotDumped),
        ];
        for (from, to, state) in bounds {
            let range = AddrRange::new(start.saturating_add(from), start.saturating_add(to));
            if !range.is_empty() {
                parts.push(Piece { range, mapping: i as u32, state });
            }
        }
    }
    let map = RangeMap::resolve(
        &parts,
        |_, p| (p.range, (p.state.rank(), Reverse(p.mapping))),
        |range, p| {
            let state = match p.state {
                PieceState::Dumped(offset) => {
                    PieceState::Dumped(offset.saturating_add(range.start.since(p.range.start)))
                }
                other => other,
            };
            Piece { range, state, ..*p }
        },
    );
    let total = parts.iter().map(|p| p.range.len()).fold(0, u64::saturating_add);
    if map.covered() < total {
        diag.partial(
            WarningCode::SegmentsOverlap,
            format!("segments overlap by {} bytes; the first segment with bytes is used", total - map.covered()),
        );
    }
    map
}

/// Warns about pieces that share bytes of the file. No known dump tool writes such loads. In a crafted core, sixty
/// thousand of them over the same 8 MB claim 480 GB.
pub(super) fn warn_repeated(repeated: &RangeMap<AddrRange>, diag: &Diagnostics) {
    if repeated.is_empty() {
        return;
    }
    let bytes = repeated.iter().map(|r| r.len()).fold(0, u64::saturating_add);
    diag.partial(
        WarningCode::SegmentsShareBytes,
        format!(
            "{bytes} bytes of {} segments are bytes of the file that another segment has too. Scans read each byte of \
             the file once, at one of its addresses",
            repeated.len()
        ),
    );
}
