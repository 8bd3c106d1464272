//! Names of fields by their offsets.

use crate::hotspot::heap::Heap;
use crate::managed::TypeIndex;

impl Heap<'_> {
    /// The field at `offset` of instances of a class.
    pub(super) fn name_of_field(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let klass = self.types.get(kind).filter(|k| !k.is_array())?;
        let of = |at| {
            let declared = self.classes.declared_fields(at);
            declared.iter().find(|f| f.offset == offset && !f.is_static).map(|f| f.name.clone())
        };
        self.classes.with_superclasses(klass.address).find_map(of)
    }
}
