//! Names of fields by offset, and of static variables by address.

use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::hotspot::classes::KlassShape;
use crate::runtimes::hotspot::heap::Heap;

/// The mirrors of all classes with their classes, by address. Mirrors contain the static variables.
#[derive(Default)]
pub(super) struct Statics {
    mirrors: OnceLock<Vec<(Addr, Addr)>>,
}

impl Heap<'_> {
    /// Returns the name of the instance field at `offset`.
    pub(super) fn name_of_field(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let klass = self.types.get(kind).filter(|k| !k.is_array())?;
        let of = |at| {
            let declared = self.classes.declared_fields(at);
            declared.iter().find(|f| f.offset == offset && !f.is_static).map(|f| f.name.clone())
        };
        self.classes.with_superclasses(klass.address).find_map(of)
    }

    /// Returns the name of the static variable at `addr`: `static java.lang.System.out`.
    pub(super) fn name_of_static(&self, addr: Addr) -> Option<Arc<str>> {
        let mirrors = self.statics.mirrors.get_or_init(|| {
            let classes = self.classes.loaders().iter().flat_map(|loader| &loader.classes);
            let mut all: Vec<_> = classes.filter_map(|&class| Some((self.classes.mirror(class)?, class))).collect();
            all.sort();
            all
        });
        let &(mirror, class) = mirrors.get(mirrors.partition_point(|(at, _)| *at <= addr).checked_sub(1)?)?;
        let KlassShape::Mirror { size_at } = self.classes.class_of(mirror)?.shape else { return None };
        let words = self.classes.vm.memory.u32(mirror.wrapping_add(size_at)).ok()?;
        let offset = addr.checked_since(mirror).filter(|&offset| offset < 8 * u64::from(words))?;
        let declared = self.classes.declared_fields(class);
        let field = declared.iter().find(|f| f.is_static && f.offset == offset)?;
        let class = self.classes.klass(class)?;
        Some(format!("static {}.{}", class.name, field.name).into())
    }
}
