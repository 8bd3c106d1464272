//! Which managed object an address is in, and where in it: for one address as for a million.

use crate::addr::Addr;
use crate::limits;
use crate::report::Name;
use crate::runtimes::api::{FREE, Link, Object, ObjectNames, Part, locate};
use crate::session::Session;

/// The object that an address is in.
pub(crate) struct InObject<'a, 'g> {
    names: &'a mut ObjectNames<'g>,
    /// The run of objects that it lies in.
    pub(crate) part: &'a Part,
    /// The object.
    pub(crate) object: &'a Object,
    /// Bytes from its start to the address.
    pub(crate) offset: u64,
}

impl InObject<'_, '_> {
    /// Whether it is the space between objects.
    pub(crate) fn is_free(&self) -> bool {
        self.object.kind == FREE
    }

    /// Its type.
    pub(crate) fn name(&mut self) -> Name {
        self.names.of_kind(self.object.kind)
    }

    /// What the runtime knows its type by.
    pub(crate) fn descriptor(&self) -> Option<Addr> {
        self.names.heap.type_info(self.object.kind).map(|info| info.address).filter(|a| !a.is_null())
    }

    /// The field or element that the address is in.
    pub(crate) fn field(&mut self) -> Option<Name> {
        self.names.link(self.object.addr, Link::Field(self.offset))
    }

    /// The same, for who looks at any byte: none in the space between objects, and where a field has no name but its
    /// offset, as in an object's header.
    pub(crate) fn named_field(&mut self) -> Option<Name> {
        let inside = !self.is_free() && self.offset > 0;
        inside.then(|| self.field()).flatten().filter(|name| !name.starts_with('+'))
    }

    /// Of a string: its text, or its beginning.
    pub(crate) fn text(&self) -> Option<String> {
        let heap = self.names.heap;
        let content = heap.type_info(self.object.kind)?.string.then(|| heap.string_content(self.object))??;
        let mut text = content.beginning(limits::MAX_SHOWN_TEXT);
        if content.length as usize > limits::MAX_SHOWN_TEXT {
            text.push('…');
        }
        Some(text)
    }
}

/// Visit those of `items` that are in objects of any runtime, the space between objects too; `at` tells an item's
/// address, and they are sorted by it.
pub(crate) fn each_in_object<T>(
    session: &Session<'_>,
    items: &mut [T],
    at: impl Fn(&T) -> Addr,
    mut visit: impl FnMut(&mut T, &mut InObject<'_, '_>),
) {
    for heap in session.runtimes().into_iter().filter_map(|runtime| runtime.heap()) {
        let mut names = ObjectNames::new(heap);
        locate(heap, items, &at, |item, part, object| {
            let offset = at(item).since(object.addr);
            visit(item, &mut InObject { names: &mut names, part, object, offset });
        });
    }
}
