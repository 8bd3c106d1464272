//! Words in values of a type that point at other memory.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::runtimes::go::types::{TypeKind, Types};

/// Maximum number of pointer words of one type, and maximum depth of nested structs.
const MAX_WORDS: usize = 1 << 14;
const MAX_DEPTH: u32 = 32;

/// Target of a pointer word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) enum Leads {
    /// A value of this type.
    One(Addr),
    /// An array of values of this type.
    Array(Addr),
    /// The bytes of a string.
    Text,
    /// A channel.
    Chan,
    /// A map of this type.
    Map(Addr),
    /// An interface: this word is its type, the next word its value.
    Interface,
}

/// The pointer words of each type, computed once.
#[derive(Default)]
pub(in crate::runtimes::go) struct PointerFields {
    known: HashMap<Addr, Arc<[(u64, Leads)]>>,
}

impl PointerFields {
    /// Returns the offset and target of each pointer word in a value of a type.
    pub(in crate::runtimes::go) fn of(&mut self, types: &Types<'_>, of: Addr) -> Arc<[(u64, Leads)]> {
        if let Some(found) = self.known.get(&of) {
            return found.clone();
        }
        let mut out = Vec::new();
        add(types, of, 0, MAX_DEPTH, &mut out);
        let found: Arc<[(u64, Leads)]> = out.into();
        self.known.insert(of, found.clone());
        found
    }
}

fn add(types: &Types<'_>, of: Addr, base: u64, depth: u32, out: &mut Vec<(u64, Leads)>) {
    let Some((found, depth)) = types.get(of).zip(depth.checked_sub(1)) else { return };
    if found.ptrdata == 0 || out.len() >= MAX_WORDS {
        return;
    }
    match found.kind {
        TypeKind::Pointer => out.push((base, Leads::One(found.elem))),
        TypeKind::Slice => out.push((base, Leads::Array(found.elem))),
        TypeKind::Text => out.push((base, Leads::Text)),
        TypeKind::Chan => out.push((base, Leads::Chan)),
        TypeKind::Map => out.push((base, Leads::Map(of))),
        TypeKind::Interface => out.push((base, Leads::Interface)),
        TypeKind::Array => {
            let size = types.get(found.elem).map_or(0, |elem| elem.size);
            for i in 0..found.count.min(MAX_WORDS as u64) {
                add(types, found.elem, base.saturating_add(i.saturating_mul(size)), depth, out);
                if out.len() >= MAX_WORDS {
                    break;
                }
            }
        }
        TypeKind::Struct => {
            for field in &found.fields {
                add(types, field.of, base.saturating_add(field.offset), depth, out);
            }
        }
        TypeKind::Plain | TypeKind::Func | TypeKind::UnsafePointer => {}
    }
}
