//! One CoreCLR of a process, read on demand.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::{WarningCode, was_read};
use crate::facts::{FrameRow, ObjectReport, RuntimeRow, ThreadRow, ThrownRow, TimerRow, WaitRow};
use crate::map::kind_facts::Contents;
use crate::map::{Claims, Confidence, Kind};
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::fields::Fields;
use crate::runtimes::api::{
    self, ClrGc, ClrHeaps, EventSession, FinalizeQueue, LastWords, ManagedCode, ManagedRuntime, ManagedThread,
    ManagedThreads, NamedStatics, PendingTasks, Roots, RuntimeId, StackFrame, StackWalk, Structure, TypeIndex,
    TypeRole, WaitFacts,
};
use crate::runtimes::clr_gc::{Gc, finalizers, handle_at};
use crate::runtimes::coreclr::claim::read_heaps;
use crate::runtimes::coreclr::gc::{self, handles};
use crate::runtimes::coreclr::heap::{Heap, collect};
use crate::runtimes::coreclr::loader;
use crate::runtimes::coreclr::locks::{Answer, LockCollector, LockObjects, LockTable, ThreadWait, ThreadWaits};
use crate::runtimes::coreclr::pending::PendingFacts;
use crate::runtimes::coreclr::runtime::CORECLR;
use crate::runtimes::coreclr::tasks::{AsyncObjects, TaskCollector, Tasks};
use crate::runtimes::coreclr::threads::{self, Locks, ThreadTable, stack_refs};
use crate::runtimes::coreclr::{Detection, Handle, Heaps, Methods, Runtime, StackRefs, TypeSystem, detect, object};
use crate::words::GcMode;

/// One CoreCLR of a process. Heaps, types, threads, handles and code are each read on first use and stored.
pub struct CoreClr<'p> {
    process: &'p Process,
    runtime: Arc<Runtime>,
    heaps: OnceLock<(Heaps, Claims)>,
    types: OnceLock<Arc<TypeSystem<'p>>>,
    methods: OnceLock<Arc<Methods<'p>>>,
    heap: OnceLock<Heap<'p>>,
    thread_table: OnceLock<ThreadTable>,
    locks: OnceLock<(Locks, Vec<String>)>,
    lock_table: OnceLock<LockTable>,
    thread_waits: OnceLock<ThreadWaits>,
    wait_objects: OnceLock<(LockObjects, AsyncObjects)>,
    tasks: OnceLock<Tasks>,
    pending_facts: OnceLock<PendingFacts>,
    handles_warned: OnceLock<()>,
    own_structures: OnceLock<HashSet<Addr>>,
    /// Threads by the object that represents them, as text.
    thread_objects: OnceLock<HashMap<Addr, String>>,
}

impl<'p> CoreClr<'p> {
    /// Finds all runtimes that can be read. A warning says why another cannot.
    pub fn find(process: &'p Process) -> Vec<CoreClr<'p>> {
        let found = detect(process).into_iter().filter_map(|detection| match detection {
            Detection::NotMine => None,
            Detection::Unusable(why) => {
                process.diag.add(why);
                None
            }
            Detection::Found(runtime) => Some(CoreClr::new(process, *runtime)),
        });
        found.collect()
    }

    fn new(process: &'p Process, runtime: Runtime) -> CoreClr<'p> {
        CoreClr {
            process,
            runtime: Arc::new(runtime),
            heaps: OnceLock::new(),
            types: OnceLock::new(),
            methods: OnceLock::new(),
            heap: OnceLock::new(),
            thread_table: OnceLock::new(),
            locks: OnceLock::new(),
            lock_table: OnceLock::new(),
            thread_waits: OnceLock::new(),
            wait_objects: OnceLock::new(),
            tasks: OnceLock::new(),
            pending_facts: OnceLock::new(),
            handles_warned: OnceLock::new(),
            own_structures: OnceLock::new(),
            thread_objects: OnceLock::new(),
        }
    }

    pub(super) fn process(&self) -> &'p Process {
        self.process
    }

    /// The runtime's identity, layout and globals.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Access to the runtime's GC.
    pub(crate) fn gc(&self) -> Gc<'_> {
        self.runtime.gc(self.process)
    }

    /// Memory of the GC, the loader and the code manager.
    pub fn heaps(&self) -> &Heaps {
        &self.read().0
    }

    /// Like [`CoreClr::heaps`], but `None` if they were not read yet.
    pub fn heaps_if_read(&self) -> Option<&Heaps> {
        self.heaps.get().map(|(heaps, _)| heaps)
    }

    fn read(&self) -> &(Heaps, Claims) {
        self.heaps.get_or_init(|| {
            was_read("heaps");
            read_heaps(self.process, &self.runtime)
        })
    }

    /// Modules, types and method descriptors.
    pub fn types(&self) -> &Arc<TypeSystem<'p>> {
        self.types.get_or_init(|| {
            was_read("types");
            Arc::new(TypeSystem::new(self.process, self.runtime.clone()))
        })
    }

    /// Methods and their code.
    pub fn methods(&self) -> &Arc<Methods<'p>> {
        self.methods.get_or_init(|| {
            was_read("code");
            Arc::new(Methods::new(self.types().clone()))
        })
    }

    /// The heap of objects. `None` if no GC segment is known.
    pub fn object_heap(&self) -> Option<&Heap<'p>> {
        let heaps = self.heaps();
        (!heaps.segments.is_empty()).then(|| self.object_heap_or_empty())
    }

    /// The heap of objects, even if there is no segment that could contain any.
    pub fn object_heap_or_empty(&self) -> &Heap<'p> {
        self.heap.get_or_init(|| {
            was_read("objects");
            let _phase = self.process.enter(Phase::Objects);
            Heap::open(self.types().clone(), self.heaps())
        })
    }

    /// Handles by address. Problems with the handle table are reported once.
    pub fn handles(&self) -> &[Handle] {
        let (handles, notes) = handles(self.process, &self.runtime);
        self.handles_warned.get_or_init(|| self.warn("handle table", notes));
        handles
    }

    /// Exceptions that the threads threw last.
    pub fn thrown(&self) -> Vec<Addr> {
        let threads = self.thread_table().by_address.values();
        threads.filter_map(|entry| self.types().thrown_exception(&entry.thread)).map(|thrown| thrown.object).collect()
    }

    /// Threads with their explicit Frames, and other facts about them.
    fn thread_table(&self) -> &ThreadTable {
        self.thread_table.get_or_init(|| {
            was_read("marks of threads");
            ThreadTable::read(self.process, &self.runtime)
        })
    }

    /// Reads the references on thread stacks. `walk` returns a thread's frames. `own` identifies this runtime in them.
    pub fn stack_refs(&self, own: RuntimeId, walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Vec<StackRefs> {
        stack_refs(self.process, self.methods(), self.thread_table(), own, walk)
    }

    /// Roots of the objects. `stacks`: references on thread stacks.
    pub fn roots_with(&self, stacks: &[StackRefs]) -> Roots {
        self.handles();
        let roots = gc::roots(self.object_heap_or_empty(), self.heaps(), stacks);
        self.warn("roots", &roots.notes);
        roots
    }

    fn read_locks(&self) -> &(Locks, Vec<String>) {
        self.locks.get_or_init(|| Locks::read(self.process, self.types()))
    }

    /// Objects of locks and tasks, from one walk over the heap.
    fn wait_objects(&self, progress: &Progress) -> &(LockObjects, AsyncObjects) {
        self.wait_objects.get_or_init(|| {
            was_read("objects of locks and tasks");
            let heap = self.object_heap_or_empty();
            let (locks, tasks) = (LockCollector::new(heap), TaskCollector::new(heap));
            let (locks, tasks, losses) = collect(heap, &locks, &tasks, progress);
            let (mut locks, mut tasks) = (locks.found, tasks.found);
            locks.sort();
            tasks.sort();
            (locks.lost, tasks.lost) = (losses.bytes, losses.bytes);
            (locks, tasks)
        })
    }

    /// All locks that are held or waited for.
    pub fn lock_table(&self) -> &LockTable {
        self.lock_table.get_or_init(|| {
            let _phase = self.process.enter(Phase::Locks);
            let (found, _) = self.wait_objects(&Progress::silent());
            LockTable::read(self.process, self.object_heap_or_empty(), found)
        })
    }

    /// All pending tasks and async methods.
    pub fn tasks(&self, progress: &Progress) -> &Tasks {
        self.tasks.get_or_init(|| {
            let _phase = self.process.enter(Phase::Tasks);
            let (_, found) = self.wait_objects(progress);
            let semaphores = self.lock_table().semaphores.iter();
            let owners = semaphores.flat_map(|slim| slim.queue.iter().map(|&node| (node, slim.address))).collect();
            Tasks::link(self.object_heap_or_empty(), found, &owners)
        })
    }

    pub(super) fn pending_facts(&self) -> &PendingFacts {
        self.pending_facts.get_or_init(PendingFacts::default)
    }

    fn thread_waits(&self) -> &ThreadWaits {
        self.thread_waits.get_or_init(|| ThreadWaits::read(self.process, self.types()))
    }

    /// Whether all locks are objects, so that the heap has their waiters (.NET 11 on).
    pub fn has_managed_locks(&self) -> bool {
        self.runtime.has_managed_locks()
    }

    /// Warns that answers are incomplete, once per note.
    pub fn warn<'n>(&self, what: &str, notes: impl IntoIterator<Item = &'n String>) {
        for note in notes {
            self.process.diag.partial(WarningCode::Heap, format!("{}: {what}: {note}", self.runtime.name()));
        }
    }
}

impl ManagedRuntime for CoreClr<'_> {
    fn row(&self) -> RuntimeRow {
        let runtime = &self.runtime;
        let heaps = self.heaps_if_read().filter(|heaps| !heaps.segments.is_empty());
        RuntimeRow {
            name: ".NET".into(),
            version: Some(runtime.version.clone()),
            module: printable(&runtime.path).into_owned(),
            base: runtime.base,
            gc: heaps.map(|heaps| if heaps.server { "server" } else { "workstation" }),
            layout_source: format!(
                "{}; {}; version from {}",
                runtime.layout_source, runtime.globals.source, runtime.version_source
            ),
        }
    }

    fn read_names(&self) {
        let types = self.types();
        for module in types.loaded_modules() {
            types.module(module);
        }
    }

    fn label(&self) -> String {
        self.runtime.name()
    }

    fn claim(&self, claims: &mut Claims) {
        self.read().1.iter().for_each(|claim| claims.add(claim.clone()));
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        self.object_heap().map(|heap| heap as &dyn api::Heap)
    }

    fn code(&self) -> &dyn ManagedCode {
        &**self.methods()
    }

    fn threads(&self) -> &ManagedThreads {
        &self.thread_table().threads
    }

    fn roots(&self, own: RuntimeId, walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        self.roots_with(&self.stack_refs(own, walk))
    }

    fn named_statics(&self) -> NamedStatics {
        self.all_statics()
    }

    fn type_role(&self, kind: TypeIndex) -> TypeRole {
        self.role_of_type(kind)
    }

    fn wait_facts(&self) -> Option<&dyn WaitFacts> {
        Some(self)
    }

    fn elements_note(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        self.note_on(kind, elements)
    }

    fn last_words(&self) -> Option<&dyn LastWords> {
        Some(self)
    }

    fn object(&self, addr: Addr) -> Option<ObjectReport> {
        object::object(self, addr)
    }

    fn structure(&self, addr: Addr, kind: Kind) -> Option<Structure> {
        // The map does not name a segment that is only partly in the core.
        let may_be_handle = kind == Kind::HandleTable || kind == Kind::AnonRW;
        let has_descriptors = kind != Kind::HandleTable
            && match kind.facts().contents {
                Contents::Nothing | Contents::Blocks | Contents::Objects | Contents::FreeHeap | Contents::Frames => {
                    false
                }
                Contents::Unclaimed
                | Contents::File
                | Contents::Program
                | Contents::LoaderHeap
                | Contents::Stubs
                | Contents::Structures
                | Contents::Unwalked => true,
            };
        let handle = if may_be_handle { handle_at(CoreClr::handles(self), addr) } else { None };
        handle.or_else(|| if has_descriptors { self.types().descriptor_at(addr) } else { None })
    }

    fn represents(&self, object: Addr) -> Option<String> {
        let named = || {
            let threads = self.thread_table().by_address.values().map(|entry| &entry.thread);
            let of = |thread: &threads::ManagedThread| {
                let object = self.process.memory.ptr(thread.exposed_object?).ok().filter(|o| !o.is_null())?;
                let tid = thread.os_id.filter(|&id| id != 0).map(|id| format!("thread {id}"))?;
                let name = self.types().thread_name(thread).filter(|name| !name.is_empty());
                Some((object, name.map_or_else(|| tid.clone(), |name| format!("{tid} \"{}\"", printable(&name)))))
            };
            threads.filter_map(of).collect()
        };
        self.thread_objects.get_or_init(named).get(&object).cloned()
    }

    fn timers(&self) -> Option<Vec<TimerRow>> {
        self.read_timers()
    }

    fn is_own_structure(&self, at: Addr) -> bool {
        let read = || {
            let (memory, types) = (&self.process.memory, self.types());
            // An object represents a DomainAssembly up to .NET 8, then its Assembly.
            let assemblies = loader::domain_assemblies(memory, &self.runtime).unwrap_or_default();
            let modules = types.loaded_modules();
            let of_modules = modules.iter().filter_map(|&module| types.view("Module", module).ptr("Assembly").ok());
            let threads = self.thread_table().by_address.keys().copied();
            threads.chain(of_modules).chain(assemblies).chain(modules.iter().copied()).collect()
        };
        self.own_structures.get_or_init(read).contains(&at)
    }

    fn image(&self) -> Option<AddrRange> {
        let module = self.process.modules.iter().find(|module| module.range.start == self.runtime.base)?;
        (module.name() == CORECLR).then_some(module.range)
    }

    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        let Some(entry) = self.thread_table().by_address.get(&thread.address) else { return };
        let (types, thread) = (self.types(), &entry.thread);
        row.managed_id = thread.managed_id;
        row.managed_name = types.thread_name(thread).map(|name| printable(&name).into_owned());
        row.state = thread.state.map(|bits| threads::state(&self.runtime, bits));
        row.gc_mode = thread.cooperative.map(|yes| if yes { GcMode::Cooperative } else { GcMode::Preemptive });
        row.exception = types.thrown_exception(thread).map(|e| ThrownRow {
            r#type: printable(&e.type_name).into_owned(),
            address: e.object,
            message: None,
        });
    }

    fn role(
        &self,
        thread: Option<&ManagedThread>,
        row: &ThreadRow,
        frames: &[FrameRow],
    ) -> Option<(&'static str, Confidence)> {
        let entry = thread.and_then(|thread| self.thread_table().by_address.get(&thread.address));
        threads::role(self.process, &self.runtime, entry, row, frames)
    }

    fn anatomy(&self) -> Option<&dyn Anatomy> {
        Some(self)
    }

    fn fields(&self) -> Option<&dyn Fields> {
        Some(self)
    }

    fn clr_gc(&self) -> Option<&dyn ClrGc> {
        Some(self)
    }

    fn locks(&self) -> Option<&dyn api::Locks> {
        Some(self)
    }

    fn pending_tasks(&self) -> Option<&dyn PendingTasks> {
        Some(self)
    }

    fn event_sessions(&self) -> &[EventSession] {
        &CoreClr::heaps(self).events
    }

    fn stack_size_advice(&self) -> Option<&'static str> {
        Some(
            "The size is set by `ulimit -s`, or for .NET threads by DOTNET_DefaultStackSize (hexadecimal: 180000 means \
             1.5 MiB), which is not set or not visible here.",
        )
    }
}

impl ClrGc for CoreClr<'_> {
    fn heaps(&self) -> ClrHeaps<'_> {
        let Heaps { segments, free, server, regions, in_gc, .. } = CoreClr::heaps(self);
        ClrHeaps { segments, free: *free, server: *server, regions: *regions, in_gc: *in_gc }
    }

    fn objects(&self) -> Option<&dyn api::Heap> {
        Some(CoreClr::object_heap_or_empty(self))
    }

    fn handles(&self) -> &[Handle] {
        CoreClr::handles(self)
    }

    fn finalizers(&self) -> Vec<FinalizeQueue> {
        let heaps = CoreClr::heaps(self);
        let (queues, notes) = finalizers::read(self.gc(), heaps.server, &heaps.segments);
        self.warn("finalizers", &notes);
        queues
    }
}

impl api::Locks for CoreClr<'_> {
    fn wait(&self, thread: &ManagedThread, frames: &[StackFrame]) -> Option<WaitRow> {
        let (types, thread) = (self.types(), &self.thread_table().by_address.get(&thread.address)?.thread);
        let row = |wait: &ThreadWait| threads::row_of(types, wait, thread);
        match self.thread_waits().of(self.process, types, thread, frames) {
            Answer::Wait(wait) => return Some(row(&wait)),
            Answer::NeedsWalk(otherwise) => {
                let found = self.lock_table().wait(thread.address);
                return found.or(otherwise).map(|wait| row(&wait));
            }
            Answer::Unknown => {}
        }
        // Before .NET 9, and where the thread's own records are not in the core.
        if self.has_managed_locks() { None } else { self.read_locks().0.wait(self.methods(), thread, frames) }
    }

    fn notes(&self) -> &[String] {
        if self.has_managed_locks() { &self.thread_waits().notes } else { &self.read_locks().1 }
    }
}
