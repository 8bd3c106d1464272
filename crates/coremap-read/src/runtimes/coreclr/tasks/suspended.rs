//! Methods of runtime async (.NET 11 on). Each suspended one has a continuation, which leads to that of its caller.
//!
//! The outermost call, if its caller got a task, has a RuntimeAsyncTask that leads to the innermost continuation.
//! Sources: System.Private.CoreLib: AsyncHelpers.CoreCLR.cs (RuntimeAsyncTask, Continuation), AsyncDispatcherInfo;
//! src/coreclr/vm: object.h (ContinuationObject).

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::coreclr::threads;
use crate::runtimes::coreclr::types::{FieldDesc, TypeSystem};

/// Beginning of the name of the tasks.
const RUNTIME_ASYNC_TASK: &str = "System.Runtime.CompilerServices.AsyncHelpers+RuntimeAsyncTask";

/// Field of such a task with the innermost continuation; null while it runs.
pub(super) const HEAD: &str = "m_stateObject";

/// Field with the delegate that resumes it, which custom awaiters get.
pub(super) const RESUME: &str = "m_action";

/// Classes of innermost continuations that have what is awaited, and the field with it.
pub(super) const LEAVES: [(&str, &str); 2] = [
    ("System.Runtime.CompilerServices.RuntimeAsyncTaskContinuation", "Task"),
    ("System.Runtime.CompilerServices.AsyncHelpers+ValueTaskSourceContinuation", "Source"),
];

/// A suspended method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// Its continuation.
    pub continuation: Addr,
    /// Code address of the await. `None` if that is not in the core, as for precompiled methods in small dumps.
    pub ip: Option<Addr>,
    /// Number of the await in the method.
    pub state: i32,
}

/// The class whose thread static leads to a thread's dispatchers. Each has the task that runs, and the continuation
/// that resumes when the running method returns.
const DISPATCHER: &str = "System.Runtime.CompilerServices.AsyncDispatcherInfo";

/// Maximum number of dispatchers on one stack.
const NESTED: usize = 64;

/// A task that runs on a thread.
pub(super) struct Running {
    pub(super) tid: u32,
    /// The stack addresses between which its methods have their frames: those of the dispatchers, which are locals of
    /// the methods that resume tasks.
    pub(super) frames: (Addr, Addr),
    /// Methods that wait for the running one to return, innermost first.
    pub(super) callers: Vec<Suspended>,
}

/// Reads chains of continuations.
pub(super) struct Suspensions<'t, 'p> {
    types: &'t TypeSystem<'p>,
    walks: Walks,
    known: HashMap<Addr, bool>,
    places: HashMap<Vec<Option<Addr>>, u32>,
}

impl<'t, 'p> Suspensions<'t, 'p> {
    pub(super) fn new(types: &'t TypeSystem<'p>) -> Suspensions<'t, 'p> {
        let walks = Walks::new(Phase::Tasks, limits::MAX_ASYNC_STEPS);
        Suspensions { types, walks, known: HashMap::new(), places: HashMap::new() }
    }

    /// Whether objects of a type are tasks of outermost calls.
    pub(super) fn is_task(&mut self, method_table: Addr) -> bool {
        let types = self.types;
        *self
            .known
            .entry(method_table)
            .or_insert_with(|| types.display_name(method_table).starts_with(RUNTIME_ASYNC_TASK))
    }

    /// The suspended methods from a continuation on, innermost first.
    pub(super) fn from(&self, head: Addr) -> Vec<Suspended> {
        let mut out = Vec::new();
        let end = self.walks.begin_own_set().at_most(limits::MAX_ASYNC_DEPTH).follow(head, |at| {
            let view = self.types.view("ContinuationObject", at);
            let resume = view.ptr("ResumeInfo")?;
            if !resume.is_null() && self.types.type_of(at).is_some_and(|mt| self.types.is_continuation(mt)) {
                let ip = self.types.view("AsyncResumeInfo", resume).ptr("DiagnosticIP");
                // Null: a continuation of the library, which belongs to no method.
                if ip != Ok(Addr::NULL) {
                    let state = view.u32("State").map_or(-1, |state| state as i32);
                    out.push(Suspended { continuation: at, ip: ip.ok(), state });
                }
            }
            view.ptr("Next")
        });
        // The chain ends early at a continuation that is not in the core.
        end.ok();
        out
    }

    /// Number of the group of chains that are suspended at the same code addresses.
    pub(super) fn place(&mut self, suspended: &[Suspended]) -> u32 {
        let next = self.places.len() as u32;
        *self.places.entry(suspended.iter().map(|s| s.ip).collect()).or_insert(next)
    }

    /// The tasks that run, by address.
    pub(super) fn running(&self, process: &Process) -> HashMap<Addr, Running> {
        let mut out = HashMap::new();
        let types = self.types;
        let Some(class) = types.core_class(DISPATCHER) else { return out };
        let own = types.own_fields(class).unwrap_or_default();
        let named = |name: &str| own.iter().find(|f| types.field_name(f) == name);
        let (Some(current), Some(next)) = (named("t_current"), named("NextContinuation")) else { return out };
        let (Some(outer), Some(task)) = (named("Next"), named("CurrentTask")) else { return out };
        let (threads, _) = threads(process, &types.runtime).unwrap_or_default();
        for thread in threads {
            let Some(tid) = thread.os_id.filter(|&id| id != 0) else { continue };
            let first = types.thread_static_address(current, thread.address).and_then(|at| types.memory.ptr(at).ok());
            let mut above = Addr::NULL;
            let end = self.walks.begin_own_set().at_most(NESTED).follow(first.unwrap_or(Addr::NULL), |info| {
                let pointer = |field: &FieldDesc| types.memory.ptr(info.saturating_add(field.offset));
                let callers = self.from(pointer(next)?);
                out.insert(pointer(task)?, Running { tid, frames: (above, info), callers });
                above = info;
                pointer(outer)
            });
            // A dispatcher that is not in the core ends the list.
            end.ok();
        }
        out
    }
}

/// The innermost suspended method of a task of runtime async. `None` for other objects.
pub(in crate::runtimes::coreclr) fn innermost_of(types: &TypeSystem<'_>, task: Addr) -> Option<Suspended> {
    let method_table = types.type_of(task)?;
    if !types.display_name(method_table).starts_with(RUNTIME_ASYNC_TASK) {
        return None;
    }
    let fields = types.object_fields(method_table);
    let head = fields.iter().find(|field| types.field_name(field) == HEAD)?;
    let head = types.memory.ptr(task.checked_add(head.offset)?).ok().filter(|at| !at.is_null())?;
    Suspensions::new(types).from(head).into_iter().next()
}
