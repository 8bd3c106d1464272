//! Signatures as SOS prints them: `(Int32, System.String ByRef)`.
//!
//! The rules are those of src/coreclr/vm/sigformat.cpp. They differ from those
//! of type names: primitives without namespace, nested types without the types
//! around them, generic arguments in `<>`.

use crate::dotnet::naming::names::Text;
use crate::dotnet::types::{ModuleInfo, PRIMITIVE_BY_NAME, Shape, TypeHandle, TypeSystem};
use crate::image::metadata::sig::{ElementType, MethodSig, Type};
use crate::image::metadata::{Metadata, Table, Token};
use crate::limits;

const UNKNOWN: &str = "**UNKNOWN TYPE**";

/// IMAGE_CEE_CS_CALLCONV_VARARG and its mask (corhdr.h).
const VARARG: u8 = 5;
const CONVENTION_MASK: u8 = 0xf;

/// What a signature's tokens and type parameters refer to.
pub(in crate::dotnet) struct Context<'a, 'p> {
    pub(in crate::dotnet) types: &'a TypeSystem<'p>,
    pub(in crate::dotnet) module: Option<&'a ModuleInfo<'p>>,
    pub(in crate::dotnet) class: &'a [TypeHandle],
    pub(in crate::dotnet) method: &'a [TypeHandle],
}

/// The parameters in parentheses.
///
/// SOS takes the text from the first `(` of the whole signature on, return type
/// included; where that is a function pointer, its parameters and the name once
/// more come first. So do ours.
pub(in crate::dotnet) fn parameters(context: &Context<'_, '_>, name: &str, signature: &MethodSig) -> String {
    let mut out = Text::default();
    let fixed = signature.sentinel.unwrap_or(signature.params.len());
    context.list(&mut out, signature.params.iter().take(fixed), signature.convention & CONVENTION_MASK == VARARG, 0);
    let own = out.into_string();
    let mut ret = Text::default();
    context.append(&mut ret, &signature.ret, 0);
    let ret = ret.into_string();
    match ret.find('(') {
        Some(at) => format!("{} {name}{own}", ret.get(at..).unwrap_or_default()),
        None => own,
    }
}

impl<'a> Context<'a, '_> {
    fn list<'s>(&self, out: &mut Text, params: impl Iterator<Item = &'s Type>, vararg: bool, depth: u32) {
        out.push("(");
        let mut any = false;
        for param in params {
            if out.is_full() {
                break;
            }
            if any {
                out.push(", ");
            }
            any = true;
            self.append(out, param, depth);
        }
        if vararg {
            out.push(if any { ", ..." } else { "..." });
        }
        out.push(")");
    }

    fn append(&self, out: &mut Text, ty: &Type, depth: u32) {
        if depth > limits::MAX_TYPE_DEPTH || out.is_full() {
            return out.push("…");
        }
        let deeper = depth + 1;
        match ty {
            Type::Primitive(element) => out.push(primitive(*element)),
            Type::ValueType(token) | Type::Class(token) => out.push(&self.name_of(*token)),
            Type::Internal(handle) => match self.types.shape(TypeHandle(crate::addr::Addr::new(*handle))) {
                Ok(Shape::Named { module, token, .. }) => {
                    let module = self.types.module(module);
                    out.push(&module.metadata.as_ref().map_or_else(|| token.to_string(), |m| type_def(m, token)));
                }
                _ => out.push(UNKNOWN),
            },
            Type::ByRef(of) => {
                self.append(out, of, deeper);
                out.push(" ByRef");
            }
            Type::Ptr(of) => {
                self.append(out, of, deeper);
                out.push("*");
            }
            Type::SzArray(of) => {
                self.append(out, of, deeper);
                out.push("[]");
            }
            Type::Array { element, rank, .. } => {
                self.append(out, element, deeper);
                out.push(&brackets(*rank));
            }
            Type::Var(n) => self.parameter(out, self.class, *n, "!", deeper),
            Type::MVar(n) => self.parameter(out, self.method, *n, "!!", deeper),
            Type::GenericInst { definition, arguments } => {
                self.append(out, definition, deeper);
                out.push("<");
                for (i, argument) in arguments.iter().enumerate() {
                    if i > 0 {
                        out.push(",");
                    }
                    self.append(out, argument, deeper);
                }
                out.push(">");
            }
            Type::FnPtr(signature) => {
                self.append(out, &signature.ret, deeper);
                out.push(" ");
                let vararg = signature.convention & CONVENTION_MASK == VARARG;
                self.list(out, signature.params.iter(), vararg, deeper);
            }
            Type::Modified { inner, .. } | Type::Pinned(inner) => self.append(out, inner, deeper),
        }
    }

    fn parameter(&self, out: &mut Text, of: &[TypeHandle], n: u32, prefix: &str, depth: u32) {
        match of.get(n as usize) {
            Some(&handle) => self.handle(out, handle, depth),
            None => out.push(&format!("{prefix}{n}")),
        }
    }

    fn handle(&self, out: &mut Text, handle: TypeHandle, depth: u32) {
        if depth > limits::MAX_TYPE_DEPTH || out.is_full() {
            return out.push("…");
        }
        let deeper = depth + 1;
        match self.types.shape(handle) {
            Err(_) => out.push(UNKNOWN),
            Ok(Shape::Named { module, token, primitive: kind, arguments, .. }) => {
                if let Some(element) = ElementType::from_number(kind) {
                    return out.push(primitive(element));
                }
                let module = self.types.module(module);
                let name = module.metadata.as_ref().map_or_else(|| token.to_string(), |m| type_def(m, token));
                match name.strip_prefix("System.") {
                    Some(short) if kind == PRIMITIVE_BY_NAME => out.push(short),
                    _ => out.push(&name),
                }
                if !arguments.is_empty() {
                    out.push("<");
                    for (i, &argument) in arguments.iter().enumerate() {
                        if i > 0 {
                            out.push(",");
                        }
                        self.handle(out, argument, deeper);
                    }
                    out.push(">");
                }
            }
            Ok(Shape::ByRef(of)) => {
                self.handle(out, of, deeper);
                out.push(" ByRef");
            }
            Ok(Shape::Ptr(of)) => {
                self.handle(out, of, deeper);
                out.push("*");
            }
            Ok(Shape::SzArray(of)) => {
                self.handle(out, of, deeper);
                out.push("[]");
            }
            Ok(Shape::Array(of, rank)) => {
                self.handle(out, of, deeper);
                out.push(&brackets(rank));
            }
            Ok(Shape::Parameter(module, token)) => out.push(&self.types.parameter_name(module, token)),
            Ok(Shape::FnPtr(types)) => {
                let Some((ret, params)) = types.split_first() else { return out.push(UNKNOWN) };
                self.handle(out, *ret, deeper);
                out.push(" (");
                for (i, &param) in params.iter().enumerate() {
                    if i > 0 {
                        out.push(", ");
                    }
                    self.handle(out, param, deeper);
                }
                out.push(")");
            }
        }
    }

    /// Namespace and name of a TypeDef or TypeRef; a TypeSpec has none here.
    fn name_of(&self, token: Token) -> String {
        let Some(metadata) = self.module.and_then(|m| m.metadata.as_ref()) else { return token.to_string() };
        match token.table() {
            Some(Table::TypeDef) => type_def(metadata, token),
            Some(Table::TypeRef) => match metadata.type_ref(token.rid()) {
                Some(row) => qualified(&row.namespace, &row.name),
                None => token.to_string(),
            },
            _ => String::new(),
        }
    }
}

fn type_def(metadata: &Metadata<'_>, token: Token) -> String {
    metadata.type_def(token.rid()).map_or_else(|| token.to_string(), |row| qualified(&row.namespace, &row.name))
}

fn qualified(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

/// `[,]`
fn brackets(rank: u32) -> String {
    format!("[{}]", ",".repeat((rank.clamp(1, limits::MAX_TYPE_DEPTH) - 1) as usize))
}

fn primitive(element: ElementType) -> &'static str {
    use ElementType as E;
    match element {
        E::Void => "Void",
        E::Boolean => "Boolean",
        E::Char => "Char",
        E::I1 => "SByte",
        E::U1 => "Byte",
        E::I2 => "Int16",
        E::U2 => "UInt16",
        E::I4 => "Int32",
        E::U4 => "UInt32",
        E::I8 => "Int64",
        E::U8 => "UInt64",
        E::R4 => "Single",
        E::R8 => "Double",
        E::String => "System.String",
        E::TypedByRef => "TypedReference",
        E::I => "IntPtr",
        E::U => "UIntPtr",
        E::Object => "System.Object",
    }
}
