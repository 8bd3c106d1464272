//! Types of continuations: one object for each suspended method that was compiled as runtime async (.NET 11 on).
//!
//! The runtime makes these types on demand, one for each layout of a method's stored values. They have no metadata and
//! no fields of their own, and share one EEClass, which refers back to none of them.
//!
//! Sources: src/coreclr/vm: asynccontinuations.cpp; docs/design/datacontracts/RuntimeTypeSystem.md.

use std::fmt::Write as _;

use crate::addr::Addr;
use crate::runtimes::clr_gc::References;
use crate::runtimes::coreclr::types::TypeSystem;

/// Bytes that an object's size counts before its MethodTable.
const HEADER: u64 = 8;

impl TypeSystem<'_> {
    /// Whether a MethodTable is a type of continuations of one layout. False for Continuation itself, and for the
    /// subclasses that the library declares.
    pub(in crate::runtimes::coreclr) fn is_continuation(&self, method_table: Addr) -> bool {
        let shared = self.continuations.get_or_init(|| {
            let pointer = |name| self.runtime.globals.pointer(self.memory, &self.runtime.layout, name).ok();
            let pair = pointer("ContinuationSingletonEEClass").zip(pointer("ContinuationMethodTable"));
            // Both are null until the first such type was made.
            pair.filter(|(class, base)| !class.is_null() && !base.is_null())
        });
        let Some((class, base)) = *shared else { return false };
        let view = self.view("MethodTable", method_table);
        view.ptr("EEClassOrCanonMT") == Ok(class) && view.ptr("ParentMethodTable") == Ok(base)
    }

    /// Name of such a type as SOS makes it from the layout: the size of the data, then the offset and the number of
    /// each run of references in it.
    pub(in crate::runtimes::coreclr) fn continuation_name(&self, method_table: Addr) -> Option<String> {
        if !self.is_continuation(method_table) {
            return None;
        }
        let data = self.runtime.layout.size("ContinuationObject").ok()?;
        let base_size = u64::from(self.view("MethodTable", method_table).u32("BaseSize").ok()?);
        let mut name = format!("Continuation_{}", base_size.checked_sub(HEADER + data)?);
        if self.contains_references(method_table)
            && let Some(References::Series(all)) = References::read(self.memory, method_table)
        {
            for series in &all {
                let len = (base_size as i64).saturating_add(series.size_delta);
                let Some(offset) = series.start.checked_sub(data).filter(|_| len > 0) else { continue };
                // Writing to a String cannot fail.
                write!(name, "_{offset}_{}", len / 8).ok();
            }
        }
        Some(name)
    }
}
