//! Finds the async method of a state machine.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::image::metadata::attribute::{first_text, is_machine};
use crate::image::metadata::coded::HAS_CUSTOM_ATTRIBUTE;
use crate::image::metadata::{Metadata, Table, Token};
use crate::runtimes::coreclr::naming::enclosing_chain;
use crate::runtimes::coreclr::types::{ModuleInfo, TypeSystem};

/// Columns of CustomAttribute (ECMA-335 II.22.10).
const PARENT: usize = 0;
const VALUE: usize = 2;

/// Finds methods by the attribute that names their state machine (AsyncStateMachineAttribute and similar ones), or by
/// the compiler's name for the state machine.
pub struct AsyncMethods<'t, 'p> {
    types: &'t TypeSystem<'p>,
    /// By module: methods by the name of their state machine.
    known: HashMap<Addr, HashMap<String, u32>>,
}

impl<'t, 'p> AsyncMethods<'t, 'p> {
    /// A finder for the types of one runtime. Attributes are read on first use, by module.
    pub fn new(types: &'t TypeSystem<'p>) -> AsyncMethods<'t, 'p> {
        AsyncMethods { types, known: HashMap::new() }
    }

    /// Method of the state machine with this MethodTable: its name, and its token if an attribute has it. `None` if
    /// there is no metadata.
    pub fn of(&mut self, machine: Addr) -> Option<(String, Option<Token>, Arc<ModuleInfo<'p>>)> {
        let types = self.types;
        let module = types.module(types.module_of(machine).ok()?);
        let token = types.type_token(machine).ok()?;
        let metadata = module.metadata.as_ref()?;
        let name = reflection_name(metadata, token)?;
        let methods = self.known.entry(module.addr).or_insert_with(|| attributes(metadata));
        let found = methods.get(&name).map(|&rid| Token::new(Table::MethodDef, rid));
        let by_attribute = found.and_then(|token| types.definition_name(&module, token));
        let text = by_attribute.or_else(|| by_name(types, &module, metadata, token))?;
        Some((text, found, module.clone()))
    }
}

/// Type name as in attributes: namespace with dots, nested types after `+`.
fn reflection_name(metadata: &Metadata<'_>, token: Token) -> Option<String> {
    let chain = enclosing_chain(metadata, token);
    let mut out = String::new();
    for (i, &rid) in chain.iter().rev().enumerate() {
        let row = metadata.type_def(rid)?;
        if i > 0 {
            out.push('+');
        } else if !row.namespace.is_empty() {
            out.push_str(&row.namespace);
            out.push('.');
        }
        out.push_str(&row.name);
    }
    Some(out)
}

/// Methods with an attribute whose first argument is the name of a state machine.
fn attributes(metadata: &Metadata<'_>) -> HashMap<String, u32> {
    let mut out = HashMap::new();
    for rid in 1..=metadata.row_count(Table::CustomAttribute) {
        let cell = |column| metadata.cell(Table::CustomAttribute, rid, column);
        let parent = cell(PARENT).and_then(|value| HAS_CUSTOM_ATTRIBUTE.decode(value));
        let Some(method) = parent.filter(|p| p.table() == Some(Table::MethodDef)) else { continue };
        let Some(name) = cell(VALUE).and_then(|at| metadata.blob(at)).and_then(first_text) else { continue };
        // Other attributes have texts too, so check that it is a compiler's name for a state machine.
        if is_machine(name) {
            out.insert(name.to_owned(), method.rid());
        }
    }
    out
}

/// Name of the method from the compiler's type name: `<Run>d__3` belongs to method Run of the enclosing type.
fn by_name<'p>(
    types: &TypeSystem<'p>,
    module: &ModuleInfo<'p>,
    metadata: &Metadata<'_>,
    token: Token,
) -> Option<String> {
    let row = metadata.type_def(token.rid())?;
    let (inner, _) = row.name.strip_prefix('<')?.rsplit_once('>')?;
    let outer = metadata.enclosing(token.rid())?;
    let methods = metadata.type_def(outer)?.methods;
    let named = |rid: &u32| metadata.method_def(*rid).is_some_and(|m| m.name == inner);
    let mut found = metadata.method_rids(methods).filter(named);
    let (first, second) = (found.next(), found.next());
    match (first, second) {
        // If several methods have that name, only the name is known.
        (Some(rid), None) => types.definition_name(module, Token::new(Table::MethodDef, rid)),
        _ => Some(format!("{}.{inner}", reflection_name(metadata, Token::new(Table::TypeDef, outer))?)),
    }
}
