//! Facts from managed runtimes: objects, descriptors of types and methods, handles.

use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::in_object::each_in_object;
use crate::bytes::printable;
use crate::commands::whatis::report::{DescriptorRow, HandleAtRow, InObjectRow, WhatisRow};
use crate::phase::Phase;
use crate::runtimes::api::{ManagedRuntime, ObjectNames, Structure};
use crate::session::Session;

/// Adds what runtimes know about the addresses.
pub(super) fn add_managed(session: &Session<'_>, rows: &mut [WhatisRow]) {
    for row in rows.iter_mut() {
        structure(session, row);
    }
    objects(session, rows);
}

/// Adds the descriptor that begins at the address, or the handle that contains it.
fn structure(session: &Session<'_>, row: &mut WhatisRow) {
    let Some(kind) = row.region.as_ref().map(|r| r.kind) else { return };
    let _phase = session.process.enter(Phase::References);
    for runtime in session.runtimes() {
        match runtime.structure(row.address, kind) {
            None => continue,
            Some(Structure::Descriptor { kind, name, module }) => {
                row.descriptor = Some(DescriptorRow { kind, name, module });
            }
            Some(Structure::Handle { address, kind, object, secondary }) => {
                let mut names = runtime.heap().map(ObjectNames::new);
                let mut name = |at| names.as_mut()?.object(at).map(|(name, _)| name);
                row.handle = Some(HandleAtRow {
                    address,
                    kind,
                    object,
                    name: name(object),
                    secondary,
                    secondary_type: secondary.and_then(name),
                });
            }
        }
        return;
    }
}

/// Whether an object may be at the address: on a managed heap, or in a malloc block if a runtime allocates objects
/// there.
fn may_hold_objects(session: &Session<'_>, row: &WhatisRow) -> bool {
    let Some(kind) = row.region.as_ref().map(|region| region.kind) else { return false };
    kind.holds_objects()
        || kind.holds_blocks()
            && session.runtimes().iter().any(|runtime| {
                let parts = runtime.heap().map(|heap| heap.ranges()).unwrap_or_default();
                let behind = parts.partition_point(|part| part.range.start <= row.address);
                behind.checked_sub(1).and_then(|i| parts.get(i)).is_some_and(|part| part.range.contains(row.address))
            })
}

/// Adds the objects that contain the addresses on managed heaps.
fn objects(session: &Session<'_>, rows: &mut [WhatisRow]) {
    let mut inside: Vec<&mut WhatisRow> = rows.iter_mut().filter(|row| may_hold_objects(session, row)).collect();
    if inside.is_empty() {
        return;
    }
    let _phase = session.process.enter(Phase::Objects);
    inside.sort_by_key(|r| r.address);
    each_in_object(
        session,
        &mut inside,
        |row| row.address,
        |row, found| {
            row.object = Some(InObjectRow {
                address: found.object.addr,
                name: found.name(),
                method_table: found.descriptor(),
                size: found.object.size,
                generation: found.part.generation.name,
                offset: found.offset,
                field: found.named_field(),
                value: found.text().map(|text| printable(&text).into_owned()),
            });
        },
    );
    let heaps = session.runtimes().into_iter().filter_map(|r| Some((r, r.heap()?)));
    heaps.for_each(|(runtime, heap): (&dyn ManagedRuntime, _)| warn_in_gc(session.process, runtime, heap));
}
