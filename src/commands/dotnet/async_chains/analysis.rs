use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::heap_notes::warn_in_gc;
use crate::analysis::naming::{Code, Names};
use crate::bytes::printable;
use crate::commands::dotnet::async_chains::report::{
    AsyncChainRow, AsyncFrameRow, AsyncLocalRow, AsyncLocalValue, AsyncReport,
};
use crate::commands::dotnet::async_chains::tasks;
use crate::commands::dotnet::coreclr;
use crate::diag::WarningCode;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::report::{AsyncEnd, AsyncPart, AsyncState, Name};
use crate::runtimes::api::{AsyncFunctions, Heap as _, ManagedCode as _, ManagedRuntime as _};
use crate::runtimes::coreclr::tasks::{AsyncMethods, Awaits, Chain, End, Node, Tasks};
use crate::runtimes::coreclr::{AwaitVar, CodeAt, CoreClr, Method, Methods, TypeSystem, VarValue};
use crate::session::Session;
use crate::sums::{SaturatingAdd, SaturatingSum};
use crate::units::exact;

/// Words for awaited objects, by the beginning of their type's name.
const AWAITED: [(&str, &str); 9] = [
    ("System.Threading.SemaphoreSlim+TaskNode", "SemaphoreSlim.WaitAsync"),
    ("System.Net.Sockets.Socket+AwaitableSocketAsyncEventArgs", "a Socket's operation"),
    ("System.Net.Sockets.SocketAsyncEventArgs", "a Socket's operation"),
    ("System.Threading.Channels.AsyncOperation", "a Channel"),
    ("System.Threading.Channels.ChannelUtilities", "a Channel"),
    ("System.IO.Pipelines.Pipe+", "a pipe"),
    ("System.Threading.PeriodicTimer+", "a PeriodicTimer"),
    ("System.Threading.Tasks.Task+WhenAllPromise", "Task.WhenAll"),
    ("System.Threading.Tasks.Task+WhenAnyPromise", "Task.WhenAny"),
];

/// Type of the promise of Task.Delay, with or without a cancellation token (the name is a prefix of both).
const DELAY: &str = "System.Threading.Tasks.Task+DelayPromise";

/// Reports the chains of all pending async methods.
pub fn async_chains(session: &Session<'_>, merge: bool, progress: &Progress) -> AsyncReport {
    session.process.target().expect_scan();
    let (names, mut report) = (&Names::new(session), AsyncReport::default());
    let mut without_heap = Vec::new();
    for runtime in coreclr(session) {
        if runtime.object_heap().is_none() {
            without_heap.push(runtime.label());
        }
        one(session, runtime, names, merge, progress, &mut report);
    }
    tasks::of_others(session, merge, &mut report);
    report.unread = session
        .runtimes()
        .into_iter()
        .filter(|r| matches!(r.async_functions(), AsyncFunctions::Unread))
        .map(|r| r.label())
        .chain(without_heap)
        .collect();
    report.chains.sort_by_key(|c| std::cmp::Reverse(c.count));
    report
}

fn one<'p>(
    session: &Session<'p>,
    runtime: &CoreClr<'p>,
    names: &Names<'_, 'p>,
    merge: bool,
    progress: &Progress,
    report: &mut AsyncReport,
) {
    let process = session.process;
    let _phase = process.enter(Phase::Tasks);
    let Some(heap) = runtime.object_heap() else { return };
    let types = runtime.types();
    warn_in_gc(process, runtime, heap);
    runtime.warn("heap", heap.notes());
    let tasks = runtime.tasks(progress);
    if tasks.lost > 0 {
        runtime.warn("async", [&format!("{} bytes of the heap could not be walked", exact(tasks.lost))]);
    }
    if tasks.omitted > 0 {
        process.diag.partial(WarningCode::Limit, format!("{} more tasks are not listed", exact(tasks.omitted)));
    }
    let chains = tasks.chains(merge);
    if chains.cut {
        process
            .diag
            .partial(WarningCode::Limit, "too many chains of tasks: only the chains followed so far are listed");
    }
    let is_machine = |n: &Node| n.machine.is_some() && (n.state.is_some() || n.task);
    let of_methods = || tasks.nodes.iter().filter(|n| n.runtime_async || is_machine(n));
    report.total.add_saturating(chains.total);
    // Of a task of runtime async, each suspended method counts.
    let methods = of_methods().map(|n| if n.runtime_async { n.suspended.len() as u64 } else { 1 });
    report.methods.add_saturating(methods.saturating_sum());
    report.ready.add_saturating(of_methods().filter(|n| matches!(n.awaits, Awaits::Done(_))).count() as u64);
    let mut rows = Rows {
        session,
        names,
        types,
        code: runtime.methods(),
        tasks,
        methods: AsyncMethods::new(types),
        known: HashMap::new(),
        awaits: HashMap::new(),
        running: HashMap::new(),
    };
    report.chains.extend(chains.list.iter().map(|chain| rows.chain(chain)));
    // Without the names of the core library, no task is recognised.
    report.nameless |= types.modules().iter().any(|m| m.missing.is_some() && m.is_core_library());
    runtime.code().warn_missing();
}

/// A method that is suspended at a code address: its row, and the variables that it keeps.
#[derive(Clone, Default)]
struct Await {
    row: AsyncFrameRow,
    vars: Arc<[AwaitVar]>,
}

struct Rows<'r, 'n, 's, 't, 'p> {
    session: &'r Session<'p>,
    names: &'n Names<'s, 'p>,
    types: &'t TypeSystem<'p>,
    code: &'r Methods<'p>,
    tasks: &'r Tasks,
    methods: AsyncMethods<'t, 'p>,
    /// Rows by type, without the values that differ between objects.
    known: HashMap<Addr, AsyncFrameRow>,
    /// Rows of suspended methods by code address. `None` if the program does not have the method.
    awaits: HashMap<Addr, Option<Await>>,
    /// Running methods by thread, with the addresses of their frames.
    running: HashMap<u32, Vec<(Addr, AsyncFrameRow)>>,
}

impl<'p> Rows<'_, '_, '_, '_, 'p> {
    fn chain(&mut self, chain: &Chain) -> AsyncChainRow {
        let tasks = self.tasks;
        let nodes: Vec<&Node> = chain.nodes.iter().filter_map(|&i| tasks.nodes.get(i as usize)).collect();
        let mut frames: Vec<AsyncFrameRow> = Vec::new();
        for node in &nodes {
            if node.runtime_async {
                self.on_stack(node, &mut frames);
                self.suspended(node, &mut frames);
            } else {
                frames.push(self.frame(node));
            }
        }
        let innermost = nodes.iter().find(|node| node.has_methods());
        let has_awaiters = |node: &&Node| node.machine.as_ref().is_some_and(|machine| machine.has_awaiters());
        let state = match innermost.map(|node| node.awaits) {
            Some(Awaits::Done(_)) => AsyncState::Ready,
            // What it awaits is no longer in the awaiter, as with Task.Yield: it is queued.
            Some(Awaits::Unknown) if nodes.first().is_some_and(has_awaiters) => AsyncState::Ready,
            Some(Awaits::Nothing) => AsyncState::Running,
            _ => AsyncState::Waiting,
        };
        let awaiting = nodes.first().map(|node| self.awaiting(node)).unwrap_or_default();
        if let Some(first) = frames.first_mut() {
            first.awaiting = Some(awaiting.clone());
        }
        let (end, end_object) = match chain.end {
            End::Nobody => (AsyncEnd::Nobody, None),
            End::Cycle => (AsyncEnd::Circle, None),
            End::Thread(object) => (AsyncEnd::Thread, Some(object)),
            End::Callback(object) => (AsyncEnd::Callback, Some(object)),
            End::Other(object) => (AsyncEnd::Other, Some(object)),
        };
        let end_name = match chain.end {
            End::Callback(object) => self.delegate(object),
            End::Other(object) => self.types.type_of(object).map(|mt| self.type_name(mt)),
            End::Nobody | End::Cycle | End::Thread(_) => None,
        };
        AsyncChainRow {
            names: Vec::new(),
            count: chain.count,
            objects: chain.last.clone(),
            roots: chain.roots,
            state,
            tid: innermost.and_then(|node| node.tid),
            awaited: nodes.first().map(|node| tasks.owner_of(node.addr).unwrap_or(node.addr)),
            awaiting,
            frames,
            end,
            end_object,
            end_name,
        }
    }

    /// Adds the methods that a task runs on a thread, innermost first.
    fn on_stack(&mut self, node: &Node, out: &mut Vec<AsyncFrameRow>) {
        let (Some(tid), Some((above, below))) = (node.tid, node.frames) else { return };
        let known = self.running.remove(&tid);
        let bodies = known.unwrap_or_else(|| self.bodies(tid));
        let own = bodies.iter().filter(|(sp, _)| *sp > above && *sp < below);
        out.extend(own.map(|(_, row)| AsyncFrameRow { object: node.addr, ..row.clone() }));
        self.running.insert(tid, bodies);
    }

    /// The methods of runtime async that run on a thread, with the addresses of their frames, innermost first.
    fn bodies(&self, tid: u32) -> Vec<(Addr, AsyncFrameRow)> {
        let walker = self.session.walker(self.session.known_stacks());
        let Some(walk) = self.session.walk_tid(&walker, tid) else { return Vec::new() };
        let mut out = Vec::new();
        for frame in &walk.frames {
            let Some(method) = frame.method() else { continue };
            let Some(CodeAt::Method(ours)) = self.code.at(frame.code()) else { continue };
            if !self.code.is_async_body(&ours) {
                continue;
            }
            let source = self.code.source(method, frame.code());
            let row = AsyncFrameRow {
                kind: AsyncPart::Method,
                method: Some(self.definition(&ours)),
                module: Some(printable(&method.module).into_owned()),
                token: method.token.clone(),
                file: source.file.map(Name::from),
                line: source.line,
                state: Some(-1),
                ..AsyncFrameRow::default()
            };
            out.push((frame.sp, row));
        }
        out
    }

    /// Declared name of a method, without the arguments of an instantiation. State machines have the same form.
    fn definition(&self, method: &Method<'p>) -> String {
        let name = self.types.definition_name(&method.module, method.token);
        printable(name.as_deref().unwrap_or(&method.name)).into_owned()
    }

    /// Adds the suspended methods of a task of runtime async, without thunks and helpers of the library.
    fn suspended(&mut self, node: &Node, out: &mut Vec<AsyncFrameRow>) {
        for one in &node.suspended {
            let row = match one.ip {
                Some(ip) => self.suspended_at(ip),
                None => Some(Await::default()),
            };
            let Some(Await { row, vars }) = row else { continue };
            out.push(AsyncFrameRow {
                locals: vars.iter().map(|var| self.local(one.continuation, var)).collect(),
                object: one.continuation,
                kind: AsyncPart::Method,
                r#type: Name::from(
                    self.types.type_of(one.continuation).map_or_else(String::new, |mt| self.type_name(mt)),
                ),
                state: Some(one.state),
                ..row
            });
        }
    }

    /// The method that is suspended at a code address, with the await's line. `None` for thunks and helpers.
    fn suspended_at(&mut self, ip: Addr) -> Option<Await> {
        if let Some(known) = self.awaits.get(&ip) {
            return known.clone();
        }
        let row = match self.code.at(ip) {
            Some(CodeAt::Method(method)) if self.code.is_async_helper(&method) => None,
            Some(CodeAt::Method(method)) => {
                let line = self.code.await_line(&method, ip);
                let row = AsyncFrameRow {
                    method: Some(self.definition(&method)),
                    module: Some(printable(&method.module.name()).into_owned()),
                    token: Some(method.token.to_string()),
                    file: line.as_ref().map(|line| Name::from(printable(&line.file).into_owned())),
                    line: line.map(|line| line.line),
                    ..AsyncFrameRow::default()
                };
                Some(Await { row, vars: self.code.await_vars(&method, ip).into() })
            }
            _ => Some(Await::default()),
        };
        self.awaits.insert(ip, row.clone());
        row
    }

    fn local(&self, continuation: Addr, var: &AwaitVar) -> AsyncLocalRow {
        let value = self.code.await_value(continuation, var).map(|value| match value {
            VarValue::Int(number) => AsyncLocalValue::Int(number),
            VarValue::Unsigned(number) => AsyncLocalValue::Unsigned(number),
            VarValue::Float(number) => AsyncLocalValue::Float(number),
            VarValue::Object(object) => AsyncLocalValue::Object(object),
        });
        AsyncLocalRow {
            name: var.name.as_deref().map(|name| printable(name).into_owned()),
            r#type: var.r#type.as_deref().map(|name| Name::from(printable(name).into_owned())),
            offset: var.offset,
            value,
        }
    }

    fn frame(&mut self, node: &Node) -> AsyncFrameRow {
        let known = self.known.get(&node.method_table).cloned();
        let row = known.unwrap_or_else(|| {
            let row = match &node.machine {
                Some(machine) => {
                    let method = self.methods.of(machine.method_table);
                    let token = method.as_ref().and_then(|(_, token, _)| token.map(|t| t.to_string()));
                    AsyncFrameRow {
                        kind: AsyncPart::Method,
                        r#type: Name::from(self.type_name(machine.method_table)),
                        module: method.as_ref().map(|(_, _, module)| printable(&module.name()).into_owned()),
                        method: method.map(|(name, ..)| printable(&name).into_owned()),
                        token,
                        ..AsyncFrameRow::default()
                    }
                }
                None => AsyncFrameRow {
                    kind: if node.task { AsyncPart::Task } else { AsyncPart::Source },
                    r#type: Name::from(self.type_name(node.method_table)),
                    ..AsyncFrameRow::default()
                },
            };
            self.known.insert(node.method_table, row.clone());
            row
        });
        let mut row = AsyncFrameRow { object: node.addr, state: node.state, ..row };
        if row.kind == AsyncPart::Task {
            row.method = self.reference(node, "m_action").and_then(|delegate| self.delegate(delegate));
        }
        row
    }

    /// Describes what the first element of a chain waits for.
    fn awaiting(&self, node: &Node) -> String {
        if node.has_methods() {
            return match node.awaits {
                Awaits::Done(_) => "nothing: what it awaited is done, but it has not resumed yet".into(),
                Awaits::Unknown if node.machine.as_ref().is_some_and(|machine| !machine.has_awaiters()) => {
                    "unknown: coremap does not know the names that its compiler gives to awaiters".into()
                }
                Awaits::Unknown => "unknown: its awaiter has no object (like the awaiter of Task.Yield)".into(),
                Awaits::Nothing => "nothing: it is running or has not started".into(),
                Awaits::Object(object) => format!("the object {object}, which is not in the core"),
            };
        }
        let name = self.type_name(node.method_table);
        if let Some(source) = self.tasks.sources.get(&node.addr) {
            let of = self.type_name(source.method_table);
            return of.strip_prefix("System.Threading.Tasks.").unwrap_or(&of).to_owned();
        }
        if name.starts_with(DELAY) {
            return match self.delay(node) {
                Some(u32::MAX) => "Task.Delay(Infinite)".into(),
                Some(ms) => format!("Task.Delay of {} ms", exact(u64::from(ms))),
                None => "Task.Delay".into(),
            };
        }
        if let Some((_, words)) = AWAITED.iter().find(|(start, _)| name.starts_with(start)) {
            return (*words).to_owned();
        }
        match self.reference(node, "m_action").and_then(|delegate| self.delegate(delegate)) {
            Some(method) => format!("a running or queued task: {method}"),
            None if node.task => format!("a {name} (what completes it is unknown)"),
            None => format!("a {name}"),
        }
    }

    /// Milliseconds passed to Task.Delay.
    fn delay(&self, node: &Node) -> Option<u32> {
        let timer = self.reference(node, "_timer")?;
        let at = self.field(self.types.type_of(timer)?, "_dueTime")?;
        self.types.memory.u32(timer.checked_add(at)?).ok()
    }

    fn field(&self, method_table: Addr, name: &str) -> Option<u64> {
        let fields = self.types.object_fields(method_table);
        fields.iter().find(|f| self.types.field_name(f) == name).map(|f| f.offset)
    }

    fn reference(&self, node: &Node, field: &str) -> Option<Addr> {
        let at = node.addr.checked_add(self.field(node.method_table, field)?)?;
        self.types.memory.ptr(at).ok().filter(|o| !o.is_null())
    }

    fn delegate(&self, delegate: Addr) -> Option<String> {
        let method_table = self.types.type_of(delegate)?;
        let code = |field| {
            let at = delegate.checked_add(self.field(method_table, field)?)?;
            self.types.memory.ptr(at).ok().filter(|p| !p.is_null())
        };
        let name = |ip| match self.names.code(ip) {
            Code::Managed(_, method) => Some(printable(&method.name).into_owned()),
            Code::Stub(stub) => stub.of.map(|name| printable(&name).into_owned()),
            _ => None,
        };
        // A delegate to a static method has a stub in `_methodPtr` that shifts the arguments.
        code("_methodPtrAux").and_then(name).or_else(|| code("_methodPtr").and_then(name))
    }

    fn type_name(&self, method_table: Addr) -> String {
        printable(&self.types.display_name(method_table)).into_owned()
    }
}
