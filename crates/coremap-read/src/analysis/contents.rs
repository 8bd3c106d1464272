//! Describes contents of memory. An address map shows where pointers point.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::map::kind_facts::Destination;
use crate::map::{AddressMap, Region};
use crate::memory::content::{AddressClassifier, Content, DestinationId, Makeup};
use crate::range_map::{RangeMap, Ranged};

/// Destinations of pointers, by address.
pub struct Destinations {
    parts: RangeMap<DestinationRange>,
    names: Vec<Arc<str>>,
    hull: AddrRange,
}

/// A range of memory with one name.
struct DestinationRange {
    range: AddrRange,
    destination: DestinationId,
}

impl Ranged for DestinationRange {
    fn range(&self) -> AddrRange {
        self.range
    }
}

impl Destinations {
    /// Creates the destinations from all regions of a map.
    pub fn of(map: &AddressMap) -> Destinations {
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut known: HashMap<Arc<str>, DestinationId> = HashMap::new();
        let mut parts: Vec<DestinationRange> = Vec::new();
        for region in map.regions.iter() {
            let name = destination(region);
            let destination = *known.entry(name).or_insert_with_key(|name| {
                // Modules beyond this number share the last one.
                let destination = DestinationId(names.len().min(usize::from(u16::MAX)) as u16);
                if names.len() <= usize::from(u16::MAX) {
                    names.push(printable(name).into());
                }
                destination
            });
            match parts.last_mut() {
                Some(last) if last.destination == destination && last.range.end == region.range.start => {
                    last.range.end = region.range.end;
                }
                _ => parts.push(DestinationRange { range: region.range, destination }),
            }
        }
        let hull = parts.first().zip(parts.last());
        let hull = hull.map_or(AddrRange::sized(Addr::NULL, 0), |(a, b)| AddrRange::new(a.range.start, b.range.end));
        // The regions are sorted and disjoint, so these ranges are too.
        Destinations { parts: RangeMap::from_sorted(parts).unwrap_or_default(), names, hull }
    }

    /// Describes a content: `pointers (pointee malloc)`.
    pub fn describe(&self, content: Content) -> String {
        match content {
            Content::Pointers(None) => "pointers (mixed)".to_owned(),
            Content::Pointers(Some(DestinationId(n))) => match self.names.get(usize::from(n)) {
                Some(name) => format!("pointers (into {name})"),
                None => content.to_string(),
            },
            _ => content.to_string(),
        }
    }

    /// Describes the contents of a range. If it has several, names the most frequent one. `None` if none of the range
    /// is in the core.
    pub fn describe_makeup(&self, makeup: &Makeup) -> Option<String> {
        let content = makeup.content()?;
        let most = makeup.by_size().into_iter().next().filter(|(most, _)| *most != Content::Mixed);
        Some(match (content, most) {
            (Content::Mixed, Some((most, _))) => {
                format!("mixed, {} % {}", makeup.percent(most), self.describe(most))
            }
            _ => self.describe(content),
        })
    }

    /// Returns the name of the memory at which pointers of this content point: `malloc`. `None` if the content is not
    /// pointers, or if they point at several kinds of memory.
    pub fn pointee(&self, content: Content) -> Option<&str> {
        match content {
            Content::Pointers(Some(DestinationId(n))) => self.names.get(usize::from(n)).map(|name| &**name),
            _ => None,
        }
    }
}

impl AddressClassifier for Destinations {
    fn destination(&self, word: u64) -> Option<DestinationId> {
        let addr = Addr::new(word);
        self.hull.contains(addr).then(|| self.parts.at(addr).map(|part| part.destination)).flatten()
    }
}

/// Returns the name of a region as a destination of pointers. Modules and recognised owners have names of their own.
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

/// Returns the file name of an image region's module. For memory that is not backed by the file (.bss), the name is in
/// the detail.
pub fn module(region: &Region) -> &str {
    let of_module = || region.detail.split(" .").next().unwrap_or_default();
    let path = region.file.as_deref().unwrap_or_else(of_module);
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Returns the owner of a recognised region: the part of its detail before the first comma or colon, such as `V8 page`.
pub fn owner(detail: &Arc<str>) -> Arc<str> {
    match detail.split_once([',', ':']) {
        Some((owner, _)) => owner.trim_end().into(),
        None => detail.clone(),
    }
}
