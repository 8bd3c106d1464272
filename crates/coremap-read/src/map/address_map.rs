//! Resolution of claims over the base: one label for each byte.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange, sweep};
use crate::map::base::{Base, BaseEntry};
use crate::map::kind_facts::Backing;
use crate::map::{Claim, Claims, Confidence, Kind, Owner};
use crate::range_map::{RangeMap, Ranged};
use crate::targets::Facts;
use crate::targets::MappingName;
use crate::targets::Perms;

/// A run of memory with one label.
#[derive(Clone, Debug)]
pub struct Region {
    /// Addresses.
    pub range: AddrRange,
    /// Kind of memory.
    pub kind: Kind,
    /// Details of the label: thread, arena, or file and section.
    pub detail: Arc<str>,
    /// Confidence of the label.
    pub confidence: Confidence,
    /// Owner of the memory.
    pub owner: Owner,
    /// Access, if a PT_LOAD gives it.
    pub perms: Option<Perms>,
    /// Path of the file that is mapped here.
    pub file: Option<Arc<str>>,
    /// Bytes of it that are in the core.
    pub in_core: u64,
    /// Index of the winning claim. `None` if the label comes from the mapping itself.
    pub claim: Option<u32>,
    segment: Option<u32>,
    file_end: Option<u64>,
}

impl Region {
    /// Access like `rw-p`, as in /proc/PID/maps. `?` marks what the core does not show: access if only NT_FILE lists
    /// the mapping, and shared or private for a plain file.
    pub fn perms_text(&self) -> String {
        let mut text = self.perms.map_or_else(|| "???".to_owned(), Perms::letters);
        text.push(match &self.file {
            Some(path) if self.kind == Kind::Image && MappingName::of(path) == MappingName::File => 'p',
            Some(path) => MappingName::of(path).sharing(),
            // Shared by its kind, though no note lists a file here.
            None if matches!(self.kind.facts().backing, Backing::Shared | Backing::SecondView) => 's',
            None => 'p',
        });
        text
    }
}

impl Ranged for Region {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// The resolved map of the whole base.
///
/// ```
/// # use std::path::Path;
/// # use coremap::process::{Options, Process};
/// # use coremap::progress::Progress;
/// use coremap::addr::Addr;
/// use coremap::map::{Confidence, Kind};
/// use coremap::session::Session;
///
/// # let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
/// let process = Process::open(core, &Options::default(), &Progress::silent())?;
/// let session = Session::new(&process);
/// let map = session.map();
/// let region = map.region_at(Addr::new(0x557a_682b_6b10)).ok_or("not mapped")?;
/// assert_eq!((region.kind, region.confidence), (Kind::Malloc, Confidence::Exact));
/// assert!(map.region_at(Addr::new(0x1000)).is_none());
///
/// // All labels together cover what is mapped, each byte once.
/// let labelled: u64 = map.regions.iter().map(|r| r.range.len()).sum();
/// assert_eq!(labelled, map.base.size());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AddressMap {
    /// The bytes to be covered.
    pub base: Base,
    /// All claims, sorted by content.
    pub claims: Vec<Claim>,
    /// The regions: sorted, disjoint, covering the base.
    pub regions: RangeMap<Region>,
}

impl AddressMap {
    /// Resolves `claims` over the base of the process with these `facts`.
    ///
    /// At each address the claim with the highest confidence wins, then the most specific kind, then the shorter
    /// range. Remaining ties are decided by content, never by insertion order.
    pub fn resolve(facts: &Facts, base: Base, claims: Claims) -> AddressMap {
        let claims = claims.into_sorted();
        let items: Vec<_> = claims
            .iter()
            .enumerate()
            .map(|(i, c)| (c.range, (c.confidence, c.kind.specificity(), Reverse(c.range.len()), Reverse(i))))
            .collect();
        let winners = sweep(&items);
        let mut map = AddressMap { base, claims, regions: RangeMap::default() };
        map.build_regions(facts, &winners);
        map
    }

    fn build_regions(&mut self, facts: &Facts, winners: &[(AddrRange, usize)]) {
        let mut regions: Vec<Region> = Vec::with_capacity(self.base.entries.len() + winners.len());
        let mut w = 0;
        for entry in self.base.entries.iter() {
            let mut at = entry.range.start;
            while at < entry.range.end {
                while winners.get(w).is_some_and(|(r, _)| r.end <= at) {
                    w += 1;
                }
                let (end, claim) = match winners.get(w) {
                    Some((r, i)) if r.contains(at) => (r.end.min(entry.range.end), Some(*i)),
                    Some((r, _)) => (r.start.min(entry.range.end), None),
                    None => (entry.range.end, None),
                };
                let region = self.label(entry, AddrRange::new(at, end), claim);
                match regions.last_mut() {
                    Some(last) if joins(last, &region) => {
                        last.range.end = end;
                        last.file_end = region.file_end;
                    }
                    _ => regions.push(region),
                }
                at = end;
            }
        }
        for region in &mut regions {
            region.in_core = facts.space.dumped_in(region.range);
        }
        // The loop follows the base's entries, so regions are sorted and disjoint.
        self.regions = RangeMap::from_sorted(regions).unwrap_or_default();
    }

    fn label(&self, entry: &BaseEntry, range: AddrRange, claim: Option<usize>) -> Region {
        let file = self.base.path(entry).cloned();
        let file_end = file.is_some().then(|| entry.file_offset.saturating_add(range.end.since(entry.range.start)));
        let mut region = match claim.map(|i| (i, &self.claims[i])) {
            Some((i, c)) => Region {
                range,
                kind: c.kind,
                detail: c.detail.clone(),
                confidence: c.confidence,
                owner: c.owner,
                perms: None,
                file: None,
                in_core: 0,
                claim: Some(i as u32),
                segment: None,
                file_end: None,
            },
            None => {
                let (kind, confidence, detail, _) = self.base.label(entry);
                Region {
                    range,
                    kind,
                    detail,
                    confidence,
                    owner: Owner::None,
                    perms: None,
                    file: None,
                    in_core: 0,
                    claim: None,
                    segment: None,
                    file_end: None,
                }
            }
        };
        region.perms = entry.perms;
        region.file = file;
        region.segment = entry.segment;
        region.file_end = file_end;
        region
    }

    /// Returns the region that contains `addr`.
    pub fn region_at(&self, addr: Addr) -> Option<&Region> {
        self.regions.at(addr)
    }

    /// Returns all claims on `addr`, in or outside the base, the winner first.
    pub fn claims_at(&self, addr: Addr) -> Vec<(usize, &Claim)> {
        let mut out: Vec<_> = self.claims.iter().enumerate().filter(|(_, c)| c.range.contains(addr)).collect();
        out.sort_by_key(|(i, c)| (Reverse(c.confidence), Reverse(c.kind.specificity()), c.range.len(), *i));
        out
    }
}

/// Whether `next` continues `last`: the same label over one mapping, or one claim over mappings of equal access with
/// no file between them.
fn joins(last: &Region, next: &Region) -> bool {
    let same = last.range.end == next.range.start
        && last.claim == next.claim
        && last.kind == next.kind
        && last.perms == next.perms
        && last.file == next.file;
    let continues = match (last.file_end, next.file_end) {
        (Some(end), Some(next_end)) => end.saturating_add(next.range.len()) == next_end,
        _ => true,
    };
    same && continues && (last.claim.is_some() || last.file.is_some() || last.segment == next.segment)
}
