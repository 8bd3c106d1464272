//! The program's writable data by its file, for cores that lack it (createdump with heap).
//!
//! The loader adds the module's address to the pointers in such data. What the program wrote there since is missing:
//! the data has what was linked. It is used only where the core has nothing.

use goblin::elf::section_header as sh;

use crate::addr::{Addr, AddrRange};
use crate::bytes::u64_at;
use crate::image::elf::{self, ElfImage};
use crate::image::{Module, identity};
use crate::limits;
use crate::memory::{Fault, Memory};
use crate::process::Process;
use crate::targets::Arch;
use crate::targets::reads::Script;

/// Bytes of an entry of SHT_RELA: address, type and symbol, addend.
const RELA: usize = 24;

/// R_X86_64_RELATIVE and R_AARCH64_RELATIVE: the module's address is added.
const RELATIVE_X86_64: u64 = 8;
const RELATIVE_AARCH64: u64 = 1027;

/// The process's memory, and the parts that are from a file.
pub(in crate::runtimes::nativeaot) struct FileData<'p> {
    under: &'p dyn Memory,
    parts: Vec<(AddrRange, Vec<u8>)>,
}

impl<'p> FileData<'p> {
    /// The process's memory alone.
    pub(super) fn none(process: &'p Process) -> FileData<'p> {
        FileData { under: &process.memory, parts: Vec::new() }
    }

    /// The process's memory with the writable sections of the module's file. `None` if no such file is given.
    pub(super) fn read(process: &'p Process, module: &Module, image: &ElfImage) -> Option<FileData<'p>> {
        let file = identity::files_of(process.target(), module, &process.symbols).next()?;
        let sections = elf::section_table(&file)?;
        let mut parts: Vec<(AddrRange, Vec<u8>)> = Vec::new();
        let mut left = limits::MAX_IMAGE_DATA;
        let wanted = u64::from(sh::SHF_ALLOC | sh::SHF_WRITE);
        for section in sections.iter().filter(|s| s.header.sh_flags & wanted == wanted) {
            if section.header.sh_type == sh::SHT_NOBITS || section.header.sh_flags & u64::from(sh::SHF_TLS) != 0 {
                continue;
            }
            let Some(bytes) = section.bytes(&file) else { continue };
            let start = Addr::new(image.bias.wrapping_add(section.header.sh_addr));
            left = left.checked_sub(bytes.len() as u64)?;
            parts.push((AddrRange::sized(start, bytes.len() as u64), bytes.to_vec()));
        }
        parts.sort_by_key(|(range, _)| range.start);
        let relative = if process.arch() == Arch::Aarch64 { RELATIVE_AARCH64 } else { RELATIVE_X86_64 };
        for table in sections.iter().filter(|s| s.header.sh_type == sh::SHT_RELA) {
            let entries = table.bytes(&file).unwrap_or_default().chunks_exact(RELA);
            for entry in entries {
                let word = |at| u64_at(entry, at).unwrap_or(0);
                if word(8) == relative {
                    let value = image.bias.wrapping_add(word(16));
                    set(&mut parts, Addr::new(image.bias.wrapping_add(word(0))), value);
                }
            }
        }
        Some(FileData { under: &process.memory, parts })
    }

    /// Memory to read from.
    pub(in crate::runtimes::nativeaot) fn memory(&self) -> &dyn Memory {
        if self.parts.is_empty() { self.under } else { self }
    }

    /// Bytes of the file from `at` to the end of the page or of the part.
    fn at(&self, at: Addr) -> Option<&[u8]> {
        let i = self.parts.partition_point(|(range, _)| range.end <= at);
        let (range, bytes) = self.parts.get(i).filter(|(range, _)| range.contains(at))?;
        let rest = bytes.get(usize::try_from(at.since(range.start)).ok()?..)?;
        let page = usize::try_from(at.align_down(4096).saturating_add(4096).since(at)).ok()?;
        rest.get(..page.min(rest.len()))
    }

    fn fill(
        &self,
        addr: Addr,
        buf: &mut [u8],
        read: impl Fn(Addr, &mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < buf.len() {
            let at = addr.saturating_add(done as u64);
            let rest = buf.get_mut(done..).unwrap_or_default();
            let have = self.under.readable(at, rest.len() as u64) as usize;
            let filled = match (have, self.at(at)) {
                (0, Some(bytes)) => {
                    let len = bytes.len().min(rest.len());
                    rest.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                    len
                }
                (0, None) => return read(at, rest),
                (have, _) => {
                    let len = have.min(rest.len());
                    read(at, rest.get_mut(..len).unwrap_or_default())?;
                    len
                }
            };
            done += filled.max(1);
        }
        Ok(())
    }
}

/// Replaces a word.
fn set(parts: &mut [(AddrRange, Vec<u8>)], at: Addr, value: u64) {
    let i = parts.partition_point(|(range, _)| range.end <= at);
    let Some((range, bytes)) = parts.get_mut(i).filter(|(range, _)| range.contains(at)) else { return };
    let from = at.since(range.start) as usize;
    if let Some(word) = from.checked_add(8).and_then(|to| bytes.get_mut(from..to)) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

impl Memory for FileData<'_> {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.fill(addr, buf, |at, buf| self.under.read(at, buf))
    }

    fn peek(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        self.fill(addr, buf, |at, buf| self.under.peek(at, buf))
    }

    fn look(&self, addr: Addr, len: usize) -> Result<Vec<u8>, Fault> {
        if self.under.readable(addr, len as u64) == len as u64 {
            return self.under.look(addr, len);
        }
        self.bytes(addr, len)
    }

    fn borrow(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.under.borrow(addr, len)
    }

    fn borrow_to_look(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.under.borrow_to_look(addr, len)
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        let mut done = 0;
        while done < max {
            let at = addr.saturating_add(done);
            let more = match self.under.readable(at, max - done) {
                0 => self.at(at).map_or(0, |bytes| (bytes.len() as u64).min(max - done)),
                more => more,
            };
            if more == 0 {
                break;
            }
            done += more;
        }
        done
    }

    fn past_gap(&self, addr: Addr) -> Addr {
        let next = self.under.past_gap(addr);
        let starts = self.parts.iter().map(|(range, _)| range.start);
        starts.filter(|start| *start > addr).fold(next, Addr::min)
    }

    fn keeps(&self) -> bool {
        self.under.keeps()
    }

    fn keep(&self, addr: Addr, len: u64) {
        self.under.keep(addr, len);
    }

    fn keep_name(&self, addr: Addr, len: u64, script: Script) {
        self.under.keep_name(addr, len, script);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FaultKind;

    /// Memory with the bytes from 0x1000 to 0x2000 and from 0x4000 to 0x5000.
    struct Holes;

    impl Memory for Holes {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let fault = Fault { addr, kind: FaultKind::NotDumped };
            (self.readable(addr, buf.len() as u64) == buf.len() as u64).then(|| buf.fill(1)).ok_or(fault)
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            let page = addr.align_down(4096);
            if [0x1000, 0x4000].contains(&page.get()) { max.min(page.get() + 4096 - addr.get()) } else { 0 }
        }
    }

    #[test]
    fn only_what_the_core_lacks_is_from_the_file() {
        let range = AddrRange::new(Addr::new(0x1ff0), Addr::new(0x2100));
        let mut parts = vec![(range, vec![2; 0x110])];
        set(&mut parts, Addr::new(0x2008), 0x1122_3344_5566_7788);
        // At the end, and outside: no word.
        set(&mut parts, Addr::new(0x20fc), u64::MAX);
        set(&mut parts, Addr::new(0x3000), u64::MAX);
        let data = FileData { under: &Holes, parts };
        let bytes = |at, len| data.bytes(Addr::new(at), len);
        assert_eq!(bytes(0x1ffe, 4), Ok(vec![1, 1, 2, 2]));
        assert_eq!(data.u64(Addr::new(0x2008)), Ok(0x1122_3344_5566_7788));
        assert_eq!(bytes(0x20f8, 8), Ok(vec![2; 8]));
        assert!(bytes(0x20f8, 9).is_err() && bytes(0x3000, 1).is_err());
        assert_eq!(data.readable(Addr::new(0x1000), 0x10000), 0x1100);
        assert_eq!(data.readable(Addr::new(0x2100), 8), 0);
        let parts = data.readable_parts(AddrRange::new(Addr::new(0x1800), Addr::new(0x6000)), 0x10000);
        assert_eq!(parts, [range_of(0x1800, 0x2100), range_of(0x4000, 0x5000)]);
    }

    fn range_of(start: u64, end: u64) -> AddrRange {
        AddrRange::new(Addr::new(start), Addr::new(end))
    }
}
