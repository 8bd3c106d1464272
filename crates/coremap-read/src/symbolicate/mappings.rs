//! Mappings of files, and the conversion of a file offset to an address.

use std::cell::Cell;
use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Base;
use crate::symbolicate::event::TextMapping;
use crate::symbolicate::scan;
use crate::targets::Facts;
use crate::targets::at;

/// A file mapping of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses.
    pub range: AddrRange,
    /// Offset of the mapping in the file, in bytes.
    pub file_offset: u64,
    /// Path of the file.
    pub path: String,
    /// Whether it is executable. `None` if no PT_LOAD covers it.
    pub executable: Option<bool>,
}

/// Returns the file mappings of a core: NT_FILE with the access of its segments, and the
/// vdso under perf's name for it.
pub fn mappings(facts: &Facts, base: &Base) -> Vec<Mapping> {
    let mut out: Vec<Mapping> = base
        .entries
        .iter()
        .filter_map(|entry| {
            Some(Mapping {
                range: entry.range,
                file_offset: entry.file_offset,
                path: base.path(entry)?.to_string(),
                executable: entry.perms.map(|p| p.exec),
            })
        })
        .collect();
    if let Some(entry) = facts.auxv(at::SYSINFO_EHDR).and_then(|a| base.at(Addr::new(a)))
        && entry.file.is_none()
    {
        let executable = entry.perms.map(|p| p.exec);
        out.push(Mapping { range: entry.range, file_offset: 0, path: "[vdso]".into(), executable });
    }
    out
}

/// A possible address of an offset.
struct AddressMatch {
    at: Addr,
    /// Rank: 2 executable, 1 unknown, 0 not executable.
    rank: u8,
    several: bool,
}

/// A mapped part of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MappedPart {
    /// Offset in the file.
    offset: u64,
    /// Start address.
    start: u64,
    len: u64,
    /// Rank, as in [`AddressMatch`].
    rank: u8,
}

impl MappedPart {
    /// Returns the address of a file offset.
    fn at(&self, offset: u64) -> Option<u64> {
        let in_part = offset.checked_sub(self.offset).filter(|&n| n < self.len)?;
        self.start.checked_add(in_part)
    }

    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|n| n < self.len)
    }
}

/// The mappings of one file.
#[derive(Default)]
struct File {
    /// Parts, sorted by offset.
    parts: Vec<MappedPart>,
    /// Largest end offset of the parts up to this one.
    ends: Vec<u64>,
}

impl File {
    fn finish(&mut self) {
        self.parts.sort_unstable();
        let mut end = 0;
        self.ends = self
            .parts
            .iter()
            .map(|p| {
                end = p.offset.saturating_add(p.len).max(end);
                end
            })
            .collect();
    }

    fn find(&self, offset: u64) -> Option<AddressMatch> {
        let mut best: Option<AddressMatch> = None;
        let last = self.parts.partition_point(|p| p.offset <= offset);
        for i in (0..last).rev().take(limits::MAX_MAPPINGS_TRIED) {
            let (Some(part), Some(&end)) = (self.parts.get(i), self.ends.get(i)) else { break };
            if end <= offset {
                break;
            }
            if let Some(at) = part.at(offset) {
                update_best(&mut best, at, part.rank);
            }
        }
        best
    }

    fn contains(&self, address: u64) -> bool {
        self.parts.iter().take(limits::MAX_MAPPINGS_TRIED).any(|p| p.contains(address))
    }
}

/// Updates the best fit. Among parts of equal rank the lowest address wins, so that the
/// result is unique.
fn update_best(best: &mut Option<AddressMatch>, at: u64, rank: u8) {
    match best {
        Some(found) if found.rank > rank => {}
        Some(found) if found.rank == rank => {
            found.several |= found.at.get() != at;
            found.at = found.at.min(Addr::new(at));
        }
        _ => *best = Some(AddressMatch { at: Addr::new(at), rank, several: false }),
    }
}

/// Meaning of perf's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Offsets,
    Addresses,
}

const NOT_MAPPED: &str = "no mapping of this file has this offset";
const SEVERAL: &str = "the file maps this offset more than once; this is the lowest address";
const KERNEL: &str = "a kernel address";

/// All mappings, from the core and from the text.
#[derive(Default)]
pub(super) struct FileMappings {
    files: Vec<File>,
    by_path: HashMap<Vec<u8>, usize>,
    /// Files by file name. `None` if two files have that name.
    by_name: HashMap<Vec<u8>, Option<usize>>,
    text: HashMap<Vec<u8>, Vec<MappedPart>>,
    text_mappings: usize,
    generation: u64,
    style: Cell<Option<Style>>,
}

impl FileMappings {
    /// Creates the table from the mappings of a core.
    pub(super) fn new(mappings: &[Mapping]) -> FileMappings {
        let mut out = FileMappings::default();
        for m in mappings.iter().filter(|m| !m.range.is_empty()) {
            let path = plain(m.path.as_bytes());
            let i = match out.by_path.get(path) {
                Some(&i) => i,
                None => {
                    let i = out.files.len();
                    out.files.push(File::default());
                    out.by_path.insert(path.to_vec(), i);
                    let name = scan::file_name(path).to_vec();
                    out.by_name.entry(name).and_modify(|f| *f = None).or_insert(Some(i));
                    i
                }
            };
            if let Some(file) = out.files.get_mut(i) {
                let (start, len) = (m.range.start.get(), m.range.len());
                file.parts.push(MappedPart { offset: m.file_offset, start, len, rank: rank(m.executable) });
            }
        }
        out.files.iter_mut().for_each(File::finish);
        out
    }

    /// Adds a mapping that the text lists.
    pub(super) fn add(&mut self, m: &TextMapping<'_>) {
        let path = plain(m.path);
        if self.text_mappings >= limits::MAX_TEXT_MAPPINGS || path.len() > limits::MAX_NAME {
            return;
        }
        let part = MappedPart { offset: m.offset, start: m.start, len: m.len, rank: rank(Some(m.executable)) };
        let parts = self.text.entry(path.to_vec()).or_default();
        // A growing mapping is listed repeatedly.
        if let Some(old) = parts
            .iter_mut()
            .rev()
            .take(limits::MAX_REPEATED_MAPPINGS)
            .find(|p| p.offset == m.offset && p.start == m.start)
        {
            if *old == part {
                return;
            }
            *old = part;
        } else {
            parts.push(part);
            self.text_mappings += 1;
        }
        self.generation += 1;
    }

    /// Number that changes with every added mapping.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the file at a path. In a container or chroot the tool may have another
    /// path, so the file name is tried too.
    fn file(&self, path: &[u8]) -> Option<&File> {
        let i = match self.by_path.get(path) {
            Some(&i) => i,
            None => (*self.by_name.get(scan::file_name(path))?)?,
        };
        self.files.get(i)
    }

    fn find(&self, path: &[u8], offset: u64) -> Option<AddressMatch> {
        let core = self.file(path).and_then(|f| f.find(offset));
        if core.as_ref().is_some_and(|f| f.rank == 2) {
            return core;
        }
        let parts = self.text.get(path).map_or(&[][..], Vec::as_slice);
        // The mapping listed last is the current one.
        let from_text = parts
            .iter()
            .rev()
            .take(limits::MAX_MAPPINGS_TRIED)
            .find_map(|p| Some(AddressMatch { at: Addr::new(p.at(offset)?), rank: p.rank, several: false }));
        match (core, from_text) {
            (Some(core), Some(from_text)) => Some(if from_text.rank > core.rank { from_text } else { core }),
            (core, from_text) => core.or(from_text),
        }
    }

    fn contains(&self, path: &[u8], address: u64) -> bool {
        let from_text = self.text.get(path).map_or(&[][..], Vec::as_slice);
        self.file(path).is_some_and(|f| f.contains(address))
            || from_text.iter().rev().take(limits::MAX_MAPPINGS_TRIED).any(|p| p.contains(address))
    }

    /// Returns the virtual address of perf's number, and a note about it.
    pub(super) fn resolve(&self, number: u64, dso: Option<&[u8]>) -> (Option<Addr>, Option<&'static str>) {
        if number >= super::perf::KERNEL {
            return (None, Some(KERNEL));
        }
        let Some(dso) = dso.filter(|d| !is_virtual(d)) else { return (Some(Addr::new(number)), None) };
        let path = plain(dso);
        // Other names in brackets are modules of the kernel and of guests.
        if path.first() == Some(&b'[') && path != b"[vdso]" {
            return (None, Some(KERNEL));
        }
        let found = self.find(path, number);
        let address = match (self.style.get(), &found) {
            (Some(Style::Addresses), _) => true,
            (Some(Style::Offsets), Some(_)) => false,
            (_, Some(_)) => self.contains(path, number),
            (_, None) => number >= limits::MAX_CODE_OFFSET || self.contains(path, number),
        };
        match found {
            _ if address => (Some(Addr::new(number)), None),
            Some(found) => (Some(found.at), found.several.then_some(SEVERAL)),
            None => (None, Some(NOT_MAPPED)),
        }
    }

    /// Learns from some frames whether this perf prints addresses or offsets. Most frames
    /// show it. Those of a program at a fixed low address may be either.
    pub(super) fn learn<'t>(&mut self, frames: impl Iterator<Item = (u64, &'t [u8])>) {
        let (mut offsets, mut addresses) = (0usize, 0usize);
        for (number, dso) in frames {
            let path = plain(dso);
            if number >= super::perf::KERNEL || is_virtual(dso) || path.first() == Some(&b'[') {
                continue;
            }
            match (self.contains(path, number) || number >= limits::MAX_CODE_OFFSET, self.find(path, number).is_some())
            {
                (true, false) => addresses += 1,
                (false, true) => offsets += 1,
                _ => {}
            }
        }
        self.style.set(match offsets.cmp(&addresses) {
            std::cmp::Ordering::Greater => Some(Style::Offsets),
            std::cmp::Ordering::Less => Some(Style::Addresses),
            std::cmp::Ordering::Equal => None,
        });
    }
}

fn rank(executable: Option<bool>) -> u8 {
    match executable {
        Some(true) => 2,
        None => 1,
        Some(false) => 0,
    }
}

/// Removes the mark of a deleted file. The tools read the path at another time than the
/// core.
fn plain(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// Whether every version of perf prints addresses for memory with this name
/// (tools/perf/util/map.c `is_anon_memory`, `is_no_dso_memory`).
fn is_virtual(dso: &[u8]) -> bool {
    let starts: [&[u8]; 9] = [
        b"//anon",
        b"/dev/zero",
        b"/anon_hugepage",
        b"[anon:",
        b"[heap]",
        b"[stack",
        b"[uprobes]",
        b"/SYSV",
        b"[unknown]",
    ];
    let map = dso.starts_with(b"/tmp/perf-") && dso.ends_with(b".map");
    map || starts.iter().any(|s| dso.starts_with(s))
}
