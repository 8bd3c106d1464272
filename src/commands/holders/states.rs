//! Whether objects that own native memory are alive.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::analysis::roots::{Unreached, with_retained};
use crate::report::HolderState;
use crate::runtimes::api::{FINALIZER_QUEUE, RuntimeId};
use crate::runtimes::graph::Retained;
use crate::session::Session;

/// States of objects of all runtimes.
#[derive(Default)]
pub(super) struct States {
    by_object: HashMap<(RuntimeId, Addr), HolderState>,
    /// Objects that are registered for finalization, by runtime. Runtimes whose finalizers are not read are missing.
    registered: HashMap<RuntimeId, HashSet<Addr>>,
}

impl States {
    /// Reads the states of objects, given by runtime. Without objects, the graph is not searched.
    pub(super) fn read(
        session: &Session<'_>,
        objects: impl Iterator<Item = (RuntimeId, impl Iterator<Item = Addr>)>,
    ) -> States {
        let mut out = States::default();
        let mut wanted: HashMap<RuntimeId, Vec<Addr>> = HashMap::new();
        for (id, of) in objects {
            let mut of: Vec<Addr> = of.collect();
            of.dedup();
            wanted.insert(id, of);
        }
        if wanted.values().all(Vec::is_empty) {
            return out;
        }
        let mut ready: HashSet<Addr> = HashSet::new();
        for (id, runtime) in session.runtimes_by_id() {
            let Some(gc) = runtime.clr_gc() else { continue };
            let queues = gc.finalizers();
            if queues.is_empty() {
                continue;
            }
            let registered = queues.iter().flat_map(|queue| queue.registered.iter().map(|r| r.2));
            out.registered.insert(id, registered.collect());
            ready.extend(queues.iter().flat_map(|queue| queue.ready.iter().map(|r| r.1)));
        }
        with_retained(session, |retained, _, rooted| {
            let Some(objects) = wanted.get(&rooted.id) else { return };
            let unreached = match rooted.unreached() {
                Unreached::Collectible | Unreached::Kept(_) => HolderState::Dead,
                Unreached::Unknown => HolderState::Unreached,
            };
            let queued = of_finalizers(retained);
            for (object, number) in objects.iter().zip(retained.live.numbers_of(objects)) {
                let state = match number {
                    _ if ready.contains(object) => HolderState::Queued,
                    None | Some(0) => unreached,
                    Some(number) if queued.get(number as usize).is_some_and(|is| *is) => HolderState::Queued,
                    Some(_) => HolderState::Live,
                };
                out.by_object.insert((rooted.id, *object), state);
            }
        });
        out
    }

    /// Returns the state of an object, and whether it is registered for finalization. `None` if not read.
    pub(super) fn of(&self, id: RuntimeId, object: Addr) -> (Option<HolderState>, Option<bool>) {
        let registered = self.registered.get(&id).map(|of| of.contains(&object));
        (self.by_object.get(&(id, object)).copied(), registered)
    }
}

/// Marks the objects that only queued finalizers reach, by number. Empty if no finalizer is queued.
fn of_finalizers(retained: &Retained<'_>) -> Vec<bool> {
    let Some(queue) = retained.live.root_nodes.iter().find(|node| node.kind == FINALIZER_QUEUE) else {
        return Vec::new();
    };
    let mut out = vec![false; retained.live.len()];
    if let Some(entry) = out.get_mut(queue.number as usize) {
        *entry = true;
    }
    for (number, dominator) in retained.dominators() {
        if number != queue.number
            && out.get(dominator as usize).is_some_and(|is| *is)
            && let Some(entry) = out.get_mut(number as usize)
        {
            *entry = true;
        }
    }
    out
}
