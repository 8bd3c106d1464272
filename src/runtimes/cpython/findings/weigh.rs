//! Estimates how much memory an object retains: its own, and that of objects that nothing else references.
//!
//! Reference counts show that without a search from the roots. An object with one reference is retained by its only
//! referrer.

use crate::addr::Addr;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{Form, PyType};

/// Maximum number of items sampled of a container, at equal distances. The sum is scaled to all items.
const SAMPLE: u64 = 2048;

/// Maximum number of objects visited below one item.
const BELOW: usize = 1024;

/// Maximum number of objects visited for one container.
const MOST: usize = 1 << 17;

#[derive(Clone, Debug, Default)]
pub(super) struct Weight {
    /// Bytes of the container and of what it retains.
    pub(super) bytes: u64,
    /// Type name of the items, if all visited items have the same type.
    pub(super) item: Option<String>,
    /// Whether only a sample was visited.
    pub(super) sampled: bool,
}

/// Estimates what a container with `length` items of its type retains.
pub(super) fn weigh(heap: &Heap<'_>, object: Addr, kind: &PyType, length: u64) -> Weight {
    let own = heap.own_bytes(object);
    let step = (length / SAMPLE).max(1);
    let mut left = MOST;
    let (mut below, mut seen, mut taken) = (0_u64, 0_u64, 0_u64);
    let mut types: Option<Option<String>> = None;
    let first = kind.items();
    let pairs = kind.form == Form::Dict;
    heap.each_held(object, kind, |link, to| {
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
    Weight { bytes: own.saturating_add(below), item: types.flatten(), sampled }
}

/// Bytes of an object and of all objects below it, as far as each has one reference.
pub(super) fn exclusive(heap: &Heap<'_>, object: Addr, left: &mut usize) -> u64 {
    let mut sum = 0_u64;
    let mut queue = vec![object];
    let mut steps = 0;
    while let Some(at) = queue.pop() {
        if *left == 0 || steps >= BELOW {
            break;
        }
        let Some(kind) = heap.type_of(at).filter(|_| heap.refcnt(at) == 1) else { continue };
        *left -= 1;
        steps += 1;
        sum = sum.saturating_add(heap.own_bytes(at));
        heap.each_held(at, &kind, |link, to| {
            // An instance references its class, which does not belong to it.
            if link != Link::Beside("(type)") {
                queue.push(to);
            }
            queue.len() < BELOW
        });
    }
    sum
}
