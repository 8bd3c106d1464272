//! Whether an address that anyone may have named is a MethodTable or a MethodDesc: any word can be read as one.

use crate::addr::Addr;
use crate::layout::ViewError;
use crate::runtimes::coreclr::types::{Classification, MethodDesc, TypeSystem};

impl TypeSystem<'_> {
    /// Whether a MethodTable is at `address`: its class leads back to it, or to one of the same class. That is the
    /// runtime's own test (methodtable.cpp, MethodTable::Validate).
    ///
    /// # Errors
    /// Where its class is not in the core.
    pub fn is_method_table(&self, address: Addr) -> Result<bool, ViewError> {
        let class = self.ee_class(address)?;
        let back = self.view("EEClass", class).ptr("MethodTable")?;
        Ok(back == address || (!back.is_null() && self.ee_class(back)? == class))
    }

    /// The module of the MethodTable at `address`, if one is there. Any word can be read as one: where its class is not in
    /// the core, it must name a type of a module that is loaded.
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

    /// The descriptor at `addr`, if one is there. Any word can be read as one: this must lead to a MethodTable whose
    /// type has such a method, or have a signature of its own.
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
