//! Symbols from files under `--symbols`.
//!
//! They are in .symtab of the module's own file or of its debug file, or in .gnu_debugdata, a small ELF file compressed
//! with xz ("MiniDebugInfo" in gdb's manual).

use std::io::Read;
use std::sync::Arc;

use goblin::elf::section_header as sh;

use super::Budget;
use super::table::{Bytes, PlacedSym, Source, Strings};
use crate::addr::{Addr, AddrRange, union};
use crate::image::elf::{self, FileSection};
use crate::image::symbols::sym;
use crate::limits;

pub(super) struct File {
    bytes: Bytes,
    sections: Vec<FileSection>,
}

/// Symbols in a file besides the dynamic ones, the fewest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Richness {
    None,
    /// .gnu_debugdata
    DebugData,
    /// .symtab
    Symbols,
}

impl File {
    pub(super) fn open(bytes: Bytes) -> Option<File> {
        let sections = elf::section_table(&bytes)?;
        Some(File { bytes, sections })
    }

    /// Returns the first file with .symtab, else the first with .gnu_debugdata, else the first.
    pub(super) fn richest(files: impl Iterator<Item = File>) -> Option<File> {
        let mut best: Option<File> = None;
        for file in files {
            let has_symbols = file.richness() == Richness::Symbols;
            if best.as_ref().is_none_or(|best| best.richness() < file.richness()) {
                best = Some(file);
            }
            if has_symbols {
                break;
            }
        }
        best
    }

    fn richness(&self) -> Richness {
        if self.sections.iter().any(|s| s.header.sh_type == sh::SHT_SYMTAB) {
            Richness::Symbols
        } else if self.sections.iter().any(|s| s.name == ".gnu_debugdata") {
            Richness::DebugData
        } else {
            Richness::None
        }
    }

    /// Unpacks the file in .gnu_debugdata.
    pub(super) fn debugdata(&self, budget: &Budget) -> Option<File> {
        let section = self.sections.iter().find(|s| s.name == ".gnu_debugdata")?;
        let stream = liblzma::stream::Stream::new_stream_decoder(limits::MAX_DEBUGDATA as u64, 0).ok()?;
        let decoder = liblzma::bufread::XzDecoder::new_stream(section.bytes(&self.bytes)?, stream);
        let limit = budget.unpack_limit();
        let mut out = Vec::new();
        decoder.take(limit as u64).read_to_end(&mut out).ok()?;
        budget.unpacked(out.len());
        // A file that was cut has no section table, since the table is at its end.
        (out.len() < limit).then_some(())?;
        File::open(Bytes::Unpacked(Arc::new(out)))
    }

    /// Reads the symbol table of the given type (SHT_SYMTAB, SHT_DYNSYM), and locates its names.
    pub(super) fn symbols(
        &self,
        kind: u32,
        text: &'static str,
        bias: u64,
        source: u8,
        budget: &Budget,
    ) -> Option<(Source, Vec<PlacedSym>)> {
        let table = self.sections.iter().find(|s| s.header.sh_type == kind)?;
        let strings = self.sections.get(usize::try_from(table.header.sh_link).ok()?)?;
        let entries = table.bytes(&self.bytes)?.chunks_exact(sym::SIZE as usize);
        let count = budget.take((entries.len() as u64).min(limits::MAX_MODULE_SYMBOLS as u64)) as usize;
        let found = entries.take(count).filter_map(|e| PlacedSym::parse(e, bias, source)).collect();
        let strings = Strings::File(self.bytes.clone(), strings.range()?);
        Some((Source { text, strings }, found))
    }

    /// Returns the code sections at their addresses in memory.
    pub(super) fn code(&self, bias: u64) -> Vec<AddrRange> {
        self.placed(bias, |_| true)
    }

    /// Returns the PLT sections at their addresses in memory.
    pub(super) fn stubs(&self, bias: u64) -> Vec<AddrRange> {
        self.placed(bias, |name| name == ".plt" || name.starts_with(".plt."))
    }

    fn placed(&self, bias: u64, wanted: impl Fn(&str) -> bool) -> Vec<AddrRange> {
        let code = u64::from(sh::SHF_ALLOC | sh::SHF_EXECINSTR);
        let sections = self.sections.iter().filter(|s| s.header.sh_flags & code == code && wanted(&s.name));
        let ranges =
            sections.map(|s| AddrRange::sized(Addr::new(bias.wrapping_add(s.header.sh_addr)), s.header.sh_size));
        // Adjacent sections stay separate: a symbol without a size ends with its section.
        let mut out: Vec<AddrRange> = ranges.filter(|r| !r.is_empty()).collect();
        out.sort();
        if out.windows(2).any(|w| matches!(w, [a, b] if b.start < a.end)) { union(out) } else { out }
    }
}
