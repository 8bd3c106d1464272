//! Names of the program's thread-local variables.
//!
//! On x86_64 the program's own block is directly below the thread pointer (ELF Handling For Thread-Local Storage,
//! variant II), so a variable has the same distance from it in every thread.

use goblin::elf::{program_header as ph, section_header as sh, sym as st};

use crate::addr::Addr;
use crate::bytes;
use crate::image::elf;
use crate::image::identity;
use crate::image::symbols::sym;
use crate::limits;
use crate::native::symbols::demangle::demangle;
use crate::process::Process;
use crate::targets::{Arch, at};

/// Returns the name of the program's thread-local variable that is `below` bytes below the thread pointer, and the
/// offset in it.
pub fn thread_local(process: &Process, below: u64) -> Option<(String, u64)> {
    if process.arch() != Arch::X86_64 {
        return None;
    }
    let headers = Addr::new(process.auxv(at::PHDR)?);
    let module = process.modules.iter().find(|module| module.range.contains(headers))?;
    let mut files = identity::files_of(process.target(), module, &process.symbols);
    files.find_map(|file| variable(&file, below))
}

/// Finds the variable in a file: its name and the offset in it.
fn variable(file: &[u8], below: u64) -> Option<(String, u64)> {
    let (_, programs) = elf::file_headers(file)?;
    let block = programs.iter().find(|program| program.p_type == ph::PT_TLS)?;
    let place = block.p_memsz.checked_next_multiple_of(block.p_align.max(1))?.checked_sub(below)?;
    let sections = elf::section_table(file)?;
    let table = sections.iter().find(|section| section.header.sh_type == sh::SHT_SYMTAB)?;
    let names = sections.get(usize::try_from(table.header.sh_link).ok()?)?.bytes(file)?;
    let entries = table.bytes(file)?.chunks_exact(sym::SIZE as usize).take(limits::MAX_MODULE_SYMBOLS);
    entries.filter(|entry| entry.get(sym::INFO).is_some_and(|info| st::st_type(*info) == st::STT_TLS)).find_map(
        |entry| {
            let (value, len) = (bytes::u64_at(entry, sym::VALUE)?, bytes::u64_at(entry, sym::LEN)?);
            let offset = place.checked_sub(value).filter(|offset| *offset < len)?;
            let name = names.get(usize::try_from(bytes::u32_at(entry, sym::NAME)?).ok()?..)?;
            let raw = std::str::from_utf8(name.get(..memchr::memchr(0, name)?)?).ok()?;
            Some((demangle(raw).unwrap_or_else(|| raw.to_owned()), offset))
        },
    )
}
