//! Requests in flight of Kestrel, and calls of HttpClient: the program's method in which each waits, and its wait.
//!
//! The runtime has no list of requests. A connection of HTTP/1.1, or a stream of HTTP/2, has a status that says
//! whether its request is answered, and the async methods that serve it refer to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::Addr;
use crate::progress::Progress;
use crate::runtimes::api::{Heap as _, PendingTasks, RequestSet, TaskEnd, TaskEndKind, TaskFact, WaitFact};
use crate::runtimes::clr_gc::is_library;
use crate::runtimes::coreclr::tasks::{Node, Tasks};
use crate::runtimes::coreclr::threads::task_waits::{MANY, SOON_MS, duration, short};
use crate::runtimes::coreclr::{CoreClr, string_text};

/// Prefix of the names of HttpClient's methods. The second constant is the prefix of the type of an object that waits
/// for a connection.
const CLIENT: &str = "System.Net.Http.";
const WAITER: &str = "HttpConnectionWaiter<";

/// The method of a call of HttpClient that has a connection.
const SENDS: &str = "System.Net.Http.HttpConnection.SendAsync";

/// Fields of a server's connection, of a client's pool, and of the pool's peer.
const PATH: &str = "<Path>k__BackingField";
const MOST: &str = "_maxHttp11Connections";
const USED: &str = "_associatedHttp11ConnectionCount";
const AUTHORITY: &str = "_originAuthority";
const HOST: &str = "<IdnHost>k__BackingField";
const PORT: &str = "<Port>k__BackingField";

/// Maximum number of tasks on the way from a connection to the innermost method, and upwards.
const MAX_BELOW: usize = 256;
const MAX_ABOVE: usize = 64;

/// Maximum number of references read per object.
const MAX_REFERENCES: usize = 256;

/// Maximum length of a path or host, in characters.
const MAX_TEXT: usize = 200;

/// Maximum number of async methods that use one object and are named. If more use it, they are not its consumers.
const USERS: usize = 4;

/// Minimum number of calls that wait for a connection before they are reported without a server.
const CALLS: usize = 3;

/// Requests in flight.
#[derive(Default)]
pub(in crate::runtimes::coreclr) struct Serving {
    pub(super) sets: Vec<RequestSet>,
    /// The innermost methods of the program that serve them.
    pub(super) tasks: Vec<TaskFact>,
}

/// A pool of connections that has no free one.
struct FullPool {
    connections: u32,
    peer: Option<String>,
}

/// Whether a wait ends by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// By a timer.
    Soon,
    /// By a peer. Usually soon.
    ByPeer,
    /// Not known.
    Unknown,
}

impl CoreClr<'_> {
    pub(super) fn serving(&self) -> &Serving {
        self.pending_facts().serving.get_or_init(|| self.read_serving())
    }

    /// Methods of the program in a node, innermost first.
    fn own_methods(&self, node: &Node) -> Vec<String> {
        self.methods_of(node).iter().map(|name| short(name)).filter(|name| !is_library(name)).collect()
    }

    /// The nearest method of the program that waits for a node.
    pub(in crate::runtimes::coreclr) fn own_caller(&self, tasks: &Tasks, from: u32) -> Option<String> {
        let node = self.own_node_above(tasks, from)?;
        self.own_methods(tasks.nodes.get(node as usize)?).into_iter().next()
    }

    /// The nearest node above one that has a method of the program.
    fn own_node_above(&self, tasks: &Tasks, from: u32) -> Option<u32> {
        let next = |i: u32| tasks.nodes.get(i as usize).map(|node| node.next.as_slice()).unwrap_or_default();
        let mut seen: HashSet<u32> = HashSet::from([from]);
        let mut level: Vec<u32> = next(from).to_vec();
        while !level.is_empty() {
            let mut above = Vec::new();
            for i in level {
                if seen.len() >= MAX_ABOVE || !seen.insert(i) {
                    continue;
                }
                if tasks.nodes.get(i as usize).is_some_and(|node| !self.own_methods(node).is_empty()) {
                    return Some(i);
                }
                above.extend(next(i));
            }
            level = above;
        }
        None
    }

    /// The innermost node that has a method of the program, among `starts` and the nodes below.
    fn innermost_own(&self, tasks: &Tasks, starts: &[u32]) -> Option<u32> {
        let mut seen: HashSet<u32> = starts.iter().copied().collect();
        let (mut level, mut found) = (starts.to_vec(), None);
        while !level.is_empty() {
            let mut below = Vec::new();
            for i in level {
                if tasks.nodes.get(i as usize).is_some_and(|node| !self.own_methods(node).is_empty()) {
                    found = Some(i);
                }
                let next = tasks.below(i).iter().copied();
                below.extend(next.filter(|next| seen.len() < MAX_BELOW && seen.insert(*next)));
            }
            level = below;
        }
        found
    }

    /// The async methods that refer to each of `objects`, as indices into the nodes.
    fn nodes_with(&self, tasks: &Tasks, objects: &HashSet<Addr>) -> HashMap<Addr, Vec<u32>> {
        let mut out: HashMap<Addr, Vec<u32>> = HashMap::new();
        let Some(heap) = self.object_heap().filter(|_| !objects.is_empty()) else { return out };
        let mut reader = heap.reader();
        for (i, node) in (0..).zip(&tasks.nodes).filter(|(_, node)| node.has_methods()) {
            let machine = node.machine_object(self.types());
            let parts = node.suspended.iter().map(|one| one.continuation);
            for object in std::iter::once(node.addr).chain(machine).chain(parts) {
                let mut left = MAX_REFERENCES;
                reader.each(object.get(), |_, to| {
                    let to = Addr::new(to);
                    if objects.contains(&to) {
                        let list = out.entry(to).or_default();
                        if list.last() != Some(&i) {
                            list.push(i);
                        }
                    }
                    left -= 1;
                    left > 0
                });
            }
        }
        out
    }

    /// Async methods that refer to one of these objects, with their waits. Empty if they are many.
    pub(super) fn tasks_with(&self, objects: &[Addr]) -> Vec<TaskFact> {
        let tasks = self.tasks(&Progress::silent());
        let found = self.nodes_with(tasks, &objects.iter().copied().collect());
        let mut nodes: Vec<u32> = found.into_values().flatten().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|i| tasks.nodes.get(*i as usize).is_some_and(|node| !self.own_methods(node).is_empty()));
        if nodes.len() > USERS {
            return Vec::new();
        }
        let of_node = |i: u32| {
            let name = self.own_methods(tasks.nodes.get(i as usize)?).into_iter().next()?;
            let inner = tasks.nodes.get(self.innermost_own(tasks, &[i])? as usize)?;
            let (fact, _) = self.fact(tasks, inner, &[]);
            Some(TaskFact { name: Some(name), ..fact })
        };
        nodes.into_iter().filter_map(of_node).filter(|fact| fact.wait.is_some()).collect()
    }

    fn text_in(&self, object: Addr, field: &str) -> Option<String> {
        string_text(self.types(), self.object_in(object, field)?, MAX_TEXT)
    }

    fn number_in(&self, object: Addr, field: &str) -> Option<u32> {
        self.types().memory.u32(self.field_of(object, field)?).ok()
    }

    fn full_pool(&self, pool: Addr) -> Option<FullPool> {
        let (most, used) = (self.number_in(pool, MOST)?, self.number_in(pool, USED)?);
        let peer = self.object_in(pool, AUTHORITY).and_then(|peer| {
            let host = self.text_in(peer, HOST)?;
            Some(self.number_in(peer, PORT).map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
        });
        (most > 0 && used >= most).then_some(FullPool { connections: most, peer })
    }

    fn waits_for_connection(&self, end: &TaskEnd) -> bool {
        let kind = end.source.and_then(|source| self.type_name_of(source));
        end.kind == TaskEndKind::Promise && kind.is_some_and(|kind| kind.contains(WAITER))
    }

    /// The wait of a request, by the ends of its innermost task.
    fn request_wait(&self, ends: &[TaskEnd], full: &[FullPool]) -> (Option<WaitFact>, Ends) {
        let Some(first) = ends.first() else { return (None, Ends::Soon) };
        let what = |what: String| WaitFact {
            object: first.object,
            what: Some(what),
            evidence: "the task that is waited for, and what its continuation depends on",
            ..WaitFact::default()
        };
        if first.kind == TaskEndKind::Timer && first.due_ms.is_some_and(|due| due <= SOON_MS) {
            let due = first.due_ms.unwrap_or(0);
            return (Some(WaitFact { soon: true, ..what(format!("a timer of {}", duration(due))) }), Ends::Soon);
        }
        let calls = first.methods.iter().any(|method| method.starts_with(CLIENT));
        let by_peer = matches!(first.kind, TaskEndKind::Source | TaskEndKind::Promise | TaskEndKind::Unknown);
        if calls && by_peer {
            // Which of several full pools the call uses is not read.
            let only = if let [only] = full { Some(only) } else { None };
            let peer = only.and_then(|pool| pool.peer.clone());
            if self.waits_for_connection(first) {
                let used = only.map_or_else(String::new, |pool| format!(" (all {} in use)", pool.connections));
                let text = format!("a free connection of HttpClient's pool{used}");
                return (Some(WaitFact { outside: true, peer, ..what(text) }), Ends::Unknown);
            }
            let text = "the answer to a call of HttpClient".to_owned();
            return (Some(WaitFact { outside: true, soon: true, peer, ..what(text) }), Ends::ByPeer);
        }
        let wait = self.wait_of(self.places(), ends);
        match first.kind {
            TaskEndKind::Source => (wait.map(|wait| WaitFact { soon: true, ..wait }), Ends::ByPeer),
            _ => (wait, Ends::Unknown),
        }
    }

    /// The party of a node that has a method of the program.
    fn fact(&self, tasks: &Tasks, node: &Node, full: &[FullPool]) -> (TaskFact, Ends) {
        let mut own = self.own_methods(node).into_iter();
        let place = own.next();
        let above = || self.own_caller(tasks, tasks.index_of(node.addr)?);
        let caller = own.find(|caller| Some(caller) != place.as_ref()).or_else(above);
        let (wait, ends) = self.request_wait(&self.ends(node.addr), full);
        (TaskFact { address: node.addr, name: None, place, caller, activity: None, wait, detail: None }, ends)
    }

    fn read_serving(&self) -> Serving {
        let tasks = self.tasks(&Progress::silent());
        let http = &tasks.http;
        if http.started.is_empty() && http.others.is_empty() && http.pools.is_empty() {
            return Serving::default();
        }
        let full: Vec<FullPool> = http.pools.iter().filter_map(|pool| self.full_pool(*pool)).collect();
        let mut known: HashSet<Addr> = self.places().tasks.iter().map(|task| task.address).collect();
        let mut facts: Vec<(TaskFact, Ends)> = Vec::new();
        let mut add = |node: &Node| {
            if known.insert(node.addr) {
                facts.push(self.fact(tasks, node, &full));
            }
        };
        let mut out = Serving::default();
        let mut served: HashSet<u32> = HashSet::new();
        let mut set = RequestSet { kind: "Kestrel".to_owned(), ..RequestSet::default() };
        let mut routes: BTreeMap<String, u64> = BTreeMap::new();
        let all: HashSet<Addr> = http.started.iter().chain(&http.others).copied().collect();
        let serve = self.nodes_with(tasks, &all);
        for (connection, started) in
            http.started.iter().map(|at| (at, true)).chain(http.others.iter().map(|at| (at, false)))
        {
            let inner = serve.get(connection).and_then(|nodes| self.innermost_own(tasks, nodes));
            let node = inner.and_then(|i| tasks.nodes.get(i as usize));
            // Until the answer begins, the status of an HTTP/2 stream does not show a request.
            if !started && node.is_none() {
                continue;
            }
            set.count += 1;
            if let Some(path) = self.text_in(*connection, PATH) {
                *routes.entry(path).or_default() += 1;
            }
            served.extend(inner);
            match node.map(|node| (node, node.tid)) {
                Some((_, Some(tid))) => set.threads.push(tid),
                Some((node, None)) => {
                    set.tasks.push(node.addr);
                    add(node);
                }
                None => {}
            }
        }
        set.routes = routes.into_iter().collect();
        set.routes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        out.sets.extend(Some(set).filter(|set| set.count > 0));
        out.sets.extend(self.calls(tasks, &served, &mut add));
        // A few calls that wait for a peer are normal. Many, or a queue for connections, mean that peers are slow.
        let by_peer = facts.iter().filter(|(_, ends)| *ends == Ends::ByPeer).count();
        let queued = facts.iter().any(|(fact, _)| fact.wait.as_ref().is_some_and(|wait| wait.outside && !wait.soon));
        let late = by_peer >= MANY || queued;
        out.tasks = facts
            .into_iter()
            .map(|(fact, ends)| if late && ends == Ends::ByPeer { stays(fact) } else { fact })
            .collect();
        out
    }

    /// Calls of HttpClient that no request of a server explains, if some wait for a connection.
    fn calls(&self, tasks: &Tasks, served: &HashSet<u32>, add: &mut dyn FnMut(&Node)) -> Option<RequestSet> {
        let mut kinds: HashMap<Addr, bool> = HashMap::new();
        let queued = tasks.sources.iter().filter(|(_, source)| {
            let is_waiter = || self.type_name_of(source.address).is_some_and(|kind| kind.contains(WAITER));
            *kinds.entry(source.method_table).or_insert_with(is_waiter)
        });
        let mut waiting: Vec<u32> = queued.filter_map(|(task, _)| tasks.index_of(*task)).collect();
        waiting.sort_unstable();
        if waiting.len() < CALLS {
            return None;
        }
        let sends = |node: &Node| self.methods_of(node).iter().any(|method| method.starts_with(SENDS));
        let active = (0..).zip(&tasks.nodes).filter(|(_, node)| node.has_methods() && sends(node)).map(|(i, _)| i);
        let all: Vec<u32> = waiting.iter().copied().chain(active).collect();
        let mut nodes: Vec<u32> = all.iter().filter_map(|i| self.own_node_above(tasks, *i)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|i| !served.contains(i));
        if nodes.len() < CALLS {
            return None;
        }
        let mut set = RequestSet { kind: "HttpClient".to_owned(), count: nodes.len() as u64, ..RequestSet::default() };
        for node in nodes.iter().filter_map(|i| tasks.nodes.get(*i as usize)) {
            set.tasks.push(node.addr);
            add(node);
        }
        Some(set)
    }
}

/// Returns `fact` with a wait that does not end soon.
fn stays(fact: TaskFact) -> TaskFact {
    TaskFact { wait: fact.wait.map(|wait| WaitFact { soon: false, ..wait }), ..fact }
}
