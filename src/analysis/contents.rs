//! What fills memory in words: what its pointers lead into is told by the map.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::map::kind_facts::Destination;
use crate::map::{AddressMap, Region};
use crate::memory::content::{Content, Lead, Makeup, Words};
use crate::range_map::{RangeMap, Ranged};

/// What addresses lead into, by the map.
pub(crate) struct Destinations {
    parts: RangeMap<Part>,
    names: Vec<Arc<str>>,
    hull: AddrRange,
}

/// Memory of one name.
struct Part {
    range: AddrRange,
    lead: Lead,
}

impl Ranged for Part {
    fn range(&self) -> AddrRange {
        self.range
    }
}

impl Destinations {
    /// All regions of a map by what they are called.
    pub(crate) fn of(map: &AddressMap) -> Destinations {
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut known: HashMap<Arc<str>, Lead> = HashMap::new();
        let mut parts: Vec<Part> = Vec::new();
        for region in map.regions.iter() {
            let name = destination(region);
            let lead = *known.entry(name).or_insert_with_key(|name| {
                // Beyond that many modules the last one stands for the rest.
                let lead = Lead(names.len().min(usize::from(u16::MAX)) as u16);
                if names.len() <= usize::from(u16::MAX) {
                    names.push(printable(name).into());
                }
                lead
            });
            match parts.last_mut() {
                Some(last) if last.lead == lead && last.range.end == region.range.start => {
                    last.range.end = region.range.end;
                }
                _ => parts.push(Part { range: region.range, lead }),
            }
        }
        let hull = parts.first().zip(parts.last());
        let hull = hull.map_or(AddrRange::sized(Addr::NULL, 0), |(a, b)| AddrRange::new(a.range.start, b.range.end));
        // Made along the regions, which are sorted and disjoint.
        Destinations { parts: RangeMap::from_sorted(parts).unwrap_or_default(), names, hull }
    }

    /// What fills memory, in words: `pointers (into malloc)`.
    pub(crate) fn told(&self, content: Content) -> String {
        match content {
            Content::Pointers(None) => "pointers (mixed)".to_owned(),
            Content::Pointers(Some(Lead(n))) => match self.names.get(usize::from(n)) {
                Some(name) => format!("pointers (into {name})"),
                None => content.to_string(),
            },
            _ => content.to_string(),
        }
    }

    /// What fills a range, in words: of what holds several things, that which has most of it. `None`: the core has
    /// none of it.
    pub(crate) fn described(&self, makeup: &Makeup) -> Option<String> {
        let content = makeup.content()?;
        let most = makeup.by_size().into_iter().next().filter(|(most, _)| *most != Content::Mixed);
        Some(match (content, most) {
            (Content::Mixed, Some((most, _))) => {
                format!("mixed, {} % {}", makeup.percent(most), self.told(most))
            }
            _ => self.told(content),
        })
    }

    /// What pointers of a content lead into: `malloc`; `None` where they are no pointers or lead into several.
    pub(crate) fn into(&self, content: Content) -> Option<&str> {
        match content {
            Content::Pointers(Some(Lead(n))) => self.names.get(usize::from(n)).map(|name| &**name),
            _ => None,
        }
    }
}

impl Words for Destinations {
    fn lead(&self, word: u64) -> Option<Lead> {
        let addr = Addr::new(word);
        self.hull.contains(addr).then(|| self.parts.at(addr).map(|part| part.lead)).flatten()
    }
}

/// What memory is called that pointers lead into. Modules and what is recognised have names of their own.
fn destination(region: &Region) -> Arc<str> {
    match region.kind.facts().pointers {
        Destination::Reserved => "reserved memory".into(),
        Destination::Anonymous => "anonymous memory".into(),
        Destination::Files => "mapped files".into(),
        Destination::Shared => "shared memory".into(),
        Destination::Module => module(region).into(),
        Destination::Vdso => "the vdso".into(),
        Destination::Malloc => "malloc".into(),
        Destination::Stacks => "stacks".into(),
        Destination::GcHeap => "GC heap".into(),
        Destination::Owner => owner(&region.detail),
        Destination::Runtime => "runtime structures".into(),
    }
}

/// The file name of the module that a region of an image is of. What no file backs any more, as .bss, is told by
/// its detail.
pub(crate) fn module(region: &Region) -> &str {
    let of_module = || region.detail.split(" .").next().unwrap_or_default();
    let path = region.file.as_deref().unwrap_or_else(of_module);
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Who a recognised region is of: what its detail says before the first comma, as `V8 page`, without what tells
/// one from the next.
pub(crate) fn owner(detail: &Arc<str>) -> Arc<str> {
    match detail.split_once([',', ':']) {
        Some((owner, _)) => owner.trim_end().into(),
        None => detail.clone(),
    }
}
