//! Objects that objects of another runtime hold.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::roots::{RuntimeRoots, with_retained};
use crate::commands::holders::report::AcrossRow;
use crate::runtimes::api::{OTHER_RUNTIME, ObjectNames, TypeIndex};
use crate::runtimes::graph::Retained;
use crate::session::Session;

/// Lists fields of one runtime's objects that hold another runtime's objects, most bytes first.
pub(super) fn across(session: &Session<'_>) -> Vec<AcrossRow> {
    let mut out = Vec::new();
    let with_heap = session.runtimes().iter().filter(|runtime| runtime.heap().is_some()).count();
    if with_heap > 1 {
        with_retained(session, |retained, names, rooted| out.extend(rows(retained, names, rooted)));
    }
    out.sort_by_key(|row: &AcrossRow| (Reverse(row.retained), row.object));
    out
}

/// What the fields of one kind of holder hold.
#[derive(Default)]
struct Held {
    kinds: HashMap<TypeIndex, u64>,
    count: u64,
    retained: u64,
    largest: (u64, Addr),
}

fn rows(retained: &Retained<'_>, names: &mut ObjectNames<'_>, rooted: &RuntimeRoots<'_>) -> Vec<AcrossRow> {
    let mut held: HashMap<usize, Held> = HashMap::new();
    let roots = rooted.roots.iter().filter(|root| root.kind == OTHER_RUNTIME);
    let mut pairs: Vec<(Addr, usize)> =
        roots.filter_map(|root| Some((root.object, rooted.others.index_at(root.address)?))).collect();
    // An object that several fields hold counts once a row.
    pairs.sort_unstable();
    pairs.dedup();
    let objects: Vec<Addr> = pairs.iter().map(|(object, _)| *object).collect();
    for ((object, index), number) in pairs.iter().zip(retained.live.numbers_of(&objects)) {
        let Some(number) = number.filter(|number| *number > 0) else { continue };
        let sum = held.entry(*index).or_default();
        let bytes = retained.bytes(number);
        sum.count = sum.count.saturating_add(1);
        sum.retained = sum.retained.saturating_add(bytes);
        if let Some(kind) = retained.kind(number) {
            *sum.kinds.entry(kind).or_default() += 1;
        }
        if sum.count == 1 || bytes > sum.largest.0 {
            sum.largest = (bytes, *object);
        }
    }
    let label = rooted.runtime.label();
    let all = rooted.others.all.iter().enumerate();
    let rows = all.filter_map(|(index, holder)| {
        let sum = held.get(&index)?;
        let kind = sum.kinds.iter().max_by_key(|(kind, count)| (**count, Reverse(**kind))).map(|(kind, _)| *kind);
        Some(AcrossRow {
            runtime: holder.runtime.clone(),
            name: holder.name.clone(),
            field: holder.field.clone(),
            objects: holder.objects,
            owner: holder.owner.clone(),
            object: holder.example,
            held_runtime: label.clone(),
            held_type: kind.map(|kind| names.of_kind(kind)),
            held: sum.count,
            retained: sum.retained,
            held_object: sum.largest.1,
        })
    });
    rows.collect()
}
