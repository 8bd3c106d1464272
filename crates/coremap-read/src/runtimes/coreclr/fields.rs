//! Types of CoreCLR as classes of a heap dump, for tools made for Java.
//!
//! A class is a MethodTable with the name that `heapstat` prints. Fields of structs become fields of the object:
//! `outer.inner`. Tools require some Java classes, and recognise strings and arrays of numbers only by Java's names, so
//! those names are used.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::limits;
use crate::memory::Memory as _;
use crate::runtimes::api::fields::{
    Class, Classes, FIRST_SYNTHETIC_ID, Field, Fields, Frame, ObjectLayout, References, Static, Thread, ValueType,
};
use crate::runtimes::api::{Heap as _, Root, RootKind};
use crate::runtimes::coreclr::heap::{Heap, VALUE_TYPE};
use crate::runtimes::coreclr::types::METHOD_TABLE;
use crate::runtimes::coreclr::{
    CoreClr, FieldDesc, FieldStorage, Handle, Scope, Shape, TypeHandle, TypeSystem, threads,
};

/// Bytes of a reference. Also the offset of an array's length.
const WORD: u64 = 8;

/// Bytes of `java.lang.Object`. With this size VisualVM assumes references of 8 bytes, as they are here.
const OBJECT_SIZE: u32 = 16;

/// Offset of an array's data after its length, in bytes.
const ARRAY_DATA: u64 = 16;

/// Classes that tools look for, with the index of the superclass. Without the reference classes VisualVM finds no roots
/// and no sizes.
const JAVA_CLASSES: [(&str, usize); 8] = [
    ("java/lang/Object", 0),
    ("java/lang/Class", 0),
    ("java/lang/ClassLoader", 0),
    ("java/lang/ref/Reference", 0),
    ("java/lang/ref/WeakReference", 3),
    ("java/lang/ref/SoftReference", 3),
    ("java/lang/ref/FinalReference", 3),
    ("java/lang/ref/PhantomReference", 3),
];

/// Arrays that have no class of their own in the format: element type and class name.
const PRIMITIVE_ARRAYS: [(ValueType, &str); 8] = [
    (ValueType::Boolean, "[Z"),
    (ValueType::Char, "[C"),
    (ValueType::Float, "[F"),
    (ValueType::Double, "[D"),
    (ValueType::Byte, "[B"),
    (ValueType::Short, "[S"),
    (ValueType::Int, "[I"),
    (ValueType::Long, "[J"),
];

/// Heap dump type for a CorElementType (ECMA-335 II.23.1.16): a number of some width, or a reference.
fn heap_dump_type(element: u8) -> ValueType {
    match element {
        0x02 => ValueType::Boolean,
        0x03 => ValueType::Char,
        0x04 | 0x05 => ValueType::Byte,
        0x06 | 0x07 => ValueType::Short,
        0x08 | 0x09 => ValueType::Int,
        0x0c => ValueType::Float,
        0x0d => ValueType::Double,
        // 64-bit and native-size numbers, pointers.
        0x0a | 0x0b | 0x0f | 0x10 | 0x18 | 0x19 | 0x1b => ValueType::Long,
        _ => ValueType::Object,
    }
}

impl Fields for CoreClr<'_> {
    fn references(&self) -> References<'_> {
        References { size: WORD, length_at: WORD, decode: Box::new(|word| word) }
    }

    fn classes(&self, present: &[Addr]) -> Classes {
        self.object_heap().map(|heap| classes(heap, present)).unwrap_or_default()
    }

    fn threads(&self, rows: &[ThreadRow], _roots: &[Root]) -> Vec<Thread> {
        let process = self.process();
        let known = threads(process, self.runtime()).map(|(threads, _)| threads).unwrap_or_default();
        let object = |tid: u32| -> Option<Addr> {
            let thread = known.iter().find(|thread| thread.os_id == Some(tid))?;
            process.memory.ptr(thread.exposed_object?).ok().filter(|object| !object.is_null())
        };
        let thread = |row: &ThreadRow| Thread {
            tid: Some(row.tid),
            object: object(row.tid),
            frames: row.frames.iter().filter_map(Frame::of).collect(),
        };
        rows.iter().map(thread).collect()
    }

    /// Secondary objects of dependent handles. The format cannot express which object keeps them alive.
    fn more_roots(&self) -> Vec<Root> {
        let dependent = self.handles().iter().filter(|handle| !handle.object.is_null());
        let root = |handle: &Handle| {
            Some(Root::new(RootKind::Of(u8::MAX, "DependentHandle"), handle.address, handle.secondary?))
        };
        dependent.filter_map(root).collect()
    }
}

/// Classes for the types at `present`, their base types, and types with static fields.
fn classes(heap: &Heap<'_>, present: &[Addr]) -> Classes {
    let types = &**heap.type_system();
    let mut builder = ClassBuilder { heap, types, fields: HashMap::new() };
    let mut out = Classes { all: synthetic_classes(), by_address: HashMap::new() };
    let statics = builder.statics();
    let with_bases = present.iter().chain(statics.keys()).flat_map(|at| types.bases(*at));
    let all: BTreeSet<Addr> = with_bases.collect();
    for &at in &all {
        let form = builder.form(at);
        let mut index = out.all.len();
        match form {
            ObjectLayout::Values(_, kind) => {
                index = JAVA_CLASSES.len() + PRIMITIVE_ARRAYS.iter().position(|(of, _)| *of == kind).unwrap_or(0);
                if let Some(class) = out.all.get_mut(index) {
                    class.layout = form;
                }
            }
            _ => out.all.push(builder.class(at, form, &statics, &all)),
        }
        out.by_address.insert(at, index as u32);
    }
    out
}

/// Classes that do not exist in the runtime.
fn synthetic_classes() -> Vec<Class> {
    let object = |index: usize| FIRST_SYNTHETIC_ID + index as u64;
    let referent = Field { name: "referent".to_owned(), kind: ValueType::Object, offset: 0 };
    let java_classes = JAVA_CLASSES.iter().enumerate().map(|(index, (name, above))| Class {
        superclass: if index == 0 { 0 } else { object(*above) },
        size: OBJECT_SIZE,
        fields: if name.ends_with("ref/Reference") { vec![referent.clone()] } else { Vec::new() },
        ..empty_class(object(index), name)
    });
    let primitive_arrays = PRIMITIVE_ARRAYS
        .iter()
        .zip(JAVA_CLASSES.len()..)
        .map(|((_, name), index)| Class { superclass: object(0), ..empty_class(object(index), name) });
    java_classes.chain(primitive_arrays).collect()
}

fn empty_class(id: u64, name: &str) -> Class {
    Class {
        id,
        address: Addr::NULL,
        name: name.to_owned(),
        superclass: 0,
        loader: 0,
        size: 0,
        statics: Vec::new(),
        fields: Vec::new(),
        layout: ObjectLayout::Instance(Vec::new()),
        is_root: false,
    }
}

struct ClassBuilder<'h, 'p> {
    heap: &'h Heap<'p>,
    types: &'h TypeSystem<'p>,
    /// Fields that each type declares itself.
    fields: HashMap<Addr, Vec<Field>>,
}

impl ClassBuilder<'_, '_> {
    fn class(
        &mut self,
        at: Addr,
        form: ObjectLayout,
        statics: &BTreeMap<Addr, Vec<FieldDesc>>,
        all: &BTreeSet<Addr>,
    ) -> Class {
        let info = self.heap.lookup(at.get()).map(|(_, info)| info);
        let above = self.base_type(at).filter(|above| all.contains(above));
        let own = statics.get(&at).map_or(&[][..], Vec::as_slice);
        let is_text = matches!(form, ObjectLayout::Text(..));
        let value = Field { name: "value".to_owned(), kind: ValueType::Object, offset: 0 };
        Class {
            id: at.get(),
            address: at,
            // Tools show a string's text only for a class of this name.
            name: if is_text { "java/lang/String".to_owned() } else { self.types.display_name(at) },
            superclass: above.map_or(FIRST_SYNTHETIC_ID, Addr::get),
            // The object that keeps a collectible type alive is referenced by its instances.
            loader: self.types.loader_allocator_object(at).map_or(0, Addr::get),
            size: info.filter(|info| !info.counted() || is_text).map_or(0, |info| info.base_size),
            statics: own.iter().filter_map(|field| self.value_of(field)).collect(),
            fields: if is_text { vec![value] } else { self.fields_of(at) },
            layout: form,
            is_root: !own.is_empty(),
        }
    }

    /// Layout of a type's objects.
    fn form(&mut self, at: Addr) -> ObjectLayout {
        let Some((kind, info)) = self.heap.lookup(at.get()) else { return ObjectLayout::Instance(Vec::new()) };
        if let Some((length_at, first)) = self.heap.form_of_strings().filter(|_| info.string) {
            return ObjectLayout::Text(length_at, first);
        }
        let elements = self.heap.type_info(kind).and_then(|info| info.elements);
        let Some(elements) = elements.filter(|_| info.counted()) else {
            let fields = self.base_chain(at).into_iter().flat_map(|at| self.fields_of(at));
            return ObjectLayout::Instance(fields.map(|field| (field.offset, field.kind)).collect());
        };
        let element = self.types.element_type(at);
        let is_value = element.is_some_and(|element| self.types.is_value_type(element) == Ok(true));
        let (start, is_row) = (elements.start, matches!(self.types.shape(TypeHandle(at)), Ok(Shape::SzArray(_))));
        if is_row && !is_value && self.types.contains_references(at) {
            return ObjectLayout::Objects(start);
        }
        // All other arrays are described by size and references: structs, pointers, and arrays of several dimensions,
        // whose bounds come first. Arrays of enumerations are among them: their type is worth more than their values.
        let element = element.filter(|_| is_row && is_value);
        let numbers = element.and_then(|element| self.types.number_of(element)).map(heap_dump_type);
        let numbers = numbers.filter(|kind| kind.size() == elements.size);
        numbers.map_or(ObjectLayout::Structs(ARRAY_DATA), |kind| ObjectLayout::Values(start, kind))
    }

    /// The base type. `None` if the type is among its own bases, or has too many.
    fn base_type(&self, at: Addr) -> Option<Addr> {
        let above = self.types.parent(at).ok().filter(|above| !above.is_null())?;
        let bases = self.types.bases(above);
        (bases.len() < limits::MAX_TYPE_NESTING && !bases.contains(&at)).then_some(above)
    }

    /// A type and its base types.
    fn base_chain(&self, at: Addr) -> Vec<Addr> {
        std::iter::successors(Some(at), |at| self.base_type(*at)).collect()
    }

    /// Fields that a type declares itself, with structs flattened.
    fn fields_of(&mut self, at: Addr) -> Vec<Field> {
        if let Some(known) = self.fields.get(&at) {
            return known.clone();
        }
        let mut own = self.types.own_fields(at).unwrap_or_default();
        own.retain(|field| field.storage == FieldStorage::Instance);
        own.sort_by_key(|field| (field.offset, field.token.0));
        let scope = self.types.scope_of(at);
        let mut out = Vec::new();
        for field in &own {
            self.flatten(field, &scope, METHOD_TABLE, "", 0, &mut out);
        }
        self.add_unnamed(at, &mut out);
        self.fields.insert(at, out.clone());
        out
    }

    /// Adds references that no field accounts for, such as in structs without metadata in the core.
    fn add_unnamed(&mut self, at: Addr, out: &mut Vec<Field>) {
        let Some((_, info)) = self.heap.lookup(at.get()) else { return };
        let mut unnamed: BTreeSet<u64> = self.heap.references_in(&info).into_iter().collect();
        if unnamed.is_empty() {
            return;
        }
        let inherited = self.base_chain(at).into_iter().skip(1).flat_map(|at| self.fields_of(at));
        for field in inherited.collect::<Vec<_>>().iter().chain(&*out).filter(|field| field.kind == ValueType::Object) {
            unnamed.remove(&field.offset);
        }
        out.extend(unnamed.into_iter().map(|offset| Field {
            name: format!("+{offset:#x}"),
            kind: ValueType::Object,
            offset,
        }));
    }

    fn flatten(&self, of: &FieldDesc, scope: &Scope, base: u64, before: &str, depth: u32, out: &mut Vec<Field>) {
        if out.len() >= usize::from(u16::MAX) {
            return;
        }
        let (name, offset) = (format!("{before}{}", self.types.field_name(of)), base.saturating_add(of.offset));
        if of.element != VALUE_TYPE {
            out.push(Field { name, kind: heap_dump_type(of.element), offset });
            return;
        }
        // A struct type that was never loaded never had a value.
        let Some(inner) = self.types.field_struct(of, scope).filter(|_| depth < limits::MAX_TYPE_DEPTH) else { return };
        let mut own = self.types.own_fields(inner.method_table).unwrap_or_default();
        own.retain(|field| field.storage == FieldStorage::Instance);
        own.sort_by_key(|field| (field.offset, field.token.0));
        for field in &own {
            self.flatten(field, &inner.scope, offset, &format!("{name}."), depth + 1, out);
        }
    }

    /// Static fields by type, without thread statics.
    fn statics(&self) -> BTreeMap<Addr, Vec<FieldDesc>> {
        let mut left = limits::MAX_FIELDS_OF_STATICS;
        let mut out: BTreeMap<Addr, Vec<FieldDesc>> = BTreeMap::new();
        for module in self.types.loaded_modules() {
            for field in self.types.static_fields(module, &mut left) {
                if field.storage != FieldStorage::ThreadStatic {
                    out.entry(field.method_table).or_default().push(field);
                }
            }
        }
        out
    }

    /// A static field with its value. A struct is boxed.
    fn value_of(&self, field: &FieldDesc) -> Option<Static> {
        let at = self.types.static_address(field)?;
        let kind = heap_dump_type(field.element);
        if field.storage == FieldStorage::Image && kind == ValueType::Object {
            return None;
        }
        let mut word = [0; 8];
        self.types.memory.read(at, word.get_mut(..kind.size() as usize)?).ok()?;
        Some(Static { name: self.types.field_name(field), kind, value: u64::from_le_bytes(word) })
    }
}
