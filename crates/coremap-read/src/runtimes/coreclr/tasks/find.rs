//! Finds the objects on the heap that take part in tasks.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::progress::Progress;
use crate::runtimes::api::{Heap as _, HeapRange, UnwalkedRanges};
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::tasks::shapes::{Family, Machine, Shapes};

/// Task.m_stateFlags: ran to completion, canceled, faulted (Task.cs).
const COMPLETED: u32 = 0x0100_0000 | 0x0040_0000 | 0x0020_0000;

/// State of a finished state machine.
pub(super) const FINISHED: i32 = -2;

/// Field names of tasks and of completion sources. Both names of the latter occur in 3.1 and later.
pub(super) const FLAGS: &str = "m_stateFlags";
const COMPLETES: [&str; 2] = ["_task", "m_task"];

/// A pending task, or a box that is not a task.
#[derive(Clone, Debug)]
pub(super) struct AsyncObject {
    pub(super) addr: Addr,
    pub(super) method_table: Addr,
    /// State machine of the async method, if it has one.
    pub(super) machine: Option<Arc<Machine>>,
    pub(super) is_task: bool,
}

#[derive(Default)]
pub(super) struct AsyncObjects {
    /// Pending items by address.
    pub(super) items: Vec<AsyncObject>,
    /// Types of completion sources, by the task that each source completes.
    pub(super) sources: HashMap<Addr, Addr>,
    /// Number of items left out.
    pub(super) omitted: u64,
    pub(super) losses: UnwalkedRanges,
}

/// Role of a type's objects in this walk.
enum Role {
    Task { flags: u64, machine: Option<Arc<Machine>> },
    Box(Arc<Machine>),
    Source(u64),
    None,
}

fn role(shapes: &Shapes<'_, '_>, method_table: Addr) -> Role {
    let family = shapes.family(method_table);
    let field = |names: &[&str]| {
        let fields = shapes.fields(method_table);
        names.iter().find_map(|name| fields.get(*name).copied())
    };
    match family {
        Family::Task => field(&[FLAGS])
            .map_or(Role::None, |flags| Role::Task { flags, machine: shapes.machine(method_table).map(Arc::new) }),
        Family::Source => field(&COMPLETES).map_or(Role::None, Role::Source),
        Family::Other => shapes.machine(method_table).map_or(Role::None, |m| Role::Box(Arc::new(m))),
    }
}

/// Walks the heap for pending tasks.
pub(super) fn find(shapes: &Shapes<'_, '_>, heap: &Heap<'_>, progress: &Progress) -> AsyncObjects {
    let memory = shapes.types.memory;
    struct Share {
        roles: HashMap<u32, Role>,
        found: AsyncObjects,
    }
    let fresh = || Share { roles: HashMap::new(), found: AsyncObjects::default() };
    let of_part = |mut share: Share, part: &HeapRange| {
        let Share { roles, found } = &mut share;
        let AsyncObjects { items, sources, omitted, losses } = found;
        heap.walker().walk(part, losses, &mut |object| {
            let role = roles.entry(object.kind.0).or_insert_with(|| match heap.method_table(object.kind) {
                Some(info) if !info.free && !info.counted() => role(shapes, info.address),
                _ => Role::None,
            });
            let (machine, is_task) = match role {
                Role::None => return,
                Role::Source(at) => {
                    let task = memory.ptr(object.addr.saturating_add(*at)).ok().filter(|t| !t.is_null());
                    if let Some(task) = task.filter(|_| sources.len() < limits::MAX_ASYNC_OBJECTS) {
                        let method_table = heap.method_table(object.kind).map_or(Addr::NULL, |info| info.address);
                        sources.insert(task, method_table);
                    }
                    return;
                }
                Role::Task { flags, machine } => {
                    let flags = memory.u32(object.addr.saturating_add(*flags));
                    if flags.is_ok_and(|f| f & COMPLETED != 0) {
                        return;
                    }
                    (machine.clone(), true)
                }
                Role::Box(machine) => (Some(machine.clone()), false),
            };
            if items.len() >= limits::MAX_ASYNC_OBJECTS {
                *omitted += 1;
                return;
            }
            let method_table = heap.method_table(object.kind).map_or(Addr::NULL, |info| info.address);
            items.push(AsyncObject { addr: object.addr, method_table, machine, is_task });
        });
        progress.add(part.range.len());
        share
    };
    progress.start(heap.ranges().iter().map(|p| p.range.len()).fold(0, u64::saturating_add));
    let join = |mut a: Share, b: Share| {
        a.found.items.extend(b.found.items);
        a.found.sources.extend(b.found.sources);
        a.found.omitted += b.found.omitted;
        a.found.losses.merge(b.found.losses);
        a
    };
    let mut found = heap.ranges().par_iter().fold(fresh, of_part).reduce(fresh, join).found;
    found.items.sort_by_key(|i| i.addr);
    found.omitted += found.items.len().saturating_sub(limits::MAX_ASYNC_OBJECTS) as u64;
    found.items.truncate(limits::MAX_ASYNC_OBJECTS);
    found
}
