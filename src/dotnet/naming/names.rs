//! Names of types and methods as SOS prints them.
//!
//! The rules are those of src/coreclr/vm/typestring.cpp (TypeString,
//! TypeNameBuilder) with namespaces, full instantiations and signatures; the
//! signature's are those of sigformat.cpp.

use crate::addr::Addr;
use crate::dotnet::naming::signatures::{self, Context};
use crate::dotnet::types::{Classification, DynamicKind, MethodDesc, ModuleInfo, Shape, TypeHandle, TypeSystem};
use crate::image::metadata::sig::MethodSig;
use crate::image::metadata::{Metadata, Table, Token};
use crate::limits;

/// Characters that a type's name can't hold unescaped (IsTypeNameReservedChar).
const RESERVED: &[char] = &[',', '[', ']', '&', '*', '+', '\\'];

/// Name of the class of dynamic methods, and of IL stubs.
const DYNAMIC_CLASS: &str = "DynamicClass";
const STUB_CLASS: &str = "ILStubClass";

/// Methods of arrays, by slot after the inherited ones (ArrayMethodDesc).
const ARRAY_METHODS: [&str; 3] = ["Get", "Set", "Address"];

/// Text that grows up to a limit.
#[derive(Default)]
pub(in crate::dotnet) struct Text(String);

impl Text {
    pub(in crate::dotnet) fn push(&mut self, text: &str) {
        if self.0.len() < limits::MAX_TYPE_NAME {
            self.0.push_str(text);
        }
    }

    pub(in crate::dotnet) fn is_full(&self) -> bool {
        self.0.len() >= limits::MAX_TYPE_NAME
    }

    pub(in crate::dotnet) fn into_string(mut self) -> String {
        if self.is_full() {
            let cut = (0..=limits::MAX_TYPE_NAME).rev().find(|&at| self.0.is_char_boundary(at));
            self.0.truncate(cut.unwrap_or(0));
            self.0.push('…');
        }
        self.0
    }

    pub(in crate::dotnet) fn escaped(&mut self, name: &str) {
        if !name.contains(RESERVED) {
            return self.push(name);
        }
        let mut out = String::with_capacity(name.len() + 4);
        for c in name.chars() {
            if RESERVED.contains(&c) {
                out.push('\\');
            }
            out.push(c);
        }
        self.push(&out);
    }
}

impl<'p> TypeSystem<'p> {
    /// A method's name with its type, its instantiation and its parameters, as
    /// SOS prints it: ``Lab.Box`1[[System.Int32, System.Private.CoreLib]].Get()``.
    ///
    /// What can't be read is left out of it: a name without metadata is its token.
    pub fn method_name(&self, desc: &MethodDesc) -> String {
        let mut out = Text::default();
        let module = self.module_of(desc.method_table).map(|m| self.module(m)).ok();
        match self.dynamic_kind(desc) {
            Some(DynamicKind::Lcg) => out.push(DYNAMIC_CLASS),
            Some(DynamicKind::IlStub) => out.push(STUB_CLASS),
            None => self.append_type(&mut out, TypeHandle(desc.method_table), 0),
        }
        out.push(".");
        let own = self.own_name(desc, module.as_deref());
        out.push(&own);
        let arguments = self.method_instantiation(desc).unwrap_or_default();
        self.append_instantiation(&mut out, &arguments, 0);
        out.push(&self.parameters(desc, &own, module.as_deref(), &arguments).unwrap_or_default());
        out.into_string()
    }

    /// The name of a method that has no descriptor, from metadata alone.
    pub fn definition_name(&self, module: &ModuleInfo<'p>, token: Token) -> Option<String> {
        let metadata = module.metadata.as_ref()?;
        let row = metadata.method_def(token.rid())?;
        let mut out = Text::default();
        let owner = metadata.type_of_method(token.rid())?;
        self.append_type_def(&mut out, module, Token::new(Table::TypeDef, owner));
        out.push(".");
        if row.name.is_empty() {
            out.push(&format!("(method {token})"));
        }
        out.push(&row.name);
        if let Ok(signature) = MethodSig::parse(row.signature) {
            let context = Context { types: self, module: Some(module), class: &[], method: &[] };
            out.push(&signatures::parameters(&context, &row.name, &signature));
        }
        Some(out.into_string())
    }

    /// A method's name alone.
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

    /// `(Int32, System.String)`
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
        let class = self.class_instantiation(desc.method_table).unwrap_or_default();
        let context = Context { types: self, module, class: &class, method };
        Some(signatures::parameters(&context, name, &signature))
    }

    /// A type's name with its namespace and full instantiation:
    /// ``System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]]``.
    pub fn full_type_name(&self, handle: TypeHandle) -> String {
        let mut out = Text::default();
        self.append_type(&mut out, handle, 0);
        out.into_string()
    }

    /// Append a type, its generic arguments with their assemblies.
    fn append_type(&self, out: &mut Text, handle: TypeHandle, depth: u32) {
        if depth > limits::MAX_TYPE_DEPTH || out.is_full() {
            return out.push("…");
        }
        if handle.0.is_null() {
            return out.push("(null)");
        }
        let suffixed = |out: &mut Text, of: TypeHandle, suffix: &str| {
            self.append_type(out, of, depth + 1);
            out.push(suffix);
        };
        match self.shape(handle) {
            Err(_) => out.push(&format!("(type {})", handle.0)),
            Ok(Shape::SzArray(of)) => suffixed(out, of, "[]"),
            Ok(Shape::Ptr(of)) => suffixed(out, of, "*"),
            Ok(Shape::ByRef(of)) => suffixed(out, of, "&"),
            Ok(Shape::Array(of, rank)) => suffixed(out, of, &dimensions(rank)),
            Ok(Shape::FnPtr(_)) => out.push("(fnptr)"),
            Ok(Shape::Parameter(module, token)) => out.push(&self.parameter_name(module, token)),
            Ok(Shape::Named { module, token, arguments, .. }) => {
                if token.is_nil() {
                    return out.push("(dynamicClass)");
                }
                self.append_type_def(out, &self.module(module), token);
                self.append_instantiation(out, &arguments, depth + 1);
            }
        }
    }

    /// Namespace, enclosing types and name of a TypeDef.
    fn append_type_def(&self, out: &mut Text, module: &ModuleInfo<'p>, token: Token) {
        let Some(metadata) = &module.metadata else {
            return out.push(&format!("{}!{token}", module.name()));
        };
        let chain = self.enclosing_chain(metadata, token);
        for (i, &rid) in chain.iter().rev().enumerate() {
            if i > 0 {
                out.push("+");
            }
            // Each type has a name (II.22.37); none is found where memory was lost.
            match metadata.type_def(rid).filter(|row| !row.name.is_empty()) {
                Some(row) => {
                    if !row.namespace.is_empty() {
                        out.escaped(&row.namespace);
                        out.push(".");
                    }
                    out.escaped(&row.name);
                }
                None => out.push(&unnamed(module, rid, i)),
            }
        }
    }

    /// A TypeDef, and those around it, outwards.
    pub(in crate::dotnet) fn enclosing_chain(&self, metadata: &Metadata<'_>, token: Token) -> Vec<u32> {
        let mut chain = vec![token.rid()];
        while let Some(outer) = chain.last().and_then(|&rid| metadata.enclosing(rid)) {
            if chain.contains(&outer) || chain.len() > limits::MAX_TYPE_DEPTH as usize {
                break;
            }
            chain.push(outer);
        }
        chain
    }

    /// `[[A, Assembly],[B, Assembly]]`
    fn append_instantiation(&self, out: &mut Text, arguments: &[TypeHandle], depth: u32) {
        if arguments.is_empty() {
            return;
        }
        out.push("[");
        for (i, &argument) in arguments.iter().enumerate() {
            if i > 0 {
                out.push(",");
            }
            let assembly = self.assembly_of(argument, 0);
            if assembly.is_some() {
                out.push("[");
            }
            self.append_type(out, argument, depth + 1);
            if let Some(name) = assembly {
                out.push(", ");
                out.push(&name);
                out.push("]");
            }
        }
        out.push("]");
    }

    /// Simple name of a type's assembly; none for a generic parameter.
    fn assembly_of(&self, handle: TypeHandle, depth: u32) -> Option<String> {
        if depth > limits::MAX_TYPE_DEPTH {
            return None;
        }
        match self.shape(handle).ok()? {
            Shape::Named { module, .. } => Some(self.module(module).assembly_name().to_owned()),
            Shape::SzArray(of) | Shape::Ptr(of) | Shape::ByRef(of) | Shape::Array(of, _) => {
                self.assembly_of(of, depth + 1)
            }
            Shape::FnPtr(types) => self.assembly_of(*types.first()?, depth + 1),
            Shape::Parameter(..) => None,
        }
    }

    pub(in crate::dotnet) fn parameter_name(&self, module: Addr, token: Token) -> String {
        let module = self.module(module);
        let name = module.metadata.as_ref().and_then(|m| Some(m.generic_param(token.rid())?.name.into_owned()));
        name.unwrap_or_else(|| format!("(type parameter {token})"))
    }
}

/// What stands for the name of a TypeDef that has none, in its place of the chain.
pub(in crate::dotnet) fn unnamed(module: &ModuleInfo<'_>, rid: u32, place: usize) -> String {
    let token = Token::new(Table::TypeDef, rid);
    if place == 0 { format!("{}!{token}", module.name()) } else { token.to_string() }
}

/// `[,]`; an array of one dimension that is not counted from 0 is `[*]`.
pub(in crate::dotnet) fn dimensions(rank: u32) -> String {
    match rank {
        0 | 1 => "[*]".into(),
        _ => format!("[{}]", ",".repeat(rank.min(limits::MAX_TYPE_DEPTH) as usize - 1)),
    }
}
