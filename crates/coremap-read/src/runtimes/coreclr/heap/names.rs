//! Names of the fields, elements and static variables through which objects are referenced.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::limits;
use crate::runtimes::api::{self, TypeIndex};
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::threads::threads;
use crate::runtimes::coreclr::types::{FieldDesc, FieldStorage, Scope, TypeSystem};

/// CorElementType of a field that is a value type (ECMA-335 II.23.1.16).
pub(crate) const VALUE_TYPE: u8 = 0x11;

/// Static variables of one module by address.
type OfModule = Arc<HashMap<Addr, Arc<str>>>;

/// Words between the name of a thread static and the thread whose value it is.
pub(in crate::runtimes::coreclr) const OF_THREAD: &str = " of thread ";

/// Static variables found so far.
#[derive(Default)]
pub(super) struct Statics(Mutex<Looked>);

#[derive(Default)]
struct Looked {
    of: HashMap<Addr, OfModule>,
    /// Number of fields read.
    fields: usize,
    modules: Option<Arc<[Addr]>>,
}

impl Heap<'_> {
    /// Name of the field at `offset` in objects that are not arrays.
    pub(super) fn name_of_field(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        let info = self.method_table(kind)?;
        name_at(&self.types, &self.types.object_fields(info.address), offset, None, 0)
    }

    /// Name of the field at `rest` within each element of an array of structs.
    pub(super) fn name_in_element(&self, kind: TypeIndex, rest: u64) -> Option<String> {
        let info = self.method_table(kind)?;
        let element = self.types.element_type(info.address)?;
        let own = self.types.own_fields(element).ok().filter(|_| self.types.is_value_type(element) == Ok(true))?;
        // The only field of a number is not worth naming.
        let mut instance = own.iter().filter(|f| f.storage == FieldStorage::Instance);
        let number = instance.next().is_some_and(|f| is_number(f.element)) && instance.next().is_none();
        if number { None } else { name_at(&self.types, &own, rest, None, 0) }
    }

    /// Name of the static variable at `place`. Searches the modules of the types in `near` first, then all others.
    pub(super) fn name_of_static(&self, addr: Addr, near: &[TypeIndex]) -> Option<Arc<str>> {
        for &kind in near {
            let Some(info) = self.method_table(kind) else { continue };
            let of = self.types.element_type(info.address).unwrap_or(info.address);
            let Ok(module) = self.types.module_of(of) else { continue };
            if let Some(name) = self.statics_of(module).get(&addr) {
                return Some(name.clone());
            }
        }
        self.all_modules().iter().find_map(|&module| self.statics_of(module).get(&addr).cloned())
    }

    /// All static variables that reference objects.
    pub(super) fn names_of_statics(&self) -> HashMap<Addr, Arc<str>> {
        let mut out = HashMap::new();
        for &module in self.all_modules().iter() {
            out.extend(self.statics_of(module).iter().map(|(at, name)| (*at, name.clone())));
        }
        out
    }

    /// Modules that the runtime lists, and those of the heap's types: the core may lack the list.
    fn all_modules(&self) -> Arc<[Addr]> {
        let find = || {
            let mut all = self.types.loaded_modules();
            let mut known: HashSet<Addr> = all.iter().copied().collect();
            for kind in 0..api::Heap::types(self) as u32 {
                let module =
                    self.method_table(TypeIndex(kind)).and_then(|info| self.types.module_of(info.address).ok());
                all.extend(module.filter(|module| known.insert(*module)));
            }
            all.into()
        };
        let mut looked = self.statics.0.lock().unwrap_or_else(PoisonError::into_inner);
        looked.modules.get_or_insert_with(find).clone()
    }

    /// Static references of a module's types, by address.
    fn statics_of(&self, module: Addr) -> OfModule {
        let mut looked = self.statics.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = looked.of.get(&module) {
            return known.clone();
        }
        let had = limits::MAX_FIELDS_OF_STATICS.saturating_sub(looked.fields);
        let mut left = had;
        let found = Arc::new(self.read_statics(module, &mut left));
        looked.fields = limits::MAX_FIELDS_OF_STATICS.saturating_sub(left);
        looked.of.insert(module, found.clone());
        if had > 0 && left == 0 {
            let why = "types have more fields than the limit; some statics have no names";
            self.types.process.diag.note(WarningCode::Limit, why);
        }
        found
    }

    fn read_statics(&self, module: Addr, left: &mut usize) -> HashMap<Addr, Arc<str>> {
        let types = &self.types;
        let threads = threads(types.process, &types.runtime).map(|(threads, _)| threads).unwrap_or_default();
        let mut out: HashMap<Addr, Arc<str>> = HashMap::new();
        for field in types.static_fields(module, left).into_iter().filter(FieldDesc::is_object) {
            let name = || format!("{}.{}", types.display_name(field.method_table), types.field_name(&field));
            if let Some(at) = types.static_address(&field) {
                out.insert(at, format!("static {}", name()).into());
            }
            if field.storage != FieldStorage::ThreadStatic {
                continue;
            }
            for thread in threads {
                if out.len() >= limits::MAX_STATICS {
                    break;
                }
                if let Some(at) = types.thread_static_address(&field, thread.address) {
                    let of = thread.os_id.map_or_else(|| "?".into(), |id| id.to_string());
                    out.insert(at, format!("thread static {}{OF_THREAD}{of}", name()).into());
                }
            }
        }
        out
    }
}

/// Whether fields of this CorElementType are plain numbers (ECMA-335 II.23.1.16: BOOLEAN to R8, I, U).
fn is_number(element: u8) -> bool {
    matches!(element, 0x02..=0x0d | 0x18 | 0x19)
}

/// Name of the field at `offset` as `field` or `field.inner`. `scope`: type arguments of the fields' owner, if they
/// differ from those of each field's own MethodTable.
fn name_at(
    types: &TypeSystem<'_>,
    fields: &[FieldDesc],
    offset: u64,
    scope: Option<&Scope>,
    depth: u32,
) -> Option<String> {
    let instance = |f: &&FieldDesc| f.storage == FieldStorage::Instance && f.offset <= offset;
    let field = fields.iter().filter(instance).max_by_key(|f| f.offset)?;
    let name = types.field_name(field);
    // Bytes between fields have no name: the stored values of a continuation follow its last field.
    if field.element != VALUE_TYPE {
        return (field.offset == offset).then_some(name);
    }
    if depth >= limits::MAX_TYPE_DEPTH {
        return Some(name);
    }
    let own = scope.cloned().unwrap_or_else(|| types.scope_of(field.method_table));
    let inner = types.field_struct(field, &own).and_then(|inner| {
        let own = types.own_fields(inner.method_table).ok()?;
        name_at(types, &own, offset - field.offset, Some(&inner.scope), depth + 1)
    });
    Some(match inner {
        Some(inner) => format!("{name}.{inner}"),
        None => name,
    })
}
