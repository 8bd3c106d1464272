//! Variables that suspended methods of runtime async keep in their continuations.

use crate::addr::Addr;
use crate::image::metadata::sig::{ElementType, LocalsSig, MethodSig, Type};
use crate::image::metadata::{Table, Token};
use crate::memory::Memory;
use crate::runtimes::coreclr::methods::il_map::{KeptVar, kept_at};
use crate::runtimes::coreclr::methods::{Debug, Method, Methods};
use crate::runtimes::coreclr::types::{TypeHandle, TypeSystem};

/// A variable in a continuation.
#[derive(Clone, Debug)]
pub struct AwaitVar {
    /// Name. `None` for variables of the runtime, and for locals without the module's PDB.
    pub name: Option<String>,
    /// Type, as heap listings print it. `None` if the signature or the IL is not in the core.
    pub r#type: Option<String>,
    /// From the start of the continuation, in bytes.
    pub offset: u32,
    form: Form,
}

/// How the bytes of a variable are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Number(ElementType),
    Reference,
    /// A struct, a pointer, or unknown.
    Other,
}

/// The value of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VarValue {
    /// A signed number.
    Int(i64),
    /// An unsigned number, a Boolean as 0 or 1, a Char as its UTF-16 unit.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// An object.
    Object(Addr),
}

/// IMAGE_CEE_CS_CALLCONV_HASTHIS (corhdr.h).
const HAS_THIS: u8 = 0x20;

/// The two low bits of a fat IL header, and the offset in it of the token of the locals' signature (ECMA-335
/// II.25.4.3).
const FAT: u8 = 3;
const LOCALS_TOKEN: u64 = 8;

impl<'p> Methods<'p> {
    /// The variables that a method keeps while it is suspended at a code address. Empty before .NET 11, and for
    /// precompiled methods, which have no such list.
    pub fn await_vars(&self, method: &Method<'p>, ip: Addr) -> Vec<AwaitVar> {
        let Debug::At(debug_info) = method.debug else { return Vec::new() };
        let native = ip.since(method.start);
        let kept = kept_at(self.memory(), &self.types.runtime, debug_info, native).unwrap_or_default();
        if kept.is_empty() {
            return Vec::new();
        }
        let declared = Declared::read(&self.types, method);
        kept.into_iter().map(|var| declared.describe(&self.types, method, var)).collect()
    }

    /// The value of a variable in this continuation. `None` for a struct, for null, and if it can't be read.
    pub fn await_value(&self, continuation: Addr, var: &AwaitVar) -> Option<VarValue> {
        let at = continuation.checked_add(u64::from(var.offset))?;
        match var.form {
            Form::Number(element) => number(self.memory(), at, element),
            Form::Reference => self.memory().ptr(at).ok().filter(|object| !object.is_null()).map(VarValue::Object),
            Form::Other => None,
        }
    }
}

fn number(memory: &dyn Memory, at: Addr, element: ElementType) -> Option<VarValue> {
    use ElementType as E;
    let mut word = [0; 8];
    let width = match element {
        E::Boolean | E::I1 | E::U1 => 1,
        E::Char | E::I2 | E::U2 => 2,
        E::I4 | E::U4 | E::R4 => 4,
        E::I8 | E::U8 | E::R8 | E::I | E::U => 8,
        E::Void | E::String | E::Object | E::TypedByRef => return None,
    };
    memory.read(at, word.get_mut(..width)?).ok()?;
    let bits = u64::from_le_bytes(word);
    Some(match element {
        E::I1 => VarValue::Int(i64::from(bits as i8)),
        E::I2 => VarValue::Int(i64::from(bits as i16)),
        E::I4 => VarValue::Int(i64::from(bits as i32)),
        E::I8 | E::I => VarValue::Int(bits as i64),
        E::R4 => VarValue::Float(f64::from(f32::from_bits(bits as u32))),
        E::R8 => VarValue::Float(f64::from_bits(bits)),
        _ => VarValue::Unsigned(bits),
    })
}

/// The declarations of a method: names and types of its arguments and locals.
#[derive(Default)]
struct Declared {
    /// `None` if the signature can't be read. Then the numbers of variables have no meaning.
    signature: Option<MethodSig>,
    parameters: Vec<(u16, String)>,
    locals: Vec<Type>,
    local_names: Vec<(u16, String)>,
}

impl Declared {
    fn read<'p>(types: &TypeSystem<'p>, method: &Method<'p>) -> Declared {
        let (module, rid) = (&method.module, method.token.rid());
        let Some(metadata) = &module.metadata else { return Declared::default() };
        let signature = metadata.method_def(rid).and_then(|row| MethodSig::parse(row.signature).ok());
        let locals = || {
            let il = module.il_address(rid)?;
            types.memory.bytes(il, 1).ok().filter(|header| header.first().is_some_and(|byte| byte & FAT == FAT))?;
            let token = Token(types.memory.u32(il.checked_add(LOCALS_TOKEN)?).ok()?);
            let blob = metadata.cell(Table::StandAloneSig, token.rid_in(Table::StandAloneSig)?, 0)?;
            Some(LocalsSig::parse(metadata.blob(blob)?).ok()?.types)
        };
        Declared {
            signature,
            parameters: metadata.parameter_names(rid),
            locals: locals().unwrap_or_default(),
            local_names: module.local_names(types, rid),
        }
    }

    fn describe<'p>(&self, types: &TypeSystem<'p>, method: &Method<'p>, var: KeptVar) -> AwaitVar {
        let unknown = AwaitVar { name: None, r#type: None, offset: var.offset, form: Form::Other };
        let (Some(signature), Ok(number)) = (&self.signature, usize::try_from(var.number)) else { return unknown };
        let this = usize::from(signature.convention & HAS_THIS != 0);
        if number < this {
            return of_this(types, method, unknown);
        }
        let named = |names: &[(u16, String)], number: usize| {
            names.iter().rev().find(|(of, _)| usize::from(*of) == number).map(|(_, name)| name.clone())
        };
        let arguments = this.saturating_add(signature.params.len());
        let (ty, name) = match number.checked_sub(arguments) {
            None => {
                let number = number - this;
                // Parameter 0 is the return value.
                (signature.params.get(number), named(&self.parameters, number + 1))
            }
            Some(slot) => (self.locals.get(slot), named(&self.local_names, slot)),
        };
        let Some(ty) = ty else { return AwaitVar { name, ..unknown } };
        let text = types.variable_type(method.desc.as_ref(), &method.module, ty);
        AwaitVar { name, r#type: Some(text), form: form(types, method, ty), ..unknown }
    }
}

/// The variable `this`: a reference, but in a struct's method the struct itself.
fn of_this(types: &TypeSystem<'_>, method: &Method<'_>, unknown: AwaitVar) -> AwaitVar {
    let name = Some("this".to_owned());
    let Some(of) = method.desc.as_ref().map(|desc| desc.method_table) else { return AwaitVar { name, ..unknown } };
    let form = if types.is_value_type(of) == Ok(false) { Form::Reference } else { Form::Other };
    AwaitVar { name, r#type: Some(types.display_name(of)), form, ..unknown }
}

fn form(types: &TypeSystem<'_>, method: &Method<'_>, ty: &Type) -> Form {
    let loaded = |handle: Addr| match types.is_value_type(handle) {
        Ok(false) => Form::Reference,
        Ok(true) | Err(_) => Form::Other,
    };
    let argument = |all: Vec<TypeHandle>, number: u32| all.get(number as usize).map_or(Form::Other, |of| loaded(of.0));
    match ty {
        Type::Primitive(ElementType::String | ElementType::Object) => Form::Reference,
        Type::Primitive(ElementType::Void | ElementType::TypedByRef) => Form::Other,
        Type::Primitive(element) => Form::Number(*element),
        Type::Class(_) | Type::SzArray(_) | Type::Array { .. } => Form::Reference,
        Type::GenericInst { definition, .. } => form(types, method, definition),
        Type::Modified { inner, .. } | Type::Pinned(inner) => form(types, method, inner),
        Type::Internal(handle) => loaded(Addr::new(*handle)),
        Type::Var(number) => {
            let of = method.desc.as_ref().and_then(|desc| types.class_instantiation(desc.method_table).ok());
            argument(of.unwrap_or_default(), *number)
        }
        Type::MVar(number) => {
            let of = method.desc.as_ref().and_then(|desc| types.method_instantiation(desc).ok());
            argument(of.unwrap_or_default(), *number)
        }
        Type::ValueType(_) | Type::Ptr(_) | Type::ByRef(_) | Type::FnPtr(_) => Form::Other,
    }
}
