//! Symbols sorted by address, with one name per address.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use goblin::elf::section_header as sh;
use goblin::elf::sym as st;

use super::demangle::demangle;
use crate::addr::{Addr, AddrRange, sweep};
use crate::bytes;
use crate::core::mapped::MappedFile;
use crate::image::symbols::sym;
use crate::limits;
use crate::memory::Memory;
use crate::targets::reads::Script;

/// Bytes of a name in the first read. Most names are shorter.
const SHORT_NAME: u64 = 128;

/// A file, or unpacked contents of one.
#[derive(Clone)]
pub(super) enum Bytes {
    File(Arc<MappedFile>),
    Unpacked(Arc<Vec<u8>>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::File(file) => file,
            Bytes::Unpacked(bytes) => bytes,
        }
    }
}

/// Location of the names of one symbol table.
pub(super) enum Strings {
    Memory(AddrRange),
    File(Bytes, Range<usize>),
}

impl Strings {
    /// Returns the name at offset `at`. `None` if it is empty, outside the table, or its end cannot be read.
    pub(super) fn name<'a>(&'a self, memory: &'a dyn Memory, at: u32) -> Option<Cow<'a, [u8]>> {
        let cap = limits::MAX_SYMBOL_NAME;
        let found = match self {
            Strings::File(file, range) => {
                let rest = file.get(range.clone())?.get(usize::try_from(at).ok()?..)?;
                Cow::Borrowed(ended(rest.get(..cap).unwrap_or(rest))?)
            }
            Strings::Memory(range) => {
                let start = range.start.checked_add(u64::from(at)).filter(|s| range.contains(*s))?;
                let limit = range.end.since(start).min(cap as u64);
                [SHORT_NAME.min(limit), limit].into_iter().find_map(|limit| {
                    let have = usize::try_from(memory.readable(start, limit)).ok()?;
                    let name = match memory.borrow_to_look(start, have) {
                        Some(bytes) => ended(bytes).map(Cow::Borrowed),
                        None => ended(&memory.look(start, have).ok()?).map(|name| Cow::Owned(name.to_vec())),
                    };
                    name.inspect(|name| memory.keep_name(start, name.len() as u64 + 1, Script::Utf8))
                })?
            }
        };
        (!found.is_empty()).then_some(found)
    }
}

/// Returns the bytes before the NUL, or a name cut at the maximum length.
fn ended(b: &[u8]) -> Option<&[u8]> {
    match memchr::memchr(0, b) {
        Some(end) => b.get(..end),
        None if b.len() == limits::MAX_SYMBOL_NAME => Some(b),
        None => None,
    }
}

/// The origin of a symbol table.
pub(super) struct Source {
    /// Name of the origin, as in reports.
    pub(super) text: &'static str,
    pub(super) strings: Strings,
}

/// An `Elf64_Sym` at its address in memory.
#[derive(Clone, Copy)]
pub(super) struct PlacedSym {
    start: Addr,
    size: u64,
    name_at: u32,
    source: u8,
    local: bool,
    kind: SymKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SymKind {
    Data,
    /// STT_NOTYPE: a label in hand-written code.
    Label,
    Function,
}

impl PlacedSym {
    /// Parses a symbol table entry. `None` if it is not code or data with a name and an address.
    pub(super) fn parse(entry: &[u8], bias: u64, source: u8) -> Option<PlacedSym> {
        let section = u32::from(bytes::u16_at(entry, sym::SHNDX)?);
        // Imports, and values that are no addresses.
        if section == sh::SHN_UNDEF || section >= sh::SHN_LORESERVE {
            return None;
        }
        let info = *entry.get(sym::INFO)?;
        let kind = match st::st_type(info) {
            st::STT_FUNC | st::STT_GNU_IFUNC => SymKind::Function,
            st::STT_NOTYPE => SymKind::Label,
            st::STT_OBJECT | st::STT_COMMON => SymKind::Data,
            _ => return None,
        };
        let name_at = bytes::u32_at(entry, sym::NAME)?;
        (name_at != 0).then_some(PlacedSym {
            start: Addr::new(bias.wrapping_add(bytes::u64_at(entry, sym::VALUE)?)),
            size: bytes::u64_at(entry, sym::LEN)?,
            name_at,
            source,
            local: st::st_bind(info) == st::STB_LOCAL,
            kind,
        })
    }

    /// Whether it names data. `code`: ranges of code, sorted. NativeAOT's compiler gives its variables no type up to
    /// 10.0: a local label outside of code. The linker's own labels are global.
    pub(super) fn is_data(&self, code: &[AddrRange]) -> bool {
        let is_label = self.kind == SymKind::Label && self.local;
        self.kind == SymKind::Data || is_label && part_of(code, self.start).is_none()
    }

    /// Whether this is `$x`, `$d`, `$x.1` or similar, where code and data change on aarch64 (its ELF ABI).
    fn is_mapping_symbol(&self, sources: &[Source], memory: &dyn Memory) -> bool {
        self.kind == SymKind::Label
            && self.local
            && self.name(sources, memory).is_some_and(|name| {
                matches!(*name, [b'$', b'x' | b'd' | b'a' | b't'] | [b'$', b'x' | b'd' | b'a' | b't', b'.', ..])
            })
    }

    fn name<'a>(&self, sources: &'a [Source], memory: &'a dyn Memory) -> Option<Cow<'a, [u8]>> {
        sources.get(usize::from(self.source))?.strings.name(memory, self.name_at)
    }
}

/// A name as in the table, and demangled.
pub(super) struct Names {
    pub(super) raw: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Names {
    /// Makes both names from a table's bytes. `suffix` is appended to both.
    pub(super) fn of(name: &[u8], suffix: &str) -> Names {
        let text = String::from_utf8_lossy(unversioned(name));
        let shown: Arc<str> = match demangle(&text) {
            Some(shown) => (shown + suffix).into(),
            None => format!("{text}{suffix}").into(),
        };
        let raw = format!("{text}{suffix}");
        let raw = if *raw == *shown { shown.clone() } else { raw.into() };
        Names { raw, name: shown }
    }
}

/// Removes the version: .symtab has `memcpy@@GLIBC_2.14`, while .dynsym stores the version separately.
fn unversioned(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'@', name) {
        Some(at) if at > 0 && name.get(at..) != Some(b"@plt") => name.get(..at).unwrap_or(name),
        _ => name,
    }
}

/// The symbol chosen for an address.
pub(super) struct Entry {
    pub(super) start: Addr,
    pub(super) size: u64,
    /// Whether the size is from the table.
    pub(super) sized: bool,
    pub(super) source: u8,
    name_at: u32,
    names: OnceLock<Option<Box<Names>>>,
}

impl Entry {
    /// Returns the names. They are read and demangled on the first call.
    pub(super) fn names(&self, sources: &[Source], memory: &dyn Memory) -> Option<&Names> {
        let read = || {
            let name = sources.get(usize::from(self.source))?.strings.name(memory, self.name_at)?;
            Some(Box::new(Names::of(&name, "")))
        };
        self.names.get_or_init(read).as_deref()
    }
}

struct SymRange {
    range: AddrRange,
    entry: u32,
}

/// One symbol per address, sorted by address.
#[derive(Default)]
pub(super) struct Table {
    pieces: Vec<SymRange>,
    entries: Vec<Entry>,
}

impl Table {
    /// Chooses one symbol per address among the symbols that are in `parts` (sorted, disjoint).
    ///
    /// If symbols overlap, one with a size wins over one without. Then the one that begins later wins, as in gdb. After
    /// the end of an inner symbol, the outer one applies again. A symbol without a size extends to the next one, to the
    /// end of its part, or over `unsized_limit` bytes.
    pub(super) fn build(
        mut found: Vec<PlacedSym>,
        parts: &[AddrRange],
        unsized_limit: u64,
        sources: &[Source],
        memory: &dyn Memory,
    ) -> Table {
        found.retain(|f| part_of(parts, f.start).is_some() && !f.is_mapping_symbol(sources, memory));
        // Symbols with a size come first, so that `dedup_by` removes those without one at the same address.
        found.sort_unstable_by_key(|f| (f.start, f.size == 0, f.size, Reverse(f.kind), f.local, f.source, f.name_at));
        found.dedup_by(|next, last| next.start == last.start && next.size == 0 && last.size > 0);
        let groups: Vec<&[PlacedSym]> = found.chunk_by(|a, b| (a.start, a.size) == (b.start, b.size)).collect();
        let mut placed = Vec::with_capacity(groups.len());
        let mut entries = Vec::with_capacity(groups.len());
        for (i, group) in groups.iter().enumerate() {
            let Some(best) = best_name(group, sources, memory) else { continue };
            let Some(part) = part_of(parts, best.start) else { continue };
            let sized = best.size > 0;
            let next = groups.get(i.saturating_add(1)).and_then(|g| g.first()).map_or(part.end, |f| f.start);
            let end = if sized {
                best.start.saturating_add(best.size).min(part.end)
            } else {
                best.start.saturating_add(unsized_limit).min(next).min(part.end)
            };
            let range = AddrRange::new(best.start, end);
            placed.push((range, (sized, best.start, best.kind, Reverse(best.size))));
            entries.push(Entry {
                start: best.start,
                size: range.len(),
                sized,
                source: best.source,
                name_at: best.name_at,
                names: OnceLock::new(),
            });
        }
        let pieces = sweep(&placed).into_iter();
        let pieces = pieces.filter_map(|(range, i)| Some(SymRange { range, entry: u32::try_from(i).ok()? })).collect();
        Table { pieces, entries }
    }

    pub(super) fn at(&self, addr: Addr) -> Option<&Entry> {
        let i = self.pieces.partition_point(|p| p.range.end <= addr);
        let piece = self.pieces.get(i).filter(|p| p.range.contains(addr))?;
        self.entries.get(usize::try_from(piece.entry).ok()?)
    }

    /// Iterates over the starts of the symbols, by address.
    pub(super) fn starts(&self) -> impl Iterator<Item = Addr> {
        self.entries.iter().map(|entry| entry.start)
    }

    /// Iterates over the symbols, by address.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn part_of(parts: &[AddrRange], addr: Addr) -> Option<AddrRange> {
    let i = parts.partition_point(|p| p.end <= addr);
    parts.get(i).filter(|p| p.contains(addr)).copied()
}

/// Returns the best of several symbols for the same bytes. Functions win over labels, then global ones over local ones,
/// then the last name in byte order.
///
/// The last rule is gdb 13.1's. Its `info symbol` gave that name for all 2,731 addresses with several names in glibc
/// 2.36 (with its debug file), libstdc++ 6.0.30 and libm. The rule prefers `read` to `__read`, as `_` sorts before
/// lower-case letters, and `memmove` to the old `memcpy`.
fn best_name<'a>(group: &'a [PlacedSym], sources: &[Source], memory: &dyn Memory) -> Option<&'a PlacedSym> {
    if let [one] = group {
        return Some(one);
    }
    let mut best: Option<(&PlacedSym, Cow<'_, [u8]>)> = None;
    for f in group {
        let Some(name) = f.name(sources, memory) else { continue };
        let ahead = best
            .as_ref()
            .is_none_or(|(b, held)| (f.kind, !f.local, unversioned(&name)) > (b.kind, !b.local, unversioned(held)));
        if ahead {
            best = Some((f, name));
        }
    }
    best.map(|(f, _)| f)
}
