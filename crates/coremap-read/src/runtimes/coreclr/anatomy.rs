//! Which bytes of CoreCLR's objects are structure and which are values, by type.

use crate::addr::Addr;
use crate::runtimes::api::anatomy::{Anatomy, ScrubRules};
use crate::runtimes::clr_gc;
use crate::runtimes::coreclr::CoreClr;

/// Fields whose values appear in answers: declaring class, name, size in bytes.
const FIELDS: [(&str, &str, u64); 1] = [("System.Exception", "_HResult", 4)];

impl Anatomy for CoreClr<'_> {
    fn rules(&self) -> Option<ScrubRules> {
        Some(clr_gc::forms(self.object_heap()?, |method_table| fields(self, method_table)))
    }
}

/// Returns the [`FIELDS`] that instances of a type have, as offset and size in bytes.
fn fields(runtime: &CoreClr<'_>, method_table: Addr) -> Vec<(u64, u64)> {
    let types = runtime.types();
    let bases = types.bases(method_table);
    let of = |class: &str| bases.iter().find(|at| types.display_name(**at) == class).copied();
    let mut out = Vec::new();
    for (class, name, len) in FIELDS {
        let Some(class) = of(class) else { continue };
        let all = types.object_fields(class);
        let field = all.iter().find(|field| field.method_table == class && types.field_name(field) == name);
        // If field names can't be read, the runtime's own layout may have the offset.
        let described = || runtime.types().runtime.layout.positive("Exception", name).ok();
        out.extend(field.map(|field| field.offset).or_else(described).map(|offset| (offset, len)));
    }
    out
}
