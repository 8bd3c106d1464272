//! The thread pool: its queues and workers, from statics of the core library.
//!
//! Sources: System.Private.CoreLib: ThreadPoolWorkQueue.cs (ThreadPoolWorkQueue, WorkStealingQueue,
//! ThreadPoolWorkQueueThreadLocals), ConcurrentQueueSegment.cs, PortableThreadPool.ThreadCounts.cs.

use std::sync::atomic::AtomicU64;

use crate::addr::Addr;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::coreclr::locks::Objects;
use crate::runtimes::coreclr::threads;
use crate::runtimes::coreclr::types::{FieldStorage, TypeSystem};

const POOL: &str = "System.Threading.ThreadPool";
const STEALING: &str = "System.Threading.ThreadPoolWorkQueue+WorkStealingQueueList";
const LOCALS: &str = "System.Threading.ThreadPoolWorkQueueThreadLocals";
const PORTABLE: &str = "System.Threading.PortableThreadPool";

/// Queues of a ThreadPoolWorkQueue that all workers share, by version.
const SHARED: [&str; 3] = ["highPriorityWorkItems", "workItems", "lowPriorityWorkItems"];

/// PortableThreadPool.ThreadCounts: the number of threads that run work, and of all threads.
const COUNT: u64 = 0xffff;
const EXISTING_SHIFT: u32 = 16;

/// Offsets in an array: the count of its elements, and the first element.
const LENGTH: u64 = 8;
const DATA: u64 = 16;

/// The thread pool.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct Pool {
    /// The PortableThreadPool.
    pub(in crate::runtimes::coreclr) address: Option<Addr>,
    /// Items of all queues, each once. `None` if the queues could not be read.
    pub(in crate::runtimes::coreclr) items: Option<Vec<Addr>>,
    pub(in crate::runtimes::coreclr) workers: Option<u32>,
    pub(in crate::runtimes::coreclr) busy: Option<u32>,
    pub(in crate::runtimes::coreclr) min_workers: Option<u32>,
    pub(in crate::runtimes::coreclr) max_workers: Option<u32>,
    /// Threads that are workers, by system id.
    pub(in crate::runtimes::coreclr) tids: Vec<u32>,
}

impl Pool {
    /// Reads the pool. `None` if the program has not used it, or if the core library has no metadata here.
    pub(in crate::runtimes::coreclr) fn read(process: &Process, types: &TypeSystem<'_>) -> Option<Pool> {
        let reader = Reader {
            types,
            objects: Objects::new(types, None),
            walks: Walks::new(Phase::Tasks, limits::MAX_ASYNC_STEPS),
            left: AtomicU64::new(limits::MAX_ASYNC_STEPS as u64),
        };
        let queue = reader.static_object(POOL, "s_workQueue");
        let portable = reader.static_object(PORTABLE, "ThreadPoolInstance");
        if queue.is_none() && portable.is_none() {
            return None;
        }
        let counts = portable.and_then(|at| reader.counts(at));
        let half = |count: u64| (count & COUNT) as u32;
        let limit = |name| reader.objects.u16(portable?, name).map(u32::from);
        Some(Pool {
            address: portable,
            items: queue.map(|queue| reader.items(queue)),
            workers: counts.map(|counts| half(counts >> EXISTING_SHIFT)),
            busy: counts.map(half),
            min_workers: limit("_minThreads"),
            max_workers: limit("_maxThreads"),
            tids: reader.workers(process),
        })
    }
}

/// Address of a static field of a class of the core library.
pub(in crate::runtimes::coreclr) fn core_static_address(
    types: &TypeSystem<'_>,
    class: &str,
    field: &str,
) -> Option<Addr> {
    let own = types.own_fields(types.core_class(class)?).ok()?;
    let named = own.iter().find(|f| f.storage == FieldStorage::Static && types.field_name(f) == field)?;
    types.static_address(named)
}

struct Reader<'t, 'p> {
    types: &'t TypeSystem<'p>,
    objects: Objects<'t, 'p>,
    walks: Walks,
    /// Remaining elements of arrays.
    left: AtomicU64,
}

impl Reader<'_, '_> {
    fn static_object(&self, class: &str, field: &str) -> Option<Addr> {
        let at = core_static_address(self.types, class, field)?;
        self.types.memory.ptr(at).ok().filter(|at| !at.is_null())
    }

    /// PortableThreadPool._separated.counts.
    fn counts(&self, pool: Addr) -> Option<u64> {
        let types = self.types;
        let method_table = types.type_of(pool)?;
        let fields = types.object_fields(method_table);
        let separated = fields.iter().find(|f| types.field_name(f) == "_separated")?;
        let inner = types.field_struct(separated, &types.scope_of(method_table))?;
        let own = types.own_fields(inner.method_table).ok()?;
        let counts = own.iter().find(|f| types.field_name(f) == "counts")?;
        types.memory.u64(pool.checked_add(separated.offset)?.checked_add(counts.offset)?).ok()
    }

    fn items(&self, queue: Addr) -> Vec<Addr> {
        let mut out = Vec::new();
        for field in SHARED {
            if let Some(shared) = self.objects.reference(queue, field) {
                self.concurrent(shared, &mut out);
            }
        }
        for shared in
            self.objects.reference(queue, "_assignableWorkItemQueues").map_or_else(Vec::new, |a| self.array(a))
        {
            self.concurrent(shared, &mut out);
        }
        for own in self.static_object(STEALING, "_queues").map_or_else(Vec::new, |a| self.array(a)) {
            let Some(array) = self.objects.reference(own, "m_array") else { continue };
            // Slots of items that were taken are null.
            out.extend(self.array(array));
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Items of a ConcurrentQueue: of each segment the slots that are not empty.
    fn concurrent(&self, queue: Addr, out: &mut Vec<Addr>) {
        let objects = &self.objects;
        let first = objects.reference(queue, "_head").unwrap_or(Addr::NULL);
        let end = self.walks.begin_own_set().follow(first, |segment| {
            if let Some(slots) = objects.reference(segment, "_slots") {
                out.extend(self.array(slots));
            }
            Ok::<_, std::convert::Infallible>(objects.reference(segment, "_nextSegment").unwrap_or(Addr::NULL))
        });
        // If the list is damaged, use the elements before the damage.
        end.ok();
    }

    /// The first reference of each element of an array that is not null: an element, or a structure's first field.
    fn array(&self, array: Addr) -> Vec<Addr> {
        let memory = self.types.memory;
        let mut out = Vec::new();
        let size = self.types.type_of(array).and_then(|mt| self.types.view("MethodTable", mt).u32("MTFlags").ok());
        // The low half of the flags of an array is the size of its elements.
        let size = u64::from(size.unwrap_or(0) & 0xffff);
        let count = memory.u32(array.saturating_add(LENGTH)).unwrap_or(0);
        for i in 0..u64::from(count) {
            if size < 8 || self.left.fetch_update(RELAXED, RELAXED, |left| left.checked_sub(1)).is_err() {
                break;
            }
            let Ok(item) = memory.ptr(array.saturating_add(DATA + size * i)) else { break };
            out.extend(Some(item).filter(|item| !item.is_null()));
        }
        out
    }

    /// Threads that have a queue of their own: those of the pool.
    fn workers(&self, process: &Process) -> Vec<u32> {
        let types = self.types;
        let own = types.core_class(LOCALS).and_then(|class| types.own_fields(class).ok()).unwrap_or_default();
        let Some(field) = own.iter().find(|f| types.field_name(f) == "threadLocals") else { return Vec::new() };
        let (list, _) = threads(process, &types.runtime).unwrap_or_default();
        let has = |address| {
            let at = types.thread_static_address(field, address)?;
            types.memory.ptr(at).ok().filter(|locals| !locals.is_null())
        };
        list.iter()
            .filter(|thread| has(thread.address).is_some())
            .filter_map(|t| t.os_id.filter(|&id| id != 0))
            .collect()
    }
}

const RELAXED: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;
