//! Names the type or method whose descriptor is at an address.

use crate::addr::Addr;
use crate::bytes::printable;
use crate::runtimes::api::Structure;
use crate::runtimes::coreclr::types::TypeSystem;

impl TypeSystem<'_> {
    /// The MethodTable or MethodDesc at `addr`. `None` unless it belongs to a module.
    pub(in crate::runtimes::coreclr) fn descriptor_at(&self, addr: Addr) -> Option<Structure> {
        if let Some(module) = self.module_of_type_at(addr).and_then(|module| self.name_of_module(module)) {
            return Some(Structure::Descriptor { kind: "MethodTable", name: self.display_name(addr), module });
        }
        let desc = self.checked_method_desc(addr)?;
        let module = self.module_of(desc.method_table).ok().and_then(|module| self.name_of_module(module))?;
        Some(Structure::Descriptor { kind: "MethodDesc", name: self.method_name(&desc), module })
    }

    /// File name of a module. `None` if it has neither a file nor metadata, since then it is no module.
    fn name_of_module(&self, module: Addr) -> Option<String> {
        let module = self.module(module);
        let known = module.metadata.is_some() || !module.path.is_empty();
        known.then(|| printable(&module.name()).into_owned())
    }
}
