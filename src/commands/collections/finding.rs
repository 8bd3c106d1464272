//! The finding of `triage` on empty slots of collections, where they matter.

use crate::analysis::roots::RuntimeRoots;
use crate::commands::collections::analysis::add;
use crate::commands::collections::report::CollectionsReport;
use crate::map::Confidence;
use crate::process::Process;
use crate::report::{Finding, Severity};
use crate::runtimes::api::ObjectNames;
use crate::runtimes::graph::Retained;
use crate::units::{count, exact, round};

/// Minimum bytes of empty slots, and minimum share of the live bytes in percent, that are reported.
const MIN_EMPTY: u64 = 16 << 20;
const MIN_SHARE: u64 = 10;

/// Maximum number of types named.
const TYPES: usize = 2;

/// Reports empty slots of one runtime's collections. `None` if they are few.
pub(in crate::commands) fn finding<'g>(
    process: &Process,
    retained: &Retained<'g>,
    names: &mut ObjectNames<'g>,
    rooted: &RuntimeRoots<'_>,
) -> Option<Finding> {
    let live = retained.total.size;
    // Smaller heaps have too few slots.
    if live < MIN_EMPTY {
        return None;
    }
    let mut report = CollectionsReport::default();
    add(process, &mut report, retained, names, rooted);
    report.sort();
    sentence(&report, live)
}

fn sentence(report: &CollectionsReport, live: u64) -> Option<Finding> {
    let total = report.total;
    if total.empty_bytes < MIN_EMPTY || total.empty_bytes.saturating_mul(100) < live.saturating_mul(MIN_SHARE) {
        return None;
    }
    let of_type = |row: &crate::commands::collections::report::CollectionTypeRow| {
        format!("{} × {} ({} empty)", exact(row.sums.count), row.name.shown(), round(row.sums.empty_bytes))
    };
    let types: Vec<String> = report.types.iter().take(TYPES).map(of_type).collect();
    let holder = report.holders.first();
    let most = holder.map_or_else(String::new, |row| {
        let share = row.sums.empty_bytes.saturating_mul(100).checked_div(total.empty_bytes).unwrap_or(0);
        format!(" {share} % of that is in {}.", row.holder)
    });
    let text = format!(
        "{} of {} in the arrays of {} are empty slots: {}.{most}",
        round(total.empty_bytes),
        round(total.bytes),
        count(total.count, "live collection"),
        types.join(", ")
    );
    let finding = Finding::new("empty-collections", Severity::Info, text, "numbers of elements, and lengths of arrays");
    let finding =
        finding.about(total.empty_bytes).known(Confidence::Derived).within("managed-heap").more("collections");
    Some(finding.fingerprinted(holder.map_or("", |row| row.holder.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::collections::report::{CollectionHolderRow, CollectionSums, CollectionTypeRow};

    #[test]
    fn empty_slots_are_a_finding_where_they_are_many() {
        let sums =
            |count, bytes, empty_bytes| CollectionSums { count, bytes, empty_bytes, ..CollectionSums::default() };
        let mib = |n: u64| n << 20;
        let report = CollectionsReport {
            types: vec![CollectionTypeRow {
                name: "java.util.HashMap".into(),
                sums: sums(9, mib(61), mib(38)),
                ..CollectionTypeRow::default()
            }],
            total: sums(9, mib(61), mib(38)),
            holders: vec![CollectionHolderRow {
                holder: "app.Cache.index".to_owned(),
                sums: sums(1, mib(40), mib(30)),
                ..CollectionHolderRow::default()
            }],
            ..CollectionsReport::default()
        };
        let text = "38 MiB of 61 MiB in the arrays of 9 live collections are empty slots: 9 × java.util.HashMap (38 MiB \
                    empty). 78 % of that is in app.Cache.index.";
        assert_eq!(sentence(&report, mib(200)).map(|finding| finding.text).as_deref(), Some(text));
        // A tenth of the live bytes is not reached.
        assert!(sentence(&report, mib(400)).is_none());
        assert!(sentence(&CollectionsReport { total: sums(9, mib(15), mib(15)), ..report }, mib(20)).is_none());
    }
}
