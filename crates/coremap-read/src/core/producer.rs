//! Detects which program wrote the core, and what that means for reading it.
//!
//! Habits of the producers, each seen in real cores (docs/producers.md has the table):
//! * **kernel** (fs/coredump.c): notes first; the crashing thread's NT_PRSTATUS leads, then PRPSINFO, SIGINFO, AUXV,
//!   FILE, then its other register sets, then the other threads. Every mapping is a PT_LOAD; what coredump_filter
//!   leaves out has p_filesz 0 or one page.
//! * **gcore** (gdb): notes last in the file, a section header for each segment, p_align 1, NT_FILE page size 1, a note
//!   of owner "GDB". Mappings it does not dump have no PT_LOAD at all and are known from NT_FILE only; PROT_NONE
//!   mappings are written as readable zeros.
//! * **createdump** (.NET): PRPSINFO, AUXV, FILE, then each thread's PRSTATUS; EI_OSABI 3; pr_cursig 0 (8.0) or SIGABRT
//!   in all threads (3.1); empty pr_psargs; a page at [`DIAG_PAGE`] that no process ever mapped. Mappings it skips
//!   (PROT_NONE, untouched) are absent; memfds are listed in NT_FILE by 8.0.33 and not by 10.0.14.
//! * **coremap** (`coremap dump`): like the kernel, but preceded by a note of its own that identifies it.

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::core::elf::Headers;
use crate::core::notes::Notes;
use crate::diag::{Diagnostics, WarningCode};
use crate::range_map::RangeMap;
use crate::targets::{DiagPage, Piece, PieceState, Producer, Reads};

/// Address of createdump's diagnostic page on 64-bit Linux (`SpecialDiagInfoAddress`,
/// src/coreclr/debug/createdump/specialdiaginfo.h).
pub const DIAG_PAGE: Addr = Addr::new(0x7fff_fff1_0000);

/// Length of that page in bytes.
pub const DIAG_PAGE_SIZE: u64 = 4096;

/// `SPECIAL_DIAGINFO_SIGNATURE`, the first bytes of the page.
const DIAG_SIGNATURE: &[u8] = b"DIAGINFOHEADER";

/// `SpecialDiagInfoHeader`: signature char[16], i32 version, u64 exception
/// record address, and from version 2 on u64 runtime base address.
mod diag_header {
    pub(super) const VERSION: usize = 16;
    pub(super) const EXCEPTION_RECORD: usize = 24;
    pub(super) const RUNTIME_BASE: usize = 32;
}

/// Finds and reads createdump's diagnostic page.
pub fn diag_page(file: &[u8], pieces: &RangeMap<Piece>, reads: &Reads, diag: &Diagnostics) -> Option<DiagPage> {
    let piece = pieces.at(DIAG_PAGE)?;
    let PieceState::Dumped(offset) = piece.state else { return None };
    let at = usize::try_from(offset.checked_add(DIAG_PAGE.since(piece.range.start))?).ok()?;
    if reads.fails() {
        diag.partial(
            WarningCode::ReadFailed,
            format!(
                "producer: {DIAG_PAGE}: the core file could not be read there; createdump may go unrecognized, and its \
                 diagnostic page counts as memory of the process"
            ),
        );
        return None;
    }
    let page = bytes::get(file, at, diag_header::RUNTIME_BASE + 8)?;
    if !page.starts_with(DIAG_SIGNATURE) {
        return None;
    }
    let version = bytes::i32_at(page, diag_header::VERSION)?;
    let pointer = |off| bytes::u64_at(page, off).filter(|&v| v != 0).map(Addr::new);
    Some(DiagPage {
        range: AddrRange::sized(DIAG_PAGE, DIAG_PAGE_SIZE).intersect(&piece.range)?,
        version,
        exception_record: pointer(diag_header::EXCEPTION_RECORD),
        runtime_base: if version >= 2 { pointer(diag_header::RUNTIME_BASE) } else { None },
    })
}

/// EI_OSABI that createdump writes (ELFOSABI_LINUX; kernel and gdb write 0).
const OS_ABI_LINUX: u8 = 3;

const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_SIGINFO: u32 = 0x5349_4749;

/// Detects the producer by its habits.
pub fn detect(headers: &Headers, notes: &Notes, diag_page: Option<&DiagPage>) -> Producer {
    if notes.own.dumped.is_some() {
        return Producer::Coremap;
    }
    let gdb_note = notes.order.iter().any(|(owner, _)| owner == "GDB");
    let first = notes.order.first().map(|(_, kind)| *kind);
    if diag_page.is_some() || (headers.os_abi == OS_ABI_LINUX && first == Some(NT_PRPSINFO)) {
        return Producer::Createdump;
    }
    // Older gdb writes no note of its own, but always byte offsets.
    if gdb_note || (notes.file_page_size == Some(1) && headers.has_sections) {
        return Producer::Gcore;
    }
    // qemu-user writes PRSTATUS, PRPSINFO, AUXV and neither SIGINFO nor FILE.
    let begins: Vec<u32> = notes.order.iter().take(3).map(|(_, kind)| *kind).collect();
    if begins == [NT_PRSTATUS, NT_PRPSINFO, NT_SIGINFO] && !headers.has_sections {
        return Producer::Kernel;
    }
    Producer::Unknown
}
