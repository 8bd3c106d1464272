//! Limits of collections: a field of the collection or its owner with a number that its length has reached.

use crate::addr::Addr;
use crate::report::FieldRow;
use crate::runtimes::api::ManagedRuntime;

/// Words in the names of fields that are limits.
const WORDS: [&str; 6] = ["limit", "max", "capacity", "bound", "most", "cap"];

/// Maximum excess of a limit over the number of elements, in percent.
const ABOVE: u64 = 5;

/// Returns the field that limits `count` elements: in one of these objects, or a static field of their type.
pub(super) fn bound(runtime: &dyn ManagedRuntime, objects: &[Addr], count: u64) -> Option<String> {
    objects.iter().find_map(|at| {
        if let Some((name, limit)) = runtime.limit_of(*at).filter(|(_, limit)| is_reached(count, *limit)) {
            return Some(format!("{name} {limit}"));
        }
        let report = runtime.object(*at)?;
        let rows = report.fields.iter().chain(&report.statics);
        rows.filter_map(|row| limit(row).map(|limit| (row, limit)))
            .find_map(|(row, limit)| is_reached(count, limit).then(|| format!("{} {limit}", row.name)))
    })
}

fn limit(row: &FieldRow) -> Option<u64> {
    let name = row.name.to_ascii_lowercase();
    let named = WORDS.iter().any(|word| name.contains(word));
    row.value.as_deref().filter(|_| named)?.parse().ok()
}

/// Whether a count has reached a limit. A limit far above the count proves nothing.
fn is_reached(count: u64, limit: u64) -> bool {
    count > 1 && count <= limit && limit.saturating_mul(100) <= count.saturating_mul(100 + ABOVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_that_is_reached() {
        let row =
            |name: &str, value: &str| FieldRow { name: name.into(), value: Some(value.into()), ..FieldRow::default() };
        assert_eq!(limit(&row("maxPages", "2000")), Some(2000));
        assert_eq!((limit(&row("size", "2000")), limit(&row("maxAge", "null"))), (None, None));
        assert!(is_reached(2000, 2000) && is_reached(2000, 2100) && !is_reached(2000, 2101) && !is_reached(2001, 2000));
    }
}
