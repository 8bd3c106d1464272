//! What the completion of a task depends on: the ends of the chains below it.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::coreclr::tasks::links::{Awaits, Node, Tasks};
use crate::words::TaskEndKind;

/// Maximum number of tasks visited for one question.
const MAX_VISITED: usize = limits::MAX_ASYNC_DEPTH;

/// Maximum number of ends of one question.
const MAX_ENDS: usize = 1 << 10;

/// Facts about tasks that are not in the tasks themselves.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct TaskContext {
    /// Items in queues of the thread pool.
    pub(in crate::runtimes::coreclr) queued: HashSet<Addr>,
    /// SemaphoreSlim by the task in its queue.
    pub(in crate::runtimes::coreclr) semaphores: HashMap<Addr, Addr>,
}

/// An end, as indices into the nodes.
pub(in crate::runtimes::coreclr) struct FoundEnd {
    pub(in crate::runtimes::coreclr) kind: TaskEndKind,
    /// The node at the end.
    pub(in crate::runtimes::coreclr) node: u32,
    /// The object: that of the node, or the owner of the queue that it is in.
    pub(in crate::runtimes::coreclr) object: Addr,
    /// The nodes from the end to the queried one.
    pub(in crate::runtimes::coreclr) path: Vec<u32>,
}

impl Tasks {
    /// Index of the node of a task or box.
    pub(in crate::runtimes::coreclr) fn index_of(&self, task: Addr) -> Option<u32> {
        self.by_address.get(&task).copied()
    }

    /// The ends of the chains below a node.
    pub(in crate::runtimes::coreclr) fn ends_of(
        &self,
        start: u32,
        context: &TaskContext,
        is_timer: &dyn Fn(&Node) -> bool,
    ) -> Vec<FoundEnd> {
        let mut out = Vec::new();
        // The node from which each was reached.
        let mut parent: HashMap<u32, u32> = HashMap::new();
        let mut seen: HashSet<u32> = HashSet::from([start]);
        let mut work = vec![start];
        let mut closed = None;
        while let Some(at) = work.pop() {
            let Some(node) = self.nodes.get(at as usize) else { continue };
            let below = self.below(at);
            let kind = match end_kind(node, context, is_timer) {
                Some((kind, object)) => Some((kind, object)),
                None if below.is_empty() => Some((without_awaited(node), node.addr)),
                None => None,
            };
            match kind {
                Some((kind, object)) if out.len() < MAX_ENDS => {
                    let mut path = vec![at];
                    while let Some(&up) = path.last().and_then(|last| parent.get(last)) {
                        path.push(up);
                    }
                    out.push(FoundEnd { kind, node: at, object, path });
                }
                Some(_) => {}
                None => {
                    for &next in below {
                        if seen.len() < MAX_VISITED && seen.insert(next) {
                            parent.insert(next, at);
                            work.push(next);
                        } else if closed.is_none() {
                            closed = Some(at);
                        }
                    }
                }
            }
        }
        // Everything below was visited and nothing ends: the tasks wait for each other.
        if let (Some(at), true) = (closed, out.is_empty()) {
            let object = self.nodes.get(at as usize).map_or(Addr::NULL, |node| node.addr);
            out.push(FoundEnd { kind: TaskEndKind::Circle, node: at, object, path: vec![at] });
        }
        out
    }

    /// Nodes that a node continues after.
    pub(in crate::runtimes::coreclr) fn below(&self, at: u32) -> &[u32] {
        let range = self.below_starts.get(at as usize).zip(self.below_starts.get(at as usize + 1));
        range.and_then(|(&from, &to)| self.below.get(from as usize..to as usize)).unwrap_or(&[])
    }
}

/// The kind of end that a node is by its own state. `None` if it depends on what it awaits.
fn end_kind(node: &Node, context: &TaskContext, is_timer: &dyn Fn(&Node) -> bool) -> Option<(TaskEndKind, Addr)> {
    if let Some(&slim) = context.semaphores.get(&node.addr) {
        return Some((TaskEndKind::Semaphore, slim));
    }
    if node.tid.is_some() {
        return Some((TaskEndKind::Thread, node.addr));
    }
    if context.queued.contains(&node.addr) {
        return Some((TaskEndKind::Pool, node.addr));
    }
    if matches!(node.awaits, Awaits::Done(_)) {
        return Some((TaskEndKind::Posted, node.addr));
    }
    if node.task && is_timer(node) {
        return Some((TaskEndKind::Timer, node.addr));
    }
    (!node.task && node.machine.is_none()).then_some((TaskEndKind::Source, node.addr))
}

/// The kind of end of a node that awaits nothing that is known.
fn without_awaited(node: &Node) -> TaskEndKind {
    match node.machine.is_some() || node.runtime_async {
        true if node.state.is_some_and(|state| state >= 0) && node.awaits == Awaits::Unknown => TaskEndKind::Posted,
        true => TaskEndKind::Unknown,
        false if node.delegate => TaskEndKind::Posted,
        false => TaskEndKind::Promise,
    }
}
