//! Pending async methods: state machines, and continuations of runtime async (11.0 on).
//!
//! The box of a state machine is a task; what it awaits refers to it by m_continuationObject. The type of the box names
//! the method. A task of runtime async has the continuations of its suspended methods, innermost first; each has a code
//! address inside its method. Layouts of continuations are shared by methods, so that their types name nothing.
//!
//! Sources: System.Private.CoreLib: AsyncTaskMethodBuilderT.cs, Task.cs, AsyncHelpers.CoreCLR.cs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{Activation, AsyncFrame, AsyncTask, Heap as _, Method, MethodRole, Position};
use crate::runtimes::clr_gc::is_library;
use crate::runtimes::nativeaot::census::{Census, Part};
use crate::runtimes::nativeaot::code::Code;
use crate::runtimes::nativeaot::heap::Heap;

/// Beginning of the type of a box. Its last argument is the state machine.
const BOX: &str = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder";
const BOX_OF: &str = "AsyncStateMachineBox<";

/// Beginning of the type of a task of runtime async.
const RUNTIME_ASYNC: &str = "System.Runtime.CompilerServices.AsyncHelpers.RuntimeAsyncTask<";

/// Words for awaited objects, by the beginning of their type's name.
const AWAITED: [(&str, &str); 8] = [
    ("System.Threading.SemaphoreSlim.TaskNode", "SemaphoreSlim.WaitAsync"),
    ("System.Threading.Tasks.Task.DelayPromise", "Task.Delay"),
    ("System.Threading.Tasks.Task.WhenAllPromise", "Task.WhenAll"),
    ("System.Threading.Tasks.Task.WhenAnyPromise", "Task.WhenAny"),
    ("System.Threading.Tasks.TaskFactory.CompleteOnInvokePromise", "Task.WhenAny"),
    ("System.Net.Sockets.Socket.AwaitableSocketAsyncEventArgs", "a Socket's operation"),
    ("System.Threading.Channels.AsyncOperation", "a Channel"),
    ("System.IO.Pipelines.Pipe.", "a pipe"),
];

/// A pending async method, or several of one task.
struct Pending {
    task: Addr,
    kind: String,
    frames: Vec<AsyncFrame>,
}

/// Visits the pending async methods of a heap.
pub(super) fn each(heap: &Heap<'_>, census: &Census, code: &Code<'_>, visit: &mut dyn FnMut(AsyncTask)) {
    let walks = Walks::new(Phase::Tasks, limits::MAX_ASYNC_OBJECTS);
    let tasks = census.of(Part::Task);
    let mut all = Vec::new();
    // Tasks by the object that continues when they complete.
    let mut awaited: HashMap<Addr, Addr> = HashMap::new();
    for object in tasks {
        let name = heap.type_name(object.kind);
        if let Some(next) = heap.held("AotTask", object.addr, "m_continuationObject") {
            for next in unwrapped(heap, next) {
                awaited.entry(next).or_insert(object.addr);
            }
        }
        let frames = match name.starts_with(RUNTIME_ASYNC) {
            true => suspended(heap, code, &walks, object.addr),
            false => machine(&name).map(|method| named(object.addr, &name, method)).into_iter().collect(),
        };
        if !frames.is_empty() {
            all.push(Pending { task: object.addr, kind: name, frames });
        }
    }
    let sources: HashMap<Addr, Addr> = census
        .of(Part::Source)
        .iter()
        .filter_map(|source| Some((heap.held("AotTaskSource", source.addr, "_task")?, source.addr)))
        .collect();
    // The head of a runtime async task's chain has the same awaited task as the task itself.
    let heads: HashMap<Addr, Addr> = all.iter().filter_map(|p| Some((head(heap, p.task, &p.kind)?, p.task))).collect();
    let awaits: HashMap<Addr, Addr> =
        awaited.iter().map(|(next, of)| (heads.get(next).copied().unwrap_or(*next), *of)).collect();
    let mut awaited_by: HashMap<Addr, Vec<Addr>> = HashMap::new();
    for pending in &all {
        if let Some(of) = awaits.get(&pending.task) {
            awaited_by.entry(*of).or_default().push(pending.task);
        }
    }
    for Pending { task, kind, frames } in all {
        let of = awaits.get(&task).copied();
        let awaiting = of.map_or_else(|| "an unknown object".to_owned(), |of| words(heap, of, &sources));
        visit(AsyncTask {
            address: task,
            kind,
            name: None,
            frames,
            group_text: awaiting.clone(),
            awaiting,
            awaited: of.map_or(Addr::NULL, |of| sources.get(&of).copied().unwrap_or(of)),
            awaited_by: awaited_by.remove(&task).unwrap_or_default(),
        });
    }
}

/// The method of a box, by its type's name: `Ns.Type.<Method>d__0` is the state machine of `Ns.Type.Method`.
fn machine(name: &str) -> Option<String> {
    let inner = name.strip_prefix(BOX).filter(|_| name.ends_with('>'))?;
    let arguments = inner.get(inner.find(BOX_OF)?.checked_add(BOX_OF.len())?..inner.len().checked_sub(1)?)?;
    let at = arguments.rfind(">d__")?;
    let open = arguments.get(..at)?.rfind(".<")?;
    let class = arguments.get(..open)?;
    // The class begins behind the comma that ends the argument before it. Its own arguments may have commas too.
    let mut depth = 0_i32;
    let begin = class.char_indices().rev().find(|(_, c)| {
        depth += match c {
            '>' => 1,
            '<' => -1,
            _ => 0,
        };
        *c == ',' && depth == 0
    });
    let class = class.get(begin.map_or(0, |(i, _)| i + 1)..)?.trim();
    Some(format!("{class}.{}", arguments.get(open + 2..at)?))
}

fn named(object: Addr, kind: &str, method: String) -> AsyncFrame {
    let role = if is_library(&method) { MethodRole::Framework } else { MethodRole::Program };
    let method = Method {
        name: method,
        module: String::new(),
        id: None,
        token: None,
        start: Addr::NULL,
        size: 0,
        cold: None,
        role,
    };
    let activation = Activation { method: Arc::new(method), position: Position::default() };
    AsyncFrame { object, kind: kind.to_owned(), activation }
}

/// The first object in the chain of a task of runtime async, which refers to the task.
fn head(heap: &Heap<'_>, task: Addr, kind: &str) -> Option<Addr> {
    heap.held("AotRuntimeAsyncTask", task, "Head").filter(|_| kind.starts_with(RUNTIME_ASYNC))
}

/// Suspended methods of a task of runtime async, innermost first.
fn suspended(heap: &Heap<'_>, code: &Code<'_>, walks: &Walks, task: Addr) -> Vec<AsyncFrame> {
    let mut out = Vec::new();
    let Some(head) = heap.held("AotRuntimeAsyncTask", task, "Head") else { return out };
    let kind = heap.name_at(task).unwrap_or_default();
    let end = walks.begin_own_set().follow(head, |at| {
        let info = heap.held("AotContinuation", at, "ResumeInfo");
        let ip = info.and_then(|info| heap.held("AotResumeInfo", info, "DiagnosticIP"));
        if let Some((ip, method)) = ip.and_then(|ip| Some((ip, code.method(ip)?))) {
            let position = Position { source: code.line_at(&method, ip), how: None };
            out.push(AsyncFrame { object: at, kind: kind.clone(), activation: Activation { method, position } });
        }
        Ok::<_, std::convert::Infallible>(heap.held("AotContinuation", at, "Next").unwrap_or(Addr::NULL))
    });
    // If the chain is damaged, use the elements before the damage.
    end.ok();
    out
}

/// Returns the objects that continue when a task completes. Its continuation may be a delegate of a box, or a list of
/// several.
fn unwrapped(heap: &Heap<'_>, next: Addr) -> Vec<Addr> {
    const LIST: &str = "System.Collections.Generic.List<System.Object>";
    let name = heap.name_at(next).unwrap_or_default();
    let held = |at: Addr| heap.references_of(at).into_iter().map(|(_, object)| object);
    match name.as_str() {
        // Its array, then the elements.
        LIST => held(next).flat_map(held).collect(),
        "System.Action" => held(next).chain([next]).collect(),
        _ => vec![next],
    }
}

/// What is awaited, in words.
fn words(heap: &Heap<'_>, of: Addr, sources: &HashMap<Addr, Addr>) -> String {
    let name = heap.name_at(of).unwrap_or_default();
    if let Some((_, words)) = AWAITED.iter().find(|(start, _)| name.starts_with(start)) {
        return (*words).to_owned();
    }
    match sources.contains_key(&of) {
        true => "a TaskCompletionSource".to_owned(),
        false if machine(&name).is_some() || name.starts_with(RUNTIME_ASYNC) => "an async method".to_owned(),
        false => format!("a {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_box_names_its_method() {
        let of = |arguments: &str| machine(&format!("{BOX}<X>.{BOX_OF}{arguments}>"));
        assert_eq!(of("System.Int32, Ledger.Tide.<Inner>d__0").as_deref(), Some("Ledger.Tide.Inner"));
        assert_eq!(of("A<B, C>, N.T<X, Y>.<Run>d__12").as_deref(), Some("N.T<X, Y>.Run"));
        assert_eq!(of("System.Int32, Ledger.Tide.<Inner>d__0<K, V>").as_deref(), Some("Ledger.Tide.Inner"));
        assert_eq!(machine("System.Threading.Tasks.Task<X>"), None);
        assert_eq!(machine(&format!("{BOX}<X>.{BOX_OF}")), None);
    }
}
