//! Validates MethodTables and reads the size of their objects.
//!
//! Sources: src/coreclr/nativeaot/Runtime/inc/MethodTable.h; Common/src/Internal/Runtime/MethodTable.cs

use std::sync::Arc;

use crate::addr::{Addr, WORD};
use crate::layout::ViewError;
use crate::limits;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::clr_gc::{ALIGN, MIN_BASE_SIZE, MIN_OBJECT, MethodTableInfo, MethodTables};
use crate::runtimes::nativeaot::runtime::Runtime;

/// MethodTables of NativeAOT found so far.
pub(super) struct Tables<'p> {
    runtime: Arc<Runtime<'p>>,
    pub(super) cache: MethodTables,
}

impl<'p> Tables<'p> {
    pub(super) fn new(runtime: Arc<Runtime<'p>>) -> Tables<'p> {
        let free = MethodTableInfo {
            address: runtime.free,
            flags: runtime.flag("HasComponentSize") | 1,
            base_size: MIN_OBJECT as u32,
            component_size: 1,
            free: true,
            string: false,
        };
        let cache = MethodTables::new(free, Some(runtime.free));
        Tables { runtime, cache }
    }

    pub(super) fn lookup(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.cache.lookup(address, |at| read(&self.runtime, at).ok().flatten())
    }
}

/// Reads the MethodTable at `address`. Nothing refers back to it, so all of its fields must be plausible.
pub(in crate::runtimes::nativeaot) fn read(
    runtime: &Runtime<'_>,
    address: Addr,
) -> Result<Option<MethodTableInfo>, ViewError> {
    if address.is_null() || !address.is_aligned(ALIGN) {
        return Ok(None);
    }
    let Some(info) = sizes(runtime, address)? else { return Ok(None) };
    let (array, parameterized) = (runtime.flag("ElementSzArray"), runtime.flag("Parameterized"));
    let is_array = [array, runtime.flag("ElementArray")].contains(&element_type(runtime, info.flags));
    let kind = info.flags & runtime.flag("KindMask");
    let counted = info.component_size != 0 || is_array;
    // Only arrays and strings have a length, and only arrays have objects of a parameterized type.
    if (counted && !is_array && !info.string) || (kind == parameterized) != is_array || kind > parameterized {
        return Ok(None);
    }
    // Base type, or element type of an array. System.Object has none.
    let related = runtime.view("MethodTable", address).ptr("m_pBaseType")?;
    let sane = if related.is_null() {
        !is_array
    } else {
        related.is_aligned(ALIGN) && runtime.memory().readable(related, MIN_OBJECT) == MIN_OBJECT
    };
    Ok(sane.then_some(info))
}

/// Element type in NativeAOT's numbering (EETypeElementType).
pub(in crate::runtimes::nativeaot) fn element_type(runtime: &Runtime<'_>, flags: u32) -> u32 {
    flags.checked_shr(runtime.flag("ElementTypeShift")).unwrap_or(0) & runtime.flag("ElementTypeMask")
}

/// Element types whose values are references.
const REFERENCES: [&str; 5] =
    ["ElementClass", "ElementInterface", "ElementSystemArray", "ElementArray", "ElementSzArray"];

/// Whether this is the type of arrays whose elements are references, by the type of the elements.
pub(super) fn is_array_of_references(runtime: &Runtime<'_>, info: &MethodTableInfo) -> bool {
    let arrays = [runtime.flag("ElementArray"), runtime.flag("ElementSzArray")];
    if u64::from(info.component_size) != WORD || !arrays.contains(&element_type(runtime, info.flags)) {
        return false;
    }
    let related = runtime.view("MethodTable", info.address).ptr("m_pRelatedParameterType");
    let flags = related.and_then(|element| runtime.view("MethodTable", element).u32("m_uFlags"));
    flags.is_ok_and(|flags| REFERENCES.iter().any(|name| runtime.flag(name) == element_type(runtime, flags)))
}

fn sizes(runtime: &Runtime<'_>, address: Addr) -> Result<Option<MethodTableInfo>, ViewError> {
    let view = runtime.view("MethodTable", address);
    let (flags, base_size) = (view.u32("m_uFlags")?, view.u32("m_uBaseSize")?);
    let component_size = if flags & runtime.flag("HasComponentSize") == 0 { 0 } else { flags as u16 };
    let info = MethodTableInfo {
        address,
        flags,
        base_size,
        component_size,
        free: false,
        string: MethodTableInfo::is_string(base_size, component_size),
    };
    let sized = (MIN_BASE_SIZE..=limits::MAX_BASE_SIZE).contains(&base_size);
    // Only strings and arrays may have an unaligned or smaller base size.
    let aligned =
        component_size != 0 || (u64::from(base_size).is_multiple_of(ALIGN) && u64::from(base_size) >= MIN_OBJECT);
    Ok((sized && aligned).then_some(info))
}
