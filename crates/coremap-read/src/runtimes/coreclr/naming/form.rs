//! Structure of a type for naming, both for loaded types and for types in signatures.

use crate::addr::Addr;
use crate::image::metadata::sig::{ElementType, MethodSig, Type};
use crate::image::metadata::{Metadata, Table, Token};
use crate::limits;
use crate::runtimes::coreclr::types::{ModuleInfo, PRIMITIVE_BY_NAME, Shape, TypeArg, TypeHandle, TypeSystem};

use super::style::{FUNCTION, Style, Suffix};

/// SOS's text for a type that it can't name.
const UNKNOWN: &str = "**UNKNOWN TYPE**";

/// IMAGE_CEE_CS_CALLCONV_VARARG and its mask (corhdr.h).
const VARARG: u8 = 5;
const CONVENTION_MASK: u8 = 0xf;

/// Scope in which a signature's tokens and type parameters are resolved.
#[derive(Clone, Copy)]
pub(super) struct Context<'a, 'p> {
    pub(super) module: Option<&'a ModuleInfo<'p>>,
    pub(super) class: &'a [TypeArg],
    pub(super) method: &'a [TypeArg],
}

/// A type to be named.
#[derive(Clone, Copy)]
pub(super) enum TypeToName<'a, 'p> {
    /// A loaded type.
    Loaded(TypeHandle),
    /// A type in a signature.
    Signature(&'a Type, Context<'a, 'p>),
}

/// A name in a chain of nested types.
pub(super) enum Link {
    Name(String),
    /// Replacement for an unreadable name. It is not escaped and has no arity.
    Placeholder(String),
}

/// Structure of a type.
pub(super) enum Form<'a, 'p> {
    Suffixed(TypeToName<'a, 'p>, Suffix),
    Primitive(ElementType),
    /// Names from the outermost type inwards, and the type arguments of all of them. No list if the type has no
    /// arguments.
    Class(Vec<Link>, Option<Vec<TypeToName<'a, 'p>>>),
    /// A function pointer: return type, parameter types, and whether it is vararg.
    Function(TypeToName<'a, 'p>, Vec<TypeToName<'a, 'p>>, bool),
    /// A type parameter, or the replacement for an unreadable type.
    Text(String),
}

/// Whether a signature allows additional arguments.
pub(super) fn is_vararg(signature: &MethodSig) -> bool {
    signature.convention & CONVENTION_MASK == VARARG
}

impl<'p> TypeSystem<'p> {
    /// Structure of a loaded type.
    pub(super) fn loaded_form<'a>(&self, handle: TypeHandle, style: Style) -> Form<'a, 'p> {
        let Ok(shape) = self.shape(handle) else {
            let signature = style == Style::Signature;
            return Form::Text(if signature { UNKNOWN.into() } else { format!("(type {})", handle.0) });
        };
        let suffixed = |of, suffix| Form::Suffixed(TypeToName::Loaded(of), suffix);
        match shape {
            Shape::SzArray(of) => suffixed(of, Suffix::SzArray),
            Shape::Array(of, rank) => suffixed(of, Suffix::Array(rank)),
            Shape::Ptr(of) => suffixed(of, Suffix::Ptr),
            Shape::ByRef(of) => suffixed(of, Suffix::ByRef),
            Shape::Parameter(module, token) => Form::Text(self.parameter_name(module, token)),
            Shape::FnPtr(types) => match types.split_first() {
                Some((ret, params)) => Form::Function(
                    TypeToName::Loaded(*ret),
                    params.iter().map(|&p| TypeToName::Loaded(p)).collect(),
                    false,
                ),
                None => Form::Text(if style == Style::Signature { UNKNOWN } else { FUNCTION }.into()),
            },
            Shape::Named { module, token, primitive, arguments, .. } => {
                // A listing omits the arity, even for a definition without arguments.
                let listed = style == Style::Listing || !arguments.is_empty();
                let arguments = listed.then(|| arguments.into_iter().map(TypeToName::Loaded).collect());
                let module = self.module(module);
                if style != Style::Signature {
                    return match token.is_nil() {
                        true => Form::Text("(dynamicClass)".into()),
                        false => Form::Class(chain(&module, token), arguments),
                    };
                }
                if let Some(element) = ElementType::from_number(primitive) {
                    return Form::Primitive(element);
                }
                let name = definition_name(module.metadata.as_ref(), token);
                let short = name.strip_prefix("System.").filter(|_| primitive == PRIMITIVE_BY_NAME);
                Form::Class(vec![Link::Placeholder(short.unwrap_or(&name).to_owned())], arguments)
            }
        }
    }

    /// Structure of a type in a signature. Its type parameters must be resolved already.
    pub(super) fn signature_form<'a>(&self, ty: &'a Type, context: Context<'a, 'p>, style: Style) -> Form<'a, 'p> {
        let suffixed = |of: &'a Type, suffix| Form::Suffixed(TypeToName::Signature(of, context), suffix);
        match ty {
            Type::Primitive(element) => Form::Primitive(*element),
            Type::ValueType(token) | Type::Class(token) => Form::Class(signature_chain(context, *token, style), None),
            Type::Internal(handle) => match style {
                Style::Signature => Form::Text(self.internal_name(*handle)),
                _ => Form::Suffixed(TypeToName::Loaded(TypeHandle(Addr::new(*handle))), Suffix::Nothing),
            },
            Type::SzArray(of) => suffixed(of, Suffix::SzArray),
            Type::Array { element, rank, .. } => suffixed(element, Suffix::SignatureArray(*rank)),
            Type::Ptr(of) => suffixed(of, Suffix::Ptr),
            Type::ByRef(of) => suffixed(of, Suffix::ByRef),
            Type::Modified { inner, .. } | Type::Pinned(inner) => suffixed(inner, Suffix::Nothing),
            Type::Var(n) => Form::Text(format!("!{n}")),
            Type::MVar(n) => Form::Text(format!("!!{n}")),
            Type::GenericInst { definition, arguments } => {
                let chain = match &**definition {
                    Type::ValueType(token) | Type::Class(token) => signature_chain(context, *token, style),
                    Type::Internal(handle) if style == Style::Signature => {
                        vec![Link::Placeholder(self.internal_name(*handle))]
                    }
                    _ => vec![Link::Placeholder("?".into())],
                };
                Form::Class(chain, Some(arguments.iter().map(|a| TypeToName::Signature(a, context)).collect()))
            }
            Type::FnPtr(signature) => Form::Function(
                TypeToName::Signature(&signature.ret, context),
                signature.params.iter().map(|p| TypeToName::Signature(p, context)).collect(),
                is_vararg(signature),
            ),
        }
    }

    /// Name, in signature style, of a type that a signature contains as a handle.
    fn internal_name(&self, handle: u64) -> String {
        match self.shape(TypeHandle(Addr::new(handle))) {
            Ok(Shape::Named { module, token, .. }) => definition_name(self.module(module).metadata.as_ref(), token),
            _ => UNKNOWN.into(),
        }
    }

    fn parameter_name(&self, module: Addr, token: Token) -> String {
        let module = self.module(module);
        let name = module.metadata.as_ref().and_then(|m| Some(m.generic_param(token.rid())?.name.into_owned()));
        name.unwrap_or_else(|| format!("(type parameter {token})"))
    }
}

/// Namespace, enclosing types and name of a TypeDef, outermost type first.
pub(super) fn chain(module: &ModuleInfo<'_>, token: Token) -> Vec<Link> {
    let Some(metadata) = &module.metadata else {
        return vec![Link::Placeholder(format!("{}!{token}", module.name()))];
    };
    let chain = enclosing_chain(metadata, token);
    let link = |(index, &rid): (usize, &u32)| {
        // Each type has a name (II.22.37). An empty one means that the metadata is incomplete.
        let Some(row) = metadata.type_def(rid).filter(|row| !row.name.is_empty()) else {
            let token = Token::new(Table::TypeDef, rid);
            return Link::Placeholder(if index == 0 {
                format!("{}!{token}", module.name())
            } else {
                token.to_string()
            });
        };
        Link::Name(qualified(&row.namespace, &row.name))
    };
    chain.iter().rev().enumerate().map(link).collect()
}

/// Rids of a TypeDef and its enclosing types, innermost first.
pub(in crate::runtimes::coreclr) fn enclosing_chain(metadata: &Metadata<'_>, token: Token) -> Vec<u32> {
    let mut chain = vec![token.rid()];
    while let Some(outer) = chain.last().and_then(|&rid| metadata.enclosing(rid)) {
        if chain.contains(&outer) || chain.len() > limits::MAX_TYPE_DEPTH as usize {
            break;
        }
        chain.push(outer);
    }
    chain
}

/// Names for a token in a signature. In signature style this is its own name only.
fn signature_chain(context: Context<'_, '_>, token: Token, style: Style) -> Vec<Link> {
    let metadata = context.module.and_then(|m| m.metadata.as_ref());
    if style == Style::Signature {
        return vec![Link::Placeholder(own_name(metadata, token))];
    }
    let full = metadata.and_then(|m| m.full_name(token)).unwrap_or_else(|| token.to_string());
    full.split('+').map(|name| Link::Name(name.to_owned())).collect()
}

/// Namespace and name of a TypeDef or TypeRef, without enclosing types. Empty for a TypeSpec.
fn own_name(metadata: Option<&Metadata<'_>>, token: Token) -> String {
    match token.table() {
        Some(Table::TypeRef) => {
            let row = metadata.and_then(|m| m.type_ref(token.rid()));
            row.map_or_else(|| token.to_string(), |row| qualified(&row.namespace, &row.name))
        }
        Some(Table::TypeSpec) if metadata.is_some() => String::new(),
        _ => definition_name(metadata, token),
    }
}

/// Namespace and name of a TypeDef, without enclosing types.
fn definition_name(metadata: Option<&Metadata<'_>>, token: Token) -> String {
    let row = metadata.and_then(|m| m.type_def(token.rid()));
    row.map_or_else(|| token.to_string(), |row| qualified(&row.namespace, &row.name))
}

fn qualified(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}
