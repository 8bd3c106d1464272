//! The base: every byte of the core's mappings, as the union of PT_LOAD and NT_FILE, with the label that the mapping
//! alone gives.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange, sweep};
use crate::map::{Confidence, Kind};
use crate::range_map::{RangeMap, Ranged};
use crate::targets::Facts;
use crate::targets::MappingName;
use crate::targets::{Perms, Producer};

/// A run of the base with one segment, one file and one set of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseEntry {
    /// Addresses.
    pub range: AddrRange,
    /// Index of the PT_LOAD that maps it. `None` if only NT_FILE does.
    pub segment: Option<u32>,
    /// Access, if a PT_LOAD gives it.
    pub perms: Option<Perms>,
    /// Index into the core's NT_FILE list.
    pub file: Option<u32>,
    /// Offset of this run in that file, in bytes.
    pub file_offset: u64,
    /// NT_FILE's description of memory that is not a file, such as huge pages.
    pub anonymous: Option<&'static str>,
}

impl Ranged for BaseEntry {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// The whole base.
#[derive(Clone)]
pub struct Base {
    /// Runs of equal segment, file and access, by address.
    pub entries: RangeMap<BaseEntry>,
    /// Path of each entry of NT_FILE.
    pub paths: Vec<Arc<str>>,
    flags_show_no_access: bool,
    lists_files: bool,
    lists_all_files: bool,
    evidence: &'static EvidenceTexts,
}

/// Evidence texts for labels of mappings, by the source of the mappings.
struct EvidenceTexts {
    file: &'static str,
    unmapped: &'static str,
    guessed: &'static str,
    named: &'static str,
    anonymous: &'static str,
    uncertain: &'static str,
    unlisted: &'static str,
}

/// Evidence texts for cores.
const IN_CORE: EvidenceTexts = EvidenceTexts {
    file: "NT_FILE lists this file here",
    unmapped: "name in NT_FILE; no PT_LOAD gives its access",
    guessed: "PT_LOAD flags, written by gdb",
    named: "PT_LOAD flags, and name in NT_FILE",
    anonymous: "PT_LOAD flags; NT_FILE lists no file here",
    uncertain: "PT_LOAD flags. This core does not list all mapped files, so this may be one (a memfd or a deleted \
                file)",
    unlisted: "PT_LOAD flags. This core has no list of mapped files (NT_FILE), so this may be a file's or anonymous",
};

/// Description of memory without an owner if the core lists no files.
const FILE_OR_NOT: &str = "anonymous or of a file: the core lists no files";

/// Evidence texts for running processes, where the kernel lists everything.
const IN_MAPS: EvidenceTexts = EvidenceTexts {
    file: "/proc/PID/maps lists this file here",
    named: "access and name in /proc/PID/maps",
    anonymous: "/proc/PID/maps lists no file here",
    uncertain: "/proc/PID/maps lists no file here",
    ..IN_CORE
};

impl Base {
    /// Joins the core's segments and file mappings by overlap.
    pub fn of(facts: &Facts) -> Base {
        let files: Vec<(AddrRange, Reverse<usize>)> =
            facts.space.files.iter().enumerate().map(|(i, f)| (f.range, Reverse(i))).collect();
        let files = sweep(&files);
        let mut entries = Vec::with_capacity(facts.space.pieces.len() + files.len());
        let mut loads: Vec<(AddrRange, u32)> = Vec::with_capacity(facts.space.pieces.len());
        let mapping = |segment: u32| facts.space.mappings[segment as usize].whole;
        for p in facts.space.pieces.iter() {
            match loads.last_mut() {
                Some((last, segment)) if mapping(*segment) == mapping(p.mapping) && last.end == p.range.start => {
                    last.end = p.range.end;
                }
                _ => loads.push((p.range, p.mapping)),
            }
        }
        let (mut l, mut f) = (0, 0);
        let mut at = Addr::NULL;
        loop {
            while loads.get(l).is_some_and(|(r, _)| r.end <= at) {
                l += 1;
            }
            while files.get(f).is_some_and(|(r, _)| r.end <= at) {
                f += 1;
            }
            let load = loads.get(l);
            let file = files.get(f);
            let start = match (load, file) {
                (None, None) => break,
                (Some((a, _)), None) => a.start,
                (None, Some((b, _))) => b.start,
                (Some((a, _)), Some((b, _))) => a.start.min(b.start),
            };
            let start = start.max(at);
            let load_here = load.filter(|(r, _)| r.contains(start));
            let file_here = file.filter(|(r, _)| r.contains(start));
            let ends = [
                load.map(|(r, _)| if load_here.is_some() { r.end } else { r.start }),
                file.map(|(r, _)| if file_here.is_some() { r.end } else { r.start }),
            ];
            let Some(end) = ends.into_iter().flatten().min() else { break };
            let mapping = file_here.map(|&(_, i)| (i, &facts.space.files[i]));
            let anonymous = mapping.and_then(|(_, m)| match MappingName::of(&m.path) {
                MappingName::Anonymous(what) => Some(what),
                _ => None,
            });
            let mapping = mapping.filter(|_| anonymous.is_none());
            entries.push(BaseEntry {
                range: AddrRange::new(start, end),
                segment: load_here.map(|&(_, s)| s),
                perms: load_here.map(|&(_, s)| facts.space.mappings[s as usize].perms),
                file: mapping.map(|(i, _)| i as u32),
                file_offset: mapping.map_or(0, |(_, m)| m.offset.saturating_add(start.since(m.range.start))),
                anonymous,
            });
            at = end;
        }
        Base {
            // The loop makes entries in address order, each from the end of the last one.
            entries: RangeMap::from_sorted(entries).unwrap_or_default(),
            paths: facts.space.files.iter().map(|f| f.path.clone()).collect(),
            flags_show_no_access: facts.producer.flags_show_no_access(),
            lists_files: facts.lists_files(),
            lists_all_files: facts.producer.lists_all_files(&facts.space.files),
            evidence: if facts.producer == Producer::Live { &IN_MAPS } else { &IN_CORE },
        }
    }

    /// Bytes in the base.
    pub fn size(&self) -> u64 {
        self.entries.covered()
    }

    /// The entry that contains `addr`.
    pub fn at(&self, addr: Addr) -> Option<&BaseEntry> {
        self.entries.at(addr)
    }

    /// Returns the mapped parts of `range`, each with its result of `test`. Adjacent parts with one result are joined.
    pub(crate) fn split(&self, range: AddrRange, test: impl Fn(&BaseEntry) -> bool) -> Vec<(AddrRange, bool)> {
        let mut out: Vec<(AddrRange, bool)> = Vec::new();
        for entry in self.entries.overlapping(range) {
            let (Some(part), result) = (entry.range.intersect(&range), test(entry)) else { continue };
            match out.last_mut() {
                Some((last, same)) if *same == result && last.end == part.start => last.end = part.end,
                _ => out.push((part, result)),
            }
        }
        out
    }

    /// The path mapped by `entry`, if it is a file mapping.
    pub fn path(&self, entry: &BaseEntry) -> Option<&Arc<str>> {
        self.paths.get(entry.file? as usize)
    }

    /// The label that the mapping alone gives: kind, confidence, detail, evidence.
    pub fn label(&self, entry: &BaseEntry) -> (Kind, Confidence, Arc<str>, &'static str) {
        if let Some(path) = self.path(entry) {
            let (kind, detail) = match MappingName::of(path) {
                MappingName::Kernel(what) => (Kind::SharedMemory, format!("shared with the kernel: {what}").into()),
                name if name.is_shared_memory() => (Kind::SharedMemory, path.clone()),
                _ => (Kind::MappedFile, path.clone()),
            };
            return (kind, Confidence::Exact, detail, self.evidence.file);
        }
        if let (Some(what), None) = (entry.anonymous, entry.perms) {
            return (Kind::AnonRW, Confidence::Derived, what.into(), self.evidence.unmapped);
        }
        let p = entry.perms.unwrap_or_default();
        let kind = match (p.read, p.write, p.exec) {
            (_, true, true) => Kind::AnonRWX,
            (_, true, false) => Kind::AnonRW,
            (_, false, true) => Kind::AnonRX,
            (true, false, false) => Kind::AnonRO,
            (false, false, false) => Kind::NoAccess,
        };
        if kind == Kind::AnonRO && !self.flags_show_no_access {
            let detail = "read-only or no access (gdb writes both alike)";
            return (kind, Confidence::Heuristic, detail.into(), self.evidence.guessed);
        }
        if let Some(what) = entry.anonymous {
            return (kind, Confidence::Exact, what.into(), self.evidence.named);
        }
        if !self.lists_files && kind != Kind::NoAccess {
            (kind, Confidence::Heuristic, FILE_OR_NOT.into(), self.evidence.unlisted)
        } else if self.lists_all_files {
            (kind, Confidence::Exact, "".into(), self.evidence.anonymous)
        } else {
            (kind, Confidence::Derived, "".into(), self.evidence.uncertain)
        }
    }
}
