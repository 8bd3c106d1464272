//! Findings about the containers that retain most memory, with their names in the program.

use rayon::prelude::*;

use super::global_names::GlobalNames;
use super::namespaces::is_namespace_of_c_type;
use super::referrers::NamedObjects;
use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::api::{Heap as _, Link, RetainedSizes, TypeIndex, UnwalkedRanges};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::ShortText;
use crate::runtimes::cpython::objects::{PyType, TypeForm};
use crate::units::{exact, round};

/// Minimum number of items of a container that is reported.
const MIN_ITEMS: u64 = 64;

/// Maximum number of large objects: per part of the heap, and in all.
const MAX_PER_RANGE: usize = 64;
const MAX_CANDIDATES: usize = 256;

/// Maximum number of containers reported; minimum retained bytes, and as a percentage of all live objects.
const MAX_LISTED: usize = 3;
const MIN_BYTES: u64 = 1 << 20;
const MIN_PERCENT: u64 = 3;

/// A container that retains at least this percentage of all live objects is a warning.
const WARNING_PERCENT: u64 = 20;

const LRU_CACHE: &str = "functools._lru_cache_wrapper";
const MODULE: &str = "module";

#[derive(Default)]
pub(super) struct Candidates {
    pub(super) modules: Vec<Addr>,
    pub(super) classes: Vec<Addr>,
    pub(super) caches: Vec<Addr>,
    pub(super) arrays: Vec<Addr>,
    /// Large single objects: size in bytes, address.
    pub(super) large: Vec<(u64, Addr)>,
}

pub(super) fn candidates(heap: &Heap<'_>) -> Candidates {
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
                    TypeForm::Type => found.classes.push(object.addr),
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
                    TypeForm::Plain if kind.name == MODULE => found.modules.push(object.addr),
                    _ => {}
                }
            });
            found
        })
        .collect();
    let mut all = Candidates::default();
    for mut share in shares {
        all.modules.append(&mut share.modules);
        all.classes.append(&mut share.classes);
        all.caches.append(&mut share.caches);
        all.arrays.append(&mut share.arrays);
        all.large.append(&mut share.large);
    }
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
    retained: u64,
}

/// The containers that retain most. A namespace, such as the dict of a module or class, is none: it contains the
/// program, not its data.
pub(super) fn largest(heap: &Heap<'_>, globals: &GlobalNames, sizes: &dyn RetainedSizes) -> Vec<Container> {
    let least = (sizes.total() / 100).saturating_mul(MIN_PERCENT).max(MIN_BYTES);
    let length = |object| length(heap, object).filter(|length| *length >= MIN_ITEMS);
    let found = sizes.top(MAX_LISTED, &|object, kind| {
        let form = heap.type_of_kind(kind).map(|kind| kind.form);
        matches!(form, Some(TypeForm::List | TypeForm::Dict | TypeForm::Set | TypeForm::Deque))
            && length(object).is_some()
            && !globals.is_namespace(object)
            && !is_namespace_of_c_type(heap, object)
    });
    let large = found.into_iter().filter(|(_, retained)| *retained >= least);
    large.filter_map(|(object, retained)| Some(Container { object, length: length(object)?, retained })).collect()
}

fn length(heap: &Heap<'_>, container: Addr) -> Option<u64> {
    ShortText::new(heap).length(container, &*heap.type_of(container)?)
}

/// Type name of a container's items, if all have the same type. Of a dict, the values are its items.
fn item_type(heap: &Heap<'_>, container: Addr, kind: &PyType) -> Option<String> {
    let mut of_items: Option<TypeIndex> = None;
    let mut is_one = true;
    each_item(heap, container, kind, |item| {
        let kind = heap.numbered_type_of(item).map(|(number, _)| number);
        is_one = kind.is_some() && of_items.is_none_or(|known| Some(known) == kind);
        of_items = kind;
        is_one
    });
    of_items.filter(|_| is_one).map(|kind| heap.type_name(kind))
}

/// Visits the items of a container, and of a dict the values, while `visit` returns true.
pub(super) fn each_item(heap: &Heap<'_>, container: Addr, kind: &PyType, mut visit: impl FnMut(Addr) -> bool) {
    let first = kind.items();
    let pairs = kind.form == TypeForm::Dict;
    heap.each_target(container, kind, |link, to| {
        let Link::Field(offset) = link else { return true };
        let Some(index) = offset.checked_sub(first).map(|inside| inside / 8) else { return true };
        // Keys and values of a dict alternate.
        let is_key = pairs && index % 2 == 0;
        is_key || visit(to)
    });
}

pub(super) fn findings(
    heap: &Heap<'_>,
    containers: &[Container],
    named: &NamedObjects<'_>,
    sizes: &dyn RetainedSizes,
) -> Vec<Finding> {
    if containers.is_empty() {
        return Vec::new();
    }
    let (total, within) = (sizes.total(), mostly_in(heap));
    let whole = if sizes.is_complete() { "live objects" } else { "reached objects" };
    containers
        .iter()
        .filter_map(|Container { object, length, retained }| {
            let kind = heap.type_of(*object)?;
            let text = format!(
                "{} is a {} of {} {}: it retains {}, {} % of {whole}.",
                named.name(*object).map_or_else(|| format!("{object} (no name found)"), |name| format!("`{name}`")),
                kind.name,
                exact(*length),
                item_type(heap, *object, &kind).as_deref().unwrap_or("items"),
                round(*retained),
                retained.saturating_mul(100).checked_div(total).unwrap_or(0)
            );
            let much = retained.saturating_mul(100) >= total.saturating_mul(WARNING_PERCENT);
            let severity = if much { Severity::Warning } else { Severity::Info };
            let evidence = format!("{object}: dominator tree; module globals");
            Some(
                Finding::new("containers", severity, text, evidence)
                    .about(*retained)
                    .known(Confidence::Derived)
                    .more(format!("retained --object {object}"))
                    .within(within),
            )
        })
        .collect()
}
