//! Formats type names in all styles.

use crate::addr::Addr;
use crate::image::metadata::sig::{MethodSig, Type};
use crate::limits;
use crate::runtimes::coreclr::types::{
    FieldDesc, MethodDesc, ModuleInfo, Scope, Shape, TypeArg, TypeHandle, TypeSystem,
};

use super::form::{Context, Form, Link, TypeToName, is_vararg};
use super::style::{FUNCTION, Style};
use super::text::Text;

/// Separates a name from its number of type parameters.
const ARITY: char = '`';

struct Formatter<'t, 'p> {
    types: &'t TypeSystem<'p>,
    style: Style,
    out: Text,
}

impl<'p> TypeSystem<'p> {
    /// Name of a type as heap listings print it. Unreadable parts are left out.
    pub fn display_name(&self, method_table: Addr) -> String {
        self.name_of(Style::Listing, TypeToName::Loaded(TypeHandle(method_table)))
    }

    /// Type of a field from its signature, as heap listings print types. `scope` has the type arguments of the field's
    /// owner. `None` if there is no metadata.
    pub fn field_type(&self, field: &FieldDesc, scope: &Scope) -> Option<String> {
        let module = self.module(self.module_of(field.method_table).ok()?);
        let signature = self.field_signature(&module, field)?;
        let context = Context { module: Some(&module), class: scope, method: &[] };
        Some(self.name_of(Style::Listing, TypeToName::Signature(&signature, context)))
    }

    /// Type of a method's variable from its signature, as heap listings print types.
    pub fn variable_type(&self, desc: Option<&MethodDesc>, module: &ModuleInfo<'p>, ty: &Type) -> String {
        let loaded = |handles: Vec<TypeHandle>| handles.into_iter().map(TypeArg::Loaded).collect::<Vec<_>>();
        let class = desc.and_then(|desc| self.class_instantiation(desc.method_table).ok()).unwrap_or_default();
        let method = desc.and_then(|desc| self.method_instantiation(desc).ok()).unwrap_or_default();
        let context = Context { module: Some(module), class: &loaded(class), method: &loaded(method) };
        self.name_of(Style::Listing, TypeToName::Signature(ty, context))
    }

    fn name_of(&self, style: Style, named: TypeToName<'_, 'p>) -> String {
        let mut formatter = Formatter { types: self, style, out: Text::default() };
        formatter.append(named, 0);
        formatter.out.into_string()
    }

    /// Appends the names of a TypeDef and its enclosing types in the runtime's style, without type arguments.
    pub(super) fn append_definition(&self, out: Text, chain: &[Link]) -> Text {
        let mut formatter = Formatter { types: self, style: Style::Runtime, out };
        formatter.class(chain, None, 0);
        formatter.out
    }

    /// Appends a type in the runtime's style.
    pub(super) fn append_type(&self, out: Text, handle: TypeHandle) -> Text {
        let mut formatter = Formatter { types: self, style: Style::Runtime, out };
        formatter.append(TypeToName::Loaded(handle), 0);
        formatter.out
    }

    /// Appends type arguments in the runtime's style.
    pub(super) fn append_arguments(&self, out: Text, arguments: &[TypeHandle]) -> Text {
        let arguments: Vec<_> = arguments.iter().map(|&a| TypeToName::Loaded(a)).collect();
        let mut formatter = Formatter { types: self, style: Style::Runtime, out };
        formatter.arguments(&arguments, 0);
        formatter.out
    }

    /// Parameters of a method in parentheses, as in signatures.
    ///
    /// SOS prints the text from the first `(` of the whole signature on, including the return type. If the return type
    /// is a function pointer, its parameters and the method's name come first. This does the same.
    pub(super) fn parameters_text(&self, context: Context<'_, 'p>, name: &str, signature: &MethodSig) -> String {
        let fixed = signature.sentinel.unwrap_or(signature.params.len());
        let params: Vec<_> = signature.params.iter().take(fixed).map(|p| TypeToName::Signature(p, context)).collect();
        let mut formatter = Formatter { types: self, style: Style::Signature, out: Text::default() };
        formatter.parameters(&params, is_vararg(signature), 0);
        let own = formatter.out.into_string();
        let ret = self.name_of(Style::Signature, TypeToName::Signature(&signature.ret, context));
        match ret.find('(') {
            Some(at) => format!("{} {name}{own}", ret.get(at..).unwrap_or_default()),
            None => own,
        }
    }

    /// Simple name of a type's assembly. `None` for a generic parameter.
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
}

impl<'p> Formatter<'_, 'p> {
    fn append(&mut self, named: TypeToName<'_, 'p>, depth: u32) {
        if depth > limits::MAX_TYPE_DEPTH || self.out.is_full() {
            return self.out.push("…");
        }
        let form = match named {
            TypeToName::Loaded(handle) if handle.0.is_null() && self.style == Style::Runtime => {
                return self.out.push("(null)");
            }
            TypeToName::Loaded(handle) => match self.types.continuation_name(handle.0) {
                Some(name) => return self.out.push(&name),
                None => self.types.loaded_form(handle, self.style),
            },
            TypeToName::Signature(ty, context) => {
                let parameter = match ty {
                    Type::Var(n) => context.class.get(*n as usize),
                    Type::MVar(n) => context.method.get(*n as usize),
                    _ => None,
                };
                match parameter {
                    Some(argument) => return self.argument(argument, depth + 1),
                    None => self.types.signature_form(ty, context, self.style),
                }
            }
        };
        self.form(&form, depth);
    }

    fn argument(&mut self, argument: &TypeArg, depth: u32) {
        match argument {
            TypeArg::Loaded(handle) => self.append(TypeToName::Loaded(*handle), depth),
            TypeArg::Signature(signature) => {
                let module = self.types.module(signature.module);
                let context = Context { module: Some(&module), class: &signature.scope, method: &[] };
                self.append(TypeToName::Signature(&signature.ty, context), depth);
            }
        }
    }

    fn form(&mut self, form: &Form<'_, 'p>, depth: u32) {
        match form {
            Form::Text(text) => self.out.push(text),
            Form::Primitive(element) => self.out.push(self.style.primitive(*element)),
            Form::Suffixed(of, suffix) => {
                self.append(*of, depth + 1);
                self.out.push(&self.style.suffix(*suffix));
            }
            Form::Class(chain, arguments) => self.class(chain, arguments.as_deref(), depth),
            Form::Function(..) if self.style != Style::Signature => self.out.push(FUNCTION),
            Form::Function(ret, params, vararg) => {
                self.append(*ret, depth + 1);
                self.out.push(" ");
                self.parameters(params, *vararg, depth + 1);
            }
        }
    }

    fn class(&mut self, chain: &[Link], arguments: Option<&[TypeToName<'_, 'p>]>, depth: u32) {
        let mut rest = arguments.unwrap_or_default();
        for (i, link) in chain.iter().enumerate() {
            if i > 0 {
                self.out.push("+");
            }
            match link {
                Link::Placeholder(text) => self.out.push(text),
                Link::Name(name) if self.style != Style::Listing || arguments.is_none() => self.out.escaped(name),
                Link::Name(name) => {
                    let (bare, arity) = split_arity(name);
                    self.out.escaped(bare);
                    // The last name gets all remaining arguments, whatever its arity: names from F# and obfuscators may
                    // have none.
                    let arity = if i + 1 == chain.len() { rest.len() } else { arity };
                    let (own, others) = rest.split_at_checked(arity).unwrap_or((rest, &[]));
                    self.arguments(own, depth);
                    rest = others;
                }
            }
        }
        if arguments.is_some() {
            self.arguments(rest, depth);
        }
    }

    fn arguments(&mut self, arguments: &[TypeToName<'_, 'p>], depth: u32) {
        let (open, between, close) = match self.style {
            Style::Runtime => ("[", ",", "]"),
            Style::Listing => ("<", ", ", ">"),
            Style::Signature => ("<", ",", ">"),
        };
        if arguments.is_empty() && self.style != Style::Signature {
            return;
        }
        self.out.push(open);
        for (i, &argument) in arguments.iter().enumerate() {
            if i > 0 {
                self.out.push(between);
            }
            match argument {
                TypeToName::Loaded(handle) if self.style == Style::Runtime => self.with_assembly(handle, depth),
                _ => self.append(argument, depth + 1),
            }
        }
        self.out.push(close);
    }

    /// Appends `[A, Assembly]`. The brackets count as a nesting level.
    fn with_assembly(&mut self, handle: TypeHandle, depth: u32) {
        let assembly = self.types.assembly_of(handle, 0);
        if assembly.is_some() {
            self.out.push("[");
        }
        self.append(TypeToName::Loaded(handle), depth + 2);
        if let Some(name) = assembly {
            self.out.push(", ");
            self.out.push(&name);
            self.out.push("]");
        }
    }

    /// Appends parameters, such as `(Int32, System.String ByRef)`.
    fn parameters(&mut self, params: &[TypeToName<'_, 'p>], vararg: bool, depth: u32) {
        self.out.push("(");
        for (i, &param) in params.iter().enumerate() {
            if self.out.is_full() {
                break;
            }
            if i > 0 {
                self.out.push(", ");
            }
            self.append(param, depth);
        }
        if vararg {
            self.out.push(if params.is_empty() { "..." } else { ", ..." });
        }
        self.out.push(")");
    }
}

/// Splits ``Dictionary`2`` into `Dictionary` and its number of type parameters.
fn split_arity(name: &str) -> (&str, usize) {
    let split = name.rsplit_once(ARITY).and_then(|(head, count)| Some((head, count.parse::<u16>().ok()?)));
    split.map_or((name, 0), |(head, count)| (head, usize::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arity_is_at_the_end_and_a_number() {
        assert_eq!(split_arity("Dictionary`2"), ("Dictionary", 2));
        assert_eq!(split_arity("Entry"), ("Entry", 0));
        assert_eq!(split_arity("A`b"), ("A`b", 0));
        assert_eq!(split_arity("A`99999"), ("A`99999", 0));
        assert_eq!(split_arity("<Run>d__3`1"), ("<Run>d__3", 1));
    }
}
