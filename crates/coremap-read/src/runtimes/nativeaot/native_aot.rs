//! One NativeAOT runtime of a process, read on demand.

use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::diag::{WarningCode, was_read};
use crate::facts::{ObjectReport, RuntimeRow, ThreadRow, ThrownRow, WaitRow};
use crate::map::{Claims, Confidence, Kind};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::{
    self, AsyncFunctions, AsyncTask, AsyncTasks, ClrGc, ClrHeaps, EventSession, ExceptionList, FinalizeQueue, Handle,
    LastWords, ListedException, ListedLock, LockList, Locks, ManagedCode, ManagedRuntime, ManagedThread,
    ManagedThreads, NamedStatics, OutOfMemory, OwnEnd, Roots, RuntimeId, StackFrame, StackWalk, Structure, TypeIndex,
    TypeRole,
};
use crate::runtimes::clr_gc::{self, GcHeap, finalizers, handle_at, type_role};
use crate::runtimes::nativeaot::claim::Heaps;
use crate::runtimes::nativeaot::code::Code;
use crate::runtimes::nativeaot::exceptions::{self, CrashInfo};
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::locks::LockTable;
use crate::runtimes::nativeaot::naming::Names;
use crate::runtimes::nativeaot::runtime::{Detection, Runtime, detect};
use crate::runtimes::nativeaot::threads::{AotThread, Threads};
use crate::runtimes::nativeaot::threads_objects::ThreadObjects;
use crate::runtimes::nativeaot::{object, roots, tasks};
use crate::units::exact;
use crate::words::GcMode;

/// The runtime's text about the end of the process.
const CRASH_EVIDENCE: &str = "the runtime's own text about the crash (g_CrashInfoBuffer)";

/// Type of the exception for a failed allocation.
const OUT_OF_MEMORY: &str = "System.OutOfMemoryException";

/// One NativeAOT runtime. Each part is read on first use and stored.
pub struct NativeAot<'p> {
    runtime: Arc<Runtime<'p>>,
    names: Arc<Names<'p>>,
    code: Code<'p>,
    heaps: OnceLock<Heaps>,
    /// Handles by address, and whether some could not be read.
    handles: OnceLock<(Vec<Handle>, bool)>,
    heap: OnceLock<Heap<'p>>,
    threads: OnceLock<Arc<Threads>>,
    thread_objects: OnceLock<ThreadObjects>,
    locks: OnceLock<LockTable>,
    crash: OnceLock<Option<CrashInfo>>,
}

impl<'p> NativeAot<'p> {
    /// Finds all runtimes that can be read. A warning says why another cannot.
    pub fn find(process: &'p Process) -> Vec<NativeAot<'p>> {
        let found = detect(process).into_iter().filter_map(|detection| match detection {
            Detection::Unusable(why) => {
                process.diag.add(why);
                None
            }
            Detection::Found(runtime) => {
                let runtime = Arc::new(*runtime);
                let names = Arc::new(Names::new(runtime.clone()));
                Some(NativeAot {
                    code: Code::new(names.clone()),
                    names,
                    runtime,
                    heaps: OnceLock::new(),
                    handles: OnceLock::new(),
                    heap: OnceLock::new(),
                    threads: OnceLock::new(),
                    thread_objects: OnceLock::new(),
                    locks: OnceLock::new(),
                    crash: OnceLock::new(),
                })
            }
        });
        found.collect()
    }

    /// The runtime's module, layout and globals.
    pub fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    fn heaps(&self) -> &Heaps {
        self.heaps.get_or_init(|| {
            was_read("heaps");
            let heaps = Heaps::read(&self.runtime);
            heaps.notes.iter().for_each(|note| self.warn(note));
            heaps
        })
    }

    /// Segments and regions of the GC.
    fn gc(&self) -> &GcHeap {
        &self.heaps().gc
    }

    /// Handles by address.
    pub fn handles(&self) -> &[Handle] {
        &self.all_handles().0
    }

    fn all_handles(&self) -> &(Vec<Handle>, bool) {
        self.handles.get_or_init(|| {
            let segments = &self.heaps().handles;
            let (handles, notes) = clr_gc::handles_in(self.runtime.process, self.runtime.gc(), segments);
            // A broken list of segments was reported when the segments were read.
            let segments_note = segments.1.as_ref().map(ToString::to_string);
            notes.iter().filter(|note| Some(*note) != segments_note.as_ref()).for_each(|note| self.warn(note));
            (handles, !notes.is_empty())
        })
    }

    /// The heap of objects. `None` if no GC segment is known.
    pub fn objects(&self) -> Option<&Heap<'p>> {
        let heaps = self.heaps();
        if heaps.gc.segments.is_empty() {
            return None;
        }
        Some(self.heap.get_or_init(|| {
            was_read("objects");
            let (threads, handles) = (self.all_threads(), self.handles());
            let _phase = self.runtime.process.enter(Phase::Objects);
            Heap::open(self.names.clone(), &heaps.gc, threads.clone(), handles)
        }))
    }

    fn all_threads(&self) -> &Arc<Threads> {
        self.threads.get_or_init(|| {
            was_read("marks of threads");
            Arc::new(Threads::read(&self.runtime))
        })
    }

    /// The heap, if types have names. Objects of the library are found by these.
    fn named_heap(&self) -> Option<&Heap<'p>> {
        self.objects().filter(|heap| heap.census().named)
    }

    /// Warns if objects of the library are missing.
    fn warn_of_census(&self) {
        let Some(census) = self.named_heap().map(Heap::census) else { return };
        if census.lost > 0 {
            self.warn(&format!("{} bytes of the heap could not be walked", exact(census.lost)));
        }
        if census.omitted > 0 {
            let why = format!("{}: {} objects of the library are not read", self.label(), exact(census.omitted));
            self.runtime.process.diag.partial(WarningCode::Limit, why);
        }
    }

    fn thread_objects(&self) -> &ThreadObjects {
        self.thread_objects.get_or_init(|| {
            let read = |heap: &Heap<'p>| ThreadObjects::read(heap, heap.census(), self.all_threads());
            self.named_heap().map(read).unwrap_or_default()
        })
    }

    fn lock_table(&self) -> &LockTable {
        self.locks.get_or_init(|| {
            was_read("locks");
            let read = |heap: &Heap<'p>| LockTable::read(heap, heap.census(), self.thread_objects());
            self.warn_of_census();
            self.named_heap().map(read).unwrap_or_default()
        })
    }

    /// What the runtime wrote before it ended the process.
    pub(super) fn crash_info(&self) -> Option<&CrashInfo> {
        self.crash.get_or_init(|| CrashInfo::read(&self.runtime)).as_ref()
    }

    /// The runtime's thread at an address.
    fn thread_at(&self, address: Addr) -> Option<&AotThread> {
        let threads = self.all_threads();
        threads.by_address.get(&address).and_then(|&i| threads.all.get(i))
    }

    /// Warns that answers are incomplete.
    fn warn(&self, note: &str) {
        self.runtime.process.diag.partial(WarningCode::Nativeaot, format!("{}: {note}", self.runtime.name()));
    }
}

impl ManagedRuntime for NativeAot<'_> {
    fn row(&self) -> RuntimeRow {
        let heaps = self.heaps.get().filter(|heaps| !heaps.gc.segments.is_empty());
        let said = self.runtime.version.as_deref().map(|version| (version, "its descriptor"));
        let (version, from) = match (said.or_else(|| self.names.version()), self.runtime.release) {
            (Some((version, from)), _) => (Some(version.to_owned()), format!("; version from {from}")),
            (None, Some(release)) => {
                (Some(release.to_owned()), "; version from the form of its description".to_owned())
            }
            (None, None) => (None, String::new()),
        };
        RuntimeRow {
            name: "NativeAOT".into(),
            version,
            module: printable(&self.runtime.path).into_owned(),
            base: self.runtime.range.start,
            gc: heaps.map(|heaps| if heaps.gc.server { "server" } else { "workstation" }),
            layout_source: format!("{}{from}", self.runtime.source),
        }
    }

    fn label(&self) -> String {
        self.runtime.name()
    }

    fn claim(&self, claims: &mut Claims) {
        self.heaps().claim(&self.runtime, claims);
    }

    /// Tasks are found by the names of their types.
    fn async_functions(&self) -> AsyncFunctions<'_> {
        self.named_heap().map_or(AsyncFunctions::Unread, |_| AsyncFunctions::Tasks(self))
    }

    fn named_statics(&self) -> NamedStatics {
        self.objects().map_or_else(NamedStatics::default, |heap| heap.all_statics().named(heap))
    }

    fn type_role(&self, kind: TypeIndex) -> TypeRole {
        self.heap().map_or(TypeRole::Program, |heap| type_role(&heap.type_name(kind)))
    }

    fn locks(&self) -> Option<&dyn Locks> {
        Some(self)
    }

    fn last_words(&self) -> Option<&dyn LastWords> {
        Some(self)
    }

    fn lock_list(&self) -> Option<&dyn LockList> {
        Some(self)
    }

    fn exception_list(&self) -> Option<&dyn ExceptionList> {
        Some(self)
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        self.objects().map(|heap| heap as &dyn api::Heap)
    }

    fn code(&self) -> &dyn ManagedCode {
        &self.code
    }

    fn threads(&self) -> &ManagedThreads {
        &self.all_threads().managed
    }

    fn roots(&self, _own: RuntimeId, _walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        let Some(heap) = self.objects() else { return Roots::default() };
        let (handles, broken) = self.all_handles();
        let roots = roots::roots(heap, self.heaps(), (handles, *broken), self.all_threads());
        roots.notes.iter().for_each(|note| self.warn(note));
        roots
    }

    fn anatomy(&self) -> Option<&dyn Anatomy> {
        Some(self)
    }

    fn clr_gc(&self) -> Option<&dyn ClrGc> {
        Some(self)
    }

    fn event_sessions(&self) -> &[EventSession] {
        &self.heaps().events
    }

    fn object(&self, addr: Addr) -> Option<ObjectReport> {
        object::object(self, addr)
    }

    fn structure(&self, addr: Addr, kind: Kind) -> Option<Structure> {
        if kind == Kind::HandleTable {
            return handle_at(NativeAot::handles(self), addr);
        }
        // Types are in the program file.
        if kind != Kind::Image {
            return None;
        }
        let name = self.names.known(addr)?;
        let module = crate::image::file_name(&self.runtime.path).to_owned();
        Some(Structure::Descriptor { kind: "MethodTable", name, module })
    }

    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        let Some(known) = self.thread_at(thread.address) else { return };
        row.gc_mode = known.cooperative.map(|yes| if yes { GcMode::Cooperative } else { GcMode::Preemptive });
        row.exception = known.exception.and_then(|object| {
            let heap = self.objects()?;
            let (name, _) = api::ObjectNames::new(heap).object(object)?;
            Some(ThrownRow {
                r#type: name.to_string(),
                address: object,
                message: heap.text("AotException", object, "_message"),
            })
        });
        if let Some(object) = known.tid.and_then(|tid| self.thread_objects().with_tid(tid)) {
            row.managed_id = Some(object.id).filter(|id| *id != 0);
            row.managed_name = object.name.as_deref().map(|name| printable(name).into_owned());
        }
    }
}

impl Locks for NativeAot<'_> {
    fn wait(&self, thread: &ManagedThread, _frames: &[StackFrame]) -> Option<WaitRow> {
        let tid = self.thread_at(thread.address)?.tid?;
        let wait = self.lock_table().waits.get(&tid)?;
        let owner = wait.owner.as_ref();
        Some(WaitRow {
            kind: wait.kind,
            object: wait.object,
            r#type: self.objects().and_then(|heap| heap.name_at(wait.object)),
            owner_tid: owner.and_then(|owner| owner.tid),
            owner_managed_id: owner.and_then(|owner| owner.managed_id),
            how: "owners and wait lists in the heap",
            confidence: Confidence::Exact,
            ..WaitRow::default()
        })
    }
}

impl LastWords for NativeAot<'_> {
    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory> {
        let end = self.crash_info()?;
        let is_it = end.exception.as_ref().is_some_and(|(name, _)| name == OUT_OF_MEMORY) && !end.fail_fast;
        (is_it && end.tid == Some(thread.tid)).then(|| OutOfMemory {
            what: "the managed heap is exhausted, unhandled OutOfMemoryException".to_owned(),
            evidence: CRASH_EVIDENCE,
        })
    }

    fn own_end(&self) -> Option<OwnEnd> {
        let end = self.crash_info()?;
        Some(OwnEnd {
            tid: end.tid,
            call: end.fail_fast.then_some("Environment.FailFast"),
            message: end.message.clone().filter(|_| end.fail_fast),
            exception: end.exception.clone(),
            stack: end.stack.clone(),
            evidence: CRASH_EVIDENCE,
        })
    }
}

impl LockList for NativeAot<'_> {
    fn listed_locks(&self) -> Option<&[ListedLock]> {
        self.named_heap().map(|_| self.lock_table().locks.as_slice())
    }
}

impl ExceptionList for NativeAot<'_> {
    fn listed_exceptions(&self) -> Option<(Vec<ListedException>, u64)> {
        let heap = self.named_heap()?;
        self.warn_of_census();
        Some(exceptions::list(heap, heap.census()))
    }
}

impl AsyncTasks for NativeAot<'_> {
    fn each(&self, visit: &mut dyn FnMut(AsyncTask)) {
        let Some(heap) = self.named_heap() else { return };
        self.warn_of_census();
        let _phase = self.runtime.process.enter(Phase::Tasks);
        tasks::each(heap, heap.census(), &self.code, visit);
    }
}

impl ClrGc for NativeAot<'_> {
    fn heaps(&self) -> ClrHeaps<'_> {
        let gc = self.gc();
        let GcHeap { segments, server, regions, in_gc, .. } = gc;
        ClrHeaps { segments, free: gc.free_bytes(), server: *server, regions: *regions, in_gc: *in_gc }
    }

    fn objects(&self) -> Option<&dyn api::Heap> {
        self.heap()
    }

    fn handles(&self) -> &[Handle] {
        NativeAot::handles(self)
    }

    fn finalizers(&self) -> Vec<FinalizeQueue> {
        let gc = self.gc();
        let (queues, notes) = finalizers::read(self.runtime.gc(), gc.server, &gc.segments);
        notes.iter().for_each(|note| self.warn(note));
        queues
    }
}
