//! The fields of a MethodTable behind its methods and interfaces: a generic type's definition and arguments, and the
//! statics of types that were made at run time.
//!
//! Compiled types have relative pointers of 4 bytes there, types made at run time whole pointers.
//!
//! Source: Common/src/Internal/Runtime/MethodTable.cs (GetFieldOffset).

use crate::addr::Addr;
use crate::runtimes::nativeaot::metadata::format;
use crate::runtimes::nativeaot::runtime::Runtime;

/// Bytes of a relative pointer, and of an absolute one.
const RELATIVE: u64 = 4;
const ABSOLUTE: u64 = 8;

/// Maximum number of type arguments of a type.
const MAX_ARGUMENTS: u32 = 64;

/// Maximum bytes of the optional fields that are decoded.
const MAX_OPTIONAL: u64 = 8;

/// A generic type.
pub(super) struct Instance {
    /// MethodTable of its definition.
    pub(super) definition: Addr,
    /// Its arguments. `None` if they can't be read.
    pub(super) arguments: Option<Vec<Addr>>,
    /// First address behind both fields.
    behind: Addr,
    /// Address of the optional fields, of a type made at run time.
    optional: Option<Addr>,
}

/// Statics of a type that was made at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnStatics {
    /// Slot of the handle to the object with the statics that reference objects.
    pub(super) slot: Option<Addr>,
    /// Index of its thread statics.
    pub(super) thread_index: Option<i64>,
}

/// Reads the generic type at `at`, which has these `flags`. `manager`: what the first of the fields refers to in all
/// types of a module. `None` if it is not generic.
pub(super) fn instance(runtime: &Runtime<'_>, manager: Option<Addr>, at: Addr, flags: u32) -> Option<Instance> {
    if flags & runtime.flag("IsGeneric") == 0 {
        return None;
    }
    let dynamic = flags & runtime.flag("IsDynamicType") != 0;
    let width = if dynamic { ABSOLUTE } else { RELATIVE };
    let view = runtime.view("MethodTable", at);
    let (slots, interfaces) =
        (u64::from(view.u16("m_usNumVtableSlots").ok()?), u64::from(view.u16("m_usNumInterfaces").ok()?));
    let behind_slots = view.addr_of("m_VTable").ok()?.checked_add(slots.checked_mul(ABSOLUTE)?)?;
    // Known targets confirm the address, and show whether interfaces are relative pointers.
    let first = |size: u64| {
        let field = behind_slots.checked_add(interfaces.checked_mul(size)?)?;
        (dynamic || Some(relative(runtime, field)?) == manager).then_some(field)
    };
    let first = first(ABSOLUTE).or_else(|| first(RELATIVE))?;
    let has = |name| flags & runtime.flag(name) != 0;
    // All types have the pointer to writable data.
    let before = 2 + ["HasDispatchMap", "HasFinalizer"].iter().filter(|name| has(name)).count() as u64;
    let optional = first.checked_add(before * width).filter(|_| has("HasOptionalFields"));
    let more = ["HasOptionalFields", "HasSealedVTableEntries"].iter().filter(|name| has(name)).count() as u64;
    let field = first.checked_add((before + more) * width)?;
    let definition = if dynamic { runtime.memory().ptr(field).ok()? } else { reference(runtime, field)? };
    let own = field.checked_add(width)?;
    let count = parameters(runtime, definition)?;
    let arguments = match (count, dynamic) {
        (1, true) => runtime.memory().ptr(own).ok().map(|one| vec![one]),
        (1, false) => reference(runtime, own).map(|one| vec![one]),
        (_, true) => {
            let list = runtime.memory().ptr(own).ok();
            list.and_then(|list| {
                (0..u64::from(count)).map(|i| runtime.memory().ptr(list.checked_add(8 * i)?).ok()).collect()
            })
        }
        (_, false) => {
            let list = relative(runtime, own);
            list.and_then(|list| (0..u64::from(count)).map(|i| reference(runtime, list.checked_add(4 * i)?)).collect())
        }
    };
    Some(Instance { definition, arguments, behind: own.checked_add(width)?, optional: optional.filter(|_| dynamic) })
}

/// Number of type parameters of a generic definition, which has no objects.
fn parameters(runtime: &Runtime<'_>, definition: Addr) -> Option<u32> {
    let view = runtime.view("MethodTable", definition);
    let flags = view.u32("m_uFlags").ok()?;
    // From 9.0 on its base size is the number of parameters.
    let count = match view.u16("GenericParameterCount") {
        Ok(count) => u32::from(count),
        Err(_) => view.u32("m_uBaseSize").ok()?,
    };
    let is_definition = flags & runtime.flag("KindMask") == runtime.flag("GenericDefinition");
    (is_definition && (1..=MAX_ARGUMENTS).contains(&count)).then_some(count)
}

/// Target of the relative pointer at `at`.
pub(super) fn relative(runtime: &Runtime<'_>, at: Addr) -> Option<Addr> {
    at.checked_offset(i64::from(runtime.memory().u32(at).ok()? as i32))
}

/// Type that the relative pointer at `at` refers to: directly, or through a cell if its lowest bit is set.
fn reference(runtime: &Runtime<'_>, at: Addr) -> Option<Addr> {
    let target = relative(runtime, at)?;
    if target.is_aligned(2) { Some(target) } else { runtime.memory().ptr(target.checked_sub(1)?).ok() }
}

/// Statics of the type at `at`. `None` if it was compiled.
pub(super) fn own_statics(runtime: &Runtime<'_>, at: Addr, flags: u32) -> Option<OwnStatics> {
    if flags & runtime.flag("IsDynamicType") == 0 {
        return None;
    }
    let found = instance(runtime, None, at, flags)?;
    // The template that the type was made from.
    let mut next = found.behind.checked_add(ABSOLUTE)?;
    let bit = |name| runtime.layout.constant("DynamicTypeFlags", name).ok();
    let has = match bit("InOptionalFields") {
        Some(_) => optional_number(runtime, found.optional?)?,
        None => {
            let own = runtime.memory().u64(next).ok()?;
            next = next.checked_add(ABSOLUTE)?;
            own
        }
    };
    let mut take = |name| -> Option<Addr> {
        let at = next;
        (has & bit(name)? != 0).then(|| {
            next = next.saturating_add(ABSOLUTE);
            runtime.memory().ptr(at).ok()
        })?
    };
    let (slot, _numbers, thread) = (take("HasGcStatics"), take("HasOtherStatics"), take("HasThreadStatics"));
    let index = thread.and_then(|cell| runtime.view("TypeThreadStaticIndex", cell).u64("Index").ok());
    Some(OwnStatics { slot, thread_index: index.map(|index| index as i64) })
}

/// The first number of a type's optional fields, whose tag is 0.
fn optional_number(runtime: &Runtime<'_>, field: Addr) -> Option<u64> {
    let at = runtime.memory().ptr(field).ok()?;
    let len = runtime.memory().readable(at, MAX_OPTIONAL);
    let bytes = runtime.memory().bytes(at, usize::try_from(len).ok()?).ok()?;
    // The highest bit marks the last field.
    (bytes.first()? & 0x7f == 0).then(|| format::unsigned(&bytes, 1).map(|(number, _)| u64::from(number)))?
}
