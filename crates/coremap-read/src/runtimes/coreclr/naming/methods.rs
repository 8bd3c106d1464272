//! Names of methods as SOS prints them: type, name, type arguments, parameters.

use crate::image::metadata::sig::MethodSig;
use crate::image::metadata::{Table, Token};
use crate::limits;
use crate::runtimes::coreclr::types::{
    Classification, DynamicKind, MethodDesc, ModuleInfo, TypeArg, TypeHandle, TypeSystem,
};

use super::form::{Context, chain};
use super::text::Text;

/// Names that replace the type of dynamic methods and of IL stubs.
const DYNAMIC_CLASS: &str = "DynamicClass";
const STUB_CLASS: &str = "ILStubClass";

/// Methods of arrays, by slot after the inherited ones (ArrayMethodDesc).
const ARRAY_METHODS: [&str; 3] = ["Get", "Set", "Address"];

impl<'p> TypeSystem<'p> {
    /// Name of a method with its type, type arguments and parameters, as SOS prints it: ``Lab.Box`1[[System.Int32,
    /// System.Private.CoreLib]].Get()``.
    ///
    /// Unreadable parts are left out. Without metadata the token replaces the name.
    pub fn method_name(&self, desc: &MethodDesc) -> String {
        let module = self.module_of(desc.method_table).map(|m| self.module(m)).ok();
        let mut out = Text::default();
        match self.dynamic_kind(desc) {
            Some(DynamicKind::Lcg) => out.push(DYNAMIC_CLASS),
            Some(DynamicKind::IlStub) => out.push(STUB_CLASS),
            None => out = self.append_type(out, TypeHandle(desc.method_table)),
        }
        out.push(".");
        let own = self.own_name(desc, module.as_deref());
        out.push(&own);
        let arguments = self.method_instantiation(desc).unwrap_or_default();
        out = self.append_arguments(out, &arguments);
        out.push(&self.parameters(desc, &own, module.as_deref(), &arguments).unwrap_or_default());
        out.into_string()
    }

    /// Name of a method without a descriptor, from metadata alone.
    pub fn definition_name(&self, module: &ModuleInfo<'p>, token: Token) -> Option<String> {
        let metadata = module.metadata.as_ref()?;
        let row = metadata.method_def(token.rid())?;
        let owner = metadata.type_of_method(token.rid())?;
        let mut out = self.append_definition(Text::default(), &chain(module, Token::new(Table::TypeDef, owner)));
        out.push(".");
        if row.name.is_empty() {
            out.push(&format!("(method {token})"));
        }
        out.push(&row.name);
        if let Ok(signature) = MethodSig::parse(row.signature) {
            let context = Context { module: Some(module), class: &[], method: &[] };
            out.push(&self.parameters_text(context, &row.name, &signature));
        }
        Some(out.into_string())
    }

    /// Name of a method without type and parameters.
    pub fn own_name(&self, desc: &MethodDesc, module: Option<&ModuleInfo<'p>>) -> String {
        match desc.classification {
            Classification::Dynamic => {
                let name = self.view("DynamicMethodDesc", desc.addr).ptr("MethodName");
                name.ok()
                    .filter(|n| !n.is_null())
                    .and_then(|n| self.memory.text(n, limits::MAX_TYPE_NAME).ok())
                    .unwrap_or_else(|| "(no name)".into())
            }
            Classification::Array => {
                let inherited = self.view("MethodTable", desc.method_table).u16("NumVirtuals").unwrap_or(0);
                let index = usize::from(desc.slot.saturating_sub(inherited));
                ARRAY_METHODS.get(index).copied().unwrap_or(".ctor").to_owned()
            }
            _ => module
                .and_then(|m| m.metadata.as_ref())
                .and_then(|m| Some(m.method_def(desc.token.rid())?.name.into_owned()))
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| format!("(method {})", desc.token)),
        }
    }

    /// Parameters of a method, such as `(Int32, System.String)`.
    fn parameters(
        &self,
        desc: &MethodDesc,
        name: &str,
        module: Option<&ModuleInfo<'p>>,
        method: &[TypeHandle],
    ) -> Option<String> {
        let stored = self.stored_signature(desc);
        let blob = match &stored {
            Some(bytes) => bytes.as_slice(),
            None => module?.metadata.as_ref()?.method_def(desc.token.rid())?.signature,
        };
        let signature = MethodSig::parse(blob).ok()?;
        let loaded = |handles: &[TypeHandle]| handles.iter().map(|&h| TypeArg::Loaded(h)).collect::<Vec<_>>();
        let class = loaded(&self.class_instantiation(desc.method_table).unwrap_or_default());
        let context = Context { module, class: &class, method: &loaded(method) };
        Some(self.parameters_text(context, name, &signature))
    }
}
