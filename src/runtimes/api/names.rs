//! Objects by name: their types, and the fields by which they hold others.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::Name;
use crate::runtimes::api::{Heap, Link, Node, ObjectReader, TypeIndex, TypeInfo, locate};

/// How objects of one step hold those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKey {
    /// The root holds them.
    Root,
    /// By the field at this offset.
    Field(u64),
    /// By elements, at this offset within each.
    Element(u64),
    /// By the static variable that is here.
    Static(Addr),
    /// In no field; how, in words.
    Beside(&'static str),
}

/// Names of types and of the fields by which objects hold others, each made once.
pub(crate) struct ObjectNames<'g> {
    pub(crate) heap: &'g dyn Heap,
    pub(crate) reader: Box<dyn ObjectReader + 'g>,
    names: HashMap<TypeIndex, Name>,
    fields: HashMap<(TypeIndex, u64), Name>,
}

impl<'g> ObjectNames<'g> {
    pub(crate) fn new(heap: &'g dyn Heap) -> ObjectNames<'g> {
        ObjectNames { heap, reader: heap.reader(), names: HashMap::new(), fields: HashMap::new() }
    }

    /// The object at `addr`, if one is there.
    pub(crate) fn node(&mut self, addr: Addr) -> Option<Node> {
        self.reader.node(addr.get())
    }

    /// What is known of the type of the object at `addr`.
    pub(crate) fn info(&mut self, addr: Addr) -> Option<TypeInfo> {
        self.heap.type_info(self.node(addr)?.kind)
    }

    /// Type and size of the object at `addr`.
    pub(crate) fn object(&mut self, addr: Addr) -> Option<(Name, u64)> {
        let node = self.node(addr)?;
        Some((self.of_kind(node.kind), node.size))
    }

    /// The name of a type.
    pub(crate) fn of_kind(&mut self, kind: TypeIndex) -> Name {
        let heap = self.heap;
        self.names.entry(kind).or_insert_with(|| heap.type_name(kind).into()).clone()
    }

    /// The static field that is at `place`, in words. Looked for in the modules of
    /// the types of `objects` first, then in all others.
    pub(crate) fn static_at(&mut self, place: Addr, objects: impl Iterator<Item = Addr>) -> Option<Name> {
        let near: Vec<TypeIndex> = objects.filter_map(|object| Some(self.node(object)?.kind)).collect();
        self.heap.static_at(place, &near).map(Name::from)
    }

    /// Names of all static variables, by where they are.
    pub(crate) fn all_statics(&self) -> HashMap<Addr, Name> {
        self.heap.statics().into_iter().map(|(at, name)| (at, name.into())).collect()
    }

    /// How objects of a type hold others, in words.
    pub(crate) fn key(&mut self, kind: TypeIndex, key: FieldKey, statics: &HashMap<Addr, Name>) -> Option<Name> {
        Some(match key {
            FieldKey::Root => return None,
            FieldKey::Field(offset) => self.field(kind, offset),
            FieldKey::Element(rest) => match self.heap.element_field_name(kind, rest) {
                Some(inner) => format!("[].{inner}").into(),
                None => "[]".to_owned().into(),
            },
            FieldKey::Static(place) if self.heap.type_info(kind).is_some_and(|info| info.of_types) => {
                self.heap.static_at(place, &[]).map_or_else(|| "static ?".to_owned().into(), Name::from)
            }
            FieldKey::Static(place) => format!("[] ({})", statics.get(&place).map_or("static ?", |name| name)).into(),
            FieldKey::Beside(how) => how.into(),
        })
    }

    /// How the object at `addr` holds another: a field, an element, or in words.
    pub(crate) fn link(&mut self, addr: Addr, link: Link) -> Option<Name> {
        let offset = match link {
            Link::Beside(how) => return Some(how.into()),
            Link::Field(offset) => offset,
        };
        let kind = self.node(addr)?.kind;
        let info = self.heap.type_info(kind)?;
        if info.of_types
            && let Some(name) = self.heap.static_at(self.heap.place(addr, offset), &[])
        {
            return Some(name.into());
        }
        if let Some(name) = self.heap.link_name(addr, offset) {
            return Some(name.into());
        }
        let Some(elements) = info.elements else { return Some(self.field(kind, offset)) };
        let Some(at) = offset.checked_sub(elements.start) else { return Some(self.field(kind, offset)) };
        let (index, rest) = (at / elements.size.max(1), at % elements.size.max(1));
        let text = match self.heap.element_field_name(kind, rest) {
            Some(name) => format!("[{index}].{name}"),
            None => format!("[{index}]"),
        };
        Some(text.into())
    }

    /// The field at `offset` of objects that are no arrays.
    fn field(&mut self, kind: TypeIndex, offset: u64) -> Name {
        let heap = self.heap;
        let name = self
            .fields
            .entry((kind, offset))
            .or_insert_with(|| heap.field_name(kind, offset).unwrap_or_else(|| format!("+{offset:#x}")).into());
        name.clone()
    }

    /// The object that `addr` leads into.
    pub(crate) fn containing(&self, addr: Addr) -> Option<Addr> {
        let mut found = None;
        locate(self.heap, &mut [addr], |at| *at, |_, _, object| found = Some(object.addr));
        found
    }
}
