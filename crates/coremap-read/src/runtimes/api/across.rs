//! References from the heap of one runtime to objects of another runtime.
//!
//! Code that joins two runtimes stores the address of an object in a field of the other runtime's object: a wrapper
//! with a handle. Neither collector knows this reference. A word with the exact start of an object proves it, if the
//! object's runtime counts a reference there that nothing else explains.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::pointers::pointers;
use crate::progress::Progress;
use crate::runtimes::api::{FREE, Heap, Root, RootKind, locate};
use crate::targets::Target;

/// A root that is a field of another runtime's object. Its address is that field's.
pub const OTHER_RUNTIME: RootKind = RootKind::Of(u8::MAX - 2, "another runtime");

/// Maximum number of fields that become roots of one object.
const MAX_FIELDS: usize = 4;

/// Replaces roots of kind `unexplained` by the fields of objects in `others` that reference the same object.
pub(crate) fn find_fields(target: &dyn Target, roots: &mut Vec<Root>, unexplained: RootKind, others: &[&dyn Heap]) {
    if others.is_empty() {
        return;
    }
    let mut wanted: Vec<Addr> = roots.iter().filter(|root| root.kind == unexplained).map(|root| root.object).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let Some((first, last)) = wanted.first().copied().zip(wanted.last().copied()) else { return };
    let hull = AddrRange::new(first, last.saturating_add(1));
    let mut fields: HashMap<Addr, Vec<Addr>> = HashMap::new();
    for heap in others {
        let ranges: Vec<AddrRange> = heap.ranges().iter().map(|of| of.range).collect();
        let keep = |share: &mut Vec<(Addr, Addr)>, at: Addr, value: Addr| {
            if wanted.binary_search(&value).is_ok() {
                share.push((at, value));
            }
        };
        let mut words: Vec<(Addr, Addr)> = Vec::new();
        pointers(target, &ranges, hull, &Progress::silent(), keep, |share: Vec<(Addr, Addr)>| {
            words.extend(share.into_iter().take(limits::MAX_HELD.saturating_sub(words.len())));
        });
        let at = |word: &(Addr, Addr)| word.0;
        locate(*heap, &mut words, at, |(at, object), _, holder| {
            let known = fields.entry(*object).or_default();
            if holder.kind != FREE && known.len() < MAX_FIELDS {
                known.push(*at);
            }
        });
    }
    let mut more: Vec<Root> = Vec::new();
    for root in roots.iter_mut().filter(|root| root.kind == unexplained) {
        let Some((first, rest)) = fields.get(&root.object).and_then(|all| all.split_first()) else { continue };
        *root = Root::new(OTHER_RUNTIME, *first, root.object);
        more.extend(rest.iter().map(|at| Root::new(OTHER_RUNTIME, *at, root.object)));
    }
    roots.append(&mut more);
}
