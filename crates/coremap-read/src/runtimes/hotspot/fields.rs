//! The classes of a HotSpot VM in the form of a heap dump (hprof).
//!
//! There, `java.lang.Class` objects are classes with static fields, not instances. Fields that the VM injected are left
//! out.

use std::collections::{BTreeMap, HashSet};

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::Root;
use crate::runtimes::api::fields::{
    Class, Classes, Field, Fields, Frame, NATIVE_LINE, ObjectLayout, References, Static, Thread, ValueType,
};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::{Classes as OfVm, JavaField, Klass, KlassShape, WORD};

/// Heap dumps' name for the array of a class's resolved constants.
const RESOLVED: &str = "<resolved_references>";

/// Bytes of an object's header without its class. VisualVM takes the rest of `java.lang.Object`'s size for the size of
/// a reference, and computes the sizes of arrays from it.
const MARK: u64 = 8;

impl Fields for HotSpot<'_> {
    fn is_foreign(&self) -> bool {
        false
    }

    fn references(&self) -> References<'_> {
        let encoding = &self.classes().encoding;
        let decode: Box<dyn Fn(u64) -> u64 + Sync + '_> = if encoding.narrow {
            Box::new(|word| encoding.narrow(word as u32).get())
        } else {
            Box::new(|word| encoding.wide(word).get())
        };
        References { size: encoding.unit(), length_at: encoding.length_at, decode }
    }

    fn classes(&self, present: &[Addr]) -> Classes {
        classes(self, present)
    }

    fn threads(&self, rows: &[ThreadRow], roots: &[Root]) -> Vec<Thread> {
        rows.iter().map(|row| thread(self, row, roots)).collect()
    }
}

fn thread(vm: &HotSpot<'_>, row: &ThreadRow, roots: &[Root]) -> Thread {
    let object = roots.iter().find(|root| root.kind.name() == "thread object" && root.thread == Some(row.tid));
    let frames = row.frames.iter().filter_map(|row| {
        let info = row.method_desc.and_then(|method| vm.classes().method(method));
        let mut frame = Frame::of(row)?;
        if let Some(info) = info {
            frame.signature = info.descriptor.clone();
            frame.class = Some(info.holder);
            if info.is_native {
                frame.line = NATIVE_LINE;
            }
        }
        Some(frame)
    });
    Thread { tid: Some(row.tid), object: object.map(|root| root.object), frames: frames.collect() }
}

/// Converts all classes of the loaders and those at `more`, with their superclasses.
fn classes(vm: &HotSpot<'_>, more: &[Addr]) -> Classes {
    let classes = vm.classes();
    let loaded = classes.loaders().iter().flat_map(|loader| loader.classes.iter().map(|at| (*at, loader.object.get())));
    let with_supers = loaded.chain(more.iter().map(|at| (*at, 0))).flat_map(|(at, loader)| {
        // A superclass mostly has another loader, which has it in its own list.
        let superclass = classes.with_superclasses(at).skip(1).map(|at| (at, 0));
        std::iter::once((at, loader)).chain(superclass.collect::<Vec<_>>())
    });
    let mut loaders: BTreeMap<Addr, u64> = BTreeMap::new();
    for (at, loader) in with_supers {
        let known = loaders.entry(at).or_insert(loader);
        *known = if *known == 0 { loader } else { *known };
    }
    let mut ids: HashSet<u64> = HashSet::new();
    let klasses = loaders.into_iter().filter_map(|(at, loader)| Some((classes.klass(at)?, loader)));
    let klasses: Vec<_> = klasses.filter(|(klass, _)| ids.insert(id(classes, klass.address))).collect();
    let converter = ClassConverter { classes, converted: klasses.iter().map(|(klass, _)| klass.address).collect() };
    Classes::new(klasses.iter().map(|(klass, loader)| converter.class(klass, *loader)).collect())
}

/// Returns the id of the class at `at` in the file: its mirror's address, or its own if the mirror cannot be read.
fn id(classes: &OfVm<'_>, at: Addr) -> u64 {
    classes.mirror(at).unwrap_or(at).get()
}

struct ClassConverter<'c, 'p> {
    classes: &'c OfVm<'p>,
    converted: HashSet<Addr>,
}

impl ClassConverter<'_, '_> {
    fn class(&self, klass: &Klass, loader: u64) -> Class {
        let (classes, at) = (self.classes, klass.address);
        let symbol = classes.vm.at("Klass", at).ptr("_name").ok().and_then(|name| classes.symbol(name));
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
            superclass: self.superclass(klass).map_or(0, |superclass| id(classes, superclass)),
            loader,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            statics: statics(classes, klass, &declared),
            fields: fields.filter_map(field).collect(),
            layout: self.form(klass),
            is_root: false,
        }
    }

    /// Returns the superclass. An array's is `java.lang.Object`, whatever the VM's own hierarchy is. A superclass that
    /// is also a subclass, or has too many superclasses, is rejected.
    fn superclass(&self, klass: &Klass) -> Option<Addr> {
        let mut supers = self.classes.with_superclasses(klass.address).skip(1);
        let superclass = if klass.is_array() { supers.last() } else { supers.next() };
        let superclass = superclass.filter(|at| self.converted.contains(at))?;
        let up: Vec<Addr> = self.classes.with_superclasses(superclass).collect();
        (up.len() < limits::MAX_JAVA_SUPERCLASSES && !up.contains(&klass.address)).then_some(superclass)
    }

    fn form(&self, klass: &Klass) -> ObjectLayout {
        match klass.shape {
            KlassShape::ObjectArray { header, .. } => ObjectLayout::Objects(header),
            KlassShape::TypeArray { header, log2 } => {
                // Filler arrays are named like arrays of references, but have numeric elements.
                let numbers = [ValueType::Byte, ValueType::Short, ValueType::Int, ValueType::Long];
                let by_width = numbers.get(log2 as usize).copied().unwrap_or(ValueType::Byte);
                let named = kind(klass.element_descriptor()).filter(|kind| *kind != ValueType::Object);
                ObjectLayout::Values(header, named.unwrap_or(by_width))
            }
            _ => {
                let up = |at: &Addr| self.superclass(&*self.classes.klass(*at)?);
                let line = std::iter::successors(Some(klass.address), up);
                let fields = line.flat_map(|at| {
                    let declared = self.classes.declared_fields(at);
                    let own = declared.iter().filter(|field| !field.is_static && !field.injected);
                    own.filter_map(|field| Some((field.offset, kind(&field.descriptor)?))).collect::<Vec<_>>()
                });
                ObjectLayout::Instance(fields.collect())
            }
        }
    }
}

/// Returns the bytes of a mirror without static fields, up to the end of its last field.
fn mirror_size(classes: &OfVm<'_>, at: Addr) -> u64 {
    let fields = classes.declared_fields(at);
    let ends = fields.iter().filter(|field| !field.is_static).filter_map(|field| {
        let kind = kind(&field.descriptor)?;
        Some(field.offset + if kind == ValueType::Object { classes.encoding.unit() } else { kind.size() })
    });
    ends.max().unwrap_or(0).next_multiple_of(WORD)
}

/// Returns the type of a descriptor (JVMS 4.3.2).
fn kind(descriptor: &str) -> Option<ValueType> {
    Some(match descriptor.as_bytes().first()? {
        b'L' | b'[' => ValueType::Object,
        b'Z' => ValueType::Boolean,
        b'C' => ValueType::Char,
        b'F' => ValueType::Float,
        b'D' => ValueType::Double,
        b'B' => ValueType::Byte,
        b'S' => ValueType::Short,
        b'I' => ValueType::Int,
        b'J' => ValueType::Long,
        _ => return None,
    })
}

fn field(of: &JavaField) -> Option<Field> {
    Some(Field { name: of.name.clone(), kind: kind(&of.descriptor)?, offset: of.offset })
}

fn statics(classes: &OfVm<'_>, klass: &Klass, declared: &[JavaField]) -> Vec<Static> {
    let Some(mirror) = classes.mirror(klass.address).filter(|_| !klass.is_array()) else { return Vec::new() };
    let value = |field: &JavaField| {
        let (at, kind) = (mirror.wrapping_add(field.offset), kind(&field.descriptor)?);
        let value = match kind {
            ValueType::Object => classes.reference(at).ok()?.get(),
            _ => {
                let mut word = [0; 8];
                classes.vm.memory.read(at, word.get_mut(..kind.size() as usize)?).ok()?;
                u64::from_le_bytes(word)
            }
        };
        Some(Static { name: field.name.clone(), kind, value })
    };
    let constants = classes.resolved_references(klass.address);
    let constants =
        constants.map(|array| Static { name: RESOLVED.to_owned(), kind: ValueType::Object, value: array.get() });
    declared.iter().filter(|field| field.is_static && !field.injected).filter_map(value).chain(constants).collect()
}
