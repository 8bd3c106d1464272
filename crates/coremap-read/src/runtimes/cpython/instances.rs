//! Tasks and `MemoryError`s. One walk of the heap finds both, because several reports need them.

use std::collections::HashMap;

use super::CPython;
use super::tasks::task_types;
use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{BlockHeap as _, Heap as _, TypeIndex, UnwalkedRanges};
use crate::units::exact;

/// The exception. Libraries derive their own from it.
const MEMORY_ERROR: &str = "MemoryError";

/// Objects that are found by their types.
#[derive(Default)]
pub(super) struct Instances {
    /// Tasks, sorted by address.
    pub(super) tasks: Vec<Addr>,
    /// `MemoryError`s of types that the collector tracks.
    pub(super) memory_errors: Vec<Addr>,
}

/// Kinds of objects that the walk collects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Task,
    MemoryError,
    None,
}

impl CPython<'_> {
    /// Tasks and `MemoryError`s, from one walk of the heap.
    pub(super) fn instances(&self) -> &Instances {
        self.instances.get_or_init(|| self.find_instances())
    }

    fn find_instances(&self) -> Instances {
        let Some(heap) = self.objects() else { return Instances::default() };
        let (tasks, objects) = (task_types(self), self.runtime().objects());
        let role = |kind: TypeIndex| match heap.type_of_kind(kind) {
            Some(found) if objects.bases(found.address).any(|base| tasks.contains(&base)) => Role::Task,
            Some(_) if self.is_memory_error(kind) => Role::MemoryError,
            _ => Role::None,
        };
        let (mut walker, mut unwalked) = (heap.walker(), UnwalkedRanges::default());
        let mut roles: HashMap<TypeIndex, Role> = HashMap::new();
        let (mut out, mut more) = (Instances::default(), 0_u64);
        for part in heap.ranges() {
            walker.walk(part, &mut unwalked, &mut |object| match *roles
                .entry(object.kind)
                .or_insert_with(|| role(object.kind))
            {
                Role::Task if out.tasks.len() < limits::MAX_PY_TASKS => out.tasks.push(object.addr),
                Role::Task => more += 1,
                Role::MemoryError if out.memory_errors.len() < limits::MAX_PY_OUTSIDE => {
                    out.memory_errors.push(object.addr);
                }
                Role::MemoryError | Role::None => {}
            });
        }
        if more > 0 {
            self.warn("tasks", &format!("{} tasks over the limit are ignored", exact(more)));
        }
        out.tasks.sort_unstable();
        out.tasks.dedup();
        out
    }

    /// Whether the collector tracks `MemoryError`s. It knows all exceptions, so most heaps need no walk to find none.
    pub(super) fn tracks_memory_errors(&self) -> bool {
        self.objects().is_some_and(|heap| heap.tracked().keys().any(|kind| self.is_memory_error(*kind)))
    }

    /// Whether a type that the collector tracks is `MemoryError`, or derived from it.
    fn is_memory_error(&self, kind: TypeIndex) -> bool {
        let Some(heap) = self.objects().filter(|heap| heap.tracked().contains_key(&kind)) else { return false };
        let Some(found) = heap.type_of_kind(kind) else { return false };
        let is = |base| heap.type_at(base).is_some_and(|found| found.name == MEMORY_ERROR);
        self.runtime().objects().bases(found.address).any(is)
    }
}
