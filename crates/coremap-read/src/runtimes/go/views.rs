//! Slices and strings that use little of the arrays that they retain.

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::go::Go;
use crate::runtimes::go::heap::{Leads, PointerFields, TypedBy};
use crate::runtimes::go::record::Record;
use crate::units::{count, round};

/// Minimum share of the arrays, in percent, that their views use. With less, the finding says so.
const USED: u64 = 25;

/// Minimum size in bytes of an array, and minimum total of all arrays for a sentence. Small arrays don't count:
/// rounding up to a size class explains their slack.
const LEAST: u64 = 512;
const LARGE: u64 = 1 << 20;

/// Maximum number of values whose fields are read.
const MAX_VALUES: u64 = 1 << 22;

/// Views by one field.
#[derive(Default)]
struct Views {
    number: u64,
    used: u64,
    /// Arrays with their sizes.
    arrays: BTreeMap<Addr, u64>,
}

/// Returns a sentence if fields of these objects, or of the elements of these arrays, use little of the arrays that
/// they retain.
pub(super) fn note(go: &Go<'_>, objects: &[Addr]) -> Option<String> {
    let (heap, types) = (go.objects()?, go.types());
    let mut fields = PointerFields::default();
    let mut by_field: BTreeMap<(TypeIndex, u64), Views> = BTreeMap::new();
    let mut left = MAX_VALUES;
    for &object in objects {
        let Some((kind, size)) = heap.typed(object) else { continue };
        let (of, step) = match heap.typed_by(kind) {
            Some(TypedBy::One(of)) => (of, size.max(1)),
            Some(TypedBy::Array(of)) => (of, types.get(of).map_or(0, |elem| elem.size).max(1)),
            None => continue,
        };
        let all = fields.of(types, of);
        if all.is_empty() {
            continue;
        }
        let Some(bytes) = Record::look(go.runtime().memory(), object, size) else { continue };
        for base in (0..size.saturating_sub(step - 1)).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            if left == 0 {
                break;
            }
            left -= 1;
            for (offset, leads) in all.iter() {
                let elem = match leads {
                    Leads::Array(elem) => types.get(*elem).map_or(0, |elem| elem.size),
                    Leads::Text => 1,
                    _ => continue,
                };
                let at = base.saturating_add(*offset);
                let Some(array) = heap.object_at(bytes.ptr(at)) else { continue };
                let Some((_, whole)) = heap.typed(array).filter(|(_, whole)| *whole >= LEAST) else { continue };
                let views = by_field.entry((kind, *offset)).or_default();
                views.number += 1;
                views.used = views.used.saturating_add(bytes.u64(at.saturating_add(8)).saturating_mul(elem).min(whole));
                views.arrays.insert(array, whole);
            }
        }
    }
    let sum = |views: &Views| views.arrays.values().fold(0_u64, |sum, size| sum.saturating_add(*size));
    let ((kind, offset), views) = by_field.iter().max_by_key(|(_, views)| sum(views))?;
    let whole = sum(views);
    let is_little = whole >= LARGE && views.used.saturating_mul(100) < whole.saturating_mul(USED);
    is_little.then(|| {
        let field = heap.name_of_field(*kind, *offset).map_or_else(String::new, |name| format!("{name}: "));
        format!(
            "{field}{} use {} of the {} in {} that they keep.",
            count(views.number, "view"),
            round(views.used),
            round(whole),
            count(views.arrays.len() as u64, "larger array")
        )
    })
}
