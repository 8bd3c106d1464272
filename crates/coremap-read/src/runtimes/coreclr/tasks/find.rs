//! Finds the objects on the heap that take part in tasks.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::Object;
use crate::runtimes::coreclr::heap::{Collector, Heap};
use crate::runtimes::coreclr::tasks::shapes::{Family, Machine, Shapes};

/// Task.m_stateFlags: ran to completion, canceled, faulted (Task.cs).
const COMPLETED: u32 = 0x0100_0000 | 0x0040_0000 | 0x0020_0000;

/// State of a finished state machine.
pub(super) const FINISHED: i32 = -2;

/// Field names of tasks and of completion sources. Both names of the latter occur in 3.1 and later.
pub(super) const FLAGS: &str = "m_stateFlags";
const COMPLETES: [&str; 2] = ["_task", "m_task"];

/// A pending task, or a box that is not a task.
#[derive(Clone, Debug)]
pub(super) struct AsyncObject {
    pub(super) addr: Addr,
    pub(super) method_table: Addr,
    /// State machine of the async method, if it has one.
    pub(super) machine: Option<Arc<Machine>>,
    pub(super) is_task: bool,
}

/// A completion source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Address of the object.
    pub address: Addr,
    /// Its MethodTable.
    pub method_table: Addr,
}

/// Objects of servers and clients of HTTP.
///
/// Sources: aspnetcore, Kestrel.Core: HttpProtocol.cs (RequestProcessingStatus); System.Net.Http:
/// HttpConnectionPool.cs.
#[derive(Clone, Debug, Default)]
pub struct HttpObjects {
    /// Connections and streams of Kestrel that have a request, by their status.
    pub started: Vec<Addr>,
    /// Connections and streams whose status does not show a request. They have one if a method of the program serves
    /// them.
    pub others: Vec<Addr>,
    /// HttpClient's pools of connections.
    pub pools: Vec<Addr>,
}

/// Namespace of Kestrel's connections and streams, and their field with the status of the request.
const PROTOCOL: &str = "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http";
const STATUS: &str = "_requestProcessingStatus";

/// Statuses of a request: passed to the program (AppStarted), and answered (ResponseCompleted).
const APP_STARTED: u32 = 3;
const ANSWERED: u32 = 6;

/// HttpClient's pool of connections to one host.
const POOL: &str = "System.Net.Http.HttpConnectionPool";

/// Pending tasks and boxes, from one walk of the heap.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct AsyncObjects {
    /// Objects of HTTP.
    pub(super) http: HttpObjects,
    /// Pending items by address.
    pub(super) items: Vec<AsyncObject>,
    /// Completion sources, by the task that each completes.
    pub(super) sources: HashMap<Addr, Source>,
    /// Number of items left out.
    pub(super) omitted: u64,
    /// Bytes that could not be walked.
    pub(in crate::runtimes::coreclr) lost: u64,
}

/// Role of a type's objects in this walk.
enum Role {
    Task {
        flags: u64,
        machine: Option<Arc<Machine>>,
    },
    Box(Arc<Machine>),
    Source(u64),
    /// A connection or stream of a server, with the offset of its status.
    Connection(u64),
    /// A client's pool of connections.
    Pool,
    None,
}

fn role(shapes: &Shapes<'_, '_>, method_table: Addr) -> Role {
    let family = shapes.family(method_table);
    let field = |names: &[&str]| {
        let fields = shapes.fields(method_table);
        names.iter().find_map(|name| fields.get(*name).copied())
    };
    match family {
        Family::Task => field(&[FLAGS])
            .map_or(Role::None, |flags| Role::Task { flags, machine: shapes.machine(method_table).map(Arc::new) }),
        Family::Source => field(&COMPLETES).map_or(Role::None, Role::Source),
        Family::Other => match shapes.machine(method_table) {
            Some(machine) => Role::Box(Arc::new(machine)),
            None => http_role(shapes, method_table).unwrap_or(Role::None),
        },
    }
}

fn http_role(shapes: &Shapes<'_, '_>, method_table: Addr) -> Option<Role> {
    let name = shapes.types.display_name(method_table);
    if name == POOL {
        return Some(Role::Pool);
    }
    let status = || shapes.fields(method_table).get(STATUS).copied();
    name.starts_with(PROTOCOL).then(status).flatten().map(Role::Connection)
}

/// Collects pending tasks.
pub(in crate::runtimes::coreclr) struct TaskCollector<'t, 'p> {
    heap: &'t Heap<'p>,
    shapes: Shapes<'t, 'p>,
}

impl<'t, 'p> TaskCollector<'t, 'p> {
    pub(in crate::runtimes::coreclr) fn new(heap: &'t Heap<'p>) -> TaskCollector<'t, 'p> {
        TaskCollector { heap, shapes: Shapes::new(heap.type_system()) }
    }
}

/// What one worker collected, and the roles that it knows by the number of their type.
pub(in crate::runtimes::coreclr) struct TaskShare {
    roles: HashMap<u32, Role>,
    pub(in crate::runtimes::coreclr) found: AsyncObjects,
}

impl Collector for TaskCollector<'_, '_> {
    type Found = TaskShare;

    fn begin(&self) -> TaskShare {
        TaskShare { roles: HashMap::new(), found: AsyncObjects::default() }
    }

    fn visit(&self, share: &mut TaskShare, object: &Object) {
        let (heap, memory) = (self.heap, self.shapes.types.memory);
        let AsyncObjects { items, sources, omitted, http, .. } = &mut share.found;
        let role = share.roles.entry(object.kind.0).or_insert_with(|| match heap.method_table(object.kind) {
            Some(info) if !info.free && !info.counted() => role(&self.shapes, info.address),
            _ => Role::None,
        });
        let (machine, is_task) = match role {
            Role::None => return,
            Role::Pool => {
                if http.pools.len() < limits::MAX_ASYNC_OBJECTS {
                    http.pools.push(object.addr);
                }
                return;
            }
            Role::Connection(at) => {
                let list = match memory.u32(object.addr.saturating_add(*at)) {
                    Ok(APP_STARTED..ANSWERED) => &mut http.started,
                    Ok(0..APP_STARTED) => &mut http.others,
                    _ => return,
                };
                if list.len() < limits::MAX_ASYNC_OBJECTS {
                    list.push(object.addr);
                }
                return;
            }
            Role::Source(at) => {
                let task = memory.ptr(object.addr.saturating_add(*at)).ok().filter(|t| !t.is_null());
                if let Some(task) = task.filter(|_| sources.len() < limits::MAX_ASYNC_OBJECTS) {
                    let method_table = heap.method_table(object.kind).map_or(Addr::NULL, |info| info.address);
                    sources.insert(task, Source { address: object.addr, method_table });
                }
                return;
            }
            Role::Task { flags, machine } => {
                let flags = memory.u32(object.addr.saturating_add(*flags));
                if flags.is_ok_and(|f| f & COMPLETED != 0) {
                    return;
                }
                (machine.clone(), true)
            }
            Role::Box(machine) => (Some(machine.clone()), false),
        };
        if items.len() >= limits::MAX_ASYNC_OBJECTS {
            *omitted += 1;
            return;
        }
        let method_table = heap.method_table(object.kind).map_or(Addr::NULL, |info| info.address);
        items.push(AsyncObject { addr: object.addr, method_table, machine, is_task });
    }

    fn join(&self, mut share: TaskShare, later: TaskShare) -> TaskShare {
        share.found.items.extend(later.found.items);
        share.found.sources.extend(later.found.sources);
        share.found.omitted += later.found.omitted;
        share.found.http.started.extend(later.found.http.started);
        share.found.http.others.extend(later.found.http.others);
        share.found.http.pools.extend(later.found.http.pools);
        share
    }
}

impl AsyncObjects {
    /// Sorts the items by address and applies the limit.
    pub(in crate::runtimes::coreclr) fn sort(&mut self) {
        self.items.sort_by_key(|i| i.addr);
        [&mut self.http.started, &mut self.http.others, &mut self.http.pools].into_iter().for_each(|list| list.sort());
        self.omitted += self.items.len().saturating_sub(limits::MAX_ASYNC_OBJECTS) as u64;
        self.items.truncate(limits::MAX_ASYNC_OBJECTS);
    }
}
