//! The type system: modules with their metadata, type handles, method descriptors and fields.
//!
//! Names are made in `naming`. Sources: docs/design/datacontracts: RuntimeTypeSystem.md, Loader.md, EcmaMetadata.md;
//! src/coreclr/vm: methodtable.h, method.hpp, typedesc.h, ceeload.h.

mod checked;
mod continuations;
mod fields;
mod instances;
mod method_desc;
mod module;
mod statics;
mod type_handle;

pub use crate::words::FieldStorage;
pub use fields::FieldDesc;
pub(super) use fields::METHOD_TABLE;
pub(crate) use instances::TypeArg;
pub use instances::{Scope, Struct};
pub(crate) use method_desc::{Classification, DynamicKind, MethodDesc};
pub(crate) use module::ModuleInfo;
pub(super) use type_handle::{HAS_COMPONENT_SIZE, PRIMITIVE_BY_NAME};
pub use type_handle::{Shape, TypeHandle};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::Addr;
use crate::image::metadata::Metadata;
use crate::layout::StructView;
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::coreclr::loader;
use crate::runtimes::coreclr::runtime::Runtime;

/// Maximum number of modules that a warning names.
const NAMED: usize = 8;

/// Types and methods of one runtime, read on demand. Modules are cached.
pub struct TypeSystem<'p> {
    pub(crate) process: &'p Process,
    pub memory: &'p dyn Memory,
    pub runtime: Arc<Runtime>,
    modules: Mutex<HashMap<Addr, Arc<ModuleInfo<'p>>>>,
    instantiations: Mutex<HashMap<Addr, Arc<instances::Instantiations>>>,
    /// The class that all types of continuations share, and their base type.
    continuations: OnceLock<Option<(Addr, Addr)>>,
}

impl<'p> TypeSystem<'p> {
    /// The type system of `runtime`. Nothing is read yet.
    pub fn new(process: &'p Process, runtime: Arc<Runtime>) -> TypeSystem<'p> {
        TypeSystem {
            process,
            memory: &process.memory,
            runtime,
            modules: Mutex::default(),
            instantiations: Mutex::default(),
            continuations: OnceLock::new(),
        }
    }

    pub(crate) fn view<'s>(&'s self, kind: &'s str, addr: Addr) -> StructView<'s> {
        StructView::new(self.memory, &self.runtime.layout, kind, addr)
    }

    /// Returns the module at `addr`, which is read once. Its `missing` says why there is no metadata.
    pub fn module(&self, addr: Addr) -> Arc<ModuleInfo<'p>> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = modules.get(&addr) {
            return known.clone();
        }
        if modules.len() >= limits::MAX_MANAGED_MODULES {
            return Arc::new(ModuleInfo::unread(addr, "more modules than the limit"));
        }
        let copied: usize = modules.values().filter_map(|m| m.metadata.as_ref()).map(Metadata::copied).sum();
        let module = Arc::new(ModuleInfo::read(self, addr, copied < limits::MAX_METADATA_COPIES));
        modules.insert(addr, module.clone());
        module
    }

    /// Returns the manifest modules of all loaded assemblies, as far as the list can be read.
    pub fn loaded_modules(&self) -> Vec<Addr> {
        let assemblies = loader::domain_assemblies(self.memory, &self.runtime).unwrap_or_default();
        assemblies.iter().filter_map(|&a| loader::manifest_module(self.memory, &self.runtime, a)).collect()
    }

    /// MethodTable of a loaded class of the core library, by its name.
    pub(in crate::runtimes::coreclr) fn core_class(&self, name: &str) -> Option<Addr> {
        let module = self.loaded_modules().into_iter().find(|&at| self.module(at).is_core_library())?;
        self.mapped_type_defs(module).into_iter().find(|&at| self.display_name(at) == name)
    }

    /// Returns all modules read so far, by address.
    pub fn modules(&self) -> Vec<Arc<ModuleInfo<'p>>> {
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = modules.values().cloned().collect();
        all.sort_by_key(|m| m.addr);
        all
    }

    /// Message about modules without metadata, among those read so far, and its remedy. `None` if all have metadata.
    pub(crate) fn missing(&self) -> Option<String> {
        let modules = self.modules();
        let missing: Vec<_> = modules.iter().filter(|m| m.missing.is_some()).collect();
        let first = missing.first()?;
        let some: Vec<_> = missing.iter().take(NAMED).map(|m| m.name().into_owned()).collect();
        let more = missing.len() - some.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let mut containers = missing.iter().filter_map(|m| m.container(self));
        let help = match containers.next() {
            Some(program) => {
                let them = if containers.count() + 1 == missing.len() { "they are" } else { "most are" };
                format!("{them} in the single-file program {program}; give its folder with --symbols DIR")
            }
            None => {
                let why = first.missing.as_deref().unwrap_or_default();
                format!("{why}; give the folder of the program's files with --symbols DIR")
            }
        };
        let what = format!("no metadata for {}{more}, so their types and methods appear as tokens", some.join(", "));
        Some(format!("{what}: {help}"))
    }
}
