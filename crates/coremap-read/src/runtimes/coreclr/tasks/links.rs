//! Links tasks to their continuations: who waits for whom.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{Heap as _, HeapRange, Link, ObjectReader, UnwalkedRanges};
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::tasks::find::{AsyncObjects, FINISHED, HttpObjects, Source};
use crate::runtimes::coreclr::tasks::runners;
use crate::runtimes::coreclr::tasks::shapes::{Family, Machine, Shapes};
use crate::runtimes::coreclr::tasks::suspended::{HEAD, LEAVES, RESUME, Running, Suspended, Suspensions};
use crate::runtimes::coreclr::threads;
use crate::runtimes::coreclr::types::TypeSystem;

/// Field of a task with its continuation.
const CONTINUATION: &str = "m_continuationObject";

/// Fields through which continuation objects reference the next: ContinueWithTaskContinuation (StandardTaskContinuation
/// before .NET 5), AwaitTaskContinuation and similar ones, AsyncMethodBuilderCore.ContinuationWrapper, MoveNextRunner,
/// RuntimeAsyncTaskContinuation.
const WRAPPED: [&str; 5] = ["m_task", "m_action", "_continuation", "m_stateMachine", "RuntimeAsyncTask"];

/// Fields of a box with the delegate that resumes its method, by version.
const MOVE_NEXT: [&str; 2] = ["_moveNextAction", "m_action"];

/// Objects that wake a thread blocked in Task.Wait, Task.WaitAll and similar.
const BLOCKED: [&str; 2] =
    ["System.Threading.Tasks.Task+SetOnInvokeMres", "System.Threading.Tasks.Task+SetOnCountdownMres"];

/// Prefix of the name of a list of continuations.
const LIST: &str = "System.Collections.Generic.List<";

/// Offset of an array's first reference.
const ELEMENTS: u64 = 16;

/// What an async method waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Awaits {
    /// The object in its awaiter.
    Object(Addr),
    /// A completed task: the method is ready to run.
    Done(Addr),
    /// Its awaiter has no object (as with Task.Yield).
    #[default]
    Unknown,
    /// Nothing: it is running, or has not started.
    Nothing,
}

/// End of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Nothing waits for the last task.
    Nobody,
    /// The next task is in the chain already, so it will never complete. Or the chain exceeds the depth limit.
    Cycle,
    /// A blocked thread, by the object that will wake it.
    Thread(Addr),
    /// A delegate.
    Callback(Addr),
    /// An object of another type.
    Other(Addr),
}

/// A pending task, an async method, or an object that one of them waits for.
#[derive(Clone, Debug)]
pub struct Node {
    /// Address of the object.
    pub addr: Addr,
    /// Its MethodTable.
    pub method_table: Addr,
    /// Whether it is a task. Otherwise it is the source of a ValueTask, or any awaited object.
    pub task: bool,
    /// State machine, if it is an async method.
    pub machine: Option<Arc<Machine>>,
    /// State of the state machine: the number of the current await, -1 while running.
    pub state: Option<i32>,
    /// What it waits for, according to its own state.
    pub awaits: Awaits,
    /// Indices of the nodes that continue after it.
    pub next: Vec<u32>,
    /// Other continuations.
    pub ends: Vec<End>,
    /// Whether it continues after another node.
    pub follows: bool,
    /// Whether it is the task of an outermost call of runtime async.
    pub runtime_async: bool,
    /// The suspended methods of such a task, innermost first.
    pub suspended: Vec<Suspended>,
    /// The thread on which such a task runs. `suspended` then has the methods that wait for the running one to return.
    pub tid: Option<u32>,
    /// For a thread that a record of the runtime names: the stack addresses between which its methods have their
    /// frames.
    pub frames: Option<(Addr, Addr)>,
    /// Whether it is a task with a delegate to run.
    pub delegate: bool,
    /// Number of the group of tasks whose methods are suspended at the same code addresses.
    pub(super) place: u32,
}

/// All pending tasks, linked to their continuations.
pub struct Tasks {
    /// Tasks and boxes by address, then awaited objects that are neither.
    pub nodes: Vec<Node>,
    /// Completion sources, by the task that each completes.
    pub sources: HashMap<Addr, Source>,
    /// Objects of HTTP servers and clients.
    pub http: HttpObjects,
    /// Number of objects left out by a limit.
    pub omitted: u64,
    /// Bytes of the heap that could not be walked.
    pub lost: u64,
    /// Index of each node by its address.
    pub(super) by_address: HashMap<Addr, u32>,
    /// For each node, the start of its part of `below`: the nodes after which it continues.
    pub(super) below_starts: Vec<u32>,
    pub(super) below: Vec<u32>,
    /// Owners of the queues in which awaited objects are, such as the SemaphoreSlim of a TaskNode.
    pub(super) owners: HashMap<Addr, Addr>,
}

struct Linker<'t, 'p> {
    shapes: Shapes<'t, 'p>,
    heap: &'t Heap<'p>,
    reader: Box<dyn ObjectReader + 't>,
    index: HashMap<Addr, u32>,
    /// Indices of boxes by the address of their state machine, for state machines that are objects.
    machines: HashMap<Addr, u32>,
    fields: HashMap<Addr, Arc<HashMap<String, u64>>>,
    names: HashMap<Addr, Arc<str>>,
    /// Bounds the objects visited between tasks: a list may contain itself.
    steps: Walks,
}

impl Tasks {
    /// Links the tasks that were found in `heap`.
    pub(in crate::runtimes::coreclr) fn link(
        heap: &Heap<'_>,
        found: &AsyncObjects,
        owners: &HashMap<Addr, Addr>,
    ) -> Tasks {
        let types: &TypeSystem<'_> = heap.type_system();
        let shapes = Shapes::new(types);
        let AsyncObjects { items, sources, http, omitted, lost } = found;
        let mut nodes: Vec<Node> = Vec::with_capacity(items.len());
        let mut suspensions = Suspensions::new(types);
        for item in items {
            let mut node = Node {
                addr: item.addr,
                method_table: item.method_table,
                task: item.is_task,
                machine: item.machine.clone(),
                state: None,
                awaits: Awaits::Nothing,
                next: Vec::new(),
                ends: Vec::new(),
                follows: false,
                runtime_async: item.is_task && suspensions.is_task(item.method_table),
                suspended: Vec::new(),
                tid: None,
                frames: None,
                delegate: false,
                place: 0,
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
        linker.suspended(&mut nodes, &mut suspensions);
        linker.continuations(&mut nodes);
        linker.awaiters(&mut nodes);
        linker.resumed_by_others(&mut nodes);
        linker.runners(&mut nodes);
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
        let by_address = nodes.iter().enumerate().map(|(i, n)| (n.addr, i as u32)).collect();
        let (below_starts, below) = below(&nodes);
        let (sources, http, omitted, lost) = (sources.clone(), http.clone(), *omitted, *lost);
        Tasks { nodes, sources, http, omitted, lost, by_address, below_starts, below, owners: owners.clone() }
    }
}

impl Node {
    /// Address of the state machine.
    fn machine_at(&self, types: &TypeSystem<'_>) -> Option<Addr> {
        let machine = self.machine.as_ref()?;
        let at = self.addr.checked_add(machine.at)?;
        if machine.object { types.memory.ptr(at).ok().filter(|a| !a.is_null()) } else { Some(at) }
    }

    /// Address of the state machine, if it is an object of its own.
    pub(in crate::runtimes::coreclr) fn machine_object(&self, types: &TypeSystem<'_>) -> Option<Addr> {
        self.machine.as_ref().filter(|m| m.object).and_then(|_| self.machine_at(types))
    }

    /// Whether it is an async method, or the task of several.
    pub fn has_methods(&self) -> bool {
        self.machine.is_some() || self.runtime_async
    }

    /// Whether it may be a pooled box that was returned for reuse. Such boxes are no tasks and all zeros.
    pub(super) fn may_be_pooled(&self) -> bool {
        !self.task && self.state == Some(0) && self.awaits == Awaits::Unknown
    }

    /// The object whose async method it is, as its state machine has it. `None` for static methods.
    pub fn this(&self, types: &TypeSystem<'_>) -> Option<Addr> {
        let machine = self.machine.as_ref()?;
        let at = self.machine_at(types)?.checked_add(machine.this?)?;
        types.memory.ptr(at).ok().filter(|this| !this.is_null())
    }

    fn state(&self, types: &TypeSystem<'_>) -> Option<i32> {
        let at = self.machine_at(types)?.checked_add(self.machine.as_ref()?.state?)?;
        types.memory.u32(at).ok().map(|s| s as i32)
    }
}

impl Linker<'_, '_> {
    /// Links each task to its continuation.
    fn continuations(&mut self, nodes: &mut [Node]) {
        for i in 0..nodes.len() {
            let Some(node) = nodes.get(i) else { continue };
            let Some(&at) = self.fields(node.method_table).get(CONTINUATION) else { continue };
            let continuation = self.shapes.types.memory.ptr(node.addr.saturating_add(at));
            let Some(continuation) = continuation.ok().filter(|c| !c.is_null()) else { continue };
            let mut out = Continuations::default();
            self.follow(continuation, 0, &mut out);
            if let Some(node) = nodes.get_mut(i) {
                (node.next, node.ends) = (out.nodes, out.ends);
            }
        }
    }

    /// Finds the threads that run tasks, where no record of the runtime names them.
    fn runners(&mut self, nodes: &mut [Node]) {
        let mut wanted = HashMap::new();
        for (i, node) in nodes.iter_mut().enumerate() {
            node.delegate = !node.runtime_async
                && node.machine.is_none()
                && node.task
                && self.reference(node.addr, node.method_table, "m_action").is_some();
            if node.machine.is_some() && node.state == Some(-1) || node.delegate {
                wanted.insert(node.addr, i as u32);
            }
        }
        let types = self.shapes.types;
        let (threads, _) = threads(types.process, &types.runtime).unwrap_or_default();
        for (i, tid) in runners::find(types.process, threads, nodes, &wanted) {
            if let Some(node) = nodes.get_mut(i as usize) {
                node.tid = Some(tid);
            }
        }
    }

    /// Reads the suspended methods of the tasks of runtime async.
    fn suspended(&mut self, nodes: &mut [Node], suspensions: &mut Suspensions<'_, '_>) {
        if !nodes.iter().any(|node| node.runtime_async) {
            return;
        }
        let mut running = suspensions.running(self.shapes.types.process);
        for node in nodes.iter_mut().filter(|node| node.runtime_async) {
            if let Some(head) = self.reference(node.addr, node.method_table, HEAD) {
                node.suspended = suspensions.from(head);
            } else if let Some(Running { tid, frames, callers }) = running.remove(&node.addr) {
                (node.tid, node.frames, node.suspended) = (Some(tid), Some(frames), callers);
            }
            node.place = suspensions.place(&node.suspended);
        }
    }

    /// A reference of an object that is not null.
    fn reference(&mut self, object: Addr, method_table: Addr, field: &str) -> Option<Addr> {
        let at = object.checked_add(*self.fields(method_table).get(field)?)?;
        self.shapes.types.memory.ptr(at).ok().filter(|o| !o.is_null())
    }

    /// What the innermost method of a task of runtime async waits for.
    fn awaited_by_task(&mut self, node: &Node) -> Awaits {
        // Without a continuation it runs.
        let Some(head) = self.reference(node.addr, node.method_table, HEAD) else { return Awaits::Nothing };
        let Some(method_table) = self.method_table(head) else { return Awaits::Unknown };
        let name = self.name(method_table);
        if let Some((_, field)) = LEAVES.iter().find(|(class, _)| *class == &*name) {
            let Some(object) = self.reference(head, method_table, field) else { return Awaits::Unknown };
            return self.pending(object);
        }
        // The program's own awaiters are among the stored values, and have the delegate that resumes the method.
        let Some(resume) = self.reference(node.addr, node.method_table, RESUME) else { return Awaits::Unknown };
        let kept = self.references(head);
        if let Some(&awaiter) = kept.iter().find(|&&kept| kept != node.addr && self.references(kept).contains(&resume))
        {
            return Awaits::Object(awaiter);
        }
        // Unless another object has the delegate, the method is in a queue that resumes it.
        Awaits::Done(head)
    }

    /// Finds the objects with the delegate that resumes a method, if the method's own awaiter does not have it. An
    /// awaiter may store it in a static variable or elsewhere. Without such an object, the method is in a queue.
    fn resumed_by_others(&mut self, nodes: &mut Vec<Node>) {
        let mut wanted: HashMap<Addr, u32> = HashMap::new();
        for (i, node) in nodes.iter().enumerate() {
            let fields: &[&str] = match node.awaits {
                Awaits::Done(at) if node.suspended.iter().any(|s| s.continuation == at) => &[RESUME],
                Awaits::Unknown if node.machine.is_some() => &MOVE_NEXT,
                _ => continue,
            };
            let resume = fields.iter().find_map(|field| self.reference(node.addr, node.method_table, field));
            wanted.extend(resume.map(|resume| (resume, i as u32)));
        }
        if wanted.is_empty() {
            return;
        }
        let (heap, shapes) = (self.heap, &self.shapes);
        let of_part = |part: &HeapRange| {
            let (mut reader, mut losses, mut out) = (heap.reader(), UnwalkedRanges::default(), Vec::new());
            heap.walker().walk(part, &mut losses, &mut |object| {
                let mut found = Vec::new();
                reader.each(object.addr.get(), |_, value| {
                    found.extend(wanted.get(&Addr::new(value)).map(|&node| (node, object.addr)));
                    true
                });
                let Some(info) = heap.method_table(object.kind).filter(|_| !found.is_empty()) else { return };
                // The task itself refers to the delegate, and so does a task that is queued to call it.
                if shapes.family(info.address) != Family::Task {
                    out.extend(found);
                }
            });
            out
        };
        let mut holders: Vec<(u32, Addr)> = heap.ranges().par_iter().flat_map_iter(of_part).collect();
        // A pooled box is no task, and has its own delegate.
        holders.retain(|&(node, holder)| nodes.get(node as usize).is_some_and(|node| node.addr != holder));
        holders.sort_unstable();
        holders.dedup_by_key(|(node, _)| *node);
        for (i, holder) in holders {
            let Some(node) = nodes.get_mut(i as usize) else { continue };
            node.awaits = Awaits::Object(holder);
            self.link(nodes, self.index.get(&holder).copied(), holder, i);
        }
    }

    /// References of an object, up to a limit.
    fn references(&mut self, object: Addr) -> Vec<Addr> {
        let mut out = Vec::new();
        self.reader.each(object.get(), |_, value| {
            if value != 0 {
                out.push(Addr::new(value));
            }
            out.len() < limits::MAX_CONTINUATIONS
        });
        out
    }

    /// Whether an awaited object is done. The index has every pending task, so a task that is missing is completed.
    fn pending(&mut self, object: Addr) -> Awaits {
        let task = self.method_table(object).is_some_and(|mt| self.shapes.family(mt) == Family::Task);
        if task && !self.index.contains_key(&object) { Awaits::Done(object) } else { Awaits::Object(object) }
    }

    fn method_table(&mut self, addr: Addr) -> Option<Addr> {
        let node = self.reader.node(addr.get())?;
        self.heap.method_table(node.kind).map(|info| info.address)
    }

    /// Follows a continuation to a task or box, through any wrappers.
    fn follow(&mut self, object: Addr, depth: u32, out: &mut Continuations) {
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
            // A delegate. If its target leads nowhere, the delegate itself is the continuation.
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
        // A completed task has a plain System.Object in place of a continuation.
        if before == (out.nodes.len(), out.ends.len()) && &*name != "System.Object" {
            out.ends.push(End::Other(object));
        }
    }

    /// Whether a delegate's target is only a wrapper.
    fn wraps(&mut self, target: Addr) -> bool {
        let Some(method_table) = self.method_table(target) else { return false };
        let name = self.name(method_table);
        let fields = self.fields(method_table);
        self.machines.contains_key(&target)
            || name.starts_with("System.") && WRAPPED.iter().any(|f| fields.contains_key(*f))
    }

    /// Links objects in awaiters to the async methods that wait for them.
    fn awaiters(&mut self, nodes: &mut Vec<Node>) {
        for i in 0..nodes.len() {
            let Some(node) = nodes.get(i) else { continue };
            let awaits = if node.runtime_async {
                self.awaited_by_task(node)
            } else if node.machine.is_none() || node.state.is_some_and(|s| s < 0) {
                continue;
            } else {
                self.awaited(node)
            };
            let Some(node) = nodes.get_mut(i) else { continue };
            node.awaits = awaits;
            let Awaits::Object(object) = awaits else { continue };
            let known = self.index.get(&object).or_else(|| self.machines.get(&object)).copied();
            self.link(nodes, known, object, i as u32);
        }
    }

    /// Links an awaited object to the node `by` that waits for it. `known`: index of the object's node, if it has one.
    fn link(&mut self, nodes: &mut Vec<Node>, known: Option<u32>, object: Addr, by: u32) {
        if let Some(awaited) = known.and_then(|at| nodes.get_mut(at as usize)) {
            awaited.next.push(by);
        } else if nodes.len() < limits::MAX_ASYNC_OBJECTS {
            self.add_awaited(nodes, object, by);
        }
    }

    /// Adds an awaited object that is neither task nor box.
    fn add_awaited(&mut self, nodes: &mut Vec<Node>, object: Addr, by: u32) {
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
            runtime_async: false,
            suspended: Vec::new(),
            tid: None,
            frames: None,
            delegate: false,
            place: 0,
        });
    }

    /// The object in the awaiter that a state machine waits on. Awaiters that are no longer in use are cleared.
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
        // The index has every pending task, so a task that is missing is completed.
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

/// Returns, for each node, the nodes after which it continues: where each node's list starts, and the indices.
fn below(nodes: &[Node]) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; nodes.len() + 1];
    for &next in nodes.iter().flat_map(|node| &node.next) {
        if let Some(count) = starts.get_mut(next as usize + 1) {
            *count = count.saturating_add(1);
        }
    }
    let mut sum = 0_u32;
    for start in &mut starts {
        sum = sum.saturating_add(*start);
        *start = sum;
    }
    let mut below = vec![0; sum as usize];
    let mut at = starts.clone();
    for (i, node) in nodes.iter().enumerate() {
        for &next in &node.next {
            let Some(slot) = at.get_mut(next as usize) else { continue };
            if let Some(entry) = below.get_mut(*slot as usize) {
                *entry = i as u32;
            }
            *slot = slot.saturating_add(1);
        }
    }
    (starts, below)
}

/// Targets of one task's continuation.
#[derive(Default)]
struct Continuations {
    nodes: Vec<u32>,
    ends: Vec<End>,
}
