//! One runtime's objects, opened for the commands that follow references.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::dotnet::graph::{FieldKey, Graph, Link, Reader};
use crate::dotnet::heap::{Heap, Losses, MethodTableInfo};
use crate::dotnet::{FieldDesc, Handle, Heaps, ManagedThread, Runtime, Scope, Storage, TypeSystem, handles, threads};
use crate::limits;
use crate::process::Process;
use crate::report::Name;
use crate::units::exact;

/// CorElementType of a field that is a value type (ECMA-335 II.23.1.16).
pub(super) const VALUE_TYPE: u8 = 0x11;

/// Size of an array without elements that its elements do not follow: the word
/// of its sync block.
const HEADER: u64 = 8;

/// How an object holds another that is in no field of it.
const ALLOCATOR: &str = "(loader allocator)";
const DEPENDENT: &str = "(dependent handle)";

/// Tell what makes answers less than whole.
pub(super) fn tell<'n>(process: &Process, runtime: &Runtime, what: &str, notes: impl IntoIterator<Item = &'n String>) {
    for note in notes {
        process.diag.partial("heap", format!("{}: {what}: {note}", runtime.name()));
    }
}

/// Tell that objects may be half moved.
pub(super) fn tell_in_gc(process: &Process, runtime: &Runtime, heap: &Heap<'_>) {
    if heap.in_gc() {
        process.diag.partial(
            "heap-in-gc",
            format!(
                "{}: the dump was taken in the middle of a collection; references may lead to where objects were or will be",
                runtime.name()
            ),
        );
    }
}

/// Tell what of the heap could not be walked.
pub(super) fn tell_walk(process: &Process, runtime: &Runtime, heap: &Heap<'_>, losses: &Losses) {
    let name = runtime.name();
    for note in heap.notes() {
        process.diag.partial("heap-walk", format!("{name}: {note}"));
    }
    if heap.has_too_many_types() {
        process
            .diag
            .partial("limit", format!("more than {} types; objects of the others are lost", limits::MAX_METHOD_TABLES));
    }
    if let Some(first) = losses.places.first() {
        let places = if losses.count == 1 { "one place".into() } else { format!("{} places", exact(losses.count)) };
        process.diag.partial(
            "heap-walk",
            format!(
                "{name}: {} bytes of the heap in {places} could not be walked; the first: {}, {}",
                exact(losses.bytes),
                first.range,
                first.reason
            ),
        );
    }
}

/// The handles of a runtime; what is wrong with them is told.
pub(super) fn handles_of(process: &Process, runtime: &Runtime) -> Vec<Handle> {
    let (found, notes) = handles(process, runtime);
    tell(process, runtime, "handle table", &notes);
    found
}

/// Names of types and of the fields by which objects hold others.
pub(super) struct ObjectNames<'g, 'h, 'p> {
    pub(super) types: &'h TypeSystem<'p>,
    pub(super) heap: &'h Heap<'p>,
    pub(super) reader: Reader<'g, 'h, 'p>,
    names: HashMap<Addr, Name>,
    fields: HashMap<(Addr, u64), Name>,
    /// By module, names of statics by where they are.
    statics: HashMap<Addr, HashMap<Addr, Name>>,
    /// Fields that may still be looked at for statics.
    fields_left: usize,
    modules: Option<Vec<Addr>>,
    threads: Option<Vec<ManagedThread>>,
}

impl<'g, 'h, 'p> ObjectNames<'g, 'h, 'p> {
    pub(super) fn new(types: &'h TypeSystem<'p>, graph: &'g Graph<'h, 'p>) -> ObjectNames<'g, 'h, 'p> {
        ObjectNames {
            types,
            heap: graph.heap,
            reader: graph.reader(),
            names: HashMap::new(),
            fields: HashMap::new(),
            statics: HashMap::new(),
            fields_left: limits::MAX_FIELDS_OF_STATICS,
            modules: None,
            threads: None,
        }
    }

    /// Type and size of the object at `addr`.
    pub(super) fn object(&mut self, addr: Addr) -> Option<(Name, u64)> {
        let node = self.reader.node(addr.get())?;
        let (info, size) = (node.layout.info, node.size);
        let heap = self.heap;
        let name = self.names.entry(info.address).or_insert_with(|| heap.type_name(&info).into());
        Some((name.clone(), size))
    }

    /// The static field that is at `place`, in words. Looked for in the modules of
    /// the types of `objects` first, then in all others.
    pub(super) fn static_at(&mut self, place: Addr, objects: impl Iterator<Item = Addr>) -> Option<Name> {
        let types = self.types;
        for object in objects {
            let Some(info) = self.reader.node(object.get()).map(|n| n.layout.info) else { continue };
            let of = types.element_type(info.address).unwrap_or(info.address);
            let Ok(module) = types.module_of(of) else { continue };
            if let Some(name) = self.statics_of(module).get(&place) {
                return Some(name.clone());
            }
        }
        let all = self.modules.get_or_insert_with(|| types.loaded_modules()).clone();
        all.into_iter().find_map(|module| self.statics_of(module).get(&place).cloned())
    }

    /// Where the static references of a module's types are, with their names.
    fn statics_of(&mut self, module: Addr) -> &HashMap<Addr, Name> {
        let types = self.types;
        let threads = self.threads.get_or_insert_with(|| {
            threads(types.process, types.runtime).map(|(threads, _)| threads).unwrap_or_default()
        });
        let left = &mut self.fields_left;
        self.statics.entry(module).or_insert_with(|| {
            let mut out = HashMap::new();
            let had = *left;
            let fields = types.static_fields(module, left);
            if had > 0 && *left == 0 {
                let why = "types have more fields than are looked at: statics of some have no names";
                types.process.diag.partial("limit", why);
            }
            for field in fields.into_iter().filter(FieldDesc::is_object) {
                let name = || format!("{}.{}", types.display_name(field.method_table), types.field_name(&field));
                if let Some(at) = types.static_address(&field) {
                    out.insert(at, format!("static {}", name()).into());
                }
                if field.storage != Storage::ThreadStatic {
                    continue;
                }
                for thread in threads.iter() {
                    if out.len() >= limits::MAX_STATICS {
                        break;
                    }
                    if let Some(at) = types.thread_static_address(&field, thread.address) {
                        let of = thread.os_id.map_or_else(|| "?".into(), |id| id.to_string());
                        out.insert(at, format!("thread static {} of thread {of}", name()).into());
                    }
                }
            }
            out
        })
    }

    /// Names of the statics of all modules, by where they are.
    pub(super) fn all_statics(&mut self) -> HashMap<Addr, Name> {
        let types = self.types;
        let modules = self.modules.get_or_insert_with(|| types.loaded_modules()).clone();
        let mut out = HashMap::new();
        for module in modules {
            out.extend(self.statics_of(module).iter().map(|(at, name)| (*at, name.clone())));
        }
        out
    }

    /// The name of a type.
    pub(super) fn of_kind(&mut self, info: &MethodTableInfo) -> Name {
        let heap = self.heap;
        self.names.entry(info.address).or_insert_with(|| heap.type_name(info).into()).clone()
    }

    /// How objects of a type hold others, in words.
    pub(super) fn key(&mut self, info: &MethodTableInfo, key: FieldKey, statics: &HashMap<Addr, Name>) -> Option<Name> {
        Some(match key {
            FieldKey::Root => return None,
            FieldKey::Field(offset) => self.field(info, offset),
            FieldKey::Element(rest) => match self.in_element(info, rest) {
                Some(inner) => format!("[].{inner}").into(),
                None => "[]".to_owned().into(),
            },
            FieldKey::Static(place) => format!("[] ({})", statics.get(&place).map_or("static ?", |name| name)).into(),
            FieldKey::Allocator => ALLOCATOR.to_owned().into(),
            FieldKey::Dependent => DEPENDENT.to_owned().into(),
        })
    }

    /// How the object at `addr` holds another: a field, an element, or in words.
    pub(super) fn link(&mut self, addr: Addr, link: Link) -> Option<Name> {
        let offset = match link {
            Link::Allocator => return Some(ALLOCATOR.to_owned().into()),
            Link::Dependent => return Some(DEPENDENT.to_owned().into()),
            Link::Field(offset) => offset,
        };
        let info = self.reader.node(addr.get())?.layout.info;
        if !info.counted() {
            return Some(self.field(&info, offset));
        }
        let at = offset.checked_sub(u64::from(info.base_size).saturating_sub(HEADER))?;
        let (index, rest) = (at / u64::from(info.component_size), at % u64::from(info.component_size));
        let text = match self.in_element(&info, rest) {
            Some(name) => format!("[{index}].{name}"),
            None => format!("[{index}]"),
        };
        Some(text.into())
    }

    /// The field at `offset` of objects that are no arrays.
    fn field(&mut self, info: &MethodTableInfo, offset: u64) -> Name {
        let types = self.types;
        let name = self.fields.entry((info.address, offset)).or_insert_with(|| {
            name_at(types, &types.object_fields(info.address), offset, None, 0)
                .unwrap_or_else(|| format!("+{offset:#x}"))
                .into()
        });
        name.clone()
    }

    /// The field at `rest` of each element of an array, where these are structs.
    fn in_element(&self, info: &MethodTableInfo, rest: u64) -> Option<String> {
        let element = self.types.element_type(info.address)?;
        let own = self.types.own_fields(element).ok().filter(|_| self.types.is_value_type(element) == Ok(true))?;
        // A number's one field says nothing that its type does not.
        let mut instance = own.iter().filter(|f| f.storage == Storage::Instance);
        let number = instance.next().is_some_and(|f| is_number(f.element)) && instance.next().is_none();
        if number { None } else { name_at(self.types, &own, rest, None, 0) }
    }

    /// The object that `addr` leads into.
    pub(super) fn containing(&self, addr: Addr) -> Option<Addr> {
        let mut found = None;
        self.heap.locate(&mut [addr], |at| *at, |_, _, object| found = Some(object.addr));
        found
    }
}

/// Whether fields of this CorElementType hold numbers and nothing else
/// (ECMA-335 II.23.1.16: BOOLEAN to R8, I, U).
fn is_number(element: u8) -> bool {
    matches!(element, 0x02..=0x0d | 0x18 | 0x19)
}

/// `field` or `field.inner` of what stands at `offset`, of fields sorted by it;
/// `scope`: what their owner's type parameters stand for, where that is not what
/// each field's own MethodTable says.
fn name_at(
    types: &TypeSystem<'_>,
    fields: &[FieldDesc],
    offset: u64,
    scope: Option<&Scope>,
    depth: u32,
) -> Option<String> {
    let instance = |f: &&FieldDesc| f.storage == Storage::Instance && f.offset <= offset;
    let field = fields.iter().filter(instance).max_by_key(|f| f.offset)?;
    let name = types.field_name(field);
    if field.element != VALUE_TYPE || depth >= limits::MAX_TYPE_DEPTH {
        return Some(name);
    }
    let own = scope.cloned().unwrap_or_else(|| types.scope_of(field.method_table));
    let inner = types.field_struct(field, &own).and_then(|inner| {
        let own = types.own_fields(inner.method_table).ok()?;
        name_at(types, &own, offset - field.offset, Some(&inner.scope), depth + 1)
    });
    Some(match inner {
        Some(inner) => format!("{name}.{inner}"),
        None => name,
    })
}

/// Runtimes of which there is a heap.
pub(super) fn with_heap<'f>(
    runtimes: &'f [(Runtime, Heaps)],
) -> impl Iterator<Item = (&'f Runtime, &'f Heaps)> + use<'f> {
    runtimes.iter().filter(|(_, heaps)| !heaps.segments.is_empty()).map(|(runtime, heaps)| (runtime, heaps))
}
