//! One runtime's objects, opened for the commands that follow references.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::dotnet::graph::{Graph, Layout, Link, Reader};
use crate::dotnet::heap::{Heap, Losses};
use crate::dotnet::{FieldDesc, Handle, Heaps, ManagedThread, Runtime, Scope, Storage, TypeSystem, handles, threads};
use crate::limits;
use crate::process::Process;
use crate::report::Name;

/// CorElementType of a field that is a value type (ECMA-335 II.23.1.16).
pub(super) const VALUE_TYPE: u8 = 0x11;

/// Size of an array without elements that its elements do not follow: the word
/// of its sync block.
const HEADER: u64 = 8;

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

/// The handles of a runtime; what is wrong with them is told.
pub(super) fn handles_of(process: &Process, runtime: &Runtime) -> Vec<Handle> {
    let (found, notes) = handles(process, runtime);
    tell(process, runtime, "handle table", &notes);
    found
}

/// Names of types and of the fields by which objects hold others.
pub(super) struct Names<'g, 'h, 'p> {
    pub(super) types: &'h TypeSystem<'p>,
    pub(super) heap: &'h Heap<'p>,
    pub(super) reader: Reader<'g, 'h, 'p>,
    names: HashMap<Addr, Name>,
    fields: HashMap<(Addr, u64), Name>,
    /// By module, names of statics by where they are.
    statics: HashMap<Addr, HashMap<Addr, Name>>,
    modules: Option<Vec<Addr>>,
    threads: Option<Vec<ManagedThread>>,
}

impl<'g, 'h, 'p> Names<'g, 'h, 'p> {
    pub(super) fn new(types: &'h TypeSystem<'p>, graph: &'g Graph<'h, 'p>) -> Names<'g, 'h, 'p> {
        Names {
            types,
            heap: graph.heap,
            reader: graph.reader(),
            names: HashMap::new(),
            fields: HashMap::new(),
            statics: HashMap::new(),
            modules: None,
            threads: None,
        }
    }

    /// Type and size of the object at `addr`.
    pub(super) fn object(&mut self, addr: Addr) -> Option<(Name, u64)> {
        let node = self.reader.node(addr.0)?;
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
            let Some(info) = self.reader.node(object.0).map(|n| n.layout.info) else { continue };
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
        self.statics.entry(module).or_insert_with(|| {
            let mut out = HashMap::new();
            for field in types.static_fields(module).into_iter().filter(FieldDesc::is_object) {
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

    /// How the object at `addr` holds another: a field, an element, or in words.
    pub(super) fn link(&mut self, addr: Addr, link: Link) -> Option<Name> {
        let offset = match link {
            Link::Allocator => return Some("(loader allocator)".to_owned().into()),
            Link::Dependent => return Some("(dependent handle)".to_owned().into()),
            Link::Field(offset) => offset,
        };
        let node = self.reader.node(addr.0)?;
        let Layout { info, .. } = **node.layout;
        if info.component_size == 0 {
            let types = self.types;
            let name = self.fields.entry((info.address, offset)).or_insert_with(|| {
                name_at(types, &types.object_fields(info.address), offset, None, 0)
                    .unwrap_or_else(|| format!("+{offset:#x}"))
                    .into()
            });
            return Some(name.clone());
        }
        let at = offset.checked_sub(u64::from(info.base_size).saturating_sub(HEADER))?;
        let (index, rest) = (at / u64::from(info.component_size), at % u64::from(info.component_size));
        let inner = self.types.element_type(info.address).and_then(|element| {
            let own = self.types.own_fields(element).ok().filter(|_| self.types.is_value_type(element) == Ok(true))?;
            name_at(self.types, &own, rest, None, 0)
        });
        let text = match inner {
            Some(name) => format!("[{index}].{name}"),
            None => format!("[{index}]"),
        };
        Some(text.into())
    }

    /// The object that `addr` leads into.
    pub(super) fn containing(&self, addr: Addr) -> Option<Addr> {
        let part = self.heap.parts().iter().find(|p| p.range.contains(addr))?;
        let mut found = None;
        self.heap.walker().walk(part, &mut Losses::default(), |object| {
            if object.addr <= addr && addr.since(object.addr) < object.size {
                found = Some(object.addr);
            }
        });
        found
    }
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
