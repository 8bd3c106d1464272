//! Goroutines that likely hold a lock.
//!
//! Go does not record who holds a mutex. A goroutine likely holds it if three things are true:
//!
//! - its stack has a method of the waiter's receiver type;
//! - its stack has a pointer to the object that contains the lock;
//! - it does not wait for this lock itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::list::Goroutine;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::go::runtime::Runtime;

/// Maximum distance in bytes from the start of a struct in a package variable to a lock in it.
const BEFORE: u64 = 1024;

/// A goroutine that may hold a lock.
pub(super) struct Candidate<'l> {
    pub(super) g: &'l Goroutine,
    /// Receiver types of the program's methods on its stack: `main.(*Plan)`.
    pub(super) receivers: BTreeSet<String>,
    /// The lock that it waits for. `None` if it waits for none.
    pub(super) waits_for: Option<Addr>,
    /// Stack pointer where the goroutine stopped running.
    pub(super) sp: Addr,
}

/// Type of the receiver of a method: `main.(*Plan)` of `main.(*Plan).Reserve.func1`. `None` for other functions.
pub(super) fn receiver(function: &str) -> Option<String> {
    let open = function.find(".(*")?;
    let close = function.get(open..)?.find(')')?;
    function.get(..open + close + 1).map(str::to_owned)
}

/// Returns the goroutines that likely hold each lock.
pub(super) fn likely(runtime: &Runtime<'_>, all: &[Candidate<'_>]) -> HashMap<Addr, Vec<Addr>> {
    let mut waiters: BTreeMap<Addr, BTreeSet<&String>> = BTreeMap::new();
    for candidate in all {
        if let Some(lock) = candidate.waits_for {
            waiters.entry(lock).or_default().extend(&candidate.receivers);
        }
    }
    // Objects that contain the locks, by address.
    let objects: BTreeMap<Addr, (AddrRange, Addr)> =
        waiters.keys().filter_map(|lock| object(runtime, *lock).map(|range| (range.start, (range, *lock)))).collect();
    let mut out: HashMap<Addr, Vec<Addr>> = HashMap::new();
    if objects.is_empty() {
        return out;
    }
    for candidate in all.iter().filter(|candidate| !candidate.receivers.is_empty()) {
        let mut found = BTreeSet::new();
        each_word(runtime.memory(), AddrRange::new(candidate.sp, candidate.g.stack.end), |word| {
            let Some((_, (range, lock))) = objects.range(..=word).next_back() else { return };
            let same = waiters.get(lock).is_some_and(|types| types.iter().any(|of| candidate.receivers.contains(*of)));
            if range.contains(word) && same && candidate.waits_for != Some(*lock) {
                found.insert(*lock);
            }
        });
        for lock in found {
            out.entry(lock).or_default().push(candidate.g.at);
        }
    }
    out
}

/// Returns the object that contains a lock. For a lock in a package variable, the bytes up to the lock that may be its
/// struct.
fn object(runtime: &Runtime<'_>, lock: Addr) -> Option<AddrRange> {
    if let Some(span) = runtime.proof.spans.at(lock) {
        let index = lock.since(span.range.start) / span.elem.max(1);
        let start = span.range.start.checked_add(index.checked_mul(span.elem)?)?;
        return Some(AddrRange::sized(start, span.elem));
    }
    let section = runtime.proof.sections.variables().into_iter().find(|range| range.contains(lock))?;
    Some(AddrRange::new(lock.saturating_sub(BEFORE).max(section.start), lock.saturating_add(8)))
}

pub(super) fn each_word(memory: &dyn Memory, range: AddrRange, mut visit: impl FnMut(Addr)) {
    let range = AddrRange::sized(range.start, range.len().min(limits::MAX_STACK_SCAN));
    for part in memory.readable_parts(range, limits::MAX_STACK_SCAN) {
        let Ok(bytes) = memory.look(part.start, part.len() as usize) else { continue };
        bytes.as_chunks::<8>().0.iter().for_each(|word| visit(Addr::new(u64::from_le_bytes(*word))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_of_methods() {
        let all = ["main.(*Plan).Reserve", "main.(*Plan).Reserve.func1", "main.main", "net/http.(*conn).serve"];
        let types = all.map(receiver);
        let texts = types.each_ref().map(|of| of.as_deref());
        assert_eq!(texts, [Some("main.(*Plan)"), Some("main.(*Plan)"), None, Some("net/http.(*conn)")]);
    }
}
