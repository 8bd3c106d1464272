//! Classifies types for the task walk: tasks, completion sources, boxes of state machines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::Addr;
use crate::image::metadata::sig::Type;
use crate::runtimes::coreclr::types::{FieldDesc, FieldStorage, METHOD_TABLE, Shape, TypeSystem};

const TASK: &str = "System.Threading.Tasks.Task";
/// Prefix of the names of completion sources.
const SOURCE: &str = "System.Threading.Tasks.TaskCompletionSource";

/// Field of a box with the state machine.
const STATE_MACHINE: &str = "StateMachine";
/// Names of a state machine's fields, by compiler: the state, and the beginning of the awaiters. Of Roslyn in C# and in
/// Visual Basic, of mono's mcs, and of F#.
const COMPILERS: [(&str, &str); 4] =
    [("<>1__state", "<>u__"), ("$State", "$A"), ("$PC", "$awaiter"), ("ResumptionPoint", "awaiter")];

/// Field of a state machine with the object whose method it is, by Roslyn.
const THIS: &str = "<>4__this";

/// Kinds of classes that the walk distinguishes by their base types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Task,
    Source,
    Other,
}

/// State machine of an async method, and its position in a box.
#[derive(Debug)]
pub struct Machine {
    /// MethodTable of the state machine.
    pub method_table: Addr,
    /// Offset in the box of the state machine, or of the reference to it.
    pub(super) at: u64,
    /// Whether the state machine is an object of its own (debug builds).
    pub(super) object: bool,
    /// Offset of the state in the state machine. `None` if there is none.
    pub(super) state: Option<u64>,
    /// Offset of the object whose method it is. `None` for static methods, and for other compilers than Roslyn.
    pub(super) this: Option<u64>,
    /// Start and end offsets of the awaiters in the state machine.
    pub(super) awaiters: Vec<(u64, u64)>,
}

impl Machine {
    /// Whether it has fields that are awaiters by their names.
    pub fn has_awaiters(&self) -> bool {
        !self.awaiters.is_empty()
    }
}

/// Task-related facts about types.
pub(super) struct Shapes<'t, 'p> {
    pub(super) types: &'t TypeSystem<'p>,
    families: Mutex<HashMap<Addr, Family>>,
}

impl<'t, 'p> Shapes<'t, 'p> {
    pub(super) fn new(types: &'t TypeSystem<'p>) -> Shapes<'t, 'p> {
        Shapes { types, families: Mutex::default() }
    }

    /// Returns the kind of a class, from its base types.
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

    /// The state machine in objects of a type. `None` if they are not boxes of one.
    pub(super) fn machine(&self, method_table: Addr) -> Option<Machine> {
        let types = self.types;
        if types.class_instantiation(method_table).ok()?.is_empty() {
            return None;
        }
        let fields = types.object_fields(method_table);
        let field = fields.iter().find(|f| types.field_name(f) == STATE_MACHINE)?;
        let module = types.module(types.module_of(field.method_table).ok()?);
        // A box's field has the type of one of the box's own type parameters, whatever its argument.
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
        let compiler = COMPILERS.iter().find(|(state, _)| names.iter().any(|name| name == state));
        let state = compiler.and_then(|(state, _)| Some(named(&|n| n == *state).first()?.0 + shift));
        let this = named(&|n| n == THIS).first().map(|(at, _)| at + shift);
        // Unrelated classes may have a field of that name too, but no state. A task with such a field is a box,
        // whatever its compiler calls the state.
        if state.is_none() && self.family(method_table) != Family::Task {
            return None;
        }
        let awaiters = named(&|n| compiler.is_some_and(|(_, awaiter)| n.starts_with(awaiter)));
        // The last awaiter ends with the state machine. What follows in the box is not part of it.
        let end = self.value_size(machine).unwrap_or(u64::MAX - METHOD_TABLE);
        let awaiters = awaiters.into_iter().map(|(from, to)| (from + shift, to.unwrap_or(end) + shift)).collect();
        Some(Machine { method_table: machine, at: field.offset, object, state, this, awaiters })
    }

    /// Bytes of a value type's fields: its boxed size without header and MethodTable.
    fn value_size(&self, method_table: Addr) -> Option<u64> {
        let base = self.types.view("MethodTable", method_table).u32("BaseSize").ok()?;
        u64::from(base).checked_sub(2 * METHOD_TABLE)
    }

    /// Field offsets of a type's objects by field name, including inherited fields.
    pub(super) fn fields(&self, method_table: Addr) -> Arc<HashMap<String, u64>> {
        let fields = self.types.object_fields(method_table);
        Arc::new(fields.iter().map(|f| (self.types.field_name(f), f.offset)).collect())
    }
}

/// MethodTable of the state machine in objects of a type. `None` if they are not boxes of one.
pub(in crate::runtimes::coreclr) fn machine_of(types: &TypeSystem<'_>, method_table: Addr) -> Option<Addr> {
    Shapes::new(types).machine(method_table).map(|machine| machine.method_table)
}
