//! Notes of owner "coremap": data that only cores written by coremap have (docs/live.md).
//!
//! | type | contents |
//! |---|---|
//! | 1 | how the core was made: lines `KEY VALUE` |
//! | 2 | text of /proc/PID/smaps |
//! | 3 | text of /proc/PID/status |
//! | 4 | thread names: `TID NAME`, each with a NUL after it |
//! | 5 | how long the process was stopped, and whether that was long enough |
//! | 6 | pages that were in memory, and pages in swap |
//! | 7 | figures of the control group: lines `KEY VALUE` |
//! | 8 | that values were overwritten (docs/sharing.md): lines `KEY VALUE` |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::bytes;
use crate::core::note_bytes::add;
use crate::core::notes::Cursor;
use crate::diag::{Diagnostics, WarningCode};
use crate::limits;
use crate::resident::{smaps, status};
use crate::targets::dump_notes::{DumpNotes, DumpStop, Dumped};
use crate::targets::residence::{CgroupFigures, Figure, PageRuns, Pages, Residence};
use crate::targets::{Facts, SecondView, Thread};

/// Owner of these notes.
const OWNER: &str = "coremap";

pub(super) const OWNER_BYTES: &[u8] = OWNER.as_bytes();

pub(super) mod kind {
    pub(in crate::core) const MADE: u32 = 1;
    pub(in crate::core) const SMAPS: u32 = 2;
    pub(in crate::core) const STATUS: u32 = 3;
    pub(in crate::core) const NAMES: u32 = 4;
    pub(in crate::core) const STOOD: u32 = 5;
    pub(in crate::core) const PAGES: u32 = 6;
    pub(in crate::core) const CGROUP: u32 = 7;
    pub(in crate::core) const SCRUBBED: u32 = 8;
}

/// Length of the note about the stop, in bytes.
pub(crate) const STOP_BYTES: u64 = 12 + 8 + 16;

/// Value of `kept` for a full core, in place of command names.
const FULL: &str = "full";

/// Contents of the notes.
#[derive(Default)]
pub struct OwnNotes {
    /// How the core was made. `None` if coremap did not write it.
    pub dumped: Option<Dumped>,
    /// Thread names by thread ID.
    pub names: BTreeMap<u32, String>,
    smaps: Option<smaps::Smaps>,
    status: Option<Vec<u8>>,
    stop: Option<DumpStop>,
    pages: Option<NotedPages>,
    cgroup: Option<CgroupFigures>,
    /// Whether values were overwritten.
    pub scrubbed: bool,
    /// Whether the program's own names were overwritten too.
    pub scrubbed_names: bool,
    /// Pages mapped twice, if the core was scrubbed.
    pub second_views: Option<Vec<SecondView>>,
}

impl OwnNotes {
    pub(super) fn take(&mut self, kind: u32, desc: &[u8]) {
        match kind {
            kind::MADE => self.dumped = Some(made(desc)),
            kind::SMAPS => self.smaps = Some(smaps::parse(desc)),
            kind::STATUS => self.status = Some(desc.to_vec()),
            kind::NAMES => self.names = names(desc),
            kind::STOOD => self.stop = stop(desc),
            kind::PAGES => self.pages = pages(desc),
            kind::CGROUP => self.cgroup = Some(cgroup(desc)),
            kind::SCRUBBED => {
                self.scrubbed = true;
                let text = text(desc);
                self.scrubbed_names |= text.lines().any(|line| line == "scrubbed names");
                self.second_views.get_or_insert_default().extend(text.lines().filter_map(second_view));
            }
            _ => {}
        }
    }

    /// Data missing from the answer without a note of this type. `None` for other types.
    pub(super) fn loses(kind: u32) -> Option<&'static str> {
        Some(match kind {
            kind::MADE => "whether coremap wrote this core, and which memory it left out, is unknown",
            kind::SMAPS | kind::STATUS | kind::PAGES | kind::CGROUP => "residence is unknown",
            kind::NAMES => "thread names are missing",
            kind::SCRUBBED => "whether this core was scrubbed is unknown",
            kind::STOOD => "whether the process was stopped for the whole dump is unknown",
            _ => return None,
        })
    }

    /// How the core was made, and how the process was stopped. Warns about facts that the reader must know.
    pub(super) fn dumped(&mut self, threads: &[Thread], diag: &Diagnostics) -> Option<Dumped> {
        let mut dumped = self.dumped.take()?;
        dumped.stop = self.stop;
        if self.stop.is_some_and(|stop| stop.timed_out) {
            diag.partial(
                WarningCode::RanOn,
                "this core may be inconsistent: coremap resumed the process before everything was read \
                 (--stop-at-most)",
            );
        }
        if self.stop.is_some_and(|stop| stop.lost) {
            diag.partial(
                WarningCode::ReadFailed,
                "some memory could not be read when this core was written; it is zero here",
            );
        }
        let known = |tid: &&u32| !threads.iter().any(|thread| thread.tid == **tid);
        let without = self.names.keys().filter(known).count();
        if without > 0 {
            diag.partial(
                WarningCode::NotStopped,
                format!(
                    "{without} of the threads did not stop when this core was written; their registers are missing"
                ),
            );
        }
        Some(dumped)
    }

    /// Resident memory of process `pid`.
    pub(super) fn residence(&mut self, pid: u32, diag: &Diagnostics) -> Option<Residence> {
        let smaps = self.smaps.take()?;
        if let Some(warning) = smaps.warning("the smaps in this core") {
            diag.add(warning);
        }
        let mut residence = smaps.into_residence(format!("/proc/{pid}/smaps when the core was written"));
        if let Some(text) = &self.status {
            residence.status = status::parse(text);
        }
        residence.cgroup = self.cgroup.take();
        residence.pages = self.pages.take().map(|noted| Arc::new(noted) as _);
        Some(residence)
    }
}

/// Appends the notes whose contents are known while the process is stopped.
pub(super) fn of_process(out: &mut Vec<u8>, facts: &Facts, notes: &DumpNotes) {
    let names = facts.thread_names.iter().flat_map(|(tid, name)| {
        // In the kernel too, a name ends at its NUL.
        format!("{tid} {}\0", name.split('\0').next().unwrap_or_default()).into_bytes()
    });
    let texts = [(kind::SMAPS, &notes.smaps), (kind::STATUS, &notes.status), (kind::NAMES, &names.collect())];
    for (kind, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        add(out, OWNER, kind, text);
    }
    if let Some(mut figures) = facts.residence.as_ref().and_then(|residence| residence.cgroup) {
        let mut text = format!("version {}\n", figures.version);
        for (key, value) in figures_of(&mut figures) {
            text.extend(value.map(|value| format!("{key} {value}\n")));
        }
        add(out, OWNER, kind::CGROUP, text.as_bytes());
    }
    let pages = facts.residence.as_ref().and_then(|residence| known_pages(residence));
    if let Some(noted) = pages {
        add(out, OWNER, kind::PAGES, &noted.to_bytes());
    }
}

pub(crate) fn add_made(out: &mut Vec<u8>, dumped: &Dumped) {
    let kept = if dumped.kept.is_empty() { FULL.to_owned() } else { dumped.kept.join(",") };
    let text = format!("coremap {}\nkept {kept}\ntime {}\n", dumped.version, dumped.time);
    add(out, OWNER, kind::MADE, text.as_bytes());
}

/// Key of a line about pages mapped twice: start, end, start of the first view, and how it was recognised.
const VIEW: &str = "view";

/// Value for views whose bytes were compared.
const COMPARED: &str = "bytes";

fn second_view(line: &str) -> Option<SecondView> {
    let mut words = line.strip_prefix(VIEW)?.split_whitespace();
    let mut address = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok().map(Addr::new);
    let (start, end, first) = (address()?, address()?, address()?);
    let compared = words.next() == Some(COMPARED);
    (start < end).then(|| SecondView { range: AddrRange::new(start, end), first, compared })
}

/// Appends the note that values were overwritten, unless an equal one exists. `views` are pages mapped twice, which can
/// no longer be recognised by their bytes.
pub fn add_scrubbed(out: &mut Vec<u8>, level: &str, views: &[SecondView]) {
    let mut text = format!("coremap {}\nscrubbed {level}\n", env!("CARGO_PKG_VERSION"));
    for SecondView { range, first, compared } in views {
        let how = if *compared { COMPARED } else { "access" };
        text += &format!("{VIEW} {} {} {first} {how}\n", range.start, range.end);
    }
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(out) {
        let is_ours = (note.owner, note.kind) == (OWNER_BYTES, kind::SCRUBBED);
        if is_ours && out.get(note.desc) == Some(text.as_bytes()) {
            return;
        }
    }
    add(out, OWNER, kind::SCRUBBED, text.as_bytes());
}

/// Ranges of names in a note of this type: mappings' paths, and names of the process and its threads.
pub(super) fn names_in(kind: u32, desc: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    let end = if kind == kind::NAMES { 0 } else { b'\n' };
    for line in desc.split(|&b| b == end) {
        let behind = |skip: usize| at + skip.min(line.len())..at + line.len();
        match kind {
            kind::NAMES => out.extend(line.iter().position(|&b| b == b' ').map(behind)),
            kind::STATUS if line.starts_with(b"Name:") => out.push(behind(5)),
            // In the line of a mapping: its path, from the first slash on, or the name of memory without a file.
            kind::SMAPS if line.first().is_some_and(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()) => {
                out.extend(line.iter().position(|b| matches!(b, b'/' | b'[')).map(behind));
                // Before Linux 5.18, other names are in brackets only, and deleted ones always have a slash.
            }
            _ => {}
        }
        at += line.len() + 1;
    }
    out.into_iter()
}

pub(crate) fn add_stop(out: &mut Vec<u8>, stop: &DumpStop) {
    let micros = u64::try_from(stop.lasted.as_micros()).unwrap_or(u64::MAX);
    let flags = u64::from(stop.timed_out) | u64::from(stop.lost) << 1;
    let desc = [micros, flags].map(u64::to_le_bytes);
    add(out, OWNER, kind::STOOD, desc.as_flattened());
}

fn made(desc: &[u8]) -> Dumped {
    let text = text(desc);
    let value = |key| value(&text, key);
    let words = |text: &str| text.split(',').map(|word| bytes::printable(word).into_owned()).collect();
    Dumped {
        version: value("coremap").map(|text| bytes::printable(text).into_owned()).unwrap_or_default(),
        kept: value("kept").filter(|&kept| kept != FULL).map(words).unwrap_or_default(),
        time: value("time").and_then(|text| text.parse().ok()).unwrap_or(0),
        stop: None,
    }
}

/// A short text of lines.
fn text(desc: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(desc.get(..limits::MAX_NAME).unwrap_or(desc))
}

fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

/// The figures of a control group, by their names in version 2.
fn figures_of(group: &mut CgroupFigures) -> [(&'static str, &mut Option<u64>); 13] {
    let CgroupFigures { version: _, current, max, peak, swap, anon, file, file_mapped, shmem, .. } = group;
    let CgroupFigures { kernel, kernel_stack, page_tables, slab, sock, .. } = group;
    [
        ("current", current),
        ("max", max),
        ("peak", peak),
        ("swap", swap),
        ("anon", anon),
        ("file", file),
        ("file_mapped", file_mapped),
        ("shmem", shmem),
        ("kernel", kernel),
        ("kernel_stack", kernel_stack),
        ("pagetables", page_tables),
        ("slab", slab),
        ("sock", sock),
    ]
}

fn cgroup(desc: &[u8]) -> CgroupFigures {
    let text = text(desc);
    let number = |key| value(&text, key)?.parse().ok();
    let version = value(&text, "version").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut group = CgroupFigures { version, ..CgroupFigures::default() };
    for (key, figure) in figures_of(&mut group) {
        *figure = number(key);
    }
    group
}

fn names(desc: &[u8]) -> BTreeMap<u32, String> {
    let entries = desc.split(|&b| b == 0);
    let entry = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry);
        let (tid, name) = text.split_once(' ')?;
        Some((tid.parse().ok()?, name.to_owned()))
    };
    entries.filter_map(entry).take(limits::MAX_THREADS).collect()
}

fn stop(desc: &[u8]) -> Option<DumpStop> {
    let (micros, flags) = (bytes::u64_at(desc, 0)?, bytes::u64_at(desc, 8)?);
    Some(DumpStop { lasted: Duration::from_micros(micros), timed_out: flags & 1 != 0, lost: flags & 2 != 0 })
}

/// Page runs, as in the note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NotedPages {
    /// The ranges that `runs` describes.
    known: Vec<AddrRange>,
    runs: PageRuns,
}

/// Mappings whose pages are more than this many times their present pages are left out. Their figures are enough, and
/// reading their page states takes a millisecond per GiB.
const SPARSE: u64 = 32;

/// Pages of all mappings that have any. `None` if pages are not known.
fn known_pages(residence: &Residence) -> Option<NotedPages> {
    let pages = residence.pages.as_ref()?;
    let mut out = NotedPages::default();
    let mut private = Some(Vec::new());
    for mapping in residence.mappings.iter() {
        let figures = [Figure::Rss, Figure::Swap, Figure::PrivateHugetlb, Figure::SharedHugetlb];
        let held = figures.into_iter().map(|figure| mapping.figures.get(figure)).fold(0, u64::saturating_add);
        if held > 0 {
            if mapping.range.len() / SPARSE > held {
                continue;
            }
            let runs = pages.pages(mapping.range)?;
            match (&mut private, runs.private) {
                (Some(all), Some(runs)) => all.extend(runs),
                (all, _) => *all = None,
            }
            out.runs.resident.extend(runs.resident);
            out.runs.swapped.extend(runs.swapped);
        }
        match out.known.last_mut() {
            Some(last) if last.end == mapping.range.start => last.end = mapping.range.end,
            _ => out.known.push(mapping.range),
        }
    }
    out.runs.private = private;
    let count = out.lists().map(Vec::len).max().unwrap_or(0) as u64;
    (count <= limits::MAX_PAGE_RUNS).then_some(out)
}

impl NotedPages {
    fn lists(&self) -> impl Iterator<Item = &Vec<AddrRange>> {
        [&self.known, &self.runs.resident, &self.runs.swapped].into_iter().chain(&self.runs.private)
    }

    /// Serialises the lists: the number of runs, and for each its distance from the one before and its length, both in
    /// pages. All numbers are LEB128.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for list in self.lists() {
            leb128(&mut out, list.len() as u64);
            let mut at = Addr::NULL;
            for run in list {
                leb128(&mut out, run.start.since(at) / PAGE);
                leb128(&mut out, run.len() / PAGE);
                at = run.end;
            }
        }
        out
    }
}

impl Pages for NotedPages {
    fn pages(&self, range: AddrRange) -> Option<PageRuns> {
        let of = |runs: &[AddrRange], addr| runs.partition_point(|run| run.end <= addr);
        self.known.get(of(&self.known, range.start)).filter(|known| known.covers(&range))?;
        let within = |runs: &[AddrRange]| {
            let after = runs.get(of(runs, range.start)..).unwrap_or_default();
            after.iter().take_while(|run| run.start < range.end).filter_map(|run| run.intersect(&range)).collect()
        };
        let PageRuns { resident, private, swapped } = &self.runs;
        let private = private.as_ref().map(|private| within(private));
        Some(PageRuns { resident: within(resident), private, swapped: within(swapped) })
    }
}

fn leb128(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the next number of `rest`. `None` if it is incomplete, or has more than 64 bits.
fn next(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn list(rest: &mut &[u8]) -> Option<Vec<AddrRange>> {
    let count = next(rest).filter(|&count| count <= limits::MAX_PAGE_RUNS)?;
    let mut runs = Vec::new();
    let mut at = Addr::NULL;
    for _ in 0..count {
        let start = at.checked_add(next(rest)?.checked_mul(PAGE)?)?;
        at = start.checked_add(next(rest)?.checked_mul(PAGE)?)?;
        runs.push(AddrRange::new(start, at));
    }
    Some(runs)
}

fn pages(desc: &[u8]) -> Option<NotedPages> {
    let mut rest = desc;
    let (known, resident, swapped) = (list(&mut rest)?, list(&mut rest)?, list(&mut rest)?);
    let private = if rest.is_empty() { None } else { Some(list(&mut rest)?) };
    Some(NotedPages { known, runs: PageRuns { resident, private, swapped } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(Addr::new(start), Addr::new(end))
    }

    #[test]
    fn pages_come_back() {
        let resident = vec![range(0x1000, 0x2000), range(0x7fff_0000_0000, 0x7fff_1234_5000)];
        let private = Some(vec![range(0x1000, 0x2000)]);
        let runs = PageRuns { resident, private, swapped: vec![range(0x3000, 0x4000)] };
        let noted = NotedPages { known: vec![range(0x1000, 0x5000), range(0x7fff_0000_0000, 0x7fff_4000_0000)], runs };
        let bytes = noted.to_bytes();
        assert_eq!(pages(&bytes), Some(noted.clone()));
        let within = noted.pages(range(0x1000, 0x5000));
        let (resident, swapped) = (vec![range(0x1000, 0x2000)], vec![range(0x3000, 0x4000)]);
        let wanted = PageRuns { private: Some(resident.clone()), resident, swapped };
        assert_eq!(within, Some(wanted));
        let within = noted.pages(range(0x7fff_0000_0000, 0x7fff_0000_1000)).map(|runs| runs.resident);
        assert_eq!(within, Some(vec![range(0x7fff_0000_0000, 0x7fff_0000_1000)]));
        for unknown in [range(0x4000, 0x6000), range(0x5000, 0x6000), range(0x8000_0000_0000, 0x8000_0000_1000)] {
            assert_eq!(noted.pages(unknown), None);
        }
        // Without the last list, only this list is unknown. A cut within it, or before, makes everything unknown.
        let three = bytes.len() - 3;
        let cuts = (0..bytes.len()).filter(|&cut| pages(bytes.get(..cut).unwrap_or_default()).is_some());
        assert_eq!(cuts.collect::<Vec<_>>(), [three]);
        assert_eq!(pages(&[0xff; 40]), None, "a number of more than 64 bits");
    }

    #[test]
    fn how_it_was_made_comes_back() {
        let kept = vec!["heap".to_owned(), "threads".to_owned()];
        let dumped = Dumped { version: "0.1.0".into(), kept, time: 1_763_900_000, stop: None };
        let mut out = Vec::new();
        add_made(&mut out, &dumped);
        let desc = out.get(12 + 8..).unwrap_or_default();
        let read = made(desc);
        assert_eq!((read.version, read.kept, read.time), (dumped.version, dumped.kept, dumped.time));
        let evil = made(b"kept \x1b[31m,x\ntime -1\n");
        assert!(made(b"kept full\n").kept.is_empty());
        assert_eq!((evil.kept[1].as_str(), evil.time, evil.version.as_str()), ("x", 0, ""));
        assert!(!evil.kept[0].contains('\x1b'));
    }

    #[test]
    fn how_it_stood_comes_back() {
        let how = DumpStop { lasted: Duration::from_micros(12_345_678), timed_out: false, lost: true };
        let mut out = Vec::new();
        add_stop(&mut out, &how);
        assert_eq!(out.len() as u64, STOP_BYTES);
        assert_eq!(stop(out.get(12 + 8..).unwrap_or_default()), Some(how));
        assert_eq!(stop(&[0; 15]), None);
    }

    #[test]
    fn what_the_group_counted_comes_back() {
        let known = CgroupFigures { version: 2, current: Some(7), page_tables: Some(0), ..CgroupFigures::default() };
        let mut text = String::from("version 2\n");
        for (key, value) in figures_of(&mut known.clone()) {
            text.extend(value.map(|value| format!("{key} {value}\n")));
        }
        assert_eq!(text, "version 2\ncurrent 7\npagetables 0\n");
        assert_eq!(cgroup(text.as_bytes()), known);
        assert_eq!(cgroup(b"version 300\ncurrent -1\nanon \n"), CgroupFigures::default());
    }

    #[test]
    fn names_of_threads_may_hold_anything() {
        let desc = b"12 a b\0 no number\x0013 \0x y\x0014 line\nend\0";
        let found: Vec<(u32, String)> = names(desc).into_iter().collect();
        assert_eq!(found, [(12, "a b".into()), (13, String::new()), (14, "line\nend".into())]);
    }
}
