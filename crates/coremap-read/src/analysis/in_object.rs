//! Finds the managed objects that contain given addresses, for one address or a million.

use crate::addr::Addr;
use crate::limits;
use crate::report::Name;
use crate::runtimes::api::{FREE, HeapRange, Link, Object, ObjectNames, locate};
use crate::session::Session;

/// The object that contains an address.
pub struct InObject<'a, 'g> {
    names: &'a mut ObjectNames<'g>,
    /// The heap part that contains the object.
    pub part: &'a HeapRange,
    pub object: &'a Object,
    /// Offset of the address in the object, in bytes.
    pub offset: u64,
}

impl InObject<'_, '_> {
    pub fn is_free(&self) -> bool {
        self.object.kind == FREE
    }

    /// Type name of the object.
    pub fn name(&mut self) -> Name {
        self.names.of_kind(self.object.kind)
    }

    /// Address of the runtime's type descriptor (in .NET, the MethodTable).
    pub fn descriptor(&self) -> Option<Addr> {
        self.names.heap.type_info(self.object.kind).map(|info| info.address).filter(|a| !a.is_null())
    }

    /// The field or element at the offset.
    pub fn field(&mut self) -> Option<Name> {
        self.names.link(self.object.addr, Link::Field(self.offset))
    }

    /// The field at the offset. `None` in free space, and for fields whose only name is their offset, such as an
    /// object's header.
    pub fn named_field(&mut self) -> Option<Name> {
        let inside = !self.is_free() && self.offset > 0;
        inside.then(|| self.field()).flatten().filter(|name| !name.starts_with('+'))
    }

    /// Text of a string object, cut at [`limits::MAX_SHOWN_TEXT`].
    pub fn text(&self) -> Option<String> {
        let heap = self.names.heap;
        let content = heap.type_info(self.object.kind)?.string.then(|| heap.string_content(self.object))??;
        let mut text = content.beginning(limits::MAX_SHOWN_TEXT);
        if content.length as usize > limits::MAX_SHOWN_TEXT {
            text.push('…');
        }
        Some(text)
    }
}

/// Visits the `items` that are in objects of any runtime, including free space between objects. `at` returns an item's
/// address; `items` are sorted by it.
pub fn each_in_object<T>(
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
