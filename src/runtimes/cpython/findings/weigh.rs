//! How much memory goes with an object: its own, and that of what nothing else refers to. Counts of references tell that
//! without a search from the roots: what has one reference goes with the object that has it.

use crate::addr::Addr;
use crate::runtimes::api::Link;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::objects::{Form, PyType};

/// Items of a container that are looked at; of more, so many at equal distances, and the sum is scaled.
const SAMPLE: u64 = 2048;

/// Objects that are looked at below one item.
const BELOW: usize = 1024;

/// Objects that are looked at in all for one container.
const MOST: usize = 1 << 17;

/// What a container has.
#[derive(Clone, Debug, Default)]
pub(super) struct Weight {
    /// Bytes of it and of what goes with it.
    pub(super) bytes: u64,
    /// Type of most of the items, where all that were looked at are of one.
    pub(super) item: Option<String>,
    /// Whether only some were looked at.
    pub(super) sampled: bool,
}

/// Weigh a container of that type, of so many items.
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
        // Keys and values of a dict stand side by side: an entry is looked at whole.
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

/// Bytes of an object and of all below it that have one reference each.
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
            // An instance refers to its class, which is not its own.
            if link != Link::Beside("(type)") {
                queue.push(to);
            }
            queue.len() < BELOW
        });
    }
    sum
}
