//! Semaphores: goroutines that wait for a mutex, an RWMutex or a WaitGroup.
//!
//! Source: runtime/sema.go. The runtime has a table of 251 roots of 64 bytes. The index of a root is the address of the
//! semaphore in words, modulo 251. Each root has a tree with one `sudog` for each address. A list at each `sudog` has
//! further waiters for the same address. A stripped program has no symbol for this table. Each pointer from the
//! variables to a waiting `sudog` votes for a start of the table; the start with the most votes is the table's.

use std::collections::{HashMap, HashSet};

use super::list::List;
use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;

/// Roots of the table, and bytes of each.
const ROOTS: u64 = 251;
const ROOT: u64 = 64;

/// What goroutines wait for: address of the semaphore, by goroutine.
pub(super) fn waits(runtime: &Runtime<'_>, list: &List) -> HashMap<Addr, Addr> {
    let _phase = runtime.process.enter(Phase::Locks);
    // Stale records of other kinds of waits would vote for tables that do not exist.
    let waiting: HashSet<Addr> = list.all.iter().filter(|g| is_semaphore(g.state)).map(|g| g.at).collect();
    let mut out = HashMap::new();
    if waiting.is_empty() {
        return out;
    }
    let Some(table) = table(runtime, &waiting) else { return out };
    let (memory, shape) = (runtime.memory(), runtime.shape());
    let walks = Walks::new(Phase::Locks, limits::MAX_GO_WAITERS);
    for root in 0..ROOTS {
        let first = table.checked_add(ROOT * root + shape.sema.treap).and_then(|at| memory.ptr(at).ok());
        // The tree's nodes, each with the list of further waiters for the same address.
        let mut left: Vec<Addr> = first.into_iter().collect();
        let mut tree = walks.begin_own_set();
        while let Some(node) = left.pop() {
            if node.is_null() || tree.step(node).is_err() {
                continue;
            }
            let Some(r) = Record::read(memory, node, shape.sudog.size) else { continue };
            let address = r.ptr(shape.sudog.elem);
            let _ = walks.begin_own_set().follow(node, |at| {
                let r = Record::read(memory, at, shape.sudog.size).ok_or("is not in the core")?;
                out.insert(r.ptr(shape.sudog.g), address);
                Ok::<_, &str>(r.ptr(shape.sudog.waitlink))
            });
            left.extend([r.ptr(shape.sudog.next), r.ptr(shape.sudog.prev)]);
        }
    }
    out.retain(|g, _| waiting.contains(g));
    out
}

/// Whether a state is a wait for a semaphore.
pub(super) fn is_semaphore(state: &str) -> bool {
    state.starts_with("sync.Mutex")
        || state.starts_with("sync.RWMutex")
        || state.starts_with("sync.WaitGroup")
        || state == "semacquire"
}

/// Finds the address of the table: the start that most pointers to waiting `sudog`s agree on.
fn table(runtime: &Runtime<'_>, waiting: &HashSet<Addr>) -> Option<Addr> {
    let (memory, shape) = (runtime.memory(), runtime.shape());
    let mut votes: HashMap<Addr, u64> = HashMap::new();
    for section in runtime.proof.sections.variables() {
        for part in memory.readable_parts(section, limits::MAX_IMAGE_DATA) {
            let start = part.start.align_up(8);
            let Some(len) = part.end.checked_since(start) else { continue };
            let Some(words) = Record::look(memory, start, len) else { continue };
            for i in 0..len / 8 {
                let node = words.ptr(8 * i);
                if node.is_null() || !node.is_aligned(8) || runtime.range.contains(node) {
                    continue;
                }
                if !memory.peek_u64(node).is_ok_and(|g| waiting.contains(&Addr::new(g))) {
                    continue;
                }
                let elem = node.checked_add(shape.sudog.elem).and_then(|at| memory.peek_u64(at).ok());
                let root = elem.map(|elem| (elem >> 3) % ROOTS);
                let at = start.checked_add(8 * i);
                let base = at.zip(root).and_then(|(at, root)| at.checked_sub(ROOT * root + shape.sema.treap));
                if let Some(base) = base.filter(|base| base.is_aligned(8)) {
                    *votes.entry(base).or_default() += 1;
                }
            }
        }
    }
    votes.into_iter().max_by_key(|(at, votes)| (*votes, *at)).map(|(at, _)| at)
}
