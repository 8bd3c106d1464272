//! The classes of a HotSpot VM as a heap dump has them: `java.lang.Class` objects are no instances there but classes, with their static
//! fields; what the VM added to instances for itself is left out.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::export::hprof::{Class, Classes, Field, Form, Static, Type};
use crate::hotspot::HotSpot;
use crate::hotspot::classes::{Classes as OfVm, JavaField, Klass, KlassShape, WORD};
use crate::memory::Memory;

/// What heap dumps call the constants of a class that were resolved to objects.
const RESOLVED: &str = "<resolved_references>";

/// Bytes of an object's head but for its class. VisualVM takes what `java.lang.Object` has more for the size of a reference, and arrays for
/// as large as that makes them.
const MARK: u64 = 8;

/// All classes that loaders have, and those at `more`.
pub fn classes(vm: &HotSpot<'_>, more: &[Addr]) -> Classes {
    let classes = vm.classes();
    let loaded = classes.loaders().iter().flat_map(|loader| loader.classes.iter().map(|at| (*at, loader.object.get())));
    let mut seen: HashSet<Addr> = HashSet::new();
    let all = loaded.chain(more.iter().map(|at| (*at, 0))).filter(|(at, _)| seen.insert(*at));
    Classes::of(all.filter_map(|(at, loader)| Some(class(classes, &*classes.klass(at)?, loader))).collect())
}

/// By what the file knows the class at `at`: its mirror, or where none can be read its own place.
fn id(classes: &OfVm<'_>, at: Addr) -> u64 {
    classes.mirror(at).unwrap_or(at).get()
}

fn class(classes: &OfVm<'_>, klass: &Klass, loader: u64) -> Class {
    let at = klass.address;
    let symbol = classes.vm.at("Klass", at).ptr("_name").ok().and_then(|name| classes.symbol(name));
    // Above an array is `java.lang.Object`, whatever the VM has above it for itself.
    let mut supers = classes.with_superclasses(at).skip(1);
    let above = if klass.is_array() { supers.last() } else { supers.next() };
    let declared = if klass.is_array() { Vec::new() } else { classes.declared_fields(at).to_vec() };
    let fields = declared.iter().filter(|field| !field.is_static && !field.injected);
    let size = match klass.shape {
        _ if klass.name == "java.lang.Object" => MARK + classes.encoding.unit(),
        KlassShape::Instance(size) | KlassShape::StackChunk { size, .. } => size,
        KlassShape::Mirror { .. } => mirror_size(classes, at),
        _ => 0,
    };
    Class {
        id: id(classes, at),
        address: at,
        name: symbol.unwrap_or_else(|| klass.name.clone()),
        above: above.map_or(0, |above| id(classes, above)),
        loader,
        size: u32::try_from(size).unwrap_or(u32::MAX),
        statics: statics(classes, klass, &declared),
        fields: fields.filter_map(field).collect(),
        form: form(classes, klass),
        is_root: false,
    }
}

/// Bytes of a mirror without static fields: up to the end of its last field.
fn mirror_size(classes: &OfVm<'_>, at: Addr) -> u64 {
    let fields = classes.declared_fields(at);
    let ends = fields.iter().filter(|field| !field.is_static).filter_map(|field| {
        let kind = kind(&field.descriptor)?;
        Some(field.offset + if kind == Type::Object { classes.encoding.unit() } else { kind.size() })
    });
    ends.max().unwrap_or(0).next_multiple_of(WORD)
}

/// What a descriptor stands for (JVMS 4.3.2).
fn kind(descriptor: &str) -> Option<Type> {
    Some(match descriptor.as_bytes().first()? {
        b'L' | b'[' => Type::Object,
        b'Z' => Type::Boolean,
        b'C' => Type::Char,
        b'F' => Type::Float,
        b'D' => Type::Double,
        b'B' => Type::Byte,
        b'S' => Type::Short,
        b'I' => Type::Int,
        b'J' => Type::Long,
        _ => return None,
    })
}

fn field(of: &JavaField) -> Option<Field> {
    Some(Field { name: of.name.clone(), kind: kind(&of.descriptor)?, offset: of.offset })
}

fn form(classes: &OfVm<'_>, klass: &Klass) -> Form {
    match klass.shape {
        KlassShape::ObjectArray { header, .. } => Form::Objects(header),
        KlassShape::TypeArray { header, .. } => {
            Form::Values(header, kind(klass.element_descriptor()).unwrap_or(Type::Byte))
        }
        _ => {
            let up = classes.with_superclasses(klass.address);
            let fields = up.flat_map(|at| {
                let declared = classes.declared_fields(at);
                let own = declared.iter().filter(|field| !field.is_static && !field.injected);
                own.filter_map(|field| Some((field.offset, kind(&field.descriptor)?))).collect::<Vec<_>>()
            });
            Form::Instance(fields.collect())
        }
    }
}

fn statics(classes: &OfVm<'_>, klass: &Klass, declared: &[JavaField]) -> Vec<Static> {
    let Some(mirror) = classes.mirror(klass.address).filter(|_| !klass.is_array()) else { return Vec::new() };
    let value = |field: &JavaField| {
        let (at, kind) = (mirror.wrapping_add(field.offset), kind(&field.descriptor)?);
        let value = match kind {
            Type::Object => classes.reference(at).ok()?.get(),
            _ => {
                let mut word = [0; 8];
                classes.vm.memory.read(at, word.get_mut(..kind.size() as usize)?).ok()?;
                u64::from_le_bytes(word)
            }
        };
        Some(Static { name: field.name.clone(), kind, value })
    };
    let constants = classes.resolved_references(klass.address);
    let constants = constants.map(|array| Static { name: RESOLVED.to_owned(), kind: Type::Object, value: array.get() });
    declared.iter().filter(|field| field.is_static && !field.injected).filter_map(value).chain(constants).collect()
}
