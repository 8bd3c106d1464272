//! Keys of hash maps whose class has no `hashCode`. They are compared by identity, so a map finds no equal key.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::Heap as _;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::holders::is_library;
use crate::units::{count, exact};

/// Classes of maps whose nodes have the fields `key` and `next`, and the field of a set with its map.
const MAPS: [&str; 3] = ["java.util.HashMap", "java.util.concurrent.ConcurrentHashMap", "java.util.Hashtable"];
const MAP_OF_SET: &str = "map";

/// Maximum number of keys that are compared, and minimum number for a note.
const KEYS: usize = 1 << 13;
const LEAST: usize = 64;

/// Maximum depth of a key's fields, and maximum length of a string in characters.
const DEPTH: usize = 2;
const TEXT: usize = 200;

/// End of the method's name, and the class from which classes without the method inherit it.
const HASH: &str = ".hashCode()";
const OBJECT: &str = "java.lang.Object";

impl HotSpot<'_> {
    /// Returns a sentence on the keys of a map or set that are compared by identity although many are equal.
    pub(super) fn note_on_keys(&self, collection: Addr) -> Option<String> {
        let map = if self.is_a(collection, &MAPS) { collection } else { self.get(collection, MAP_OF_SET)? };
        let keys = self.keys_of(Some(map).filter(|map| self.is_a(*map, &MAPS))?);
        let class = self.classes().class_of(*keys.first()?)?;
        let alike = keys.iter().all(|key| self.classes().class_of(*key).is_some_and(|of| of.address == class.address));
        if keys.len() < LEAST || !alike || is_library(&class.name) || self.has_hash(class.address)? {
            return None;
        }
        let contents: HashSet<String> = keys.iter().map(|key| self.content(*key, DEPTH)).collect();
        (contents.len().saturating_mul(2) <= keys.len()).then(|| {
            format!(
                "{} has no hashCode, so its keys are compared by identity: of {} that were read, only {} differ in \
                 content.",
                class.name,
                count(keys.len() as u64, "key"),
                exact(contents.len() as u64)
            )
        })
    }

    /// The first keys of a map.
    fn keys_of(&self, map: Addr) -> Vec<Addr> {
        let (Some(table), Some(heap)) = (self.get(map, "table"), self.objects()) else { return Vec::new() };
        let mut nodes = Vec::new();
        heap.reader().each(table.get(), |_, to| {
            nodes.push(Addr::new(to));
            nodes.len() < KEYS
        });
        let mut out = Vec::new();
        for first in nodes {
            let mut at = Some(first);
            while let Some(node) = at.filter(|_| out.len() < KEYS) {
                // A node without a key is of another kind. A list of these may be a circle.
                let Some(key) = self.get(node, "key") else { break };
                out.push(key);
                at = self.get(node, "next").filter(|next| *next != node);
            }
        }
        out
    }

    /// Whether a class, or a superclass below `Object`, has its own `hashCode`. `None` if that cannot be read.
    fn has_hash(&self, class: Addr) -> Option<bool> {
        let (classes, vm) = (self.classes(), self.vm());
        let data = vm.tables.offset("Array<Method*>", "_data").unwrap_or(8);
        for at in classes.with_superclasses(class) {
            if classes.klass(at)?.name == OBJECT {
                return Some(false);
            }
            let methods = vm.at("InstanceKlass", at).ptr("_methods").ok()?;
            let number = u64::from(vm.memory.u32(methods).ok()?).min(limits::MAX_SHOWN_ROWS as u64);
            for i in 0..number {
                let method = vm.memory.ptr(methods.checked_add(data)?.checked_add(8 * i)?).ok()?;
                if classes.method(method)?.name.ends_with(HASH) {
                    return Some(true);
                }
            }
        }
        None
    }

    /// Values of an object's fields, as text to compare.
    fn content(&self, object: Addr, depth: usize) -> String {
        let classes = self.classes();
        if let Some(text) = classes.string(object, TEXT) {
            return text;
        }
        let Some(class) = classes.class_of(object).filter(|class| depth > 0 && !class.is_array()) else {
            return object.to_string();
        };
        let mut out = String::new();
        for at in classes.with_superclasses(class.address) {
            for field in classes.declared_fields(at).iter().filter(|field| !field.is_static && !field.injected) {
                let place = object.wrapping_add(field.offset);
                let value = match (field.is_reference(), field.descriptor.as_str()) {
                    (true, _) => match classes.reference(place).ok().filter(|at| !at.is_null()) {
                        Some(to) => self.content(to, depth - 1),
                        None => String::new(),
                    },
                    (false, "J" | "D") => format!("{:?}", classes.vm.memory.peek_u64(place).ok()),
                    (false, "I" | "F") => format!("{:?}", classes.vm.memory.u32(place).ok()),
                    (false, "S" | "C") => format!("{:?}", classes.vm.memory.u32(place).ok().map(|v| v & 0xffff)),
                    (false, _) => format!("{:?}", classes.vm.memory.u32(place).ok().map(|v| v & 0xff)),
                };
                out.push_str(&value);
                out.push('|');
            }
        }
        out
    }
}
