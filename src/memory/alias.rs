//! Finds pages that are mapped twice: ranges of a memfd or shared-memory file that are mapped at two addresses. .NET's
//! W^X maps its code so.
//!
//! NT_FILE has a name and an offset but no inode, and names of memfds repeat. So the bytes of both views are compared,
//! where the core has both.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::limits;
use crate::range_map::{RangeMap, Ranged};
use crate::targets::FileMapping;
use crate::targets::MappingName;
use crate::targets::SecondView;
use crate::targets::Target;

/// A second view of pages that are mapped at another address too.
#[derive(Clone, Debug)]
pub struct Alias {
    /// Addresses of the second view.
    pub range: AddrRange,
    /// Address of the same bytes in the first view.
    pub first: Addr,
    /// Path of the mapped file.
    pub path: Arc<str>,
    /// Whether both views had bytes to compare, and they agreed.
    pub compared: bool,
}

impl Alias {
    /// Returns the evidence in words.
    pub fn evidence(&self) -> String {
        let how = if self.compared {
            "the bytes agree"
        } else {
            "one view is writable, the other is not; bytes not \
            compared"
        };
        format!("NT_FILE: same name and file offset as {}; {how}", self.first)
    }
}

/// Pages compared of each pair of views, spread over both.
const SAMPLES: u64 = 16;

/// A range of one mapping. `range` contains offsets into the file, in the form of addresses, so that a [`RangeMap`]
/// can sort them.
#[derive(Clone, Debug)]
struct View {
    range: AddrRange,
    start: Addr,
    perms: Option<crate::targets::Perms>,
}

impl Ranged for View {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Finds all second views. The first view of a page is the executable one, or else the one at the lowest address.
pub fn find(target: &dyn Target) -> Vec<Alias> {
    if let Some(views) = &target.facts().second_views {
        return views.iter().filter_map(|view| listed_view(target, view)).collect();
    }
    let mut by_path: BTreeMap<&Arc<str>, Vec<&FileMapping>> = BTreeMap::new();
    for f in target.facts().space.files.iter().filter(|f| may_alias(&f.path)) {
        by_path.entry(&f.path).or_default().push(f);
    }
    let mut out = Vec::new();
    for (path, mappings) in by_path {
        let views: Vec<View> = mappings
            .iter()
            .map(|f| View {
                range: AddrRange::sized(Addr::new(f.offset), f.range.len()),
                start: f.range.start,
                perms: target
                    .facts()
                    .space
                    .pieces
                    .at(f.range.start)
                    .map(|p| target.facts().space.mappings[p.mapping as usize].perms),
            })
            .collect();
        let firsts = RangeMap::resolve(
            &views,
            |_, v| (v.range, (v.perms.is_some_and(|p| p.exec), Reverse(v.start))),
            |range, v| View { range, start: v.start.saturating_add(range.start.since(v.range.start)), ..v.clone() },
        );
        for view in &views {
            for first in firsts.overlapping(view.range) {
                if out.len() >= limits::MAX_LIST {
                    return out;
                }
                out.extend(second_view(target, path, view, first));
            }
        }
    }
    out
}

/// Returns a second view that the core's own note lists. Its bytes were overwritten by scrubbing, so they cannot be
/// compared.
fn listed_view(target: &dyn Target, view: &SecondView) -> Option<Alias> {
    let files = &target.facts().space.files;
    let file = files.iter().find(|file| file.range.contains(view.range.start))?;
    Some(Alias { range: view.range, first: view.first, path: file.path.clone(), compared: view.compared })
}

/// Whether two mappings with this name and one offset are the same pages. Shared anonymous mappings all have one name,
/// and so do private System V segments.
fn may_alias(path: &str) -> bool {
    match MappingName::of(path) {
        MappingName::Memory => true,
        MappingName::Shared => path.starts_with("/SYSV") && !path.starts_with("/SYSV00000000"),
        _ => false,
    }
}

fn second_view(target: &dyn Target, path: &Arc<str>, view: &View, first: &View) -> Option<Alias> {
    let common = view.range.intersect(&first.range)?;
    let at = |v: &View| v.start.saturating_add(common.start.since(v.range.start));
    let (here, there) = (at(view), at(first));
    if here == there {
        return None;
    }
    let alias =
        |compared| Alias { range: AddrRange::sized(here, common.len()), first: there, path: path.clone(), compared };
    let writable = |v: &View| v.perms.map(|p| p.write);
    match compare(target, here, there, common.len()) {
        Some(Comparison::Agree) => Some(alias(true)),
        Some(Comparison::Differ) => None,
        // Only zeros, or nothing dumped. Two new files of one name look the same, but they would have equal access.
        Some(Comparison::Zero) | None => match (writable(view), writable(first)) {
            (Some(a), Some(b)) if a != b => Some(alias(false)),
            _ => None,
        },
    }
}

enum Comparison {
    Agree,
    Differ,
    Zero,
}

/// Two views of the same pages differ in at most one of this many written words. In a running process, a word may be
/// written after one view is read and before the other is. Different files of one name have almost nothing in common.
const WRITTEN_MEANWHILE: usize = 16;

/// Compares pages spread over both ranges. `None` if no page is in the core at both addresses.
fn compare(target: &dyn Target, a: Addr, b: Addr, len: u64) -> Option<Comparison> {
    let pages = len / PAGE;
    let step = (pages / SAMPLES).max(1);
    let mut have = false;
    let (mut written, mut differ) = (0, 0);
    for i in (0..pages).step_by(step as usize).take(SAMPLES as usize + 1) {
        let bytes = |base: Addr| {
            let range = AddrRange::sized(base.saturating_add(i * PAGE), PAGE);
            target.reads().note_run(range.start, range.len());
            target.dumped_runs(range).first().filter(|r| r.range == range).map(|r| r.bytes)
        };
        let (Some(x), Some(y)) = (bytes(a), bytes(b)) else { continue };
        have = true;
        for (x, y) in x.as_chunks::<8>().0.iter().zip(y.as_chunks::<8>().0) {
            written += usize::from(*x != [0; 8] || *y != [0; 8]);
            differ += usize::from(x != y);
        }
    }
    have.then_some(match written {
        0 => Comparison::Zero,
        _ if differ * WRITTEN_MEANWHILE <= written => Comparison::Agree,
        _ => Comparison::Differ,
    })
}
