//! Findings about caches of `functools.lru_cache`: how full they are, and of which function.

use super::containers::Candidates;
use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::api::RetainedSizes;
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
    /// Bytes that the cache object retains.
    retained: u64,
    at: Addr,
}

pub(super) fn findings(heap: &Heap<'_>, candidates: &Candidates, sizes: &dyn RetainedSizes) -> Option<Finding> {
    let bytes = sizes.sum_of(&candidates.caches);
    let mut largest: Vec<(Addr, u64)> = candidates
        .caches
        .iter()
        .zip(sizes.of(&candidates.caches))
        .filter_map(|(at, retained)| Some((*at, retained?)))
        .collect();
    largest.sort_by_key(|(at, retained)| (std::cmp::Reverse(*retained), *at));
    largest.truncate(limits::MAX_PY_WEIGHED);
    let caches: Vec<Cache> = largest.into_iter().filter_map(|(at, retained)| cache(heap, at, retained)).collect();
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
                round(cache.retained),
                exact(cache.hits),
                exact(cache.misses)
            )
        })
        .collect();
    let text = format!(
        "{} of functools.lru_cache, which retain {} in total: {}.",
        count(candidates.caches.len() as u64, "cache"),
        round(bytes),
        listed.join("; ")
    );
    Some(
        Finding::new("caches", Severity::Info, text, "dominator tree; lru_cache_object")
            .about(bytes)
            .known(Confidence::Derived)
            .more(format!("object {}", first.at))
            .within("managed-heap"),
    )
}

fn cache(heap: &Heap<'_>, at: Addr, retained: u64) -> Option<Cache> {
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
        retained,
        at,
    })
}
