//! Parses /proc/PID/smaps: figures of each mapping (fs/proc/task_mmu.c `show_smap`, proc(5)).
//!
//! A mapping is a line as in /proc/PID/maps, followed by a line for each figure, in KiB. People save the file with a
//! core, alone or after /proc/PID/status (`cat /proc/PID/{status,smaps}`), so lines of status are accepted too. Nothing
//! that may be cut off is used: a figure without its unit is ignored, and so is a last mapping with fewer figures than
//! the others.

use std::io::{self, BufRead, Read};

use super::status;
use super::text::{hex, kib, lines, number};
use crate::addr::{Addr, AddrRange};
use crate::diag::{Warning, WarningCode};
use crate::limits;
use crate::range_map::RangeMap;
use crate::targets::Perms;
use crate::targets::residence::{
    Figure, FigureSet, Figures, FileId, MappingResidence, Residence, StatusFigures, VmFlags,
};
use crate::units::count;

/// The contents of a smaps text.
#[derive(Clone, Debug, Default)]
pub struct Smaps {
    /// Mappings with figures, by address.
    pub mappings: RangeMap<MappingResidence>,
    /// The figures that all mappings have.
    pub reported: FigureSet,
    /// Figures from lines of status, if there were any.
    pub status: StatusFigures,
    /// The sums of smaps_rollup, if the text has them or is that file.
    pub rollup: Option<Figures>,
    /// Whether the text ended within a mapping, which is left out.
    pub cut: bool,
    /// Number of mappings left out because they have no figures (lines of maps) or overlap another one.
    pub left_out: u64,
    /// Number of mappings left out because they have figures larger than themselves.
    pub impossible: u64,
}

impl Smaps {
    /// A warning about mappings with figures that no mapping can have. `None` if there are none.
    pub fn warning(&self, name: &str) -> Option<Warning> {
        let mappings = count(self.impossible, "mapping");
        let text = format!("{name} has figures that exceed their mapping: the residence of {mappings} is unknown");
        (self.impossible > 0).then(|| Warning::partial(WarningCode::SmapsCut, text))
    }

    /// Converts to [`Residence`]. `source` names the origin of the text for the user.
    pub fn into_residence(self, source: String) -> Residence {
        let Smaps { mappings, reported, status, .. } = self;
        Residence { source, mappings, reported, status, ..Residence::default() }
    }
}

/// Parses the text of /proc/PID/smaps. Never fails; other text has no mappings.
pub fn parse(text: &[u8]) -> Smaps {
    let mut reader = Reader::default();
    lines(text).for_each(|(line, ended)| reader.take(line, ended));
    reader.finish()
}

/// Reads and parses /proc/PID/smaps as a stream, because a million mappings have about 700 MB.
///
/// # Errors
/// Errors of `input`.
pub fn read(input: &mut impl BufRead) -> io::Result<Smaps> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    let mut continues = false;
    loop {
        line.clear();
        if input.by_ref().take(limits::MAX_SMAPS_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(reader.finish());
        }
        let ended = line.pop_if(|last| *last == b'\n').is_some();
        let cut = !ended && line.len() as u64 == limits::MAX_SMAPS_LINE;
        // The rest of an overlong line is not a line.
        if !continues {
            reader.take(&line, ended || cut);
        }
        continues = cut;
    }
}

/// The mapping whose lines are being read.
#[derive(Default)]
struct OpenMapping {
    mapping: MappingResidence,
    reported: FigureSet,
    rollup: bool,
}

#[derive(Default)]
struct Reader {
    out: Smaps,
    done: Vec<MappingResidence>,
    /// The figures that all finished mappings have.
    reported: Option<FigureSet>,
    open: Option<OpenMapping>,
}

impl Reader {
    /// Processes a line. `ended`: whether it ended with a line feed.
    fn take(&mut self, line: &[u8], ended: bool) {
        // Keys begin with a capital letter.
        let begins = line.first().is_some_and(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        match header(line).filter(|_| begins) {
            Some((mapping, name)) => self.begin(mapping, name),
            None if begins && !ended => self.cut(),
            None => self.line(line),
        }
    }

    fn begin(&mut self, mapping: MappingResidence, name: &[u8]) {
        self.close(false);
        self.open = Some(OpenMapping { mapping, reported: FigureSet::EMPTY, rollup: name == b"[rollup]" });
    }

    /// The text ended within the first line of a mapping.
    fn cut(&mut self) {
        self.close(false);
        self.out.cut = true;
    }

    fn line(&mut self, line: &[u8]) {
        let Some(open) = &mut self.open else {
            status::take_line(&mut self.out.status, line);
            return;
        };
        let Some(colon) = memchr::memchr(b':', line) else { return };
        let (key, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default();
        if let Some(figure) = figure(key) {
            if let Some(bytes) = kib(value) {
                open.mapping.figures.set(figure, bytes);
                open.reported.add(figure);
            }
        } else if key == b"KernelPageSize" {
            open.mapping.page_size = kib(value).unwrap_or(0);
        } else if key == b"VmFlags" {
            open.mapping.flags = flags(value);
        } else if !IGNORED.contains(&key) && status::take_line(&mut self.out.status, line) {
            // Lines of status follow the last mapping. Another copy of smaps would begin with a mapping.
            self.close(false);
        }
    }

    /// Finishes the open mapping. `last`: whether the text ended here.
    fn close(&mut self, last: bool) {
        let Some(OpenMapping { mapping, reported, rollup }) = self.open.take() else { return };
        let less = self.reported.is_some_and(|all| reported.and(all) != all);
        if rollup {
            self.out.rollup = Some(mapping.figures);
        } else if last && less {
            self.out.cut = true;
        } else if !reported.has(Figure::Rss) || self.done.len() >= limits::MAX_SEGMENTS {
            self.out.left_out += 1;
        } else if exceeds(&mapping) {
            self.out.impossible += 1;
        } else {
            self.reported = Some(self.reported.map_or(reported, |all| all.and(reported)));
            self.done.push(mapping);
        }
    }

    fn finish(mut self) -> Smaps {
        self.close(true);
        let mut mappings = self.done;
        // They are in order, unless two texts were concatenated.
        mappings.sort_by_key(|mapping| mapping.range);
        let before = mappings.len();
        let mut end = Addr::NULL;
        mappings.retain(|mapping| {
            let apart = mapping.range.start >= end;
            end = if apart { mapping.range.end } else { end };
            apart
        });
        self.out.left_out += (before - mappings.len()) as u64;
        self.out.reported = self.reported.unwrap_or_default();
        self.out.mappings = RangeMap::from_sorted(mappings).unwrap_or_default();
        self.out
    }
}

/// Whether a figure is larger than the mapping, which is impossible. Mappings are disjoint, so without such figures no
/// sum exceeds the address space.
fn exceeds(mapping: &MappingResidence) -> bool {
    Figure::ALL.iter().any(|figure| mapping.figures.get(*figure) > mapping.range.len())
}

/// Keys of a mapping that are not needed. Listed so that they are not taken for keys of status.
const IGNORED: [&[u8]; 9] = [
    b"Size",
    b"MMUPageSize",
    b"Pss_Dirty",
    b"Referenced",
    b"KSM",
    b"Locked",
    b"THPeligible",
    b"ProtectionKey",
    b"Pss_Anon",
];

fn figure(key: &[u8]) -> Option<Figure> {
    Some(match key {
        b"Rss" => Figure::Rss,
        b"Pss" => Figure::Pss,
        b"Shared_Clean" => Figure::SharedClean,
        b"Shared_Dirty" => Figure::SharedDirty,
        b"Private_Clean" => Figure::PrivateClean,
        b"Private_Dirty" => Figure::PrivateDirty,
        b"Anonymous" => Figure::Anonymous,
        b"LazyFree" => Figure::LazyFree,
        b"AnonHugePages" => Figure::AnonHuge,
        b"ShmemPmdMapped" => Figure::ShmemHuge,
        b"FilePmdMapped" => Figure::FileHuge,
        b"Shared_Hugetlb" => Figure::SharedHugetlb,
        b"Private_Hugetlb" => Figure::PrivateHugetlb,
        b"Swap" => Figure::Swap,
        b"SwapPss" => Figure::SwapPss,
        _ => return None,
    })
}

/// Parses VmFlags: `rd wr mr mw me ac sd`, two letters each (Documentation/filesystems/proc.rst).
fn flags(value: &[u8]) -> VmFlags {
    let mut out = VmFlags::default();
    for flag in value.split(u8::is_ascii_whitespace) {
        match flag {
            b"ht" => out.hugetlb = true,
            b"dd" => out.dont_dump = true,
            b"pf" | b"io" => out.device = true,
            b"lo" => out.locked = true,
            b"hg" => out.huge_advised = true,
            _ => {}
        }
    }
    out
}

/// Parses the first line of a mapping, `55e88c608000-55e88c60e000 r-xp 00002000 fe:00 247282     /usr/bin/head`.
/// Returns the mapping without figures, and its name.
fn header(line: &[u8]) -> Option<(MappingResidence, &[u8])> {
    let (start, rest) = hex(line)?;
    let (end, rest) = hex(rest.strip_prefix(b"-")?)?;
    let (perms, rest) = rest.strip_prefix(b" ")?.split_at_checked(4)?;
    let &[read, write, exec, sharing] = perms else { return None };
    let is = |letter: u8, on: u8| (letter == on).then_some(true).or((letter == b'-').then_some(false));
    let perms = Perms { read: is(read, b'r')?, write: is(write, b'w')?, exec: is(exec, b'x')? };
    let shared = match sharing {
        b's' => true,
        b'p' => false,
        _ => return None,
    };
    let (_, rest) = hex(rest.strip_prefix(b" ")?)?;
    let (major, rest) = hex(rest.strip_prefix(b" ")?)?;
    let (minor, rest) = hex(rest.strip_prefix(b":")?)?;
    let (inode, name) = number(rest.strip_prefix(b" ")?)?;
    let file = FileId { device: (u32::try_from(major).ok()?, u32::try_from(minor).ok()?), inode };
    let file = Some(file).filter(|file| file.inode != 0);
    let range = AddrRange::new(Addr::new(start), Addr::new(end));
    let mapping = MappingResidence { range, perms, shared, file, ..MappingResidence::default() };
    (!range.is_empty()).then_some((mapping, name.trim_ascii_start()))
}

#[cfg(test)]
#[path = "smaps_tests.rs"]
mod tests;
