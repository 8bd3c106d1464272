//! Estimates how much memory an object retains: its own, and that of objects that nothing else references.
//!
//! Reference counts show that without a search from the roots. An object with one reference is retained by its only
//! referrer.

use crate::addr::Addr;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{PyType, TypeForm};

/// Maximum number of items sampled of a container, at equal distances. The sum is scaled to all items.
const MAX_SAMPLED: u64 = 2048;

/// Maximum number of objects visited below one item.
const MAX_BELOW_ITEM: usize = 1024;

/// Maximum number of objects visited for one container.
const MAX_VISITED: usize = 1 << 17;

#[derive(Clone, Debug, Default)]
pub(super) struct RetainedEstimate {
    /// Bytes of the container and of what it retains.
    pub(super) bytes: u64,
    /// Type name of the items, if all visited items have the same type.
    pub(super) item: Option<String>,
    /// Whether only a sample was visited.
    pub(super) sampled: bool,
}

/// Estimates what a container with `length` items of its type retains.
pub(super) fn estimate_retained(heap: &Heap<'_>, object: Addr, kind: &PyType, length: u64) -> RetainedEstimate {
    let own = heap.own_bytes(object);
    let step = (length / MAX_SAMPLED).max(1);
    let mut left = MAX_VISITED;
    let (mut below, mut seen, mut taken) = (0_u64, 0_u64, 0_u64);
    let mut types: Option<Option<String>> = None;
    let first = kind.items();
    let pairs = kind.form == TypeForm::Dict;
    heap.each_target(object, kind, |link, to| {
        let Link::Field(offset) = link else { return true };
        let Some(index) = offset.checked_sub(first).map(|inside| inside / 8) else { return true };
        // Keys and values of a dict alternate. Sample whole entries.
        let entry = if pairs { index / 2 } else { index };
        let is_key = pairs && index % 2 == 0;
        seen += u64::from(!is_key);
        if entry % step != 0 || left == 0 {
            return true;
        }
        taken += u64::from(!is_key);
        below = below.saturating_add(exclusive(heap, to, &mut left));
        if !is_key {
            let name = heap.type_of(to).map(|kind| kind.name.clone());
            types = Some(match types.take() {
                None => name,
                Some(known) if known == name => known,
                Some(_) => None,
            });
        }
        true
    });
    let sampled = taken < seen;
    if sampled && taken > 0 {
        below = (u128::from(below) * u128::from(seen) / u128::from(taken)).try_into().unwrap_or(u64::MAX);
    }
    RetainedEstimate { bytes: own.saturating_add(below), item: types.flatten(), sampled }
}

/// Bytes of an object and of all objects below it, as far as each has one reference.
pub(super) fn exclusive(heap: &Heap<'_>, object: Addr, left: &mut usize) -> u64 {
    let mut sum = 0_u64;
    let mut queue = vec![object];
    let mut steps = 0;
    while let Some(at) = queue.pop() {
        if *left == 0 || steps >= MAX_BELOW_ITEM {
            break;
        }
        let Some(kind) = heap.type_of(at).filter(|_| heap.refcnt(at) == 1) else { continue };
        *left -= 1;
        steps += 1;
        sum = sum.saturating_add(heap.own_bytes(at));
        heap.each_target(at, &kind, |link, to| {
            // An instance references its class, which does not belong to it.
            if link != Link::NoField("(type)") {
                queue.push(to);
            }
            queue.len() < MAX_BELOW_ITEM
        });
    }
    sum
}
