//! Findings about caches of `functools.lru_cache`: how full they are, and of which function.

use super::containers::Candidates;
use super::retained_estimate::estimate_retained;
use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::{ShortText, function_name};
use crate::units::{count, exact, round};

/// Maximum number of caches listed.
const MAX_LISTED: usize = 3;

/// Minimum size in bytes of all caches together for a finding.
const MIN_BYTES: u64 = 64 << 10;

/// A cache of `functools.lru_cache`.
struct Cache {
    name: String,
    entries: u64,
    /// Maximum number of entries. `None` if unlimited.
    limit: Option<u64>,
    hits: u64,
    misses: u64,
    bytes: u64,
    at: Addr,
}

pub(super) fn findings(heap: &Heap<'_>, candidates: &Candidates) -> Option<Finding> {
    let all = candidates.caches.iter();
    let mut caches: Vec<Cache> = all.take(limits::MAX_PY_WEIGHED).filter_map(|at| cache(heap, *at)).collect();
    caches.sort_by_key(|cache| (std::cmp::Reverse(cache.bytes), cache.at));
    let bytes = caches.iter().map(|cache| cache.bytes).fold(0, u64::saturating_add);
    let first = caches.first().filter(|_| bytes >= MIN_BYTES)?;
    let listed: Vec<String> = caches
        .iter()
        .take(MAX_LISTED)
        .filter(|cache| cache.entries > 0)
        .map(|cache| {
            format!(
                "{} {} entries (limit {}), {}, {} hits, {} misses",
                cache.name,
                exact(cache.entries),
                cache.limit.map_or_else(|| "none".to_owned(), exact),
                round(cache.bytes),
                exact(cache.hits),
                exact(cache.misses)
            )
        })
        .collect();
    let text = format!(
        "{} of functools.lru_cache, {} in total: {}.",
        count(candidates.caches.len() as u64, "cache"),
        round(bytes),
        listed.join("; ")
    );
    Some(
        Finding::new("caches", Severity::Info, text, "cache dicts, and reference counts of their contents")
            .about(bytes)
            .known(Confidence::Derived)
            .more(format!("object {}", first.at))
            .within("managed-heap"),
    )
}

fn cache(heap: &Heap<'_>, at: Addr) -> Option<Cache> {
    let objects = heap.objects();
    let view = heap.runtime().view("lru_cache_object", at);
    let dict = view.ptr("cache").ok()?;
    let kind = heap.type_of(dict)?;
    let entries = ShortText::new(heap).length(dict, &kind)?;
    let limit = view.u64("maxsize").ok()? as i64;
    let function = view.ptr("func").ok()?;
    let name = function_name(heap, function).or_else(|| {
        let kind = heap.type_at(objects.type_of(function)?)?;
        Some(format!("{} at {function}", kind.name))
    });
    Some(Cache {
        name: name?,
        entries,
        limit: u64::try_from(limit).ok(),
        hits: view.u64("hits").unwrap_or(0),
        misses: view.u64("misses").unwrap_or(0),
        bytes: estimate_retained(heap, dict, &kind, entries).bytes,
        at,
    })
}
