//! Symbols sorted by address, each place with the one name that is told for it.

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

/// Bytes of a name that are read at first; most are shorter.
const SHORT_NAME: u64 = 128;

/// A file or a part of one, unpacked.
#[derive(Clone)]
pub(super) enum Bytes {
    /// A file as it lies on disk.
    File(Arc<MappedFile>),
    /// What was unpacked.
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

/// Where the names of one symbol table are.
pub(super) enum Strings {
    /// In the process.
    Memory(AddrRange),
    /// In a file.
    File(Bytes, Range<usize>),
}

impl Strings {
    /// The name at `at`; `None` where it is empty, beyond the table, or its end
    /// can't be read.
    pub(super) fn name<'a>(&'a self, memory: &'a dyn Memory, at: u32) -> Option<Cow<'a, [u8]>> {
        let cap = limits::MAX_SYMBOL_NAME;
        let found = match self {
            Strings::File(file, range) => {
                let rest = file.get(range.clone())?.get(usize::try_from(at).ok()?..)?;
                Cow::Borrowed(ended(rest.get(..cap).unwrap_or(rest))?)
            }
            Strings::Memory(range) => {
                let start = range.start.checked_add(u64::from(at)).filter(|s| range.contains(*s))?;
                let most = range.end.since(start).min(cap as u64);
                [SHORT_NAME.min(most), most].into_iter().find_map(|most| {
                    let have = usize::try_from(memory.readable(start, most)).ok()?;
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

/// The bytes before the NUL, or as many as are taken of any name.
fn ended(b: &[u8]) -> Option<&[u8]> {
    match memchr::memchr(0, b) {
        Some(end) => b.get(..end),
        None if b.len() == limits::MAX_SYMBOL_NAME => Some(b),
        None => None,
    }
}

/// Where a table came from.
pub(super) struct Source {
    /// In words.
    pub(super) text: &'static str,
    /// Its names.
    pub(super) strings: Strings,
}

/// An `Elf64_Sym`, placed.
#[derive(Clone, Copy)]
pub(super) struct Found {
    start: Addr,
    size: u64,
    name_at: u32,
    source: u8,
    local: bool,
    kind: FoundKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FoundKind {
    Data,
    /// STT_NOTYPE: labels in hand-written code.
    Label,
    Function,
}

impl Found {
    /// What of a symbol table entry names something with an address.
    pub(super) fn parse(entry: &[u8], bias: u64, source: u8) -> Option<Found> {
        let section = u32::from(bytes::u16_at(entry, sym::SHNDX)?);
        // Imports, and numbers that are no addresses.
        if section == sh::SHN_UNDEF || section >= sh::SHN_LORESERVE {
            return None;
        }
        let info = *entry.get(sym::INFO)?;
        let kind = match st::st_type(info) {
            st::STT_FUNC | st::STT_GNU_IFUNC => FoundKind::Function,
            st::STT_NOTYPE => FoundKind::Label,
            st::STT_OBJECT | st::STT_COMMON => FoundKind::Data,
            _ => return None,
        };
        let name_at = bytes::u32_at(entry, sym::NAME)?;
        (name_at != 0).then_some(Found {
            start: Addr::new(bias.wrapping_add(bytes::u64_at(entry, sym::VALUE)?)),
            size: bytes::u64_at(entry, sym::LEN)?,
            name_at,
            source,
            local: st::st_bind(info) == st::STB_LOCAL,
            kind,
        })
    }

    pub(super) fn is_data(&self) -> bool {
        self.kind == FoundKind::Data
    }

    /// `$x`, `$d`, `$x.1`: where code and data change on aarch64 (its ELF ABI).
    fn is_mapping_symbol(&self, sources: &[Source], memory: &dyn Memory) -> bool {
        self.kind == FoundKind::Label
            && self.local
            && self.name(sources, memory).is_some_and(|name| {
                matches!(*name, [b'$', b'x' | b'd' | b'a' | b't'] | [b'$', b'x' | b'd' | b'a' | b't', b'.', ..])
            })
    }

    fn name<'a>(&self, sources: &'a [Source], memory: &'a dyn Memory) -> Option<Cow<'a, [u8]>> {
        sources.get(usize::from(self.source))?.strings.name(memory, self.name_at)
    }
}

/// A name as it stands in the file, and as it is read.
pub(super) struct Names {
    pub(super) raw: Arc<str>,
    pub(super) name: Arc<str>,
}

impl Names {
    /// Of a table's bytes; `suffix` is added to both.
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

/// .symtab has `memcpy@@GLIBC_2.14` where .dynsym keeps the version apart.
fn unversioned(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'@', name) {
        Some(at) if at > 0 && name.get(at..) != Some(b"@plt") => name.get(..at).unwrap_or(name),
        _ => name,
    }
}

/// A symbol that was chosen for a place.
pub(super) struct Entry {
    pub(super) start: Addr,
    pub(super) size: u64,
    /// Whether its table gives its size.
    pub(super) sized: bool,
    pub(super) source: u8,
    name_at: u32,
    names: OnceLock<Option<Box<Names>>>,
}

impl Entry {
    /// Its name, demangled at first use.
    pub(super) fn names(&self, sources: &[Source], memory: &dyn Memory) -> Option<&Names> {
        let read = || {
            let name = sources.get(usize::from(self.source))?.strings.name(memory, self.name_at)?;
            Some(Box::new(Names::of(&name, "")))
        };
        self.names.get_or_init(read).as_deref()
    }
}

struct Piece {
    range: AddrRange,
    entry: u32,
}

/// One symbol for each place, by address.
#[derive(Default)]
pub(super) struct Table {
    pieces: Vec<Piece>,
    entries: Vec<Entry>,
}

impl Table {
    /// Choose among `found` those that lie in `parts` (sorted, disjoint).
    ///
    /// Where symbols overlap, one with a size goes before one without, then the
    /// one that begins later, as gdb has it; but past the end of a symbol that
    /// lies within another, the outer one is told again. One without a size
    /// reaches to the next, to the end of its part, or `unsized_most` bytes.
    pub(super) fn build(
        mut found: Vec<Found>,
        parts: &[AddrRange],
        unsized_most: u64,
        sources: &[Source],
        memory: &dyn Memory,
    ) -> Table {
        found.retain(|f| part_of(parts, f.start).is_some() && !f.is_mapping_symbol(sources, memory));
        // Those with a size first, so that the others of that place can be left out.
        found.sort_unstable_by_key(|f| (f.start, f.size == 0, f.size, Reverse(f.kind), f.local, f.source, f.name_at));
        found.dedup_by(|next, last| next.start == last.start && next.size == 0 && last.size > 0);
        let groups: Vec<&[Found]> = found.chunk_by(|a, b| (a.start, a.size) == (b.start, b.size)).collect();
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
                best.start.saturating_add(unsized_most).min(next).min(part.end)
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
        let pieces = pieces.filter_map(|(range, i)| Some(Piece { range, entry: u32::try_from(i).ok()? })).collect();
        Table { pieces, entries }
    }

    /// The symbol told for `addr`.
    pub(super) fn at(&self, addr: Addr) -> Option<&Entry> {
        let i = self.pieces.partition_point(|p| p.range.end <= addr);
        let piece = self.pieces.get(i).filter(|p| p.range.contains(addr))?;
        self.entries.get(usize::try_from(piece.entry).ok()?)
    }

    /// Where they begin, by address.
    pub(super) fn starts(&self) -> impl Iterator<Item = Addr> {
        self.entries.iter().map(|entry| entry.start)
    }

    /// How many symbols were chosen.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

fn part_of(parts: &[AddrRange], addr: Addr) -> Option<AddrRange> {
    let i = parts.partition_point(|p| p.end <= addr);
    parts.get(i).filter(|p| p.contains(addr)).copied()
}

/// Of several names for the same bytes: a function's before a label's, one that
/// can be linked to before a local one, then the last by the order of bytes.
///
/// That last rule is what gdb 13.1 does: its answer to `info symbol` was that one
/// for all 2,731 addresses with several names in glibc 2.36 (with its debug
/// file), libstdc++ 6.0.30 and libm. It gives `read` before `__read`, as `_`
/// sorts before small letters, and `memmove` before the old `memcpy`.
fn best_name<'a>(group: &'a [Found], sources: &[Source], memory: &dyn Memory) -> Option<&'a Found> {
    if let [one] = group {
        return Some(one);
    }
    let mut best: Option<(&Found, Cow<'_, [u8]>)> = None;
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
