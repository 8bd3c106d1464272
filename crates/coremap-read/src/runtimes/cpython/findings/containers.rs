//! Findings about the containers that retain most memory, with their names in the program.

use rayon::prelude::*;

use super::global_names::GlobalNames;
use super::referrers::NamedObjects;
use super::retained_estimate::{RetainedEstimate, estimate_retained};
use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::api::{Heap as _, UnwalkedRanges};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::ShortText;
use crate::runtimes::cpython::objects::TypeForm;
use crate::units::{exact, round};

/// Minimum number of items of a container that is weighed.
const MIN_ITEMS: u64 = 64;

/// Maximum number of containers to weigh: per part of the heap, and in all.
const MAX_PER_RANGE: usize = 64;
const MAX_CANDIDATES: usize = 256;

/// Maximum number of containers reported; minimum size in bytes, and as a percentage of the heap.
const MAX_LISTED: usize = 3;
const MIN_BYTES: u64 = 1 << 20;
const MIN_PERCENT: u64 = 3;

/// A container with at least this percentage of all objects is a warning.
const WARNING_PERCENT: u64 = 20;

const LRU_CACHE: &str = "functools._lru_cache_wrapper";

#[derive(Default)]
pub(super) struct Candidates {
    /// Long containers: number of items, address.
    long: Vec<(u64, Addr)>,
    pub(super) caches: Vec<Addr>,
    pub(super) arrays: Vec<Addr>,
    /// Large single objects: size in bytes, address.
    pub(super) large: Vec<(u64, Addr)>,
}

pub(super) fn candidates(heap: &Heap<'_>) -> Candidates {
    let short_text = ShortText::new(heap);
    let shares: Vec<Candidates> = heap
        .ranges()
        .par_iter()
        .map(|heap_range| {
            let mut found = Candidates::default();
            let mut last = None;
            heap.walker().walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                if last.as_ref().is_none_or(|(number, _)| *number != object.kind) {
                    last = Some((object.kind, heap.type_of_kind(object.kind)));
                }
                let Some((_, Some(kind))) = &last else { return };
                match kind.form {
                    TypeForm::List | TypeForm::Dict | TypeForm::Set | TypeForm::Deque => {
                        if let Some(length) = short_text.length(object.addr, kind).filter(|length| *length >= MIN_ITEMS)
                        {
                            push(&mut found.long, length, object.addr);
                        }
                    }
                    TypeForm::NdArray => found.arrays.push(object.addr),
                    TypeForm::Bytes | TypeForm::Text if object.size >= MIN_BYTES => {
                        push(&mut found.large, object.size, object.addr);
                    }
                    TypeForm::ByteArray | TypeForm::Array => {
                        let bytes = heap.own_bytes(object.addr);
                        if bytes >= MIN_BYTES {
                            push(&mut found.large, bytes, object.addr);
                        }
                    }
                    TypeForm::Plain if kind.name == LRU_CACHE => found.caches.push(object.addr),
                    _ => {}
                }
            });
            found
        })
        .collect();
    let mut all = Candidates::default();
    for mut share in shares {
        all.long.append(&mut share.long);
        all.caches.append(&mut share.caches);
        all.arrays.append(&mut share.arrays);
        all.large.append(&mut share.large);
    }
    cut(&mut all.long, MAX_CANDIDATES);
    cut(&mut all.large, MAX_CANDIDATES);
    all
}

fn push(list: &mut Vec<(u64, Addr)>, size: u64, object: Addr) {
    list.push((size, object));
    if list.len() > 4 * MAX_PER_RANGE {
        cut(list, MAX_PER_RANGE);
    }
}

fn cut(list: &mut Vec<(u64, Addr)>, limit: usize) {
    list.sort_unstable_by_key(|&(size, at)| (std::cmp::Reverse(size), at));
    list.truncate(limit);
}

/// Name of the finding that includes most of the objects' bytes: about the arenas, or about malloc.
pub(super) fn mostly_in(heap: &Heap<'_>) -> &'static str {
    let (objects, owned) = heap.outside_sums();
    let outside = objects.1.saturating_add(owned.1);
    if outside > heap.bytes().saturating_sub(outside) { "malloc" } else { "managed-heap" }
}

pub(super) struct Container {
    pub(super) object: Addr,
    length: u64,
    weight: RetainedEstimate,
}

/// The containers that retain most.
pub(super) fn largest(heap: &Heap<'_>, globals: &GlobalNames, candidates: &Candidates) -> Vec<Container> {
    let least = (heap.bytes() / 100).saturating_mul(MIN_PERCENT).max(MIN_BYTES);
    let mut weighed: Vec<Container> = candidates
        .long
        .par_iter()
        // Dicts of modules and classes are their namespaces, not containers that grow.
        .filter(|(_, object)| globals.owner_of_dict(*object).is_none())
        .filter_map(|&(length, object)| {
            let kind = heap.type_of(object)?;
            Some(Container { object, length, weight: estimate_retained(heap, object, &kind, length) })
        })
        .filter(|container| container.weight.bytes >= least)
        .collect();
    weighed.sort_by_key(|container| (std::cmp::Reverse(container.weight.bytes), container.object));
    weighed.truncate(MAX_LISTED);
    weighed
}

pub(super) fn findings(heap: &Heap<'_>, containers: &[Container], named: &NamedObjects<'_>) -> Vec<Finding> {
    if containers.is_empty() {
        return Vec::new();
    }
    let (total, within) = (heap.bytes(), mostly_in(heap));
    containers
        .iter()
        .filter_map(|Container { object, length, weight }| {
            let kind = heap.type_of(*object)?;
            let text = format!(
                "{} is a {} of {} {}: {}{} with everything that only it references, {} % of all objects.",
                named.name(*object).map_or_else(|| format!("{object} (no name found)"), |name| format!("`{name}`")),
                kind.name,
                exact(*length),
                weight.item.as_deref().unwrap_or("items"),
                if weight.sampled { "about " } else { "" },
                round(weight.bytes),
                weight.bytes.saturating_mul(100).checked_div(total).unwrap_or(0).min(100)
            );
            let much = weight.bytes.saturating_mul(100) >= total.saturating_mul(WARNING_PERCENT);
            let severity = if much { Severity::Warning } else { Severity::Info };
            let evidence = format!("{object}: items and their reference counts; module globals");
            Some(
                Finding::new("containers", severity, text, evidence)
                    .about(weight.bytes)
                    .known(Confidence::Derived)
                    .more(format!("object {object}"))
                    .within(within),
            )
        })
        .collect()
}
