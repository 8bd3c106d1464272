//! Finds pages that are mapped twice: ranges of a memfd or shared memory that are mapped at two addresses. .NET's W^X
//! maps its code so, and ring buffers are mapped twice in a row.
//!
//! Names of memfds repeat, and NT_FILE has no inode. /proc/PID/smaps has one, so it decides for running processes and
//! with `--smaps`. Otherwise the bytes of the views are compared, as far as the core has both.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange, PAGE, union};
use crate::limits;
use crate::targets::{FileId, FileMapping, MappingName, Perms, SecondView, Target};

/// A second view of pages that are mapped at another address too.
#[derive(Clone, Debug)]
pub struct Alias {
    /// Addresses of the second view.
    pub range: AddrRange,
    /// Address of the same bytes in the first view.
    pub first: Addr,
    /// Path of the mapped file.
    pub path: Arc<str>,
    /// Evidence that the pages are the same.
    pub proof: AliasProof,
}

/// Evidence that two views show the same pages, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AliasProof {
    /// Name and file offset are equal, and one view is writable and the other is not. The bytes could not be compared.
    Access,
    /// Name and file offset are equal, and so are the bytes of both views.
    Bytes,
    /// Both are shared mappings of one inode.
    Inode,
}

impl Alias {
    /// Returns the evidence in words.
    pub fn evidence(&self) -> String {
        let first = self.first;
        match self.proof {
            AliasProof::Access => format!(
                "NT_FILE: same name and file offset as {first}; one view is writable, the other is not; bytes not \
                 compared"
            ),
            AliasProof::Bytes => format!("NT_FILE: same name and file offset as {first}; the bytes agree"),
            AliasProof::Inode => format!("smaps: same inode and file offset as {first}"),
        }
    }
}

/// Pages that are mapped twice, or may be.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// Second views.
    pub aliases: Vec<Alias>,
    /// Ranges that may be second views: name and file offset are those of another mapping, and nothing shows whether
    /// the pages are the same.
    pub undecided: Vec<AddrRange>,
}

/// Number of written pages compared for each pair of views.
const SAMPLES: u64 = 16;

/// A range of one mapping.
#[derive(Clone, Copy, Debug)]
struct View {
    /// Offsets in the file, in the form of addresses.
    range: AddrRange,
    start: Addr,
    perms: Option<Perms>,
}

impl View {
    /// The address of an offset in the file.
    fn at(&self, offset: Addr) -> Addr {
        self.start.saturating_add(offset.since(self.range.start))
    }
}

/// Mappings that may show one file: of one inode, or else of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group<'a> {
    /// The flag is set for System V segments. Linux shows their ids as inode numbers, on the device of memfds
    /// (ipc/shm.c, `newseg`), so such a number may be a memfd's too.
    Inode(FileId, bool),
    Name(&'a Arc<str>),
}

/// Finds all second views. The first view of a page is the executable one, or else the one at the lowest address.
pub fn find(target: &dyn Target) -> Views {
    let facts = target.facts();
    if let Some(views) = &facts.second_views {
        let aliases = views.iter().filter_map(|view| listed_view(target, view)).collect();
        return Views { aliases, undecided: Vec::new() };
    }
    let mut groups: BTreeMap<Group<'_>, Vec<&FileMapping>> = BTreeMap::new();
    for f in facts.space.files.iter().filter(|f| is_shared_memory(&f.path)) {
        let group = match identity(target, f) {
            Some(Identity::Inode(id)) => Group::Inode(id, f.path.starts_with("/SYSV")),
            Some(Identity::Private) => continue,
            None => Group::Name(&f.path),
        };
        groups.entry(group).or_default().push(f);
    }
    let mut out = Views::default();
    let mut search = Search { target, steps: limits::MAX_VIEW_STEPS, pages: limits::MAX_VIEW_PAGES };
    for (group, mappings) in groups.iter().filter(|(_, mappings)| mappings.len() > 1) {
        search.pairs(matches!(group, Group::Inode(..)), mappings, &mut out);
    }
    out.undecided = union(out.undecided);
    out
}

/// What smaps says about a mapping.
enum Identity {
    Inode(FileId),
    /// It is not shared, so its pages are its own once they are written.
    Private,
}

fn identity(target: &dyn Target, f: &FileMapping) -> Option<Identity> {
    let known = target.facts().residence.as_ref()?.mapping_at(f.range.start).filter(|known| known.range == f.range)?;
    Some(match known.file {
        _ if !known.shared => Identity::Private,
        Some(id) => Identity::Inode(id),
        None => return None,
    })
}

/// Returns a second view that the core's own note lists. Its bytes were overwritten by scrubbing, so they cannot be
/// compared.
fn listed_view(target: &dyn Target, view: &SecondView) -> Option<Alias> {
    let files = &target.facts().space.files;
    let file = files.iter().find(|file| file.range.contains(view.range.start))?;
    let proof = if view.compared { AliasProof::Bytes } else { AliasProof::Access };
    Some(Alias { range: view.range, first: view.first, path: file.path.clone(), proof })
}

fn is_shared_memory(path: &str) -> bool {
    matches!(MappingName::of(path), MappingName::Memory | MappingName::Shared)
}

/// The search for pairs, and what is left of its budget.
struct Search<'a> {
    target: &'a dyn Target,
    steps: usize,
    pages: u64,
}

impl Search<'_> {
    /// Finds pairs among the mappings of one inode, or of one name.
    fn pairs(&mut self, is_one_file: bool, mappings: &[&FileMapping], out: &mut Views) {
        let space = &self.target.facts().space;
        let perms = |f: &FileMapping| Some(space.mappings.get(space.pieces.at(f.range.start)?.mapping as usize)?.perms);
        let mut views: Vec<(View, &Arc<str>)> = mappings
            .iter()
            .map(|f| {
                let range = AddrRange::sized(Addr::new(f.offset), f.range.len());
                (View { range, start: f.range.start, perms: perms(f) }, &f.path)
            })
            .collect();
        views.sort_by_key(|(v, _)| (Reverse(v.perms.is_some_and(|p| p.exec)), v.start));
        // Disjoint within each file. Several files of one name overlap.
        let mut firsts: Vec<View> = Vec::new();
        for (view, path) in views {
            let mut rest = vec![view.range];
            let (mut likely, mut undecided): (Vec<(AddrRange, Addr)>, Vec<AddrRange>) = (Vec::new(), Vec::new());
            for first in &firsts {
                let Some(steps) = self.steps.checked_sub(rest.len().max(1)) else {
                    undecided.extend_from_slice(&rest);
                    break;
                };
                self.steps = steps;
                let mut left = Vec::new();
                for part in rest {
                    let Some(common) = part.intersect(&first.range) else {
                        left.push(part);
                        continue;
                    };
                    let (here, there) = (view.at(common.start), first.at(common.start));
                    let compared = if here == there {
                        // NT_FILE of a damaged core may list a range twice.
                        Comparison::Differ
                    } else if is_one_file {
                        Comparison::Agree
                    } else {
                        self.compare(here, there, common.len())
                    };
                    match compared {
                        Comparison::Agree if out.aliases.len() < limits::MAX_LIST => {
                            let proof = if is_one_file { AliasProof::Inode } else { AliasProof::Bytes };
                            let range = AddrRange::sized(here, common.len());
                            out.aliases.push(Alias { range, first: there, path: path.clone(), proof });
                            left.extend(part.without(&[common]));
                            continue;
                        }
                        Comparison::Agree | Comparison::Unknown => match (view.perms, first.perms) {
                            // Two new files of one name look the same, but they have equal access.
                            (Some(a), Some(b)) if a.write != b.write => likely.push((common, there)),
                            _ => undecided.push(common),
                        },
                        Comparison::Differ => {}
                    }
                    left.push(part);
                }
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            for (common, first) in likely {
                if out.aliases.len() >= limits::MAX_LIST {
                    undecided.push(common);
                    continue;
                }
                out.aliases.extend(rest.iter().filter_map(|part| part.intersect(&common)).map(|part| {
                    let range = AddrRange::sized(view.at(part.start), part.len());
                    let first = first.saturating_add(part.start.since(common.start));
                    Alias { range, first, path: path.clone(), proof: AliasProof::Access }
                }));
                rest = rest.iter().flat_map(|range| range.without(&[common])).collect();
            }
            for common in undecided {
                let parts = rest.iter().filter_map(|part| part.intersect(&common));
                let ranges = parts.map(|part| AddrRange::sized(view.at(part.start), part.len()));
                let room = limits::MAX_LIST.saturating_sub(out.undecided.len());
                out.undecided.extend(ranges.take(room));
            }
            firsts.extend(rest.into_iter().map(|range| View { range, start: view.at(range.start), ..view }));
        }
    }

    /// Compares written pages of both ranges: pages spread over them first, then the others.
    fn compare(&mut self, a: Addr, b: Addr, len: u64) -> Comparison {
        let pages = len / PAGE;
        let step = (pages / SAMPLES).max(1);
        let spread = (0..pages).step_by(step as usize);
        let others = (0..pages).filter(|i| !i.is_multiple_of(step));
        let mut seen = Seen::default();
        for i in spread.chain(others) {
            let Some(left) = self.pages.checked_sub(1) else { break };
            self.pages = left;
            let (Some(x), Some(y)) = (self.page(a, i), self.page(b, i)) else { continue };
            seen.add(x, y);
            if seen.pages >= SAMPLES || seen.is_another_file() {
                break;
            }
        }
        seen.verdict()
    }

    /// Returns the bytes of a page of a view, if the core has all of it.
    fn page(&self, base: Addr, i: u64) -> Option<&[u8]> {
        let range = AddrRange::sized(base.saturating_add(i * PAGE), PAGE);
        self.target.reads().note_run(range.start, range.len());
        self.target.dumped_runs(range).first().filter(|r| r.range == range).map(|r| r.bytes)
    }
}

enum Comparison {
    Agree,
    Differ,
    /// No page is in the core at both addresses, or all of them have one value, which says nothing.
    Unknown,
}

/// Two views of the same pages differ in at most one of this many written words. In a running process, a word may be
/// written after one view is read and before the other is. Different files of one name have almost nothing in common.
const WRITTEN_MEANWHILE: usize = 16;

/// Words compared so far.
#[derive(Default)]
struct Seen {
    /// Pages that are not all zero.
    pages: u64,
    written: usize,
    differ: usize,
    /// The first word that is not zero.
    value: Option<u64>,
    /// Whether another one has another value.
    is_varied: bool,
}

impl Seen {
    fn add(&mut self, x: &[u8], y: &[u8]) {
        let before = self.written;
        for (x, y) in x.as_chunks::<8>().0.iter().zip(y.as_chunks::<8>().0) {
            let (x, y) = (u64::from_le_bytes(*x), u64::from_le_bytes(*y));
            if x | y == 0 {
                continue;
            }
            self.written += 1;
            self.differ += usize::from(x != y);
            let value = *self.value.get_or_insert(x | y);
            self.is_varied |= value != x || value != y;
        }
        self.pages += u64::from(self.written > before);
    }

    /// Whether a page's worth of words differs: more than what is written meanwhile.
    fn is_another_file(&self) -> bool {
        self.differ * 2 > self.written && self.differ * 8 >= PAGE as usize
    }

    fn verdict(&self) -> Comparison {
        if self.differ * WRITTEN_MEANWHILE > self.written {
            Comparison::Differ
        } else if self.is_varied {
            Comparison::Agree
        } else {
            Comparison::Unknown
        }
    }
}
