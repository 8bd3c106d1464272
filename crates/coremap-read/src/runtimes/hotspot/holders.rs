//! Static fields, and the role of each class among the holders of memory.

use std::collections::HashSet;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{Heap as _, NamedStatics, StaticRoot, TypeIndex, TypeRole};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::threads::thread_object::{number, reference};
use crate::units::{count, exact, round};

/// Packages of the JDK.
const LIBRARY: [&str; 7] = ["java.", "javax.", "jdk.", "sun.", "com.sun.", "org.xml.", "org.w3c."];

/// Ends of the names of collections in `java.util`.
const COLLECTIONS: [&str; 9] = ["Map", "Set", "List", "Queue", "Deque", "Vector", "Table", "Stack", "Collection"];

/// Classes that lead nearly everywhere.
const HUBS: [&str; 5] =
    ["java.lang.Thread", "java.lang.Class", "java.lang.ClassLoader", "java.lang.ThreadGroup", "java.lang.Module"];

pub(super) fn is_library(class: &str) -> bool {
    LIBRARY.iter().any(|package| class.starts_with(package))
}

/// The role of a class by its name alone. `None` if its superclasses decide.
fn role(name: &str) -> Option<TypeRole> {
    if let Some(element) = name.strip_suffix("[]") {
        // An array of references is a part of the collection that it is in.
        let plain = !element.contains('.') && element.chars().all(|c| c.is_ascii_lowercase());
        return Some(if plain { TypeRole::Library } else { TypeRole::Part });
    }
    if HUBS.contains(&name) {
        return Some(TypeRole::Hub);
    }
    if !is_library(name) {
        return None;
    }
    let Some(inner) = name.strip_prefix("java.util.") else { return Some(TypeRole::Library) };
    let last = inner.rsplit('$').next().unwrap_or(inner);
    let is_wrapper = inner.starts_with("Collections$") || inner.starts_with("ImmutableCollections$");
    let ends = |name: &str| {
        COLLECTIONS.iter().any(|end| name.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'N').ends_with(end))
    };
    Some(match inner.contains('$') {
        true if is_wrapper => TypeRole::Collection,
        // The private part of a lock, and a condition inside of a collection or barrier.
        true if inner.ends_with("$ConditionObject") || last.ends_with("Sync") => TypeRole::Part,
        true if inner.starts_with("concurrent.locks.") => TypeRole::Library,
        true if ["Node", "Entry", "Segment", "Bin", "Index", "Pair", "Sync"].iter().any(|part| last.contains(part)) => {
            TypeRole::Part
        }
        true if ends(last) => TypeRole::Collection,
        false if ends(inner) => TypeRole::Collection,
        _ => TypeRole::Library,
    })
}

/// The class of entries of thread-local variables, and classes of elements whose state is reported.
const THREAD_LOCAL: &str = "java.lang.ThreadLocal$ThreadLocalMap$Entry";
const COMPLETABLE: &str = "java.util.concurrent.CompletableFuture";
const VIEW: &str = "java.nio.HeapByteBuffer";

/// A view is reported if it shows less than this percentage of the bytes that it keeps alive.
const SMALL_VIEW: u64 = 25;

impl HotSpot<'_> {
    /// The ThreadLocal whose value an entry has.
    pub(super) fn thread_local_of(&self, entry: Addr) -> Option<Addr> {
        let class = self.classes().class_of(entry).filter(|class| class.name == THREAD_LOCAL)?;
        reference(self.classes(), &class, entry, "referent")
    }

    /// Values of thread-local variables of all threads.
    pub(super) fn values_of_threads(&self) -> HashSet<Addr> {
        let mut out = HashSet::new();
        let Some(heap) = self.objects() else { return out };
        let mut reader = heap.reader();
        for record in self.all_threads().by_address.values() {
            let Some(thread) = &record.object else { continue };
            let map = self.get(thread.address, "threadLocals");
            let Some(table) = map.and_then(|map| self.get(map, "table")) else { continue };
            let mut entries = Vec::new();
            reader.each(table.get(), |_, to| {
                entries.push(Addr::new(to));
                entries.len() < limits::MAX_QUEUED_TASKS
            });
            out.extend(entries.into_iter().filter_map(|entry| self.get(entry, "value")));
        }
        out
    }

    /// Returns a note on elements: how many futures are not completed, or how little of their arrays views show.
    pub(super) fn note_on(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        let classes = self.classes();
        let name = self.objects()?.type_name(kind);
        let class = classes.class_of(*elements.first()?)?;
        match name.as_str() {
            COMPLETABLE => {
                let open = |at: &&Addr| reference(classes, &class, **at, "result").is_none();
                let open = elements.iter().filter(open).count() as u64;
                Some(format!("{} of {} are not completed.", exact(open), count(elements.len() as u64, "future")))
            }
            view if view.starts_with(VIEW) => {
                let int = |at: Addr, field| number(classes, &class, at, field).map_or(0, u64::from);
                let shown = elements.iter().map(|at| int(*at, "limit").saturating_sub(int(*at, "position")));
                let shown = shown.fold(0, u64::saturating_add);
                let array = |at: &Addr| {
                    let array = reference(classes, &class, *at, "hb")?;
                    let length = array.wrapping_add(classes.encoding.length_at);
                    classes.vm.memory.u32(length).ok().map(u64::from)
                };
                let kept = elements.iter().filter_map(array).fold(0, u64::saturating_add);
                (shown.saturating_mul(100) < kept.saturating_mul(SMALL_VIEW)).then(|| {
                    format!("Each is a small view of a large array: they show {} of {}.", round(shown), round(kept))
                })
            }
            _ => None,
        }
    }

    /// Static fields that reference objects. Mirrors contain them.
    pub(super) fn all_statics(&self) -> NamedStatics {
        let classes = self.classes();
        let mut out = NamedStatics::default();
        for &class in classes.loaders().iter().flat_map(|loader| &loader.classes) {
            let Some(mirror) = classes.mirror(class) else { continue };
            out.containers.push(mirror);
            let declared = classes.declared_fields(class);
            let mut fields = declared.iter().filter(|field| field.is_static && field.is_reference()).peekable();
            if fields.peek().is_none() {
                continue;
            }
            let Some(klass) = classes.klass(class) else { continue };
            let library = is_library(&klass.name);
            for field in fields {
                let object = classes.reference(mirror.wrapping_add(field.offset)).ok();
                if let Some(object) = object.filter(|object| !object.is_null()) {
                    let name: Arc<str> = format!("static {}.{}", klass.name, field.name).into();
                    out.roots.push(StaticRoot { name, object, library });
                }
            }
        }
        out
    }

    pub(super) fn role_of_class(&self, kind: TypeIndex) -> TypeRole {
        let (Some(heap), classes) = (self.objects(), self.classes()) else { return TypeRole::Program };
        let name = heap.type_name(kind);
        if let Some(role) = role(&name) {
            return role;
        }
        // A class of the program may extend a collection of the library.
        let address = crate::runtimes::api::Heap::type_info(heap, kind).map(|info| info.address).unwrap_or_default();
        let of_superclass = classes.with_superclasses(address).find_map(|at| role(&classes.klass(at)?.name));
        match of_superclass {
            Some(TypeRole::Collection) => TypeRole::Collection,
            _ => TypeRole::Program,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_classes_of_the_library() {
        for (name, is) in [
            ("java.util.HashMap", Some(TypeRole::Collection)),
            ("java.util.concurrent.ConcurrentHashMap", Some(TypeRole::Collection)),
            ("java.util.concurrent.LinkedBlockingQueue", Some(TypeRole::Collection)),
            ("java.util.Collections$SynchronizedMap", Some(TypeRole::Collection)),
            ("java.util.ImmutableCollections$ListN", Some(TypeRole::Collection)),
            ("java.util.HashMap$Node", Some(TypeRole::Part)),
            ("java.util.HashMap$Node[]", Some(TypeRole::Part)),
            ("java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject", Some(TypeRole::Part)),
            ("java.lang.Object[]", Some(TypeRole::Part)),
            ("byte[]", Some(TypeRole::Library)),
            ("java.lang.Thread", Some(TypeRole::Hub)),
            ("java.util.concurrent.CompletableFuture", Some(TypeRole::Library)),
            ("ShopFront$CartSession", None),
        ] {
            assert_eq!(role(name), is, "{name}");
        }
    }
}
