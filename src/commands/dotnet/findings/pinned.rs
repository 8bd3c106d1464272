//! Findings about objects that the collector cannot move, and large objects, which it rarely moves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::addr::Addr;
use crate::commands::dotnet::{clr_gcs, coreclr};
use crate::map::Confidence;
use crate::report::{Finding, HandleKind, Name, Severity, TypeRow};
use crate::runtimes::api::{FREE_NAME, ObjectNames};
use crate::session::Session;
use crate::sums::SaturatingAdd;
use crate::units::{count, human, round};

/// Minimum share of the heap in percent, and minimum bytes, of large objects to be reported.
const MIN_SHARE_PERCENT: u64 = 20;
const MIN_BYTES: u64 = 16 << 20;

/// Minimum number of pinning handles, or of pinned bytes, to be reported. Each process has some dozen pinning handles
/// of the runtime itself.
const HANDLES: u64 = 64;
const PINNED: u64 = 1 << 20;

/// Number of pinning handles that makes the finding a warning. The collector leaves holes around pinned objects.
const HOLES: u64 = 1000;

/// Maximum number of types named.
const TYPES: usize = 3;

/// Reports the large object heap. `size` is that of all objects.
pub(super) fn large(types: &[TypeRow], size: u64) -> Option<Finding> {
    let (objects, bytes, named) = of_generation(types, "loh");
    if bytes < MIN_BYTES || bytes.saturating_mul(100) < size.saturating_mul(MIN_SHARE_PERCENT) {
        return None;
    }
    let text = format!(
        "{} on the large object heap, {}{named}. This heap is collected only with generation 2, and compacted only if \
         the program requests it.",
        count(objects, "object"),
        round(bytes),
    );
    let finding = Finding::new("large-objects", Severity::Info, text, "objects on the large object heap, by type");
    Some(finding.about(bytes).known(Confidence::Exact).more("heapstat --generation loh").within("managed-heap"))
}

/// Addresses of the objects that handles pin. `None` if no .NET runtime has handles to read.
pub(in crate::commands) fn pinned_objects(session: &Session<'_>) -> Option<HashSet<Addr>> {
    let mut collectors = clr_gcs(session).peekable();
    collectors.peek()?;
    let pins = |kind| matches!(kind, HandleKind::Pinned | HandleKind::AsyncPinned);
    let handles = collectors.flat_map(|(_, _, gc)| gc.handles());
    Some(handles.filter(|handle| pins(handle.kind)).map(|handle| handle.object).collect())
}

/// Reports objects pinned by handles, and the pinned object heap.
pub(super) fn pinned(session: &Session<'_>, types: &[TypeRow]) -> Option<Finding> {
    let (on_heap, heap_bytes, heap_types) = of_generation(types, "poh");
    let (mut pinned, mut asynchronous, mut objects, mut bytes) = (0u64, 0u64, 0u64, 0u64);
    let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
    for runtime in coreclr(session) {
        let Some(heap) = runtime.object_heap() else { continue };
        let mut names = ObjectNames::new(heap);
        let mut seen = HashSet::new();
        for handle in runtime.handles() {
            match handle.kind {
                HandleKind::Pinned => pinned += 1,
                HandleKind::AsyncPinned => asynchronous += 1,
                _ => continue,
            }
            let Some((name, size)) = names.object(handle.object).filter(|_| seen.insert(handle.object)) else {
                continue;
            };
            objects += 1;
            bytes = bytes.saturating_add(size);
            by_type.entry(name.shown().to_string()).or_default().add_saturating(size);
        }
    }
    let handles = pinned.saturating_add(asynchronous);
    if handles < HANDLES && bytes.max(heap_bytes) < PINNED {
        return None;
    }
    let handled = format!(
        "{} in {} pinned by {}{}{}",
        round(bytes),
        count(objects, "object"),
        count(handles, "handle"),
        if asynchronous > 0 { format!(" ({asynchronous} of them for I/O)") } else { String::new() },
        largest(by_type.into_iter().collect())
    );
    let poh = format!("{} in {} on the pinned object heap{heap_types}", round(heap_bytes), count(on_heap, "object"));
    let (first, more) = if heap_bytes > bytes { (poh, handled) } else { (handled, poh) };
    let severity = if handles >= HOLES { Severity::Warning } else { Severity::Info };
    let finding = Finding::new(
        "pinned",
        severity,
        format!("Pinned objects, which the collector cannot move: {first}; {more}."),
        "pinning handles and objects on the pinned object heap",
    );
    let command = if heap_bytes > bytes { "heapstat --generation poh" } else { "handles --group" };
    // Handles may refer to objects on the pinned object heap, so the two sums are not added.
    Some(finding.about(heap_bytes.max(bytes)).known(Confidence::Exact).more(command).within("managed-heap"))
}

/// Number and bytes of the objects in one generation, and its largest types in words.
fn of_generation(types: &[TypeRow], generation: &str) -> (u64, u64, String) {
    let rows = types.iter().filter(|t| &*t.name != FREE_NAME);
    let of = rows.flat_map(|t| t.generations.iter().filter(|g| g.generation == generation).map(move |g| (t, g)));
    let (mut objects, mut bytes, mut named) = (0u64, 0u64, Vec::new());
    for (row, part) in of {
        objects = objects.saturating_add(part.count);
        bytes = bytes.saturating_add(part.size);
        named.push((row.name.to_string(), part.size));
    }
    (objects, bytes, largest(named))
}

/// Describes the largest types: ` (System.Byte[] 4.00 MiB, …)`. Empty if there are none.
fn largest(mut types: Vec<(String, u64)>) -> String {
    types.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    let one = |(name, bytes): &(String, u64)| format!("{} {}", Name::from(name.clone()).shown(), human(*bytes));
    let named: Vec<String> = types.iter().take(TYPES).map(one).collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GenerationRow;

    fn row(name: &str, parts: &[(&'static str, u64, u64)]) -> TypeRow {
        let part = |&(generation, count, size)| GenerationRow { generation, count, size };
        TypeRow { name: name.into(), generations: parts.iter().map(part).collect(), ..TypeRow::default() }
    }

    #[test]
    fn large_objects_are_told_where_they_are_much_of_the_heap() {
        let types = [
            row("Buffer[]", &[("gen2", 5, 500), ("loh", 2, 20 << 20)]),
            row("Free", &[("loh", 1, 900 << 20)]),
            row("Row[]", &[("loh", 1, 4 << 20)]),
        ];
        let finding = large(&types, 100 << 20).unwrap_or_default();
        assert_eq!(finding.bytes, Some(24 << 20), "free space is no object");
        assert!(finding.text.contains("3 objects on the large object heap, 24 MiB"), "{}", finding.text);
        assert!(finding.text.contains("(Buffer[] 20.00 MiB, Row[] 4.00 MiB)"), "{}", finding.text);
        assert!(large(&types, 1 << 30).is_none(), "2 % of the heap");
        assert!(large(&[row("Row[]", &[("loh", 1, 4 << 20)])], 5 << 20).is_none(), "4 MiB");
    }
}
