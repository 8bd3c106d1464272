//! What objects of a type have to do with tasks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::Addr;
use crate::image::metadata::sig::Type;
use crate::runtimes::coreclr::types::{FieldDesc, FieldStorage, Shape, TypeSystem};

/// The base of all tasks.
const TASK: &str = "System.Threading.Tasks.Task";
/// What the names of completion sources begin with.
const SOURCE: &str = "System.Threading.Tasks.TaskCompletionSource";

/// Field of a box that holds the state machine.
const STATE_MACHINE: &str = "StateMachine";
/// Fields of a state machine: C#, Visual Basic.
const STATES: [&str; 2] = ["<>1__state", "$State"];
const AWAITERS: [&str; 2] = ["<>u__", "$A"];

/// An object's MethodTable, before its first field.
const METHOD_TABLE: u64 = 8;

/// What a class descends from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// System.Threading.Tasks.Task.
    Task,
    /// A TaskCompletionSource.
    Source,
    /// Neither.
    Other,
}

/// The state machine in a box, of an async method.
#[derive(Debug)]
pub struct Machine {
    /// Its MethodTable.
    pub method_table: Addr,
    /// Where in the box it is, or the reference to it.
    pub(super) at: u64,
    /// Whether it is an object of its own (debug builds).
    pub(super) object: bool,
    /// Where in it its state is.
    pub(super) state: Option<u64>,
    /// Where in it awaiters are: from, to.
    pub(super) awaiters: Vec<(u64, u64)>,
}

/// Types as tasks see them.
pub(super) struct Shapes<'t, 'p> {
    pub(super) types: &'t TypeSystem<'p>,
    families: Mutex<HashMap<Addr, Family>>,
}

impl<'t, 'p> Shapes<'t, 'p> {
    pub(super) fn new(types: &'t TypeSystem<'p>) -> Shapes<'t, 'p> {
        Shapes { types, families: Mutex::default() }
    }

    /// What a class descends from.
    pub(super) fn family(&self, method_table: Addr) -> Family {
        let known = |at: &Addr| self.families.lock().unwrap_or_else(PoisonError::into_inner).get(at).copied();
        if let Some(family) = known(&method_table) {
            return family;
        }
        let mut seen = Vec::new();
        let family = self.types.bases(method_table).into_iter().find_map(|at| {
            if let Some(family) = known(&at) {
                return Some(family);
            }
            seen.push(at);
            let name = self.types.display_name(at);
            let source = name.starts_with(SOURCE).then_some(Family::Source);
            if name == TASK { Some(Family::Task) } else { source }
        });
        let family = family.unwrap_or(Family::Other);
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        families.extend(seen.into_iter().map(|at| (at, family)));
        family
    }

    /// The state machine that objects of a type hold, if they are boxes of one.
    pub(super) fn machine(&self, method_table: Addr) -> Option<Machine> {
        let types = self.types;
        if types.class_instantiation(method_table).ok()?.is_empty() {
            return None;
        }
        let fields = types.object_fields(method_table);
        let field = fields.iter().find(|f| types.field_name(f) == STATE_MACHINE)?;
        let module = types.module(types.module_of(field.method_table).ok()?);
        // A box's field is of one of its own type parameters, whatever that stands for.
        let Type::Var(n) = types.field_signature(&module, field)? else { return None };
        let handle = *types.class_instantiation(field.method_table).ok()?.get(n as usize)?;
        let Ok(Shape::Named { method_table: machine, .. }) = types.shape(handle) else { return None };
        let object = types.is_value_type(machine) == Ok(false);
        let mut own: Vec<FieldDesc> = types.own_fields(machine).ok()?;
        own.retain(|f| f.storage == FieldStorage::Instance);
        own.sort_by_key(|f| f.offset);
        let shift = if object { METHOD_TABLE } else { 0 };
        let names: Vec<String> = own.iter().map(|f| types.field_name(f)).collect();
        let named = |wanted: &dyn Fn(&str) -> bool| {
            let places = own.iter().enumerate().filter(|(i, _)| names.get(*i).is_some_and(|n| wanted(n)));
            places.map(|(i, f)| (f.offset, own.get(i + 1).map(|next| next.offset))).collect::<Vec<_>>()
        };
        let state = named(&|n| STATES.contains(&n)).first().map(|(at, _)| at + shift);
        // Boxes that others make have a field of that name too: without a state it is none.
        state?;
        let awaiters = named(&|n| AWAITERS.iter().any(|a| n.starts_with(a)));
        // The last one ends with the machine; what follows that in a box is none of its own.
        let end = self.value_size(machine).unwrap_or(u64::MAX - METHOD_TABLE);
        let awaiters = awaiters.into_iter().map(|(from, to)| (from + shift, to.unwrap_or(end) + shift)).collect();
        Some(Machine { method_table: machine, at: field.offset, object, state, awaiters })
    }

    /// Bytes of a value's fields: those of its box, less header and MethodTable.
    fn value_size(&self, method_table: Addr) -> Option<u64> {
        let base = self.types.view("MethodTable", method_table).u32("BaseSize").ok()?;
        u64::from(base).checked_sub(2 * METHOD_TABLE)
    }

    /// Where objects of a type have their fields, with those of base types.
    pub(super) fn fields(&self, method_table: Addr) -> Arc<HashMap<String, u64>> {
        let fields = self.types.object_fields(method_table);
        Arc::new(fields.iter().map(|f| (self.types.field_name(f), f.offset)).collect())
    }
}
