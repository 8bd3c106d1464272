//! Findings about large single objects, with who references them, and about numpy arrays by type and shape.

use std::collections::BTreeMap;

use super::containers::Candidates;
use super::referrers::NamedObjects;
use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::cpython::heap::Heap;
use crate::units::{count, exact, round};

/// Maximum number of objects, and of kinds of arrays, listed.
const MAX_LISTED: usize = 3;

/// Minimum size in bytes of all arrays together for a finding.
const MIN_BYTES: u64 = 64 << 10;

/// The findings about large objects. `named`: names of the [`largest`].
pub(super) fn findings(heap: &Heap<'_>, candidates: &Candidates, named: &NamedObjects<'_>) -> Vec<Finding> {
    single(heap, candidates, named).into_iter().chain(arrays(heap, &candidates.arrays)).collect()
}

/// The largest objects, which the finding lists.
pub(super) fn largest(candidates: &Candidates) -> impl Iterator<Item = Addr> + '_ {
    candidates.large.iter().take(MAX_LISTED).map(|(_, object)| *object)
}

/// The finding about large objects that are one block or have one buffer.
fn single(heap: &Heap<'_>, candidates: &Candidates, named: &NamedObjects<'_>) -> Option<Finding> {
    let bytes = candidates.large.iter().map(|(bytes, _)| *bytes).fold(0, u64::saturating_add);
    let (_, first) = *candidates.large.first()?;
    let listed: Vec<String> = candidates
        .large
        .iter()
        .take(MAX_LISTED)
        .map(|(bytes, object)| {
            let kind = heap.type_of(*object).map_or_else(|| "object".to_owned(), |kind| kind.name.clone());
            let held = named.name(*object).map_or_else(String::new, |name| format!(" (`{name}`)"));
            format!("{kind} at {object}{held} {}", round(*bytes))
        })
        .collect();
    let text =
        format!("{} of at least 1 MiB: {}.", count(candidates.large.len() as u64, "single object"), listed.join(", "));
    Some(
        Finding::new("biggest-objects", Severity::Info, text, "sizes of their blocks and buffers")
            .about(bytes)
            .known(Confidence::Exact)
            .more(format!("object {first}"))
            .within("malloc"),
    )
}

fn arrays(heap: &Heap<'_>, all: &[Addr]) -> Option<Finding> {
    let mut sorts: BTreeMap<(String, Vec<u64>), (u64, u64, Addr)> = BTreeMap::new();
    let (mut views, mut owning, mut bytes) = (0_u64, 0_u64, 0_u64);
    for &object in all {
        let Some(array) = heap.ndarray(object) else { continue };
        if !array.owns {
            views += 1;
            continue;
        }
        owning += 1;
        bytes = bytes.saturating_add(array.bytes);
        let sum = sorts.entry((array.dtype, array.shape)).or_insert((0, 0, object));
        (sum.0, sum.1) = (sum.0 + 1, sum.1.saturating_add(array.bytes));
    }
    if bytes < MIN_BYTES {
        return None;
    }
    let mut sorts: Vec<_> = sorts.into_iter().collect();
    sorts.sort_by_key(|(sort, (_, bytes, _))| (std::cmp::Reverse(*bytes), sort.clone()));
    let listed: Vec<String> = sorts
        .iter()
        .take(MAX_LISTED)
        .map(|((dtype, shape), (n, bytes, _))| {
            let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
            format!("{} {dtype} [{}] {}", exact(*n), shape.join(", "), round(*bytes))
        })
        .collect();
    let text = format!(
        "numpy: {} with their own data ({}), and {}: {}.",
        count(owning, "array"),
        round(bytes),
        count(views, "view"),
        listed.join("; ")
    );
    let example = sorts.first().map(|(_, (_, _, object))| *object)?;
    Some(
        Finding::new("numeric-arrays", Severity::Info, text, "numpy.ndarray: dtype, shape, OWNDATA")
            .about(bytes)
            .known(Confidence::Exact)
            .more(format!("object {example}"))
            .within("malloc"),
    )
}
