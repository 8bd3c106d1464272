//! Who waits for whom: from a task to what goes on once it is done.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::runtimes::api::{Heap as _, Link, ObjectReader};
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::tasks::find::{FINISHED, Found, find};
use crate::runtimes::coreclr::tasks::shapes::{Family, Machine, Shapes};
use crate::runtimes::coreclr::types::TypeSystem;

/// Field of a task that holds what goes on after it.
const CONTINUATION: &str = "m_continuationObject";

/// Fields by which such objects hold the next: ContinueWithTaskContinuation (before
/// .NET 5 StandardTaskContinuation), AwaitTaskContinuation and its kin,
/// AsyncMethodBuilderCore.ContinuationWrapper, MoveNextRunner.
const WRAPPED: [&str; 4] = ["m_task", "m_action", "_continuation", "m_stateMachine"];

/// Objects that wake a thread which is blocked in Task.Wait, WaitAll and the like.
const BLOCKED: [&str; 2] =
    ["System.Threading.Tasks.Task+SetOnInvokeMres", "System.Threading.Tasks.Task+SetOnCountdownMres"];

/// A list of continuations.
const LIST: &str = "System.Collections.Generic.List<";

/// From an array of references to the first.
const ELEMENTS: u64 = 16;

/// What an async method waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Awaits {
    /// An object that is in its awaiter.
    Object(Addr),
    /// A task that is done: it only has to be run.
    Done(Addr),
    /// Its awaiter holds no object (Task.Yield has none).
    #[default]
    Unknown,
    /// Nothing: it runs, or has not begun.
    Nothing,
}

/// What stands at the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Nothing waits for the last task.
    Nobody,
    /// One of the chain itself: it will never be done. (Or it is longer than any is followed.)
    Cycle,
    /// A thread that is blocked until then; the object that wakes it.
    Thread(Addr),
    /// A delegate.
    Callback(Addr),
    /// An object of some other type.
    Other(Addr),
}

/// A task that is not done, an async method, or what one of them waits for.
#[derive(Clone, Debug)]
pub struct Node {
    /// The object.
    pub addr: Addr,
    /// Its MethodTable.
    pub method_table: Addr,
    /// Whether it is a task; else it is the source of a ValueTask, or whatever is awaited.
    pub task: bool,
    /// Of an async method.
    pub machine: Option<Arc<Machine>>,
    /// Where that stands: the number of the await, -1 where it runs.
    pub state: Option<i32>,
    /// What it waits for, as far as its own state tells.
    pub awaits: Awaits,
    /// Those that go on after it, by number.
    pub next: Vec<u32>,
    /// Others that do.
    pub ends: Vec<End>,
    /// Whether it goes on after another.
    pub follows: bool,
}

/// All tasks that are not done, linked.
pub struct Tasks {
    /// By address; then what they wait for that is no task.
    pub nodes: Vec<Node>,
    /// Completion sources by their tasks.
    pub sources: HashMap<Addr, Addr>,
    /// Objects left out, as there are too many.
    pub more: u64,
    /// Bytes of the heap that could not be walked.
    pub lost: u64,
}

struct Linker<'t, 'p> {
    shapes: Shapes<'t, 'p>,
    heap: &'t Heap<'p>,
    reader: Box<dyn ObjectReader + 't>,
    index: HashMap<Addr, u32>,
    /// State machines that are objects, by address: the number of their box.
    machines: HashMap<Addr, u32>,
    fields: HashMap<Addr, Arc<HashMap<String, u64>>>,
    names: HashMap<Addr, Arc<str>>,
    /// Objects looked at between tasks: lists of lists of themselves have no end.
    steps: Walks,
}

impl Tasks {
    /// Find and link them.
    pub fn find(heap: &Heap<'_>, progress: &Progress) -> Tasks {
        let types: &TypeSystem<'_> = heap.type_system();
        let shapes = Shapes::new(types);
        let Found { items, sources, more, losses } = find(&shapes, heap, progress);
        let mut nodes: Vec<Node> = Vec::with_capacity(items.len());
        for item in items {
            let mut node = Node {
                addr: item.addr,
                method_table: item.method_table,
                task: item.is_task,
                machine: item.machine,
                state: None,
                awaits: Awaits::Nothing,
                next: Vec::new(),
                ends: Vec::new(),
                follows: false,
            };
            node.state = node.state(types);
            if item.is_task || node.state.is_some_and(|s| s != FINISHED) {
                nodes.push(node);
            }
        }
        let index = nodes.iter().enumerate().map(|(i, n)| (n.addr, i as u32)).collect();
        let machines = nodes.iter().enumerate().filter_map(|(i, n)| Some((n.machine_object(types)?, i as u32)));
        let machines = machines.collect();
        let reader = heap.reader();
        let mut linker = Linker {
            shapes,
            heap,
            reader,
            index,
            machines,
            fields: HashMap::new(),
            names: HashMap::new(),
            steps: Walks::new(Phase::Tasks, limits::MAX_ASYNC_STEPS),
        };
        linker.continuations(&mut nodes);
        linker.awaiters(&mut nodes);
        for i in 0..nodes.len() {
            let Some(node) = nodes.get_mut(i) else { continue };
            node.next.sort_unstable();
            node.next.dedup();
            let next = node.next.clone();
            for at in next {
                if let Some(next) = nodes.get_mut(at as usize) {
                    next.follows = true;
                }
            }
        }
        Tasks { nodes, sources, more, lost: losses.bytes }
    }
}

impl Node {
    /// Where its state machine is.
    fn machine_at(&self, types: &TypeSystem<'_>) -> Option<Addr> {
        let machine = self.machine.as_ref()?;
        let at = self.addr.checked_add(machine.at)?;
        if machine.object { types.memory.ptr(at).ok().filter(|a| !a.is_null()) } else { Some(at) }
    }

    /// Its state machine, where that is an object.
    fn machine_object(&self, types: &TypeSystem<'_>) -> Option<Addr> {
        self.machine.as_ref().filter(|m| m.object).and_then(|_| self.machine_at(types))
    }

    /// Whether it may be a box that was given back for reuse: those are no tasks,
    /// and all zeros.
    pub(super) fn given_back(&self) -> bool {
        !self.task && self.state == Some(0) && self.awaits == Awaits::Unknown
    }

    fn state(&self, types: &TypeSystem<'_>) -> Option<i32> {
        let at = self.machine_at(types)?.checked_add(self.machine.as_ref()?.state?)?;
        types.memory.u32(at).ok().map(|s| s as i32)
    }
}

impl Linker<'_, '_> {
    /// From each task to what it keeps as its continuation.
    fn continuations(&mut self, nodes: &mut [Node]) {
        for i in 0..nodes.len() {
            let Some(node) = nodes.get(i) else { continue };
            let Some(&at) = self.fields(node.method_table).get(CONTINUATION) else { continue };
            let kept = self.shapes.types.memory.ptr(node.addr.saturating_add(at));
            let Some(kept) = kept.ok().filter(|k| !k.is_null()) else { continue };
            let mut out = Next::default();
            self.follow(kept, 0, &mut out);
            if let Some(node) = nodes.get_mut(i) {
                (node.next, node.ends) = (out.nodes, out.ends);
            }
        }
    }

    /// The MethodTable of the object at `addr`.
    fn method_table(&mut self, addr: Addr) -> Option<Addr> {
        let node = self.reader.node(addr.get())?;
        self.heap.method_table(node.kind).map(|info| info.address)
    }

    /// What goes on by `object`: a task, a box, or what leads to one.
    fn follow(&mut self, object: Addr, depth: u32, out: &mut Next) {
        if object.is_null()
            || self.steps.spend(object, 1).is_err()
            || depth > limits::MAX_WRAPPERS
            || out.nodes.len() + out.ends.len() >= limits::MAX_CONTINUATIONS
        {
            return;
        }
        if let Some(&i) = self.index.get(&object).or_else(|| self.machines.get(&object)) {
            return out.nodes.push(i);
        }
        let Some(method_table) = self.method_table(object) else { return };
        if self.shapes.family(method_table) == Family::Task {
            return;
        }
        let name = self.name(method_table);
        let fields = self.fields(method_table);
        let read = |memory: &dyn Memory, name: &str| {
            let at = object.checked_add(*fields.get(name)?)?;
            memory.ptr(at).ok().filter(|o| !o.is_null())
        };
        let memory = self.shapes.types.memory;
        if name.starts_with(LIST) {
            let size = fields.get("_size").and_then(|at| memory.u32(object.checked_add(*at)?).ok()).unwrap_or(0);
            let Some(items) = read(memory, "_items") else { return };
            for i in 0..u64::from(size).min(limits::MAX_CONTINUATIONS as u64) {
                let Ok(item) = memory.ptr(items.saturating_add(ELEMENTS + 8 * i)) else { return };
                self.follow(item, depth + 1, out);
            }
            return;
        }
        if BLOCKED.contains(&&*name) {
            return out.ends.push(End::Thread(object));
        }
        let before = (out.nodes.len(), out.ends.len());
        if fields.contains_key("_methodPtr") {
            // A delegate; one that nothing else is known of is what is called.
            if let Some(&i) = read(memory, "_target").and_then(|t| self.index.get(&t)) {
                return out.nodes.push(i);
            }
            let target = read(memory, "_target").filter(|&t| t != object);
            if let Some(target) = target.filter(|&t| self.wraps(t)) {
                self.follow(target, depth + 1, out);
            }
            if before == (out.nodes.len(), out.ends.len()) {
                out.ends.push(End::Callback(object));
            }
            return;
        }
        for field in WRAPPED {
            if let Some(next) = read(memory, field) {
                self.follow(next, depth + 1, out);
            }
        }
        // The mark of a task that is done is a plain object.
        if before == (out.nodes.len(), out.ends.len()) && &*name != "System.Object" {
            out.ends.push(End::Other(object));
        }
    }

    /// Whether a delegate's target only leads on.
    fn wraps(&mut self, target: Addr) -> bool {
        let Some(method_table) = self.method_table(target) else { return false };
        let name = self.name(method_table);
        let fields = self.fields(method_table);
        self.machines.contains_key(&target)
            || name.starts_with("System.") && WRAPPED.iter().any(|f| fields.contains_key(*f))
    }

    /// From what the awaiters of async methods hold to these methods.
    fn awaiters(&mut self, nodes: &mut Vec<Node>) {
        for i in 0..nodes.len() {
            let Some(node) = nodes.get(i) else { continue };
            if node.machine.is_none() || node.state.is_some_and(|s| s < 0) {
                continue;
            }
            let awaits = self.awaited(node);
            let Some(node) = nodes.get_mut(i) else { continue };
            node.awaits = awaits;
            let Awaits::Object(object) = awaits else { continue };
            let known = self.index.get(&object).or_else(|| self.machines.get(&object)).copied();
            if let Some(awaited) = known.and_then(|at| nodes.get_mut(at as usize)) {
                awaited.next.push(i as u32);
            } else if nodes.len() < limits::MAX_ASYNC_OBJECTS {
                self.outside(nodes, object, i as u32);
            }
        }
    }

    /// Add what is awaited and is no task.
    fn outside(&mut self, nodes: &mut Vec<Node>, object: Addr, by: u32) {
        let Some(method_table) = self.method_table(object) else { return };
        self.index.insert(object, nodes.len() as u32);
        nodes.push(Node {
            addr: object,
            method_table,
            task: false,
            machine: None,
            state: None,
            awaits: Awaits::Nothing,
            next: vec![by],
            ends: Vec::new(),
            follows: false,
        });
    }

    /// The object in the awaiter that a state machine waits by. Those that it is
    /// done with are cleared.
    fn awaited(&mut self, node: &Node) -> Awaits {
        let Some(machine) = node.machine.clone() else { return Awaits::Nothing };
        let types = self.shapes.types;
        let (holder, shift) = match machine.object {
            true => (node.machine_at(types).unwrap_or(Addr::NULL), 0),
            false => (node.addr, machine.at),
        };
        let mut found: Vec<(u64, u64)> = Vec::new();
        self.reader.each(holder.get(), |link, value| {
            if let Link::Field(at) = link
                && value != 0
                && machine.awaiters.iter().any(|&(from, to)| at >= from + shift && at < to + shift)
            {
                found.push((at, value));
            }
            true
        });
        found.sort_unstable();
        let own = node.addr;
        let Some(object) = found.into_iter().map(|(_, value)| Addr::new(value)).find(|&o| o != own) else {
            return Awaits::Unknown;
        };
        let Some(method_table) = self.method_table(object) else {
            return Awaits::Unknown;
        };
        // Tasks that are not done are all known.
        match self.shapes.family(method_table) == Family::Task && !self.index.contains_key(&object) {
            true => Awaits::Done(object),
            false => Awaits::Object(object),
        }
    }

    fn fields(&mut self, method_table: Addr) -> Arc<HashMap<String, u64>> {
        let shapes = &self.shapes;
        self.fields.entry(method_table).or_insert_with(|| shapes.fields(method_table)).clone()
    }

    fn name(&mut self, method_table: Addr) -> Arc<str> {
        let types = self.shapes.types;
        self.names.entry(method_table).or_insert_with(|| types.display_name(method_table).into()).clone()
    }
}

/// What one task's continuation leads to.
#[derive(Default)]
struct Next {
    nodes: Vec<u32>,
    ends: Vec<End>,
}
