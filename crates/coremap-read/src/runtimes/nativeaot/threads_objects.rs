//! Thread objects of the library: managed id and name, and which system thread each belongs to.
//!
//! The runtime's list of threads does not lead to them. The thread statics of each thread have the thread's own object
//! (Thread.t_currentThread), at the same offset in all threads. Of all offsets that lead to Thread objects, this one
//! does in most threads, to a different object in each.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::Addr;
use crate::runtimes::nativeaot::census::{Census, Part};
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::threads::{RefOrigin, Threads};

/// A Thread object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadObject {
    pub(super) object: Addr,
    /// Managed id. 0 if it has ended.
    pub(super) id: u32,
    pub(super) name: Option<String>,
    /// Record of what it waits for.
    pub(super) wait: Option<Addr>,
    /// System thread id.
    pub(super) tid: Option<u32>,
}

/// All Thread objects.
#[derive(Debug, Default)]
pub(super) struct ThreadObjects {
    pub(super) all: Vec<ThreadObject>,
    by_object: HashMap<Addr, usize>,
    by_id: HashMap<u32, usize>,
    by_tid: HashMap<u32, usize>,
}

impl ThreadObjects {
    pub(super) fn read(heap: &Heap<'_>, census: &Census, threads: &Threads) -> ThreadObjects {
        let mut out = ThreadObjects::default();
        for object in census.of(Part::Thread) {
            let at = object.addr;
            let id = heap.held("AotThread", at, "_managedThreadId");
            out.by_object.insert(at, out.all.len());
            out.all.push(ThreadObject {
                object: at,
                id: id.and_then(|id| heap.number("AotThreadId", id, "_managedThreadId")).unwrap_or(0),
                name: heap.text("AotThread", at, "_name").filter(|name| !name.is_empty()),
                wait: heap.held("AotThread", at, "_waitInfo"),
                tid: None,
            });
        }
        for (tid, at) in owners(&candidates(heap, census, threads)) {
            if let Some((i, thread)) = out.by_object.get(&at).and_then(|&i| Some((i, out.all.get_mut(i)?))) {
                thread.tid = Some(tid);
                out.by_tid.insert(tid, i);
            }
        }
        for (i, thread) in out.all.iter().enumerate().filter(|(_, thread)| thread.id != 0) {
            // An object of a thread that runs counts more than one that awaits its collection.
            let known = out.by_id.entry(thread.id).or_insert(i);
            if thread.tid.is_some() {
                *known = i;
            }
        }
        out
    }

    /// The Thread at an address.
    pub(super) fn at(&self, object: Addr) -> Option<&ThreadObject> {
        self.all.get(*self.by_object.get(&object)?)
    }

    /// The Thread with a managed id.
    pub(super) fn with_id(&self, id: u32) -> Option<&ThreadObject> {
        self.all.get(*self.by_id.get(&id)?)
    }

    /// The Thread of a system thread.
    pub(super) fn with_tid(&self, tid: u32) -> Option<&ThreadObject> {
        self.all.get(*self.by_tid.get(&tid)?)
    }
}

/// Thread objects in the inlined thread statics of each system thread, by offset.
fn candidates(heap: &Heap<'_>, census: &Census, threads: &Threads) -> Vec<(u32, BTreeMap<u64, Addr>)> {
    let mut out = Vec::new();
    for thread in &threads.all {
        let Some(tid) = thread.tid else { continue };
        let inlined = thread.refs.iter().filter(|found| found.origin == RefOrigin::InlinedStatics);
        let all = inlined.flat_map(|found| heap.references_of(found.object));
        out.push((tid, all.filter(|(_, at)| census.is(Part::Thread, *at)).collect()));
    }
    out
}

/// The object of each system thread: at the offset with most different objects. `None` if two offsets are as good and
/// disagree.
fn owners(candidates: &[(u32, BTreeMap<u64, Addr>)]) -> Vec<(u32, Addr)> {
    let mut objects: BTreeMap<u64, HashSet<Addr>> = BTreeMap::new();
    for (_, found) in candidates {
        for (&offset, &at) in found {
            objects.entry(offset).or_default().insert(at);
        }
    }
    let most = objects.values().map(HashSet::len).max().unwrap_or(0);
    let best = objects.iter().filter(|(_, found)| found.len() == most).map(|(offset, _)| *offset);
    let of = |offset: u64| -> Vec<(u32, Addr)> {
        candidates.iter().filter_map(|(tid, found)| Some((*tid, *found.get(&offset)?))).collect()
    };
    let mut maps = best.map(of);
    let Some(first) = maps.next().filter(|first| maps.all(|other| other == *first)) else { return Vec::new() };
    // An object that two threads have is the own one of neither.
    let mut times: HashMap<Addr, usize> = HashMap::new();
    first.iter().for_each(|(_, at)| *times.entry(*at).or_default() += 1);
    first.into_iter().filter(|(_, at)| times.get(at) == Some(&1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_object_is_at_the_offset_with_most_different_ones() {
        let at = |n: u64| Addr::new(0x1000 * n);
        // At 8 each thread has its own; at 16 all have the same one, which another thread owns.
        let of = |tid: u32, own: u64| (tid, BTreeMap::from([(8, at(own)), (16, at(1))]));
        assert_eq!(owners(&[of(10, 1), of(11, 2), of(12, 3)]), [(10, at(1)), (11, at(2)), (12, at(3))]);
        // One thread, and two offsets that disagree.
        assert_eq!(owners(&[of(11, 2)]), []);
        assert_eq!(owners(&[of(10, 1)]), [(10, at(1))]);
        assert_eq!(owners(&[(10, BTreeMap::from([(8, at(1))])), (11, BTreeMap::from([(8, at(1))]))]), []);
        assert_eq!(owners(&[]), []);
    }
}
