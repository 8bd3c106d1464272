//! Static variables of runtimes that store them in arrays, as CoreCLR does.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::runtimes::api::{Heap, Link, Root};

/// A static variable with a reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable {
    /// Name, as in the heap: `static Type.Field`.
    pub name: Arc<str>,
    /// Array that contains the variable.
    pub array: Addr,
    /// Address that it contains, which need not be an object's.
    pub object: Addr,
}

/// Returns the variables in the arrays that `roots` retain, directly or through another
/// array, sorted.
pub fn variables<'r>(heap: &dyn Heap, roots: impl Iterator<Item = &'r Root>) -> Vec<Variable> {
    let mut arrays: Vec<Addr> = Vec::new();
    let mut reader = heap.reader();
    for root in roots {
        match root.static_arrays {
            0 => {}
            1 => arrays.push(root.object),
            _ => reader.each(root.object.get(), |_, array| {
                arrays.push(Addr::new(array));
                true
            }),
        }
    }
    if arrays.is_empty() {
        return Vec::new();
    }
    arrays.sort_unstable();
    arrays.dedup();
    let statics: HashMap<Addr, Arc<str>> = heap.statics();
    let mut out = Vec::new();
    for array in arrays {
        reader.each(array.get(), |link, value| {
            if let Link::Field(offset) = link
                && let Some(name) = statics.get(&heap.slot_address(array, offset))
            {
                out.push(Variable { name: name.clone(), array, object: Addr::new(value) });
            }
            true
        });
    }
    out.sort_unstable();
    out
}
