//! Checks whether an untrusted address is a MethodTable or a MethodDesc.

use crate::addr::Addr;
use crate::layout::ViewError;
use crate::runtimes::coreclr::types::{Classification, MethodDesc, TypeSystem};

impl TypeSystem<'_> {
    /// Whether a MethodTable is at `address`: its class must refer back to it, or to one of the same class. This is the
    /// runtime's own test (methodtable.cpp, MethodTable::Validate).
    ///
    /// # Errors
    /// If its class is not in the core.
    pub fn is_method_table(&self, address: Addr) -> Result<bool, ViewError> {
        // Types of continuations share a class that refers back to none of them.
        if self.is_continuation(address) {
            return Ok(true);
        }
        let class = self.ee_class(address)?;
        let back = self.view("EEClass", class).ptr("MethodTable")?;
        Ok(back == address || (!back.is_null() && self.ee_class(back)? == class))
    }

    /// Module of the MethodTable at `address`, if one is there. If its class is not in the core, it must name a type of
    /// a loaded module, since any word could be read as a MethodTable.
    pub fn module_of_type_at(&self, address: Addr) -> Option<Addr> {
        if address.is_null() || !address.is_aligned(8) {
            return None;
        }
        let agrees = self.is_method_table(address);
        let module = self.module_of(address).ok().filter(|m| !m.is_null() && agrees != Ok(false))?;
        let named = || {
            let rid = self.type_token(address).ok()?.rid();
            let known = self.loaded_modules().contains(&module).then(|| self.module(module))?;
            known.metadata.as_ref()?.type_def(rid).map(|_| module)
        };
        if agrees == Ok(true) { Some(module) } else { named() }
    }

    /// The descriptor at `addr`, if one is there. It must refer to a MethodTable whose type has such a method, or have
    /// a signature of its own.
    pub fn checked_method_desc(&self, addr: Addr) -> Option<MethodDesc> {
        use Classification as C;
        let desc = Some(addr).filter(|a| a.is_aligned(8)).and_then(|a| self.method_desc(a).ok())?;
        let of = desc.method_table;
        let module = self.module_of_type_at(of)?;
        if matches!(desc.classification, C::Dynamic | C::Array) {
            return self.stored_signature(&desc).is_some_and(|s| !s.is_empty()).then_some(desc);
        }
        let module = self.module(module);
        let declared = match &module.metadata {
            Some(metadata) => metadata.type_of_method(desc.token.rid()) == Some(self.type_token(of).ok()?.rid()),
            None => desc.token.rid() != 0 && !module.path.is_empty(),
        };
        declared.then_some(desc)
    }
}
