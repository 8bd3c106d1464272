//! Names of types, and of the fields by which objects reference each other.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::Name;
use crate::runtimes::api::{Heap, Link, Node, ObjectReader, TypeIndex, TypeInfo, locate};

/// How an object references the next object on a path. Elements of an array share one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKey {
    /// The root references it.
    Root,
    /// Through the field at this offset.
    Field(u64),
    /// Through array elements, at this offset within each element.
    Element(u64),
    /// Through the static variable at this address.
    Static(Addr),
    /// Through no field. The text says how.
    NoField(&'static str),
}

/// Names of types and fields, each computed once.
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

    /// The object at `addr`. `None` if there is none.
    pub(crate) fn node(&mut self, addr: Addr) -> Option<Node> {
        self.reader.node(addr.get())
    }

    /// Type of the object at `addr`. `None` if there is none.
    pub(crate) fn info(&mut self, addr: Addr) -> Option<TypeInfo> {
        self.heap.type_info(self.node(addr)?.kind)
    }

    /// Type name and size in bytes of the object at `addr`.
    pub(crate) fn object(&mut self, addr: Addr) -> Option<(Name, u64)> {
        let node = self.node(addr)?;
        Some((self.of_kind(node.kind), node.size))
    }

    pub(crate) fn of_kind(&mut self, kind: TypeIndex) -> Name {
        let heap = self.heap;
        self.names.entry(kind).or_insert_with(|| heap.type_name(kind).into()).clone()
    }

    /// Name of the static field at `place`. The modules of the types of `objects` are searched first.
    pub(crate) fn static_at(&mut self, place: Addr, objects: impl Iterator<Item = Addr>) -> Option<Name> {
        let near: Vec<TypeIndex> = objects.filter_map(|object| Some(self.node(object)?.kind)).collect();
        self.heap.static_at(place, &near).map(Name::from)
    }

    /// Names of all static variables, by address.
    pub(crate) fn all_statics(&self) -> HashMap<Addr, Name> {
        self.heap.statics().into_iter().map(|(at, name)| (at, name.into())).collect()
    }

    /// Text for the link `key` out of objects of a type. `None` for [`FieldKey::Root`].
    pub(crate) fn key(&mut self, kind: TypeIndex, key: FieldKey, statics: &HashMap<Addr, Name>) -> Option<Name> {
        Some(match key {
            FieldKey::Root => return None,
            FieldKey::Field(offset) => self.field(kind, offset),
            FieldKey::Element(rest) => match self.heap.element_field_name(kind, rest) {
                Some(inner) => format!("[].{inner}").into(),
                None => "[]".to_owned().into(),
            },
            FieldKey::Static(place) if self.heap.type_info(kind).is_some_and(|info| info.represents_types) => {
                self.heap.static_at(place, &[]).map_or_else(|| "static ?".to_owned().into(), Name::from)
            }
            FieldKey::Static(place) => format!("[] ({})", statics.get(&place).map_or("static ?", |name| name)).into(),
            FieldKey::NoField(how) => how.into(),
        })
    }

    /// Text for the link out of the object at `addr`: a field, an element with its index, or a description.
    pub(crate) fn link(&mut self, addr: Addr, link: Link) -> Option<Name> {
        let Link::Field(offset) = link else { return self.place(addr, link) };
        let name = self.place(addr, link)?;
        let kind = self.node(addr)?.kind;
        match self.heap.key_of_value(addr, kind, offset) {
            Some(key) => Some(format!("{name} ({key})").into()),
            None => Some(name),
        }
    }

    fn place(&mut self, addr: Addr, link: Link) -> Option<Name> {
        let offset = match link {
            Link::NoField(how) => return Some(how.into()),
            Link::Field(offset) => offset,
        };
        let kind = self.node(addr)?.kind;
        let info = self.heap.type_info(kind)?;
        if info.represents_types
            && let Some(name) = self.heap.static_at(self.heap.slot_address(addr, offset), &[])
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

    /// Name of the field at `offset` of a non-array type. Its offset if the name is unknown.
    fn field(&mut self, kind: TypeIndex, offset: u64) -> Name {
        let heap = self.heap;
        let name = self
            .fields
            .entry((kind, offset))
            .or_insert_with(|| heap.field_name(kind, offset).unwrap_or_else(|| format!("+{offset:#x}")).into());
        name.clone()
    }

    /// Start of the object that contains `addr`.
    pub(crate) fn containing(&self, addr: Addr) -> Option<Addr> {
        let mut found = None;
        locate(self.heap, &mut [addr], |at| *at, |_, _, object| found = Some(object.addr));
        found
    }
}
