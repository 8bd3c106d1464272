//! Static fields, and the part that each type plays in the question who holds memory.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::api::{Heap as _, NamedStatics, StaticRoot, TypeIndex, TypeRole};
use crate::runtimes::clr_gc::{is_library, type_role, with_kind};
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::coreclr::heap::OF_THREAD;

impl CoreClr<'_> {
    /// Static fields that reference objects. Arrays of statics contain them.
    pub(super) fn all_statics(&self) -> NamedStatics {
        let mut out = NamedStatics::default();
        let Some(heap) = self.object_heap() else { return out };
        let mut statics: Vec<_> = heap.statics().into_iter().collect();
        statics.sort_by_key(|(at, _)| *at);
        // Handles keep the arrays of statics alive.
        let mut kept: Vec<Addr> = self.handles().iter().filter(|h| h.kind.keeps()).map(|h| h.object).collect();
        kept.sort_unstable();
        let mut reader = heap.reader();
        let mut array = |at: Addr| {
            let start = *kept.get(kept.partition_point(|start| *start <= at).checked_sub(1)?)?;
            let size = reader.node(start.get())?.size;
            at.checked_since(start).filter(|offset| *offset < size).map(|_| start)
        };
        let mut containers: Vec<Addr> = statics.iter().filter_map(|(at, _)| array(*at)).collect();
        containers.dedup();
        out.containers = containers;
        for (at, name) in statics {
            let object = self.process().memory.ptr(at).ok().filter(|object| !object.is_null());
            // The values that threads have of one variable are held by one variable.
            let name = name.split_once(OF_THREAD).map_or(name.clone(), |(name, _)| name.into());
            let library = is_library(name.trim_start_matches("thread ").trim_start_matches("static "));
            out.roots.extend(object.map(|object| StaticRoot { name: with_kind(&name), object, library }));
        }
        out
    }

    /// Address of the MethodTable of the type that a System.RuntimeType object represents (RuntimeType.m_handle).
    pub fn represented_type(&self, object: Addr) -> Option<Addr> {
        self.types().memory.ptr(self.field_of(object, "m_handle")?).ok().filter(|at| !at.is_null())
    }

    pub(super) fn role_of_type(&self, kind: TypeIndex) -> TypeRole {
        self.object_heap().map_or(TypeRole::Program, |heap| type_role(&heap.type_name(kind)))
    }
}
