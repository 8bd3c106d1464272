//! The meaning of the bytes in Java objects, for `scrub`: which bytes stay, and which names are public.
//!
//! Beside headers and references, reports need some fields of JDK classes and the names of modules and threads. Fields
//! are listed by class and name, as in the JDK's sources. Their offsets are the VM's own.

use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::runtimes::api::anatomy::{ARRAY_LENGTH_SIZE, Anatomy, ScrubRule, ScrubRules};
use crate::runtimes::api::{Heap, ManagedRuntime, Object, TypeIndex, all_types};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::{Classes, JavaField, Klass, KlassShape};
use crate::runtimes::hotspot::heap;

/// Fields that stay although they are no references, by declaring class: sizes, states of threads, addresses of native
/// memory.
const FIELDS: [(&str, &[&str]); 8] = [
    // How the bytes of a string are decoded. Its hash does not stay, as it would reveal the string.
    ("java.lang.String", &["coder"]),
    ("java.lang.Thread", &["tid", "threadStatus"]),
    ("java.lang.Thread$FieldHolder", &["threadStatus"]),
    ("java.lang.VirtualThread", &["state"]),
    ("jdk.internal.vm.StackChunk", &["size", "sp", "pc"]),
    ("java.nio.Buffer", &["address", "capacity"]),
    ("java.nio.DirectByteBuffer$Deallocator", &["address", "size", "capacity"]),
    (UNMAPPER, &["address", "size", "cap"]),
];

/// The class that unmaps files. Its nested classes count too.
const UNMAPPER: &str = "sun.nio.ch.FileChannelImpl$Unmapper";

/// The class whose static numbers stay. They are the numbers of thread states, which differ between releases.
const VIRTUAL_THREAD: &str = "java.lang.VirtualThread";

impl Anatomy for HotSpot<'_> {
    fn rules(&self) -> Option<ScrubRules> {
        let (heap, classes) = (self.objects()?, self.classes());
        Some(all_types(heap).filter_map(|kind| Some((kind, rule(classes, heap, kind)?))).collect())
    }

    fn names(&self, shown: &HashSet<String>) -> HashSet<String> {
        names_of(self, shown)
    }

    fn special(&self, object: &Object, is_object: &dyn Fn(Addr) -> bool, keep: &mut dyn FnMut(Addr, u64)) {
        let classes = self.classes();
        let info = self.objects().and_then(|heap| heap.type_info(object.kind));
        match info.and_then(|info| classes.klass(info.address)).map(|klass| klass.shape) {
            Some(KlassShape::Mirror { .. }) => statics(classes, object, keep),
            // It contains frames, whose references no field describes.
            Some(KlassShape::StackChunk { .. }) => {
                references(classes, AddrRange::sized(object.addr, object.size), is_object, keep);
            }
            _ => {}
        }
    }

    /// Heaps are at low addresses, so that references take 32 bits.
    fn only_starts_are_addresses(&self) -> bool {
        true
    }

    fn public_names(&self) -> Vec<String> {
        public_names(self)
    }
}

/// Prefixes of the names of the JDK's own classes.
const JDK: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];

/// Returns the names of the JDK's classes, and of their fields and methods as far as they were read.
fn public_names(hotspot: &HotSpot<'_>) -> Vec<String> {
    let classes = hotspot.classes();
    let is_jdks = |name: &str| JDK.iter().any(|begin| name.starts_with(begin));
    let mut out: Vec<String> = Vec::new();
    for at in classes.loaders().iter().flat_map(|loader| &loader.classes) {
        let Some(class) = classes.klass(*at).filter(|class| is_jdks(&class.name)) else { continue };
        out.push(class.name.clone());
        for field in classes.declared_fields(*at).iter() {
            out.extend([field.name.clone(), field.descriptor.clone()]);
        }
    }
    // A method's signature may name a class of the program.
    let names = classes.names_of_methods().into_iter().filter(|name| is_jdks(name));
    out.extend(names.map(|name| name.split('(').next().unwrap_or_default().to_owned()));
    out
}

/// Keeps the words of a stack chunk that point to objects.
fn references(
    classes: &Classes<'_>,
    chunk: AddrRange,
    is_object: &dyn Fn(Addr) -> bool,
    keep: &mut dyn FnMut(Addr, u64),
) {
    let Ok(bytes) = classes.vm.memory.look(chunk.start, chunk.len() as usize) else { return };
    for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        if is_object(Addr::new(u64::from_le_bytes(*word))) {
            keep(chunk.start.saturating_add(8 * i as u64), 8);
        }
    }
}

/// Returns the strings that stay: names of threads and modules, and `others`.
fn names_of(hotspot: &HotSpot<'_>, others: &HashSet<String>) -> HashSet<String> {
    let classes = hotspot.classes();
    let mut out = others.clone();
    out.extend(hotspot.all_threads().by_address.values().filter_map(|thread| thread.name.clone()));
    hotspot.each_light_thread(&mut |thread| out.extend(thread.name));
    let all = classes.loaders().iter().flat_map(|loader| &loader.classes);
    out.extend(all.filter_map(|&class| classes.module_of(class)));
    out
}

/// Returns which bytes stay in objects of a class.
fn rule(classes: &Classes<'_>, heap: &heap::Heap<'_>, kind: TypeIndex) -> Option<ScrubRule> {
    let info = heap.type_info(kind).filter(|info| !info.free)?;
    let klass = classes.klass(info.address)?;
    let length_at = classes.encoding.length_at;
    let rule = match klass.shape {
        KlassShape::ObjectArray { header, .. } => {
            ScrubRule { head: length_at + ARRAY_LENGTH_SIZE, references: Some(header), ..ScrubRule::default() }
        }
        KlassShape::TypeArray { .. } => ScrubRule { head: length_at + ARRAY_LENGTH_SIZE, ..ScrubRule::default() },
        KlassShape::Mirror { size_at } => {
            let klass_at = classes.klass_at().map(|at| (at, 8));
            let mut fields = fields(classes, &klass);
            fields.extend(klass_at.into_iter().chain([(size_at, 4)]));
            ScrubRule { head: length_at, fields, is_plain: true, is_special: true, ..ScrubRule::default() }
        }
        KlassShape::StackChunk { .. } => {
            let fields = fields(classes, &klass);
            ScrubRule { head: length_at, fields, is_plain: true, is_special: true, ..ScrubRule::default() }
        }
        _ => ScrubRule {
            head: length_at,
            fields: fields(classes, &klass),
            is_plain: !info.string,
            ..ScrubRule::default()
        },
    };
    Some(ScrubRule { is_string: info.string, ..rule })
}

/// Returns the fields that stay in instances of a class, with inherited ones. Null references stay too, since what is
/// beside them is overwritten by words.
fn fields(classes: &Classes<'_>, klass: &Klass) -> Vec<(u64, u64)> {
    let unit = classes.encoding.unit();
    let runs = klass.references.iter().map(|run| (u64::from(run.offset), u64::from(run.count).saturating_mul(unit)));
    let mut out: Vec<(u64, u64)> = runs.collect();
    for at in classes.with_superclasses(klass.address) {
        let declared = classes.declared_fields(at);
        // The VM's oop maps lack the references that the collector treats specially.
        let references = declared.iter().filter(|f| !f.is_static && f.is_reference());
        out.extend(references.map(|field| (field.offset, unit)));
        let Some(class) = classes.klass(at) else { continue };
        let is_of = |of: &str| class.name == of || of == UNMAPPER && is_unmapper(&class.name);
        let Some((_, names)) = FIELDS.iter().find(|(of, _)| is_of(of)) else { continue };
        let kept = declared.iter().filter(|f| !f.is_static && names.contains(&f.name.as_str()));
        out.extend(kept.filter_map(|field| Some((field.offset, width(field)?))));
    }
    out
}

/// Whether objects of a class unmap a file. It was one class, and is several now.
fn is_unmapper(name: &str) -> bool {
    name.starts_with("sun.nio.ch.FileChannelImpl$") && name.ends_with("Unmapper")
}

/// Returns the bytes of a numeric field (JVMS 4.3.2).
fn width(field: &JavaField) -> Option<u64> {
    match field.descriptor.as_str() {
        "B" | "Z" => Some(1),
        "C" | "S" => Some(2),
        "I" => Some(4),
        "J" => Some(8),
        _ => None,
    }
}

/// Keeps the static fields of a mirror's class that stay.
fn statics(classes: &Classes<'_>, mirror: &Object, keep: &mut dyn FnMut(Addr, u64)) {
    let class = classes.klass_at().and_then(|at| classes.vm.memory.ptr(mirror.addr.saturating_add(at)).ok());
    // Mirrors of arrays and primitive types have no statics.
    let Some(class) = class.and_then(|at| classes.klass(at)).filter(|class| !class.is_array()) else { return };
    let has_states = class.name == VIRTUAL_THREAD;
    for field in classes.declared_fields(class.address).iter().filter(|f| f.is_static) {
        let len = match field.is_reference() {
            true => classes.encoding.unit(),
            false if has_states && field.descriptor == "I" => 4,
            false => continue,
        };
        if field.offset.saturating_add(len) <= mirror.size {
            keep(mirror.addr.saturating_add(field.offset), len);
        }
    }
}
